package extension

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
	"troupe/tools"
	"troupe/tools/extension/quick"
)

// ops calls operations as JavaScript does.
type ops struct {
	t *testing.T
	c *opCall
}

func newOps(t *testing.T) *ops {
	procs := tools.NewProcs(nil)
	files, conns := &table[*os.File]{}, &table[net.Conn]{}
	t.Cleanup(func() { procs.KillAll(time.Second); files.closeAll() })
	host := NewInline(testOptions())
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	return &ops{t, &opCall{ctx: t.Context(), host: host, procs: procs, files: files, conns: conns, cwd: t.TempDir()}}
}

func (o *ops) try(name string, a ...any) (any, error) {
	c := *o.c
	c.args = a
	f := operations()[name]
	require.NotNil(o.t, f, name)
	return f(&c)
}

func (o *ops) do(name string, a ...any) any {
	o.t.Helper()
	r, err := o.try(name, a...)
	require.NoError(o.t, err, name)
	return r
}

// code is the code of an operation's failure.
func (o *ops) code(name string, a ...any) string {
	o.t.Helper()
	_, err := o.try(name, a...)
	var f *failure
	require.ErrorAs(o.t, err, &f, name)
	return f.Code
}

func TestFileOperations(t *testing.T) {
	o := newOps(t)
	o.do("fs.writeFile", "a.txt", "héllo", quick.JSON(`{"mode":384}`))
	require.Equal(t, []byte("héllo"), o.do("fs.readFile", "a.txt"), "relative to the session's folder")
	o.do("fs.writeFile", "a.txt", []byte("!"), quick.JSON(`{"flag":"a"}`))
	require.Equal(t, []byte("héllo!"), o.do("fs.readFile", filepath.Join(o.c.cwd, "a.txt")))
	st := o.do("fs.stat", "a.txt").(map[string]any)
	require.EqualValues(t, 0o100600, st["mode"])
	require.EqualValues(t, 7, st["size"])

	require.Equal(t, filepath.Join(o.c.cwd, "d"), o.do("fs.mkdir", "d/e/f", quick.JSON(`{"recursive":true}`)))
	require.Nil(t, o.do("fs.mkdir", "d/e", quick.JSON(`{"recursive":true}`)))
	o.do("fs.symlink", "../a.txt", "d/link")
	require.Equal(t, "../a.txt", o.do("fs.readlink", "d/link"))
	real, err := filepath.EvalSymlinks(o.c.cwd)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(real, "a.txt"), o.do("fs.realpath", "d/link"))
	require.Equal(t, []map[string]string{{"name": "e", "type": "dir"}, {"name": "link", "type": "link"}}, o.do("fs.readdir", "d"))
	o.do("fs.copyFile", "a.txt", "b.txt", 0.0)
	o.do("fs.rename", "b.txt", "d/b.txt")
	o.do("fs.cp", "d", "copy", quick.JSON(`{"recursive":true}`))
	require.Equal(t, []string{"copy/b.txt", "d/b.txt"}, o.do("fs.glob", "*/b.txt"))
	o.do("fs.utimes", "a.txt", 1000.0, 2500.5)
	require.Equal(t, 2500.5, o.do("fs.stat", "a.txt").(map[string]any)["mtimeMs"])
	o.do("fs.chmod", "a.txt", float64(0o644))
	o.do("fs.truncate", "a.txt", 1.0)
	require.Equal(t, []byte("h"), o.do("fs.readFile", "a.txt"))
	o.do("fs.access", "a.txt", 4.0)
	tmp := o.do("fs.mkdtemp", "tmp-").(string)
	require.True(t, strings.HasPrefix(tmp, filepath.Join(o.c.cwd, "tmp-")))
	o.do("fs.rm", "copy", quick.JSON(`{"recursive":true}`))
	o.do("fs.rm", "copy", quick.JSON(`{"force":true}`))
	o.do("fs.unlink", "d/link")
	o.do("fs.rmdir", tmp)

	fd := o.do("fs.open", "new", "wx+", float64(0o600))
	require.Equal(t, 5.0, o.do("fs.write", fd, "12345", nil))
	require.Equal(t, []byte("234"), o.do("fs.read", fd, 3.0, 1.0))
	o.do("fs.ftruncate", fd, 2.0)
	o.do("fs.fsync", fd)
	require.EqualValues(t, 2, o.do("fs.fstat", fd).(map[string]any)["size"])
	o.do("fs.close", fd)

	for want, call := range map[string][]any{
		"ENOENT": {"fs.readFile", "no"}, "EISDIR": {"fs.readFile", "d"}, "EEXIST": {"fs.mkdir", "d"}, "ENOTDIR": {"fs.readdir", "a.txt"},
		"EBADF": {"fs.close", fd}, "ENOTEMPTY": {"fs.rmdir", "d"}, "ERR_FS_EISDIR": {"fs.rm", "d"}, "ERR_INVALID_ARG_VALUE": {"fs.open", "x", "nonsense"},
	} {
		require.Equal(t, want, o.code(call[0].(string), call[1:]...))
	}
	require.Equal(t, "EEXIST", o.code("fs.open", "new", "wx"))
	_, err = o.try("fs.rename", "no", "other")
	require.Contains(t, failureOf(err).Error(), `"message":"ENOENT: no such file or directory, rename 'no' -\u003e 'other'"`)
}

func TestProcessOperations(t *testing.T) {
	o := newOps(t)
	r := o.do("proc.run", "sh", quick.JSON(`["-c","cat; echo $X >&2; exit 4"]`), quick.JSON(`{"env":{"X":"env","PATH":"/usr/bin:/bin"},"input":"in"}`)).(quick.Mixed)
	require.Equal(t, map[string][]byte{"stdout": []byte("in"), "stderr": []byte("env\n")}, r.Bytes)
	require.EqualValues(t, 4, r.Value.(map[string]any)["code"])
	r = o.do("proc.run", "echo a | tr a b", quick.JSON(`[]`), quick.JSON(`{"shell":true}`)).(quick.Mixed)
	require.Equal(t, "b\n", string(r.Bytes["stdout"]))
	r = o.do("proc.run", "no-such-program", quick.JSON(`[]`), nil).(quick.Mixed)
	require.Equal(t, "ENOENT", r.Value.(map[string]any)["error"].(*failure).Code)
	r = o.do("proc.run", "sleep", quick.JSON(`["1000"]`), quick.JSON(`{"timeout":20,"killSignal":"SIGKILL"}`)).(quick.Mixed)
	require.Equal(t, "SIGKILL", r.Value.(map[string]any)["signal"])
	require.Nil(t, r.Value.(map[string]any)["code"])
	r = o.do("proc.run", "sh", quick.JSON(`["-c","yes"]`), quick.JSON(`{"maxBuffer":100}`)).(quick.Mixed)
	require.Len(t, r.Bytes["stdout"], 100)
	require.Equal(t, true, r.Value.(map[string]any)["truncated"])
	r = o.do("proc.run", "sh", quick.JSON(`["-c","sleep 1000 & echo up"]`), nil).(quick.Mixed)
	require.Equal(t, "up\n", string(r.Bytes["stdout"]), "what runs on in the background holds nobody")
	require.Equal(t, "EPERM", o.code("proc.kill", float64(os.Getpid()), "SIGTERM"))
	require.Equal(t, "ESRCH", o.code("proc.kill", float64(1<<30), 0.0))
}

func TestCryptoAndCompression(t *testing.T) {
	o := newOps(t)
	sum := func(x any) string { return hex.EncodeToString(x.([]byte)) }
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sum(o.do("crypto.hash", "sha256", "abc")))
	require.Equal(t, "900150983cd24fb0d6963f7d28e17f72", sum(o.do("crypto.hash", "MD5", "abc")))
	require.Equal(t, "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
		sum(o.do("crypto.hmac", "sha256", "key", "The quick brown fox jumps over the lazy dog")))
	require.Equal(t, "120fb6cffcf8b32c43e7225256c4f837a86548c9", sum(o.do("crypto.pbkdf2", "password", "salt", 1.0, 20.0, "sha256")))
	require.Equal(t, "ERR_CRYPTO_INVALID_DIGEST", o.code("crypto.hash", "nope", ""))
	require.Len(t, o.do("crypto.randomBytes", 7.0), 7)
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, o.do("crypto.randomUUID"))
	require.Equal(t, true, o.do("crypto.equal", []byte("a"), []byte("a")))
	require.Equal(t, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", o.code("crypto.equal", []byte("a"), []byte("ab")))
	key, iv := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("i", 16))
	for _, mode := range []string{"aes-256-gcm", "aes-256-cbc", "aes-256-ctr"} {
		sealed := o.do("crypto.cipher", mode, true, key, iv, []byte("secret"), []byte("aad"), nil).(quick.Mixed).Bytes
		open := o.do("crypto.cipher", mode, false, key, iv, sealed["data"], []byte("aad"), sealed["tag"]).(quick.Mixed).Bytes
		require.Equal(t, "secret", string(open["data"]), mode)
		require.NotEqual(t, "secret", string(sealed["data"]))
	}
	_, err := o.try("crypto.cipher", "aes-256-gcm", false, key, iv, []byte("x"), nil, []byte(strings.Repeat("t", 16)))
	require.Error(t, err, "a tag that is not the message's")
	for pack, open := range map[string]string{"gzip": "gunzip", "deflate": "inflate", "deflateRaw": "inflateRaw"} {
		packed := o.do("zlib.run", pack, strings.Repeat("a", 1000), nil)
		require.Less(t, len(packed.([]byte)), 100)
		require.Equal(t, []byte(strings.Repeat("a", 1000)), o.do("zlib.run", open, packed, nil))
	}
	require.Equal(t, "Z_BUF_ERROR", o.code("zlib.run", "gunzip", []byte{0x1f}, nil))
}

func TestTextOperations(t *testing.T) {
	o := newOps(t)
	require.Equal(t, "a\uFFFDb", o.do("text.decode", []byte("a\xe2\x82b"), "utf-8", false), "one mark for what could have begun a character")
	require.Equal(t, "\uFFFD\uFFFD", o.do("text.decode", []byte("\xff\xc0"), "utf-8", false))
	require.Equal(t, "ERR_ENCODING_INVALID_ENCODED_DATA", o.code("text.decode", []byte("\xff"), "utf-8", true))
	require.Equal(t, "€é", o.do("text.decode", []byte{0x80, 0xe9}, "windows-1252", false))
	require.Equal(t, "hé", o.do("text.decode", []byte{'h', 0, 0xe9, 0}, "utf-16le", false))
	require.Equal(t, "h\uFFFD", o.do("text.decode", []byte{'h', 0, 0xe9}, "utf-16le", false))
	tr := o.do("text.truncateTail", "1\n2\n3", quick.JSON(`{"maxLines":2}`)).(tools.Truncation)
	require.Equal(t, "2\n3", tr.Content)
	require.True(t, tr.Truncated)
	require.Equal(t, 2, tr.MaxLines)
	require.Contains(t, o.do("text.patch", "f", "a\n", "b\n"), "-a\n+b\n")
	require.Contains(t, string(o.do("text.diff", "a\n", "b\n").(quick.JSON)), `"firstChangedLine":1`)

	check := func(schema, value string) string {
		text, err := json.Marshal(o.do("schema.check", quick.JSON(schema), quick.JSON(value)))
		require.NoError(t, err)
		return string(text)
	}
	require.JSONEq(t, `{"ok":true,"value":{"n":7},"errors":[]}`, check(`{"type":"object","properties":{"n":{"type":"number"}}}`, `{"n":"7"}`))
	require.Contains(t, check(`{"type":"object","required":["n"]}`, `{}`), `"ok":false`)
}

func TestToolOperations(t *testing.T) {
	o := newOps(t)
	require.NoError(t, os.WriteFile(filepath.Join(o.c.cwd, "f"), []byte("text"), 0o600))
	require.Equal(t, "read", o.do("tool.info", "read").(map[string]any)["name"])
	require.Contains(t, string(o.do("tool.run", "read", quick.JSON(`{"path":"f"}`), nil).(json.RawMessage)), `"text":"text"`)
	_, err := o.try("tool.run", "nothere", quick.JSON(`{}`), nil)
	require.EqualError(t, err, "Tool nothere not found")
	_, err = o.try("tool.run", "read", quick.JSON(`{"path":"gone"}`), nil)
	require.Error(t, err)
}

// said is an event of a stream.
type event struct {
	name   string
	values []any
}

// open begins a stream whose events go into a channel.
func (o *ops) open(ctx context.Context, name string, a ...any) (stream, <-chan event) {
	o.t.Helper()
	c := *o.c
	c.ctx, c.args = ctx, a
	events := make(chan event)
	s, run, err := streamings()[name](&c, func(e string, values ...any) bool {
		select {
		case events <- event{e, values}:
			return true
		case <-ctx.Done():
			return false
		}
	})
	require.NoError(o.t, err)
	go func() {
		defer close(events)
		run()
	}()
	return s, events
}

func TestSpawnStream(t *testing.T) {
	o := newOps(t)
	s, events := o.open(t.Context(), "proc.spawn", "sh", quick.JSON(`["-c","cat; echo err >&2; exit 2"]`), quick.JSON(`{}`))
	require.Equal(t, "spawn", (<-events).name)
	s.send("stdin", args{"typed"})
	s.send("stdinEnd", nil)
	got := map[string]string{}
	var order []string
	for e := range events {
		if b, ok := e.values[0].([]byte); ok {
			got[e.name] += string(b)
			continue
		}
		order = append(order, e.name)
		require.EqualValues(t, 2, e.values[0].(map[string]any)["code"])
	}
	require.Equal(t, map[string]string{"stdout": "typed", "stderr": "err\n"}, got)
	require.Equal(t, []string{"exit", "close"}, order)

	s, events = o.open(t.Context(), "proc.spawn", "sleep", quick.JSON(`["1000"]`), quick.JSON(`{}`))
	<-events
	s.send("kill", args{"SIGKILL"})
	require.Equal(t, "SIGKILL", (<-events).values[0].(map[string]any)["signal"])
	for range events {
	}
	_, events = o.open(t.Context(), "proc.spawn", "no-such-program", quick.JSON(`[]`), quick.JSON(`{}`))
	e := <-events
	require.Equal(t, "error", e.name)
	require.Equal(t, "ENOENT", e.values[0].(*failure).Code)
	for range events {
	}

	ctx, cancel := context.WithCancel(t.Context()) // the realm goes: the process does, too
	_, events = o.open(ctx, "proc.spawn", "sleep", quick.JSON(`["1000"]`), quick.JSON(`{}`))
	<-events
	cancel()
	for range events {
	}
}

func TestFetchStream(t *testing.T) {
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Seen", r.Header.Get("X-Mine"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte(r.Method+" "), body...))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/echo", http.StatusFound) })
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("begin"))
		w.(http.Flusher).Flush()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hang)
	defer httpClient().CloseIdleConnections()
	o := newOps(t)

	fetch := func(request string, body any) (head map[string]any, text string) {
		s, events := o.open(t.Context(), "fetch", quick.JSON(request), body)
		e := <-events
		require.Equal(t, "response", e.name, "%v", e.values)
		head = e.values[0].(map[string]any)
		s.send("pull", nil)
		for e := range events {
			if e.name == "data" {
				text += string(e.values[0].([]byte))
				s.send("pull", nil)
			}
		}
		return head, text
	}
	head, text := fetch(`{"url":"`+server.URL+`/echo","method":"POST","headers":[["x-mine","1"]]}`, []byte("body"))
	require.Equal(t, "POST body", text)
	require.EqualValues(t, 418, head["status"])
	require.Equal(t, "I'm a teapot", head["statusText"])
	require.Contains(t, head["headers"], [2]string{"x-seen", "1"})
	head, text = fetch(`{"url":"`+server.URL+`/moved","method":"GET"}`, nil)
	require.Equal(t, "GET ", text)
	require.Equal(t, true, head["redirected"])
	require.Equal(t, server.URL+"/echo", head["url"])
	head, _ = fetch(`{"url":"`+server.URL+`/moved","redirect":"manual"}`, nil)
	require.EqualValues(t, 302, head["status"])

	s, events := o.open(t.Context(), "fetch", quick.JSON(`{"url":"`+server.URL+`/echo","method":"PUT","streams":true}`))
	s.send("body", args{[]byte("in ")})
	s.send("body", args{"pieces"})
	s.send("bodyEnd", nil)
	require.Equal(t, "response", (<-events).name)
	s.send("pull", nil)
	require.Equal(t, "PUT in pieces", string((<-events).values[0].([]byte)))
	s.send("pull", nil)
	for range events {
	}

	ctx, cancel := context.WithCancel(t.Context())
	s, events = o.open(ctx, "fetch", quick.JSON(`{"url":"`+server.URL+`/hang"}`))
	<-events
	s.send("pull", nil)
	require.Equal(t, "begin", string((<-events).values[0].([]byte)))
	s.send("pull", nil)
	cancel()
	for range events {
	}
	dead := httptest.NewServer(nil)
	url := dead.URL
	dead.Close()
	_, events = o.open(t.Context(), "fetch", quick.JSON(`{"url":"`+url+`"}`))
	require.Equal(t, "ECONNREFUSED", (<-events).values[0].(*failure).Code)
	for range events {
	}
}

func TestWatchStream(t *testing.T) {
	o := newOps(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, events := o.open(ctx, "fs.watch", ".", quick.JSON(`{}`))
	require.NoError(t, os.WriteFile(filepath.Join(o.c.cwd, "new"), nil, 0o600))
	require.Equal(t, map[string]string{"eventType": "rename", "filename": "new"}, (<-events).values[0])
	cancel()
	for range events {
	}
	c := *o.c
	c.args = args{"gone"}
	_, _, err := watchStream(&c, nil)
	var f *failure
	require.True(t, errors.As(err, &f))
	require.Equal(t, "ENOENT", f.Code)
}

// Every word crosses the frames as it is.
func TestFrames(t *testing.T) {
	no := false
	for _, s := range []words.Said{
		words.Ready{Registrations: words.Registrations{Listens: []string{"x"}, Tools: []words.ToolDef{{Name: "t", Parameters: json.RawMessage(`{}`), DefaultActive: &no}}}, Errors: []words.LoadError{{Path: "p", Message: "m", Gates: []string{"tool_call"}}}},
		words.Changed{Registrations: words.Registrations{Commands: []words.CommandDef{{Name: "c"}}}}, words.Told{N: 7}, words.Done{ID: 1, Result: json.RawMessage(`{"a":1}`)}, words.Done{ID: 2, Err: "e"},
		words.Done{ID: 3, TimedOut: true}, words.Prepared{ID: 4, Args: json.RawMessage(`{}`)}, words.Prepared{ID: 5, Err: "bad"}, words.ToolUpdate{ID: 6, Partial: json.RawMessage(`{}`)},
		words.ToolDone{ID: 7, Result: json.RawMessage(`{"a":"<&>"}`)}, words.ToolDone{ID: 8, Result: json.RawMessage(`{}`), IsError: true}, words.CommandDone{ID: 9}, words.CommandDone{ID: 10, Err: "x"},
		words.Act{Name: "n", Args: json.RawMessage(`{}`)}, words.Op{ID: 11, Name: "ui", Args: json.RawMessage(`{}`)}, words.OpCancel{ID: 12}, words.Failure{Path: "p", Event: "e", Message: "m", Stack: "s"},
		words.Log{Level: "info", Text: "t"}, words.Quiet{Quiet: true}, words.Quiet{}, words.Gone{Why: "w"}, words.Gone{},
	} {
		got, err := saidOf(frameOf(3, s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, k := range []kind{sayOpen, saidFirst + kind(len(saidWords)), 255} {
		_, err := saidOf(frame{kind: k})
		require.Error(t, err)
	}
	deep := json.RawMessage(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000))
	for _, s := range []words.Said{words.Done{ID: 7, Result: deep}, words.Prepared{ID: 7, Args: deep}, words.ToolDone{ID: 7, Result: deep}, words.ToolUpdate{ID: 7, Partial: deep}} {
		got, err := saidOf(frameOf(3, s))
		require.NoError(t, err)
		require.NotEqual(t, s, got, "nobody could read it, and nobody waits for it")
	}
	all, err := os.ReadFile("../../protocol/extension/extension.go")
	require.NoError(t, err)
	require.Len(t, saidWords, strings.Count(string(all), ") said() "), "every word has its place")
}

// The mailbox keeps the order of each who fills it, and is emptied by one at a time.
func TestBox(t *testing.T) {
	var fill, work sync.WaitGroup
	got := map[int][]int{}
	b := box{turns: goroutines{}}
	b.run = func() {
		for list := b.next(); list != nil; list = b.next() {
			for _, f := range list {
				f()
			}
		}
	}
	for who := range 4 {
		fill.Go(func() {
			for n := range 100 {
				work.Add(1)
				b.put(func() {
					got[who] = append(got[who], n) // the race detector sees if two do it
					work.Done()
				})
			}
		})
	}
	fill.Wait()
	work.Wait()
	for who := range 4 {
		require.Len(t, got[who], 100)
		for n := range 100 {
			require.Equal(t, n, got[who][n])
		}
	}
	b.close()
	b.put(func() { t.Error("nobody takes it any more") })
	require.Nil(t, b.next())
}
