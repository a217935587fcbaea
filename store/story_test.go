package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// TestStories plays testdata/stories: what is appended to a session, and what
// can be read from it then. -rewrite takes what is for what should be.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{t: t, fs: storetest.NewMem(), rand: &counting{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			out := s.play(d)
			if out == "" {
				out = "(nothing)"
			}
			return strings.TrimRight(out, "\n") + "\n"
		})
	})
}

// story is a session that is written and read by name.
type story struct {
	t    *testing.T
	fs   *storetest.Mem
	rand io.Reader
	log  *store.Log
	now  int64
}

func (s *story) play(d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		s.log = store.NewLog(s.fs, "/s/a.jsonl", header(), store.Options{Rand: s.rand})
		return ""
	case "file": // put a file there and open it
		f, err := s.fs.Create("/s/a.jsonl")
		if err != nil {
			require.NoError(s.t, s.fs.MkdirAll("/s"))
			f, err = s.fs.Create("/s/a.jsonl")
		}
		require.NoError(s.t, err)
		_, err = f.Write([]byte(strings.ReplaceAll(d.Input, "⏎", "")))
		require.NoError(s.t, err)
		require.NoError(s.t, f.Close())
		return s.open()
	case "reopen":
		require.NoError(s.t, s.log.Close())
		return s.open()
	case "append":
		return s.lines(d.Input, s.append)
	case "leaf":
		var to string
		d.MaybeScanArgs(s.t, "to", &to)
		return s.outcome(s.log.SetLeaf(to))
	case "show":
		return s.lines(d.Input, s.show)
	case "cut":
		var keep int64
		d.ScanArgs(s.t, "keep", &keep)
		return s.cut(keep)
	case "left":
		var to string
		d.ScanArgs(s.t, "to", &to)
		records, err := s.log.View().Left(to)
		if err != nil {
			return s.outcome(err)
		}
		var b strings.Builder
		for _, r := range records {
			fmt.Fprintf(&b, "%s %s\n", r.ID, r.Entry.EntryType())
		}
		return b.String()
	case "fork":
		var before string
		d.ScanArgs(s.t, "before", &before)
		return s.fork(before)
	}
	s.t.Fatalf("no such command: %s", d.Cmd)
	return ""
}

func (s *story) lines(input string, each func(string) string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(strings.TrimRight(each(line), "\n") + "\n")
		}
	}
	return b.String()
}

func (s *story) outcome(err error) string {
	for name, kind := range map[string]error{
		"no such entry": store.ErrNoEntry, "not a session": store.ErrNotSession, "empty": store.ErrEmpty,
		"not a user message": store.ErrNotUserMessage, "too small": store.ErrTooSmall, "already compacted": store.ErrCompacted,
	} {
		if errors.Is(err, kind) {
			return "error: " + name
		}
	}
	require.NoError(s.t, err)
	return ""
}

func (s *story) open() string {
	log, err := store.OpenLog(s.fs, "/s/a.jsonl", store.Options{Rand: s.rand})
	if err != nil {
		return s.outcome(err)
	}
	s.log = log
	damage := ""
	if d := log.Damage(); d.Skipped > 0 || d.TornBytes > 0 {
		damage = fmt.Sprintf(", %d lines skipped, %d bytes torn", d.Skipped, d.TornBytes)
	}
	return fmt.Sprintf("%d entries, leaf %s%s", log.Len(), log.Leaf(), damage)
}

// append adds one entry: its type and what it says.
func (s *story) append(line string) string {
	kind, rest, _ := strings.Cut(line, " ")
	var e protocol.Entry
	switch kind {
	case "user":
		e = user(rest)
	case "answer":
		text, calls, _ := strings.Cut(rest, " calls ")
		e = answer(text, strings.Fields(calls)...)
	case "result":
		e = result(rest)
	case "failed":
		e = failed(protocol.StopError)
	case "model":
		provider, id, _ := strings.Cut(rest, "/")
		e = protocol.ModelChange{Provider: provider, ModelID: id}
	case "level":
		e = protocol.ThinkingLevelChange{ThinkingLevel: protocol.ThinkingLevel(rest)}
	case "name":
		e = protocol.SessionInfo{Name: rest}
	case "label":
		id, text, _ := strings.Cut(rest, " ")
		e = protocol.Label{TargetID: id, Label: text}
	case "compaction":
		kept, summary, _ := strings.Cut(rest, " ")
		e = protocol.Compaction{Summary: summary, FirstKeptEntryID: kept, TokensBefore: 100}
	case "branch-summary":
		e = protocol.BranchSummary{FromID: s.log.Leaf(), Summary: rest}
	case "omit":
		e = protocol.ContextEdit{TargetID: rest}
	case "note":
		e = protocol.CustomMessageEntry{CustomType: "note", Content: protocol.TextContent(rest), Display: true}
	case "todos":
		e = protocol.Custom{CustomType: protocol.CustomTodos, Data: json.RawMessage(rest)}
	case "rules":
		e = protocol.Custom{CustomType: protocol.CustomRules, Data: json.RawMessage(rest)}
	case "queue":
		kind, text, _ := strings.Cut(rest, " ")
		e = queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: "q" + strconv.Itoa(s.log.Len()), Kind: protocol.QueueKind(kind), Text: text}})
	default:
		s.t.Fatalf("no such entry: %s", line)
	}
	s.now += 1000
	meta, err := s.log.Append(e, t0+s.now, true)
	if err != nil {
		return s.outcome(err)
	}
	parent := meta.ParentID
	if parent == "" {
		parent = "the root"
	}
	return fmt.Sprintf("%s after %s", meta.ID, parent)
}

func (s *story) show(what string) string {
	view := s.log.View()
	switch what {
	case "context":
		c, err := view.Context()
		require.NoError(s.t, err)
		sameMessages(s.t, view)
		var b strings.Builder
		for _, item := range c.Items() {
			fmt.Fprintf(&b, "%s %s\n", item.EntryID, render(item.Message))
		}
		fmt.Fprintf(&b, "about %d tokens", c.Size().Tokens)
		return b.String()
	case "branch":
		return strings.Join(ids(view.Branch()), " ")
	case "tree":
		tree, err := view.Tree()
		require.NoError(s.t, err)
		var b strings.Builder
		drawTree(&b, tree.Nodes, 0)
		return b.String()
	case "state":
		st, err := view.State()
		require.NoError(s.t, err)
		out := map[string]any{"model": st.Provider + "/" + st.ModelID, "level": st.Level, "name": st.Name, "messages": st.Context.Messages,
			"labels": st.Labels, "queued": len(st.Queue), "openCalls": len(st.OpenCalls), "rules": st.Rules}
		if st.Todos != nil {
			out["todos"] = string(st.Todos)
		}
		raw, err := json.Marshal(out)
		require.NoError(s.t, err)
		return string(raw)
	case "stats":
		st, err := view.Stats(true)
		require.NoError(s.t, err)
		return fmt.Sprintf("%d user, %d assistant, %d calls, %d results", st.UserMessages, st.AssistantMessages, st.ToolCalls, st.ToolResults)
	case "types":
		var list []string
		for _, ref := range view.Refs() {
			list = append(list, ref.Type)
		}
		return strings.Join(list, " ")
	case "forks":
		list, err := view.ForkMessages(false)
		require.NoError(s.t, err)
		var b strings.Builder
		for _, m := range list {
			fmt.Fprintf(&b, "%s %s\n", m.EntryID, m.Text)
		}
		return b.String()
	}
	raw, err := view.Raw(what)
	if err != nil {
		return s.outcome(err)
	}
	return gjson.GetBytes(raw, "@ugly").Raw
}

func drawTree(b *strings.Builder, nodes []protocol.TreeNode, depth int) {
	for _, n := range nodes {
		fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", depth), n.Entry.ID, n.Entry.Preview)
		if n.Entry.Label != "" {
			fmt.Fprintf(b, " [%s]", n.Entry.Label)
		}
		b.WriteByte('\n')
		drawTree(b, n.Children, depth+min(1, len(nodes)-1))
	}
}

func (s *story) cut(keep int64) string {
	c, err := s.log.View().Context()
	require.NoError(s.t, err)
	sameMessages(s.t, s.log.View())
	cut, err := store.NewCut(c.Items(), keep)
	if err != nil {
		return s.outcome(err)
	}
	return fmt.Sprintf("summarise %q\nprefix %q\nprevious %q\nkeep %q from %s",
		texts(cut.History), texts(cut.Prefix), cut.Previous, texts(cut.Kept), cut.FirstKept)
}

func (s *story) fork(before string) string {
	leaf, text, err := s.log.View().ForkPoint(before)
	if err != nil {
		return s.outcome(err)
	}
	view, err := s.log.View().At(leaf)
	require.NoError(s.t, err)
	h := store.NewHeader("fork-1", "/p", "", t0)
	fork, err := store.Fork(s.fs, view, "/s/fork.jsonl", h, store.Options{Rand: s.rand})
	require.NoError(s.t, err)
	require.NoError(s.t, s.log.Close())
	s.log = fork
	return fmt.Sprintf("editor %q, %d entries, leaf %s, parent %s", text, fork.Len(), fork.Leaf(), fork.Header().ParentSession)
}
