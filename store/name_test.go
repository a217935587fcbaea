package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
	"troupe/store"
)

func TestEncodeCwd(t *testing.T) {
	for cwd, want := range map[string]string{
		"/home/me/proj":           "--home-me-proj--",
		"/tmp/we:ird dir-x/ü":     "--tmp-we-ird dir-x-ü--",
		"/":                       "----",
		"//double":                "---double--",
		`C:\Users\me`:             "--C--Users-me--",
		`\\server\share`:          `---server-share--`,
		"relative/dir":            "--relative-dir--",
		"/a.b/c_d":                "--a.b-c_d--",
		"/home/me/proj with -- x": "--home-me-proj with -- x--",
	} {
		assert.Equal(t, want, store.EncodeCwd(cwd), cwd)
	}
}

func TestFileName(t *testing.T) {
	h := protocol.Header{ID: "01a1fba2-15a5-7083-bb5b-838fc20c0343", Timestamp: "2026-11-21T01:04:26.021Z"}
	assert.Equal(t, "2026-11-21T01-04-26-021Z_01a1fba2-15a5-7083-bb5b-838fc20c0343.jsonl", store.FileName(h))
}

func TestSessionDir(t *testing.T) {
	for _, c := range []struct {
		name   string
		choice store.DirChoice
		dir    string
		shared bool
	}{
		{"default", store.DirChoice{AgentDir: "/h/.pi/agent", Cwd: "/p/q"}, "/h/.pi/agent/sessions/--p-q--", false},
		{"flag first", store.DirChoice{Flag: "/f", Env: "/e", Setting: "/s", AgentDir: "/a", Cwd: "/p"}, "/f", true},
		{"then environment", store.DirChoice{Env: "/e", Setting: "/s", AgentDir: "/a", Cwd: "/p"}, "/e", true},
		{"then setting", store.DirChoice{Setting: "/s/", AgentDir: "/a", Cwd: "/p"}, "/s", true},
		{"relative", store.DirChoice{Flag: "x/../y", Cwd: "/p"}, "/p/y", true},
		{"home", store.DirChoice{Setting: "~/s", Home: "/home/me", Cwd: "/p"}, "/home/me/s", true},
		{"home itself", store.DirChoice{Setting: "~", Home: "/home/me", Cwd: "/p"}, "/home/me", true},
		{"somebody's home is a name", store.DirChoice{Setting: "~you", Home: "/home/me", Cwd: "/p"}, "/p/~you", true},
	} {
		dir, shared := c.choice.Dir()
		assert.Equal(t, c.dir, filepath.ToSlash(dir), c.name)
		assert.Equal(t, c.shared, shared, c.name)
	}
}

func TestAgentDir(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	assert.Equal(t, "/home/me/.pi/agent", store.AgentDir("", env(), "/home/me"))
	assert.Equal(t, "/pi", store.AgentDir("", env("PI_CODING_AGENT_DIR", "/pi"), "/home/me"))
	assert.Equal(t, "/tr", store.AgentDir("", env("PI_CODING_AGENT_DIR", "/pi", "TROUPE_AGENT_DIR", "/tr"), "/home/me"))
	assert.Equal(t, "/fl", store.AgentDir("/fl/", env("PI_CODING_AGENT_DIR", "/pi", "TROUPE_AGENT_DIR", "/tr"), "/home/me"))
	assert.Equal(t, "/home/me/x", store.AgentDir("", env("PI_CODING_AGENT_DIR", "~/x"), "/home/me"))
}

func TestNewHeader(t *testing.T) {
	h := store.NewHeader("", "/p", "/parent.jsonl", t0)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, h.ID)
	assert.NoError(t, store.CheckSessionID(h.ID))
	assert.Equal(t, protocol.Header{Version: 3, ID: h.ID, Timestamp: "2026-11-21T01:04:26.021Z", Cwd: "/p", ParentSession: "/parent.jsonl"}, h)
	assert.Equal(t, "mine", store.NewHeader("mine", "/p", "", t0).ID)
	// The sample's id carries the sample's time.
	assert.Equal(t, "01a1fba2-15a5-7083-bb5b-838fc20c0343"[:13], store.NewSessionID(t0)[:13])
	assert.Less(t, store.NewSessionID(t0), store.NewSessionID(t0+1), "ids sort by time")
	assert.NotEqual(t, store.NewSessionID(t0), store.NewSessionID(t0))
}

func TestCheckSessionID(t *testing.T) {
	for _, id := range []string{"a", "A1", "a-b_c.d", "0", "my.session-2", strings.Repeat("x", 200)} {
		assert.NoError(t, store.CheckSessionID(id), id)
	}
	for _, id := range []string{
		"", "-a", "a-", ".a", "a.", "_a", "a_", "a b", "a/b", "../x", "ü", "aüb", "a\x00b", "a\n", ".", "-", strings.Repeat("x", 201),
	} {
		assert.Error(t, store.CheckSessionID(id), "%q", id)
	}
}

func TestCheckPath(t *testing.T) {
	assert.NoError(t, store.CheckPath("/a/../b/ü.jsonl"))
	for _, path := range []string{"", "/a\x00b", "/" + strings.Repeat("x", 256), strings.Repeat("/x", 2048)} {
		assert.ErrorIs(t, store.CheckPath(path), store.ErrInvalidPath, "%.20q", path)
	}
}
