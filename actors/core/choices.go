package core

import (
	"bytes"
	"encoding/json"
	"slices"

	"troupe/protocol"
)

// none is a [protocol.ChoicesOp] without any choice.
var none = encoded(protocol.ChoicesOp{}, ownEntry)

// chosen answers a command with which a client has chosen something: was is what had been chosen before. Where another
// process may go on with the session the log says it first.
func (m *Machine) chosen(c Command, was choices, data protocol.Result) {
	if m.keepChoices(&was) {
		m.reply(c, data)
	} else {
		m.done(c, data)
	}
}

// keepChoices has the log say what clients have chosen, where another process may go on with the session, and says whether
// there was anything to be said. was is what they had chosen before; nil where nothing but the log has changed.
func (m *Machine) keepChoices(was *choices) bool {
	if !m.set.FailsOver {
		return false
	}
	return m.noteChoices(m.choicesOp(), was)
}

// sayChoices says before the next entry what could not be written when it was to be said.
func (m *Machine) sayChoices() {
	if m.unsaid {
		m.unsaid = false
		m.keepChoices(nil)
	}
}

// dropChoices has the log say of a session that ends that who opens it again chooses anew. Where that cannot be written
// it ends all the same.
func (m *Machine) dropChoices() {
	if m.set.FailsOver && m.closing.Over && !m.closing.forgotten {
		m.closing.forgotten = true
		m.noteChoices(protocol.ChoicesOp{}, nil)
	}
}

// Chose says whether the log has choices of clients, which are forgotten when the session ends.
func (m *Machine) Chose() bool { return m.set.FailsOver && m.said != nil && !bytes.Equal(m.said, none) }

func (m *Machine) noteChoices(op protocol.ChoicesOp, was *choices) bool {
	data := encoded(op, ownEntry)
	if said := m.said; bytes.Equal(data, said) || said == nil && bytes.Equal(data, none) {
		return false
	}
	m.said = data
	m.add(Append{
		Entry: protocol.Custom{CustomType: protocol.CustomChoices, Data: data}, Durable: true, was: &earlier{chosen: true, choices: was},
	})
	return true
}

// choicesOp is what was chosen and is not so by itself.
func (m *Machine) choicesOp() protocol.ChoicesOp {
	op := protocol.ChoicesOp{
		Opened:       m.set.Opened,
		SteeringMode: other(m.SteeringMode, m.set.SteeringMode), FollowUpMode: other(m.FollowUpMode, m.set.FollowUpMode),
		InterruptMode: other(m.InterruptMode, m.set.InterruptMode), PermissionMode: other(m.PermissionMode, m.set.PermissionMode),
		Grants: m.grants, Limits: m.choices.limits,
	}
	if m.AutoRetry != m.set.AutoRetry {
		op.AutoRetry = new(m.AutoRetry)
	}
	if m.AutoCompaction != m.set.AutoCompaction {
		op.AutoCompaction = new(m.AutoCompaction)
	}
	if m.picked { // those of a client come with it
		op.Tools = slices.DeleteFunc(append([]string{}, m.tools...), m.isHosts)
	}
	return op
}

func other[T comparable](is, usual T) (chosen T) {
	if is != usual {
		chosen = is
	}
	return chosen
}

// restoreChoices makes what clients have chosen in another process the choice of this one.
func (m *Machine) restoreChoices(said json.RawMessage) {
	var op protocol.ChoicesOp
	if !m.set.FailsOver || said == nil || json.Unmarshal(said, &op) != nil {
		return
	}
	set(&m.SteeringMode, op.SteeringMode)
	set(&m.FollowUpMode, op.FollowUpMode)
	set(&m.InterruptMode, op.InterruptMode)
	set(&m.PermissionMode, op.PermissionMode)
	if op.AutoRetry != nil {
		m.AutoRetry = *op.AutoRetry
	}
	if op.AutoCompaction != nil {
		m.AutoCompaction = *op.AutoCompaction
	}
	m.choices.limits = op.Limits
	if m.grants = op.Grants; op.Tools != nil {
		m.tools, m.picked = slices.DeleteFunc(op.Tools, func(name string) bool { return m.builtIn(name) == nil }), true
	}
}

func set[T comparable](what *T, chosen T) {
	var nothing T
	if chosen != nothing {
		*what = chosen
	}
}

// choicesUndone goes back to what was chosen before that could not be written. Where it was only to be said in another log it
// stays, and is said later.
func (m *Machine) choicesUndone(was *choices) {
	if was == nil {
		m.unsaid = true
		return
	}
	m.Modes, m.tools, m.picked, m.grants = was.Modes, was.tools, was.picked, was.grants
	m.tellTasks() // which have been told of the mode
}
