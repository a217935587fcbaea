package tools

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"troupe/protocol"
)

// process is a process whose end a test can wait for.
type process struct {
	t   testing.TB
	pid int
	fd  int // of the process; -1 if it is gone
}

// watchProcess takes the number of a process from the first line of text.
func watchProcess(t testing.TB, text string) *process {
	t.Helper()
	line, _, _ := strings.Cut(text, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		require.ErrorIs(t, err, syscall.ESRCH)
		return &process{t, pid, -1}
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &process{t, pid, fd}
}

func (p *process) alive() bool { return p.fd >= 0 && !p.ended(0) }

// waitEnd waits for the end, which must come.
func (p *process) waitEnd() {
	p.t.Helper()
	require.True(p.t, p.fd < 0 || p.ended(60_000), "process %d lives on", p.pid)
}

func (p *process) ended(milliseconds int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, milliseconds)
		if err != unix.EINTR {
			require.NoError(p.t, err)
			return n == 1
		}
	}
}

func (p *process) kill() {
	require.NoError(p.t, unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0))
	p.waitEnd()
}

func TestExecInheritsOnlyThreeFiles(t *testing.T) {
	f, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd())) // as if our parent had left it to us
	require.NoError(t, err)
	defer syscall.Close(fd)
	markCloseOnExec()
	res := execIn(t, newEnv(t), "ls /proc/$$/fd; true")
	assert.Equal(t, "0\n1\n2\n", res.Output.Content)
}

func countFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// zombies counts the children of this process that nobody waited for.
func zombies(t *testing.T) (n int) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	mine := fmt.Sprintf(" Z %d ", os.Getpid())
	for _, stat := range stats {
		content, _ := os.ReadFile(stat) // may be gone
		if strings.Contains(string(content), mine) {
			n++
		}
	}
	return n
}

// Not parallel: it counts what belongs to the process.
func TestExecLeavesNothingBehind(t *testing.T) {
	env := newEnv(t)
	execIn(t, env, "true")
	files := countFiles(t)
	for i := range 100 {
		command := []string{"true", "kill -9 $$", "exit 7", "seq 1 3000", "sleep 300 & true"}[i%5]
		ctx, spec := cancelOnOutput(t, env, command)
		spec.KillGroup = true
		_, err := Exec(ctx, spec)
		require.NoError(t, err)
	}
	for range 10 {
		ctx, spec := cancelOnOutput(t, env, "echo go; sleep 300")
		_, err := Exec(ctx, spec)
		require.NoError(t, err)
	}
	assert.Equal(t, files, countFiles(t))
	assert.Zero(t, zombies(t))
	env2 := newEnv(t) // and with what is in the background
	for range 5 {
		execIn(t, env2, "sleep 300 & true")
	}
	env2.Procs.KillAll(0)
	assert.Equal(t, files, countFiles(t))
	assert.Zero(t, zombies(t))
	assert.Empty(t, env2.Procs.live)
	assert.Empty(t, env2.Procs.held)
}

// memory is the resident memory of this process and the most it ever was since
// resetPeak.
func memory(t *testing.T) (now, peak int64) {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}

// growth is how much more memory than before f needs at its peak.
func growth(t *testing.T, f func()) int64 {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("the kernel does not reset the peak: %v", err)
	}
	before, _ := memory(t)
	f()
	_, peak := memory(t)
	return peak - before
}

// Not parallel: it looks at the memory of the process.
func TestExecFloodIsBounded(t *testing.T) {
	env := newEnv(t)
	const size = 300_000_000
	var res ExecResult
	grown := growth(t, func() { res = execIn(t, env, fmt.Sprintf("yes | head -c %d", size)) })
	assert.Less(t, grown, int64(16<<20))
	assert.Equal(t, int64(size), res.Output.TotalBytes)
	assert.Equal(t, int64(size/2), res.Output.TotalLines)
	info, err := os.Stat(res.FullOutputPath)
	require.NoError(t, err)
	assert.Equal(t, int64(protocol.MaxLog), info.Size())
	assert.True(t, res.FullOutputCut)
	assert.Equal(t, strings.Repeat("y\n", 1999)+"y", res.Output.Content)
}

// playPart is what the test binary does instead of testing: "guarded" is a
// daemon that is killed while its commands run.
func playPart(name string) bool {
	if name != "guarded" {
		return false
	}
	env := &Env{Cwd: "/", Environ: os.Environ(), Procs: NewProcs(NewGuard())}
	exec := func(command string) {
		_, err := Exec(context.Background(), ExecSpec{Env: env, Command: command, Progress: func(p ExecProgress) { fmt.Print(p.Output.Content) }})
		if err != nil {
			fmt.Println(err)
		}
	}
	exec("sleep 300 >/dev/null 2>&1 & echo $!")
	exec("setsid sleep 300 >/dev/null 2>&1 & echo $!")
	exec("env -i sleep 300 >/dev/null 2>&1 & echo $!")
	exec("sh -c 'trap \"\" TERM; exec sleep 300' >/dev/null 2>&1 & echo $!")
	exec("sleep 300 & echo $!; true; wait")
	return true
}

// When the daemon is killed, nothing of its commands survives.
func TestGuard(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperKey+"=guarded")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var commands []*process
	lines := bufio.NewScanner(out)
	for range 5 {
		require.True(t, lines.Scan())
		p := watchProcess(t, lines.Text())
		assert.True(t, p.alive())
		commands = append(commands, p)
	}
	guard := watchProcess(t, strconv.Itoa(guardOf(t, cmd.Process.Pid)))
	require.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
	for _, p := range commands {
		p.waitEnd()
	}
	guard.waitEnd()
}

// guardOf finds the guard among the children of a process.
func guardOf(t *testing.T, parent int) int {
	child := regexp.MustCompile(fmt.Sprintf(`\) [A-Z] %d `, parent))
	for _, pid := range numbers("/proc") {
		stat, _ := os.ReadFile(procFile(pid, "stat"))
		line, _ := os.ReadFile(procFile(pid, "cmdline"))
		if child.Match(stat) && bytes.Contains(line, []byte("troupe-guard")) {
			return pid
		}
	}
	require.Fail(t, "no guard")
	return 0
}

func TestGuardCloses(t *testing.T) {
	t.Parallel()
	guard := NewGuard()
	env := newEnv(t)
	env.Procs = NewProcs(guard)
	p := watchProcess(t, execIn(t, env, "sleep 300 & echo $!").Output.Content)
	select {
	case <-guard.exit:
		require.Fail(t, "the script is gone")
	default:
	}
	env.Procs.KillAll(0)
	p.waitEnd()
	guard.Close()
	<-guard.exit
	guard.Close()
	NewGuard().Close()
}

// manualSleep is a program sleep that ends when a test says so. The seconds of a guard are its calls.
type manualSleep struct {
	t     testing.TB
	dir   string
	calls chan string // the processes of sleep that have begun
	group int         // their process group, which is that of the guard; 0 before the first
}

const manualSleepScript = `#!/bin/sh
cd "${0%/*}" || exit
mkfifo $$ && echo $$ >calls && read -r end <$$
`

// newManualSleep puts the program at the head of PATH. At the end of the test all calls end.
func newManualSleep(t *testing.T) *manualSleep {
	t.Helper()
	s := &manualSleep{t: t, dir: t.TempDir(), calls: make(chan string, 100)}
	calls := filepath.Join(s.dir, "calls")
	require.NoError(t, syscall.Mkfifo(calls, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "sleep"), []byte(manualSleepScript), 0o700))
	t.Setenv("PATH", s.dir+":"+os.Getenv("PATH"))
	f, err := os.OpenFile(calls, os.O_RDWR, 0) // also to write: it has no end while calls come and go
	require.NoError(t, err)
	read := make(chan bool)
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			s.calls <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		if s.group != 0 {
			_ = unix.Kill(-s.group, unix.SIGKILL) // a guard leaves its sleep behind
		}
		require.NoError(t, f.Close())
		<-read
	})
	return s
}

// end ends a call.
func (s *manualSleep) end(call string) {
	s.t.Helper()
	p := watchProcess(s.t, call)
	group, err := unix.Getpgid(p.pid)
	require.NoError(s.t, err)
	s.group = group
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, call), []byte("end\n"), 0))
	p.waitEnd()
}

// TestGuardIsFed: a guard that was never fed lets commands run on. Once it was, it ends commands
// when as many seconds have passed since as it was told, and not while it is fed in time.
func TestGuardIsFed(t *testing.T) {
	environ := newEnv(t).Environ // its sleep is the real one
	seconds := newManualSleep(t)
	guard := NewGuard()
	defer guard.Close()
	env := newEnv(t)
	env.Environ, env.Procs = environ, NewProcs(guard)
	defer env.Procs.KillAll(0)
	assert.Zero(t, execIn(t, env, "true").ExitCode)
	assert.Empty(t, seconds.calls)

	// A command that ends when go is written to; begun returns when it has begun.
	for _, name := range []string{"begun", "go"} {
		require.NoError(t, syscall.Mkfifo(filepath.Join(env.Cwd, name), 0o600))
	}
	start := func() <-chan ExecResult {
		ended := make(chan ExecResult, 1)
		go func() { ended <- execIn(t, env, "echo >begun; read x <go; exit 7") }()
		_, err := os.ReadFile(filepath.Join(env.Cwd, "begun"))
		require.NoError(t, err)
		return ended
	}

	// 5 seconds, between which nothing is fed. What is rounded may make one of it, not two.
	ended := start()
	guard.Feed(5 * time.Second)
	passed := 0
	for over := false; !over; {
		select {
		case call := <-seconds.calls:
			passed++
			seconds.end(call)
		case res := <-ended:
			assert.Equal(t, "terminated", res.Signal)
			over = true
		}
	}
	assert.GreaterOrEqual(t, passed, 4)

	// 12 seconds, but never more than 3 without food.
	ended = start()
	for range 4 {
		guard.Feed(5 * time.Second)
		for range 3 {
			seconds.end(<-seconds.calls)
		}
	}
	select {
	case res := <-ended:
		assert.Fail(t, "it was ended", "%+v", res)
	default:
	}
	require.NoError(t, os.WriteFile(filepath.Join(env.Cwd, "go"), []byte("x\n"), 0))
	assert.Equal(t, 7, (<-ended).ExitCode)
}

// It is about its own commands only.
func TestGuardLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	guard := NewGuard()
	env := newEnv(t)
	p := watchProcess(t, execIn(t, env, "setsid sleep 300 >/dev/null 2>&1 & echo $!").Output.Content)
	guarded := newEnv(t)
	guarded.Procs = NewProcs(guard)
	q := watchProcess(t, execIn(t, guarded, "setsid sleep 300 >/dev/null 2>&1 & echo $!").Output.Content)
	guard.Close()
	q.waitEnd()
	assert.True(t, p.alive())
}

// That a group is gone is told with what comes next, or a moment later.
func TestGuardIsToldTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // its clock stands still but in a Sleep
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		guard := NewGuard()
		guard.pipe, guard.exit = w, make(chan struct{})
		close(guard.exit) // there is no script
		defer guard.Close()
		heard := func() string {
			b := make([]byte, 1<<10)
			n, err := r.Read(b)
			require.NoError(t, err)
			return string(b[:n])
		}
		guard.watch(5)
		assert.Equal(t, "+ 5\n", heard())
		guard.forget(5)
		guard.watch(6)
		assert.Equal(t, "- 5\n+ 6\n", heard())
		guard.forget(6)
		time.Sleep(forgetAfter)
		assert.Equal(t, "- 6\n", heard(), "by itself")
		for i := range 1000 {
			guard.forget(i)
		}
		guard.watch(7)
		var all string
		for !strings.HasSuffix(all, "+ 7\n") {
			all += heard()
		}
		guard.forget(7)
		guard.Close()
		assert.Equal(t, "- 7\n", heard(), "the end waits for nobody who is gone")
		assert.Equal(t, 1001, strings.Count(all, "\n"))
	})
}

// A guard that somebody killed does not keep commands from running.
func TestGuardIsBestEffort(t *testing.T) {
	t.Parallel()
	guard := NewGuard()
	defer guard.Close()
	guard.watch(1 << 22) // starts it
	guard.mu.Lock()
	guard.pipe.Close()
	guard.mu.Unlock()
	<-guard.exit
	env := newEnv(t)
	env.Procs = NewProcs(guard)
	assert.Equal(t, "hi\n", execIn(t, env, "echo hi").Output.Content)
}

// A daemon can be killed between the start of a command and its word to the guard;
// members of the command's group that have dropped the mark are found by their leader,
// who has it.
func TestGuardFindsWhatItWasNotToldOf(t *testing.T) {
	t.Parallel()
	guard := NewGuard()
	guard.prepare()
	cmd := exec.Command("/bin/sh", "-c", "env -u TROUPE_PROCS sleep 300 & echo $!; wait")
	cmd.Env = append(os.Environ(), markKey+"="+nextMark(guard.prefix()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	member := watchProcess(t, line)
	guard.Close()
	_ = cmd.Wait()
	member.waitEnd()
}
