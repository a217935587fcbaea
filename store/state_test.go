package store_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/store"
)

func stateOf(t *testing.T, entries ...protocol.Entry) store.State {
	t.Helper()
	l := store.NewLog(nil, "", header(), options())
	add(t, l, entries...)
	s, err := l.View().State()
	require.NoError(t, err)
	return s
}

func TestStateOfNothing(t *testing.T) {
	s := stateOf(t)
	assert.Equal(t, "", s.Provider+s.ModelID+s.Name+string(s.Level))
	assert.Empty(t, s.Labels)
	assert.Zero(t, s.Context.Messages)
	assert.False(t, s.Context.Answered)
	assert.Empty(t, s.OpenCalls)
	assert.Empty(t, s.Queue)
	assert.Empty(t, s.Keys)
}

func TestStateSettings(t *testing.T) {
	other := answer("b")
	other.Message.(*protocol.AssistantMessage).Provider, other.Message.(*protocol.AssistantMessage).Model = "p2", "m2"
	nameless := answer("c")
	nameless.Message.(*protocol.AssistantMessage).Provider, nameless.Message.(*protocol.AssistantMessage).Model = "", ""
	change := protocol.ModelChange{Provider: "p1", ModelID: "m1"}
	level := func(l protocol.ThinkingLevel) protocol.Entry { return protocol.ThinkingLevelChange{ThinkingLevel: l} }
	for _, c := range []struct {
		name    string
		entries []protocol.Entry
		want    string
	}{
		{"none", []protocol.Entry{user("a")}, "/ "},
		{"changes", []protocol.Entry{change, level("low"), user("a")}, "p1/m1 low"},
		{"the last change", []protocol.Entry{level("low"), change, level("xhigh"), protocol.ModelChange{Provider: "p", ModelID: "m"}}, "p/m xhigh"},
		{"an answer is a change", []protocol.Entry{change, other}, "p2/m2 "},
		{"a change after an answer", []protocol.Entry{other, change}, "p1/m1 "},
		{"an answer of nobody is none", []protocol.Entry{change, nameless}, "p1/m1 "},
		{"a level that is none", []protocol.Entry{level("low"), level("enormous")}, "/ low"},
	} {
		s := stateOf(t, c.entries...)
		assert.Equal(t, c.want, fmt.Sprintf("%s/%s %s", s.Provider, s.ModelID, s.Level), c.name)
	}
}

// Settings are the branch's, name and labels the whole file's.
func TestStateBranches(t *testing.T) {
	l, m := newLog(t)
	got := add(t, l, protocol.ModelChange{Provider: "p", ModelID: "m1"}, user("a"))
	add(t, l, protocol.ModelChange{Provider: "p", ModelID: "m2"}, protocol.SessionInfo{Name: " n1 "},
		protocol.Label{TargetID: got[0], Label: "l0"}, protocol.Label{TargetID: got[1], Label: "l1"}, answer("x"))
	require.NoError(t, l.SetLeaf(got[1]))
	add(t, l, answer("b"), protocol.SessionInfo{Name: "n2"}, protocol.SessionInfo{Name: "  "},
		protocol.Label{TargetID: got[0]}, protocol.Label{TargetID: got[1], Label: "l1b"})
	s, err := open(t, m, file).View().State()
	require.NoError(t, err)
	assert.Equal(t, "big", s.ModelID)
	assert.Equal(t, "n2", s.Name)
	assert.Equal(t, map[string]string{got[1]: "l1b"}, s.Labels)
	assert.Equal(t, 2, s.Context.Messages)
	stats, err := l.View().Stats(true)
	require.NoError(t, err)
	assert.Equal(t, int64(20), stats.Session.Tokens.Input)
	assert.Equal(t, int64(10), stats.Tokens.Input)
	assert.InDelta(t, 1.0, stats.Session.Cost, 1e-9)
	v, err := l.View().At(got[0])
	require.NoError(t, err)
	s, err = v.State()
	require.NoError(t, err)
	assert.Equal(t, "m1", s.ModelID)
	assert.Equal(t, "n2", s.Name)
	stats, err = v.Stats(true)
	require.NoError(t, err)
	assert.Zero(t, stats.Tokens)
	assert.Equal(t, int64(20), stats.Session.Tokens.Input)
}

func TestStateUsage(t *testing.T) {
	summary := compaction("s", "")
	summary.Usage = &protocol.Usage{Input: 1000, TotalTokens: 1000, Cost: protocol.Cost{Total: 2}}
	left := protocol.BranchSummary{Summary: "l", Usage: &protocol.Usage{Output: 7}}
	l, _ := newLog(t)
	add(t, l, user("a"), answer("b"), summary, left, failed(protocol.StopError))
	stats, err := l.View().Stats(true)
	require.NoError(t, err)
	assert.Equal(t, protocol.TokenTotals{Input: 1020, Output: 11, CacheRead: 6, CacheWrite: 8, Total: 1045}, stats.Tokens,
		"what was compacted and what failed was paid for too")
	assert.Equal(t, stats.Tokens, stats.Session.Tokens)
	assert.InDelta(t, 3.0, stats.Cost, 1e-9)
	s, err := l.View().State()
	require.NoError(t, err)
	assert.False(t, s.Context.Answered)

	s = stateOf(t, answer("b"))
	assert.True(t, s.Context.Answered)
	l = store.NewLog(nil, "", header(), options())
	kept := add(t, l, answer("b"))[0]
	add(t, l, compaction("s", kept), user("c"))
	s, err = l.View().State()
	require.NoError(t, err)
	assert.False(t, s.Context.Answered)
}

// Entries of types that only other versions write cost as well.
func TestStateForeignUsage(t *testing.T) {
	l := openText(t, headLine, userLine("00000001", "", "x"),
		entryLine("usage", "00000002", "00000001", `"kind":"cache_warm","usage":{"input":5,"cost":{"total":0.25}}`),
		entryLine("message", "00000003", "00000002", `"message":{"role":"toolResult","toolCallId":"c","toolName":"task","content":[],"isError":false,"usage":{"output":6}}`),
		entryLine("message", "00000004", "00000003", `"message":{"role":"assistant","content":[],"usage":null}`),
		entryLine("message", "00000005", "00000004", `"message":{"role":"assistant","content":[],"usage":"lots"}`),
	)
	stats, err := l.View().Stats(true)
	require.NoError(t, err)
	assert.Equal(t, int64(11), stats.Tokens.Total)
	assert.InDelta(t, 0.25, stats.Cost, 1e-9)
}

func TestStateOpenCalls(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []protocol.Entry
		want    []string
	}{
		{"none", []protocol.Entry{user("a"), answer("b")}, nil},
		{"all answered", []protocol.Entry{answer("", "c1", "c2"), started("c1"), result("c1"), result("c2")}, nil},
		{"all open, the first was next", []protocol.Entry{answer("", "c1", "c2")}, []string{"c1 true", "c2 false"}},
		{"several at once", []protocol.Entry{answer("", "c1", "c2", "c3"), started("c1", "c2"), result("c1")}, []string{"c2 true", "c3 false"}},
		{"started out of order", []protocol.Entry{answer("", "c1", "c2", "c3"), toolOp("ask", "c1"), started("c3")}, []string{"c1 false", "c2 false", "c3 true"}},
		{"waiting for consent", []protocol.Entry{answer("", "c1", "c2"), result("c1"), toolOp("ask", "c2")}, []string{"c2 false"}},
		{"consent given", []protocol.Entry{answer("", "c1"), toolOp("ask", "c1"), started("c1")}, []string{"c1 true"}},
		{"the next after those that say so", []protocol.Entry{answer("", "c1", "c2"), started("c1"), result("c1")}, []string{"c2 true"}},
		{"bookkeeping in between", []protocol.Entry{answer("", "c1"), protocol.SessionInfo{Name: "n"}, toolOp("ask", "c1"), protocol.CustomMessageEntry{CustomType: "x"}},
			[]string{"c1 false"}},
		{"bash in between", []protocol.Entry{answer("", "c1"), message(&protocol.BashExecutionMessage{Command: "ls"})}, []string{"c1 true"}},
		{"the same id in an earlier answer", []protocol.Entry{answer("", "c1"), toolOp("ask", "c1"), result("c1"), answer("", "c1")}, []string{"c1 true"}},
		{"only the last answer counts", []protocol.Entry{answer("", "c1"), answer("b")}, nil},
		{"too late: a question followed", []protocol.Entry{answer("", "c1"), user("go on")}, nil},
		{"failed answers ask for nothing", []protocol.Entry{failed(protocol.StopError, "c1")}, nil},
		{"aborted answers ask for nothing", []protocol.Entry{answer("", "c0"), result("c0"), failed(protocol.StopAborted, "c1")}, nil},
		{"compacted away", []protocol.Entry{answer("", "c1"), compaction("s", "")}, nil},
		{"data that is none", []protocol.Entry{answer("", "c1"), protocol.Custom{CustomType: protocol.CustomTool, Data: json.RawMessage(`[]`)}}, []string{"c1 true"}},
	} {
		var got []string
		for _, call := range stateOf(t, c.entries...).OpenCalls {
			got = append(got, fmt.Sprint(call.Call.ID, " ", call.Started))
			assert.JSONEq(t, `{"path":"a"}`, string(call.Call.Arguments))
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// A tool that started on another branch did not start here.
func TestStateStartedElsewhere(t *testing.T) {
	l, _ := newLog(t)
	call := add(t, l, answer("", "c1", "c2"))[0]
	add(t, l, toolOp("ask", "c1"), started("c2"))
	require.NoError(t, l.SetLeaf(call))
	s, err := l.View().State()
	require.NoError(t, err)
	require.Len(t, s.OpenCalls, 2)
	assert.True(t, s.OpenCalls[0].Started)
	assert.False(t, s.OpenCalls[1].Started)
}

// TestStateTodosAndRules: the newest list of the branch, every rule that fired
// on it.
func TestStateTodosAndRules(t *testing.T) {
	todos := func(data string) protocol.Entry {
		return protocol.Custom{CustomType: protocol.CustomTodos, Data: json.RawMessage(data)}
	}
	rules := func(data string) protocol.Entry {
		return protocol.Custom{CustomType: protocol.CustomRules, Data: json.RawMessage(data)}
	}
	s := stateOf(t, todos(`{"todoPhases":[1]}`), user("a"), todos(`{"todoPhases":[2]}`), rules(`{"rules":["x"]}`), rules(`{"rules":["y","z"]}`), rules(`7`))
	assert.JSONEq(t, `{"todoPhases":[2]}`, string(s.Todos))
	assert.Equal(t, []string{"x", "y", "z"}, s.Rules)
	assert.Nil(t, stateOf(t, user("a")).Todos)
}

// TestStateLimits: the newest limits that a client has set, on whatever branch.
func TestStateLimits(t *testing.T) {
	op := func(data string) protocol.Entry {
		return protocol.Custom{CustomType: protocol.CustomBudget, Data: json.RawMessage(data)}
	}
	l, m := newLog(t)
	add(t, l, user("a"), op(`{"op":"limits","limits":{"maxToolCalls":7}}`), op(`{"op":"limits","limits":{"maxTotalTokens":1000}}`), op(`{"op":"cleared"}`))
	require.NoError(t, l.SetLeaf(""))
	add(t, l, user("b"))
	s, err := open(t, m, file).View().State()
	require.NoError(t, err)
	most := int64(1000)
	assert.Equal(t, &protocol.BudgetLimits{MaxTotalTokens: &most}, s.Limits)
	assert.Nil(t, stateOf(t, user("a"), op(`{"op":"warned","reason":"cost"}`)).Limits)
}

func TestStateQueue(t *testing.T) {
	image := protocol.Image{Data: "AAAA", MimeType: "image/png"}
	put := func(id string, kind protocol.QueueKind) protocol.QueueOp {
		return protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: id, Kind: kind, Text: "text of " + id}}
	}
	withAll := put("q2", protocol.QueueFollowUp)
	withAll.Images, withAll.Key = []protocol.Image{image}, protocol.IdempotencyKey{Key: "k2", Fingerprint: "f"}
	bash := protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: "q12", Kind: protocol.QueueBash, Message: json.RawMessage(`{"role":"bashExecution","command":"ls"}`)}}
	delivery := user("text of q3")
	delivery.QueueID = "q3"
	l, m := newLog(t)
	add(t, l, queueOp(put("q1", protocol.QueueSteer)), queueOp(withAll), queueOp(put("q3", protocol.QueueInject)), queueOp(bash))
	require.NoError(t, l.SetLeaf(""))
	add(t, l, delivery, queueOp(protocol.QueueOp{Op: "remove", IDs: []string{"q1", "unknown", "q99"}}),
		protocol.Custom{CustomType: protocol.CustomQueue, Data: json.RawMessage(`[]`)},
		queueOp(protocol.QueueOp{Op: "shuffle", QueuedInput: protocol.QueuedInput{ID: "q12"}}), queueOp(protocol.QueueOp{Op: "remove"}))
	s, err := open(t, m, file).View().State()
	require.NoError(t, err)
	assert.Equal(t, []protocol.QueuedInput{withAll.QueuedInput, bash.QueuedInput}, s.Queue,
		"queues are the session's, whatever the branch")
	assert.Equal(t, 12, s.LastQueueID)
	assert.Equal(t, []protocol.SeenKey{{Key: withAll.Key, Disposition: "queued"}}, s.Keys)
}

func TestStateLastQueueID(t *testing.T) {
	var entries []protocol.Entry
	for _, id := range []string{"q3", "x9", "q", "qq8", "q-4", "q7", "q5", "8", "q99999999999999999999"} {
		entries = append(entries, queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: id}}))
	}
	assert.Equal(t, 7, stateOf(t, entries...).LastQueueID)
	entries = append(entries, queueOp(protocol.QueueOp{Op: "remove", IDs: []string{"q7"}}))
	assert.Equal(t, 7, stateOf(t, entries...).LastQueueID, "a number is not used twice")
	assert.Zero(t, stateOf(t).LastQueueID)
}

func TestStateKeys(t *testing.T) {
	key := func(key string) protocol.IdempotencyKey {
		return protocol.IdempotencyKey{Key: key, Fingerprint: "f"}
	}
	keyed := func(k, queueID string) protocol.Entry {
		e := user("x")
		e.Key, e.QueueID = key(k), queueID
		return e
	}
	s := stateOf(t, keyed("a", ""), queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: "q", Key: key("b")}}), keyed("b", "q"), keyed("a", ""), keyed("c", ""))
	assert.Equal(t, []protocol.SeenKey{{Key: key("a"), Disposition: "started"}, {Key: key("b"), Disposition: "queued"}, {Key: key("c"), Disposition: "started"}}, s.Keys)

	for _, odd := range []string{"#", "##", "a#b", "a#", "#a", " ", "\"\\", "\n\x00", "ä#😀", "\uFFFD", "k"} {
		s := stateOf(t, keyed(odd, ""))
		assert.Equal(t, []protocol.SeenKey{{Key: key(odd), Disposition: "started"}}, s.Keys, "%q", odd)
		s = stateOf(t, queueOp(protocol.QueueOp{Op: "add", QueuedInput: protocol.QueuedInput{ID: "q", Key: key(odd)}}))
		assert.Equal(t, []protocol.SeenKey{{Key: key(odd), Disposition: "queued"}}, s.Keys, "%q", odd)
		assert.Equal(t, key(odd), s.Queue[0].Key)
	}

	var many []protocol.Entry
	for i := range protocol.MaxKeys + 10 {
		many = append(many, keyed(fmt.Sprint("k", i), ""))
	}
	s = stateOf(t, many...)
	require.Len(t, s.Keys, protocol.MaxKeys)
	assert.Equal(t, "k10", s.Keys[0].Key.Key, "the oldest are forgotten")
	assert.Equal(t, fmt.Sprint("k", protocol.MaxKeys+9), s.Keys[protocol.MaxKeys-1].Key.Key)
}

func TestStateOfSamples(t *testing.T) {
	l, _ := openSample(t, "session-tree.jsonl")
	s, err := l.View().State()
	require.NoError(t, err)
	assert.Equal(t, "fake/m1 off", fmt.Sprintf("%s/%s %s", s.Provider, s.ModelID, s.Level))
	assert.Equal(t, "Tree sample", s.Name)
	assert.Equal(t, map[string]string{"c51ca74b": "from-b"}, s.Labels)
	assert.Equal(t, 2, s.Context.Messages)
	stats, err := l.View().Stats(true)
	require.NoError(t, err)
	assert.Equal(t, int64(120), stats.Tokens.Total)
	assert.Equal(t, int64(600), stats.Session.Tokens.Total, "four answers and a summary")

	l, _ = openSample(t, "session-compaction.jsonl")
	s, err = l.View().State()
	require.NoError(t, err)
	assert.True(t, s.Context.Answered)
	assert.Equal(t, 6, s.Context.Messages)
	assert.Empty(t, s.OpenCalls)
}

// Every prefix of a session is what a crash may leave; its state must say what
// is missing for the conversation to be well-formed.
func TestStateOfEveryPrefix(t *testing.T) {
	entries := []protocol.Entry{
		user("a"), answer("", "c1", "c2"), started("c1"), result("c1"), started("c2"), result("c2"), answer("", "c3"), result("c3"), answer("done"),
	}
	for n := range len(entries) + 1 {
		s := stateOf(t, entries[:n]...)
		open := map[string]bool{}
		for _, e := range entries[:n] {
			if m, ok := e.(protocol.MessageEntry); ok {
				switch m := m.Message.(type) {
				case *protocol.AssistantMessage:
					for _, c := range m.Content.ToolCalls() {
						open[c.ID] = true
					}
				case *protocol.ToolResultMessage:
					delete(open, m.ToolCallID)
				}
			}
		}
		assert.Len(t, s.OpenCalls, len(open), "after %d entries", n)
		for _, c := range s.OpenCalls {
			assert.True(t, open[c.Call.ID])
		}
	}
}

// A branch that ends with answers that were taken out, since their request is made again, says how many these are,
// until a message comes or an entry says that nothing goes on.
func TestStateTried(t *testing.T) {
	l := store.NewLog(nil, "", header(), options())
	tried := func() int {
		s, err := l.View().State()
		require.NoError(t, err)
		return s.Tried
	}
	fails := func() {
		id := add(t, l, answer("failed"))[0]
		assert.Zero(t, tried(), "it stands")
		add(t, l, protocol.ContextEdit{TargetID: id})
	}
	interrupted := protocol.Custom{CustomType: protocol.CustomInterrupted, Data: json.RawMessage(`{}`)}
	add(t, l, user("x"))
	fails()
	require.Equal(t, 1, tried())
	add(t, l, protocol.Custom{CustomType: protocol.CustomFailover, Data: json.RawMessage(`{}`)})
	id := add(t, l, answer("failed"))[0]
	add(t, l, protocol.ContextEdit{TargetID: id})
	require.Equal(t, 2, tried())
	add(t, l, interrupted)
	require.Zero(t, tried())
	add(t, l, user("y"))
	require.Zero(t, tried())
	fails()
	require.Equal(t, 1, tried())
	add(t, l, answer("done"))
	require.Zero(t, tried())
}
