package extension

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/bundle"
	"troupe/tools/extension/prelude"
	"troupe/tools/extension/quick"
)

//go:embed node.js
var nodeScript string

// nodeEngine is a Node process that runs the extensions of one session, where one of them needs
// it. We and it say lines of JSON: what we say is carried out in order and not waited for;
// what it asks of us it waits for.
type nodeEngine struct {
	v     *vm
	r     *realm
	procs *tools.Procs
	proc  *tools.Spawned
	in    net.Conn // for what we say
	asks  net.Conn // for what it asks

	mu     sync.Mutex
	out    [][]byte
	more   chan struct{} // holds a token while out is not empty, or it is over
	over   bool
	unread []sentWord      // that it has not said it has come to
	last   int             // word that was said
	works  map[string]bool // calls of which something goes on
	then   func()          // what is done afterwards, nil for nothing
	behind int             // the word that Node has to come to before
}

// sentWord is a word that Node has not come to.
type sentWord struct {
	n     int
	event string
	at    time.Time
	cpu   time.Duration // that the process had used by then; -1 is unknown
}

// newNode starts Node for a realm.
func newNode(v *vm, program string) (engine, error) {
	in, theirIn, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	asks, theirAsks, err := pair()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirAsks.Close()
	n := &nodeEngine{v: v, r: v.realm, procs: tools.NewProcs(v.host.o.Guard), in: in, asks: asks, more: make(chan struct{}, 1)}
	n.proc, err = tools.Spawn(tools.SpawnSpec{
		Procs: n.procs, Command: program, Dir: v.spec.Cwd, Env: os.Environ(), Files: []*os.File{theirIn, theirAsks},
		Args: []string{"--experimental-vm-modules", "--no-warnings", "--max-old-space-size=" + strconv.FormatInt(max(v.host.o.Limits.Memory>>20, 64), 10), "-e", nodeScript},
	})
	if err != nil {
		in.Close()
		asks.Close()
		return nil, err
	}
	n.proc.Stdin.Close()
	v.host.kills.Go(n.write)
	v.host.kills.Go(n.read)
	v.host.kills.Go(n.watch)
	v.host.kills.Go(func() { n.listen(n.proc.Stdout, "info") })
	v.host.kills.Go(func() { n.listen(n.proc.Stderr, "warn") })
	return n, nil
}

// pair is a connection, and the file of its other end for a child.
func pair() (net.Conn, *os.File, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

func (n *nodeEngine) boot(record []byte) error {
	if path := n.v.host.agentScript(); path != "" {
		var all map[string]any
		if err := json.Unmarshal(record, &all); err != nil {
			return err
		}
		if argv, ok := all["argv"].([]any); ok && len(argv) > 1 {
			argv[1] = path
		}
		var err error
		if record, err = json.Marshal(all); err != nil {
			return err
		}
	}
	_, err := n.enter("boot", prelude.Core(), string(record))
	return err
}

// agentScript is a script for Node that starts the agent, as pi's own is: whoever wants to start
// it once more finds it in process.argv. "" if there is no place for one.
func (h *Inline) agentScript() string {
	if h.o.CacheDir == "" {
		return ""
	}
	text := "const p = require(\"node:child_process\").spawn(" + quoted(h.execPath()) + `, process.argv.slice(2), { stdio: "inherit" });
for (const s of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(s, () => p.kill(s));
p.on("error", (e) => { console.error(e.message); process.exit(127); });
p.on("exit", (code, signal) => { if (signal) process.removeAllListeners(signal), process.kill(process.pid, signal); else process.exit(code); });
`
	sum := sha256.Sum256([]byte(text))
	path := filepath.Join(h.o.CacheDir, "pi-"+hex.EncodeToString(sum[:8])+".cjs")
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return path
	}
	if bundle.Keep(path, []byte(text)) != nil {
		return ""
	}
	return path
}

func (n *nodeEngine) load(index int, e words.Entry, code *bundle.Entry) {
	if !code.ForNode {
		code.ForNode, code.Code = true, []byte(code.Bundle.Code)
		_ = n.v.host.nodes.Put(code) // what cannot be kept is made again
	}
	_, _ = n.enter("load", float64(index), e.Path, code.Path, string(code.Code)) // says how it went
}

// nodeModule is the text of a module and what stacks call it: Node makes a function of it.
type nodeModule [2]string

func (n *nodeEngine) source(m *prelude.Module) (any, error) {
	return nodeModule{m.Source(), "troupe:" + m.File}, nil
}

func (n *nodeEngine) loaded() {}

func (n *nodeEngine) settle() {} // Node runs what it has to by itself

// afterwards waits for Node at most as long as handlers of session_shutdown may take.
func (n *nodeEngine) afterwards(f func()) {
	soon := func() { n.v.box.put(f) }
	n.mu.Lock()
	defer n.mu.Unlock()
	n.then, n.behind = soon, n.last
	time.AfterFunc(n.v.host.o.Limits.Shutdown, soon)
}

func (n *nodeEngine) worked(time.Duration) {}

func (n *nodeEngine) busy(k callKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.works[k.kind+strconv.FormatUint(k.id, 10)]
}

func (n *nodeEngine) close(bool) {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	wake(n.more)
	n.in.Close()
	n.asks.Close()
	n.v.host.kills.Go(func() { n.procs.KillAll(nodeGrace) })
}

// nodeGrace is how long Node may take to go when nobody speaks to it any more.
const nodeGrace = 200 * time.Millisecond

func (n *nodeEngine) enter(kind string, args ...any) (any, error) {
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = toNode(a)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	line, err := json.Marshal([]any{n.last, kind, list})
	if err != nil {
		return nil, err
	}
	n.out = append(n.out, append(line, '\n'))
	n.unread = append(n.unread, sentWord{n: n.last, event: n.eventOf(kind, args), at: time.Now(), cpu: cpuOf(n.proc.Pid())})
	wake(n.more)
	return nil, nil
}

// eventOf is what a word is about, for errors.
func (n *nodeEngine) eventOf(kind string, args []any) string {
	if kind == "load" || kind == "again" {
		return "load"
	}
	if len(args) > 0 {
		if id, ok := args[0].(float64); ok {
			name := map[string]string{"hook": "call", "invoke": "call"}[kind]
			name = cmp.Or(name, kind)
			if c := n.v.calls[callKey{name, uint64(id)}]; c != nil {
				return c.event
			}
		}
	}
	return kind
}

// write says what waits: who says something never waits for Node.
func (n *nodeEngine) write() {
	for range n.more {
		n.mu.Lock()
		list, over := n.out, n.over
		n.out = nil
		n.mu.Unlock()
		if over {
			return
		}
		for _, line := range list {
			if _, err := n.in.Write(line); err != nil {
				return // it has ended, as watch finds
			}
		}
	}
}

// asked is a word of Node: [does it wait, word, arguments].
type asked struct {
	waits bool
	word  string
	args  []json.RawMessage
}

func (a *asked) UnmarshalJSON(data []byte) error {
	var waits int
	list := []any{&waits, &a.word, &a.args}
	err := json.Unmarshal(data, &list)
	a.waits = waits != 0
	return err
}

// read hears what Node says, and has the VM do it.
func (n *nodeEngine) read() {
	r := bufio.NewReaderSize(n.asks, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return // it has ended, as watch finds
		}
		var a asked
		if err := json.Unmarshal(line, &a); err != nil {
			n.v.post(n.r, func() { n.v.recycle("Node.js does not make sense: " + err.Error()) })
			return
		}
		switch a.word {
		case "ack":
			n.come(a.args)
		case "busy":
			n.working(a.args)
		default:
			n.v.post(n.r, func() { n.serve(a) })
		}
	}
}

func (n *nodeEngine) serve(a asked) {
	list := []any{a.word}
	for _, raw := range a.args {
		list = append(list, ofNode(raw))
	}
	v, err := n.v.native(list)
	if !a.waits {
		return
	}
	answer := map[string]any{"v": toNode(v)}
	if err != nil {
		answer = map[string]any{"e": err.Error()}
	}
	line, e := json.Marshal(answer)
	if e != nil {
		line, _ = json.Marshal(map[string]string{"e": e.Error()})
	}
	_, _ = n.asks.Write(append(line, '\n')) // one that has ended needs none
}

// come notes that Node has come to all words up to one.
func (n *nodeEngine) come(args []json.RawMessage) {
	var upTo int
	if len(args) == 0 || json.Unmarshal(args[0], &upTo) != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unread = slices.DeleteFunc(n.unread, func(w sentWord) bool { return w.n <= upTo })
	if n.then != nil && upTo >= n.behind {
		n.then()
		n.then = nil
	}
	if len(n.unread) > 0 { // its time begins now
		n.unread[0].at, n.unread[0].cpu = time.Now(), cpuOf(n.proc.Pid())
	}
}

func (n *nodeEngine) working(args []json.RawMessage) {
	works := map[string]bool{}
	for _, raw := range args {
		var key string
		if json.Unmarshal(raw, &key) == nil {
			works[key] = true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.works = works
}

// watch sees Node to its end, and ends it if it runs without a break or has too much memory.
func (n *nodeEngine) watch() {
	tick := time.NewTicker(watchStep)
	defer tick.Stop()
	why := ""
	for {
		select {
		case <-n.r.ctx.Done():
			return
		case <-n.proc.Exited():
			if why == "" {
				why = "Node.js ended: " + endOf(n.proc)
			}
			n.mu.Lock()
			then := n.then
			n.mu.Unlock()
			if then == nil {
				then = func() { n.v.post(n.r, func() { n.v.recycle(why) }) }
			}
			then()
			return
		case <-tick.C:
		}
		if limit := int64(mostResident); why == "" && resident(n.proc.Pid()) > limit {
			why = fmt.Sprintf("the extensions used more than %d MiB", limit>>20)
		} else if event, loops := n.loops(); why == "" && loops {
			why = "an extension ran without a break"
			if !n.v.postAndWait(n.r.ctx, n.r, func() {
				if i := n.r.loading; !n.v.ready && i < len(n.v.spec.Entries) {
					n.v.refuse(n.v.spec.Entries[i].Path, n.v.overlong())
				}
				n.v.sink(words.Failure{Path: "<runtime>", Event: event, Message: n.v.overlong()})
			}) {
				return
			}
		}
		if why != "" {
			_ = n.proc.Signal(syscall.SIGKILL) // it may just have ended
		}
	}
}

// watchStep is how often Node is looked at.
const watchStep = 500 * time.Millisecond

// loops says that the oldest word that Node has not come to is held up by what computes. One
// that waits, for a program perhaps, uses no time of the processor.
func (n *nodeEngine) loops() (event string, yes bool) {
	limit := n.v.host.o.Limits.Turn
	n.mu.Lock()
	defer n.mu.Unlock()
	if limit == 0 || len(n.unread) == 0 || time.Since(n.unread[0].at) < limit {
		return "", false
	}
	w := n.unread[0]
	used := cpuOf(n.proc.Pid()) - w.cpu
	return w.event, w.cpu < 0 || used >= limit/2
}

// endOf says how a program has ended.
func endOf(p *tools.Spawned) string {
	code, sig, err := p.End()
	switch {
	case err != nil:
		return err.Error()
	case sig == syscall.SIGABRT: // as it ends when its heap is full
		return "out of memory, or aborted"
	case sig != 0:
		return sig.String()
	}
	return fmt.Sprintf("exit code %d", code)
}

// listen gives the lines that Node, or what it has started, writes to whoever logs.
func (n *nodeEngine) listen(f *os.File, level string) {
	defer f.Close()
	stop := context.AfterFunc(n.r.ctx, func() { f.Close() }) // what it has started may hold it open
	defer stop()
	eachLine(f, func(line string) bool {
		return n.v.postAndWait(n.r.ctx, n.r, func() { n.v.sink(words.Log{Level: level, Text: line}) })
	})
}

// toNode is a value as Node's half reads it: what is no JSON in an object that says so.
func toNode(x any) any {
	type bytes struct {
		B []byte `json:"b"`
	}
	type list struct {
		L []any `json:"l"`
	}
	switch x := x.(type) {
	case nil, bool, int, string:
		return x
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0
		}
		return x
	case []byte:
		return bytes{x}
	case quick.JSON:
		return list{[]any{string(x)}}
	case quick.Mixed:
		text, err := json.Marshal(x.Value)
		if err != nil {
			return nil
		}
		all := []any{string(text)}
		for _, name := range slices.Sorted(maps.Keys(x.Bytes)) {
			all = append(all, name, bytes{x.Bytes[name]})
		}
		return list{all}
	case nodeModule:
		return list{[]any{x[0], x[1]}}
	}
	text, err := json.Marshal(x)
	if err != nil {
		return nil
	}
	return list{[]any{string(text)}}
}

// ofNode is the other way.
func ofNode(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if text, ok := o["j"].(string); ok {
		return quick.JSON(text)
	}
	var b struct{ B []byte }
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b.B
}
