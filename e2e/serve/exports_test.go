package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// TestServeExports checks that the pages a client over the network exports stay below the --root
// directories and outside the agent directory: by name, through links, and while a link is swapped.
func TestServeExports(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	work, out := filepath.Join(p.Home, "work"), filepath.Join(p.Root, "out")
	for _, dir := range []string{filepath.Join(work, "d"), out} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	key := filepath.Join(p.AgentDir(), "auth.json")
	require.NoError(t, os.WriteFile(key, []byte("{}"), 0o600))
	for link, to := range map[string]string{"agent": p.AgentDir(), "key.html": key, "away": out, "swapped": out} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, link)))
	}
	s := p.Serve("--listen", "127.0.0.1:0", "--root", p.Home)
	client, _ := s.Dial(s.Token(), "troupe.v1")
	client.Send(`{"id":"open","type":"open_session","permissionMode":"auto","cwd":"` + work + `"}`)
	open := client.WaitFor("open")
	require.True(t, open.Get("success").Bool(), open.Raw)
	at := `,"sessionId":"` + open.Get("data.sessionId").Str + `"`
	p.Model.Enqueue(harness.Text("hi"))
	client.Send(`{"id":"p","type":"prompt","message":"hello"` + at + `}`)
	client.WaitFor("agent_settled")
	n := 0
	export := func(path string) (code string) {
		n++
		id, output := fmt.Sprint("x", n), ""
		if path != "" {
			output = `,"outputPath":"` + path + `"`
		}
		client.Send(`{"id":"` + id + `","type":"export_html"` + output + at + `}`)
		return client.WaitFor(id).Get("code").Str
	}
	for _, path := range []string{
		key, p.AgentDir() + "/new.html", p.AgentDir() + "/troupe/serve.token", p.AgentDir() + "/deep/new.html", "agent/auth.json", "agent/new.html", "agent/troupe/devices.json",
		"key.html", "../.pi/agent/auth.json", "away/x.html", out + "/x.html",
	} {
		assert.Equal(t, "forbidden", export(path), path)
	}
	assert.Empty(t, export("page.html"))
	assert.Empty(t, export("page.html"), "again")
	assert.FileExists(t, filepath.Join(work, "page.html"))
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(text))

	// A name that the client does not choose may be a link as well.
	assert.Empty(t, export(""))
	pages, err := filepath.Glob(filepath.Join(work, "pi-session-*.html"))
	require.NoError(t, err)
	require.Len(t, pages, 1)
	require.NoError(t, os.Remove(pages[0]))
	require.NoError(t, os.Symlink(filepath.Join(out, "rc"), pages[0]))
	assert.NotEmpty(t, export(""))

	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		in := func(name string) string { return filepath.Join(work, name) }
		for {
			select {
			case <-end:
				return
			default:
				_ = os.Rename(in("d"), in("kept"))
				_ = os.Rename(in("swapped"), in("d"))
				_ = os.Rename(in("d"), in("swapped"))
				_ = os.Rename(in("kept"), in("d"))
			}
		}
	}()
	for range 200 {
		export("d/page.html")
	}
	close(end)
	<-ended
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Empty(t, export("d/page.html"))
}
