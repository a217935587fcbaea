package policy

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/tools/realpath"
	"troupe/tools/testenv"
)

func TestMain(m *testing.M) {
	testenv.Isolate()
	os.Exit(m.Run())
}

var place = Place{Cwd: "/w", Home: "/home/u", Own: []string{"/home/u/.pi/agent"}}

func load(t testing.TB, files ...File) *Set {
	t.Helper()
	return Load(place, files...)
}

func text(content string) File { return File{Path: "p.json", Content: []byte(content)} }

func tableRules(t testing.TB) *Set {
	content, err := os.ReadFile("testdata/rules.json")
	require.NoError(t, err)
	s := load(t, File{Path: "rules.json", Content: content})
	require.Empty(t, s.Problems())
	return s
}

func command(text string) Call { return Call{Tool: "bash", Kind: Command, Command: text} }

type row struct{ want, command string }

func table(t testing.TB, file string) (rows []row) {
	content, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	want := ""
	for line := range strings.SplitSeq(string(content), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "allow" || line == "ask" || line == "deny":
			want = line
		default:
			rows = append(rows, row{want, strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(protect(line))})
		}
	}
	return rows
}

// protect keeps escapes that are the shell's own.
func protect(line string) string {
	for _, own := range []string{`'%s\n'`, `gi\t`} {
		line = strings.ReplaceAll(line, own, strings.ReplaceAll(own, `\`, `\\`))
	}
	return line
}

func TestCommands(t *testing.T) {
	s := tableRules(t)
	rows := table(t, "commands.txt")
	require.Greater(t, len(rows), 300)
	for _, r := range rows {
		d := s.Decide(s.Mode(""), command(r.command))
		assert.Equal(t, r.want, d.Verdict.String(), "%q: %s", r.command, d.Why)
		if d.Verdict != Allow {
			assert.NotEmpty(t, d.Why, r.command)
		}
	}
}

// TestAlwaysGrantsWhatItShows: the rules of an answer of "always" allow the command, and
// none with a word more, or another one instead.
func TestAlwaysGrantsWhatItShows(t *testing.T) {
	s := tableRules(t)
	for _, r := range table(t, "commands.txt") {
		d := s.Decide(Confirm, command(r.command))
		if d.Verdict != Ask || len(d.Always) == 0 {
			continue
		}
		require.LessOrEqual(t, len(d.Always), MostAlways)
		granted, err := s.With("session", d.Always...)
		require.NoError(t, err, r.command)
		assert.Equal(t, Allow, granted.Decide(Confirm, command(r.command)).Verdict, "%q with %q", r.command, d.Always)
		others := []string{"rm x", "unheard of", r.command + "; unheard of"}
		if sc := readScript(r.command, ""); len(sc.commands) == 1 && len(sc.writes)+len(sc.reads) == 0 {
			if p, _, _ := sc.commands[0].known(); !p.any {
				others = append(others, r.command+" --output=x --pre=x -exec x -o x")
			}
		}
		for _, other := range others {
			assert.NotEqual(t, Allow, granted.Decide(Confirm, command(other)).Verdict, "%q with %q", other, d.Always)
		}
	}
}

func TestDerivedRules(t *testing.T) {
	for _, c := range []struct {
		command string
		want    []string
		note    string
	}{
		{"git push origin", []string{"bash(git push origin)"}, ""},
		{"git status --short", []string{"bash(git status *)"}, ""},
		{"git status && rm -rf tmp", []string{"bash(git status *)", "bash(rm -rf tmp)"}, ""},
		{"git -c a=b status", []string{"bash(git -c a=b status)"}, ""},
		{"git log --output=x", []string{"bash(git log --output=x)"}, ""},
		{"go list ./...", []string{"bash(go list ./...)"}, ""},
		{"go vet ./...", []string{"bash(go vet ./...)"}, ""},
		{"ls '~'", []string{"bash(ls *)"}, ""},
		{"rm '~'", []string{"bash(rm '~')"}, ""},
		{`rm \~/x`, []string{"bash(rm '~/x')"}, ""},
		{"rm ~/x", []string{"bash(rm ~/x)"}, ""},
		{"rm ~root", nil, ""},
		{"rm '?'", []string{"bash(rm '?')"}, ""},
		{"rm '{a,b}'", []string{"bash(rm '{a,b}')"}, ""},
		{"rm \"[a]\"", []string{"bash(rm '[a]')"}, ""},
		{"rm '*'", nil, ""},
		{"[ -f a ]", []string{"bash([ -f a ])"}, ""},
		{"cd src && git status", nil, ""},
		{"env A=b ls", []string{"bash(env A=b ls)"}, ""},
		{"taskset 1 ls", []string{"bash(taskset 1 ls)"}, ""},
		{"git log --output=x a", []string{"bash(git log --output=x a)"}, ""},
		{"go test ./...", []string{"bash(go test ./...)"}, "go test runs the project's code"},
		{"npm run build", []string{"bash(npm run build)"}, "npm runs the project's code"},
		{"rm *.o", nil, ""},
		{"rm $X", nil, ""},
		{"a; b; c; d; e", []string{"bash(a)", "bash(b)", "bash(c)", "bash(d)", "bash(e)"}, ""},
		{"a; b; c; d; e; f", nil, ""},
		{"echo $(a)", nil, ""},
		{"a > /w/x", []string{"bash(a)", "Edit(//w/x)"}, ""},
		{"sudo rm x", []string{"bash(sudo rm x)"}, ""},
	} {
		d := load(t).Decide(Confirm, command(c.command))
		assert.Equal(t, Ask, d.Verdict, c.command)
		assert.Equal(t, c.want, d.Always, c.command)
		assert.Equal(t, c.note, d.Note, c.command)
	}
}

// reachRules have a star for the arguments of each program in reach.txt.
func reachRules(t testing.TB) *Set {
	var list []string
	for head := range strings.FieldsSeq(`sed awk gawk uniq xxd find sort tar split curl git env xargs sudo rsync man less vim ssh make diff sqlite3
		watch bash sh ls pwd taskset chrt setarch linux64 prlimit setpriv nsenter runuser ssh-agent start-stop-daemon gcc iconv sdiff ss gpg openssl
		patch ptx wget ip apt-get gofmt npm cargo pytest go rg zip date tree file cp diff nice nohup timeout stdbuf setsid grep mawk`) {
		list = append(list, "Bash("+head+" *)")
	}
	content, err := json.Marshal(map[string][]string{"allow": list})
	require.NoError(t, err)
	return load(t, text(string(content)))
}

// TestStarsReachNoOtherProgram: a star in a rule stands for no argument by which a program
// starts another one that no rule names, or writes where it usually does not. What the
// commands do is seen in a directory: those that are allowed make no canary there, with
// whatever of the programs this machine has.
func TestStarsReachNoOtherProgram(t *testing.T) {
	s := reachRules(t)
	var sung atomic.Int64
	t.Run("commands", func(t *testing.T) {
		for _, r := range table(t, "reach.txt") {
			d := s.Decide(Confirm, command(r.command))
			assert.Equal(t, r.want, d.Verdict.String(), "%q: %s", r.command, d.Why)
			head, _, _ := strings.Cut(r.command, " ")
			// These need a person or another machine, or change this one: its clock, its packages.
			if strings.Contains(" sudo ssh vim less man watch apt-get date prlimit setpriv nsenter ip start-stop-daemon ", " "+head+" ") || strings.Contains(r.command, "$X") {
				continue
			}
			t.Run(head, func(t *testing.T) {
				t.Parallel() // an ssh-agent takes ten seconds to notice that its command has ended
				if runInDirectory(t, r.command) {
					sung.Add(1)
					assert.NotEqual(t, Allow, d.Verdict, "%q has reached further than its rule", r.command)
				}
			})
		}
	})
	assert.Greater(t, sung.Load(), int64(30), "the canaries are not seen")
}

// runInDirectory runs a command and reports whether it has made the canary.
func runInDirectory(t *testing.T, command string) (sings bool) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "src"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a / b\nb\n"), 0o600))
	cmd := exec.Command("/bin/bash", "-c", "ulimit -t 5; "+command)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, strings.NewReader("a\n")
	runAll(t, cmd) // many of them fail
	_, err := os.Stat(filepath.Join(dir, "canary"))
	return err == nil
}

// TestStarsBehindWhatIsNamed: what a rule names itself is allowed, as often as it names it.
func TestStarsBehindWhatIsNamed(t *testing.T) {
	for _, c := range []struct{ rule, allowed, asked string }{
		{"sed -i *", "sed -i s/a/b/ x", "sed -i 1e x"},
		{"sort -o out *", "sort -o out a", "sort -o out -o other a"},
		{"git -c a=b log *", "git -c a=b log", "git -c a=b log -c core.pager=x"},
		{"find . -exec grep *", `find . -exec grep x {} \;`, `find . -exec grep x {} \; -exec rm {} \;`},
		{"xargs *", "xargs ls", "xargs git log"},
		{"xargs grep *", "xargs grep x", "xargs -n 1 rm grep x"},
		{"sudo apt update *", "sudo apt update", "sudo apt update -o x"},
		{"sudo apt **", "sudo apt update -o x", "sudo -u x apt update"},
		{"env *", "env LC_ALL=C ls", "env rm x"},
		{"env A=b *", "env A=b", "env A=b ls"},
		{"mytool run *", "mytool run", "mytool run x"},
		{"mytool run **", "mytool run --x y", "mytool x"},
		{"npm run test -- *", "npm run test --", "npm run test -- --x"},
		{"sed 1e", "sed 1e", "sed 1e x"},
		{"curl -o out **", "curl -o out http://x", "curl -K x"},
	} {
		s := load(t, text(`{"allow": ["Bash(`+c.rule+`)", "Bash(ls *)", "Bash(git log *)"]}`))
		assert.Equal(t, Allow, s.Decide(Confirm, command(c.allowed)).Verdict, "%s: %s", c.rule, c.allowed)
		assert.Equal(t, Ask, s.Decide(Confirm, command(c.asked)).Verdict, "%s: %s", c.rule, c.asked)
	}
}

func TestModes(t *testing.T) {
	calls := map[string]Call{
		"read inside":  {Tool: "read", Kind: Read, Paths: []string{"/w/a"}},
		"read outside": {Tool: "read", Kind: Read, Paths: []string{"/etc/hosts"}},
		"edit inside":  {Tool: "edit", Kind: Edit, Paths: []string{"/w/a"}},
		"edit outside": {Tool: "write", Kind: Edit, Paths: []string{"/tmp/a"}},
		"command":      command("ls"),
		"other":        {Tool: "deploy"},
		"own":          {Tool: "todo", Kind: Own},
	}
	want := map[Mode]map[string]Verdict{
		Auto:     {"read inside": Allow, "read outside": Allow, "edit inside": Allow, "edit outside": Allow, "command": Allow, "other": Allow, "own": Allow},
		Edits:    {"read inside": Allow, "read outside": Allow, "edit inside": Allow, "edit outside": Ask, "command": Ask, "other": Ask, "own": Allow},
		Confirm:  {"read inside": Allow, "read outside": Ask, "edit inside": Ask, "edit outside": Ask, "command": Ask, "other": Ask, "own": Allow},
		ReadOnly: {"read inside": Allow, "read outside": Deny, "edit inside": Deny, "edit outside": Deny, "command": Deny, "other": Deny, "own": Allow},
	}
	for mode, verdicts := range want {
		for name, verdict := range verdicts {
			assert.Equal(t, verdict, load(t).Decide(mode, calls[name]).Verdict, "%s: %s", mode, name)
		}
	}
	assert.Equal(t, Ask, (*Set)(nil).Decide("sometimes", command("ls")).Verdict, "a mode that nobody knows")
	s := load(t, text(`{"allow": ["Edit(/**)", "Bash(ls)"]}`))
	assert.Equal(t, Deny, s.Decide(ReadOnly, calls["edit inside"]).Verdict, "readonly edits nothing, whatever a rule says")
	assert.Equal(t, Deny, s.Decide(ReadOnly, command("ls > x")).Verdict)
	assert.Equal(t, Allow, s.Decide(ReadOnly, command("ls")).Verdict)
}

func TestAutoObeysRules(t *testing.T) {
	s := load(t, text(`{"deny": ["Bash(rm *)"], "ask": ["deploy"]}`))
	for command_, want := range map[string]Verdict{
		"ls": Allow, "rm x": Deny, "x=$(rm x)": Deny, "$X": Ask, "eval $X": Ask, "echo $(ls)": Allow, "ls (": Ask, "echo a > /etc/x": Allow,
		strings.Repeat("a ", 40_000): Ask,
	} {
		assert.Equal(t, want, s.Decide(Auto, command(command_)).Verdict, "%.40s", command_)
	}
	assert.Equal(t, Ask, s.Decide(Auto, Call{Tool: "deploy"}).Verdict)
	for shell, want := range map[string]Verdict{"/bin/bash": Deny, "/usr/bin/zsh": Ask, "fish": Ask, "sh": Deny} {
		c := command("rm x")
		c.Shell = shell
		assert.Equal(t, want, s.Decide(Auto, c).Verdict, shell)
	}
}

// TestDeniedStaysDenied: in mode auto a command that is denied does not run unasked, wherever
// in a text the shell finds it.
func TestDeniedStaysDenied(t *testing.T) {
	s := load(t, text(`{"deny": ["Bash(touch *)"]}`))
	hides := 0
	for _, r := range table(t, "commands.txt") {
		if strings.Contains(r.command, "touch M") {
			hides++
			assert.NotEqual(t, Allow, s.Decide(Auto, command(r.command)).Verdict, r.command)
		}
	}
	assert.Greater(t, hides, 25)
	for _, c := range []string{
		`set -- -v 'a[$(touch M)]'; test "$@"`, `x=${y:-<(touch M)}`, "echo $(( ${x:-'$(touch M)'} ))", `x='a[$(touch M)]'; echo $((x))`,
		`x='a[$(touch M)]'; [[ $x -eq 1 ]]`, `read 'a[$(touch M)]'`, `unset 'a[$(touch M)]'`, `printf -v 'a[$(touch M)]' x`, `declare 'a[$(touch M)]=1'`,
		`x=a\[\$\(touch\ M\)\]; ((x))`, `mapfile -C 'touch M' -c 1 a`, `compgen -C 'touch M'`, `hash -p /bin/touch foo; foo M`, `x='$(touch M)'; test "$x" "$x"`,
	} {
		assert.NotEqual(t, Allow, s.Decide(Auto, command(c)).Verdict, c)
	}
	for _, c := range []string{`i=0; i=$((i+1)); echo $i`, `awk '{print $(NF)}' a`, `export PATH=$PATH:/x; ls`, `[ "$x" = "$y" ]`, `test -n "$x" -a -n "$y"`, `while read x; do echo "$x"; done < a`} {
		assert.Equal(t, Allow, s.Decide(Auto, command(c)).Verdict, c)
	}
}

// TestLimitsOfRedirections: in mode auto rules about files hold for redirections of which it
// is not known where they lead, and in each directory that a cd may have led to.
func TestLimitsOfRedirections(t *testing.T) {
	s := load(t, text(`{"deny": ["Edit(//root/**)", "Edit(/out/locked/**)", "Read(//etc/shadow)"]}`))
	for c, want := range map[string]Verdict{
		"echo a > ~root/x": Ask, "echo a > ~+/../root/x": Ask, "cat < ~root/x": Ask, "echo a > '~root/x'": Allow, `echo a > \~root/x`: Allow,
		"echo a > $X": Ask, "cat < $X": Ask, "echo a > /root/x": Deny, "echo a > ~/x": Allow, "HOME=/root; echo a > ~/x": Ask, "read HOME; echo a > ~/x": Ask,
		"cd out; echo a > locked/x": Deny, "cd out/locked; echo a > x": Deny, "cd /root; echo a > x": Deny, "cd /etc && cat < shadow": Deny, "cd ~root; echo a > x": Ask,
		"pushd /root; echo a > x": Ask, "cd src; echo a > x": Allow, "cd -; echo a > x": Ask, "for d in a b; do cd ..; done; echo a > x": Ask, "f() { cd ..; }; f; f; echo a > root/x": Ask,
		"env -C /root sh -c 'echo a > x'": Ask, "echo a > /dev/null": Allow, "sh -c 'cd /root; echo a > x'": Deny, "CDPATH=/; cd root; echo a > x": Ask,
	} {
		assert.Equal(t, want, s.Decide(Auto, command(c)).Verdict, c)
	}
	assert.Equal(t, Allow, load(t).Decide(Auto, command("echo a > ~root/x")).Verdict)
	assert.Contains(t, load(t, text(`{"deny": ["Read(~root/**)"]}`)).Problems()[0], "whose home directory")
	assert.Contains(t, load(t, text(`{"allow": ["Bash(mytool *)"]}`)).Problems()[0], "allows no more than its own words")
	assert.Empty(t, load(t, text(`{"allow": ["Bash(mytool **)", "Bash(git *)", "Bash(git log *)", "Bash(env *)", "Bash(* --version)", "Bash(ls)"], "deny": ["Bash(mytool *)"]}`)).Problems())
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		rules, tool, path string
		want              Verdict
	}{
		{`{"deny": ["Read(.env)"]}`, "read", "/w/.env", Deny},
		{`{"deny": ["Read(.env)"]}`, "read", "/w/a/b/.env", Deny},
		{`{"deny": ["Read(.env)"]}`, "grep", "/w/a/.env", Deny},
		{`{"deny": ["Read(.env)"]}`, "read", "/other/.env", Ask},
		{`{"deny": ["Read(.env)"]}`, "edit", "/w/.env", Ask},
		{`{"deny": ["Read(secrets/)"]}`, "read", "/w/secrets/a", Deny},
		{`{"deny": ["Read(/secrets/**)"]}`, "read", "/w/secrets/a/b", Deny},
		{`{"deny": ["Read(/etc/**)"]}`, "read", "/etc/hosts", Deny}, // meant for the root or for the project: it limits
		{`{"allow": ["Read(/etc/**)"]}`, "read", "/etc/hosts", Ask},
		{`{"allow": ["Read(//etc/**)"]}`, "read", "/etc/hosts", Allow},
		{`{"allow": ["Read(//etc)"]}`, "ls", "/etc/a/b", Allow},
		{`{"allow": ["Read(~/notes/**)"]}`, "read", "/home/u/notes/a", Allow},
		{`{"allow": ["Read(~/notes/**)"]}`, "read", "/home/u/notesx/a", Ask},
		{`{"allow": ["Edit(src/**)"]}`, "edit", "/w/src/a/b.go", Allow},
		{`{"allow": ["Edit(src/**)"]}`, "write", "/w/src/a/b.go", Allow},
		{`{"allow": ["Edit(src/**)"]}`, "edit", "/w/x/src/a", Ask},
		{`{"allow": ["Edit(src/*.go)"]}`, "edit", "/w/src/a.go", Allow},
		{`{"allow": ["Edit(src/*.go)"]}`, "edit", "/w/src/x/a.go", Ask},
		{`{"allow": ["Edit(*.go)"]}`, "edit", "/w/src/x/a.go", Allow},
		{`{"allow": ["Edit(../**)"]}`, "edit", "/x/a", Allow},
		{`{"allow": ["Edit({a,b})"]}`, "edit", "/w/a", Ask},
		{`{"allow": ["Edit"]}`, "edit", "/anywhere", Allow},
		{`{"allow": ["Edit"]}`, "edit", "/home/u/.ssh/config", Deny},
		{`{"allow": ["Edit(~/.ssh/**)"]}`, "edit", "/home/u/.ssh/config", Deny},
		{`{"allow": ["Edit(~/.ssh/config)"]}`, "edit", "/home/u/.ssh/config", Allow},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/.git/hooks/pre-commit", Deny},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/sub/.git/config", Deny},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/.pi/extensions/a.ts", Deny},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/.git/commondir", Deny},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/.git/config.worktree", Deny},
		{`{"allow": ["Edit(/**)"]}`, "edit", "/w/.git/modules/x/config", Deny},
		{`{"allow": ["Edit(/**)"]}`, "write", "/w/sub/.git", Deny},
		{`{"allow": ["Edit(/**)"]}`, "write", "/w/.gitignore", Allow},
		{`{"allow": ["Edit(/.git/hooks/pre-commit)"]}`, "edit", "/w/.git/hooks/pre-commit", Allow},
		{`{"allow": ["Edit(~/**)"]}`, "edit", "/home/u/.pi/agent/permissions.json", Deny},
		{`{"allow": ["Read(~/**)"]}`, "read", "/home/u/.ssh/id_rsa", Ask},
		{`{"allow": ["Read(~/.ssh/id_rsa)"]}`, "read", "/home/u/.ssh/id_rsa", Allow},
		{`{}`, "read", "/w/server.pem", Ask},
		{`{}`, "read", "/w/a/.env", Ask},
		{`{}`, "read", "/w/.env.production", Ask},
		{`{}`, "read", "/w/.env.example", Allow},
		{`{}`, "read", "/w/.npmrc", Ask},
		{`{"allow": ["Read(~/**)"]}`, "read", "/home/u/.pi/agent/models.json", Ask},
		{`{"allow": ["Read(~/**)"]}`, "read", "/home/u/.pi/agent/troupe/serve/devices.json", Ask},
		{`{"allow": ["Read(~/**)"]}`, "read", "/home/u/.pi/agent/AGENTS.md", Allow},
		{`{"allow": ["Edit(/**)"]}`, "write", "/w/.env", Ask},
		{`{"allow": ["Edit(/.env)"]}`, "write", "/w/.env", Allow},
		{`{"allow": ["Edit(/**)"], "ask": ["Edit(go.mod)"]}`, "edit", "/w/go.mod", Ask},
		{`{"allow": ["Edit(/**)"], "ask": ["Edit(go.mod)"], "deny": ["Edit(*.mod)"]}`, "edit", "/w/go.mod", Deny},
		{`{"deny": ["Write(a)"]}`, "write", "/w/a", Deny},
		{`{"allow": ["Write(a)"]}`, "write", "/w/a", Ask},
	} {
		kind := Read
		if c.tool == "edit" || c.tool == "write" {
			kind = Edit
		}
		d := load(t, text(c.rules)).Decide(Confirm, Call{Tool: c.tool, Kind: kind, Paths: []string{c.path}})
		assert.Equal(t, c.want, d.Verdict, "%s: %s %s: %s", c.rules, c.tool, c.path, d.Why)
	}
}

func TestLinksAreFollowed(t *testing.T) {
	p := place
	p.Real = func(path string) (string, bool) {
		switch {
		case path == "/w/link":
			return "/etc/shadow", true
		case path == "/w":
			return "/real/w", true
		case strings.HasPrefix(path, "/w/"):
			return "/real" + path, true
		}
		return path, true
	}
	read := func(path string) Call { return Call{Tool: "read", Kind: Read, Paths: []string{path}} }
	edit := func(path string) Call { return Call{Tool: "edit", Kind: Edit, Paths: []string{path}} }
	s := Load(p, text(`{"allow": ["Edit(src/**)"], "deny": ["Read(//etc/shadow)", "Edit(locked)"]}`))
	assert.Equal(t, Allow, s.Decide(Confirm, read("/w/a")).Verdict, "the working directory is a link")
	assert.Equal(t, Deny, s.Decide(Confirm, read("/w/link")).Verdict)
	assert.Equal(t, Allow, s.Decide(Confirm, edit("/w/src/a")).Verdict)
	assert.Equal(t, Deny, s.Decide(Confirm, edit("/w/locked")).Verdict)
	assert.Equal(t, Ask, Load(p).Decide(Edits, edit("/w/link")).Verdict, "in the working directory only by name")
}

// TestLinksBeforeDots: a path leads where the kernel finds it.
func TestLinksBeforeDots(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := Place{Cwd: filepath.Join(top, "w"), Home: filepath.Join(top, "home"), Real: realpath.Resolve, Exists: realpath.Exists}
	for _, dir := range []string{"w/.git/hooks", "w/src/lib", "home", "out/deep"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o700))
	}
	for name, target := range map[string]string{"hooks": ".git/hooks", "link": "../out/deep", "in": "src/lib", "loop": "loop", "src/up": "../../out", "nowhere": "../out/deep/../new"} {
		require.NoError(t, os.Symlink(target, filepath.Join(p.Cwd, name)))
	}
	s := Load(p, text(`{"allow": ["Bash(ls *)", "Bash(git status)", "Bash(hg status)"]}`))
	for c, want := range map[string]Verdict{
		"> src/rc": Allow, "> link/../rc": Ask, "> in/../rc": Allow, ">> hooks/../config": Deny, "> nowhere": Ask, "> loop/x": Ask, "> src/up/x": Ask,
		"cat < link/../rc": Ask, "ls > in/../../x": Allow, "> in/../../../x": Ask, "> none/../rc": Allow, "> ~/x": Ask, "> '~/x'": Allow, "> ~root/x": Ask,
		"cd link; ls": Ask, "cd link/.. && ls": Ask, "cd -P link/.. && ls": Ask, "cd in/.. && ls": Allow, "cd src; cd up; ls": Ask, "cd src && cd lib && ls": Allow,
		"cd in && ls": Allow, "cd in; > ../x": Ask, "cd . && git status": Allow, "cd in && git status": Ask, "hg status": Allow, "cd in; hg status": Ask, "cd loop; ls": Ask, "> /proc/self/cwd/../x": Ask, "> /dev/fd/1": Ask,
	} {
		d := s.Decide(Edits, command(c))
		assert.Equal(t, want, d.Verdict, "%s: %s", c, d.Why)
	}
	limits := Load(p, text(`{"deny": ["Edit(/link/**)", "Read(/hooks)"]}`))
	assert.Equal(t, Deny, limits.Decide(Auto, Call{Tool: "write", Kind: Edit, Paths: []string{filepath.Join(top, "out/deep/x")}}).Verdict, "by another name")
	assert.Equal(t, Deny, limits.Decide(Auto, command("> link/../deep/x")).Verdict)
	assert.Equal(t, Ask, limits.Decide(Auto, command("> loop/x")).Verdict)
	assert.Equal(t, Deny, limits.Decide(Auto, command("cat < .git/hooks/a")).Verdict)
}

// TestRepositoriesOfAnyName: what git takes for a repository is edited like .git, and a rule
// for git does not apply in another directory.
func TestRepositoriesOfAnyName(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := Place{Cwd: top, Home: "/home/u", Real: realpath.Resolve, Exists: realpath.Exists,
		Programs: func() []string { return []string{filepath.Join(top, "ext/main.ts"), filepath.Join(top, "pack")} }}
	for _, name := range []string{"bare/HEAD", "bare/objects/", "bare/refs/", "tree/HEAD", "tree/commondir", "half/objects/", "half/refs/", "new/HEAD", "new/objects/", "plain/HEAD", "plain/refs/", ".git/HEAD"} {
		at := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(at, 0o700))
		} else {
			require.NoError(t, os.WriteFile(at, nil, 0o600))
		}
	}
	for name, want := range map[string]Verdict{
		"bare/config": Deny, "bare/hooks/x": Deny, "bare/a": Deny, "tree/config": Deny, "tree/gitdir": Deny, "half/config": Deny, "half/hooks/pre-commit": Deny, "half/readme": Allow, "half/HEAD": Deny,
		"half/commondir": Deny, "new/refs/x": Deny, "new/commondir": Deny, "new/config": Allow, "plain/a": Allow, "plain/objects/x": Deny, "a": Allow, "HEAD": Allow, "x/y": Allow,
		".GIT/config": Deny, "x/.hg/hgrc": Deny, ".jj/repo/config.toml": Deny, ".omp/extensions/a.ts": Deny, ".pi/settings.json": Deny,
		"ext/main.ts": Deny, "ext/other.txt": Allow, "pack/index.ts": Deny, "pack": Deny,
	} {
		d := Load(p).Decide(Edits, Call{Tool: "write", Kind: Edit, Paths: []string{filepath.Join(top, name)}})
		assert.Equal(t, want, d.Verdict, "%s: %s", name, d.Why)
		assert.Equal(t, want, Load(p).Decide(Edits, command("> "+name)).Verdict, name)
	}
	status := func(dir string) Verdict {
		p.Cwd = filepath.Join(top, dir)
		return Load(p, text(`{"allow": ["Bash(git status *)"]}`)).Decide(Edits, command("git status")).Verdict
	}
	assert.Equal(t, Allow, status("."))
	assert.Equal(t, Allow, status("plain"))
	assert.Equal(t, Ask, status("bare"))
	assert.Equal(t, Ask, status("tree"))
	assert.Equal(t, Ask, status("bare/objects"))
}

func TestToolRules(t *testing.T) {
	for _, c := range []struct {
		rules, tool string
		want        Verdict
	}{
		{`{"allow": ["deploy"]}`, "deploy", Allow},
		{`{"allow": ["deploy"]}`, "deploy2", Ask},
		{`{"allow": ["mcp__db"]}`, "mcp__db__query", Allow},
		{`{"allow": ["mcp__db__*"]}`, "mcp__db__query", Allow},
		{`{"allow": ["mcp__db__query"]}`, "mcp__db__drop", Ask},
		{`{"allow": ["mcp__db"]}`, "mcp__dbx__query", Ask},
		{`{"allow": ["mcp__db"], "deny": ["mcp__db__drop"]}`, "mcp__db__drop", Deny},
	} {
		assert.Equal(t, c.want, load(t, text(c.rules)).Decide(Confirm, Call{Tool: c.tool}).Verdict, "%s %s", c.rules, c.tool)
	}
	assert.Equal(t, []string{"deploy"}, (*Set)(nil).Decide(Confirm, Call{Tool: "deploy"}).Always)
}

// TestBrokenFilesFailClosed: nothing is allowed by rules, what would run asks, and what is
// denied stays so.
func TestBrokenFilesFailClosed(t *testing.T) {
	good := text(`{"mode": "auto", "allow": ["Bash(ls)"], "deny": ["Bash(rm *)"]}`)
	for _, broken := range []string{
		``, `[]`, `{`, `{"mode": "loose"}`, `{"mode": 1}`, `{"allow": "Bash"}`, `{"allow": [1]}`, `{"allow": ["Bash(ls"]}`, `{"deny": ["Bash()"]}`,
		`{"deny": [""]}`, `{"deny": ["rm -rf"]}`, `{"alow": []}`, `{"mode": "auto", "mode": "ask"}`, `{"sandbox": "on"}`, `{"sandboxNetwork": false}`,
	} {
		for _, tightens := range []bool{false, true} {
			s := load(t, good, File{Path: "broken.json", Content: []byte(broken), Tightens: tightens})
			require.True(t, s.Broken(), broken)
			require.NotEmpty(t, s.Problems())
			require.Contains(t, s.Problems()[0], "broken.json")
			assert.Equal(t, Ask, s.Decide(Auto, command("ls")).Verdict, broken)
			assert.Equal(t, Deny, s.Decide(Auto, command("rm x")).Verdict, broken)
			assert.Equal(t, Deny, s.Decide(ReadOnly, command("ls")).Verdict, broken)
		}
	}
	assert.True(t, load(t, File{Path: "p.json", Err: os.ErrPermission}).Broken())
}

func TestProjectsOnlyTighten(t *testing.T) {
	project := File{Path: "project.json", Tightens: true, Content: []byte(`{"mode": "auto", "allow": ["Bash"], "ask": ["Bash(ls)"], "deny": ["Bash(rm *)"], "sandbox": "off"}`)}
	s := load(t, text(`{"mode": "ask", "sandbox": "workspace"}`), project)
	assert.False(t, s.Broken())
	assert.Equal(t, Confirm, s.Mode(""))
	assert.Equal(t, "workspace", s.Sandbox().Files)
	assert.Equal(t, Ask, s.Decide(Confirm, command("date")).Verdict)
	assert.Equal(t, Deny, s.Decide(Confirm, command("rm x")).Verdict)
	require.Len(t, s.Problems(), 1)
	assert.Contains(t, s.Problems()[0], "project.json:1: allow does not count")
	project.Content = []byte(`{"mode": "readonly", "sandbox": "readonly", "sandboxNetwork": "off"}`)
	s = load(t, text(`{"mode": "ask"}`), project)
	assert.Equal(t, ReadOnly, s.Mode(Auto), "stricter than the command line, too")
	assert.Equal(t, Sandbox{"readonly", "off"}, s.Sandbox())
}

func TestRulesThatMatchNothingAreNamed(t *testing.T) {
	p := place
	p.Tools = []string{"read", "bash", "edit", "write", "grep", "find", "ls"}
	s := Load(p, text(`{
  "allow": [
    "WebFetch(domain:example.com)",
    "NotebookEdit",
    "Edit([)",
    "Write(a)",
    "mcp__x__y", "Glob", "LS(src)", "Bash(ls)"
  ]
}`))
	require.False(t, s.Broken())
	require.Len(t, s.Problems(), 4)
	for i, want := range []string{"p.json:3: rule WebFetch", "p.json:4: rule NotebookEdit", "p.json:5: rule Edit([)", "p.json:6: rule Write(a)"} {
		assert.Contains(t, s.Problems()[i], want)
	}
	assert.Len(t, s.Rules(), 8, "they are kept")
}

// named are the programs that the rules of the table let start.
var named = map[string]bool{
	"git": true, "ls": true, "echo": true, "go": true, "rg": true, "find": true, "sort": true, "cat": true, "wc": true, "head": true, "npm": true,
	"./build.sh": true, "make": true, "test": true, "[": true, "grep": true, "printf": true, "tar": true, "pwd": true, "date": true, "mkdir": true,
	// these are looked through: what they start is named
	"timeout": true, "nice": true, "nohup": true, "stdbuf": true, "setsid": true,
}

// started runs a command in a shell that has no programs and notes which ones it looks
// for, with their arguments.
func started(t testing.TB, command string) (list [][]string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "policy") // one of t's would live as long as a fuzz target
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	log, env := filepath.Join(dir, "log"), filepath.Join(dir, "env")
	work := filepath.Join(dir, "w")
	require.NoError(t, os.MkdirAll(filepath.Join(work, "src", "lib"), 0o700))
	spy := `command_not_found_handle() { printf '%s\0' "$@" $'\n' >> ` + log + `.$BASHPID; }` + "\n"
	require.NoError(t, os.WriteFile(env, []byte(spy), 0o600))
	cmd := exec.Command("/bin/bash", "-c", command)
	cmd.Dir, cmd.Env = work, []string{"PATH=" + filepath.Join(dir, "none"), "BASH_ENV=" + env, "HOME=" + work}
	runAll(t, cmd)                         // it fails: there are no programs
	logs, err := filepath.Glob(log + ".*") // of each process one
	require.NoError(t, err)
	var content []byte
	for _, name := range logs {
		one, err := os.ReadFile(name)
		require.NoError(t, err)
		content = append(content, one...)
	}
	for line := range strings.SplitSeq(string(content), "\n\x00") {
		if line != "" {
			list = append(list, strings.Split(strings.TrimSuffix(line, "\x00"), "\x00"))
		}
	}
	return list
}

// maxRun is after what time the processes of a command that loops are killed.
const maxRun = 20 * time.Second

// runAll runs a command, and returns when all the processes have ended that it has started, in the
// background too.
func runAll(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w} // each process inherits it: it is closed when the last one ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	require.NoError(t, err)
	timer := time.AfterFunc(maxRun, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	_ = cmd.Wait() // its exit code says nothing here
}

// checkStarted runs what was allowed and holds it to the rules.
func checkStarted(t testing.TB, s *Set, text string) {
	t.Helper()
	for _, argv := range started(t, text) {
		ok := named[argv[0]] || strings.HasPrefix(argv[0], "xyz") || len(argv) > 1 && argv[len(argv)-1] == "--version"
		require.True(t, ok, "%q starts %q", text, argv)
		c := simple{}
		for _, arg := range argv {
			c.words = append(c.words, word{value: arg})
		}
		if _, _, known := c.known(); known && argv[0] != "make" && argv[0] != "npm" && argv[0] != "tar" {
			require.True(t, c.harmlessBut(strings.Fields("commit -m -p")), "%q starts %q", text, argv)
		}
	}
}

func TestAllowedCommandsStartWhatIsNamed(t *testing.T) {
	s := tableRules(t)
	for _, r := range table(t, "commands.txt") {
		if r.want == "allow" && !strings.Contains(r.command, "while") && !strings.Contains(r.command, "until") {
			checkStarted(t, s, r.command)
		}
	}
	require.NotEmpty(t, started(t, "git status"), "the spy sees nothing")
}

// FuzzAllowed: whatever is said to be allowed starts nothing that no rule names.
func FuzzAllowed(f *testing.F) {
	for _, r := range table(f, "commands.txt") {
		f.Add(r.command)
	}
	s := tableRules(f)
	f.Fuzz(func(t *testing.T, text string) {
		d := s.Decide(Confirm, command(text))
		if d.Verdict != Allow {
			return
		}
		if strings.Contains(text, "while") || strings.Contains(text, "until") || strings.Contains(text, "--version") || strings.Contains(text, "xyz") || strings.Contains(text, "/dev/") {
			return // endless, or a rule with a star for the program, or of the outside
		}
		checkStarted(t, s, text)
	})
}

func FuzzRules(f *testing.F) {
	f.Add(`{"allow": ["Bash(ls *)", "Edit(//a/**)"], "mode": "ask"}`, "ls a")
	f.Add(`{"deny": ["Read(~/.ssh/**)", "mcp__a__*"]}`, "$(")
	f.Fuzz(func(t *testing.T, content, text string) {
		s := load(t, File{Path: "p", Content: []byte(content)})
		for _, mode := range Modes {
			for _, c := range []Call{command(text), {Tool: "edit", Kind: Edit, Paths: []string{"/" + text}}, {Tool: text}} {
				if d := s.Decide(mode, c); d.Verdict != Allow && d.Why == "" {
					t.Fatalf("%s %v: no reason", mode, c)
				}
			}
		}
		if !json.Valid([]byte(content)) && !s.Broken() {
			t.Fatal("it is not broken")
		}
	})
}

func manyRules(b testing.TB) *Set {
	var list []string
	for i := range 200 {
		list = append(list, "Bash(tool"+strings.Repeat("x", i%20)+" sub *)")
	}
	content, err := json.Marshal(map[string][]string{"allow": list})
	require.NoError(b, err)
	return load(b, File{Path: "p", Content: content})
}

func BenchmarkDecide(b *testing.B) {
	s := manyRules(b)
	short := command(strings.Repeat("git log -n 5 -- some/file; ", 7))
	long := command(strings.Repeat("echo some words of no great interest here\n", 45))
	big := command("echo " + strings.Repeat("word ", 3_000))
	for name, c := range map[string]Call{"200B": short, "45 commands": long, "15KB": big} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Decide(Confirm, c)
			}
		})
	}
	b.Run("auto", func(b *testing.B) {
		for b.Loop() {
			(*Set)(nil).Decide(Auto, short)
		}
	})
}
