package tools

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Guard ends the commands that this process leaves behind when it dies without
// a chance to do so itself. It is a small shell script that holds the other end
// of a pipe; it is started with the first command. A process needs one for all
// its sessions.
type Guard struct {
	mark string // begins the marks of its commands

	mu   sync.Mutex
	pipe *os.File // to the script; nil before the first command and after the last
	over bool     // no script, and none wanted
	exit chan struct{}
	live int         // groups
	fed  time.Time   // until when commands may run on that nobody feeds; zero for ever
	gone []byte      // lines about groups that are gone, to be sent with the next one
	late *time.Timer // sends them if there is none
}

//go:embed guard.sh
var guardScript string

// NewGuard starts nothing yet.
func NewGuard() *Guard { return &Guard{mark: nextMark(nonce())} }

// Close ends the script, and what is left of the guarded commands with it.
func (g *Guard) Close() {
	g.mu.Lock()
	if g.pipe != nil && len(g.gone) > 0 { // else it waits for zombies that nobody reaps
		g.tell(g.gone)
	}
	pipe, exit := g.pipe, g.exit
	g.pipe, g.over = nil, true
	g.mu.Unlock()
	if pipe != nil {
		pipe.Close()
		<-exit
	}
}

// Feed lets commands run on for a time; without another Feed within it they are ended, also where this process stands still
// and cannot do it. Before the first they run for ever.
func (g *Guard) Feed(within time.Duration) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fed = time.Now().Add(within)
	if g.pipe != nil && g.live > 0 {
		g.tell(g.deadline(g.gone))
	}
}

// deadline says to the script how long it may hear nothing.
func (g *Guard) deadline(lines []byte) []byte {
	if g.fed.IsZero() {
		return lines
	}
	return fmt.Appendf(lines, "= %d\n", max(1, int(time.Until(g.fed).Seconds()+0.5)))
}

// prefix begins the marks of a registry; of one without guard, too.
func (g *Guard) prefix() string {
	if g == nil {
		return nonce()
	}
	return g.mark
}

// prepare starts the script.
func (g *Guard) prepare() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over && g.pipe == nil {
		g.start()
	}
}

// watch tells the script of a process group.
func (g *Guard) watch(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live++
	g.tell(g.deadline(fmt.Appendf(g.gone, "+ %d\n", group)))
}

// forget tells it that the group is gone and its number free for others. That
// is not urgent: to wake the script would keep a processor from the next
// command, which will wake it anyway.
func (g *Guard) forget(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = fmt.Appendf(g.gone, "- %d\n", group)
	if g.live--; g.live == 0 && !g.fed.IsZero() {
		g.gone = append(g.gone, "= 0\n"...)
	}
	switch {
	case len(g.gone) > maxGone:
		g.tell(g.gone)
	case g.late == nil:
		g.late = time.AfterFunc(forgetAfter, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.late = nil
			if len(g.gone) > 0 {
				g.tell(g.gone)
			}
		})
	}
}

const (
	forgetAfter = 100 * time.Millisecond
	maxGone     = 2 << 10 // bytes: less than a pipe takes in one piece
)

// tell is best effort: a machine on which the script does not run, or where
// somebody killed it, runs commands all the same.
func (g *Guard) tell(lines []byte) {
	g.gone = lines[:0]
	if g.over || (g.pipe == nil && !g.start()) {
		return
	}
	g.pipe.SetWriteDeadline(time.Now().Add(time.Second)) // a stopped script must not stop us
	if _, err := g.pipe.Write(lines); err != nil {
		g.pipe.Close()
		g.pipe, g.over = nil, true
	}
}

func (g *Guard) start() bool {
	g.over = true
	r, w, err := os.Pipe()
	if err != nil {
		return false
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "troupe-guard", g.mark)
	cmd.Stdin, cmd.Dir, cmd.SysProcAttr = r, "/", ownSession()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // above all without marks of an outer daemon
	closeOnExec()
	if cmd.Start() != nil {
		w.Close()
		return false
	}
	exit := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exit)
	}()
	g.pipe, g.exit, g.over = w, exit, false
	return true
}
