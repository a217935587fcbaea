package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

// args are what JavaScript gives: nil, bool, float64, string, []byte or quick.JSON.
type args []any

// at is an argument, nil where there is none.
func (a args) at(i int) any {
	if i < len(a) {
		return a[i]
	}
	return nil
}

func (a args) text(i int) string {
	s, _ := a.at(i).(string)
	return s
}

func (a args) number(i int) (float64, bool) {
	n, ok := a.at(i).(float64)
	return n, ok
}

func (a args) int(i int) int {
	n, _ := a.number(i)
	return int(n)
}

func (a args) bool(i int) bool {
	b, _ := a.at(i).(bool)
	return b
}

// bytes are those of a Uint8Array or a text.
func (a args) bytes(i int) []byte {
	switch b := a.at(i).(type) {
	case []byte:
		return b
	case string:
		return []byte(b)
	}
	return nil
}

// into reads an object; what is not there stays as it is.
func (a args) into(i int, dst any) error {
	if text, ok := a.at(i).(quick.JSON); ok {
		return json.Unmarshal([]byte(text), dst)
	}
	return nil
}

// json is an argument as JSON.
func (a args) json(i int) json.RawMessage {
	switch x := a.at(i).(type) {
	case nil:
		return nil
	case quick.JSON:
		return wellFormed(string(x))
	default:
		text, _ := json.Marshal(x) // nil for what has no form
		return text
	}
}

// wellFormed is JSON of JavaScript's without the halves of characters that its texts may have, as
// those do that were cut: half of the clients cannot read a line with one.
func wellFormed(text string) json.RawMessage {
	if !strings.Contains(text, `\ud`) {
		return json.RawMessage(text)
	}
	out := []byte(text)
	for i := 0; i < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if i++; isHalf(out, i, "89ab") && i+6 < len(out) && out[i+5] == '\\' && isHalf(out, i+6, "cdef") {
			i += 10
		} else if isHalf(out, i, "89abcdef") {
			copy(out[i:], "ufffd")
		}
	}
	return out
}

// isHalf says whether an escape, whose backslash is before i, is half of a character: its second
// digit is one of these.
func isHalf(text []byte, i int, second string) bool {
	return i+4 < len(text) && text[i] == 'u' && text[i+1] == 'd' && strings.IndexByte(second, text[i+2]) >= 0
}

// failure is an error as Node has it. It crosses as JSON.
type failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Errno   int    `json:"errno,omitempty"`
	Syscall string `json:"syscall,omitempty"`
	Path    string `json:"path,omitempty"`
	Dest    string `json:"dest,omitempty"`
	Name    string `json:"name,omitempty"`
}

func (f *failure) Error() string {
	text, _ := json.Marshal(f) // it is texts and a number
	return string(text)
}

// failureOf is an error as Node has it. Its text is what JavaScript is thrown.
func failureOf(err error) *failure {
	if f, is := errors.AsType[*failure](err); is {
		return f
	}
	return &failure{Message: err.Error()}
}

// opCall is a call of an operation. It may be on a goroutine of its own: what it
// sees of the VM does not change.
type opCall struct {
	ctx   context.Context
	args  args
	host  *Inline
	procs *tools.Procs
	files *table[*os.File]
	conns *table[net.Conn]
	cwd   string
}

// operation is what host.op and host.start call.
type operation func(c *opCall) (any, error)

// stream is what host.open begins.
type stream interface {
	send(event string, values args)
}

// emit says an event of a stream, and waits until JavaScript has it, so that what is
// fast does not fill the mailbox. false means that nobody listens any more.
type emit func(event string, values ...any) bool

// streaming begins a stream: an error is thrown, run ends when the stream has or ctx does.
type streaming func(c *opCall, say emit) (s stream, run func(), err error)

// pid returns the process of an operation as a number, nil if it has none.
func (r *realm) pid(id int) any {
	if o := r.ops[id]; o != nil {
		if p, ok := o.stream.(*child); ok {
			return float64(p.s.Pid())
		}
	}
	return nil
}

// native is the one function that the prelude has of us.
func (v *vm) native(list []any) (any, error) {
	if len(list) == 0 {
		return nil, errors.New("no operation")
	}
	word, _ := list[0].(string)
	a := args(list[1:])
	r := v.realm
	switch word {
	case "op":
		return v.operate(a)
	case "start":
		return nil, v.start(a)
	case "open":
		if name, asks := askedInParts[a.text(1)]; asks {
			return nil, v.ask(a.int(0), name, a.json(2), true)
		}
		return nil, v.openStream(a)
	case "send":
		if o := r.ops[a.int(0)]; o != nil && o.stream != nil {
			o.stream.send(a.text(1), a[2:])
		}
	case "pid":
		return r.pid(a.int(0)), nil
	case "close":
		v.closeOp(a.int(0))
	case "ask":
		return nil, v.ask(a.int(0), a.text(1), wellFormed(a.text(2)), false)
	case "unask":
		v.unask(a.int(0))
	case "act":
		if err := fits(a.text(0), a.text(1)); err != nil {
			return nil, err
		}
		v.sink(words.Act{Name: a.text(0), Args: wellFormed(a.text(1))})
	case "log":
		v.sink(words.Log{Level: a.text(0), Text: a.text(1)})
	case "error":
		if path := a.text(0); a.text(1) == "load" && !v.ready { // again, for another session
			v.realm.errors = append(v.realm.errors, words.LoadError{Path: path, Message: a.text(2), Stack: v.stack(a.text(3)), Gates: v.host.gates(path)})
			break
		}
		v.sink(words.Failure{Path: a.text(0), Event: a.text(1), Message: a.text(2), Stack: v.stack(a.text(3))})
	case "changed":
		r.fresh = true
	case "timer":
		v.setTimer(a.int(0), a.int(1), a.bool(2))
	case "untimer":
		if t := r.timers[a.int(0)]; t != nil {
			t.timer.Stop()
			delete(r.timers, a.int(0))
		}
	case "unref":
		if t := r.timers[a.int(0)]; t != nil {
			t.idle = true
		}
	case "shim":
		if m, ok := prelude.Find(a.text(0)); ok && (!m.NodeOnly || m.StandsIn && a.bool(1)) {
			return m.ID, nil
		}
	case "module":
		return v.module(a.text(0))
	case "bundle":
		return v.bundleOf(a.text(0), a.text(1))
	case "resolve":
		return bundle.Resolve(a.text(0), a.text(1), bundled)
	case "session":
		return v.sessionText()
	case "validate":
		return v.validate(a)
	case "conforms":
		if err := tools.CheckArgs(json.RawMessage(a.text(1)), json.RawMessage(a.text(2))); err != nil {
			return nil, fmt.Errorf("structuredContent of the tool %q does not fit its outputSchema: %w", a.text(0), err)
		}
	default:
		v.answered(word, a)
	}
	return nil, nil
}

// answered takes what JavaScript says of what is under way.
func (v *vm) answered(word string, a args) {
	id := uint64(a.int(0))
	result := func() json.RawMessage {
		if s := a.text(1); s != "" {
			return wellFormed(s)
		}
		return nil
	}
	switch word {
	case "loaded":
		v.loaded(int(id), a.text(1), a.text(2))
	case "ready":
		v.ready = true
		v.loadings++
		v.realm.engine.loaded()
		v.sink(words.Ready{N: v.loadings, Registrations: registrationsOf(a.text(0)), Errors: v.realm.errors})
		v.realm.errors = nil
	case "regs":
		v.sink(words.Changed{Registrations: registrationsOf(a.text(0))})
	case "began":
		v.began(callKey{a.text(0), uint64(a.int(1))})
	case "told":
		if v.conclude(callKey{"tell", id}) && id > 0 {
			v.sink(words.Told{N: id})
		}
	case "done":
		if !v.conclude(callKey{"call", id}) {
			return
		}
		switch id {
		case closing:
			v.box.put(func() {
				v.dispatch("ending")
				v.realm.engine.afterwards(func() {
					if !v.over { // which it is if what was behind a reload never ends
						v.end("")
					}
				})
			})
			return
		case leaving:
			v.post(v.realm, v.left)
			return
		}
		v.sink(words.Done{ID: id, Result: result(), Err: a.text(2), Path: a.text(3)})
	case "prepared":
		if v.conclude(callKey{"prepare", id}) {
			v.sink(words.Prepared{ID: id, Args: result(), Err: a.text(2)})
		}
	case "toolUpdate":
		if _, ok := v.calls[callKey{"tool", id}]; ok {
			v.sink(words.ToolUpdate{ID: id, Partial: result()})
		}
	case "toolDone":
		if v.conclude(callKey{"tool", id}) {
			v.sink(words.ToolDone{ID: id, Result: result(), IsError: a.bool(2)})
		}
	case "commandDone":
		if v.conclude(callKey{"command", id}) {
			v.sink(words.CommandDone{ID: id, Err: a.text(1)})
		}
	}
}

func registrationsOf(text string) words.Registrations {
	var r words.Registrations
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return words.Registrations{}
	}
	return r
}

func (v *vm) newCall(ctx context.Context, a args) *opCall {
	return &opCall{ctx: ctx, args: a, host: v.host, procs: v.procs, files: &v.realm.files, conns: &v.realm.conns, cwd: v.spec.Cwd}
}

// operate does an operation now. What it takes is not the script's time.
func (v *vm) operate(a args) (any, error) {
	f, ok := operations()[a.text(0)]
	if !ok {
		return nil, fmt.Errorf("no operation %q", a.text(0))
	}
	from := time.Now()
	result, err := f(v.newCall(v.realm.ctx, a[1:]))
	v.realm.engine.worked(time.Since(from))
	return result, err
}

func (v *vm) room() error {
	if len(v.realm.ops) >= v.host.o.Limits.Ops {
		return fmt.Errorf("more than %d operations are open", v.host.o.Limits.Ops)
	}
	return nil
}

func (v *vm) addOp(id int, o *op) {
	v.realm.born++
	o.born = v.realm.born
	v.lastOp = max(v.lastOp, id)
	v.realm.ops[id] = o
}

// start does an operation on a goroutine of its own, and settles a promise with it.
func (v *vm) start(a args) error {
	id, r := a.int(0), v.realm
	f, ok := operations()[a.text(1)]
	if !ok {
		return fmt.Errorf("no operation %q", a.text(1))
	}
	if err := v.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	v.addOp(id, &op{waits: true, cancel: cancel})
	c := v.newCall(ctx, a[2:])
	go func() {
		defer cancel()
		result, err := protected(f, c)
		v.post(r, func() {
			delete(r.ops, id)
			if err != nil {
				v.dispatch("settle", float64(id), nil, failureOf(err).Error())
				return
			}
			v.dispatch("settle", float64(id), result)
		})
	}()
	return nil
}

// protected makes an error of a panic: a bad argument of an extension ends nothing.
func protected(f operation, c *opCall) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("operation failed: %v", p)
		}
	}()
	return f(c)
}

// unbound are streams that a handler's time does not wait for: they have no end.
var unbound = map[string]bool{"fs.watch": true, "net.listen": true, "net.accepted": true, "websocket": true}

func (v *vm) openStream(a args) error {
	id, r := a.int(0), v.realm
	begin, ok := streamings()[a.text(1)]
	if !ok {
		return fmt.Errorf("no stream %q", a.text(1))
	}
	if err := v.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	say := func(event string, values ...any) bool {
		return v.postAndWait(ctx, r, func() { v.dispatch("stream", append([]any{float64(id), event}, values...)...) }) && ctx.Err() == nil
	}
	s, run, err := begin(v.newCall(ctx, a[2:]), say)
	if err != nil {
		cancel()
		return err
	}
	v.addOp(id, &op{waits: !unbound[a.text(1)], cancel: cancel, stream: s})
	go func() {
		if _, err := protected(func(*opCall) (any, error) { run(); return nil, nil }, nil); err != nil {
			say("error", &failure{Message: err.Error()})
		}
		v.post(r, func() { v.closeOp(id) })
	}()
	return nil
}

func (v *vm) closeOp(id int) {
	switch o := v.realm.ops[id]; {
	case o == nil:
	case o.asked:
		v.unask(id)
	default:
		o.cancel()
		delete(v.realm.ops, id)
	}
}

// unask takes a question back.
func (v *vm) unask(id int) {
	if o := v.realm.ops[id]; o != nil && o.asked {
		delete(v.realm.ops, id)
		v.sink(words.OpCancel{ID: uint64(id)})
	}
}

// askedInParts are the questions to the daemon whose answers come in parts, by the names of
// their streams.
var askedInParts = map[string]string{"llm": "complete", "executeTool": "executeTool"}

// mostRecord is what one record for a person may have: clients show it as it is.
const mostRecord = 1 << 20

func fits(name, payload string) error {
	if name == "ui" && len(payload) > mostRecord {
		return fmt.Errorf("a record of %d bytes for the user is more than %d", len(payload), mostRecord)
	}
	return nil
}

// ask asks the daemon. The answer may come in parts, as events.
func (v *vm) ask(id int, name string, payload json.RawMessage, parts bool) error {
	if err := errors.Join(v.room(), fits(name, string(payload))); err != nil {
		return err
	}
	v.addOp(id, &op{waits: true, asked: true, parts: parts})
	v.sink(words.Op{ID: uint64(id), Name: name, Args: payload})
	return nil
}

func (v *vm) setTimer(id, ms int, repeat bool) {
	r := v.realm
	every := time.Duration(ms) * time.Millisecond
	if t := r.timers[id]; t != nil {
		t.timer.Stop()
	}
	t := &alarm{}
	r.timers[id] = t
	t.timer = time.AfterFunc(every, func() {
		v.post(r, func() {
			if r.timers[id] != t {
				return
			}
			if !repeat {
				delete(r.timers, id)
			}
			v.dispatch("timer", float64(id))
			if repeat && r.timers[id] == t && !r.ended {
				t.timer.Reset(every)
			}
		})
	})
}

// module gives the function of a module of the prelude.
func (v *vm) module(id string) (any, error) {
	m, ok := prelude.Find(id)
	if !ok {
		return nil, &failure{Message: "Cannot find module '" + id + "'", Code: "MODULE_NOT_FOUND"}
	}
	code, err := v.realm.engine.source(m)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", id, err)
	}
	return code, nil
}

// bundleOf gives the code of a module that is required by a name that was not known
// before: it and what stacks call it.
func (v *vm) bundleOf(name, from string) (any, error) {
	b, err := bundle.Module(name, from, false, bundled)
	if err != nil {
		return nil, err
	}
	return [2]string{b.Code, name}, nil
}

// sessionText is the session's file, if it has one.
func (v *vm) sessionText() (any, error) {
	if v.spec.SessionFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(v.spec.SessionFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it is made with the first entry
	}
	if err != nil {
		return nil, fsFailure("open", err)
	}
	return string(data), nil
}

// validate checks and mends the arguments of a tool: name, schema, arguments.
func (v *vm) validate(a args) (any, error) {
	given := json.RawMessage(a.text(2))
	mended, err := tools.ValidateArgs(json.RawMessage(a.text(1)), given)
	if err != nil {
		return nil, tools.InvalidArgsError(a.text(0), given, err)
	}
	return quick.JSON(mended), nil
}

// execPath is the program that starts the agent.
func (h *Inline) execPath() string {
	if h.o.ExecPath != "" {
		return h.o.ExecPath
	}
	exe, _ := os.Executable() // "" is what Node would not say either
	return exe
}

// bunScript stands where Node has the path of a script. It is what pi's own binary
// says: who wants to start the agent once more then starts execPath, without a script.
const bunScript = "/$bunfs/root/pi"

// bootRecord is what an extension may know of where it runs and what does not change.
func (v *vm) bootRecord() map[string]any {
	o := v.host.o
	exe := v.host.execPath()
	home, _ := os.UserHomeDir()
	hostname, _ := os.Hostname()
	agentDir := cmp.Or(v.spec.AgentDir, filepath.Join(home, ".pi", "agent"))
	argv := []string{exe, bunScript}
	if len(v.spec.Argv) > 0 {
		argv = append(argv, v.spec.Argv[1:]...)
	}
	record := map[string]any{
		"homedir": home, "tmpdir": filepath.Clean(os.TempDir()), "hostname": hostname, "pid": os.Getpid(), "ppid": os.Getppid(),
		"execPath": exe, "argv": argv, "env": environ(), "cwd": v.spec.Cwd, "agentDir": agentDir, "version": o.Version, "piVersion": o.PiVersion, "eol": "\n",
		"lastOp": v.lastOp, "mode": cmp.Or(v.spec.Mode, "rpc"),
	}
	maps.Copy(record, systemRecord())
	return record
}
