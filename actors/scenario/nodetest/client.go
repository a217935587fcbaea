package nodetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// OpenIn opens a session that is placed on the node with a name, in a directory of a root that all
// nodes share.
func (c *Node) OpenIn(cwd, name, client string) string {
	c.T.Helper()
	root, _, _ := strings.Cut(cwd, ":")
	for i := len(c.Lines()); ; i++ {
		command := fmt.Sprintf("open-%s-%d", name, i)
		at, err := c.Member.Place(cluster.NewSessionID(client, command), cluster.Wants{Root: root})
		require.NoError(c.T, err)
		if at.Name != name {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":%q,"retain":true}`, command, cwd))
		v := c.AwaitResponse(command)
		require.True(c.T, v.Get("success").Bool(), v.Raw)
		return v.Get("data.sessionId").Str
	}
}

// SessionID returns the id of the session that has a handle.
func (n *Node) SessionID(handle string) string {
	n.T.Helper()
	v := n.Call(n.T, `{"type":"get_state"`+harness.At(handle)+`}`)
	require.True(n.T, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// Identify sends hello with a client id.
func (n *Node) Identify(client string) {
	n.T.Helper()
	n.Call(n.T, fmt.Sprintf(`{"type":"hello","clientId":%q}`, client))
}

// NewClient connects a client to a node and identifies it. More members of hello are appended to
// its command. The client's sessions are retained.
func NewClient(n *Node, client, more string, changes ...func(*conn.Config)) *Node {
	c := n.ConnectNode(append([]func(*conn.Config){func(of *conn.Config) { of.MultiSession, of.Retain = true, true }}, changes...)...)
	c.Call(n.T, fmt.Sprintf(`{"type":"hello","clientId":%q%s}`, client, more))
	return c
}

// ConnectNode connects a client to a node.
func (n *Node) ConnectNode(changes ...func(*conn.Config)) *Node {
	n.Peers %= 20 // the ids of its commands start with a letter that depends on it
	return &Node{Client: n.Connect(changes...), Name: n.Name, Member: n.Member, Engine: n.Engine}
}

// OpenOn opens a session that is placed on the node with a name, by choosing the id of the command.
func (c *Node) OpenOn(name, client string) string {
	for i := 0; ; i++ {
		command := fmt.Sprintf("open-%s-%s-%d", client, name, i)
		id := string(cluster.NewSessionID(client, command))
		at, err := c.Member.Place(cluster.SessionID(id), cluster.Wants{Root: "w"})
		require.NoError(c.T, err)
		if at.Name != name {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
		v := c.AwaitResponse(command)
		require.True(c.T, v.Get("success").Bool(), v.Raw)
		require.Equal(c.T, id, v.Get("data.sessionId").Str)
		return id
	}
}

// NodeMembers matches the members of an answer that differ between nodes.
var NodeMembers = regexp.MustCompile(`"node":"[^"]*"|"epoch":"[^"]*"`)

// AwaitResponse waits for the answer to a line that was sent with [actortest.Client.Line] and
// returns it. There has to be exactly one.
func (c *Node) AwaitResponse(id string) gjson.Result {
	c.T.Helper()
	for range 1000 {
		if strings.Contains(strings.Join(c.Lines(), "\n"), `{"id":"`+id+`","type":"response"`) {
			break
		}
		c.Advance(20 * time.Millisecond)
	}
	return c.Answer(c.T, id)
}

// OpenWithHeir is [Node.OpenOn] for a session that is placed on the node next when its node is
// lost.
func (c *Node) OpenWithHeir(name, next, client string) string {
	c.T.Helper()
	for i := 0; ; i++ {
		command := fmt.Sprintf("open-%s-%s-%d", client, name, i)
		id := string(cluster.NewSessionID(client, command))
		on := func(without string) string {
			nodes := slices.DeleteFunc(c.Member.Seen(), func(n cluster.Seen) bool { return n.Name == without })
			at, err := cluster.Place(cluster.SessionID(id), cluster.Wants{Root: "w"}, nodes)
			require.NoError(c.T, err)
			return at.Name
		}
		if on("") != name || on(name) != next {
			continue
		}
		c.Line(fmt.Sprintf(`{"id":%q,"type":"open_session","cwd":"w:","retain":true}`, command))
		v := c.AwaitResponse(command)
		require.True(c.T, v.Get("success").Bool(), v.Raw)
		return id
	}
}

// Ask sends a command without parameters to a session and returns the answer.
func (c *Node) Ask(id, command, session string) gjson.Result {
	c.T.Helper()
	c.Line(`{"id":"` + id + `","type":"` + command + `"` + harness.At(session) + `}`)
	return c.AwaitResponse(id)
}

// CheckReadable checks that a session whose node is lost can be read at once and repeatedly, and
// that no node owns it afterwards.
func (c *Node) CheckReadable(session string) {
	c.T.Helper()
	begun := time.Now()
	for i, of := range []struct{ command, has string }{
		{"get_messages", "data.messages.#(role==user).content.0.text"},
		{"get_messages", "data.messages.#(role==user).content.0.text"},
		{"get_entries", "data.entries.#(message.role==user).message.content.0.text"},
		{"get_tree", "data.tree.0"},
		{"get_session_stats", "data.userMessages"},
		{"get_fork_messages", "data.messages.0.text"},
		{"get_last_assistant_text", "data.text"},
	} {
		v := c.Ask(fmt.Sprint("x-r", i), of.command, session)
		require.True(c.T, v.Get("success").Bool(), v.Raw)
		assert.True(c.T, v.Get(of.has).Exists() && v.Get(of.has).Raw != "null", v.Raw)
		assert.Equal(c.T, session, v.Get("sessionId").Str)
	}
	assert.Less(c.T, time.Since(begun), 2*time.Second)
	assert.NotContains(c.T, c.Call(c.T, `{"type":"list_open_sessions"}`).Raw, session)
}

// AskSessionID is [Node.SessionID] by a command with a known id, which is not in the history.
func (c *Node) AskSessionID(handle string) string {
	c.T.Helper()
	c.asks++
	v := c.Ask(fmt.Sprint("x-is", c.asks), "get_state", handle)
	require.True(c.T, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// Repeat sends a line again, and returns the answer to it.
func (c *Node) Repeat(line string) (v gjson.Result) {
	c.T.Helper()
	before := len(c.Lines())
	c.Line(line)
	c.Advance(3 * time.Second)
	for _, l := range c.Lines()[before:] {
		if is := gjson.Parse(l); is.Get("type").Str == "response" && is.Get("id").Str == gjson.Get(line, "id").Str {
			v = is
		}
	}
	return v
}
