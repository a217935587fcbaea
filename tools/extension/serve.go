package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	words "troupe/protocol/extension"
)

// Serve runs a host for whoever is at the other end, until that end is closed. The
// error says what was wrong with what it said.
func Serve(rw io.ReadWriter, o Options) error {
	h := NewInline(o)
	go h.warm()
	s := &server{host: h, turns: h.o.Turns, vms: map[uint32]words.VM{}, w: rw}
	r := newReader(rw, h.o.Turns, s.hear)
	r.read()
	err := <-r.over
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

type server struct {
	host  *Inline
	turns Turns
	w     io.Writer

	mu  sync.Mutex // guards what follows: every VM says things, and when it is gone
	vms map[uint32]words.VM
	out []byte // frames that are not written
	due bool   // they are about to be
}

// say says what a VM says, together with what else is said in this turn: who is told by half
// of it begins before there is time for him.
func (s *server) say(session uint32, x words.Said) {
	f := frameOf(session, x)
	if len(f.payload) > mostFrame {
		f = frameOf(session, unsaid(x, fmt.Errorf("a word of %d bytes is too long", len(f.payload))))
	}
	s.mu.Lock()
	if _, gone := x.(words.Gone); gone {
		delete(s.vms, session)
	}
	s.out = f.append(s.out)
	due := s.due
	s.due = true
	s.mu.Unlock()
	if !due {
		s.turns.AtEnd(s.flush)
	}
}

// flush writes what was said. Who cannot be told any more is gone, as the reader finds.
func (s *server) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = false
	_, _ = s.w.Write(s.out)
	if s.out = s.out[:0]; cap(s.out) > 64<<10 {
		s.out = nil
	}
}

// hear does what a frame says.
func (s *server) hear(f frame) error {
	if f.kind == sayOpen {
		var spec words.Spec
		if err := json.Unmarshal(f.payload, &spec); err != nil {
			return fmt.Errorf("open: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vms[f.session] = s.host.Open(spec, func(x words.Said) { s.say(f.session, x) })
		return nil
	}
	s.mu.Lock()
	vm := s.vms[f.session] // one that closes still gets answers
	s.mu.Unlock()
	if vm == nil {
		return nil // it was closed
	}
	w, err := decodeWord(sayWords, sayFirst, f)
	if err == nil {
		vm.Say(w)
	}
	return err
}
