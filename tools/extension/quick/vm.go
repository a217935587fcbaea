//go:build !386 && !arm

package quick

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// Options says what a VM may use.
type Options struct {
	Memory int64         // bytes of its heap; 0 is no limit
	Turn   time.Duration // how long one call or drain may run without a break; 0 is no limit

	// Clock returns the time since some moment, by which turns are measured; nil is the
	// monotonic clock. It is called when a turn begins and whenever the engine asks whether to stop.
	Clock func() time.Duration
}

// VM is one JavaScript realm with a heap of its own.
type VM struct {
	tls   *libc.TLS
	rt    uintptr
	ctx   uintptr
	turn  time.Duration
	clock func() time.Duration
	funcs []Host
	loads func(base, name string) (Module, error)

	deadline atomic.Int64 // of the turn, in nanoseconds of clock; 0 is none
	stopped  atomic.Bool  // Interrupt was called
	hit      bool         // a turn was interrupted since Interrupted was asked

	depth    int // calls within calls: a host function may run a script
	rejected []rejection
	owed     error // what a host function panicked with
}

// Host is a function of Go that JavaScript calls. An error is thrown as a string:
// whoever calls makes an Error of it, so that its stack begins there. A Value that it
// gives is no longer its own.
type Host func(args []any) (any, error)

// epoch is the start of the monotonic clock of the process.
var epoch = time.Now()

func sinceEpoch() time.Duration { return time.Since(epoch) }

// vms finds the VM of a runtime in the callbacks of the engine, which know no Go
// pointers.
var vms sync.Map // uintptr → *VM, by runtime and by context

// at makes a pointer of an address of the engine's memory, which Go's collector does
// not own.
func at(p uintptr) unsafe.Pointer { return unsafe.Add(nil, p) }

// function gives the engine the address of a function of Go.
func function[F any](f F) uintptr {
	return *(*uintptr)(unsafe.Pointer(&f))
}

// firstCollection is how large the heap of a VM may be before circles are looked for the first
// time: what is loaded at first stays.
const firstCollection = 4 << 20

// New makes a VM.
func New(o Options) (*VM, error) {
	tls := libc.NewTLS()
	rt := lib.XJS_NewRuntime(tls)
	if rt == 0 {
		tls.Close()
		return nil, errors.New("no memory for a JavaScript runtime")
	}
	if o.Memory > 0 {
		lib.XJS_SetMemoryLimit(tls, rt, libc.Tsize_t(o.Memory))
	}
	lib.XJS_SetGCThreshold(tls, rt, firstCollection)
	ctx := lib.XJS_NewContext(tls, rt)
	if ctx == 0 {
		lib.XJS_FreeRuntime(tls, rt)
		tls.Close()
		return nil, errors.New("no memory for a JavaScript context")
	}
	vm := &VM{tls: tls, rt: rt, ctx: ctx, turn: o.Turn, clock: o.Clock}
	if vm.clock == nil {
		vm.clock = sinceEpoch
	}
	vms.Store(rt, vm)
	vms.Store(ctx, vm)
	lib.XJS_SetInterruptHandler(tls, rt, function(interrupted), rt)
	lib.XJS_SetHostPromiseRejectionTracker(tls, rt, function(track), 0)
	lib.XJS_SetModuleLoaderFunc(tls, rt, function(normalize), function(load), rt)
	return vm, nil
}

// Close gives the VM's memory back.
func (vm *VM) Close() {
	for _, r := range vm.rejected {
		r.promise.Free()
		r.reason.Free()
	}
	vm.rejected = nil
	lib.XJS_FreeContext(vm.tls, vm.ctx)
	lib.XJS_FreeRuntime(vm.tls, vm.rt)
	vm.Abandon()
}

// Abandon forgets a VM whose engine broke and must not run again, not even to free
// what it holds: its memory is lost.
func (vm *VM) Abandon() {
	vms.Delete(vm.rt)
	vms.Delete(vm.ctx)
	vm.tls.Close()
}

// Interrupt stops what the VM runs now, or the next that it runs. Any goroutine may
// call it, also after Close.
func (vm *VM) Interrupt() { vm.stopped.Store(true) }

// Interrupted says whether a turn was cut short since it was last asked.
func (vm *VM) Interrupted() bool {
	hit := vm.hit
	vm.hit = false
	return hit
}

// Memory is what the heap holds.
func (vm *VM) Memory() int64 {
	return int64((*lib.TJSRuntime)(at(vm.rt)).Fmalloc_ctx.Fmalloc_state.Fmalloc_size)
}

// Loaded says that what the heap holds stays: circles are looked for when it has grown by half.
func (vm *VM) Loaded() {
	lib.XJS_SetGCThreshold(vm.tls, vm.rt, libc.Tsize_t(vm.Memory()*3/2))
}

// Collect frees what is reachable only in circles.
func (vm *VM) Collect() { lib.XJS_RunGC(vm.tls, vm.rt) }

// begin starts a turn: what a call runs until it returns. What a host function runs
// is part of the turn that called it.
func (vm *VM) begin() {
	vm.depth++
	if vm.depth > 1 {
		return
	}
	if vm.turn > 0 {
		vm.deadline.Store(int64(vm.clock() + vm.turn))
	}
}

// end is the other end: a panic of a host function goes on here, where no frame of
// the engine is above it.
func (vm *VM) end() {
	vm.depth--
	if vm.depth == 0 {
		vm.deadline.Store(0)
		vm.stopped.Store(false)
	}
	if err := vm.owed; err != nil {
		vm.owed = nil
		panic(err)
	}
}

// Extend gives the turn more time: what a host function used is not the script's.
func (vm *VM) Extend(d time.Duration) {
	if vm.deadline.Load() != 0 {
		vm.deadline.Add(int64(d))
	}
}

// interrupted is asked by the engine now and then whether to stop.
func interrupted(_ *libc.TLS, rt, _ uintptr) int32 {
	v, ok := vms.Load(rt)
	if !ok {
		return 1
	}
	vm := v.(*VM)
	if d := vm.deadline.Load(); vm.stopped.Load() || d != 0 && int64(vm.clock()) > d {
		vm.hit = true
		return 1
	}
	return 0
}

// Jobs runs what promises wait for until nothing is left to run, or the turn is over:
// then Interrupted says so. What a job throws is the rejection of a promise.
func (vm *VM) Jobs() {
	vm.begin()
	defer vm.end()
	ctx := vm.alloc(unsafe.Sizeof(uintptr(0)))
	defer vm.free(ctx)
	for {
		n := lib.XJS_ExecutePendingJob(vm.tls, vm.rt, ctx)
		switch {
		case n == 0, vm.owed != nil: // end goes on with it
			return
		case n < 0:
			_ = vm.exception() // nothing but an interrupt throws here
		}
		if vm.hit || interrupted(nil, vm.rt, 0) != 0 {
			return
		}
	}
}

// rejection is a promise that was rejected while nobody handled it.
type rejection struct{ promise, reason Value }

// track is told of rejections without a handler, and of handlers that came later.
func track(tls *libc.TLS, ctx uintptr, promise, reason lib.TJSValue, handled int32, _ uintptr) {
	v, ok := vms.Load(ctx)
	if !ok {
		return
	}
	vm := v.(*VM)
	if handled == 0 {
		vm.rejected = append(vm.rejected, rejection{vm.dup(promise), vm.dup(reason)})
		return
	}
	for i, r := range vm.rejected {
		if r.promise.v == promise {
			r.promise.Free()
			r.reason.Free()
			vm.rejected = append(vm.rejected[:i], vm.rejected[i+1:]...)
			return
		}
	}
}

// Rejections gives the reasons of promises that were rejected and that nobody
// handles. It is asked when no jobs are left.
func (vm *VM) Rejections() []Value {
	var reasons []Value
	for _, r := range vm.rejected {
		r.promise.Free()
		reasons = append(reasons, r.reason)
	}
	vm.rejected = nil
	return reasons
}

// Func makes a function of JavaScript that calls f.
func (vm *VM) Func(f Host) Value {
	vm.funcs = append(vm.funcs, f)
	return Value{vm, lib.XJS_NewCFunctionData(vm.tls, vm.ctx, function(host), 0, int32(len(vm.funcs)-1), 0, 0)}
}

// host calls a function of Go. A panic must not go up through the engine, whose frames
// would stay on its stack: it stops the script, uncatchably, and goes on in end.
func host(tls *libc.TLS, ctx uintptr, _ lib.TJSValue, argc int32, argv uintptr, magic int32, _ uintptr) (r lib.TJSValue) {
	v, ok := vms.Load(ctx)
	if !ok {
		return undefined
	}
	vm := v.(*VM)
	defer func() {
		if p := recover(); p != nil {
			vm.owed = fmt.Errorf("in a host function: %v", p)
			lib.XJS_Throw(tls, ctx, vm.text("host function failed"))
			lib.XJS_SetUncatchableException(tls, ctx, 1)
			r = exception
		}
	}()
	args := make([]any, argc)
	for i := range args {
		a, err := vm.toGo(*(*lib.TJSValue)(at(argv + uintptr(i)*unsafe.Sizeof(lib.TJSValue{}))))
		if err != nil {
			return lib.XJS_Throw(tls, ctx, vm.text(err.Error()))
		}
		args[i] = a
	}
	out, err := vm.funcs[magic](args)
	if err != nil {
		return lib.XJS_Throw(tls, ctx, vm.text(err.Error()))
	}
	if v, ok := out.(Value); ok {
		return v.v
	}
	return vm.toJS(out)
}

// Error is what a script threw.
type Error struct {
	Name, Message, Stack string
}

func (e *Error) Error() string {
	if e.Name == "" {
		return e.Message
	}
	return e.Name + ": " + e.Message
}

// exception takes the error that the engine holds.
func (vm *VM) exception() error {
	v := Value{vm, lib.XJS_GetException(vm.tls, vm.ctx)}
	defer v.Free()
	lib.XJS_SetUncatchableException(vm.tls, vm.ctx, 0)
	return vm.errorOf(v)
}

// ErrorOf reads an error of JavaScript, or whatever else was thrown.
func (vm *VM) errorOf(v Value) *Error {
	if lib.XJS_IsError(vm.tls, vm.ctx, v.v) == 0 {
		s, err := v.String()
		if err != nil {
			s = "an error that has no text"
		}
		return &Error{Message: s}
	}
	return &Error{Name: v.member("name"), Message: v.member("message"), Stack: strings.TrimRight(v.member("stack"), "\n")}
}
