package remote

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEventStream: an id is of the process that has the session, which may be another node's; what has no number changes no id. A stream
// in which the client was told to attach again ends, so that a browser comes back, and to a session that has moved without a place.
func TestEventStream(t *testing.T) {
	const moved = `{"type":"session_moved","sessionId":"h","to":"b","why":"released"}`
	s := stream{handle: "h"}
	for _, c := range []struct {
		line, id string
		none     bool
		over     bool
	}{
		{`{"type":"response","id":"hello","success":true,"data":{"epoch":"of-the-gateway"}}`, "", true, false},
		{`{"type":"response","id":"attach","success":true,"data":{"epoch":"e"}}`, "id: e:h:0\n", false, false},
		{`{"type":"response","id":"attach","success":true,"data":{"epoch":"e","seq":7}}`, "id: e:h:7\n", false, false},
		{`{"type":"agent_start","sessionId":"h","seq":8}`, "id: e:h:8\n", false, false},
		{`{"type":"session_waiting","sessionId":"h","since":1}`, "", false, false},
		{moved, "", false, false},
		{`{"type":"resync","sessionId":"h","reason":"lagged","seq":8}`, "id: e:h:8\n", false, true},
		{`{"type":"resync","sessionId":"h","reason":"moved"}`, "id:\n", false, true},
	} {
		text, over := s.event([]byte(c.line))
		want := c.id + "data: " + c.line + "\n\n"
		if c.none {
			want = ""
		}
		assert.Equal(t, want, text)
		assert.Equal(t, c.over, over, c.line)
	}
	_, has := attachTo("h", "e:h:8")["since"]
	assert.True(t, has)
	_, has = attachTo("h", "")["since"]
	assert.False(t, has, "a snapshot")
}
