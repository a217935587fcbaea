package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
	"troupe/e2e/need"
)

// withTroupe returns a place with a directory in which the binary is called troupe, for PATH.
func withTroupe(t *testing.T) (p *harness.Place, environ []string) {
	p = harness.NewPlace(t)
	bin := filepath.Join(p.Root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(harness.Binary, filepath.Join(bin, "troupe")))
	return p, append(p.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
}

// TestCompletionInBash runs the function that the completion script for bash defines.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash := need.Program(t, "bash")
	p, environ := withTroupe(t)
	p.WriteFile(filepath.Join(p.Work, "some file.jsonl"), "")
	p.WriteFile(filepath.Join(p.Work, "some dir", "x"), "")
	for line, want := range map[string]string{
		"cl":                    "cluster",
		"cluster dr":            "drain",
		"serve pair ":           "full\nview",
		"--mode ":               "rpc\ntext\njson",
		"--mode = j":            "json", // bash splits words at =
		"--mode =":              "rpc\ntext\njson",
		"serve --liste":         "--listen",
		"--session so":          "some dir\nsome file.jsonl",
		"--cwd so":              "some dir",
		"-p hello ":             "",
		"login --no-browser op": "openai\nopenrouter\nopencode\nopencode-go",
	} {
		script := `source <(troupe completion bash)
			COMP_WORDS=(troupe "$@"); COMP_CWORD=$#
			_troupe troupe "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
			printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"--noprofile", "--norc", "-c", script, "bash"}, strings.Split(line, " ")...)...)
		cmd.Dir, cmd.Env = p.Work, environ
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(strings.TrimSpace(string(out)), "\n"), line) // files come as the directory has them
	}
}

// TestCompletionAtAPrompt types into an interactive bash and presses the tab key.
func TestCompletionAtAPrompt(t *testing.T) {
	t.Parallel()
	bash := need.Program(t, "bash")
	p, environ := withTroupe(t)
	ours, theirs := terminal(t)
	cmd := exec.Command(bash, "--noprofile", "--norc", "-i")
	cmd.Dir, cmd.Env = p.Work, append(environ, "PS1=", "TERM=dumb", "INPUTRC=/dev/null", "HISTFILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	enter := func(text string) {
		_, err := ours.WriteString(text)
		require.NoError(t, err)
	}
	// echo shows what the completed line is, without running it.
	enter("source <(troupe completion bash); complete -F _troupe echo; echo() { printf 'typed: %s\\n' \"$*\"; }; alias troupe=echo\n")
	enter("troupe cluster dr\tw1 --cluster-d\tkeys\n")
	enter("troupe --mode=r\t\n")
	enter("exit\n")
	var typed []string
	lines := bufio.NewScanner(ours)
	for lines.Scan() {
		if line, is := strings.CutPrefix(strings.TrimSpace(lines.Text()), "typed: "); is {
			typed = append(typed, line)
		}
	}
	require.NoError(t, cmd.Wait())
	assert.Equal(t, []string{"cluster drain w1 --cluster-dir keys", "--mode=rpc"}, typed)
}

// TestCompletionScripts has the shells that are installed read their scripts, and ask for words.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, script := range map[string]string{
		"bash": `source <(troupe completion bash); complete -p troupe`,
		"zsh":  `autoload -Uz compinit; compinit -u -d /dev/null; source <(troupe completion zsh); print -r -- "_troupe is ${_comps[troupe]}"`,
		"fish": `troupe completion fish | source; complete -C "troupe cluster dr"`,
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil && shell != "bash" { // few machines have all of them
				t.Skip("not installed: " + shell)
			}
			program := need.Program(t, shell)
			p, environ := withTroupe(t)
			cmd := exec.Command(program, "-c", script)
			cmd.Dir, cmd.Env = p.Work, environ
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			want := map[string]string{"bash": "complete -F _troupe troupe\n", "zsh": "_troupe is _troupe\n", "fish": "drain\tMove all sessions of a node to others, and wait until it has ended\n"}
			assert.Equal(t, want[shell], string(out))
		})
	}
	p, _ := withTroupe(t)
	_, errs, code := p.RunOnce("", "completion", "tcsh")
	assert.Equal(t, []any{2, "troupe: completion: want bash, zsh or fish, got \"tcsh\" (try troupe help completion)\n"}, []any{code, errs})
}
