package providers

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/protocol"
)

// Memo is how the beginning of a conversation looked on a wire, so that the
// next request of the same session encodes only what came after it. What is
// written with a memo is what would be written without.
//
// It relies on finished messages not changing: a history that begins with the
// very same messages begins with the same bytes, if model, tools and the rest
// are the same, too. Everything that is different makes it useless, and the
// request is encoded whole and remembered anew.
//
// A session has one for itself and drops it with its context; a long history is
// what it is for. The zero value is empty. Two requests at once are safe: one of
// them does without.
type Memo struct {
	mu       sync.Mutex
	about    memoKey
	messages []protocol.Message // the beginning, as the history has it
	list     []byte             // the same on the wire, without a comma at the end
	size     int                // the same, as [Request.estimate] counts
	used     *IDs               // of calls; the first ids of them in list
	ids      int
	answer   bool          // the last message is the assistant's
	state    any           // of the wire
	held     *atomic.Int64 // bytes counted in memoTotal
}

// memoKey is what the encoding of a message depends on besides its history.
type memoKey struct {
	model    protocol.Model
	thinking protocol.ThinkingLevel
	tools    []string
	cache    CacheRetention
	block    bool
}

// What memos may hold, one and all together: they are worth having for the
// sessions that are busy, not for all that are open.
const (
	memoLimit  = 8 << 20
	memoBudget = 32 << 20
)

var memoTotal atomic.Int64

func (r *Request) memoKey() memoKey {
	key := memoKey{model: *r.Model, thinking: r.Thinking, cache: r.Cache, block: r.BlockImages}
	for _, t := range r.Tools {
		key.tools = append(key.tools, t.Name)
	}
	return key
}

// knows says whether the request's history continues the one remembered.
func (m *Memo) knows(req *Request) bool {
	n := len(m.messages)
	return n > 0 && n < len(req.Messages) && slices.Equal(m.messages, req.Messages[:n]) && reflect.DeepEqual(m.about, req.memoKey())
}

// hold counts n bytes for the memo, unless that is too many.
func (m *Memo) hold(n int) bool {
	if m.held == nil {
		m.held = new(atomic.Int64)
		runtime.AddCleanup(m, func(held *atomic.Int64) { memoTotal.Add(-held.Load()) }, m.held)
	}
	more := int64(n) - m.held.Load()
	if more > 0 && (n > memoLimit || memoTotal.Load()+more > memoBudget) {
		return false
	}
	m.held.Add(more)
	memoTotal.Add(more)
	return true
}

func (m *Memo) forget() {
	m.about, m.messages, m.list, m.used, m.state = memoKey{}, nil, nil, nil, nil
	m.hold(0)
}

// Conversation is the history of a request as a wire writes it: Known, and
// behind it Messages.
type Conversation struct {
	Known    []byte             // elements of the list, without a comma at the end; nil if there are none
	Messages []protocol.Message // see [Convert]
	Cut      int                // where [Conversation.Keep] may be called: before this message. -1 for nowhere
	CutIDs   int                // how many calls of Messages stand before it

	memo *Memo // held for this request, nil for none
	req  *Request
	from int // of the history: where Messages begin
	at   cut
	used *IDs
}

// cut is a place where a conversation can be continued: the role changes there,
// and no result behind it belongs to a call before it.
type cut struct{ source, out, ids int }

// Converse is [Convert] for a wire that keeps what it has written. The wire calls
// resume before ids of calls are made, with the state it gave to
// [Conversation.Keep] or nil to begin anew, and [Conversation.Close] when it has
// written the request.
func Converse(req *Request, shape Shape, resume func(state any)) *Conversation {
	v := &Conversation{req: req, Cut: -1}
	if req.Memo != nil && len(req.Tools) > 0 && req.Memo.mu.TryLock() {
		v.memo = req.Memo
		if v.memo.knows(req) {
			resume(v.memo.state)
			v.used, v.from, v.Known = v.memo.used, len(v.memo.messages), v.memo.list
			v.used.Cut(v.memo.ids)
			if v.convert(shape) {
				req.known = known{v.from, len(v.Known), v.memo.size}
				return v
			}
		}
		v.memo.forget()
	}
	req.known = known{}
	resume(nil)
	v.used, v.from, v.Known = &IDs{}, 0, nil
	v.convert(shape)
	return v
}

// convert is false if the part of the history that is not known has to do with
// the part that is.
func (v *Conversation) convert(shape Shape) bool {
	before := v.used.Len()
	c := &converter{req: v.req, shape: shape, used: v.used, continues: v.from > 0, strange: -1}
	if !c.convert(v.req.Messages[v.from:]) {
		return false
	}
	// What is known ended where the role changed; after an edit it may not.
	if v.from > 0 && (len(c.out) == 0 || isAnswer(c.out[0]) == v.memo.answer) {
		return false
	}
	v.Messages = c.out
	if v.memo != nil && c.cut.source > 0 {
		v.at = cut{v.from + c.cut.source, c.cut.out, c.cut.ids}
		v.Cut, v.CutIDs = c.cut.out, c.cut.ids-before
	}
	return true
}

// Keep remembers what stands before Messages[Cut]: list begins with Known and
// has no comma at its end. state is what the wire has to know to go on from
// there; it may share what only ever grows.
func (v *Conversation) Keep(list []byte, state any) {
	m := v.memo
	if m == nil || v.at.source == 0 {
		return
	}
	if !m.hold(len(list)) {
		m.forget()
		return
	}
	fresh := v.req.Messages[v.from:v.at.source]
	m.size = v.req.known.size + historySize(fresh, imageSize)
	m.list = append(m.list[:len(v.Known)], list[len(v.Known):]...)
	m.messages = append(m.messages[:v.from], fresh...)
	m.about, m.used, m.ids, m.state = v.req.memoKey(), v.used, v.at.ids, state
	m.answer = isAnswer(v.Messages[v.Cut-1])
}

// Whole makes the conversation anew, with nothing known of it.
func (v *Conversation) Whole(shape Shape, resume func(state any)) {
	v.memo.forget()
	v.Close()
	*v = *Converse(v.req, shape, resume)
}

// Close lets another request use the memo.
func (v *Conversation) Close() {
	v.req.known = known{}
	if v.memo != nil {
		v.memo.mu.Unlock()
		v.memo = nil
	}
}

// IDs are names that are given out, each once. The latest can be taken back.
type IDs struct {
	set  map[string]struct{}
	list []string
}

// Add takes a name; it is false if the name is taken.
func (s *IDs) Add(id string) bool {
	if s.Has(id) {
		return false
	}
	s.grow(0)
	s.set[id] = struct{}{}
	s.list = append(s.list, id)
	return true
}

// grow makes room for n names.
func (s *IDs) grow(n int) {
	if s.set == nil {
		s.set, s.list = make(map[string]struct{}, n), make([]string, 0, n)
	}
}

// Has says whether a name is taken.
func (s *IDs) Has(id string) bool {
	_, ok := s.set[id]
	return ok
}

// Len is how many names are taken.
func (s *IDs) Len() int { return len(s.list) }

// Cut takes all but the first n names back.
func (s *IDs) Cut(n int) {
	for _, id := range s.list[n:] {
		delete(s.set, id)
	}
	clear(s.list[n:])
	s.list = s.list[:n]
}
