package extension

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// kind says what a frame is.
type kind uint8

// What the daemon says. The numbers are those of the two halves of one program, which
// are never of different versions.
const (
	sayOpen kind = iota + 1
	sayTell
	sayCall
	sayCancelCall
	sayPrepare
	sayTool
	sayCancelTool
	sayCommand
	sayInvoke
	sayAnswer
	sayAnswerError
	sayPart
	sayUpdate
	sayEntry
	sayAbortRun
	sayRebind
	sayClose
)

// What a VM says.
const (
	saidReady kind = iota + 64
	saidChanged
	saidTold
	saidDone
	saidNotDone
	saidPrepared
	saidNotPrepared
	saidToolUpdate
	saidToolDone
	saidToolFailed
	saidCommandDone
	saidAct
	saidOp
	saidOpCancel
	saidFailure
	saidLog
	saidQuiet
	saidGone
)

// frame is one word on the socket: its length (4 bytes), its kind (1), the session (4), a
// number (8), and JSON. What is large, an event or a result, is the JSON itself: it is not
// read on the way.
type frame struct {
	kind    kind
	session uint32
	id      uint64
	payload []byte
}

const frameHead = 17

// mostFrame is the largest frame that is believed.
const mostFrame = 512 << 20

func (f frame) write(w *bufio.Writer) error {
	if len(f.payload) > mostFrame {
		return fmt.Errorf("a word of %d bytes is too long", len(f.payload))
	}
	var head [frameHead]byte
	binary.BigEndian.PutUint32(head[0:], uint32(len(f.payload)))
	head[4] = byte(f.kind)
	binary.BigEndian.PutUint32(head[5:], f.session)
	binary.BigEndian.PutUint64(head[9:], f.id)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(f.payload)
	return err
}

func readFrame(r *bufio.Reader) (frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[0:])
	if n > mostFrame {
		return frame{}, fmt.Errorf("a word of %d bytes is too long", n)
	}
	f := frame{kind: kind(head[4]), session: binary.BigEndian.Uint32(head[5:]), id: binary.BigEndian.Uint64(head[9:])}
	if n > 0 {
		f.payload = make([]byte, n)
		if _, err := io.ReadFull(r, f.payload); err != nil {
			return frame{}, err
		}
	}
	return f, nil
}

// encoded is a word as JSON. Words of ours always have a form; one with bad JSON of
// somebody else in it has not.
func encoded(x any) []byte {
	text, err := json.Marshal(x)
	if err != nil {
		text, _ = json.Marshal(map[string]string{"err": err.Error()})
	}
	return text
}

// frameOf is what a VM says as a frame.
func frameOf(session uint32, s Said) frame {
	f := frame{session: session}
	switch s := s.(type) {
	case Ready:
		f.kind, f.payload = saidReady, encoded(s)
	case Changed:
		f.kind, f.payload = saidChanged, encoded(s)
	case Told:
		f.kind, f.id = saidTold, s.N
	case Done:
		f.kind, f.id, f.payload = saidDone, s.ID, s.Result
		if s.Err != "" || s.TimedOut {
			f.kind, f.payload = saidNotDone, encoded(s)
		}
	case Prepared:
		f.kind, f.id, f.payload = saidPrepared, s.ID, s.Args
		if s.Err != "" {
			f.kind, f.payload = saidNotPrepared, []byte(s.Err)
		}
	case ToolUpdate:
		f.kind, f.id, f.payload = saidToolUpdate, s.ID, s.Partial
	case ToolDone:
		f.kind, f.id, f.payload = saidToolDone, s.ID, s.Result
		if s.IsError {
			f.kind = saidToolFailed
		}
	case CommandDone:
		f.kind, f.id, f.payload = saidCommandDone, s.ID, []byte(s.Err)
	case Act:
		f.kind, f.payload = saidAct, encoded(s)
	case Op:
		f.kind, f.payload = saidOp, encoded(s)
	case OpCancel:
		f.kind, f.id = saidOpCancel, s.ID
	case Failure:
		f.kind, f.payload = saidFailure, encoded(s)
	case Log:
		f.kind, f.payload = saidLog, encoded(s)
	case Quiet:
		f.kind = saidQuiet
		if s.Quiet {
			f.id = 1
		}
	case Gone:
		f.kind, f.payload = saidGone, []byte(s.Why)
	}
	return f
}

// saidOf is the other way.
func saidOf(f frame) (Said, error) {
	var err error
	into := func(x any) { err = json.Unmarshal(f.payload, x) }
	var s Said
	switch f.kind {
	case saidReady:
		var x Ready
		into(&x)
		s = x
	case saidChanged:
		var x Changed
		into(&x)
		s = x
	case saidTold:
		s = Told{N: f.id}
	case saidDone:
		s = Done{ID: f.id, Result: f.payload}
	case saidNotDone:
		var x Done
		into(&x)
		s = x
	case saidPrepared:
		s = Prepared{ID: f.id, Args: f.payload}
	case saidNotPrepared:
		s = Prepared{ID: f.id, Err: string(f.payload)}
	case saidToolUpdate:
		s = ToolUpdate{ID: f.id, Partial: f.payload}
	case saidToolDone, saidToolFailed:
		s = ToolDone{ID: f.id, Result: f.payload, IsError: f.kind == saidToolFailed}
	case saidCommandDone:
		s = CommandDone{ID: f.id, Err: string(f.payload)}
	case saidAct:
		var x Act
		into(&x)
		s = x
	case saidOp:
		var x Op
		into(&x)
		s = x
	case saidOpCancel:
		s = OpCancel{ID: f.id}
	case saidFailure:
		var x Failure
		into(&x)
		s = x
	case saidLog:
		var x Log
		into(&x)
		s = x
	case saidQuiet:
		s = Quiet{Quiet: f.id == 1}
	case saidGone:
		s = Gone{Why: string(f.payload)}
	default:
		return nil, fmt.Errorf("a VM does not say %d", f.kind)
	}
	return s, err
}
