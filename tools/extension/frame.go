package extension

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	words "troupe/protocol/extension"
)

// kind says what a frame is.
type kind uint8

// sayWords are what the daemon says. The kind of its frame is its place among them, behind sayFirst:
// the two halves of one program are never of different versions.
var sayWords = []words.Word{
	words.Tell{}, words.Call{}, words.CancelCall{}, words.Prepare{}, words.RunTool{}, words.CancelTool{}, words.RunCommand{}, words.Invoke{}, words.Answer{}, words.Part{}, words.Update{}, words.Appended{}, words.AbortRun{}, words.Rebind{}, words.Close{}, words.Start{},
}

const (
	sayOpen  kind = 1 // has a VM begun
	sayFirst kind = 2
)

// saidWords are what a VM says. The kind of its frame is its place among them, behind saidFirst.
var saidWords = []words.Said{
	words.Ready{}, words.Changed{}, words.Told{}, words.Done{}, words.Prepared{}, words.ToolUpdate{}, words.ToolDone{}, words.CommandDone{}, words.Act{}, words.Op{}, words.OpCancel{}, words.Failure{}, words.Log{}, words.Quiet{}, words.Gone{},
}

const saidFirst kind = 64

// saidAnswer is what a VM says most often, that handlers have answered: who spoke last, a zero and
// the result, with no JSON around them.
const saidAnswer kind = 32

// frame is one word on the socket: its length (4 bytes), its kind (1), the session (4), a
// number (8), and JSON. An event that is told is the JSON itself: it is not read on the way.
type frame struct {
	kind    kind
	session uint32
	id      uint64
	payload []byte
}

const frameHead = 17

// mostFrame is the largest frame that is believed.
const mostFrame = 512 << 20

// append appends the frame.
func (f frame) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.payload)))
	b = append(b, byte(f.kind))
	b = binary.BigEndian.AppendUint32(b, f.session)
	b = binary.BigEndian.AppendUint64(b, f.id)
	return append(b, f.payload...)
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

// reader has the frames of a connection heard, in order, and what they set off run in turns.
type reader struct {
	r     *bufio.Reader
	turns Turns
	hear  func(frame) error
	over  chan error // gets why it is over

	mu  sync.Mutex // held by who reads, until what was read has been heard
	err error      // why it is over
}

// newReader reads nothing yet.
func newReader(r io.Reader, turns Turns, hear func(frame) error) *reader {
	return &reader{r: bufio.NewReaderSize(r, 64<<10), turns: turns, hear: hear, over: make(chan error, 1)}
}

// read goes on until the connection ends, or another goroutine does in its place.
func (r *reader) read() {
	for {
		r.mu.Lock()
		var f frame
		if r.err == nil {
			f, r.err = readFrame(r.r)
		}
		if r.err != nil {
			r.mu.Unlock()
			r.over <- r.err
			return
		}
		if !r.turns.Inline(func() { r.heard(f) }, func() { go r.read() }) {
			return
		}
	}
}

// heard hears a frame, and those that have come with it.
func (r *reader) heard(f frame) {
	defer r.mu.Unlock()
	for r.err == nil {
		if r.err = r.hear(f); r.err != nil || !r.whole() {
			return
		}
		f, r.err = readFrame(r.r)
	}
}

// whole says whether the next frame is there.
func (r *reader) whole() bool {
	head, _ := r.r.Peek(min(r.r.Buffered(), frameHead))
	return len(head) == frameHead && r.r.Buffered()-frameHead >= int(binary.BigEndian.Uint32(head))
}

// encode makes JSON of a word, with what others have written as they have: no character is
// escaped anew.
func encode(x any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(x)
	return b.Bytes(), err
}

// encodeWord is a word as a frame, whose kind is its place among those of its list.
func encodeWord[W any](list []W, first kind, session uint32, w W) (f frame, err error) {
	place := slices.IndexFunc(list, func(of W) bool { return reflect.TypeOf(of) == reflect.TypeOf(w) })
	f = frame{kind: first + kind(place), session: session}
	x := reflect.New(reflect.TypeOf(w)).Elem()
	x.Set(reflect.ValueOf(w))
	if id, text, bare := bareOf(x); bare {
		f.id, f.payload = *id, *text
	} else {
		f.payload, err = encode(w)
	}
	return f, err
}

// decodeWord is the other way.
func decodeWord[W any](list []W, first kind, f frame) (w W, err error) {
	if f.kind < first || int(f.kind-first) >= len(list) {
		return w, fmt.Errorf("nobody says %d", f.kind)
	}
	x := reflect.New(reflect.TypeOf(list[f.kind-first])).Elem()
	if id, text, bare := bareOf(x); bare {
		*id, *text = f.id, f.payload
	} else if err = json.Unmarshal(f.payload, x.Addr().Interface()); err != nil {
		err = fmt.Errorf("word %d: %w", f.kind, err)
	}
	return x.Interface().(W), err
}

// bareOf is the number and the JSON of a word that has nothing else: that JSON is not read on the
// way.
func bareOf(x reflect.Value) (id *uint64, text *json.RawMessage, bare bool) {
	id, text = new(uint64), new(json.RawMessage)
	for i := range x.NumField() {
		switch p := x.Field(i).Addr().Interface().(type) {
		case *uint64:
			id = p
		case *json.RawMessage:
			text = p
		default:
			return nil, nil, false
		}
	}
	return id, text, true
}

// wordFrame is what the daemon says as a frame. An answer with bad JSON of somebody else in it has
// no form.
func wordFrame(session uint32, w words.Word) frame {
	f, err := encodeWord(sayWords, sayFirst, session, w)
	if a, is := w.(words.Answer); is && err != nil {
		return wordFrame(session, words.Answer{Op: a.Op, Err: err.Error()})
	}
	return f
}

// frameOf is what a VM says as a frame.
func frameOf(session uint32, s words.Said) frame {
	if s, is := s.(words.Done); is && s.Err == "" && !s.TimedOut && (s.Result == nil || json.Valid(s.Result)) {
		return frame{saidAnswer, session, s.ID, slices.Concat([]byte(s.Path), []byte{0}, s.Result)}
	}
	f, err := encodeWord(saidWords, saidFirst, session, s)
	if err == nil && len(f.payload) > 0 && !json.Valid(f.payload) {
		err = errors.New("no JSON")
	}
	if err != nil { // it is nested too deeply, say
		return frameOf(session, unsaid(s, err))
	}
	return f
}

// unsaid is said in the place of what has no form, so that nobody waits for it.
func unsaid(s words.Said, err error) words.Said {
	switch s := s.(type) {
	case words.Done:
		return words.Done{ID: s.ID, Err: err.Error()}
	case words.Prepared:
		return words.Prepared{ID: s.ID, Err: err.Error()}
	case words.ToolDone:
		return words.ToolDone{ID: s.ID, IsError: true}
	default:
		return words.Failure{Path: "<runtime>", Message: err.Error()}
	}
}

// saidOf is the other way.
func saidOf(f frame) (words.Said, error) {
	if f.kind != saidAnswer {
		return decodeWord(saidWords, saidFirst, f)
	}
	path, result, ok := bytes.Cut(f.payload, []byte{0})
	if !ok {
		return nil, errors.New("an answer has no end of its path")
	}
	if len(result) == 0 {
		result = nil
	}
	return words.Done{ID: f.id, Path: string(path), Result: result}, nil
}
