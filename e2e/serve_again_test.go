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

// TestServeRoots: a client over the network names no files but below the directories that
// the daemon was told, wherever a link leads.
func TestServeRoots(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	root := filepath.Join(p.root, "projects")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "one"), 0o700))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "out")))
	s := p.serve("--listen", "127.0.0.1:0", "--root", root, "--ring", "1048576")
	raw, err := os.ReadFile(filepath.Join(p.agent(), "troupe", "serve.token"))
	require.NoError(t, err)
	client, _ := s.dial(strings.TrimSpace(string(raw)), "troupe.v1")
	client.send(`{"id":"hello","type":"hello","clientId":"a-client-of-ours","features":["heartbeat"]}`)
	hello := client.until("hello").Get("data")
	assert.Equal(t, int64(1048576), hello.Get("limits.ringBytes").Int())
	assert.Equal(t, "a-client-of-ours", hello.Get("clientId").Str)
	assert.Equal(t, int64(15000), hello.Get("heartbeatMs").Int())

	client.send(`{"id":"open","type":"open_session","permissionMode":"auto","cwd":"` + filepath.Join(root, "one") + `"}`)
	open := client.until("open")
	require.True(t, open.Get("success").Bool(), open.Raw)
	handle := `,"sessionId":"` + open.Get("data.sessionId").Str + `"`
	for _, command := range []string{
		`"type":"open_session","cwd":"/etc"`, `"type":"open_session","cwd":"` + filepath.Join(root, "out") + `"`, `"type":"open_session","cwd":"` + p.work + `"`,
		`"type":"open_session","sessionPath":"/etc/passwd"`, `"type":"attach","sessionPath":"/etc/passwd"`, `"type":"list_directories","path":"/"`,
		`"type":"list_directories","path":"` + root + `/out"`, `"type":"list_directories"`, `"type":"delete_session","sessionPath":"/etc/passwd"`,
		`"type":"export_html","outputPath":"/tmp/x.html"` + handle, `"type":"export_html","outputPath":"../x.html"` + handle,
		`"type":"switch_session","sessionPath":"/etc/passwd"` + handle, `"type":"list_sessions","sessionDir":"/etc"` + handle,
	} {
		client.send(`{"id":"no",` + command + `}`)
		v := client.until("no")
		assert.Equal(t, "forbidden", v.Get("code").Str, "%s: %s", command, v.Raw)
	}
	client.send(`{"id":"dirs","type":"list_directories","path":"` + root + `"}`)
	dirs := client.until("dirs")
	assert.Equal(t, `["one"]`, dirs.Get("data.directories").Raw, dirs.Raw)
	assert.Equal(t, "null", dirs.Get("data.parent").Raw)

	file := open.Get("data.state.sessionFile").Str
	p.llm.plays(text("hi"))
	client.send(`{"id":"p","type":"prompt","message":"find me"` + handle + `}`)
	client.until("agent_settled")
	client.send(`{"id":"list","type":"list_sessions","query":"FIND me","limit":5,"withText":false}`)
	assert.Equal(t, file, client.until("list").Get("data.sessions.0.path").Str)
	remove := `{"id":"remove","type":"delete_session","sessionPath":"` + file + `"}`
	client.send(remove)
	assert.Equal(t, "session_in_use", client.until("remove").Get("code").Str)
	client.send(`{"id":"close","type":"close_session"` + handle + `}`)
	client.until("close")
	client.send(remove)
	removed := client.until("remove")
	assert.FileExists(t, removed.Get("data.trashPath").Str, removed.Raw)
	assert.NoFileExists(t, file)
	assert.Equal(t, 143, s.stop())
}
