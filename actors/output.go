package actors

import (
	"math"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
)

// output is what a session does about clients that do not read; see [window].
// Commands go on while the window is full, so that an abort stops a run; what
// waits is work that would only make more output.
type output struct {
	work    []any                 // messages of workers, oldest first
	answers []func(actor.Context) // large answers, oldest first, and what comes behind them
	ending  bool                  // an end in order is among the answers: every command waits behind it
	looking int                   // look-ups under way
	lookUps []lookUp              // look-ups that wait, oldest first
	left    []func()              // closes logs that waiting answers are still to be read from
	message int                   // bytes of the assistant message that grows on the wire
}

// lookUp is a search that takes long, with all that it needs of the moment when
// it was asked for.
type lookUp struct {
	seq  uint64
	find func() (protocol.Result, *protocol.Error)
}

// maxLookUps is how many look-ups of a session go on at once.
const maxLookUps = 2

// none says that nothing waits or is under way.
func (o *output) none() bool {
	return len(o.work)+len(o.answers)+len(o.lookUps)+o.looking == 0
}

// full says whether a client of the session has to read first.
func (l *life) full() bool {
	for _, cl := range l.clients {
		if !cl.muted && cl.window.full() {
			return true
		}
	}
	return false
}

// awaitWindow makes sure that the session hears when it can go on.
func (s *Session) awaitWindow(c actor.Context) {
	for _, cl := range s.clients {
		if !cl.muted && cl.window.full() {
			cl.window.tell(c.Self())
			return
		}
	}
	c.Send(c.Self(), windowOpen{}) // it has opened meanwhile, or its client has left
}

// large says whether an answer can grow with a session, or with the number of
// sessions.
func large(cmd protocol.Command) bool {
	switch cmd.(type) {
	case protocol.GetMessages, protocol.GetEntries, protocol.GetTree, protocol.GetSessionTree,
		protocol.GetForkMessages, protocol.GetLastAssistantText, protocol.ListSessions, protocol.ExportHTML:
		return true
	default:
		return false
	}
}

// fromWorker takes a message of a worker, or keeps it until the window is open. What
// one worker says stays in order.
func (s *Session) fromWorker(c actor.Context, m any) {
	if len(s.output.work) > 0 || s.full() {
		if s.output.work = append(s.output.work, m); len(s.output.work) == 1 {
			s.awaitWindow(c)
		}
		return
	}
	if s.worked(c, m); len(s.output.work) > 0 {
		s.awaitWindow(c)
	}
}

// worked handles a message of a worker. Of a batch of parts it handles no more
// than the window has room for: each may show a whole message.
func (s *Session) worked(c actor.Context, m any) {
	switch m := m.(type) {
	case streamParts:
		n := s.partsThatFit(m.Parts)
		rest := m
		m.Parts, rest.Parts = m.Parts[:n], m.Parts[n:]
		s.step(c, m.StreamParts)
		if len(rest.Parts) == 0 {
			m.tokens.give()
		} else {
			s.output.work = append([]any{rest}, s.output.work...)
		}
	case toolProgress:
		s.step(c, m.ToolProgress)
		m.tokens.give()
	case bashProgress:
		s.step(c, m.BashProgress)
		m.tokens.give()
	case session.Input:
		s.step(c, m)
	}
}

// partsThatFit is how many parts may be handled at once: at least the first
// record. Deltas of one block behind each other are one.
func (s *Session) partsThatFit(parts []protocol.Part) int {
	room := math.MaxInt
	for _, cl := range s.clients {
		if !cl.muted {
			room = min(room, cl.window.room())
		}
	}
	deltas, message := s.gates.Has(protocol.FeatureDeltaUpdates), s.output.message
	before := -1
	for i, p := range parts {
		same := false
		if delta, ok := p.(protocol.PartDelta); ok {
			same, before = delta.Index == before, delta.Index
			message += len(delta.Delta)
			room -= len(delta.Delta)
		} else {
			before = -1
		}
		if same {
			continue
		}
		room -= recordSize
		if !deltas {
			room -= 2 * message
		}
		if room < 0 && i > 0 {
			return i
		}
	}
	return len(parts)
}

// onWindowOpen goes on with what has waited.
func (s *Session) onWindowOpen(c actor.Context) {
	s.nextLookUp(c)
	for len(s.output.answers) > 0 && !s.full() && !s.gone {
		answer := s.output.answers[0]
		if s.output.answers = s.output.answers[1:]; len(s.output.answers) == 0 {
			s.output.answers, s.output.ending = nil, false
			defer s.closeLeft()
		}
		answer(c)
		s.flush(c.ActorSystem().Root)
	}
	for len(s.output.work) > 0 && !s.full() && !s.gone {
		m := s.output.work[0]
		if s.output.work = s.output.work[1:]; len(s.output.work) == 0 {
			s.output.work = nil
		}
		s.worked(c, m)
	}
	if len(s.output.answers)+len(s.output.lookUps)+len(s.output.work) > 0 && !s.gone {
		s.awaitWindow(c)
	}
}

// waits says whether a large answer has to wait.
func (s *Session) waits() bool { return len(s.output.answers) > 0 || s.full() }

// later does what has to wait until a client has read more.
func (s *Session) later(c actor.Context, do func(actor.Context)) {
	if s.output.answers = append(s.output.answers, do); len(s.output.answers) == 1 {
		s.awaitWindow(c)
	}
}

// endsLater keeps an end in order behind the answers that wait, and every
// command behind that.
func (s *Session) endsLater(c actor.Context, m any) bool {
	switch m := m.(type) {
	case request:
		switch m.Cmd.(type) {
		case protocol.AttachSession, protocol.DetachSession:
			return false // who hears of the session is noted already, see listen: the answer must not come later
		case protocol.CloseSession:
			s.output.ending = s.output.ending || len(s.output.answers) > 0
		default:
		}
	case closing:
		if m.abort {
			return false
		}
		s.output.ending = s.output.ending || len(s.output.answers) > 0
	default:
		return false
	}
	if s.output.ending {
		s.later(c, func(c actor.Context) { s.take(c, m) })
	}
	return s.output.ending
}

// closeLater closes a log, at once or when no answer waits to be read from it.
func (s *Session) closeLater(close func()) {
	if len(s.output.answers) == 0 {
		close()
		return
	}
	s.output.left = append(s.output.left, close)
}

func (s *Session) closeLeft() {
	for _, close := range s.output.left {
		close()
	}
	s.output.left = nil
}

// lookUp answers a command that takes long, off the actor's goroutine.
func (s *Session) lookUp(c actor.Context, e session.LookUp) {
	s.output.lookUps = append(s.output.lookUps, lookUp{e.Seq, s.search(e.Cmd)})
	s.nextLookUp(c)
}

func (s *Session) nextLookUp(c actor.Context) {
	for len(s.output.lookUps) > 0 && s.output.looking < maxLookUps {
		if s.full() {
			s.awaitWindow(c)
			return
		}
		next := s.output.lookUps[0]
		s.output.lookUps = s.output.lookUps[1:]
		s.output.looking++
		background(c, func() any {
			data, err := next.find()
			return session.LookedUp{Seq: next.seq, Data: data, Err: err}
		})
	}
}

// lookedUp answers a look-up and begins the next.
func (s *Session) lookedUp(c actor.Context, m session.LookedUp) {
	s.output.looking = max(0, s.output.looking-1) // an earlier life may have begun it
	s.suspect(m.Err)
	s.step(c, m)
	s.nextLookUp(c)
}

// recordSize is about what a record has beside its contents.
const recordSize = 200

// sizeOf is about how many bytes a record takes on the wire.
func (o *output) sizeOf(it item, deltas bool) int {
	switch ev := it.event.(type) {
	case *protocol.MessageUpdate:
		return o.updateSize(ev, deltas)
	case protocol.MessageStart:
		o.message = protocol.EncodedSize(ev.Message)
		return recordSize + o.message
	case protocol.MessageEnd:
		o.message = 0
		return recordSize + protocol.EncodedSize(ev.Message)
	case protocol.TurnEnd:
		n := recordSize + protocol.EncodedSize(ev.Message)
		for _, m := range ev.ToolResults {
			n += protocol.EncodedSize(m)
		}
		return n
	case protocol.AgentEnd:
		n := recordSize
		for _, m := range ev.Messages {
			n += protocol.EncodedSize(m)
		}
		return n
	case protocol.ToolExecutionStart:
		return recordSize + len(ev.Args)
	case protocol.ToolExecutionUpdate:
		return recordSize + len(ev.Args) + contentSize(ev.PartialResult.Content)
	case protocol.ToolExecutionEnd:
		return recordSize + contentSize(ev.Result.Content)
	case protocol.BashExecutionUpdate:
		return recordSize + len(ev.Delta)
	case protocol.QueueChanged:
		n := recordSize
		for _, list := range [][]string{ev.Steering, ev.FollowUp} {
			for _, text := range list {
				n += 3 + len(text)
			}
		}
		return n
	case protocol.HostToolCall:
		return recordSize + len(ev.Arguments)
	default: // small ones
	}
	return recordSize + weight(it.response)
}

// updateSize follows the growing message, which a client without deltaUpdates is
// shown twice in each update.
func (o *output) updateSize(ev *protocol.MessageUpdate, deltas bool) int {
	step := len(ev.Delta)
	if ev.Step == protocol.UpdateStart {
		o.message += 60
	}
	o.message += len(ev.Delta)
	if ev.Step == protocol.UpdateEnd {
		step = blockSize(ev.Block)
	}
	if deltas {
		return recordSize + step
	}
	return recordSize + step + 2*o.message
}

func blockSize(b protocol.Block) int {
	switch b := b.(type) {
	case protocol.Text:
		return len(b.Text)
	case protocol.Thinking:
		return len(b.Thinking)
	case protocol.ToolCall:
		return len(b.Arguments)
	case protocol.Image:
		return len(b.Data)
	case protocol.UnknownBlock:
		return len(b.Raw)
	}
	return 0
}

func contentSize(content protocol.Content) (n int) {
	for _, b := range content {
		n += blockSize(b)
	}
	return n
}

// merge takes a later record into this one, if nothing is lost by it: deltas of
// one block are one delta, progress of a tool, which is cumulative, gives way to
// newer progress. What it then shows is what the later one would have shown.
func (it *item) merge(later item) bool {
	switch next := later.event.(type) {
	case *protocol.MessageUpdate:
		first, ok := it.event.(*protocol.MessageUpdate)
		if !ok || first.Step != protocol.UpdateDelta || next.Step != protocol.UpdateDelta ||
			first.Index != next.Index || first.RunID != next.RunID {
			return false
		}
		if it.merged == nil {
			it.merged = append([]byte(nil), first.Delta...)
			one := *first
			it.event, first = &one, &one
		}
		it.merged = append(it.merged, next.Delta...)
		it.size = max(it.size, later.size) + len(next.Delta)
		if next.Usage != nil {
			first.Usage = next.Usage
		}
		return true
	case protocol.ToolExecutionUpdate:
		first, ok := it.event.(protocol.ToolExecutionUpdate)
		if !ok || first.ToolCallID != next.ToolCallID || first.RunID != next.RunID {
			return false
		}
		*it = later
		return true
	default:
		return false
	}
}

// settle makes the event whole that others were merged into.
func (it *item) settle() {
	if it.merged != nil {
		it.event.(*protocol.MessageUpdate).Delta = string(it.merged)
		it.merged = nil
	}
}

// weight is about how many bytes an answer's data takes: those that can be large
// know it.
func weight(r *protocol.Response) int {
	if r == nil {
		return 0
	}
	return dataWeight(r.Data)
}

func dataWeight(data protocol.Result) int {
	if w, ok := data.(protocol.Weighed); ok {
		return w.Weight()
	}
	return 0
}
