package session

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"troupe/protocol"
)

// prompt starts a run, or queues while one is active, or says why not.
func (m *Machine) prompt(c Command, p protocol.Prompt) {
	said := Queued{Text: p.Message, Images: p.Images, Key: p.IdempotencyKey}
	if m.repeated(c, said) {
		return
	}
	switch {
	case m.active() && p.StreamingBehavior == protocol.BehaviorSteer:
		said.Kind = protocol.QueueSteer
		m.enqueue(c, said)
	case m.active() && p.StreamingBehavior == protocol.BehaviorFollowUp:
		said.Kind = protocol.QueueFollowUp
		m.enqueue(c, said)
	case m.mayJoin():
		m.join(c, said)
	case m.busy():
		m.fail(c, m.busyError())
	case m.summarising() && m.set.Gates.RejectPromptGap:
		m.fail(c, protocol.CodeSessionBusy.Errorf("Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."))
	case m.active() && m.set.Gates.RejectPromptGap:
		m.fail(c, m.busyError())
	case m.summarising():
		said.Kind = protocol.QueueFollowUp // the run begins when the summary is there
		m.enqueue(c, said)
	default:
		m.begin(c, said)
	}
}

func (m *Machine) busyError() *protocol.Error {
	if m.set.Gates.RustTexts {
		return protocol.CodeSessionBusy.Errorf("Agent is currently streaming; specify streamingBehavior")
	}
	return protocol.CodeSessionBusy.Errorf(
		"Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.")
}

func (m *Machine) steer(c Command, s protocol.Steer) {
	m.say(c, Queued{Kind: protocol.QueueSteer, Text: s.Message, Images: s.Images, Key: s.IdempotencyKey})
}

func (m *Machine) followUpCmd(c Command, f protocol.FollowUp) {
	m.say(c, Queued{Kind: protocol.QueueFollowUp, Text: f.Message, Images: f.Images, Key: f.IdempotencyKey})
}

// say queues a steer or follow-up, or starts a run with it when nothing runs.
func (m *Machine) say(c Command, q Queued) {
	switch {
	case m.repeated(c, q):
	case m.set.Gates.RefuseSlash && c.Slash:
		m.fail(c, protocol.CodeInvalidParams.Errorf("Extension commands are not allowed with %s", c.Name))
	case m.active() || m.set.Gates.IdleQueueWaits:
		m.enqueue(c, q)
	case len(*m.queueOf(q.Kind)) > 0: // left by a run that was aborted: it was said before
		m.resume(c, q)
	default:
		if m.begin(c, q) {
			m.run.queued = true
		}
	}
}

// resume queues a message behind older ones and starts a run with what is due.
func (m *Machine) resume(c Command, q Queued) {
	if err := m.ready(c); err != nil {
		m.fail(c, err)
		return
	}
	if !m.enqueue(c, q) {
		return
	}
	if m.tooFull() {
		m.beginCompaction(&compaction{reason: reasonThreshold})
		return
	}
	m.startQueued()
	m.run.queued = true
}

func (m *Machine) queueMessage(c Command, q protocol.QueueMessage) {
	m.enqueue(c, Queued{Kind: protocol.QueueInject, Text: q.Message, Images: q.Images})
}

// ready says why no run can start, nil if one can.
func (m *Machine) ready(c Command) *protocol.Error {
	if m.model == nil {
		return protocol.CodeNoModel.Errorf("No model selected.\n\n" +
			"Set an API key environment variable, add a provider to models.json, or choose a model with set_model.")
	}
	if err := m.find(c.Catalog); err != nil {
		return err
	}
	if c.Catalog != nil && !c.Catalog.HasKey(m.model.Provider) {
		return protocol.CodeNoKey.Errorf("No API key found for %s.\n\n"+
			"Set an API key environment variable, or add a key to auth.json or models.json.", m.model.Provider)
	}
	return nil
}

// find looks for a model that was missing, which may be there again.
func (m *Machine) find(catalog *protocol.Catalog) *protocol.Error {
	if !m.model.Missing {
		return nil
	}
	found := catalog.Find(m.model.Provider, m.model.ID)
	if found == nil {
		return protocol.CodeModelNotFound.Errorf("The session's model %s/%s is not known.\n\n"+
			"Add it to models.json again, or choose another with set_model.", m.model.Provider, m.model.ID)
	}
	m.model, m.level = found, found.Clamp(m.level)
	return nil
}

// begin starts a run with a message. The message is in the log before it is
// acknowledged.
func (m *Machine) begin(c Command, q Queued) bool {
	if err := m.ready(c); err != nil {
		m.fail(c, err)
		return false
	}
	m.cancelRetry(m.retryCancelled())
	m.settled(failed)
	if m.tooFull() { // the message waits in the log for its run
		q.Kind = protocol.QueueFollowUp
		if m.enqueue(c, q) {
			m.beginCompaction(&compaction{reason: reasonThreshold})
		}
		return false
	}
	m.answerDangling()
	m.recovered, m.reminders = false, 0
	msg := m.accept(q)
	m.reply(c, protocol.Started)
	m.startRun(msg)
	return true
}

// accept adds a message to the branch on behalf of a client.
func (m *Machine) accept(q Queued) *protocol.UserMessage {
	msg := m.userMessage(q)
	m.appendMessage(protocol.MessageEntry{Message: msg, Key: m.keys.note(q, protocol.Started)},
		func() { m.keys.forget(q.Key) })
	return msg
}

// mayJoin says whether a plain prompt may still become part of the run that an
// idle steer or follow_up started: until the model's first byte. Clients that
// queue first and prompt then would otherwise be refused.
func (m *Machine) mayJoin() bool {
	return m.run != nil && m.run.queued && m.run.turns == 1 && m.run.stream != nil && !m.run.stream.started
}

func (m *Machine) join(c Command, q Queued) {
	m.do(CancelRun{m.epoch})
	msg := m.accept(q)
	m.reply(c, protocol.Started)
	m.show(msg)
	m.ask()
}

// queued is about how many bytes wait for their turn: messages, and records of
// bash commands.
func (m *Machine) queued() (bytes int) {
	for _, queue := range [][]Queued{m.steering, m.followUp} {
		for i := range queue {
			bytes += queue[i].size()
		}
	}
	for i := range m.held {
		bytes += queuedSize + protocol.EncodedSize(m.held[i].Message)
	}
	return bytes
}

// queuedSize is what a queued message takes beside its text.
const queuedSize = 512

func (q *Queued) size() int {
	bytes := queuedSize + len(q.Text)
	for i := range q.Images {
		bytes += len(q.Images[i].Data)
	}
	return bytes
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
func (m *Machine) enqueue(c Command, q Queued) bool {
	if m.queueFull(c, q.size()) {
		return false
	}
	if m.leaving() && q.Kind != protocol.QueueInject {
		m.replace.said = true
	}
	m.queueIDs++
	q.ID = "q" + strconv.Itoa(m.queueIDs)
	key := m.keys.note(q, protocol.Queued)
	queue := m.queueOf(q.Kind)
	*queue = append(*queue, q)
	undo := func() {
		*queue = slices.DeleteFunc(*queue, func(x Queued) bool { return x.ID == q.ID })
		m.keys.forget(q.Key)
	}
	m.logQueue(protocol.QueueOp{Op: "add", ID: q.ID, Kind: q.Kind, Text: q.Text, Images: q.Images, Key: key}, undo)
	m.queueChanged()
	m.reply(c, dispositionOf(c, protocol.Queued))
	return true
}

// dispositionOf is the data of an accepted message; queue_message has none.
func dispositionOf(c Command, d protocol.Disposition) protocol.Result {
	if _, ok := c.Cmd.(protocol.QueueMessage); ok {
		return nil
	}
	return d
}

func (m *Machine) queueOf(kind protocol.QueueKind) *[]Queued {
	if kind == protocol.QueueFollowUp {
		return &m.followUp
	}
	return &m.steering
}

// logQueue keeps queued input in the log, so that it outlives the process. A
// session in memory has nothing to outlive.
func (m *Machine) logQueue(op protocol.QueueOp, undo func()) {
	if m.set.Ephemeral {
		return
	}
	data, err := json.Marshal(op)
	if err != nil {
		panic("session: queue entry: " + err.Error())
	}
	m.append(protocol.Custom{CustomType: protocol.CustomQueue, Data: data}, undo)
}

func (m *Machine) queueChanged() {
	m.emit(protocol.QueueChanged{
		PendingMessageCount: len(m.steering) + len(m.followUp),
		Steering:            texts(m.steering),
		FollowUp:            texts(m.followUp),
	})
}

func texts(queue []Queued) []string {
	list := make([]string, 0, len(queue))
	for _, q := range queue {
		list = append(list, q.Text)
	}
	return list
}

// take removes from a queue what one delivery takes by the queue's mode.
func take(queue *[]Queued, mode protocol.QueueMode) []Queued {
	n := len(*queue)
	if mode != protocol.QueueAll {
		n = min(n, 1)
	}
	taken := slices.Clone((*queue)[:n])
	*queue = slices.Delete(*queue, 0, n)
	return taken
}

// deliver makes queued messages part of the conversation.
func (m *Machine) deliver(list []Queued) {
	for i, q := range list {
		msg := m.userMessage(q)
		m.appendMessage(protocol.MessageEntry{Message: msg, QueueID: q.ID}, func() {
			queue := m.queueOf(q.Kind) // undone last first, so the order comes out right
			*queue = slices.Insert(*queue, 0, q)
		})
		if i == 0 {
			m.queueChanged()
		}
		m.show(msg)
	}
}

func (m *Machine) clearQueue(c Command) {
	content := protocol.QueueContent{Steering: texts(m.steering), FollowUp: texts(m.followUp)}
	m.dropQueues()
	m.reply(c, protocol.JSON(content))
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
	steering, followUp := m.steering, m.followUp
	m.steering, m.followUp = nil, nil
	m.logQueue(protocol.QueueOp{Op: "remove", IDs: ids}, func() { m.steering, m.followUp = steering, followUp })
	m.queueChanged()
}

func (m *Machine) userMessage(q Queued) *protocol.UserMessage {
	content := protocol.TextContent(q.Text)
	for _, img := range q.Images {
		content = append(content, img)
	}
	return protocol.Seal(&protocol.UserMessage{Content: content, Timestamp: m.now})
}

// keyring remembers idempotency keys, newest last.
type keyring struct{ seen []SeenKey }

const maxKeys = 1000

// note remembers a message's key and returns it for the log.
func (k *keyring) note(q Queued, d protocol.Disposition) protocol.IdempotencyKey {
	if q.Key == "" {
		return protocol.IdempotencyKey{}
	}
	key := protocol.IdempotencyKey{Key: q.Key, Fingerprint: fingerprint(q)}
	k.seen = append(k.seen, SeenKey{key, d.Disposition})
	if len(k.seen) > maxKeys {
		k.seen = slices.Delete(k.seen, 0, len(k.seen)-maxKeys)
	}
	return key
}

// forget drops a key whose message could not be written.
func (k *keyring) forget(key string) {
	if key != "" {
		k.seen = slices.DeleteFunc(k.seen, func(s SeenKey) bool { return s.Key == key })
	}
}

func (k *keyring) find(key string) *SeenKey {
	for i := len(k.seen) - 1; i >= 0; i-- {
		if k.seen[i].Key == key {
			return &k.seen[i]
		}
	}
	return nil
}

// repeated answers a command whose key was used before and says whether it was.
func (m *Machine) repeated(c Command, q Queued) bool {
	if q.Key == "" {
		return false
	}
	seen := m.keys.find(q.Key)
	switch {
	case seen == nil:
		return false
	case seen.Fingerprint != fingerprint(q):
		m.fail(c, protocol.CodeConflict.Errorf("Idempotency key %q was used for another message", q.Key))
	default:
		m.reply(c, protocol.Disposition{Disposition: seen.Disposition})
	}
	return true
}

// fingerprint is of a message's text and images, in hex digits.
func fingerprint(q Queued) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d:%s", len(q.Text), q.Text)
	for _, img := range q.Images {
		fmt.Fprintf(h, "%s:%d:%s", img.MimeType, len(img.Data), img.Data)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}
