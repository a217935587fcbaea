package extension

import (
	"encoding/json"
	"strings"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

// engine runs the JavaScript of a realm.
type engine interface {
	// boot evaluates the prelude.
	boot(record []byte) error
	// enter calls the way into the prelude. An engine that is elsewhere does not wait
	// and gives nothing.
	enter(kind string, args ...any) (any, error)
	// load evaluates the module of an entry, and has the prelude take it in.
	load(index int, e words.Entry, code *bundle.Entry)
	// source gives what the prelude makes a module of.
	source(m *prelude.Module) (any, error)
	// settle runs what promises wait for, and says what came of it.
	settle()
	// afterwards has f done by the VM when what was entered before has had its turn.
	afterwards(f func())
	// loaded says that all entries are.
	loaded()
	// worked says that the time was an operation's and not the script's.
	worked(d time.Duration)
	// busy says that something of a call goes on of which we know no operation.
	busy(k callKey) bool
	// close ends it. One that broke is not touched again.
	close(broken bool)
}

// quickEngine is the engine in this process.
type quickEngine struct {
	v  *vm
	js *quick.VM
	in *quick.Value // the way into the prelude
}

func newQuick(v *vm) (engine, error) {
	o := quick.Options{Memory: v.host.o.Limits.Memory, Turn: v.host.o.Limits.Turn}
	if v.host.o.clock != nil {
		o.Clock = v.host.o.clock()
	}
	js, err := quick.New(o)
	if err != nil {
		return nil, err
	}
	return &quickEngine{v: v, js: js}, nil
}

func (q *quickEngine) boot(record []byte) error {
	js := q.js
	js.Imports(q.imports)
	code, err := q.v.host.codes.of(js, "core.js", prelude.Core)
	if err != nil {
		return err
	}
	core, err := js.Run(code)
	if err != nil {
		return err
	}
	defer core.Free()
	native := js.Func(q.v.native)
	defer native.Free()
	boot, err := js.Parse(string(record))
	if err != nil {
		return err
	}
	defer boot.Free()
	in, err := core.CallValue(native, boot)
	if err == nil {
		q.in = &in
	}
	return err
}

func (q *quickEngine) enter(kind string, args ...any) (any, error) {
	return q.in.Call(append([]any{kind}, args...)...)
}

func (q *quickEngine) loaded() { q.js.Loaded() }

func (q *quickEngine) worked(d time.Duration) { q.js.Extend(d) }

func (q *quickEngine) busy(callKey) bool { return false }

func (q *quickEngine) close(broken bool) {
	if broken {
		q.js.Abandon()
		return
	}
	if q.in != nil {
		q.in.Free()
	}
	q.js.Close()
}

func (q *quickEngine) source(m *prelude.Module) (any, error) {
	code, err := q.v.host.codes.of(q.js, m.File, func() string { return "(function (exports, require, module, host) {" + m.Source() + "\n})" })
	if err != nil {
		return nil, err
	}
	return q.js.Run(code)
}

func (q *quickEngine) load(index int, e words.Entry, code *bundle.Entry) {
	v := q.v
	if code.Code == nil {
		made, err := q.js.Compile(code.Path, code.Bundle.Code, true, quick.KeepSource)
		if err != nil {
			v.loaded(index, err.Error(), "")
			return
		}
		code.Code = made
		_ = v.host.cache.Put(code) // what cannot be kept is made again
	}
	end, err := q.js.Run(code.Code)
	if q.js.Interrupted() {
		if err == nil {
			end.Free()
		}
		v.loaded(index, v.overlong(), "")
		return
	}
	if err != nil {
		v.loaded(index, v.inSources(err).Error(), v.inSources(err).Stack)
		return
	}
	defer end.Free()
	v.dispatch("load", float64(index), e.Path, code.Path, end)
}

func (q *quickEngine) settle() {
	v, cut := q.v, 0
	for range 8 { // what reports a rejection may reject again
		if v.realm.ended {
			return
		}
		q.js.Jobs()
		if q.js.Interrupted() {
			if cut++; cut > 1 {
				v.recycle("jobs of JavaScript did not end")
				return
			}
			path, event := q.doing()
			v.interrupted(path, event)
			continue // what is left in the queue may be innocent
		}
		reasons := q.js.Rejections()
		if len(reasons) == 0 {
			break
		}
		for _, reason := range reasons {
			v.dispatch("rejection", reason)
			reason.Free()
		}
	}
	if v.ready && v.realm.fresh {
		v.realm.fresh = false
		v.dispatch("flush")
	}
	q.checkMemory()
}

func (q *quickEngine) afterwards(f func()) {
	q.settle()
	f()
}

// doing is the handler that was entered last.
func (q *quickEngine) doing() (path, event string) {
	path = "<runtime>"
	if got, err := q.enter("doing"); err == nil {
		if text, ok := got.(quick.JSON); ok {
			var d [2]string
			if json.Unmarshal([]byte(text), &d) == nil {
				path, event = d[0], d[1]
			}
		}
	}
	return path, event
}

// checkMemory recycles a VM whose heap is nearly full.
func (q *quickEngine) checkMemory() {
	limit := q.v.host.o.Limits.Memory
	if q.v.realm.ended || limit == 0 || q.js.Memory() < limit/10*8 {
		return
	}
	q.js.Collect()
	if q.js.Memory() >= limit/10*8 {
		q.v.recycle("the extensions use too much memory")
	}
}

// imports finds what a running script imports by a name that was not known before.
func (q *quickEngine) imports(base, name string) (quick.Module, error) {
	if id, p := provides(name); p == bundle.Shim {
		names, err := q.enter("exportsOf", id)
		if err != nil {
			return quick.Module{}, err
		}
		var list []string
		if text, ok := names.(quick.JSON); ok {
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return quick.Module{}, err
			}
		}
		source := "const m = __troupe.require(" + quoted(id) + ");\nexport default m;\n"
		if len(list) > 0 {
			source += "export const {" + strings.Join(list, ", ") + "} = m;\n"
		}
		return quick.Module{Source: source}, nil
	}
	b, err := bundle.Module(name, base, true, bundled)
	if err != nil {
		return quick.Module{}, err
	}
	return quick.Module{Source: b.Code}, nil
}
