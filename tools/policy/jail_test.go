package policy

import (
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/tools/realpath"
)

var (
	jailed   = flag.Int("policy.jailed", 120, "random commands that TestAllowedCommandsChangeNothing runs")
	jailSeed = flag.Uint64("policy.seed", 1, "of the first of them")
)

// writers write by nature, run the project's code, never end, or set the clock.
var writers = []string{"mkdir", "rmdir", "touch", "cp", "mv", "rm", "ln", "chmod", "tee", "git add", "git commit", "go build", "go test", "go vet", "go list", "go version",
	"npm run", "npm test", "make", "cargo build", "cargo check", "cargo test", "pytest", "sleep", "date"}

// risky are words by which one program or another writes canary, starts touch, or takes its orders from elsewhere.
var risky = []string{"-o", "canary", "-ocanary", "--output=canary", "--output", "--outp=canary", "-exec", "touch", "{}", "\\;", "-delete", "-fprint", "-fls", "-f", "prog", "-fprog", "--file=prog",
	"-i", "-i.bak", "-ni", "--in-place", "-e", "'1e touch canary'", "'w canary'", "'s/a/b/w canary'", "'BEGIN{system(\"touch canary\")}'", "'{print > \"canary\"}'", "'BEGIN{print \"x\" | \"touch canary\"}'",
	"-I", "'touch canary'", "--to-command=touch", "--checkpoint=1", "--checkpoint-action=exec='touch canary'", "--compress-program=./prog", "-Tcanary", "--pre=./prog", "--pre", "./prog", "--hostname-bin=./prog",
	"-z", "--ext-diff", "--textconv", "--open-files-in-pager=touch", "-Otouch", "-c", "core.fsmonitor='touch canary'", "-C", "bare", "--git-dir=bare", "--paginate", "--no-index", "-w", "--w", "-cpuprofile", "-cpuprofile=canary",
	"-r", "-s", "-d", "-m", "-n", "-p", "-v", "a", "b", "src", "'*'", "*", "$X", "\"$X\"", "\"$Y\"", "~root", "'~'", "--", "-", "-5", "-k2", "-t:", "-U3", "'s/a/b/'", "'{print $1}'", "-F:", "HEAD", "x=y", "PATH=.", "-x", "-R", "-L", "1", "-S", "-l", "--format=%G?"}

// randomCommand makes one of programs that a rule allows with a star.
func randomCommand(r *rand.Rand, heads []string) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	head := pick(heads)
	for range 2 {
		if programs[head].any { // others are of more interest
			head = pick(heads)
		}
	}
	p := programs[head]
	words := []string{head}
	for range r.IntN(5) {
		switch r.IntN(6) {
		case 0:
			if letters := p.flags + p.valued; letters != "" {
				words = append(words, "-"+string(letters[r.IntN(len(letters))]))
			}
		case 1:
			if long := strings.Fields(p.long); len(long) > 0 {
				dash := map[bool]string{true: "-", false: "--"}[p.single]
				words = append(words, dash+pick(long))
			}
		case 2, 3:
			words = append(words, pick([]string{"a", "b", "src", "link/../a", "-n", "1"}))
		default:
			words = append(words, pick(risky))
		}
	}
	command := strings.Join(words, " ")
	switch r.IntN(12) {
	case 0:
		command = pick([]string{"nice ", "nice -n 5 ", "timeout 5 ", "nohup ", "setsid ", "stdbuf -oL ", "env ", "env LC_ALL=C ", "nice a=b/c ", "env PATH=. ", "xargs ", "xargs -n 1 ", "ls | xargs "}) + command
	case 1:
		command = pick([]string{"cd src && ", "cd bare; ", "cd link/..; ", "cd -P link/.. && ", "printf 'a%n' PATH; ", "read X <<< -o; ", "PATH=. ", "X=-ocanary; ", "for X in -o; do "}) + command
	case 2:
		command += pick([]string{" | sort -u", " && ls", " > /dev/null", " > canary", " > src/../canary", " < a", "; git status", " | xargs cat", " | awk '{print $1}'"})
	}
	return command
}

// jail makes a directory with a repository, one that is not called .git, links and a program.
func jail(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	for name, content := range map[string]string{
		"w/a": "a b\nb\n", "w/b": "b:1\n", "w/src/c": "c\n", "w/prog": "#!/bin/sh\ntouch canary\n", "w/c": "#!/bin/sh\ntouch canary\n", "out/a": "far\n", "home/x": "",
	} {
		at := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(content), 0o700))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(top, "out/deep"), 0o700))
	require.NoError(t, os.Symlink("../out/deep", filepath.Join(top, "w/link")))
	runJailed(t, top, `git init -q . && git add a b && git -c user.name=a -c user.email=a commit -qm x && git init -q --bare bare &&
		printf '[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch canary; false\n' >> bare/config; git status >/dev/null`)
	return top
}

func runJailed(t testing.TB, top, command string) {
	t.Helper()
	cmd := exec.Command("/bin/bash", "-c", "ulimit -t 5 -f 20000; "+command)
	cmd.Dir, cmd.Stdin = filepath.Join(top, "w"), strings.NewReader("a\n")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(top, "home"), "X=-ocanary", "Y=--output=canary", "GIT_CONFIG_NOSYSTEM=1"}
	runAll(t, cmd)
}

// snapshot is what lies in a directory, but for what git notes of files that it has looked at.
func snapshot(t testing.TB, top string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(path, ".git/index") || strings.HasSuffix(path, "nohup.out") || strings.Contains(path, "home/.config") { // gofmt counts that it has run
			return err
		}
		info, err := e.Info()
		found[path] = info.Mode().String()
		if err == nil && info.Mode().IsRegular() {
			content, _ := os.ReadFile(path)
			found[path] += string(content)
		}
		return err
	}))
	return found
}

// TestAllowedCommandsChangeNothing runs random commands that rules with a star allow: none
// changes a file. Rules and commands are about programs that only read.
func TestAllowedCommandsChangeNothing(t *testing.T) {
	var heads, rules []string
	for name := range programs {
		if !slices.Contains(writers, name) {
			heads = append(heads, name)
		}
	}
	slices.Sort(heads)
	for _, head := range append([]string{"nice", "nohup", "timeout", "stdbuf", "setsid", "env", "xargs"}, heads...) {
		rules = append(rules, "Bash("+head+" *)")
	}
	content, err := json.Marshal(map[string][]string{"allow": rules})
	require.NoError(t, err)
	top := jail(t)
	p := Place{Cwd: filepath.Join(top, "w"), Home: filepath.Join(top, "home"), Real: realpath.Resolve, Exists: realpath.Exists}
	s := Load(p, text(string(content)))
	require.Empty(t, s.Problems())
	before := snapshot(t, top)
	ran, asked := 0, 0
	for seed := *jailSeed; ran < *jailed; seed++ {
		command_ := randomCommand(rand.New(rand.NewPCG(seed, 2)), heads)
		if strings.HasPrefix(command_, "tail") && strings.Contains(command_, "-") {
			continue // it may follow the file
		}
		if s.Decide(Confirm, command(command_)).Verdict != Allow {
			asked++
			continue
		}
		ran++
		runJailed(t, top, command_)
		if after := snapshot(t, top); !maps.Equal(before, after) {
			for name := range after {
				if before[name] != after[name] {
					t.Errorf("seed %d: %s has changed %s", seed, command_, name)
				}
			}
			top = jail(t) // the next ones are told apart
			p.Cwd, p.Home = filepath.Join(top, "w"), filepath.Join(top, "home")
			s = Load(p, text(string(content)))
			before = snapshot(t, top)
		}
	}
	assert.Greater(t, asked, ran/4, "the random commands are too tame")
}
