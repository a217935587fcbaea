package harness

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// UserSaid is the start of a user's message in a session file.
const UserSaid = `"role":"user","content":[{"type":"text","text":"`

// Responses returns the answers to the command with an id, oldest first.
func (c *Client) Responses(id string) (list []gjson.Result) {
	for _, l := range c.Lines() {
		if v := gjson.Parse(l); v.Get("type").Str == "response" && v.Get("id").Str == id {
			list = append(list, v)
		}
	}
	return list
}

// Resend sends a line whose command has an id, and returns its answer.
func (c *Client) Resend(line, id string) gjson.Result {
	c.T.Helper()
	before := len(c.Responses(id))
	c.Line(line)
	for i := 0; len(c.Responses(id)) == before; i++ {
		require.Less(c.T, i, 2000, "no answer to %s: %s", line, c.History.Tail(60))
		c.Advance(20 * time.Millisecond)
	}
	return c.Responses(id)[before]
}

// RequireRetryInfo checks that an error says whether its command may have run, and when to send it
// again only if it did not. It reports whether the command may have run.
func (c *Client) RequireRetryInfo(v gjson.Result) (unknown bool) {
	c.T.Helper()
	data := v.Get("data")
	require.True(c.T, data.Get("retryable").Exists(), v.Raw)
	unknown = data.Get("outcome").Str == protocol.OutcomeUnknown
	require.Equal(c.T, unknown, !data.Get("retryable").Bool(), v.Raw)
	require.Equal(c.T, !unknown, data.Get("retryAfterMs").Int() > 0, v.Raw)
	return unknown
}
