package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestServeAsksAgain: the daemon ends while it asks about a command: it is killed, its time to
// drain is over, or nobody is there whom it could wait for. The one that comes after it asks the same
// client again, under the same id, as soon as the session is looked at, and runs the command after the answer.
func TestServeAsksAgain(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*served, *wsClient){
		"killed": func(s *served, _ *wsClient) { require.NoError(s.t, s.cmd.Process.Kill()) },
		"drained": func(s *served, client *wsClient) {
			require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
			client.until("draining")
			require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM)) // it does not wait for the rest of a minute
		},
		"left": func(s *served, client *wsClient) {
			client.conn.Close()
			require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
		},
	} {
		t.Run(how, func(t *testing.T) { t.Parallel(); asksAgain(t, end) })
	}
}

func asksAgain(t *testing.T, end func(*served, *wsClient)) {
	p := newPlace(t)
	p.llm.plays(tool("c1", "bash", `{"command":"echo yes > made"}`), text("made it"))
	s := p.serve("--listen", "127.0.0.1:0", "--drain", "1m")
	token := s.token()
	client, _ := s.dial(token, "troupe.v1")
	client.send(`{"id":"hello","type":"hello","features":["approvals","dialogEvents"]}`)
	client.send(`{"id":"open","type":"open_session"}`)
	open := client.until("open")
	handle, file := open.Get("data.sessionId").Str, open.Get("data.state.sessionFile").Str
	client.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	asked := client.until("approval_request")
	end(s, client)
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
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "one", "away")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(p.work, "lnk")))
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
	for i, command := range []string{
		`"type":"open_session","cwd":"/etc"`, `"type":"open_session","cwd":"` + filepath.Join(root, "out") + `"`, `"type":"open_session","cwd":"` + p.work + `"`,
		`"type":"open_session","sessionPath":"/etc/passwd"`, `"type":"attach","sessionPath":"/etc/passwd"`, `"type":"list_directories","path":"/"`,
		`"type":"list_directories","path":"` + root + `/out"`, `"type":"list_directories"`, `"type":"delete_session","sessionPath":"/etc/passwd"`,
		`"type":"export_html","outputPath":"/tmp/x.html"` + handle, `"type":"export_html","outputPath":"../x.html"` + handle,
		`"type":"open_session"`, `"type":"export_html","outputPath":"away/x.html"` + handle, `"type":"switch_session","sessionPath":"away/passwd"` + handle, `"type":"new_session","parentSession":"away/passwd"` + handle,
		`"type":"switch_session","sessionPath":"/etc/passwd"` + handle, `"type":"list_sessions","sessionDir":"/etc"` + handle,
		`"type":"list_sessions","sessionDir":"away"` + handle, `"type":"list_sessions","under":"away/x.jsonl"` + handle,
		`"type":"open_session","cwd":"lnk"`, `"type":"open_session","sessionPath":"lnk/passwd"`, `"type":"attach","sessionPath":"lnk/passwd"`,
		`"type":"list_sessions","sessionDir":"lnk"`, `"type":"delete_session","sessionPath":"lnk/hostname"`,
	} {
		id := fmt.Sprint("no", i)
		client.send(`{"id":"` + id + `",` + command + `}`)
		v := client.until(id)
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

// TestServeImages: pictures of entries come by their address where a client wants that, once
// for each client and without a credential never; what is no picture is not shown.
func TestServeImages(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("seen"))
	s := p.serve("--listen", "127.0.0.1:0", "--pair", "view")
	token := s.token()
	client, _ := s.dial(token, "troupe.v1")
	client.send(`{"id":"hello","type":"hello","features":["imageRefs","seq","stateEvents"]}`)
	client.send(`{"id":"open","type":"open_session"}`)
	handle := client.until("open").Get("data.sessionId").Str
	const png = dot
	client.send(`{"id":"p","type":"prompt","message":"look","sessionId":"` + handle + `","images":[{"type":"image","data":"` + png + `","mimeType":"image/png"},{"type":"image","data":"` + png + `","mimeType":"image/png"}]}`)
	assert.Equal(t, png, client.until("message_end").Get("message.content.1.data").Str, "what is said now is whole")
	client.until("agent_settled")
	client.send(`{"id":"all","type":"get_entries","sessionId":"` + handle + `"}`)
	list := client.until("all")
	refs := list.Get(`data.entries.#(message.role=="user").message.content.#(type=="image")#`).Array()
	require.Len(t, refs, 2, list.Raw)
	assert.False(t, refs[1].Get("data").Exists())
	assert.EqualValues(t, 70, refs[1].Get("bytes").Int())
	client.send(`{"id":"snap","type":"attach","sessionId":"` + handle + `","snapshot":{}}`)
	attached := client.until("snap")
	client.send(`{"id":"again","type":"attach","sessionId":"` + handle + `"}`)
	snapSeq := client.until("again").Get("data.seq").Int()
	snap := attached.Get(`data.snapshot.entries.#(message.role=="user").message.content`)
	assert.Equal(t, refs[1].Get("ref").Str, snap.Get("2.ref").Str)

	path := "/v1/image/" + refs[1].Get("ref").Str
	status, answer := s.ask("GET", path, "", bearer(token)...)
	assert.Equal(t, 200, status)
	want, err := base64.StdEncoding.DecodeString(png)
	require.NoError(t, err)
	assert.Equal(t, string(want), answer)
	viewer, _ := s.login(s.code)
	status, _ = s.ask("GET", path, "", bearer(viewer)...)
	assert.Equal(t, 200, status)
	status, _ = s.ask("GET", path, "")
	assert.Equal(t, 401, status)
	entry, _ := filepath.Split(path)
	for _, none := range []string{entry + "2", entry + "-1", entry + "x", entry, "/v1/image/s99/" + "a/0", "/v1/image/" + handle + "/nothere/0", "/v1/image/../../etc/passwd", path + "/0"} {
		status, _ = s.ask("GET", none, "", bearer(token)...)
		assert.Equal(t, 404, status, none)
	}
	client.send(`{"id":"end","type":"attach","sessionId":"` + handle + `"}`)
	assert.Equal(t, snapSeq, client.until("end").Get("data.seq").Int(), "who fetches a picture is no client of the session")
	assert.Equal(t, 143, s.stop())
}

// TestServeReplaced: a client that connects again takes the place of its connection that may
// be dead; others, and requests by its name, do not.
func TestServeReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("one").and(gate("half")).and(text(" two")))
	s := p.serve("--listen", "127.0.0.1:0")
	token := s.token()
	const hello = `{"id":"hello","type":"hello","clientId":"the-same-one","features":["seq"]}`
	first, _ := s.dial(token, "troupe.v1")
	first.send(hello)
	first.until("hello")
	first.send(`{"id":"open","type":"open_session","permissionMode":"auto"}`)
	handle := first.until("open").Get("data.sessionId").Str
	first.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	first.until("message_update")

	other, _ := s.dial(token, "troupe.v1")
	other.send(strings.Replace(hello, "the-same-one", "the-other-one", 1))
	other.until("hello")
	status, answer := s.ask("POST", "/v1/rpc", hello, bearer(token)...)
	assert.Equal(t, 200, status, answer)
	first.send(`{"id":"still","type":"ping"}`)
	first.until("still")

	second, _ := s.dial(token, "troupe.v1")
	second.send(hello)
	second.until("hello")
	for {
		opcode, payload := first.message()
		if opcode == 8 {
			assert.Equal(t, []byte{4003 >> 8, 4003 & 0xff}, payload[:2])
			assert.Contains(t, string(payload[2:]), "has taken its place")
			break
		}
	}
	second.send(`{"id":"attach","type":"attach","sessionId":"` + handle + `","snapshot":{}}`)
	require.True(t, second.until("attach").Get("success").Bool())
	p.llm.open("half")
	second.until("agent_settled")
	other.send(`{"id":"still","type":"ping"}`)
	other.until("still")
	assert.Equal(t, 143, s.stop())
}
