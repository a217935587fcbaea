package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServeAsksAgain: the daemon is killed while it asks about a command. The one that
// comes after it asks the same client again, under the same id, as soon as the session is
// looked at, and runs the command after the answer.
func TestServeAsksAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo yes > made"}`), text("made it"))
	s := p.serve("--listen", "127.0.0.1:0")
	raw, err := os.ReadFile(filepath.Join(p.agent(), "troupe", "serve.token"))
	require.NoError(t, err)
	token := strings.TrimSpace(string(raw))
	client, _ := s.dial(token, "troupe.v1")
	client.send(`{"id":"hello","type":"hello","features":["approvals","dialogEvents"]}`)
	client.send(`{"id":"open","type":"open_session"}`)
	open := client.until("open")
	handle, file := open.Get("data.sessionId").Str, open.Get("data.state.sessionFile").Str
	client.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	asked := client.until("approval_request")
	require.NoError(t, s.cmd.Process.Kill())
	<-s.ended
	assert.NoFileExists(t, filepath.Join(p.work, "made"))

	s = p.serve("--listen", "127.0.0.1:0")
	client, status := s.dial(token, "troupe.v1")
	require.Contains(t, status, "101")
	client.send(`{"id":"hello","type":"hello","features":["approvals","dialogEvents"]}`)
	client.send(`{"id":"attach","type":"attach","sessionPath":"` + file + `"}`)
	attached := client.until("attach")
	require.True(t, attached.Get("success").Bool(), attached.Raw)
	handle = attached.Get("data.sessionId").Str
	again := client.until("approval_request")
	assert.Equal(t, asked.Get("id").Str, again.Get("id").Str)
	assert.Equal(t, asked.Get("title").Str, again.Get("title").Str)
	client.send(`{"id":"yes","type":"approval_response","approvalId":"` + again.Get("id").Str + `","optionId":"` + again.Get("options.0.id").Str + `","sessionId":"` + handle + `"}`)
	assert.Equal(t, "completed", client.until("agent_settled").Get("outcome").Str)
	assert.FileExists(t, filepath.Join(p.work, "made"))
	client.send(`{"id":"messages","type":"get_messages","sessionId":"` + handle + `"}`)
	messages := client.until("messages").Get("data.messages").Array()
	require.Len(t, messages, 4)
	assert.Equal(t, "made it", messages[3].Get("content.0.text").Str)
	assert.Equal(t, 143, s.stop())
}
