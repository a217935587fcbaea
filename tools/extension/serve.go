package extension

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// commandWords, invokeWords and openWords are what some frames have as JSON.
type (
	commandWords struct {
		Name string `json:"name"`
		Args string `json:"args"`
	}
	invokeWords struct {
		Key    string            `json:"key"`
		Member string            `json:"member"`
		Args   []json.RawMessage `json:"args"`
	}
)

// Serve runs a host for whoever is at the other end, until that end is closed. The
// error says what was wrong with what it said.
func Serve(rw io.ReadWriter, o Options) error {
	h := NewInline(o)
	go h.warm()
	s := &server{host: h, vms: map[uint32]VM{}, w: rw}
	err := s.read(bufio.NewReaderSize(rw, 64<<10))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

type server struct {
	host *Inline

	mu  sync.Mutex // guards what follows: every VM writes, and says when it is gone
	vms map[uint32]VM
	w   io.Writer
	out []byte // room for a frame
}

// say writes what a VM says. Who cannot be told any more is gone, as the reader finds.
func (s *server) say(session uint32, x Said) {
	f := frameOf(session, x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, gone := x.(Gone); gone {
		delete(s.vms, session)
	}
	if len(f.payload) > mostFrame {
		f = frameOf(session, unsaid(x, fmt.Errorf("a word of %d bytes is too long", len(f.payload))))
	}
	s.out = f.append(s.out[:0])
	_, _ = s.w.Write(s.out)
	if cap(s.out) > 64<<10 {
		s.out = nil
	}
}

func (s *server) read(r *bufio.Reader) error {
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		if err := s.hear(f); err != nil {
			return err
		}
	}
}

// hear does what a frame says.
func (s *server) hear(f frame) error {
	if f.kind == sayOpen {
		var spec Spec
		if err := json.Unmarshal(f.payload, &spec); err != nil {
			return fmt.Errorf("open: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vms[f.session] = s.host.Open(spec, func(x Said) { s.say(f.session, x) })
		return nil
	}
	s.mu.Lock()
	vm := s.vms[f.session] // one that closes still gets answers
	s.mu.Unlock()
	if vm == nil {
		return nil // it was closed
	}
	var err error
	into := func(x any) bool {
		if e := json.Unmarshal(f.payload, x); e != nil {
			err = fmt.Errorf("word %d: %w", f.kind, e)
		}
		return err == nil
	}
	switch f.kind {
	case sayTell:
		vm.Tell(f.id, f.payload)
	case sayCall:
		vm.Call(f.id, f.payload)
	case sayCancelCall:
		vm.CancelCall(f.id)
	case sayPrepare:
		if c := new(ToolCall); into(c) {
			vm.Prepare(f.id, *c)
		}
	case sayTool:
		if c := new(ToolCall); into(c) {
			vm.Tool(f.id, *c)
		}
	case sayCancelTool:
		vm.CancelTool(f.id)
	case sayCommand:
		if c := new(commandWords); into(c) {
			vm.Command(f.id, c.Name, c.Args)
		}
	case sayInvoke:
		if c := new(invokeWords); into(c) {
			vm.Invoke(f.id, c.Key, c.Member, c.Args)
		}
	case sayAnswer:
		vm.Answer(f.id, f.payload, "")
	case sayAnswerError:
		vm.Answer(f.id, nil, string(f.payload))
	case sayPart:
		vm.Part(f.id, f.payload)
	case sayUpdate:
		vm.Update(f.payload)
	case sayEntry:
		vm.Entry(f.payload)
	case sayAbortRun:
		vm.AbortRun()
	case sayRebind:
		if c := new(Spec); into(c) {
			vm.Rebind(*c)
		}
	case sayClose:
		vm.Close(string(f.payload))
	default:
		return fmt.Errorf("nobody says %d", f.kind)
	}
	return err
}
