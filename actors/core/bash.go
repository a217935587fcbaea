package core

import (
	"encoding/json"
	"slices"
	"strconv"

	"troupe/protocol"
)

// bashJob is a running bash command of a client.
type bashJob struct {
	job     int
	seq     uint64
	id      json.RawMessage
	command string
	exclude bool
	left    bool      // its session has been left
	stopped bool      // by abort_bash
	done    *BashDone // how it ended, while one that was stopped with it has not

	key  protocol.IdempotencyKey
	also []uint64 // repeats, which get the same answer
}

func (b *bashJob) answer(m *Machine, r Reply) {
	for _, r.Seq = range append([]uint64{b.seq}, b.also...) {
		m.do(r)
	}
}

func (m *Machine) bash(c Command, b protocol.Bash) {
	key := keyOfCommand(b)
	if m.bashAgain(c, key) {
		return
	}
	switch {
	case m.set.NoFiles:
		m.fail(c, protocol.CodeUnsupported.Errorf("The session is in a root without files, where no commands run"))
		return
	case len(m.bashes) > 0 && m.set.Rules.OneBash:
		m.fail(c, protocol.CodeSessionBusy.Errorf("Bash command already running"))
		return
	case len(m.bashes) >= protocol.MaxBashes:
		m.fail(c, protocol.CodeOverloaded.Errorf("%d bash commands are running: wait for one to end", protocol.MaxBashes))
		return
	}
	if m.activity.inRun() != nil && m.queueFull(c, len(b.Command)) { // its record waits for the end of the run
		return
	}
	m.noteKey(protocol.SeenKey{Key: key, Disposition: protocol.KeyBegun})
	m.jobs++
	m.bashes = append(m.bashes, bashJob{job: m.jobs, seq: c.Seq, id: c.ID, command: b.Command, exclude: b.ExcludeFromContext, key: key})
	m.do(StartBash{Seq: c.Seq, Job: m.jobs, Command: b.Command, Exclude: b.ExcludeFromContext})
}

// bashAgain answers a command whose key was used before, if it was: with the first one,
// from its record, or that nobody knows what came of it.
func (m *Machine) bashAgain(c Command, key protocol.IdempotencyKey) bool {
	seen := m.keys.find(key.Key)
	runs := slices.IndexFunc(m.bashes, func(b bashJob) bool { return key.Key != "" && b.key == key })
	held := slices.IndexFunc(m.held, func(h heldBash) bool { return key.Key != "" && h.key == key })
	switch {
	case runs >= 0:
		m.bashes[runs].also = append(m.bashes[runs].also, c.Seq)
	case seen == nil:
		return false
	case m.conflicts(c, seen, key):
	case held >= 0:
		m.done(c, m.held[held].message.Result())
	case seen.Disposition == protocol.KeyBegun:
		m.fail(c, protocol.CodeCancelled.Errorf("The command was cut off and may have had effects. It is not run again with the same key.").MayHaveRun())
	default:
		m.do(Query{c.Seq, c.Name, c.Cmd})
	}
	return true
}

func (m *Machine) stopBashes() {
	for i := range m.bashes {
		m.bashes[i].stopped = true
		m.do(CancelBash{m.bashes[i].job})
	}
}

func (m *Machine) bashIndex(job int) int {
	return slices.IndexFunc(m.bashes, func(b bashJob) bool { return b.job == job })
}

func (in BashProgress) apply(m *Machine) {
	if i := m.bashIndex(in.Job); i >= 0 {
		m.emit(protocol.BashExecutionUpdate{ID: m.bashes[i].id, Delta: in.Delta})
	}
}

// apply ends a command. Those that were stopped together end in the order in
// which they began, as with pi, whichever process was the first to go.
func (in BashDone) apply(m *Machine) {
	i := m.bashIndex(in.Job)
	if i < 0 || m.bashes[i].done != nil {
		return
	}
	m.bashes[i].done = &in
	blocked := false
	for i := 0; i < len(m.bashes); {
		job := m.bashes[i]
		if job.done == nil || blocked && job.stopped {
			blocked = blocked || job.stopped
			i++
			continue
		}
		m.bashes = slices.Delete(m.bashes, i, i+1)
		m.bashOver(job, *job.done)
	}
}

// bashOver records the command and answers it. During a run the record waits
// for the run's end, so that it never stands between a tool call and its
// result; the answer does not wait.
func (m *Machine) bashOver(job bashJob, in BashDone) {
	if in.Err != nil {
		if !job.left && m.keys.find(job.key.Key) != nil && !in.Err.OutcomeIsUnknown() { // else not even that it began could be written
			m.noteKey(protocol.SeenKey{Key: job.key, Disposition: protocol.KeyUndone})
		}
		job.answer(m, Reply{Err: in.Err})
		return
	}
	r := in.Result.Counted()
	if job.left {
		job.answer(m, Reply{Data: r, Regardless: true})
		return
	}
	msg := protocol.Seal(&protocol.BashExecutionMessage{
		Command: job.command, Output: r.Output, ExitCode: r.ExitCode, Cancelled: r.Cancelled, Truncated: r.Truncated,
		FullOutputPath: r.FullOutputPath, ExcludeFromContext: job.exclude, Timestamp: m.now,
	})
	if m.activity.inRun() != nil {
		m.hold(msg, job.key)
	} else {
		m.answerOpenCalls()
		m.appendMessage(protocol.MessageEntry{Message: msg, Key: m.keys.message(job.key, protocol.Started)})
	}
	job.answer(m, Reply{Data: r, instead: func(_ *Machine, why string) protocol.Result {
		r.NotRecorded = why // but it has run
		return r
	}})
}

// recordBashes writes, into the session that is left, which commands still run:
// what comes of them is no business of the next one.
func (m *Machine) recordBashes() {
	for _, b := range m.bashes {
		if b.left {
			continue
		}
		m.answerOpenCalls()
		m.appendMessage(protocol.MessageEntry{Message: protocol.Seal(&protocol.BashExecutionMessage{
			Command: b.command, Output: "(still running when the session was left: its output is not recorded)",
			ExcludeFromContext: b.exclude, Timestamp: m.now,
		}), Key: m.keys.message(b.key, protocol.Started)})
	}
}

// heldBash is the record of a command that waits for the end of a run.
type heldBash struct {
	id      string
	key     protocol.IdempotencyKey
	message *protocol.BashExecutionMessage
}

// hold keeps a bash record until the run is over; the log has it meanwhile as
// an entry that is no part of the context.
func (m *Machine) hold(msg *protocol.BashExecutionMessage, key protocol.IdempotencyKey) {
	m.queueIDs++
	h := heldBash{"q" + strconv.Itoa(m.queueIDs), m.keys.message(key, protocol.Queued), msg}
	m.held = append(m.held, h)
	m.logQueue(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: h.id, Kind: protocol.QueueBash, Key: key, Message: msg.AppendJSON(nil)}})
}

func (m *Machine) flushHeld() {
	held := m.held
	m.held = nil
	for _, h := range held {
		m.appendMessage(protocol.MessageEntry{Message: h.message, QueueID: h.id, Key: h.key})
	}
}
