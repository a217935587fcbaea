package serve

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
	"troupe/protocol/schema"
	"troupe/protocol/schema/exampletest"
)

// TestServeAsksAgain checks a daemon that ends while an approval is pending: it is killed, its
// drain time expires, or its last client leaves. When the session is opened in the next daemon, the
// client receives the same approval request, with the same id. The command runs after the answer.
func TestServeAsksAgain(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*harness.Server, *harness.WSClient){
		"killed": func(s *harness.Server, _ *harness.WSClient) { require.NoError(s.T, s.Cmd.Process.Kill()) },
		"drained": func(s *harness.Server, client *harness.WSClient) {
			require.NoError(s.T, s.Cmd.Process.Signal(syscall.SIGTERM))
			draining := client.WaitFor("draining")
			exampletest.Check(s.T, schema.Example{Name: "draining", From: "e2e/serve TestServeAsksAgain", Record: json.RawMessage(draining.Raw)})
			require.NoError(s.T, s.Cmd.Process.Signal(syscall.SIGTERM)) // it does not wait for the rest of a minute
		},
		"left": func(s *harness.Server, client *harness.WSClient) {
			client.Conn.Close()
			require.NoError(s.T, s.Cmd.Process.Signal(syscall.SIGTERM))
		},
	} {
		t.Run(how, func(t *testing.T) { t.Parallel(); asksAgain(t, end) })
	}
}

func asksAgain(t *testing.T, end func(*harness.Server, *harness.WSClient)) {
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo yes > made"}`), harness.Text("made it"))
	s := p.Serve("--listen", "127.0.0.1:0", "--drain", "1m")
	token := s.Token()
	client, _ := s.Dial(token, "troupe.v1")
	client.Send(`{"id":"hello","type":"hello","features":["approvals","dialogEvents"]}`)
	client.Send(`{"id":"open","type":"open_session"}`)
	open := client.WaitFor("open")
	handle, file := open.Get("data.sessionId").Str, open.Get("data.state.sessionFile").Str
	client.Send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	asked := client.WaitFor("approval_request")
	end(s, client)
	<-s.Ended
	assert.NoFileExists(t, filepath.Join(p.Work, "made"))

	s = p.Serve("--listen", "127.0.0.1:0")
	client, status := s.Dial(token, "troupe.v1")
	require.Contains(t, status, "101")
	client.Send(`{"id":"hello","type":"hello","features":["approvals","dialogEvents"]}`)
	client.Send(`{"id":"attach","type":"attach","sessionPath":"` + file + `"}`)
	attached := client.WaitFor("attach")
	require.True(t, attached.Get("success").Bool(), attached.Raw)
	handle = attached.Get("data.sessionId").Str
	again := client.WaitFor("approval_request")
	assert.Equal(t, asked.Get("id").Str, again.Get("id").Str)
	assert.Equal(t, asked.Get("title").Str, again.Get("title").Str)
	client.Send(`{"id":"yes","type":"approval_response","approvalId":"` + again.Get("id").Str + `","optionId":"` + again.Get("options.0.id").Str + `","sessionId":"` + handle + `"}`)
	assert.Equal(t, "completed", client.WaitFor("agent_settled").Get("outcome").Str)
	assert.FileExists(t, filepath.Join(p.Work, "made"))
	client.Send(`{"id":"messages","type":"get_messages","sessionId":"` + handle + `"}`)
	messages := client.WaitFor("messages").Get("data.messages").Array()
	require.Len(t, messages, 4)
	assert.Equal(t, "made it", messages[3].Get("content.0.text").Str)
	assert.Equal(t, 143, s.Stop())
}

// TestServeRoots checks that a client over the network can only name files below the directories of
// --root, even through symbolic links.
func TestServeRoots(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	root := filepath.Join(p.Root, "projects")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "one"), 0o700))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "out")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root, "one", "away")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(p.Work, "lnk")))
	s := p.Serve("--listen", "127.0.0.1:0", "--root", root, "--ring", "1048576")
	raw, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	require.NoError(t, err)
	client, _ := s.Dial(strings.TrimSpace(string(raw)), "troupe.v1")
	client.Send(`{"id":"hello","type":"hello","clientId":"a-client-of-ours","features":["heartbeat"]}`)
	hello := client.WaitFor("hello").Get("data")
	assert.Equal(t, int64(1048576), hello.Get("limits.ringBytes").Int())
	assert.Equal(t, "a-client-of-ours", hello.Get("clientId").Str)
	assert.Equal(t, int64(15000), hello.Get("heartbeatMs").Int())

	client.Send(`{"id":"open","type":"open_session","permissionMode":"auto","cwd":"` + filepath.Join(root, "one") + `"}`)
	open := client.WaitFor("open")
	require.True(t, open.Get("success").Bool(), open.Raw)
	handle := `,"sessionId":"` + open.Get("data.sessionId").Str + `"`
	inOne := `"type":"open_session","cwd":"` + filepath.Join(root, "one") + `",`
	// A session that works where its header says, so that another one may say something else.
	own := filepath.Join(root, "own.jsonl")
	require.NoError(t, os.WriteFile(own, []byte(`{"type":"session","version":3,"id":"019a0000-1111-7000-8000-000000000000","timestamp":"2026-01-01T00:00:00.000Z","cwd":"`+root+`/one"}`+"\n"), 0o600))
	client.Send(`{"id":"inside","type":"open_session","permissionMode":"auto","sessionPath":"` + own + `"}`)
	opened := client.WaitFor("inside")
	require.True(t, opened.Get("success").Bool(), opened.Raw)
	inside := `,"sessionId":"` + opened.Get("data.sessionId").Str + `"`
	// Files of sessions whose headers name directories elsewhere, and none.
	file, headers := open.Get("data.state.sessionFile").Str, []string{}
	for i, cwd := range []string{`,"cwd":"/"`, `,"cwd":"` + root + `/out"`, `,"cwd":"` + root + `/one/away/../../.."`, `,"cwd":"` + p.Work + `"`, ``} {
		name := filepath.Join(filepath.Dir(file), fmt.Sprintf("header%d.jsonl", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(fmt.Sprintf(`{"type":"session","version":3,"id":"019a%04d-0000-7000-8000-000000000000","timestamp":"2026-01-01T00:00:00.000Z"%s}`+"\n", i, cwd)), 0o600))
		headers = append(headers, `"type":"open_session","sessionPath":"`+name+`"`, `"type":"attach","sessionPath":"`+name+`"`)
		if cwd != "" { // else it works where the session does
			headers = append(headers, `"type":"switch_session","sessionPath":"`+name+`"`+inside)
		}
	}
	// A header that names a directory inside, and an entry by which the session has moved outside.
	adopted := filepath.Join(filepath.Dir(file), "adopted.jsonl")
	require.NoError(t, os.WriteFile(adopted, []byte(`{"type":"session","version":3,"id":"019a0000-2222-7000-8000-000000000000","timestamp":"2026-01-01T00:00:00.000Z","cwd":"`+root+`/one"}`+"\n"+
		`{"type":"custom","customType":"troupe.adopted","data":{"from":"other","cwd":"/etc"},"id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z"}`+"\n"), 0o600))
	headers = append(headers, `"type":"open_session","sessionPath":"`+adopted+`"`, `"type":"attach","sessionPath":"`+adopted+`"`, `"type":"switch_session","sessionPath":"`+adopted+`"`+inside)
	for i, command := range append(headers,
		`"type":"open_session","cwd":"/etc"`, `"type":"open_session","cwd":"`+filepath.Join(root, "out")+`"`, `"type":"open_session","cwd":"`+p.Work+`"`,
		`"type":"open_session","sessionPath":"/etc/passwd"`, `"type":"attach","sessionPath":"/etc/passwd"`, `"type":"list_directories","path":"/"`,
		`"type":"list_directories","path":"`+root+`/out"`, `"type":"list_directories"`, `"type":"delete_session","sessionPath":"/etc/passwd"`,
		`"type":"export_html","outputPath":"/tmp/x.html"`+handle, `"type":"export_html","outputPath":"../x.html"`+handle,
		`"type":"open_session"`, `"type":"export_html","outputPath":"away/x.html"`+handle, `"type":"switch_session","sessionPath":"away/passwd"`+handle, `"type":"new_session","parentSession":"away/passwd"`+handle,
		`"type":"switch_session","sessionPath":"/etc/passwd"`+handle, `"type":"list_sessions","sessionDir":"/etc"`+handle,
		`"type":"list_sessions","sessionDir":"away"`+handle, `"type":"list_sessions","under":"away/x.jsonl"`+handle,
		`"type":"open_session","cwd":"lnk"`, `"type":"open_session","sessionPath":"lnk/passwd"`, `"type":"attach","sessionPath":"lnk/passwd"`,
		`"type":"list_sessions","sessionDir":"lnk"`, `"type":"delete_session","sessionPath":"lnk/hostname"`,
		inOne+`"settings":{"skills":["../../x"]}`, inOne+`"settings":{"sessionDir":"away"}`, inOne+`"settings":{"shellPath":"/bin/sh"}`,
		inOne+`"settings":{"task":{"isolation":{"base":"/tmp"}}}`, inOne+`"systemPrompt":"/etc/passwd"`, inOne+`"appendSystemPrompt":"away/passwd"`,
	) {
		id := fmt.Sprint("no", i)
		client.Send(`{"id":"` + id + `",` + command + `}`)
		v := client.WaitFor(id)
		assert.Equal(t, "forbidden", v.Get("code").Str, "%s: %s", command, v.Raw)
	}
	client.Send(`{"id":"dirs","type":"list_directories","path":"` + root + `"}`)
	dirs := client.WaitFor("dirs")
	assert.Equal(t, `["one"]`, dirs.Get("data.directories").Raw, dirs.Raw)
	assert.Equal(t, "null", dirs.Get("data.parent").Raw)

	p.Model.Enqueue(harness.Text("hi"))
	client.Send(`{"id":"p","type":"prompt","message":"find me"` + handle + `}`)
	client.WaitFor("agent_settled")
	client.Send(`{"id":"list","type":"list_sessions","query":"FIND me","limit":5,"withText":false}`)
	assert.Equal(t, file, client.WaitFor("list").Get("data.sessions.0.path").Str)
	remove := `{"id":"remove","type":"delete_session","sessionPath":"` + file + `"}`
	client.Send(remove)
	assert.Equal(t, "session_in_use", client.WaitFor("remove").Get("code").Str)
	client.Send(`{"id":"close","type":"close_session"` + handle + `}`)
	client.WaitFor("close")
	client.Send(remove)
	removed := client.WaitFor("remove")
	assert.FileExists(t, removed.Get("data.trashPath").Str, removed.Raw)
	assert.NoFileExists(t, file)
	assert.Equal(t, 143, s.Stop())
}

// TestServeImages checks the feature imageRefs: images of entries are replaced by addresses. The
// daemon serves them only with a credential.
func TestServeImages(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("seen"))
	s := p.Serve("--listen", "127.0.0.1:0", "--pair", "view")
	token := s.Token()
	client, _ := s.Dial(token, "troupe.v1")
	client.Send(`{"id":"hello","type":"hello","features":["imageRefs","seq","stateEvents"]}`)
	client.Send(`{"id":"open","type":"open_session"}`)
	handle := client.WaitFor("open").Get("data.sessionId").Str
	const png = harness.Pixel
	client.Send(`{"id":"p","type":"prompt","message":"look","sessionId":"` + handle + `","images":[{"type":"image","data":"` + png + `","mimeType":"image/png"},{"type":"image","data":"` + png + `","mimeType":"image/png"}]}`)
	assert.Equal(t, png, client.WaitFor("message_end").Get("message.content.1.data").Str, "what is said now is whole")
	client.WaitFor("agent_settled")
	client.Send(`{"id":"all","type":"get_entries","sessionId":"` + handle + `"}`)
	list := client.WaitFor("all")
	refs := list.Get(`data.entries.#(message.role=="user").message.content.#(type=="image")#`).Array()
	require.Len(t, refs, 2, list.Raw)
	assert.False(t, refs[1].Get("data").Exists())
	assert.EqualValues(t, 70, refs[1].Get("bytes").Int())
	client.Send(`{"id":"snap","type":"attach","sessionId":"` + handle + `","snapshot":{}}`)
	attached := client.WaitFor("snap")
	client.Send(`{"id":"again","type":"attach","sessionId":"` + handle + `"}`)
	snapSeq := client.WaitFor("again").Get("data.seq").Int()
	snap := attached.Get(`data.snapshot.entries.#(message.role=="user").message.content`)
	assert.Equal(t, refs[1].Get("ref").Str, snap.Get("2.ref").Str)

	path := "/v1/image/" + refs[1].Get("ref").Str
	status, answer := s.Do("GET", path, "", harness.Bearer(token)...)
	assert.Equal(t, 200, status)
	want, err := base64.StdEncoding.DecodeString(png)
	require.NoError(t, err)
	assert.Equal(t, string(want), answer)
	viewer, _ := s.Login(s.Code)
	status, _ = s.Do("GET", path, "", harness.Bearer(viewer)...)
	assert.Equal(t, 200, status)
	status, _ = s.Do("GET", path, "")
	assert.Equal(t, 401, status)
	entry, _ := filepath.Split(path)
	for _, none := range []string{entry + "2", entry + "-1", entry + "x", entry, "/v1/image/s99/" + "a/0", "/v1/image/" + handle + "/nothere/0", "/v1/image/../../etc/passwd", path + "/0"} {
		status, _ = s.Do("GET", none, "", harness.Bearer(token)...)
		assert.Equal(t, 404, status, none)
	}
	client.Send(`{"id":"end","type":"attach","sessionId":"` + handle + `"}`)
	assert.Equal(t, snapSeq, client.WaitFor("end").Get("data.seq").Int(), "who fetches a picture is no client of the session")
	assert.Equal(t, 143, s.Stop())
}

// TestServeReplaced checks that a client that reconnects replaces its old connection, which may be
// dead. Connections of other clients and HTTP requests with its client id do not replace it.
func TestServeReplaced(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one").Then(harness.Gate("half")).Then(harness.Text(" two")))
	s := p.Serve("--listen", "127.0.0.1:0")
	token := s.Token()
	const hello = `{"id":"hello","type":"hello","clientId":"the-same-one","features":["seq"]}`
	first, _ := s.Dial(token, "troupe.v1")
	first.Send(hello)
	first.WaitFor("hello")
	first.Send(`{"id":"open","type":"open_session","permissionMode":"auto"}`)
	handle := first.WaitFor("open").Get("data.sessionId").Str
	first.Send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	first.WaitFor("message_update")

	other, _ := s.Dial(token, "troupe.v1")
	other.Send(strings.Replace(hello, "the-same-one", "the-other-one", 1))
	other.WaitFor("hello")
	status, answer := s.Do("POST", "/v1/rpc", hello, harness.Bearer(token)...)
	assert.Equal(t, 200, status, answer)
	first.Send(`{"id":"still","type":"ping"}`)
	first.WaitFor("still")

	second, _ := s.Dial(token, "troupe.v1")
	second.Send(hello)
	second.WaitFor("hello")
	for {
		opcode, payload := first.ReadMessage()
		if opcode == 8 {
			assert.Equal(t, []byte{4003 >> 8, 4003 & 0xff}, payload[:2])
			assert.Contains(t, string(payload[2:]), "has taken its place")
			break
		}
	}
	second.Send(`{"id":"attach","type":"attach","sessionId":"` + handle + `","snapshot":{}}`)
	require.True(t, second.WaitFor("attach").Get("success").Bool())
	p.Model.OpenGate("half")
	second.WaitFor("agent_settled")
	other.Send(`{"id":"still","type":"ping"}`)
	other.WaitFor("still")
	assert.Equal(t, 143, s.Stop())
}
