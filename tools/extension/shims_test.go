package extension

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
	words "troupe/protocol/extension"
	"troupe/tools"
)

// inEngine runs a suite of testdata in an extension, and gives what it says: pairs of a
// name and a text.
func inEngine(t *testing.T, suite string) [][2]string {
	t.Helper()
	limits := DefaultLimits()
	limits.Turn, limits.Load = time.Minute, time.Minute // of a machine under load
	host := NewInline(Options{Limits: limits, Files: &tools.Files{}, Version: "1", PiVersion: "1.5.2"})
	defer func() { require.NoError(t, host.Close()) }()
	said := make(chan words.Said, 1000)
	path, err := filepath.Abs("testdata/shims/suites.ts")
	require.NoError(t, err)
	cwd, err := os.Getwd() // as Node's
	require.NoError(t, err)
	vm := host.Open(words.Spec{Entries: []words.Entry{{Path: path}}, Cwd: cwd, Reason: "startup"}, func(s words.Said) { said <- s })
	for s := range said {
		if ready, ok := s.(words.Ready); ok {
			require.Empty(t, ready.Errors)
			vm.Say(words.Start{N: ready.N})
			break
		}
	}
	file := filepath.Join(t.TempDir(), "said.json")
	vm.Say(words.RunCommand{ID: 1, Name: "suite", Args: suite + " " + t.TempDir() + " " + file})
	for s := range said {
		switch s := s.(type) {
		case words.CommandDone:
			require.Empty(t, s.Err)
			return saidIn(t, file)
		case words.Failure:
			require.Fail(t, s.Message, s.Stack)
		}
	}
	return nil
}

func saidIn(t *testing.T, file string) (said [][2]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &said))
	return said
}

// TestAsInNode compares what the modules say with what Node says.
func TestAsInNode(t *testing.T) {
	node := need.Program(t, "node")
	for _, suite := range []string{"pure", "host", "intl"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "said.json")
			out, err := exec.Command(node, "testdata/shims/node.cjs", suite, t.TempDir(), file).CombinedOutput()
			require.NoError(t, err, string(out))
			want, got := saidIn(t, file), inEngine(t, suite)
			require.Greater(t, len(want), 10)
			require.Len(t, got, len(want))
			for i := range want {
				if want[i] != got[i] {
					t.Errorf("%s\nNode: %s\nhere: %s", want[i][0], want[i][1], got[i][1])
				}
			}
		})
	}
}

// answer answers what the suite fetches.
func answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/moved":
		http.Redirect(w, r, "/echo", http.StatusFound)
	case "/large":
		_, _ = w.Write(make([]byte, 300_000)) // a test that does not read it fails itself
	case "/endless":
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/echo")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL, r.Header.Get("X-Own"), r.Header.Get("Content-Type"), body)
	}
}

// TestShims checks modules that Node has nothing to compare with: each line is a check
// that held.
func TestShims(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	t.Setenv("TROUPE_TEST_URL", server.URL)
	said := inEngine(t, "shims")
	require.Len(t, said, 16, "every check says something")
	for _, s := range said {
		assert.Equal(t, "ok", s[1], s[0])
	}
}

// TestPackagesThatImportHTTP: a package's requests go over fetch, and what it has of
// servers fails when it is called, in an extension of one file, too.
func TestPackagesThatImportHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	t.Setenv("TROUPE_TEST_URL", server.URL)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("node_modules/client/package.json", `{"name":"client","main":"index.js"}`)
	write("node_modules/client/index.js", `
		const http = require("http"), { isIP } = require("net"), { isMainThread } = require("worker_threads"), v8 = require("v8");
		class Agent extends require("https").Agent {}
		exports.get = (url) => new Promise((resolve, reject) => {
			const req = http.request(url, { method: "POST", headers: { "x-own": "pkg", "content-type": "text/plain" } }, (res) => {
				let text = "";
				res.setEncoding("utf8").on("data", (c) => { text += c; }).on("end", () => resolve(res.statusCode + " " + res.headers["content-type"] + " " + text));
			});
			req.on("error", reject);
			req.write("bo");
			req.end("dy");
		});
		exports.rest = () => [isIP("::1"), isIP("1.2.3.4"), isIP("x"), isMainThread, v8.deserialize(v8.serialize({ a: 1 })).a, new Agent().defaultPort].join();
		exports.serve = () => http.createServer();
	`)
	through := write("through.ts", `import { get, rest, serve } from "client"; export default (pi: any) => { pi.registerCommand("go", { handler: async () => {
		pi.appendEntry("said", [await get(process.env.TROUPE_TEST_URL + "/echo"), rest(), await get("http://127.0.0.1:1/").catch((e: any) => e.code)]);
		serve();
	} }); };`)
	w := load(t, through)
	require.Empty(t, w.ready.Errors)
	w.vm.Command(1, "go", "")
	require.Equal(t, "node:http.createServer needs Node.js", wait[words.CommandDone](w).Err)
	require.Contains(t, w.acts("appendEntry")[0], `["201 text/echo POST /echo pkg text/plain body","6,4,0,true,1,443","ECONNREFUSED"]`)

	direct := load(t, write("direct.ts", `import http from "node:http"; export default () => { http.createServer(); };`))
	require.Equal(t, "node:http.createServer needs Node.js", direct.ready.Errors[0].Message)
}
