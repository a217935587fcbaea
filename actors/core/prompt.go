package core

import (
	"maps"
	"slices"
	"strconv"

	"troupe/protocol"
)

// said is the message of a prompt, steer or follow_up.
func said(c Command) (q protocol.QueuedInput) {
	switch cmd := c.Cmd.(type) {
	case protocol.Prompt:
		q = input(protocol.QueueKind(cmd.StreamingBehavior), cmd.Message, cmd.Images, cmd.IdempotencyKey)
	case protocol.Steer:
		q = input(protocol.QueueSteer, cmd.Message, cmd.Images, cmd.IdempotencyKey)
	case protocol.FollowUp:
		q = input(protocol.QueueFollowUp, cmd.Message, cmd.Images, cmd.IdempotencyKey)
	default:
		panic("core: no message in " + c.Name)
	}
	if c.key.Key != "" {
		q.Key = c.key
	}
	return q
}

// take does what a message asks for.
func (m *Machine) take(c Command) {
	if m.refusedByBudget(c) {
		return
	}
	if _, ok := c.Cmd.(protocol.Prompt); ok {
		m.prompt(c, said(c))
		return
	}
	m.say(c, said(c))
}

// prompt starts a run, or queues while one is active, or says why not.
func (m *Machine) prompt(c Command, said protocol.QueuedInput) {
	if m.repeated(c, said) {
		return
	}
	idle, inRun := m.isIdle(), m.activity.inRun() != nil
	summarising := m.Phase() == PhaseCompacting && !inRun
	switch {
	case !idle && said.Kind != "":
		m.enqueue(c, said)
	case m.mayJoin():
		m.join(c, said)
	case inRun && c.FromExtension && m.endsRun(): // until 0.80 there was no run any more
		said.Kind = protocol.QueueFollowUp
		m.enqueue(c, said)
	case inRun:
		m.fail(c, m.busyError())
	case summarising && m.set.Rules.RejectPromptGap:
		m.fail(c, protocol.CodeSessionBusy.Errorf("Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."))
	case !idle && m.set.Rules.RejectPromptGap:
		m.fail(c, m.busyError())
	case summarising:
		said.Kind = protocol.QueueFollowUp // the run begins when the summary is there
		m.enqueue(c, said)
	default:
		m.submit(c, said, cause{})
	}
}

func (m *Machine) busyError() *protocol.Error {
	if m.set.Rules.RustTexts {
		return protocol.CodeSessionBusy.Errorf("Agent is currently streaming; specify streamingBehavior")
	}
	return protocol.CodeSessionBusy.Errorf(
		"Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.")
}

// input is a message of a client; an empty key is none.
func input(kind protocol.QueueKind, text string, images []protocol.Image, key string) protocol.QueuedInput {
	q := protocol.QueuedInput{Kind: kind, Text: text, Images: images}
	if key != "" {
		q.Key = protocol.IdempotencyKey{Key: key, Fingerprint: fingerprint(q)}
	}
	return q
}

// say queues a steer or follow-up, or starts a run with it when nothing runs.
func (m *Machine) say(c Command, q protocol.QueuedInput) {
	switch {
	case m.repeated(c, q):
	case m.set.Rules.RefuseSlash && c.Slash:
		m.fail(c, protocol.CodeInvalidParams.Errorf("Extension commands are not allowed with %s", c.Name))
	case !m.isIdle() || m.set.Rules.IdleQueueWaits:
		m.enqueue(c, q)
	default: // behind what a run that was aborted has left
		m.submit(c, q, cause{queued: len(*m.queueOf(q.Kind)) > 0, joinable: true})
	}
}

// ready says why no run can start, nil if one can.
func (m *Machine) ready(c Command) *protocol.Error {
	if m.model == nil {
		if c.Catalog != nil {
			if providers := slices.Sorted(maps.Keys(c.Catalog.Unavailable)); len(providers) > 0 {
				return unavailable(c.Catalog.Unavailable[providers[0]])
			}
		}
		return protocol.CodeNoModel.Errorf("No model selected.\n\n" +
			"Set an API key environment variable, add a provider to models.json, or choose a model with set_model.")
	}
	if err := m.unpriced(m.model); err != nil {
		return err
	}
	advice := "Set an API key environment variable, or add a key to auth.json or models.json."
	if c.Catalog != nil && c.Catalog.Advice != nil {
		advice = c.Catalog.Advice(m.model.Provider)
	}
	return m.reachable(c, "No API key found for %s.\n\n"+advice)
}

// unavailable is the error for a model of a server that has reported no models.
func unavailable(why string) *protocol.Error {
	return protocol.CodeModelNotFound.Errorf("No model is available: %s.\n\n"+
		"Start the server and load a model, then choose the model with --model or set_model, or configure another provider.", why)
}

// reachable says why the model cannot be asked; noKey is for a provider without a
// key. A model that was missing may be there again.
func (m *Machine) reachable(c Command, noKey string) *protocol.Error {
	if m.model.Missing {
		if !sameModel(c.Found, m.model) {
			if c.Catalog != nil && c.Catalog.Unavailable[m.model.Provider] != "" {
				return unavailable(c.Catalog.Unavailable[m.model.Provider])
			}
			return protocol.CodeModelNotFound.Errorf("The session's model %s/%s is not known.\n\n"+
				"Add it to models.json again, or choose another with set_model.", m.model.Provider, m.model.ID)
		}
		m.model, m.level = c.Found, c.Found.Clamp(m.level)
	}
	if c.Catalog != nil && !c.Catalog.HasKey(m.model.Provider) {
		if why := c.Catalog.NotUsed[m.model.Provider]; why != "" {
			return protocol.CodeNoKey.Errorf("No API key found for %s. The login in auth.json is not used: %s.", m.model.Provider, why)
		}
		return protocol.CodeNoKey.Errorf(noKey, m.model.Provider)
	}
	return nil
}

// submit starts a run with a message, or, where older ones are queued, with what
// is due of those; a context without room for it is compacted first. It gives up
// the retry of an earlier run.
func (m *Machine) submit(c Command, q protocol.QueuedInput, why cause) {
	if err := m.ready(c); err != nil {
		m.fail(c, err)
		return
	}
	m.cutOff = cutOff{} // it goes on with the message
	m.stop(failed)
	full := m.tooFull()
	if !full && !why.queued {
		why.said, why.by = &q, c
		m.startRun(why)
		return
	}
	if !why.queued {
		q.Kind = protocol.QueueFollowUp // it waits in the log for its run
	}
	switch {
	case !m.enqueue(c, q):
	case full:
		m.beginCompaction(&compacting{reason: reasonThreshold})
	default:
		m.startRun(why)
	}
}

// accept adds a message to the branch on behalf of a client.
func (m *Machine) accept(q protocol.QueuedInput) *protocol.UserMessage {
	msg := m.userMessage(q)
	m.appendMessage(protocol.MessageEntry{Message: msg, Key: m.keys.message(q.Key, protocol.Started)})
	return msg
}

// mayJoin says whether a plain prompt may still become part of the run that an
// idle steer or follow_up started: until the model's first byte. Clients that
// queue first and prompt then would otherwise be refused.
func (m *Machine) mayJoin() bool {
	s, ok := m.activity.(*streaming)
	return ok && s.run.joinable && s.run.turns == 1 && !s.started
}

func (m *Machine) join(c Command, q protocol.QueuedInput) {
	r := m.activity.inRun()
	m.release()
	msg := m.accept(q)
	m.reply(c, protocol.Started)
	m.show(r, msg)
	m.ask(r)
}

// queued is about how many bytes wait for their turn: messages, and records of
// bash commands.
func (m *Machine) queued() (bytes int) {
	for _, queue := range [][]protocol.QueuedInput{m.steering, m.followUp} {
		for i := range queue {
			bytes += sizeOf(&queue[i])
		}
	}
	for i := range m.held {
		bytes += queuedSize + protocol.SizeOf(m.held[i].message)
	}
	return bytes
}

// queuedSize is what a queued message takes beside its text.
const queuedSize = 512

func sizeOf(q *protocol.QueuedInput) int {
	bytes := queuedSize + len(q.Text)
	for i := range q.Images {
		bytes += len(q.Images[i].Data)
	}
	return bytes
}

// queueMessage adds a message to the queue that goes with the next request.
func (m *Machine) queueMessage(c Command, cmd protocol.QueueMessage) {
	if q := input(protocol.QueueInject, cmd.Message, cmd.Images, cmd.IdempotencyKey); !m.repeated(c, q) {
		m.enqueue(c, q)
	}
}

// clearQueue empties the queues and gives their texts back.
func (m *Machine) clearQueue(c Command) {
	content := protocol.QueueContent{Steering: texts(m.steering), FollowUp: texts(m.followUp)}
	m.dropQueues()
	m.reply(c, content)
}

// queueFull refuses a command that would add too much to what waits. The first
// message is never too much.
func (m *Machine) queueFull(c Command, more int) bool {
	have := m.queued()
	if have == 0 || have+more <= protocol.MaxQueued {
		return false
	}
	m.fail(c, protocol.CodeOverloaded.Errorf("Too much is queued: the limit is %d MiB. Wait, or clear the queue.", protocol.MaxQueued>>20))
	return true
}

// enqueue accepts a message for later, unless too much waits already.
func (m *Machine) enqueue(c Command, q protocol.QueuedInput) bool {
	if m.queueFull(c, sizeOf(&q)) {
		return false
	}
	if _, isLeaving := m.activity.(*leavingBranch); isLeaving && q.Kind != protocol.QueueInject {
		m.swap.queuedMeanwhile = true
	}
	m.keys.message(q.Key, protocol.Queued)
	m.addToQueue(q)
	if q.Kind == protocol.QueueInject {
		m.reply(c, nil) // queue_message has no data
	} else {
		m.reply(c, protocol.Queued)
	}
	return true
}

func (m *Machine) addToQueue(q protocol.QueuedInput) {
	m.queueIDs++
	q.ID = "q" + strconv.Itoa(m.queueIDs)
	queue := m.queueOf(q.Kind)
	*queue = append(*queue, q)
	m.logQueue(protocol.QueueOp{Op: "add", QueuedInput: q})
	m.queueChanged()
}

func (m *Machine) queueOf(kind protocol.QueueKind) *[]protocol.QueuedInput {
	if kind == protocol.QueueFollowUp {
		return &m.followUp
	}
	return &m.steering
}

// logQueue keeps queued input in the log, so that it outlives the process. A
// session in memory has nothing to outlive.
func (m *Machine) logQueue(op protocol.QueueOp) {
	if !m.set.Ephemeral {
		m.appendOwn(protocol.CustomQueue, op)
	}
}

func (m *Machine) queueChanged() { m.queueChangedBefore(nil) }

// queueChangedBefore announces the queues while messages that were taken from them are being delivered. Those in
// undelivered come next and still count as queued, as in pi.
func (m *Machine) queueChangedBefore(undelivered []protocol.QueuedInput) {
	steering, followUp := m.steering, m.followUp
	if len(undelivered) > 0 && undelivered[0].Kind == protocol.QueueFollowUp {
		followUp = slices.Concat(undelivered, followUp)
	} else {
		steering = slices.Concat(undelivered, steering)
	}
	m.emit(protocol.QueueChanged{
		PendingMessageCount: len(steering) + len(followUp),
		Steering:            texts(steering),
		FollowUp:            texts(followUp),
	})
}

func texts(queue []protocol.QueuedInput) []string {
	list := make([]string, 0, len(queue))
	for _, q := range queue {
		list = append(list, q.Text)
	}
	return list
}

// due takes from the queues what the next request carries: steering, or, if
// there is none and it is their turn, follow-ups.
func (m *Machine) due(followUps bool) []protocol.QueuedInput {
	next := take(&m.steering, m.SteeringMode)
	if followUps && len(next) == 0 {
		next = take(&m.followUp, m.FollowUpMode)
	}
	return next
}

// take removes from a queue what one delivery takes by the queue's mode.
func take(queue *[]protocol.QueuedInput, mode protocol.QueueMode) []protocol.QueuedInput {
	n := len(*queue)
	if mode != protocol.QueueAll {
		n = min(n, 1)
	}
	taken := slices.Clone((*queue)[:n])
	*queue = slices.Delete(*queue, 0, n)
	return taken
}

// deliver makes queued messages part of the conversation.
func (m *Machine) deliver(r *run, list []protocol.QueuedInput) {
	for i, q := range list {
		var msg protocol.Message
		if q.Custom != nil {
			msg = m.deliverCustom(q)
		} else {
			said := m.userMessage(q)
			m.appendMessage(protocol.MessageEntry{Message: said, QueueID: q.ID})
			msg = said
		}
		m.queueChangedBefore(list[i+1:])
		m.show(r, msg)
	}
}

// dropQueues empties both queues, in the log too.
func (m *Machine) dropQueues() {
	var ids []string
	for _, q := range slices.Concat(m.steering, m.followUp) {
		ids = append(ids, q.ID)
	}
	if len(ids) == 0 {
		return
	}
	m.steering, m.followUp = nil, nil
	m.logQueue(protocol.QueueOp{Op: "remove", IDs: ids})
	m.queueChanged()
}

func (m *Machine) userMessage(q protocol.QueuedInput) *protocol.UserMessage {
	content := protocol.TextContent(q.Text)
	for _, img := range q.Images {
		content = append(content, img)
	}
	return protocol.Seal(&protocol.UserMessage{Content: content, Timestamp: m.now})
}
