package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
)

// Sessions returns the ids of the sessions that have a log in an engine.
func Sessions(t *testing.T, engine *clustertest.Memory) (ids []string) {
	t.Helper()
	all, _, err := engine.Client().List(t.Context(), "", 1000)
	require.NoError(t, err)
	for _, id := range all {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return ids
}

// Call sends a command and returns the answer. It lets fake time pass until then, because the
// engine takes some.
func (n *Node) Call(t testing.TB, command string) gjson.Result {
	t.Helper()
	return n.AwaitAnswer(n.Send(command))
}

// AwaitAnswer waits for the answer to a command that was sent with [actortest.Client.Send] and
// returns it.
func (n *Node) AwaitAnswer(id string) gjson.Result {
	n.T.Helper()
	for range 1000 {
		n.Advance(20 * time.Millisecond)
		if !slices.Contains(n.Unanswered(), id) {
			break
		}
	}
	return n.Answer(n.T, id)
}

// Open opens a session and returns its handle.
func (n *Node) Open() string {
	n.T.Helper()
	v := n.Call(n.T, `{"type":"open_session"}`)
	require.True(n.T, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// Run sends a prompt to a session and lets its run end.
func (n *Node) Run(session, text string) {
	n.T.Helper()
	n.Say(session, "prompt", text)
	n.Advance(10 * time.Second)
}

// Take opens a session of the cluster on this node, as a relay does for its client.
func (n *Node) Take(id string) string {
	n.T.Helper()
	var v gjson.Result
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		v = n.Call(n.T, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, CopiesDir+"/"+id+".jsonl"))
		if harness.Code(v) != "not_here" {
			break
		}
	}
	require.True(n.T, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// Log returns the log of a session that the engine has.
func (n *Node) Log(id string) string {
	n.T.Helper()
	var text strings.Builder
	tail, err := n.Engine.Tail(n.T.Context(), cluster.SessionID(id))
	require.NoError(n.T, err)
	_, err = cluster.Load(n.T.Context(), n.Engine, cluster.SessionID(id), cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		if r.Kind == cluster.Lines {
			text.Write(r.Lines)
		}
		return nil
	})
	require.NoError(n.T, err)
	return text.String()
}

// CheckCopy checks that the node's copy of a session is its log, byte for byte (C12).
func (n *Node) CheckCopy(id string) {
	n.T.Helper()
	assert.Equal(n.T, n.Log(id), string(n.Disk.Mem().ReadFile(CopiesDir+"/"+id+".jsonl")))
}

// UserSaid is the start of a user's message in a log.
const UserSaid = `"role":"user","content":[{"type":"text","text":"`

// CountUserSaid returns how often a log has a user's message with this text.
func CountUserSaid(log, text string) int { return strings.Count(log, UserSaid+text+`"`) }

// Spans pairs the events of a session that open and close a span. It returns the spans that the
// client has seen open and not close, and the events that fit none.
func (c *Node) Spans(session string) (open, wrong []string) {
	for _, e := range c.Events(session) {
		for _, row := range protocol.Events {
			what := string(row.Opens+row.Closes) + " " + e.Get("toolCallId").Str
			switch {
			case row.Name != e.Get("type").Str || row.Opens+row.Closes == "" || row.Closes == protocol.SpanWork:
			case row.Opens != "" && slices.Contains(open, what):
				wrong = append(wrong, "begun twice: "+e.Raw)
			case row.Opens != "":
				open = append(open, what)
			case !slices.Contains(open, what):
				wrong = append(wrong, "ended without a beginning: "+e.Raw)
			default:
				open = slices.DeleteFunc(open, func(o string) bool { return o == what })
			}
		}
	}
	return open, wrong
}
