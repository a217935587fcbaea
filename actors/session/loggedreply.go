package session

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// loggedReply returns the data with which a command was answered, reconstructed from the log; nil where the
// log does not hold them.
func (s *Session) loggedReply(k *kept, cmd protocol.Command, key string) protocol.Result {
	var find func(protocol.Record) (protocol.Result, bool)
	switch cmd := cmd.(type) {
	case protocol.Bash:
		find = func(r protocol.Record) (protocol.Result, bool) { return bashResultOf(r, cmd.Command) }
	case protocol.Prompt, protocol.Steer, protocol.FollowUp, protocol.AbortAndPrompt:
		find = dispositionOf
	default:
		return s.file.led.result(cmd, key)
	}
	at := k.owned.Done(key)
	if at == 0 { // the log of an earlier session of this handle has it
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
		s.log.Info().Err(err).Msg("repeated command is answered without data: its record cannot be read")
		return nil
	case of.Kind == cluster.Note: // a command of an extension
		return protocol.Handled
	}
	return uniqueReply(of.Lines, find)
}

// uniqueReply returns the reply that find reads from the entries, nil if they contain different ones. A record
// may hold the entries of several commands.
func uniqueReply(lines []byte, find func(protocol.Record) (protocol.Result, bool)) (found protocol.Result) {
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

// dispositionOf reads the disposition of a message from its entry: started or queued.
func dispositionOf(r protocol.Record) (protocol.Result, bool) {
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		return protocol.Started, e.Message.Role() == protocol.RoleUser
	case protocol.Custom:
		op, is := queueAddition(e)
		return protocol.Queued, is && op.Kind != protocol.QueueBash
	default:
		return nil, false
	}
}

// bashResultOf reads the result of a bash command from its entry, which is queued while a run is active.
func bashResultOf(r protocol.Record, command string) (protocol.Result, bool) {
	var m protocol.Message
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		m = e.Message
	case protocol.Custom:
		if op, is := queueAddition(e); is && op.Kind == protocol.QueueBash {
			m, _ = protocol.DecodeMessage(op.Message)
		}
	default: // not an entry of a bash command
	}
	b, is := m.(*protocol.BashExecutionMessage)
	if !is || b.Command != command {
		return nil, false
	}
	return b.Result(), true
}

// queueAddition returns the input that an entry adds to the queue.
func queueAddition(e protocol.Custom) (op protocol.QueueOp, is bool) {
	if e.CustomType != protocol.CustomQueue || json.Unmarshal(e.Data, &op) != nil {
		return op, false
	}
	return op, op.Op == "add"
}
