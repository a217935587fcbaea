package extension

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"troupe/tools"
	"troupe/tools/extension/quick"
)

// termGrace is how long a program that was asked to end may take.
const termGrace = 5 * time.Second

// mostOutput is what is kept of the output of a program that says nothing else.
const mostOutput = 256 << 20

// program is what JavaScript says of a child process.
type program struct {
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	Timeout    float64           `json:"timeout"` // milliseconds
	MaxBuffer  float64           `json:"maxBuffer"`
	KillSignal any               `json:"killSignal"`
	Shell      any               `json:"shell"`
	Input      *string           `json:"input"`
}

// spawn starts a program.
func (c *opCall) spawn(command string, argv []string, p program) (*tools.Spawned, error) {
	if shell, ok := p.Shell.(string); ok && shell != "" {
		command, argv = shell, []string{"-c", strings.Join(append([]string{command}, argv...), " ")}
	} else if on, ok := p.Shell.(bool); ok && on {
		command, argv = "/bin/sh", []string{"-c", strings.Join(append([]string{command}, argv...), " ")}
	}
	p.Cwd = cmp.Or(p.Cwd, c.cwd)
	env := os.Environ()
	if p.Env != nil {
		env = nil
		for k, v := range p.Env {
			env = append(env, k+"="+v)
		}
	}
	spec := tools.SpawnSpec{Procs: c.procs, Command: command, Args: argv, Dir: p.Cwd, Env: env}
	s, err := tools.Spawn(spec)
	if err != nil && command == "pi" { // by this name extensions start the agent that they run in
		spec.Command = c.host.execPath()
		s, err = tools.Spawn(spec)
	}
	if err != nil {
		return nil, spawnFailure(command, err)
	}
	return s, nil
}

func spawnFailure(command string, err error) error {
	code := syscall.ENOENT
	switch {
	case errors.Is(err, os.ErrPermission):
		code = syscall.EACCES
	case errors.Is(err, os.ErrNotExist), strings.Contains(err.Error(), "executable file not found"):
	default:
		if !errors.As(err, &code) {
			return err
		}
	}
	name := unix.ErrnoName(code)
	return &failure{Message: "spawn " + command + " " + name, Code: name, Errno: -int(code), Syscall: "spawn " + command, Path: command}
}

// signalOf reads a signal, as a name or a number; usual is for none.
func signalOf(x any, usual syscall.Signal) (syscall.Signal, error) {
	switch s := x.(type) {
	case nil:
		return usual, nil
	case float64:
		return syscall.Signal(int(s)), nil
	case string:
		if n := unix.SignalNum(s); n != 0 {
			return n, nil
		}
		return 0, &failure{Name: "TypeError", Code: "ERR_UNKNOWN_SIGNAL", Message: "Unknown signal: " + s}
	}
	return usual, nil
}

// kept is the beginning of an output.
type kept struct {
	buf  bytes.Buffer
	most int
	cut  bool
	full func() // called when there is more, once
}

func (k *kept) Write(p []byte) (int, error) {
	room := k.most - k.buf.Len()
	if len(p) > room && !k.cut {
		k.cut = true
		if k.full != nil {
			k.full()
		}
	}
	k.buf.Write(p[:min(len(p), max(room, 0))])
	return len(p), nil
}

// ended is how a program ended.
type ended struct {
	pid              int
	out, errs        kept
	code             int
	signal           syscall.Signal
	killed, timedOut bool
	err              error
}

// see sees a program to its end: both outputs, its input, a time and a context. What
// the program leaves in the background does not hold us.
func (c *opCall) see(s *tools.Spawned, p program, input []byte, first syscall.Signal, cutKills bool) *ended {
	e := &ended{pid: s.Pid()}
	most := mostOutput
	if p.MaxBuffer > 0 && p.MaxBuffer < mostOutput {
		most = int(p.MaxBuffer)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	tooMuch := make(chan struct{})
	once := sync.OnceFunc(func() { close(tooMuch) })
	if !cutKills {
		once = func() {}
	}
	e.out, e.errs = kept{most: most, full: once}, kept{most: most, full: once}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(&e.out, s.Stdout) })
	reading.Go(func() { io.Copy(&e.errs, s.Stderr) })
	go func() {
		defer s.Stdin.Close()
		_, _ = s.Stdin.Write(input) // a program need not read it
	}()
	var expired <-chan time.Time
	if p.Timeout > 0 {
		t := time.NewTimer(time.Duration(p.Timeout * float64(time.Millisecond)))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-s.Exited():
	case <-expired:
		e.timedOut, e.killed = true, true
	case <-ctx.Done():
		e.killed = true
	case <-tooMuch:
		e.killed = true
	}
	if e.killed {
		if first != syscall.SIGTERM {
			_ = s.Signal(first) // it may just have ended
		}
		grace := termGrace
		if first == syscall.SIGKILL {
			grace = time.Millisecond
		}
		s.Kill(grace)
	}
	drained := make(chan struct{})
	go func() { reading.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drainTime): // somebody in the background holds them
	}
	s.Stdout.Close()
	s.Stderr.Close()
	reading.Wait()
	e.code, e.signal, e.err = s.End()
	return e
}

// drainTime is how long outputs stay open after the program ended.
const drainTime = 250 * time.Millisecond

// result is an end as JavaScript gets it, with outputs as bytes.
func (e *ended) result() quick.Mixed {
	r := map[string]any{"pid": e.pid, "code": e.code, "signal": nil, "killed": e.killed, "truncated": e.out.cut || e.errs.cut, "timedOut": e.timedOut}
	if e.signal != 0 {
		r["code"], r["signal"] = nil, unix.SignalName(e.signal)
	}
	switch {
	case e.timedOut:
		r["error"] = map[string]string{"code": "ETIMEDOUT", "message": "spawnSync ETIMEDOUT"}
	case e.err != nil:
		r["error"] = map[string]string{"message": e.err.Error()}
	}
	return quick.Mixed{Value: r, Bytes: map[string][]byte{"stdout": e.out.buf.Bytes(), "stderr": e.errs.buf.Bytes()}}
}

func procOps() map[string]operation {
	return map[string]operation{
		"proc.run": func(c *opCall) (any, error) {
			var argv []string
			var p program
			if err := errors.Join(c.args.into(1, &argv), c.args.into(2, &p)); err != nil {
				return nil, err
			}
			first, err := signalOf(p.KillSignal, syscall.SIGTERM)
			if err != nil {
				return nil, err
			}
			input := c.args.bytes(3)
			if p.Input != nil {
				input = []byte(*p.Input)
			}
			s, err := c.spawn(c.args.text(0), argv, p)
			if err != nil {
				return quick.Mixed{Value: map[string]any{"pid": 0, "code": nil, "signal": nil, "killed": false, "truncated": false, "timedOut": false, "error": failureOf(err)},
					Bytes: map[string][]byte{"stdout": {}, "stderr": {}}}, nil
			}
			return c.see(s, p, input, first, p.MaxBuffer > 0).result(), nil
		},
		"proc.kill": func(c *opCall) (any, error) {
			pid := c.args.int(0)
			sig, err := signalOf(c.args.at(1), syscall.SIGTERM)
			if err != nil {
				return nil, err
			}
			if sig != 0 && (pid == os.Getpid() || pid == 0 || pid == -1 || pid == -os.Getpid()) {
				return nil, &failure{Code: "EPERM", Syscall: "kill", Message: "kill EPERM: the process of extensions is not theirs to end; use ctx.shutdown()"}
			}
			return nil, fsFailure("kill", syscall.Kill(pid, sig))
		},
	}
}

// child is a process as a stream.
type child struct {
	s     *tools.Spawned
	input chan []byte // nil ends it
	once  sync.Once
}

// mostInput is how many pieces of input may wait for a program to read them.
const mostInput = 4096

func (p *child) send(event string, values args) {
	switch event {
	case "stdin":
		select {
		case p.input <- values.bytes(0):
		default: // it does not read, and what wrote does not wait
		}
	case "stdinEnd":
		p.once.Do(func() { close(p.input) })
	case "kill":
		if sig, err := signalOf(values.at(0), syscall.SIGTERM); err == nil {
			_ = p.s.Signal(sig) // it may just have ended
		}
	}
}

// spawnStream is a process whose outputs come as events.
func spawnStream(c *opCall, say emit) (stream, func(), error) {
	var argv []string
	var p program
	if err := errors.Join(c.args.into(1, &argv), c.args.into(2, &p)); err != nil {
		return nil, nil, err
	}
	command := c.args.text(0)
	s, err := c.spawn(command, argv, p)
	if err != nil {
		return nothing{}, func() { say("error", failureOf(err)) }, nil
	}
	pr := &child{s: s, input: make(chan []byte, mostInput)}
	return pr, func() { pr.follow(c, say) }, nil
}

func (p *child) follow(c *opCall, say emit) {
	over := make(chan struct{})
	defer close(over)
	go func() {
		defer p.s.Stdin.Close()
		for {
			select {
			case b, ok := <-p.input:
				if !ok {
					return
				}
				if _, err := p.s.Stdin.Write(b); err != nil {
					return
				}
			case <-over:
				return
			}
		}
	}()
	say("spawn", map[string]int{"pid": p.s.Pid()})
	var reading sync.WaitGroup
	read := func(f *os.File, event string) {
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			if n > 0 && !say(event, bytes.Clone(buf[:n])) {
				return
			}
			if err != nil {
				return
			}
		}
	}
	reading.Go(func() { read(p.s.Stdout, "stdout") })
	reading.Go(func() { read(p.s.Stderr, "stderr") })
	drained := make(chan struct{})
	go func() { reading.Wait(); close(drained) }()
	select {
	case <-p.s.Exited():
	case <-c.ctx.Done():
		p.s.Kill(termGrace)
	}
	code, sig, err := p.s.End()
	how := map[string]any{"code": code, "signal": nil}
	if sig != 0 {
		how = map[string]any{"code": nil, "signal": unix.SignalName(sig)}
	}
	if err != nil {
		say("error", &failure{Message: err.Error()})
	}
	say("exit", how)
	select { // close comes with the end of the outputs, also of what runs on behind it
	case <-drained:
	case <-c.ctx.Done():
	}
	p.s.Stdout.Close()
	p.s.Stderr.Close()
	<-drained
	say("close", how)
}

// nothing is a stream that takes nothing.
type nothing struct{}

func (nothing) send(string, args) {}

// execStream is pi.exec: one event with the end of the program.
func execStream(c *opCall, say emit) (stream, func(), error) {
	var argv []string
	var p program
	if err := errors.Join(c.args.into(1, &argv), c.args.into(2, &p)); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	killable := *c
	killable.ctx = ctx
	s, err := c.spawn(c.args.text(0), argv, p)
	return killer{cancel}, func() {
		defer cancel()
		if err != nil {
			say("done", map[string]any{"stdout": "", "stderr": failureOf(err).Message, "code": 1, "killed": false, "truncated": false})
			return
		}
		e := killable.see(s, p, nil, syscall.SIGTERM, false)
		if e.signal != 0 {
			e.code = 128 + int(e.signal) // as a shell has it; 0 would read as success
		}
		say("done", map[string]any{"stdout": e.out.buf.String(), "stderr": e.errs.buf.String(), "code": e.code, "killed": e.killed, "truncated": e.out.cut || e.errs.cut})
	}, nil
}

type killer struct{ cancel context.CancelFunc }

func (k killer) send(event string, _ args) {
	if event == "kill" {
		k.cancel()
	}
}
