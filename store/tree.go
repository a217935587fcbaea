package store

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// previewUnits is how much of a text a preview shows, in UTF-16 units.
const previewUnits = 140

// Tree shows every branch of the session, with labels and previews. Children
// stand in the order of their times, entries without a known parent are roots.
// Troupe's own entries are left out, and what follows them follows the entry
// before.
func (v View) Tree() (protocol.SessionTree, error) {
	f, err := v.forest(func(f *forest, l *line) { f.entries[l.slot] = v.treeEntry(l) })
	if err != nil {
		return protocol.SessionTree{}, err
	}
	nodes := grow(f, func(i int32, children []protocol.TreeNode) protocol.TreeNode {
		f.entries[i].Label = f.labels[f.entries[i].ID]
		return protocol.TreeNode{Entry: f.entries[i], Children: children}
	})
	return protocol.SessionTree{LeafID: v.LeafID(), Nodes: nodes}, nil
}

// LeafID is the leaf as answers to clients have it: ShownLeaf, nil for none.
func (v View) LeafID() *string {
	id := v.ShownLeaf()
	if id == "" {
		return nil
	}
	return &id
}

func (v View) treeEntry(l *line) protocol.TreeEntry {
	s := &v.slots[l.slot]
	e := protocol.TreeEntry{
		ID: v.id(l.slot), Type: text(l.head.kind), Timestamp: text(l.head.stamp), Preview: preview(s, l),
	}
	switch parent := v.shown(s.parent); {
	case parent != none:
		e.ParentID = new(v.id(parent))
	case s.parent == none && len(l.head.parent) > 0: // it names one that is not there
		e.ParentID = new(text(l.head.parent))
	}
	return e
}

// preview says in a few words what an entry is.
func preview(s *slot, l *line) string {
	switch s.kind {
	case kindMessage:
		return messagePreview(s.role, &l.head.message)
	case kindCompaction, kindBranchSummary, kindCustomMessage:
		return "[" + kindNames[s.kind] + "]"
	case kindCustom:
		return "[custom]"
	case kindModelChange:
		return "[model:" + rawString(l.b, "provider") + "/" + rawString(l.b, "modelId") + "]"
	case kindThinkingLevel:
		return "[thinking:" + rawString(l.b, "thinkingLevel") + "]"
	case kindLabel:
		return "[label:" + rawString(l.b, "label") + "]"
	case kindSessionInfo:
		return "[session_info:" + rawString(l.b, "name") + "]"
	}
	return ""
}

func messagePreview(r role, m *messageHead) string {
	switch r {
	case roleUser, roleAssistant:
		return cutUTF16(contentText(m.content, " "), previewUnits)
	case roleToolResult:
		return "[toolResult:" + text(m.toolName) + "]"
	}
	return ""
}

// contentText is the text of a message's content, which is a string or a list
// of blocks; sep comes between two text blocks.
func contentText(content []byte, sep string) string {
	if len(content) == 0 {
		return ""
	}
	v := gjson.ParseBytes(content)
	if v.Type == gjson.String {
		return text([]byte(v.Str))
	}
	var parts []string
	v.ForEach(func(_, block gjson.Result) bool {
		if t := block.Get("text"); t.Type == gjson.String && block.Get("type").Str == "text" {
			parts = append(parts, t.Str)
		}
		return true
	})
	return text([]byte(strings.Join(parts, sep)))
}

// RawNode is an entry as it stands in the file, and what follows it.
type RawNode struct {
	Entry          json.RawMessage `json:"entry"`
	Children       []RawNode       `json:"children"`
	Label          string          `json:"label,omitempty"`
	LabelTimestamp string          `json:"labelTimestamp,omitempty"`
}

func (n *RawNode) begin(dst []byte) []byte {
	dst = append(dst, `{"entry":`...)
	dst = protocol.Raw(n.Entry).AppendJSON(dst)
	return append(dst, `,"children":[`...)
}

func (n *RawNode) end(dst []byte) []byte {
	dst = append(dst, ']')
	if n.Label != "" {
		dst = protocol.AppendString(append(dst, `,"label":`...), n.Label)
	}
	if n.LabelTimestamp != "" {
		dst = protocol.AppendString(append(dst, `,"labelTimestamp":`...), n.LabelTimestamp)
	}
	return append(dst, '}')
}

// WholeTree is the answer to get_tree, with the nodes of RawTree.
func (v View) WholeTree() (protocol.Pieces, error) {
	nodes, err := v.RawTree()
	if err != nil {
		return protocol.Pieces{}, err
	}
	leaf := []byte("null")
	if id := v.ShownLeaf(); id != "" {
		leaf = protocol.AppendString(nil, id)
	}
	bytes := 0
	for i := range v.slots {
		bytes += int(v.slots[i].size) + 100
		if v.slots[i].kind == kindLabel { // its text stands in the node that it names as well
			bytes += int(v.slots[i].size)
		}
	}
	return protocol.NewTree(`{"tree":[`, `],"leafId":`+string(leaf)+`}`, bytes, nodes,
		func(n *RawNode) []RawNode { return n.Children },
		func(dst []byte, n *RawNode) []byte { return n.begin(dst) },
		func(dst []byte, n *RawNode) []byte { return n.end(dst) }), nil
}

// RawTree shows every branch of the session with whole entries.
func (v View) RawTree() ([]RawNode, error) {
	raw := make([]json.RawMessage, len(v.slots))
	f, err := v.forest(func(_ *forest, l *line) { raw[l.slot] = v.shownLine(l) })
	if err != nil {
		return nil, err
	}
	return grow(f, func(i int32, children []RawNode) RawNode {
		n := RawNode{Entry: raw[i], Children: children}
		if id := v.id(i); f.labels[id] != "" {
			n.Label, n.LabelTimestamp = f.labels[id], f.labelled[id]
		}
		return n
	}), nil
}

// forest is the shape of a session's tree.
type forest struct {
	roots    []int32
	children [][]int32
	stamps   []int64
	entries  []protocol.TreeEntry
	labels   labels
	labelled map[string]string // when
}

// forest reads all entries that clients see, passing each to fn, and sorts them
// into a tree.
func (v View) forest(fn func(*forest, *line)) (*forest, error) {
	f := &forest{
		children: make([][]int32, len(v.slots)), stamps: make([]int64, len(v.slots)),
		entries: make([]protocol.TreeEntry, len(v.slots)), labels: labels{}, labelled: map[string]string{},
	}
	all := v.all(func(s *slot) bool { return !s.kind.isOwn() })
	for l, err := range v.lines(all) {
		if err != nil {
			return nil, err
		}
		f.stamps[l.slot] = protocol.ParseTime(string(l.head.stamp))
		if v.slots[l.slot].kind == kindLabel {
			f.labels.take(l)
			f.labelled[rawString(l.b, "targetId")] = text(l.head.stamp)
		}
		fn(f, l)
	}
	for _, i := range all {
		if p := v.shown(v.slots[i].parent); p == none {
			f.roots = append(f.roots, i)
		} else {
			f.children[p] = append(f.children[p], i)
		}
	}
	f.sort()
	return f, nil
}

func (f *forest) sort() {
	byTime := func(a, b int32) int { return cmp.Compare(f.stamps[a], f.stamps[b]) }
	slices.SortStableFunc(f.roots, byTime)
	for _, c := range f.children {
		slices.SortStableFunc(c, byTime)
	}
}

// grow builds the nodes of a forest, children before parents, without
// recursion: a session is easily thousands of entries deep.
func grow[N any](f *forest, node func(i int32, children []N) N) []N {
	order := slices.Clone(f.roots)
	for n := 0; n < len(order); n++ {
		order = append(order, f.children[order[n]]...)
	}
	made := make([]N, len(f.children))
	for _, i := range slices.Backward(order) {
		made[i] = node(i, collect(f.children[i], made))
	}
	return collect(f.roots, made)
}

func collect[N any](list []int32, made []N) []N {
	nodes := make([]N, len(list)) // never nil: an empty list is [] on the wire
	for n, i := range list {
		nodes[n] = made[i]
	}
	return nodes
}

// Entries lists the lines of the entries after since that clients see, in the
// order of the file, at most limit of them; "" begins with the first, 0 takes
// all. more says that some were left out.
func (v View) Entries(since string, limit int) (entries []json.RawMessage, more bool, err error) {
	from, err := v.lookup(since)
	if err != nil {
		return nil, false, err
	}
	list := []int32{}
	for i := from + 1; i < int32(len(v.slots)); i++ {
		if v.slots[i].kind.isOwn() {
			continue
		}
		if limit > 0 && len(list) == limit {
			more = true
			break
		}
		list = append(list, i)
	}
	entries, err = v.shownLines(list)
	return entries, more, err
}

// Newest lists the lines of the latest entries that clients see, in the order of the
// file: at most limit of them, and bytes, but one in any case. more says that there
// are older ones.
func (v View) Newest(limit, bytes int) (entries []json.RawMessage, more bool, err error) {
	return v.before(int32(len(v.slots)), limit, bytes)
}

// Before is Newest of those before an entry.
func (v View) Before(id string, limit, bytes int) (entries []json.RawMessage, more bool, err error) {
	end, err := v.lookup(id)
	if err != nil {
		return nil, false, err
	}
	return v.before(max(0, end), limit, bytes)
}

func (v View) before(end int32, limit, bytes int) (entries []json.RawMessage, more bool, err error) {
	list := []int32{}
	for i := end - 1; i >= 0; i-- {
		if v.slots[i].kind.isOwn() {
			continue
		}
		if bytes -= int(v.slots[i].size); len(list) == limit || bytes < 0 && len(list) > 0 {
			more = true
			break
		}
		list = append(list, i)
	}
	slices.Reverse(list)
	entries, err = v.shownLines(list)
	return entries, more, err
}

func (v View) shownLines(list []int32) ([]json.RawMessage, error) {
	entries := make([]json.RawMessage, 0, len(list))
	for l, err := range v.lines(list) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, v.shownLine(l))
	}
	return entries, nil
}

// ForkMessages lists the user messages with a text that can be forked before,
// oldest first: those of the branch, or with all those of the whole file.
func (v View) ForkMessages(all bool) ([]protocol.ForkMessage, error) {
	list := v.branch()
	if all {
		list = v.all(nil)
	}
	list = slices.DeleteFunc(list, func(i int32) bool { return v.slots[i].role != roleUser })
	messages := []protocol.ForkMessage{}
	for l, err := range v.lines(list) {
		if err != nil {
			return nil, err
		}
		if t := contentText(l.head.message.content, ""); strings.TrimSpace(t) != "" {
			messages = append(messages, protocol.ForkMessage{EntryID: v.id(l.slot), Text: t})
		}
	}
	return messages, nil
}

// LastAssistantText is the text of the branch's newest answer, nil if there is
// no answer or it has no text. Aborted answers without content are passed over;
// with onlyText, so are all answers without text that did not end by themselves.
func (v View) LastAssistantText(onlyText bool) (*string, error) {
	for _, i := range slices.Backward(v.branch()) {
		if v.slots[i].role != roleAssistant {
			continue
		}
		r, err := v.record(i)
		if err != nil {
			return nil, err
		}
		m, ok := messageOfRecord(r).(*protocol.AssistantMessage)
		if !ok || m.StopReason == protocol.StopAborted && len(m.Content) == 0 {
			continue
		}
		if t := strings.TrimSpace(m.Content.Text("")); t != "" {
			return &t, nil
		}
		if !onlyText || m.StopReason == protocol.StopStop {
			return nil, nil
		}
	}
	return nil, nil
}

func messageOfRecord(r protocol.Record) protocol.Message {
	e, _ := r.Entry.(protocol.MessageEntry)
	return e.Message
}
