package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
)

const bench0 = int64(1_795_223_066_000)

// writeSession makes a session file of n entries in turns of four: question,
// answer with a call, result, answer.
func writeSession(tb testing.TB, path string, n int) {
	tb.Helper()
	var b bytes.Buffer
	h := store.NewHeader("bench", "/home/me/proj", "", bench0)
	b.Write(append(h.AppendJSON(nil), '\n'))
	parent := ""
	for i := range n {
		r := protocol.Record{
			EntryMeta: protocol.EntryMeta{ID: fmt.Sprintf("%08x", i*7919+1), ParentID: parent, Timestamp: protocol.FormatTime(bench0 + int64(i))},
			Entry:     protocol.MessageEntry{Message: benchMessage(i)},
		}
		b.Write(append(r.AppendJSON(nil), '\n'))
		parent = r.ID
	}
	require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(tb, os.WriteFile(path, b.Bytes(), 0o600))
}

func benchMessage(i int) protocol.Message {
	switch i % 4 {
	case 0:
		return &protocol.UserMessage{Content: protocol.TextContent("Please look at file number " + fmt.Sprint(i)), Timestamp: bench0}
	case 2:
		return &protocol.ToolResultMessage{
			ToolCallID: fmt.Sprint("call_", i-1), ToolName: "read", Timestamp: bench0,
			Content: protocol.TextContent(strings.Repeat("func main() {\n\treturn \"x\"\n}\n", 20)),
		}
	}
	m := &protocol.AssistantMessage{
		Content: protocol.TextContent(strings.Repeat("Here is what I found out. ", 6)), API: "anthropic-messages", Provider: "acme",
		Model: "big-1", StopReason: protocol.StopStop, Timestamp: bench0,
		Usage: protocol.Usage{Input: 100, Output: 20, TotalTokens: 120, Cost: protocol.Cost{Total: 0.00014}},
	}
	if i%4 == 1 {
		m.StopReason = protocol.StopToolUse
		m.Content = append(m.Content, protocol.ToolCall{ID: fmt.Sprint("call_", i), Name: "read", Arguments: []byte(`{"path":"a.go"}`)})
	}
	return m
}

func BenchmarkLoad100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.jsonl")
	writeSession(b, path, 100_000)
	st, _ := os.Stat(path)
	b.SetBytes(st.Size())
	for b.Loop() {
		l, err := store.OpenLog(store.OS{}, path, store.Options{})
		if err != nil || l.Len() != 100_000 {
			b.Fatal(err, l.Len())
		}
		l.Close()
	}
}

func BenchmarkState100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.jsonl")
	writeSession(b, path, 100_000)
	l, err := store.OpenLog(store.OS{}, path, store.Options{})
	require.NoError(b, err)
	defer l.Close()
	// As in a real session of that size, nearly all of it has been compacted.
	leaf := l.Leaf()
	_, err = l.Append(protocol.Compaction{Summary: "s", FirstKeptEntryID: leaf, TokensBefore: 1}, bench0, true)
	require.NoError(b, err)
	v := l.View()
	for b.Loop() {
		if _, err := v.State(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, history := range []int{100, 100_000} {
		b.Run(fmt.Sprint(history), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "s.jsonl")
			writeSession(b, path, history)
			l, err := store.OpenLog(store.OS{}, path, store.Options{})
			require.NoError(b, err)
			defer l.Close()
			e := protocol.MessageEntry{Message: protocol.Seal(benchMessage(1).(*protocol.AssistantMessage))}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(e, bench0, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkContext2k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.jsonl")
	writeSession(b, path, 2000)
	l, err := store.OpenLog(store.OS{}, path, store.Options{})
	require.NoError(b, err)
	defer l.Close()
	v := l.View()
	for b.Loop() {
		if c, err := v.Context(); err != nil || c.Len() != 2000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkTree10k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.jsonl")
	writeSession(b, path, 10_000)
	l, err := store.OpenLog(store.OS{}, path, store.Options{})
	require.NoError(b, err)
	defer l.Close()
	v := l.View()
	for b.Loop() {
		if _, err := v.Tree(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchDir(b *testing.B) string {
	dir := b.TempDir()
	for i := range 10_000 {
		writeSession(b, filepath.Join(dir, fmt.Sprintf("2026-11-21T01-04-26-%03dZ_%05d.jsonl", i%1000, i)), 8)
	}
	return dir
}

func BenchmarkList10k(b *testing.B) {
	dir := benchDir(b)
	list := func(b *testing.B, l *store.Lister) {
		if got, err := l.List(store.Query{Dir: dir}); err != nil || len(got) != 10_000 {
			b.Fatal(err, len(got))
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			list(b, store.NewLister(store.OS{}))
		}
	})
	b.Run("warm", func(b *testing.B) {
		l := store.NewLister(store.OS{})
		list(b, l)
		for b.Loop() {
			list(b, l)
		}
	})
	b.Run("heads", func(b *testing.B) {
		for b.Loop() {
			if got, err := store.NewLister(store.OS{}).Heads(store.Query{Dir: dir}); err != nil || len(got) != 10_000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("mostRecent", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := store.NewLister(store.OS{}).MostRecent(store.Query{Dir: dir}); err != nil || !ok {
				b.Fatal(err)
			}
		}
	})
}

// TestIndexIsSmall holds the index to its budget: a session costs memory by
// the entry, and a daemon has many.
func TestIndexIsSmall(t *testing.T) {
	const n = 100_000
	path := filepath.Join(t.TempDir(), "s.jsonl")
	writeSession(t, path, n)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l, err := store.OpenLog(store.OS{}, path, store.Options{})
	require.NoError(t, err)
	defer l.Close()
	require.False(t, l.Has("ffffffff"), "so that the map of ids is there")
	perEntry := (float64(heap()) - float64(before)) / n
	t.Logf("%.1f bytes per entry", perEntry)
	require.Less(t, perEntry, 50.0)
	runtime.KeepAlive(l)
}
