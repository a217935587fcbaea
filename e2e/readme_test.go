package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var block = regexp.MustCompile("(?ms)^```(sh|python|bash)\n(.*?)^```$")

// year is in what date prints.
func year() string { return time.Now().Format("2006") }

// TestREADME runs the README's examples word for word, in the repository, with
// an empty home.
func TestREADME(t *testing.T) {
	raw, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	environ := func(t *testing.T) []string {
		cache, _ := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
		dirs := strings.Fields(string(cache))
		return append(os.Environ(), "HOME="+t.TempDir(), "PI_CODING_AGENT_DIR=", "XDG_RUNTIME_DIR=", "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1])
	}
	run := func(t *testing.T, name string, args ...string) string {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("TROUPE_CI") == "" {
			t.Skipf("%s is not installed", name)
		}
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		cmd.Env = environ(t)
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	seen := map[string]int{}
	for _, b := range block.FindAllStringSubmatch(string(raw), -1) {
		lang, code := b[1], b[2]
		seen[lang]++
		switch {
		case strings.HasPrefix(code, "make "):
			// This test is part of what it would run; make cluster plays what the demo of a cluster shows.
		case strings.Contains(code, " serve "):
			t.Run("serve", func(t *testing.T) {
				cmd := exec.Command("sh", "-c", strings.Replace(code, ":7717", ":0", 1)) // the port may be taken here
				cmd.Dir, cmd.Env, cmd.SysProcAttr = root, environ(t), &syscall.SysProcAttr{Setpgid: true}
				said, err := cmd.StderrPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				timer := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				lines, told := bufio.NewScanner(said), ""
				for !strings.Contains(told, "/#c=") && lines.Scan() {
					told += lines.Text() + "\n"
				}
				timer.Stop()
				assert.Contains(t, told, "http://127.0.0.1:")
				assert.Contains(t, told, "/#c=")
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
				_ = cmd.Wait()
			})
		case strings.Contains(code, "agents "):
			t.Run("tasks", func(t *testing.T) {
				out := run(t, "sh", "-c", code)
				for _, id := range []string{"Part1", "Part2"} {
					assert.Contains(t, out, `{"type":"subagent_start","id":"`+id+`","agent":"task"`)
					assert.Contains(t, out, `{"type":"subagent_end","id":"`+id+`","agent":"task","exitCode":0`)
				}
				assert.Regexp(t, `"toolName":"task","result":.*2/2 succeeded.*`+year()+`.*(?i:linux|bsd|darwin)`, out)
			})
		case lang == "sh":
			t.Run("main job", func(t *testing.T) {
				out := run(t, "sh", "-c", code)
				assert.Contains(t, out, `"id":"1","type":"response","command":"prompt","success":true`)
				assert.Contains(t, out, `"type":"agent_settled"`)
				assert.Contains(t, out, `"toolName":"bash","args":{"command":"date"}`, "the first minute shows what an agent is")
				assert.Regexp(t, `"type":"tool_execution_end".*`+year()+`.*"isError":false`, out)
			})
		case lang == "python":
			t.Run("python", func(t *testing.T) {
				if _, err := exec.LookPath("python3"); err != nil {
					t.Skip("python3 is not installed")
				}
				assert.Regexp(t, `(?s)> bash \{"command": "date"\}\n.*`+year()+`.*\S`, run(t, "python3", "-c", code))
			})
		case lang == "bash":
			t.Run("shell", func(t *testing.T) {
				out := run(t, "bash", "-c", code)
				assert.Contains(t, out, `"role":"assistant"`)
				assert.Regexp(t, `"type":"tool_execution_end".*`+year(), out)
			})
		}
	}
	assert.Equal(t, map[string]int{"sh": 5, "python": 1, "bash": 1}, seen)
}
