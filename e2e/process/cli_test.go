package process

import (
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/need"
)

func TestUsageErrors(t *testing.T) {
	for _, x := range []struct {
		args []string
		says string
	}{
		{[]string{"--mode", "rpc", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"--mode", "rpc", "@file.txt"}, "@file"},
		{[]string{"--mode", "rpc", "hello"}, "hello"},
		{[]string{"--mode", "nonsense"}, "nonsense"},
		{[]string{"--mode", "rpc", "--model"}, "--model"},
	} {
		t.Run(strings.Join(x.args, " "), func(t *testing.T) {
			t.Parallel()
			out, errs, code := harness.NewPlace(t).RunOnce("", x.args...)
			assert.Equal(t, 2, code)
			assert.Empty(t, out)
			assert.Contains(t, errs, x.says)
			assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	out, _, code := p.RunOnce("", "--help")
	assert.Zero(t, code)
	assert.Contains(t, out, "--mode")
	out, _, code = p.RunOnce("", "--version")
	assert.Zero(t, code)
	assert.NotEmpty(t, strings.TrimSpace(out))
	out, _, code = p.RunOnce(`{"id":1,"type":"get_state"}`, p.ModelArgs("-p", "--mode", "rpc")...)
	assert.Zero(t, code)
	assert.Contains(t, out, `"command":"get_state","success":true`, "-p is no mode when there is another")
}

// TestUnderTheNamePi checks a binary that is started as "pi": it prints a version in pi's format
// and uses pi's exit code for a wrong command line.
func TestUnderTheNamePi(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	pi := filepath.Join(p.Root, "pi")
	require.NoError(t, os.Symlink(harness.Binary, pi))
	once := func(args ...string) (string, string, int) {
		cmd := exec.Command(pi, args...)
		cmd.Dir, cmd.Env = p.Work, p.Environ()
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	for _, flag := range []string{"--version", "-v"} {
		out, errs, code := once(flag)
		assert.Zero(t, code)
		assert.Empty(t, errs)
		assert.Regexp(t, `^\d+\.\d+\.\d+\n$`, out)
	}
	_, errs, code := once("--mode", "rpc", "--no-such-flag")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "--no-such-flag")
	_, _, code = once("install", "npm:x")
	assert.Equal(t, 1, code)
}

// TestCommandWords checks that words that pi treats as commands are never sent to a model.
func TestCommandWords(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	for _, word := range []string{"install", "remove", "uninstall", "update", "list", "config", "auth"} {
		out, errs, code := p.RunOnce("", word, "npm:x")
		assert.Equal(t, 2, code, word)
		assert.Empty(t, out, word)
		assert.Contains(t, errs, word)
		assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
	assert.Zero(t, p.Model.RequestCount())
	p.Model.Enqueue(harness.Text("fine"))
	out, errs, code := p.RunOnce("", p.ModelArgs("-p", "list")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, "fine\n", out, "as a message it is one")
}

// TestToolsOfTheCommandLine checks --tools and --exclude-tools: an empty list means no tools, and
// excluding an unknown tool is an error.
func TestToolsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	active := func(args ...string) string {
		out, errs, code := p.RunOnce(`{"type":"get_tools"}`+"\n", append([]string{"--mode", "rpc", "--no-session"}, args...)...)
		require.Zero(t, code, errs)
		return gjson.Get(out, "data.activeToolNames").Raw
	}
	for _, none := range [][]string{{"--tools", ""}, {"--tools="}, {"--tools", ","}, {"-t", " "}, {"--no-tools"}} {
		assert.Equal(t, `[]`, active(none...), none)
	}
	assert.Equal(t, `["read"]`, active("--no-tools", "--tools", "read"))
	assert.NotContains(t, active("-xt", "bash"), "bash")
	_, errs, code := p.RunOnce("", "--mode", "rpc", "--tools", "nosuch")
	assert.NotZero(t, code)
	assert.Contains(t, errs, "--tools: no tool is called nosuch", "a misspelled list would leave no tools")
	for _, wrong := range []string{"Bash", "*", "bash,Write"} {
		out, errs, code := p.RunOnce("", "--mode", "rpc", "-xt", wrong)
		assert.NotZero(t, code, wrong)
		assert.Empty(t, out)
		assert.Contains(t, errs, "--exclude-tools: unknown tool")
	}
}

// TestListModels checks that --list-models prints the same table as pi.
func TestListModels(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/models.json", `{"providers":{"b":{"baseUrl":"http://127.0.0.1:1","api":"openai-completions","apiKey":"k","models":[
		{"id":"one","name":"Number two","contextWindow":128000,"maxTokens":4096,"input":["text"]},
		{"id":"big-3","reasoning":true,"contextWindow":1048576,"maxTokens":65536,"input":["text","image"]}]},
		"a":{"baseUrl":"http://127.0.0.1:1","api":"openai-completions","apiKey":"k","models":[{"id":"z","contextWindow":1000000,"maxTokens":999}]}}}`)
	row := func(pattern ...string) []string {
		out, errs, code := p.RunOnce("", append([]string{"--list-models"}, pattern...)...)
		assert.Zero(t, code, errs)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		return lines
	}
	head := "provider model context max-out thinking images"
	assert.Equal(t, []string{head, "a z 1M 999 no no", "b big-3 1.0M 65.5K yes yes", "b one 128K 4.1K no no"}, row())
	assert.Equal(t, []string{head, "b big-3 1.0M 65.5K yes yes"}, row("BG3"))
	assert.Equal(t, []string{`No models matching "two"`}, row("two"), "names do not count")
}

// TestEndlessInput checks that input above the size limits is rejected with a one-line error.
func TestEndlessInput(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	for script, says := range map[string]string{
		`yes | "$0" "$@" -p x`:          "standard input has more than 64 MiB",
		`"$0" "$@" -p @<(yes) x`:        "more than 64 MiB cannot be attached",
		`yes | "$0" "$@" --mode json x`: "standard input has more than 64 MiB",
		`for i in 1 2 3; do head -c 50000000 /dev/zero > $i; done; "$0" "$@" -p @1 @2 @3 x`: "together has more than 128 MiB",
	} {
		cmd := exec.Command(need.Program(t, "bash"), append([]string{"-c", script, harness.Binary}, p.ModelArgs()...)...)
		cmd.Dir, cmd.Env = p.Work, p.Environ()
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.Error(t, cmd.Run(), script)
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), script)
		assert.Contains(t, errs.String(), says)
		assert.Equal(t, 1, strings.Count(errs.String(), "troupe: "), errs.String())
		assert.Empty(t, out.String())
	}
	assert.Zero(t, p.Model.RequestCount())

	p.Model.Enqueue(harness.Text("a lot"))
	cmd := exec.Command(need.Program(t, "bash"), append([]string{"-c", `yes "" | head -c 20000000 | "$0" "$@" -p x`, harness.Binary}, p.ModelArgs("--no-session")...)...)
	cmd.Dir, cmd.Env = p.Work, p.Environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "a lot\n", string(out), "as a line of JSON it has twice the bytes")
}

// TestTerminal checks that escape sequences in a model's answer are not written to a terminal.
func TestTerminal(t *testing.T) {
	const evil = "\x1b]52;c;aGk=\x07\x1b[2Ja\rb\tc\r\nd \u009b31m\u007f é 👩‍🚀"
	const tame = "\uFFFD]52;c;aGk=\uFFFD\uFFFD[2Ja\uFFFDb\tc\nd \uFFFD31m\uFFFD é 👩‍🚀\n"
	onTerminal := func(t *testing.T, p *harness.Place, args ...string) string {
		ours, theirs := terminal(t)
		cmd := exec.Command(harness.Binary, args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Work, p.Environ(), theirs, theirs
		seen := make(chan string)
		go func() {
			all, _ := io.ReadAll(ours) // fails once all other ends are closed
			seen <- string(all)
		}()
		_ = cmd.Run()
		theirs.Close()
		return strings.ReplaceAll(<-seen, "\r\n", "\n")
	}
	t.Run("print", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Text(evil), harness.Text(evil))
		shown := onTerminal(t, p, p.ModelArgs("-p", "x")...)
		assert.Equal(t, tame, shown)
		out, _, code := p.RunOnce("", p.ModelArgs("-p", "x")...)
		assert.Zero(t, code)
		assert.Equal(t, evil+"\n", out, "a pipe gets it as it is")
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Text(evil))
		shown := onTerminal(t, p, p.ModelArgs("--mode", "json", "x")...)
		assert.Contains(t, shown, `\u001b]52`)
		assert.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]", shown)
	})
	t.Run("an error of the server", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.Model.Enqueue(harness.Fail(400, "{\"error\":{\"message\":\"no \\u001b[2J\\u009b such\"}}"))
		shown := onTerminal(t, p, p.ModelArgs("-p", "x")...)
		assert.Contains(t, shown, "such")
		assert.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]", shown)
	})
	t.Run("models and logs", func(t *testing.T) {
		t.Parallel()
		p := harness.NewPlace(t)
		p.WriteFile(p.AgentDir()+"/models.json", `{"providers":{"a":{"baseUrl":"http://127.0.0.1:1","api":"openai-completions","apiKey":"k","models":[{"id":"m\u001b[2J\u009b"}]}}}`)
		shown := onTerminal(t, p, "--list-models")
		assert.Contains(t, shown, "m\uFFFD[2J\uFFFD")
		shown = onTerminal(t, p, "-p", "@no\x1b[2J\u009bfile", "x")
		assert.Contains(t, shown, "no\uFFFD[2J\uFFFDfile")
		assert.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]", shown)
	})
}

// TestModelChoice checks --model with a pattern, a provider and a thinking level.
func TestModelChoice(t *testing.T) {
	for _, x := range []struct{ args, id, level string }{
		{"--model mock/think:high", "think", "high"},
		{"--provider mock --model think --thinking low", "think", "low"},
		{"--model chat-1", "chat-1", "off"},
		{"--model chat --thinking high", "chat-1", "off"},
	} {
		t.Run(x.args, func(t *testing.T) {
			t.Parallel()
			d := harness.NewPlace(t).StartRaw(append([]string{"--mode", "rpc"}, strings.Fields(x.args)...)...)
			st := d.OK(`{"type":"get_state"}`)
			assert.Equal(t, x.id, st.Get("model.id").Str)
			assert.Equal(t, x.level, st.Get("thinkingLevel").Str)
		})
	}
}

// TestOffline checks that a run works without any configuration, and that a warning on stderr says
// that the answers do not come from a model.
func TestOffline(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/models.json", `{"providers":{}}`)
	d := p.StartRaw("--mode", "rpc")
	events := d.Prompt("hello")
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	require.Zero(t, d.Close())
	assert.Contains(t, d.Stderr(), "offline")
}

// TestContinue checks that --continue opens the newest session of the working directory and no
// session of another directory.
func TestContinue(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"), harness.Text("two"))
	d := p.Start("--name", "first")
	d.Prompt("a")
	require.Zero(t, d.Close())
	d = p.Start("--continue")
	st := d.OK(`{"type":"get_state"}`)
	assert.Equal(t, "first", st.Get("sessionName").Str)
	assert.EqualValues(t, 2, st.Get("messageCount").Int())
	require.Zero(t, d.Close())
	p.WriteFile(p.Root+"/other/x", "")
	d = p.Start("--continue", "--cwd", p.Root+"/other")
	assert.Zero(t, d.OK(`{"type":"get_state"}`).Get("messageCount").Int())
}

// TestNetworkSettings checks that httpIdleTimeoutMs ends a request whose answer has stalled.
func TestNetworkSettings(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/settings.json", `{"httpIdleTimeoutMs":50,"retry":{"enabled":false}}`)
	p.Model.Enqueue(harness.Text("begun").Then(harness.Gate("never")))
	d := p.Start()
	events := d.Prompt("go")
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
}

// TestNoHome checks that without HOME the home directory comes from the user database, and no files
// are written to the working directory.
func TestNoHome(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	cmd := exec.Command(harness.Binary, "--mode", "rpc")
	cmd.Dir, cmd.Env = p.Work, []string{"PATH=/usr/bin:/bin", "GOCOVERDIR=" + p.Root}
	cmd.Stdin = strings.NewReader(`{"id":"1","type":"get_state"}` + "\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	who, err := user.Current()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"sessionFile":"`+filepath.Join(who.HomeDir, ".pi"))
	assert.NoDirExists(t, filepath.Join(p.Work, ".pi"))
}

// TestMistypedCommands checks that a mistyped command or flag is an error that names the right one and
// sends nothing to a model, while the same words are prompts with -p, with --mode and under the name pi.
func TestMistypedCommands(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	for line, says := range map[string]string{
		"clsuter drain w1":   `unknown command "clsuter" (did you mean "cluster"?); to send it as a message: troupe -p clsuter`,
		"serv":               `unknown command "serv" (did you mean "serve"?); to send it as a message: troupe -p serv`,
		"--verbose serve":    `"serve" is a command and comes first: troupe serve; to send it as a message: troupe -p serve`,
		"cluster drian w1":   `unknown command "cluster drian" (did you mean "cluster drain"?)`,
		"serve piar":         `unknown command "serve piar" (did you mean "serve pair"?)`,
		"auth chekc":         `unknown command "auth chekc" (did you mean "auth check"?)`,
		"--modle x -p hello": `unknown option "--modle" (did you mean "--model"?)`,
		"serve --lisetn x":   `unknown option "--lisetn" (did you mean "--listen"?)`,
	} {
		out, errs, code := p.RunOnce("", strings.Fields(line)...)
		assert.Equal(t, []any{2, "", "troupe: " + says + "\n"}, []any{code, out, errs}, line)
	}
	assert.Zero(t, p.Model.RequestCount())
	assert.NoDirExists(t, p.AgentDir()+"/sessions", "a mistyped command leaves a session")

	pi := filepath.Join(p.Root, "pi")
	require.NoError(t, os.Symlink(harness.Binary, pi))
	for _, x := range [][]string{{harness.Binary, "-p", "clsuter"}, {harness.Binary, "--mode", "text", "clsuter"}, {harness.Binary, "--mode", "json", "serve"}, {harness.Binary, "clusters of galaxies"}, {pi, "clsuter"}, {pi, "help"}} {
		p.Model.Enqueue(harness.Text("fine"))
		cmd := exec.Command(x[0], append(p.ModelArgs(), x[1:]...)...)
		cmd.Dir, cmd.Env = p.Work, p.Environ()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", x, out)
		assert.Contains(t, string(out), "fine", x)
	}
	assert.Equal(t, 6, p.Model.RequestCount())
}

// TestSessionFileIsMissing checks --session with a path that does not exist: an error for a person who
// has mistyped it. With --mode, which clients of pi pass, and under the name pi the file is created, as every
// version of pi does (0.45.7, 0.87.1 and 1.6.0 were tried).
func TestSessionFileIsMissing(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	pi := filepath.Join(p.Root, "pi")
	require.NoError(t, os.Symlink(harness.Binary, pi))
	for i, x := range []struct {
		program string
		args    []string
		created bool
	}{
		{harness.Binary, []string{"-p", "hello"}, false},
		{harness.Binary, []string{"hello there"}, false},
		{harness.Binary, []string{"--mode", "text", "hello"}, true},
		{harness.Binary, []string{"--mode", "json", "hello"}, true},
		{pi, []string{"-p", "hello"}, true},
	} {
		p.Model.Enqueue(harness.Text("fine"))
		path := filepath.Join(p.Root, "typo", strconv.Itoa(i), "x.jsonl")
		cmd := exec.Command(x.program, p.ModelArgs(append([]string{"--session", path}, x.args...)...)...)
		cmd.Dir, cmd.Env = p.Work, p.Environ()
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if x.created {
			require.NoError(t, err, errs.String())
			assert.FileExists(t, path)
			continue
		}
		assert.Equal(t, 1, cmd.ProcessState.ExitCode())
		assert.Empty(t, out.String())
		assert.Equal(t, "troupe: --session "+path+": there is no such file; to create a session use --session-id, or no flag at all\n", errs.String())
		assert.NoDirExists(t, filepath.Dir(path))
	}
	path := filepath.Join(p.Root, "client", "x.jsonl")
	d := p.Start("--session", path)
	assert.Equal(t, path, d.OK(`{"type":"get_state"}`).Get("sessionFile").Str)
}

// TestLogFormat checks that log lines are text on a terminal and JSON elsewhere, unless --log-format or
// TROUPE_LOG_FORMAT chooses.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	p.WriteFile(p.AgentDir()+"/models.json", `{"providers":{}}`)
	const text, json = `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARN no provider has an API key; .*\n$`, `^\{"level":"warn","time":"[^"]+","msg":"no provider has an API key; .*\}\n$`
	logs := func(onTerminal bool, variable string, args ...string) string {
		cmd := exec.Command(harness.Binary, append([]string{"-p", "--no-session", "hello"}, args...)...)
		cmd.Dir, cmd.Env = p.Work, append(p.Environ(), "TROUPE_LOG_FORMAT="+variable)
		var errs strings.Builder
		cmd.Stderr = &errs
		if onTerminal {
			ours, theirs := terminal(t)
			cmd.Stderr = theirs
			seen := make(chan string)
			go func() {
				all, _ := io.ReadAll(ours)
				seen <- string(all)
			}()
			require.NoError(t, cmd.Run())
			theirs.Close()
			return strings.ReplaceAll(<-seen, "\r\n", "\n")
		}
		require.NoError(t, cmd.Run(), errs.String())
		return errs.String()
	}
	assert.Regexp(t, text, logs(true, ""))
	assert.Regexp(t, json, logs(false, ""))
	assert.Regexp(t, json, logs(true, "", "--log-format", "json"))
	assert.Regexp(t, text, logs(false, "", "--log-format=text"))
	assert.Regexp(t, json, logs(true, "json"))
	assert.Regexp(t, text, logs(false, "json", "--log-format", "text"))
	assert.Regexp(t, text, logs(true, "json", "--log-format", "auto"))
	assert.Contains(t, logs(false, "xml"), `TROUPE_LOG_FORMAT: want auto, text or json, got \"xml\"; ignored`)
}

// TestLoginCancelled checks that a login without input says that it was cancelled.
func TestLoginCancelled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	out, errs, code := p.RunOnce("", "login")
	assert.Equal(t, []any{3, ""}, []any{code, out})
	assert.Regexp(t, `\ntroupe: login cancelled: no provider was chosen; name one: troupe login PROVIDER\n$`, errs)
	out, errs, code = p.RunOnce("", "login", "anthropic", "--api-key")
	assert.Equal(t, []any{3, ""}, []any{code, out})
	assert.Regexp(t, `troupe: The login of anthropic was cancelled\n$`, errs)
}
