package tools

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"troupe/protocol"
)

// sandboxed is an environment in a workspace, with a directory beside it that is none of
// the temporary ones.
func sandboxed(t testing.TB, s Sandbox) (env *Env, outside string) {
	t.Helper()
	require.NoError(t, Sandbox{Files: SandboxWorkspace, NoNetwork: true}.Check(), "these tests need Linux 6.2")
	root, usual := t.TempDir(), temporary // which are where we are
	temporary = nil
	t.Setenv("TMPDIR", filepath.Join(root, "tmp"))
	t.Cleanup(func() { temporary = usual })
	work, outside := filepath.Join(root, "work"), filepath.Join(root, "outside")
	require.NoError(t, os.Mkdir(os.TempDir(), 0o700))
	for _, dir := range []string{work, outside} {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("old"), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(work, "link")))
	s.Workspace = work
	return &Env{Cwd: work, Home: root, Environ: os.Environ(), Files: new(Files), Sandbox: s}, outside
}

func runIn(t testing.TB, env *Env, command string) ExecResult {
	t.Helper()
	res, err := Exec(t.Context(), ExecSpec{Env: env, Command: command})
	require.NoError(t, err)
	return res
}

// TestSandboxWrites: every way to change something outside fails in both sandboxes, and in
// the workspace only where nothing may be written.
func TestSandboxWrites(t *testing.T) {
	ways := []string{
		"echo new > DIR/file", "echo new >> DIR/file", ": > DIR/file", "truncate -s 0 DIR/file", "rm DIR/file", "mv DIR/file DIR/other",
		"ln DIR/file DIR/hard", "ln -s x DIR/soft", "mkdir DIR/sub", "mkfifo DIR/pipe", "touch DIR/fresh", "cp DIR/file DIR/copy",
		"bash -c 'echo new > DIR/file'", "setsid -w sh -c 'echo new > DIR/file'", "(cd DIR && echo new > file)", "env -i /bin/sh -c 'echo new > DIR/file'",
	}
	for _, files := range []SandboxFiles{SandboxOff, SandboxWorkspace, SandboxReadOnly} {
		for _, way := range ways {
			env, outside := sandboxed(t, Sandbox{Files: files})
			inside := runIn(t, env, strings.ReplaceAll(way, "DIR", env.Cwd))
			assert.Equal(t, files != SandboxReadOnly, inside.ExitCode == 0, "%s: in the workspace: %s: %s", files, way, inside.Output.Content)
			beyond := runIn(t, env, strings.ReplaceAll(way, "DIR", outside))
			assert.Equal(t, files == SandboxOff, beyond.ExitCode == 0, "%s: outside: %s: %s", files, way, beyond.Output.Content)
			if files != SandboxOff {
				content, err := os.ReadFile(filepath.Join(outside, "file"))
				require.NoError(t, err, way)
				assert.Equal(t, "old", string(content), way)
				names, err := os.ReadDir(outside)
				require.NoError(t, err)
				assert.Len(t, names, 1, way)
			}
		}
	}
}

func TestSandboxMovesNothingOut(t *testing.T) {
	env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
	for _, way := range []string{"mv file DIR/moved", "mv DIR/file .", "ln file DIR/hard", "ln DIR/file hard && echo new > hard", "echo new > link", "cd .. && rm -r outside"} {
		res := runIn(t, env, strings.ReplaceAll(way, "DIR", outside))
		assert.NotZero(t, res.ExitCode, way)
	}
	content, err := os.ReadFile(filepath.Join(outside, "file"))
	require.NoError(t, err)
	assert.Equal(t, "old", string(content))
}

// TestSandboxLeavesDevices: what programs cannot do without.
func TestSandboxLeavesDevices(t *testing.T) {
	for _, files := range []SandboxFiles{SandboxWorkspace, SandboxReadOnly} {
		env, _ := sandboxed(t, Sandbox{Files: files, NoNetwork: true})
		for _, command := range []string{
			"echo x > /dev/null", "echo x > /dev/zero", "head -c 8 /dev/random > /dev/null", "head -c 8 /dev/urandom | wc -c", "echo x > /dev/urandom",
			"! echo x > /dev/full", "echo x > /dev/stdout", "echo x > /dev/stderr", "cat <<< hello", "echo a | tee /dev/null | cat <(cat)",
			"ls / > /dev/null", "cat /etc/passwd > /dev/null", "sleep 0 & wait",
			`script -qec 'echo hello > /dev/tty' /dev/null`, // makes a terminal: ptmx, pts, tty
		} {
			if strings.HasPrefix(command, "script") {
				if _, err := exec.LookPath("script"); err != nil {
					continue
				}
			}
			res := runIn(t, env, command)
			assert.Zero(t, res.ExitCode, "%s: %s: %s", files, command, res.Output.Content)
		}
	}
	env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
	assert.NotZero(t, runIn(t, env, "touch "+outside+"/x").ExitCode)
	res := runIn(t, env, `f=$(mktemp) && echo x > $f && cat $f && rm $f`)
	assert.Zero(t, res.ExitCode, res.Output.Content)
}

func TestSandboxNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	u, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer u.Close()
	host, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	connect := "exec 3<>/dev/tcp/" + host + "/" + port
	for _, files := range []SandboxFiles{SandboxOff, SandboxWorkspace, SandboxReadOnly} {
		env, _ := sandboxed(t, Sandbox{Files: files})
		assert.Zero(t, runIn(t, env, connect).ExitCode, "%s: with network", files)
		env.Sandbox.NoNetwork = true
		res := runIn(t, env, connect)
		assert.NotZero(t, res.ExitCode, "%s: without", files)
		assert.Contains(t, res.Output.Content, "Permission denied")
		err := env.Sandbox.Do(func() error {
			_, err := net.Dial("unix", u.Addr().String())
			return err
		})
		assert.ErrorContains(t, err, "permission denied")
		assert.Zero(t, runIn(t, env, "bash -c 'echo a | cat'").ExitCode)
	}
}

// TestSandboxSocketPairs: a pair without a network is connected for good. One for datagrams
// could be sent from to any socket in the file system.
func TestSandboxSocketPairs(t *testing.T) {
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	for kind, fine := range map[int]bool{
		unix.SOCK_STREAM: true, unix.SOCK_SEQPACKET: true, unix.SOCK_STREAM | flags: true, unix.SOCK_SEQPACKET | flags: true,
		unix.SOCK_DGRAM: false, unix.SOCK_RAW: false, unix.SOCK_DGRAM | flags: false, unix.SOCK_RAW | flags: false,
	} {
		for _, s := range []Sandbox{{}, {NoNetwork: true}, {Files: SandboxReadOnly, NoNetwork: true}} {
			err := s.Do(func() error {
				pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
				if err == nil {
					assert.NoError(t, errors.Join(unix.Close(pair[0]), unix.Close(pair[1])))
				}
				return err
			})
			if fine || !s.NoNetwork {
				assert.NoError(t, err, "%x %+v", kind, s)
			} else {
				assert.ErrorIs(t, err, unix.EACCES, "%x %+v", kind, s)
			}
		}
	}
}

// TestSandboxOfRoot: what root can do to the whole system, and is in no file, is refused to its
// programs: the name of the machine, its clock, mounts, devices. As another user it always is.
func TestSandboxOfRoot(t *testing.T) {
	for _, files := range []SandboxFiles{SandboxWorkspace, SandboxReadOnly} {
		env, _ := sandboxed(t, Sandbox{Files: files})
		var name unix.Utsname
		require.NoError(t, unix.Uname(&name))
		for what, does := range map[string]func() error{
			"host name":   func() error { return unix.Sethostname([]byte(unix.ByteSliceToString(name.Nodename[:]))) },
			"domain name": func() error { return unix.Setdomainname([]byte(unix.ByteSliceToString(name.Domainname[:]))) },
			"clock":       func() error { _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TICK, Tick: 1}); return err }, // too short for root, too
			"swap":        func() error { _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, 0, 0, 0); return errno },
			"mount": func() error {
				return unix.MountSetattr(-1, env.Cwd, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
			},
			"file system": func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
		} {
			assert.ErrorIs(t, env.Sandbox.Do(does), unix.EPERM, "%s: %s", files, what)
		}
		for device, mode := range map[string]uint32{"char": unix.S_IFCHR, "block": unix.S_IFBLK} {
			err := env.Sandbox.Do(func() error { return unix.Mknod(filepath.Join(env.Cwd, device), mode|0o600, int(unix.Mkdev(1, 3))) })
			assert.Error(t, err, "%s: %s", files, device)
		}
		status := runIn(t, env, "sed -n 's/^CapPrm:[[:space:]]*//p' /proc/self/status").Output.Content
		has, err := strconv.ParseUint(strings.TrimSpace(status), 16, 64)
		require.NoError(t, err, status)
		for _, c := range keptCapabilities {
			has &^= 1 << c
		}
		assert.Zero(t, has, "%s: %s: a program that is started gets none back", files, status)
	}
}

// TestSandboxHidesProcesses: one in a sandbox cannot reach into a process outside, its
// memory or its files, by which it might have it do something.
func TestSandboxHidesProcesses(t *testing.T) {
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	defer victim.Wait()
	defer victim.Process.Kill()
	reach := "readlink /proc/" + strconv.Itoa(victim.Process.Pid) + "/root && : < /proc/" + strconv.Itoa(victim.Process.Pid) + "/mem"
	for _, s := range []Sandbox{{Files: SandboxWorkspace}, {Files: SandboxReadOnly}, {NoNetwork: true}} {
		env, _ := sandboxed(t, s)
		assert.NotZero(t, runIn(t, env, reach).ExitCode, "%+v", s)
	}
	env, _ := sandboxed(t, Sandbox{})
	assert.Zero(t, runIn(t, env, reach).ExitCode)
}

// TestSandboxBindsNobodyElse: this process is as free afterwards as it was before.
func TestSandboxBindsNobodyElse(t *testing.T) {
	env, outside := sandboxed(t, Sandbox{Files: SandboxReadOnly, NoNetwork: true})
	for range 50 {
		runIn(t, env, "true")
	}
	require.NoError(t, os.WriteFile(filepath.Join(outside, "mine"), nil, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	free := *env
	free.Sandbox = Sandbox{}
	assert.Zero(t, runIn(t, &free, "echo x > "+outside+"/theirs").ExitCode)
	assert.PanicsWithValue(t, "broken", func() { env.Sandbox.Do(func() error { panic("broken") }) })
}

func TestSandboxTools(t *testing.T) {
	call := func(env *Env, name string, args any) (protocol.ToolResult, error) {
		raw, err := json.Marshal(args)
		require.NoError(t, err)
		return New().Run(context.Background(), name, Call{Args: raw, Env: env})
	}
	for _, files := range []SandboxFiles{SandboxWorkspace, SandboxReadOnly} {
		env, outside := sandboxed(t, Sandbox{Files: files})
		file := filepath.Join(outside, "file")
		for name, args := range map[string]map[string]any{
			"write": {"path": file, "content": "new"},
			"edit":  {"path": file, "edits": []map[string]string{{"oldText": "old", "newText": "new"}}},
			"bash":  {"command": "echo new > " + file},
		} {
			_, err := call(env, name, args)
			require.Error(t, err, name)
			assert.Contains(t, err.Error(), "This runs in a sandbox: ", name)
			var sandboxed *SandboxedError
			require.True(t, errors.As(err, &sandboxed), name)
			assert.JSONEq(t, `{"sandbox": {"files": "`+string(files)+`", "network": "on"}}`, string(sandboxed.Details()), name)
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "old", string(content))
		_, err = call(env, "write", map[string]any{"path": "link", "content": "new"})
		require.Error(t, err, "a link that leads outside")
		_, err = call(env, "write", map[string]any{"path": "dir/fresh", "content": "new"})
		assert.Equal(t, files == SandboxReadOnly, err != nil, "%v", err)
	}
}

// TestSandboxIsThereOrNothingRuns: what cannot be confined is not started.
func TestSandboxIsThereOrNothingRuns(t *testing.T) {
	env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
	env.Sandbox.Workspace = filepath.Join(outside, "nowhere")
	_, err := Exec(t.Context(), ExecSpec{Env: env, Command: "echo x > " + outside + "/ran"})
	var none *SandboxError
	require.True(t, errors.As(err, &none), "%v", err)
	_, err = Spawn(SpawnSpec{Command: "sh", Args: []string{"-c", "echo x > " + outside + "/ran"}, Env: os.Environ(), Sandbox: env.Sandbox})
	require.True(t, errors.As(err, &none), "%v", err)
	require.NoFileExists(t, filepath.Join(outside, "ran"))
}

func BenchmarkSandbox(b *testing.B) {
	env, _ := sandboxed(b, Sandbox{})
	for name, s := range map[string]Sandbox{"off": {}, "workspace": {Files: SandboxWorkspace, Workspace: env.Cwd}, "workspace, no network": {Files: SandboxWorkspace, NoNetwork: true, Workspace: env.Cwd}} {
		one := *env
		one.Sandbox, one.Shell = s, "/bin/sh"
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Exec(b.Context(), ExecSpec{Env: &one, Command: "true"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// vandal stands for every program: it changes what it can, wherever it is told or not.
const vandal = `vandal() {
	for dir in "$OUTSIDE" "$HOME" .. "$@"; do
		echo new > "$dir/file"; echo new >> "$dir/file"; echo new > "$dir/fresh.$$"
		/bin/ln -s x "$dir/soft"; /bin/mv "$dir/file" "$dir/moved"
	done
	/bin/rm -f "$OUTSIDE/file" "$HOME/file" ../file # each program is one more to start, five hundred times
}
command_not_found_handle() { vandal "${@:2}"; }
` // in the place of programs that are not there

// vandalised runs scripts in which every program is one, each in a shell of its own, and says what
// has changed outside of the workspace and the directory for temporary files.
func vandalised(t testing.TB, files SandboxFiles, scripts ...string) (before, after string) {
	t.Helper()
	env, outside := sandboxed(t, Sandbox{Files: files, NoNetwork: true})
	hook := filepath.Join(env.Home, "tmp", "hook")
	require.NoError(t, os.WriteFile(hook, []byte(vandal), 0o600))
	env.Environ = []string{"PATH=/none", "HOME=" + env.Home, "OUTSIDE=" + outside, "TMPDIR=" + os.TempDir()}
	var all strings.Builder
	for i, script := range scripts {
		file := fmt.Sprintf("%s.%d", hook, i)
		require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
		fmt.Fprintf(&all, "BASH_ENV=%s /bin/bash %s >/dev/null 2>&1\n", hook, file)
	}
	inventory := func() string {
		var list strings.Builder
		require.NoError(t, filepath.WalkDir(env.Home, func(path string, d os.DirEntry, err error) error {
			if err != nil || path == env.Cwd && files == SandboxWorkspace || path == os.TempDir() && files == SandboxWorkspace {
				return filepath.SkipDir
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			content, _ := os.ReadFile(path) // of a directory there is none
			fmt.Fprintln(&list, path, info.Mode(), len(content), string(content))
			return nil
		}))
		return list.String()
	}
	before = inventory()
	const limit = 5 * time.Second
	_, err := Exec(t.Context(), ExecSpec{Env: env, Command: all.String(), Timeout: limit * time.Duration(len(scripts))})
	require.NoError(t, err)
	return before, inventory()
}

var sandboxCommands = flag.Int("sandbox.commands", 80, "how many of the commands of the permission rules TestSandboxOfCommands runs")

// TestSandboxOfCommands: whatever a command is, and whatever its programs do, nothing changes
// outside of the sandbox: the commands that permission rules are tried on, allowed or not.
func TestSandboxOfCommands(t *testing.T) {
	before, after := vandalised(t, SandboxOff, "rm -rf x")
	require.NotEqual(t, before, after, "the vandal does nothing")
	content, err := os.ReadFile("policy/testdata/commands.txt")
	require.NoError(t, err)
	var scripts []string
	for line := range strings.Lines(string(content)) {
		script := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(strings.TrimSpace(line))
		if script != "" && script[0] != '#' && !neverEnds(script) {
			scripts = append(scripts, script)
		}
	}
	require.Greater(t, len(scripts), 500)
	n := min(*sandboxCommands, len(scripts))
	chosen := make([]string, n) // some of each kind: they are in groups
	for i := range chosen {
		chosen[i] = scripts[i*len(scripts)/n]
	}
	batches := 0
	for batch := range slices.Chunk(chosen, 20) { // a sandbox for each command would take most of the time
		files := SandboxWorkspace
		if batches++; batches%5 == 0 {
			files = SandboxReadOnly
		}
		before, after := vandalised(t, files, batch...)
		require.Equal(t, before, after, "%s: %q", files, batch)
	}
}

// neverEnds says of a script that it may not end, or ends others: signals are not bound.
func neverEnds(script string) bool {
	for _, word := range []string{"while", "until", "kill", "for ((", "sleep", "wait"} {
		if strings.Contains(script, word) {
			return true
		}
	}
	return false
}

func FuzzSandbox(f *testing.F) {
	f.Add("rm -rf .. > ../file; (cd ..; mv file $OUTSIDE/x) | tee ../../y")
	f.Add("eval 'exec 3> ../file'; $(echo rm) -rf $HOME; trap 'echo x > ../z' EXIT")
	f.Fuzz(func(t *testing.T, script string) {
		if neverEnds(script) || strings.ContainsRune(script, 0) {
			return
		}
		before, after := vandalised(t, SandboxWorkspace, script)
		require.Equal(t, before, after, script)
	})
}

// TestSandboxKeepsItsDirectories checks that a directory which a command has put in the place of the workspace, or of one for temporary
// files, may not be written: not by the next command, nor by write and edit, nor for the log of a command.
func TestSandboxKeepsItsDirectories(t *testing.T) {
	for name, replace := range map[string]string{
		"a link":      "cd .. && mv work work2 && ln -s outside work",
		"a directory": "cd .. && mv work work2 && mv outside work",
		"root":        "cd .. && mv work work2 && ln -s / work",
	} {
		t.Run(name, func(t *testing.T) {
			env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
			env.Sandbox = env.Sandbox.Open(Sandbox{})
			assert.Zero(t, runIn(t, env, "echo ok > before").ExitCode)
			require.NoError(t, exec.Command("sh", "-c", "cd "+env.Cwd+" && "+replace).Run())
			_, err := Exec(t.Context(), ExecSpec{Env: env, Command: "echo new > " + env.Cwd + "/file"})
			require.ErrorIs(t, err, errReplaced)
			_, err = newWrite().Run(t.Context(), Call{Args: json.RawMessage(`{"path":"fresh","content":"new"}`), Env: env})
			assert.ErrorIs(t, err, errReplaced)
			_, err = newEdit().Run(t.Context(), Call{Args: json.RawMessage(`{"path":"file","edits":[{"oldText":"old","newText":"new"}]}`), Env: env})
			assert.Error(t, err)
			for _, dir := range []string{outside, env.Cwd} {
				if content, err := os.ReadFile(filepath.Join(dir, "file")); err == nil {
					assert.Equal(t, "old", string(content))
				}
				assert.NoFileExists(t, filepath.Join(dir, "fresh"))
			}
			again := Sandbox{Files: SandboxWorkspace, Workspace: env.Cwd}.Open(env.Sandbox)
			assert.Equal(t, env.Sandbox, again, "settings that are read again keep the directories")
		})
	}
	env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
	env.Sandbox = env.Sandbox.Open(Sandbox{})
	require.NoError(t, os.Remove(os.TempDir()))
	require.NoError(t, os.Symlink(outside, os.TempDir()))
	res := runIn(t, env, "echo new > $TMPDIR/file || seq 100000")
	assert.Contains(t, res.Output.Content, "100000")
	assert.Empty(t, res.FullOutputPath)
	names, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Len(t, names, 1, "no log either")
	content, err := os.ReadFile(filepath.Join(outside, "file"))
	require.NoError(t, err)
	assert.Equal(t, "old", string(content))
}

// TestSandboxOfGit checks that git works in a linked working tree and in a submodule, whose directories are outside the
// workspace, and that a file .git gives no access to a repository that does not name the workspace.
func TestSandboxOfGit(t *testing.T) {
	env, outside := sandboxed(t, Sandbox{Files: SandboxWorkspace})
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", args, out)
	}
	main := filepath.Join(outside, "main")
	git(outside, "init", "-q", "main")
	git(main, "commit", "-q", "--allow-empty", "-m", "first")
	git(main, "worktree", "add", "-q", filepath.Join(outside, "tree"))
	git(main, "submodule", "add", "-q", main, "sub")
	git(outside, "init", "-q", "--separate-git-dir", filepath.Join(outside, "sep.git"), "sep")
	git(filepath.Join(outside, "sep"), "config", "core.worktree", filepath.Join(outside, "sep"))
	env.Environ = append(env.Environ, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	in := func(dir, command string) ExecResult {
		env.Cwd, env.Sandbox.Workspace = dir, dir
		env.Sandbox = env.Sandbox.Open(Sandbox{})
		return runIn(t, env, command)
	}
	for _, dir := range []string{"tree", "main/sub", "sep"} {
		dir = filepath.Join(outside, dir)
		res := in(dir, "echo x > a && git add a && git -c user.name=A -c user.email=a@example.org commit -qm second && git status --short")
		assert.Zero(t, res.ExitCode, "%s: %s", dir, res.Output.Content)
	}
	tree := filepath.Join(outside, "tree")
	for _, command := range []string{"echo x > ../main/.git/hooks/pre-commit", "git config core.fsmonitor /bin/true", "echo x >> ../main/.git/config", "echo x > ../main/.git/HEAD", "echo x > ../main/file"} {
		assert.NotZero(t, in(tree, command).ExitCode, command)
	}
	forged := filepath.Join(outside, "forged")
	require.NoError(t, os.MkdirAll(filepath.Join(forged, "deep"), 0o700))
	for _, to := range []string{main + "/.git", main + "/.git/worktrees/tree", main + "/.git/modules/sub", outside} {
		require.NoError(t, os.WriteFile(filepath.Join(forged, ".git"), []byte("gitdir: "+to+"\n"), 0o600))
		for _, dir := range []string{forged, filepath.Join(forged, "deep")} {
			assert.NotZero(t, in(dir, "echo x > "+to+"/x").ExitCode, "%s: %s", dir, to)
			assert.NotZero(t, in(dir, "echo x > "+main+"/.git/refs/heads/x").ExitCode, "%s: %s", dir, to)
		}
	}
	common := filepath.Join(main, ".git", "worktrees", "tree", "commondir")
	git(outside, "init", "-q", "--bare", "other.git")
	require.NoError(t, os.WriteFile(common, []byte(filepath.Join(outside, "other.git")+"\n"), 0o600))
	assert.NotZero(t, in(tree, "echo x > "+outside+"/other.git/refs/x").ExitCode, "a command may have written commondir")
}
