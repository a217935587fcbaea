package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"troupe/protocol"
)

// Context is what a model sees of a branch: its messages, with summaries in
// the place of what was compacted or left. It is built once and then extended
// by each entry that is appended to the branch. The messages must not be
// changed.
//
// The rules: the last compaction of the branch stands first, as its summary;
// then what it kept, then what came after it. Messages, custom messages and
// branch summaries with a text count, everything else adds nothing. A context
// edit omits or rewrites an earlier entry. Messages of the role system, in
// which newer versions of pi keep the system prompt, are left out: troupe
// makes its own.
type Context struct {
	items     []contextItem
	marks     []mark // the entries items were made from, in order of the branch
	compacted bool   // items[0] is a summary
	after     int    // items from here on are newer than the last compaction

	shown []shownItem // what is visible of items; nil after an edit
}

// contextItem is a message of the branch and what became of it.
type contextItem struct {
	id   string
	base protocol.Message
	edit protocol.Message // replaces base, if not nil
	omit bool
}

// mark says how many items stood before an entry.
type mark struct {
	id string
	at int
}

type shownItem struct {
	item    int
	message protocol.Message
}

// Item is a message of a context and the entry it comes from.
type Item struct {
	EntryID string
	Message protocol.Message
}

// NewContext builds the context of a branch, given as its entries from the
// root to the leaf.
func NewContext(branch []protocol.Record) *Context {
	c := &Context{}
	last := lastCompaction(branch)
	if last < 0 {
		for _, r := range branch {
			c.add(r)
		}
		return c
	}
	c.begin(branch[last])
	for _, r := range branch[firstKept(branch, last):last] {
		c.add(r)
	}
	c.end(branch[last].ID)
	for _, r := range branch[last+1:] {
		c.add(r)
	}
	return c
}

func lastCompaction(branch []protocol.Record) int {
	for i := len(branch) - 1; i >= 0; i-- {
		if _, ok := branch[i].Entry.(protocol.Compaction); ok {
			return i
		}
	}
	return -1
}

// firstKept is where a compaction's kept range begins. A compaction that names
// no entry before it, such as itself, keeps nothing.
func firstKept(branch []protocol.Record, compaction int) int {
	id := branch[compaction].Entry.(protocol.Compaction).FirstKeptEntryID
	for i, r := range branch[:compaction] {
		if r.ID == id {
			return i
		}
	}
	return compaction
}

// Extend adds the entry that was appended to the branch. It reports false,
// and changes nothing, for a compaction that keeps entries from before an
// earlier one: such a context has to be built anew.
func (c *Context) Extend(r protocol.Record) bool {
	compaction, ok := r.Entry.(protocol.Compaction)
	if !ok {
		c.add(r)
		return true
	}
	kept := slices.IndexFunc(c.marks, func(m mark) bool { return m.id == compaction.FirstKeptEntryID })
	switch {
	case kept >= 0:
		c.compact(r, c.marks[kept:])
	case !c.compacted || compaction.FirstKeptEntryID == r.ID:
		c.compact(r, nil)
	default:
		return false
	}
	return true
}

// compact starts over with a summary and the items of the kept entries.
func (c *Context) compact(r protocol.Record, kept []mark) {
	from := len(c.items)
	if len(kept) > 0 {
		from = kept[0].at
	}
	items := c.items[from:]
	*c = Context{}
	c.begin(r)
	for _, m := range kept {
		c.marks = append(c.marks, mark{m.id, m.at - from + 1})
	}
	c.items = append(c.items, items...)
	c.end(r.ID)
}

// begin puts a compaction's summary first.
func (c *Context) begin(r protocol.Record) {
	compaction := r.Entry.(protocol.Compaction)
	c.compacted = true
	c.items = append(c.items, contextItem{id: r.ID, base: &protocol.CompactionSummaryMessage{
		Summary: compaction.Summary, TokensBefore: compaction.TokensBefore, Timestamp: protocol.ParseTime(r.Timestamp),
	}})
}

// end notes that what follows is newer than the compaction.
func (c *Context) end(compaction string) {
	c.marks = append(c.marks, mark{compaction, len(c.items)})
	c.after = len(c.items)
}

func (c *Context) add(r protocol.Record) {
	c.marks = append(c.marks, mark{r.ID, len(c.items)})
	if edit, ok := r.Entry.(protocol.ContextEdit); ok {
		c.apply(edit)
		return
	}
	if m := contextMessage(r); m != nil {
		c.items = append(c.items, contextItem{id: r.ID, base: m})
		if c.shown != nil {
			c.shown = append(c.shown, shownItem{len(c.items) - 1, m})
		}
	}
}

// contextMessage is what an entry other than the last compaction adds to the
// context, nil for nothing.
func contextMessage(r protocol.Record) protocol.Message {
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		if e.Message.Role() == roleNames[roleSystem] {
			return nil
		}
		return e.Message
	case protocol.CustomMessageEntry:
		return &protocol.CustomMessage{
			CustomType: e.CustomType, Content: e.Content, Display: e.Display, Details: e.Details,
			Timestamp: protocol.ParseTime(r.Timestamp),
		}
	case protocol.BranchSummary:
		if e.Summary == "" {
			return nil
		}
		return &protocol.BranchSummaryMessage{Summary: e.Summary, FromID: e.FromID, Timestamp: protocol.ParseTime(r.Timestamp)}
	case protocol.ModelChange, protocol.ThinkingLevelChange, protocol.Compaction, protocol.Custom, protocol.Label,
		protocol.SessionInfo, protocol.ContextEdit, protocol.UnknownEntry:
	}
	return nil
}

// apply performs an edit on the newest item of the target. Of several edits
// the last counts, also if it brings back what an earlier one omitted.
func (c *Context) apply(edit protocol.ContextEdit) {
	for i := len(c.items) - 1; i >= 0; i-- {
		item := &c.items[i]
		if item.id != edit.TargetID {
			continue
		}
		if replaced, ok := edited(item.base, edit.Replacement); ok {
			item.edit, item.omit = replaced, replaced == nil
			c.shown = nil
		}
		return
	}
}

// edited is a message with other content, nil to omit it. Edits of messages
// without content of their own, and edits that make no sense, do not count.
func edited(m protocol.Message, replacement json.RawMessage) (protocol.Message, bool) {
	var content protocol.Content
	omit := protocol.ContextEdit{Replacement: replacement}.Omits()
	if !omit && json.Unmarshal(replacement, &content) != nil {
		return nil, false
	}
	var edit protocol.Message
	// Built anew and not copied, since a copy would carry the sealed bytes of
	// the original.
	switch m := m.(type) {
	case *protocol.UserMessage:
		edit = &protocol.UserMessage{Content: content, Timestamp: m.Timestamp, Attachments: m.Attachments}
	case *protocol.AssistantMessage:
		edit = &protocol.AssistantMessage{
			Content: content, API: m.API, Provider: m.Provider, Model: m.Model, Usage: m.Usage, StopReason: m.StopReason,
			Timestamp: m.Timestamp, ErrorMessage: m.ErrorMessage, ResponseID: m.ResponseID,
		}
	case *protocol.ToolResultMessage:
		edit = &protocol.ToolResultMessage{
			ToolCallID: m.ToolCallID, ToolName: m.ToolName, Content: content, Details: m.Details, IsError: m.IsError,
			Timestamp: m.Timestamp,
		}
	case *protocol.CustomMessage:
		edit = &protocol.CustomMessage{
			CustomType: m.CustomType, Content: content, Display: m.Display, Details: m.Details, Timestamp: m.Timestamp,
		}
	case *protocol.BashExecutionMessage, *protocol.BranchSummaryMessage, *protocol.CompactionSummaryMessage,
		*protocol.UnknownMessage:
		return nil, false
	}
	if omit {
		return nil, true
	}
	return edit, true
}

// visible lists the items that are shown. The list is kept from call to call
// and only grows; an edit starts a new one.
func (c *Context) visible() []shownItem {
	if c.shown != nil {
		return c.shown
	}
	c.shown = make([]shownItem, 0, len(c.items))
	for i, item := range c.items {
		switch {
		case item.omit:
		case item.edit != nil:
			c.shown = append(c.shown, shownItem{i, item.edit})
		default:
			c.shown = append(c.shown, shownItem{i, item.base})
		}
	}
	return c.shown
}

// Len is the number of messages.
func (c *Context) Len() int { return len(c.visible()) }

// Messages lists the messages.
func (c *Context) Messages() []protocol.Message {
	shown := c.visible()
	messages := make([]protocol.Message, len(shown))
	for i, s := range shown {
		messages[i] = s.message
	}
	return messages
}

// Items lists the messages and the entries they come from. The summary of a
// compaction comes from the compaction.
func (c *Context) Items() []Item {
	shown := c.visible()
	items := make([]Item, len(shown))
	for i, s := range shown {
		items[i] = Item{c.items[s.item].id, s.message}
	}
	return items
}

// Context builds the context of the view's branch. It reads no more of the
// branch than the context is made of.
func (v View) Context() (*Context, error) {
	part, _, err := v.contextPart(v.branch())
	if err != nil {
		return nil, err
	}
	records, err := v.records(part)
	if err != nil {
		return nil, err
	}
	return NewContext(records), nil
}

// Messages is the context of the view's branch, each message as JSON, for
// clients: what the file says of it, with members that this version does not
// know. A message that would not be read as one, or that an edit changes, is
// what Context makes of it.
func (v View) Messages() ([][]byte, error) {
	part, _, err := v.contextPart(v.branch())
	if err != nil {
		return nil, err
	}
	edits, err := v.edits(part)
	if err != nil {
		return nil, err
	}
	records := make([]protocol.Record, 0, len(part))
	for line, err := range v.lines(part) {
		if err != nil {
			return nil, err
		}
		_, edited := edits[string(line.head.id)]
		if m := line.message(); m != nil && !edited {
			records = append(records, protocol.Record{
				EntryMeta: protocol.EntryMeta{ID: string(line.head.id)}, Entry: protocol.MessageEntry{Message: m},
			})
			continue
		}
		r, err := protocol.DecodeRecord(line.wire())
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	messages := NewContext(records).Messages()
	list := make([][]byte, len(messages))
	for i, m := range messages {
		if stored, ok := m.(storedMessage); ok {
			list[i] = stored.Raw
		} else {
			list[i] = m.AppendJSON(nil)
		}
	}
	return list, nil
}

// storedMessage is a message as it stands in the file.
type storedMessage struct{ *protocol.UnknownMessage }

// message is an entry's message as it stands in the file, nil if it has none or
// one that has to be read to know what it is: one that lacks what clients rely
// on, or with escaped characters, which may be halves that many parsers refuse.
func (l *line) message() protocol.Message {
	m := &l.head.message
	complete := len(m.content) > 0 && m.content[0] == '[' && isNumber(m.stamp)
	switch string(m.role) {
	case protocol.RoleUser:
	case protocol.RoleAssistant:
		complete = complete && m.api != nil && m.provider != nil && m.model != nil && m.stopReason != nil &&
			bytes.HasPrefix(m.usage, []byte(`{"input":`)) && bytes.Contains(m.usage, []byte(`,"cost":{"input":`))
	case protocol.RoleToolResult:
		complete = complete && m.callID != nil && m.toolName != nil && (string(m.isError) == "true" || string(m.isError) == "false")
	default:
		complete = false
	}
	if !complete || string(l.head.kind) != "message" || !utf8.Valid(m.whole) || bytes.Contains(m.whole, []byte(`\u`)) {
		return nil
	}
	return storedMessage{&protocol.UnknownMessage{RoleName: string(m.role), Raw: slices.Clone(m.whole)}}
}

func isNumber(b []byte) bool { return len(b) > 0 && b[0] >= '0' && b[0] <= '9' }

// edits are the ids of entries that context edits are about, and whether they are
// taken out: of several edits the last counts.
func (v View) edits(part []int32) (map[string]bool, error) {
	omitted := map[string]bool{}
	records, err := v.records(slices.DeleteFunc(slices.Clone(part), func(i int32) bool { return v.slots[i].kind != kindContextEdit }))
	for _, r := range records {
		if edit, ok := r.Entry.(protocol.ContextEdit); ok {
			omitted[edit.TargetID] = edit.Omits()
		}
	}
	return omitted, err
}

// contextPart is the end of a branch that its context depends on: from the
// first entry the last compaction kept, if there is one.
func (v View) contextPart(branch []int32) (part []int32, compacted bool, err error) {
	for n := len(branch) - 1; n >= 0; n-- {
		if v.slots[branch[n]].kind != kindCompaction {
			continue
		}
		r, err := v.record(branch[n])
		if err != nil {
			return nil, false, err
		}
		compaction, ok := r.Entry.(protocol.Compaction)
		if !ok { // does not fit its type: adds nothing
			continue
		}
		for at, i := range branch[:n] {
			if v.id(i) == compaction.FirstKeptEntryID {
				return branch[at:], true, nil
			}
		}
		return branch[n:], true, nil
	}
	return branch, false, nil
}
