package quick

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newVM(t *testing.T, o Options) *VM {
	vm, err := New(o)
	require.NoError(t, err)
	t.Cleanup(vm.Close)
	return vm
}

// countingClock returns a clock that advances by a millisecond each time it is read. A turn of 50
// ms then lasts for 50 checks of the engine, independent of the speed of the machine.
func countingClock() func() time.Duration {
	var now time.Duration
	return func() time.Duration {
		now += time.Millisecond
		return now
	}
}

// eval evaluates a script and returns the result as a Go value.
func eval(t *testing.T, vm *VM, source string) any {
	v, err := vm.Eval("test.js", source, false)
	require.NoError(t, err)
	defer v.Free()
	x, err := vm.toGo(v.v)
	require.NoError(t, err)
	return x
}

func TestValuesCross(t *testing.T) {
	vm := newVM(t, Options{})
	f, err := vm.Eval("id.js", "(x) => x", false)
	require.NoError(t, err)
	defer f.Free()
	for _, x := range []any{nil, true, false, 0.0, 1.0, -7.5, 1e300, "", "häßlich 😀\x00 ende", []byte{}, []byte{0, 1, 255}} {
		got, err := f.Call(x)
		require.NoError(t, err)
		require.Equal(t, x, got)
	}
	require.Equal(t, JSON(`{"a":[1,"ü"]}`), eval(t, vm, `({a:[1,"ü"]})`))
	got, err := f.Call(Mixed{Value: map[string]int{"code": 1}, Bytes: map[string][]byte{"out": {1, 2}}})
	require.NoError(t, err)
	require.Equal(t, JSON(`["{\"code\":1}","out",{"0":1,"1":2}]`), got)
	require.Equal(t, []byte("bc"), eval(t, vm, `new Uint8Array([97,98,99,100]).subarray(1,3)`))
	require.Equal(t, "\uFFFD", eval(t, vm, `"😀"[0]`), "half a pair")
}

func TestHostFunctions(t *testing.T) {
	vm := newVM(t, Options{})
	var got []any
	f := vm.Func(func(args []any) (any, error) {
		got = args
		if len(args) == 0 {
			return nil, &Error{Message: "no arguments"}
		}
		return "ok", nil
	})
	defer f.Free()
	call, err := vm.Eval("t.js", `(host) => { try { host() } catch (e) { return host(typeof e, e, {x: 1}, new Uint8Array([9])) } }`, false)
	require.NoError(t, err)
	defer call.Free()
	r, err := call.Call(f)
	require.NoError(t, err)
	require.Equal(t, "ok", r)
	require.Equal(t, []any{"string", "no arguments", JSON(`{"x":1}`), []byte{9}}, got)
}

// TestPanicOfHost checks that a panic of a host function is passed to the Go caller without
// unwinding the engine, and that the VM can still be used.
func TestPanicOfHost(t *testing.T) {
	vm := newVM(t, Options{})
	f := vm.Func(func([]any) (any, error) { panic("boom") })
	defer f.Free()
	call, err := vm.Eval("t.js", `(host) => { try { host() } catch { } finally { globalThis.after = 1 } }`, false)
	require.NoError(t, err)
	defer call.Free()
	require.PanicsWithError(t, "in a host function: boom", func() { _, _ = call.Call(f) })
	require.Equal(t, "undefined", eval(t, vm, "typeof after"))
	require.Equal(t, 3.0, eval(t, vm, "1+2"))
}

func TestErrorsNameFileAndLine(t *testing.T) {
	vm := newVM(t, Options{})
	_, err := vm.Eval("dir/a.js", "let x = 1;\nfunction outer() { x.y.z }\nouter()", false)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "TypeError", e.Name)
	require.Contains(t, e.Stack, "at outer (dir/a.js:2:")
	_, err = vm.Eval("b.js", "let = = 3", false)
	require.ErrorAs(t, err, &e)
	require.Equal(t, "SyntaxError", e.Name)
	require.Contains(t, e.Stack, "b.js:1:")
	_, err = vm.Eval("c.js", "throw 'text'", false)
	require.EqualError(t, err, "text")
	_, err = vm.Eval("d.js", "throw {toString() { throw 1 }}", false)
	require.EqualError(t, err, "an error that has no text")
}

func TestEndlessLoopIsInterrupted(t *testing.T) {
	for name, source := range map[string]string{
		"loop":  `for (;;) try { for (;;); } catch {} finally { }`,
		"regex": `/(a*)*b/.test("a".repeat(40))`,
		"sort":  `Array.from({length: 1e8}, (_, i) => -i).sort()`,
	} {
		t.Run(name, func(t *testing.T) {
			vm := newVM(t, Options{Turn: 50 * time.Millisecond, Clock: countingClock()})
			_, err := vm.Eval("t.js", source, false)
			require.ErrorContains(t, err, "interrupted")
			require.True(t, vm.Interrupted())
			require.False(t, vm.Interrupted())
			require.Equal(t, 3.0, eval(t, vm, "1+2"), "the next turn is a new one")
		})
	}
}

func TestEndlessJobsAreInterrupted(t *testing.T) {
	vm := newVM(t, Options{Turn: 50 * time.Millisecond, Clock: countingClock()})
	eval(t, vm, `const again = () => Promise.resolve().then(again); again(); 1`)
	vm.Jobs()
	require.True(t, vm.Interrupted())
	vm.Jobs()
	require.True(t, vm.Interrupted(), "the queue is never empty")
}

func TestInterruptFromOutside(t *testing.T) {
	vm := newVM(t, Options{})
	f := vm.Func(func([]any) (any, error) { vm.Interrupt(); return nil, nil })
	defer f.Free()
	call, err := vm.Eval("t.js", `(host) => { host(); for (;;); }`, false)
	require.NoError(t, err)
	defer call.Free()
	_, err = call.Call(f)
	require.ErrorContains(t, err, "interrupted")
}

// TestClock checks that a VM without Options.Clock measures turns with the monotonic clock.
func TestClock(t *testing.T) {
	vm := newVM(t, Options{Turn: time.Millisecond})
	_, err := vm.Eval("t.js", `for (;;);`, false)
	require.ErrorContains(t, err, "interrupted")
}

// TestTurnsWithinTurns checks that a script called by a host function is bounded by the turn of the
// outer script.
func TestTurnsWithinTurns(t *testing.T) {
	vm := newVM(t, Options{Turn: 50 * time.Millisecond, Clock: countingClock()})
	f := vm.Func(func([]any) (any, error) {
		return vm.Eval("inner.js", "(x) => x + 1", false)
	})
	defer f.Free()
	call, err := vm.Eval("t.js", `(host) => { const inc = host(); if (inc(1) !== 2) throw 1; for (;;); }`, false)
	require.NoError(t, err)
	defer call.Free()
	_, err = call.Call(f)
	require.ErrorContains(t, err, "interrupted")
}

// TestExtend checks that Extend adds the time used by a host function to the turn.
func TestExtend(t *testing.T) {
	vm := newVM(t, Options{Turn: 20 * time.Millisecond, Clock: countingClock()})
	f := vm.Func(func([]any) (any, error) {
		before := vm.deadline.Load()
		vm.Extend(time.Hour)
		return time.Duration(vm.deadline.Load()-before) == time.Hour, nil
	})
	defer f.Free()
	got, err := f.Call()
	require.NoError(t, err)
	require.Equal(t, true, got)
}

func TestMemoryLimit(t *testing.T) {
	vm := newVM(t, Options{Memory: 16 << 20})
	_, err := vm.Eval("t.js", `new ArrayBuffer(2 ** 31)`, false)
	require.Error(t, err)
	_, err = vm.Eval("t.js", `{ const a = []; for (;;) a.push(new Array(1000).fill(1)) }`, false)
	require.ErrorContains(t, err, "out of memory")
	vm.Collect()
	require.Less(t, vm.Memory(), int64(8<<20))
	require.Equal(t, 3.0, eval(t, vm, "1+2"))
}

func TestDeepRecursionIsCatchable(t *testing.T) {
	vm := newVM(t, Options{})
	require.Equal(t, "caught", eval(t, vm, `function f() { return f() + 1 } try { f() } catch (e) { "caught" }`))
	require.Equal(t, "caught", eval(t, vm, `try { JSON.parse("[".repeat(1e6)) } catch (e) { "caught" }`))
}

func TestRejections(t *testing.T) {
	vm := newVM(t, Options{})
	eval(t, vm, `Promise.reject(new Error("lost")); Promise.reject(1).catch(() => {}); const p = Promise.reject(2); p.then(() => {}, () => {}); 0`)
	vm.Jobs()
	reasons := vm.Rejections()
	require.Len(t, reasons, 1)
	require.Equal(t, "lost", vm.errorOf(reasons[0]).Message)
	reasons[0].Free()
	require.Empty(t, vm.Rejections())
}

// TestBytecode checks that the bytecode of a module keeps top-level await, names and line numbers.
// It keeps the source text of functions only with KeepSource.
func TestBytecode(t *testing.T) {
	vm := newVM(t, Options{})
	source := "const f = await Promise.resolve(function named(a, onUpdate) { throw new Error('x') });\nglobalThis.f = f"
	for keep, text := range map[Keep]string{KeepSource: "onUpdate", KeepLines: "native code"} {
		code, err := vm.Compile("ext.ts", source, true, keep)
		require.NoError(t, err)
		other := newVM(t, Options{})
		end, err := other.Run(code)
		require.NoError(t, err)
		other.Jobs()
		end.Free()
		require.Contains(t, eval(t, other, "String(f)"), text)
		stack := eval(t, other, "try { f() } catch (e) { e.stack }")
		require.Contains(t, stack, "at named (ext.ts:1:", "%v", stack)
	}
	_, err := vm.Run(nil)
	require.Error(t, err)
}

func TestImports(t *testing.T) {
	vm := newVM(t, Options{})
	vm.Imports(func(base, name string) (Module, error) {
		require.Equal(t, "/x/main.js", base)
		if name != "./lib.js" {
			return Module{}, &Error{Message: "Cannot find module '" + name + "'"}
		}
		return Module{Source: "export default 41; export const one = 1"}, nil
	})
	v, err := vm.Eval("/x/main.js", `import n, {one} from "./lib.js"; globalThis.sum = n + one;
		try { await import("./no.js") } catch (e) { globalThis.missing = String(e) }`, true)
	require.NoError(t, err)
	v.Free()
	vm.Jobs()
	require.Equal(t, 42.0, eval(t, vm, "sum"))
	require.True(t, strings.HasPrefix(eval(t, vm, "missing").(string), "Cannot find module './no.js'"))
}

func BenchmarkCall(b *testing.B) {
	vm, err := New(Options{Turn: time.Second})
	require.NoError(b, err)
	defer vm.Close()
	f, err := vm.Eval("t.js", `(x) => JSON.parse(x).a`, false)
	require.NoError(b, err)
	for b.Loop() {
		if _, err := f.Call(`{"a":1}`); err != nil {
			b.Fatal(err)
		}
	}
	f.Free()
}
