package tools

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"troupe/protocol"
)

// markKey is the variable in the environment of every command by which its
// descendants are found again after they left its process group. Who wants to
// outlive the session has to leave both: env -u TROUPE_PROCS setsid command.
const markKey = "TROUPE_PROCS"

// nonce begins the marks of this process.
var nonce = sync.OnceValue(func() string { return randomHex(8) + "." })

// lastMark numbers the registries and commands of this process.
var lastMark atomic.Int64

func nextMark(prefix string) string {
	return prefix + strconv.FormatInt(lastMark.Add(1), 10) + "."
}

// killWait is how long after SIGKILL a process may take to go. One that hangs
// in the kernel for longer is given up.
const killWait = time.Second

// group is a running command: its shell and the process group of that.
type group struct {
	id     int // of the shell and of the group
	mark   string
	exited chan struct{} // closed when the shell was reaped
	state  *os.ProcessState
	err    error // why state is nil

	terminated atomic.Bool // it was sent SIGTERM
}

// startGroup starts cmd as a group, in a sandbox, and enters it into procs.
func startGroup(cmd *exec.Cmd, procs *Procs, sandbox Sandbox) (*group, error) {
	closeOnExec()
	g := &group{mark: nextMark(procs.prefix()), exited: make(chan struct{})}
	cmd.SysProcAttr = ownSession()
	cmd.Env = append(slices.Clip(cmd.Env), markKey+"="+os.Getenv(markKey)+g.mark)
	if err := sandbox.Do(cmd.Start); err != nil {
		return nil, err
	}
	g.id = cmd.Process.Pid
	go func() {
		g.err = cmd.Wait()
		g.state = cmd.ProcessState
		close(g.exited)
	}()
	if !procs.add(g) {
		endGroups([]*group{g}, g.mark, 0)
		return nil, errClosing
	}
	return g, nil
}

// kill ends the command and all its descendants: SIGTERM, and SIGKILL for what
// is still there after grace. It returns when they are gone.
func (g *group) kill(grace time.Duration) { endGroups([]*group{g}, g.mark, grace) }

// terminate sends SIGTERM once: programs take a second one for more than that.
func (g *group) terminate() {
	if g.terminated.CompareAndSwap(false, true) {
		terminate(g.id)
	}
}

// endGroups does so for several groups and for whatever bears mark.
func endGroups(groups []*group, mark string, grace time.Duration) {
	if grace > 0 {
		for _, g := range groups {
			g.terminate()
		}
		if awaitEnd(groups, mark, syscall.SIGTERM, grace) {
			return
		}
	}
	for _, g := range groups {
		syscall.Kill(-g.id, syscall.SIGKILL)
	}
	awaitEnd(groups, mark, syscall.SIGKILL, killWait)
}

// awaitEnd waits until the groups are gone. Then it sends sig to those who left
// them, and waits for these, too.
func awaitEnd(groups []*group, mark string, sig syscall.Signal, within time.Duration) bool {
	deadline := time.Now().Add(within)
	told := make(map[int]bool)
	doubts := 5 // times to look again if we are not sure that nobody is left
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		groups = slices.DeleteFunc(slices.Clone(groups), (*group).ended)
		if len(groups) == 0 {
			pids, unsure := markedPids(mark)
			if len(pids) == 0 {
				if !unsure || doubts == 0 {
					return true
				}
				doubts--
			}
			tell(pids, sig, told)
		}
		if !time.Now().Add(pause).Before(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// tell sends sig to each process once.
func tell(pids []int, sig syscall.Signal, told map[int]bool) {
	for _, pid := range pids {
		if !told[pid] {
			told[pid] = true
			syscall.Kill(pid, sig)
		}
	}
}

// ended says that the shell was reaped and no member of the group lives.
func (g *group) ended() bool {
	select {
	case <-g.exited:
		return !groupAlive(g.id)
	default:
		return false
	}
}

// Procs remembers the commands of one session that run, and what they left
// running behind them, so that both can be ended with the session. A nil Procs
// remembers nothing.
type Procs struct {
	guard *Guard
	mark  string // begins the marks of its commands

	mu     sync.Mutex
	used   bool
	closed bool
	live   map[int]*group
	held   map[*os.File]bool // pipes that background processes still write to
	drains sync.WaitGroup    // one for each of them

	logs logs // what the commands have written
}

// NewProcs returns an empty registry. With a guard, its processes end even if
// this process is killed.
func NewProcs(guard *Guard) *Procs {
	return &Procs{
		guard: guard, mark: nextMark(guard.prefix()),
		live: make(map[int]*group), held: make(map[*os.File]bool), logs: logs{each: protocol.MaxLog, all: protocol.MaxLogs},
	}
}

var errClosing = errors.New("the session is closing: no more commands are started")

// KillAll ends every process of the registry and its descendants, also those
// that went into the background: SIGTERM, and SIGKILL after grace (0 is 2 s). It
// returns when they are gone, about a second after the grace at the latest, and
// their whole outputs with them.
// Nothing can be started afterwards.
func (p *Procs) KillAll(grace time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	used, groups := p.used, slices.Collect(maps.Values(p.live))
	p.mu.Unlock()
	if !used {
		return
	}
	endGroups(groups, p.mark, graceOr(grace))
	p.mu.Lock()
	for _, g := range groups {
		p.remove(g)
	}
	for r := range p.held { // by what hides from us
		r.SetReadDeadline(past)
	}
	p.mu.Unlock()
	p.drains.Wait()
	p.logs.removeAll()
}

// outputs are the files with whole outputs, which go with the registry.
func (p *Procs) outputs() *logs {
	if p == nil {
		return nil
	}
	return &p.logs
}

// prepare starts the guard, so that it is there before the command: a kill -9
// between the two would leave the command behind.
func (p *Procs) prepare() {
	if p != nil {
		p.guard.prepare()
	}
}

func (p *Procs) prefix() string {
	if p == nil {
		return nonce()
	}
	return p.mark
}

// add enters a group, unless the registry was closed.
func (p *Procs) add(g *group) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.sweep()
	p.used = true
	p.live[g.id] = g
	p.guard.watch(g.id)
	return true
}

// done is called when a command is over. Unless it was killed, the group stays
// entered if something of it runs on in the background.
func (p *Procs) done(g *group, killed bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if killed {
		p.remove(g)
	}
	p.sweep()
}

func (p *Procs) remove(g *group) {
	if p.live[g.id] == g {
		delete(p.live, g.id)
		p.guard.forget(g.id)
	}
}

// sweep forgets the groups that are gone, before their numbers come to mean
// something else.
func (p *Procs) sweep() {
	for id, g := range p.live {
		select {
		case <-g.exited:
			if !hasGroup(id) {
				p.remove(g)
			}
		default:
		}
	}
}

// adopt reads a pipe to its end and forgets what it reads: a process in the
// background that still writes to it must neither block nor die of that.
func (p *Procs) adopt(r *os.File) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.held[r] = true
	r.SetReadDeadline(time.Time{}) // before KillAll can set its own
	p.drains.Go(func() {
		sip(r) // ends with the last writer, or by KillAll
		r.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.held, r)
	})
	return true
}

// sip reads to the end and forgets what it reads, no faster than a pipe fills
// up every sipPause: what runs in the background and writes without end waits
// for us, and costs next to nothing.
func sip(r io.Reader) {
	buf := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buf)
	for {
		if _, err := r.Read(buf[:]); err != nil {
			return
		}
		time.Sleep(sipPause)
	}
}

const sipPause = 20 * time.Millisecond

// past is a deadline that makes a blocked read return.
var past = time.Unix(1, 0)

func graceOr(grace time.Duration) time.Duration {
	if grace <= 0 {
		return 2 * time.Second
	}
	return grace
}
