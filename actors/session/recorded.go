package session

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// answerInLog is what a command was answered whose effect is in the log, as far as the log tells that; nil for no data.
func (s *Session) answerInLog(k *kept, cmd protocol.Command, key string) protocol.Result {
	var find func(protocol.Record) (protocol.Result, bool)
	switch cmd := cmd.(type) {
	case protocol.Bash:
		find = func(r protocol.Record) (protocol.Result, bool) { return bashIn(r, cmd.Command) }
	case protocol.Prompt, protocol.Steer, protocol.FollowUp, protocol.AbortAndPrompt:
		find = dispositionIn
	default:
		return s.file.led.result(cmd, key)
	}
	at := k.owned.Done(key)
	if at == 0 { // in the log of a session that the handle has led to before
		return nil
	}
	var of cluster.Record
	err := k.wait(func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, engineTime)
		defer cancel()
		of, err = cluster.RecordAt(ctx, k.cluster.Engine, cluster.SessionID(k.id), at)
		return err
	})
	switch {
	case err != nil:
		s.log.Info().Err(err).Msg("the answer to a command that has come again is not told: its record cannot be read")
		return nil
	case of.Kind == cluster.Note: // of the command of an extension
		return protocol.Handled
	}
	return onlyIn(of.Lines, find)
}

// onlyIn is what is found in entries, if they do not say different things: they may be of several commands.
func onlyIn(lines []byte, find func(protocol.Record) (protocol.Result, bool)) (found protocol.Result) {
	for line := range bytes.Lines(lines) {
		r, err := protocol.DecodeRecord(bytes.TrimSpace(line))
		if err != nil {
			continue
		}
		is, ok := find(r)
		if ok && found != nil && !reflect.DeepEqual(found, is) {
			return nil
		}
		if ok {
			found = is
		}
	}
	return found
}

// dispositionIn is what became of a message: it is in the conversation, or in the queue.
func dispositionIn(r protocol.Record) (protocol.Result, bool) {
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		return protocol.Started, e.Message.Role() == protocol.RoleUser
	case protocol.Custom:
		op, is := queued(e)
		return protocol.Queued, is && op.Kind != protocol.QueueBash
	default:
		return nil, false
	}
}

// bashIn is the result of a command of the user, also of one whose record waits for the end of a run.
func bashIn(r protocol.Record, command string) (protocol.Result, bool) {
	var m protocol.Message
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		m = e.Message
	case protocol.Custom:
		if op, is := queued(e); is && op.Kind == protocol.QueueBash {
			m, _ = protocol.DecodeMessage(op.Message)
		}
	default: // no record of a command
	}
	b, is := m.(*protocol.BashExecutionMessage)
	if !is || b.Command != command {
		return nil, false
	}
	return b.Result(), true
}

// queued is what an entry adds to the queue.
func queued(e protocol.Custom) (op protocol.QueueOp, is bool) {
	if e.CustomType != protocol.CustomQueue || json.Unmarshal(e.Data, &op) != nil {
		return op, false
	}
	return op, op.Op == "add"
}
