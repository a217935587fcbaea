package core

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"troupe/protocol"
)

// keyring remembers idempotency keys, newest last.
type keyring struct{ seen []protocol.SeenKey }

// find is what became of a key; nil if no command was begun with it.
func (k *keyring) find(key string) *protocol.SeenKey {
	if i := k.index(key); i >= 0 && k.seen[i].Disposition != protocol.KeyUndone {
		return &k.seen[i]
	}
	return nil
}

func (k *keyring) index(key string) int {
	return slices.IndexFunc(k.seen, func(s protocol.SeenKey) bool { return s.Key.Key == key })
}

func (k *keyring) note(s protocol.SeenKey) {
	if i := k.index(s.Key.Key); i >= 0 {
		k.seen[i].Later(s)
		return
	}
	k.seen = append(k.seen, s)
	if over := len(k.seen) - protocol.MaxKeys; over > 0 {
		k.seen = slices.Delete(k.seen, 0, over)
	}
}

// message remembers a message's key, if it has one, and returns it for the log.
func (k *keyring) message(key protocol.IdempotencyKey, d protocol.Disposition) protocol.IdempotencyKey {
	if key.Key != "" {
		k.note(protocol.SeenKey{Key: key, Disposition: d.Disposition})
	}
	return key
}

// repeated answers a message whose key was used before and says whether it was.
func (m *Machine) repeated(c Command, q protocol.QueuedInput) bool {
	seen := m.keys.find(q.Key.Key)
	switch {
	case seen == nil:
		return false
	case m.conflicts(c, seen, q.Key):
	case q.Kind == protocol.QueueInject:
		m.reply(c, nil)
	default:
		m.reply(c, protocol.Disposition{Disposition: seen.Disposition})
	}
	return true
}

// conflicts refuses a command whose key was used for something else.
func (m *Machine) conflicts(c Command, seen *protocol.SeenKey, key protocol.IdempotencyKey) bool {
	if seen.Key == key {
		return false
	}
	m.fail(c, protocol.CodeConflict.Errorf("Idempotency key %q was used for something else", key.Key))
	return true
}

// noteKey keeps in the log what became of a command that is no message.
func (m *Machine) noteKey(s protocol.SeenKey) {
	if s.Key.Key == "" {
		return
	}
	m.keys.note(s)
	if s.Disposition == protocol.KeyBegun {
		m.appendOwn(protocol.CustomCommand, s)
	} else {
		m.noteOwn(protocol.CustomCommand, s) // a session without a file has nothing to which one could come back
	}
}

// fingerprint is of a message's text and images, in hex digits.
func fingerprint(q protocol.QueuedInput) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d:%s", len(q.Text), q.Text)
	for _, img := range q.Images {
		fmt.Fprintf(h, "%s:%d:%s", img.MimeType, len(img.Data), img.Data)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// keyOfCommand is the key of a command that is no message; the zero value for none.
func keyOfCommand(cmd protocol.Command) (key protocol.IdempotencyKey) {
	kind, what := "", ""
	switch cmd := cmd.(type) {
	case protocol.Bash:
		kind, key.Key, what = "bash", cmd.IdempotencyKey, strconv.FormatBool(cmd.ExcludeFromContext)+cmd.Command
	case protocol.NewSession:
		kind, key.Key, what = "new_session", cmd.IdempotencyKey, cmd.ParentSession
	case protocol.Fork:
		kind, key.Key, what = "fork", cmd.IdempotencyKey, cmd.EntryID
	case protocol.Clone:
		kind, key.Key = "clone", cmd.IdempotencyKey
	}
	if key.Key != "" {
		key.Fingerprint = fingerprint(protocol.QueuedInput{Text: "\x00" + kind + "\x00" + what})
	}
	return key
}
