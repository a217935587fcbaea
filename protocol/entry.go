package protocol

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// SessionVersion is the version of session files troupe writes: pi's third.
const SessionVersion = 3

// Header is the first line of a session file.
type Header struct {
	Version       int    `json:"version"`
	ID            string `json:"id"`
	Timestamp     string `json:"timestamp"` // ISO 8601 with milliseconds, UTC
	Cwd           string `json:"cwd"`       // absolute; the only trustworthy record of it
	ParentSession string `json:"parentSession,omitempty"`
}

func (h Header) AppendJSON(dst []byte) []byte {
	o := OpenObject(dst)
	o.Str("type", "session")
	o.Members(h, "")
	return o.Close()
}

// EntryMeta is what every entry of a session file has beside its body.
type EntryMeta struct {
	ID        string // unique in the file; 8 hex digits when troupe wrote it
	ParentID  string // "" for a root
	Timestamp string // ISO 8601 with milliseconds, UTC
}

// Record is an entry together with its place in the tree.
type Record struct {
	EntryMeta
	Entry Entry
}

// Entry is the body of one line of a session file.
//
//sumtype:decl
type Entry interface {
	// EntryType is the wire's discriminator: "message", "model_change", …
	EntryType() string
	entry()
}

// MessageEntry stores a message. QueueID names the queued input that was
// delivered by it, so that one line both delivers and removes it. QueueID and
// Key are troupe's own members, which pi keeps and ignores.
type MessageEntry struct {
	Message Message        `json:"message"`
	QueueID string         `json:"troupeQueueId,omitempty"`
	Key     IdempotencyKey `json:"troupeKey,omitzero"`
}

// ModelChange records a switch of the model.
type ModelChange struct {
	Provider string `json:"provider"`
	ModelID  string `json:"modelId"`
}

// ThinkingLevelChange records a switch of the thinking level.
type ThinkingLevelChange struct {
	ThinkingLevel ThinkingLevel `json:"thinkingLevel"`
}

// Compaction replaces the history before FirstKeptEntryID by a summary.
type Compaction struct {
	Summary          string          `json:"summary"`
	FirstKeptEntryID string          `json:"firstKeptEntryId"`
	TokensBefore     int64           `json:"tokensBefore"`
	Details          json.RawMessage `json:"details,omitempty"`
	FromHook         bool            `json:"fromHook"`
	Usage            *Usage          `json:"usage,omitempty"` // what the summary itself cost
}

// BranchSummary stands for a branch that was left by navigation.
type BranchSummary struct {
	FromID   string          `json:"fromId"` // the leaf that was left
	Summary  string          `json:"summary"`
	Details  json.RawMessage `json:"details,omitempty"`
	FromHook bool            `json:"fromHook,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"`
}

// Custom is data of an extension or of troupe; it is never sent to a model.
type Custom struct {
	CustomType string          `json:"customType"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// CustomMessageEntry is context that neither the person nor the model wrote.
type CustomMessageEntry struct {
	CustomType string          `json:"customType"`
	Content    Content         `json:"content"`
	Display    bool            `json:"display"`
	Details    json.RawMessage `json:"details,omitempty"`
}

// Label names an entry; an empty label removes the name.
type Label struct {
	TargetID string `json:"targetId"`
	Label    string `json:"label,omitempty"`
}

// SessionInfo names the session.
type SessionInfo struct {
	Name string `json:"name"`
}

// ContextEdit changes what the model sees of an earlier entry: null omits it.
type ContextEdit struct {
	TargetID    string          `json:"targetId"`
	Replacement json.RawMessage `json:"replacement"`
}

// UnknownEntry is an entry of a type this version does not know. It is kept
// byte for byte, takes part in the tree and adds nothing to the context.
type UnknownEntry struct {
	Type string
	Raw  json.RawMessage // the whole line
}

func (MessageEntry) EntryType() string        { return "message" }
func (ModelChange) EntryType() string         { return "model_change" }
func (ThinkingLevelChange) EntryType() string { return "thinking_level_change" }
func (Compaction) EntryType() string          { return "compaction" }
func (BranchSummary) EntryType() string       { return "branch_summary" }
func (Custom) EntryType() string              { return "custom" }
func (CustomMessageEntry) EntryType() string  { return "custom_message" }
func (Label) EntryType() string               { return "label" }
func (SessionInfo) EntryType() string         { return "session_info" }
func (ContextEdit) EntryType() string         { return "context_edit" }
func (e UnknownEntry) EntryType() string      { return e.Type }

func (MessageEntry) entry()        {}
func (ModelChange) entry()         {}
func (ThinkingLevelChange) entry() {}
func (Compaction) entry()          {}
func (BranchSummary) entry()       {}
func (Custom) entry()              {}
func (CustomMessageEntry) entry()  {}
func (Label) entry()               {}
func (SessionInfo) entry()         {}
func (ContextEdit) entry()         {}
func (UnknownEntry) entry()        {}

// Omits says whether the edit takes its target out.
func (e ContextEdit) Omits() bool { return len(e.Replacement) == 0 || string(e.Replacement) == "null" }

// AppendJSON appends the entry's line, without a line ending.
func (r Record) AppendJSON(dst []byte) []byte {
	if u, ok := r.Entry.(UnknownEntry); ok {
		return AppendRaw(dst, u.Raw)
	}
	o := OpenObject(dst)
	o.Str("type", r.Entry.EntryType())
	o.Str("id", r.ID)
	if r.ParentID == "" {
		o.Raw("parentId", nil)
	} else {
		o.Str("parentId", r.ParentID)
	}
	o.Str("timestamp", r.Timestamp)
	o.Members(r.Entry, "")
	return o.Close()
}

var recordMembers = []string{"type", "id", "parentId", "timestamp", "message", "troupeQueueId", "troupeKey"}

// DecodeRecord reads one line of a session file that is not its header. Members
// of other types than troupe writes are read as far as they have a meaning, else
// left out. A type that troupe does not know, or none, comes back as
// [UnknownEntry]; only something that is no JSON object is an error. The line
// must be valid JSON.
func DecodeRecord(line []byte) (Record, error) {
	v := gjson.ParseBytes(line)
	var kind, id, parent, timestamp, message, queueID, key gjson.Result
	if !v.IsObject() {
		return Record{}, errors.New("entry is not an object")
	}
	Members(v, recordMembers, &kind, &id, &parent, &timestamp, &message, &queueID, &key)
	// Cloned, because records outlive the line they were read from.
	r := Record{EntryMeta: EntryMeta{
		ID: strings.Clone(id.String()), ParentID: strings.Clone(parent.String()), Timestamp: strings.Clone(timestamp.String()),
	}}
	if kind.Str == "message" {
		if m, err := decodeMessage(message.Raw); err == nil {
			r.Entry = MessageEntry{m, strings.Clone(queueID.String()), ParseIdempotencyKey(strings.Clone(key.String()))}
			return r, nil
		}
	}
	r.Entry = decodeEntry(kind.Str, line)
	return r, nil
}

// entryDecoders read entries, but for messages, by their types.
var entryDecoders = map[string]func(line []byte) (Entry, error){
	"model_change": entryAs[ModelChange], "thinking_level_change": entryAs[ThinkingLevelChange], "compaction": entryAs[Compaction],
	"branch_summary": entryAs[BranchSummary], "custom": entryAs[Custom], "custom_message": entryAs[CustomMessageEntry],
	"label": entryAs[Label], "session_info": entryAs[SessionInfo], "context_edit": entryAs[ContextEdit],
}

func entryAs[E Entry](line []byte) (Entry, error) {
	var e E
	if err := unmarshalMended(line, &e); err != nil {
		return nil, err
	}
	if c, is := Entry(e).(Compaction); is && c.Summary == "" { // nothing stands for what it would hide
		return nil, errors.New("compaction without summary")
	}
	return e, nil
}

func decodeEntry(kind string, line []byte) Entry {
	if decode := entryDecoders[kind]; decode != nil {
		if e, err := decode(line); err == nil {
			return e
		}
	}
	return UnknownEntry{kind, append(json.RawMessage(nil), line...)}
}

// FormatTime prints a time as session files do: ISO 8601 with milliseconds and
// a Z. ms is epoch milliseconds.
func FormatTime(ms int64) string {
	const layout = "2006-01-02T15:04:05.000Z"
	t := time.UnixMilli(ms).UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.Format(layout)
	}
	// Every entry has one, and to read the layout takes three times as long.
	hour, minute, second := t.Clock()
	b := [len(layout)]byte([]byte(layout))
	digits(b[0:4], year)
	digits(b[5:7], int(month))
	digits(b[8:10], day)
	digits(b[11:13], hour)
	digits(b[14:16], minute)
	digits(b[17:19], second)
	digits(b[20:23], t.Nanosecond()/1e6)
	return string(b[:])
}

// digits fills dst with a number.
func digits(dst []byte, n int) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = '0' + byte(n%10)
		n /= 10
	}
}

// ParseTime reads a time of a session file as epoch milliseconds, 0 if it is
// none.
func ParseTime(s string) int64 {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
