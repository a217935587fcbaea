package extension

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	words "troupe/protocol/extension"
	"troupe/tools"
)

// ChildOptions say how the process of extensions is started.
type ChildOptions struct {
	Command string   // the program; "" is this one
	Args    []string // that make it call Serve on FromChild
	Env     []string
	Procs   *tools.Procs      // ends it with us
	Memory  int64             // bytes that it may have; 0 is 2 GB
	Log     func(line string) // lines of its stderr
	Sandbox tools.Sandbox     // of the process and all that it starts
	Turns   Turns             // in which is heard what it says; nil for none
}

// mostResident is what the process of extensions may have by default.
const mostResident = 2 << 30

// Child is a host in a process of its own, which is started when it is first needed and
// again when it died: what breaks there does not break us.
type Child struct {
	o ChildOptions

	mu     sync.Mutex
	client *Client
	proc   *tools.Spawned
	deaths int // since one lived for a while
	since  time.Time
	closed bool
	ends   sync.WaitGroup
}

// NewChild starts nothing yet.
func NewChild(o ChildOptions) *Child {
	o.Memory = cmp.Or(o.Memory, mostResident)
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return &Child{o: o}
}

// pauses are how long a process that died again and again stays down: less than who
// opens a VM again waits for it.
var pauses = []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}

// longLife is after how long a process is no longer held responsible for its ancestors.
const longLife = time.Minute

// Open begins a VM. One that begins again by itself while the process must not be started
// yet says Gone.
func (c *Child) Open(spec words.Spec, sink func(words.Said)) words.VM {
	client, err := c.running(spec.Again)
	if err != nil {
		go sink(words.Gone{Why: "the extension host does not start: " + err.Error()})
		return remote{c: &Client{}}
	}
	return client.Open(spec, sink)
}

// Close ends the process. It waits a bounded time.
func (c *Child) Close() error {
	c.mu.Lock()
	c.closed = true
	client := c.client
	c.mu.Unlock()
	if client != nil {
		_ = client.Close() // it has none
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.ends.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(exitTime + time.Second): // something that it has started holds its stderr
		return errStays
	}
}

var errStays = errors.New("the extension host, or something that it has started, does not end")

func (c *Child) running(again bool) (*Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, os.ErrClosed
	}
	if c.client != nil {
		return c.client, nil
	}
	if pause := pauses[min(c.deaths, len(pauses)-1)]; again && time.Since(c.since) < pause {
		return nil, errTooSoon
	}
	proc, conn, err := c.start()
	if err != nil {
		c.deaths, c.since = c.deaths+1, time.Now()
		return nil, err
	}
	c.client, c.proc, c.since = NewClient(conn, c.o.Turns), proc, time.Now()
	c.ends.Add(2)
	go c.watch(c.client, proc)
	go c.listen(proc)
	return c.client, nil
}

var errTooSoon = errors.New("it died a moment ago")

func (c *Child) start() (*tools.Spawned, io.ReadWriteCloser, error) {
	ours, theirs, err := hostEnds()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.in.Close() // without a shutdown: it is the process's
	defer theirs.out.Close()
	command := c.o.Command
	if command == "" {
		if command, err = os.Executable(); err != nil {
			ours.Close()
			return nil, nil, err
		}
	}
	env := c.o.Env
	if env == nil {
		env = os.Environ()
	}
	proc, err := tools.Spawn(tools.SpawnSpec{Procs: c.o.Procs, Command: command, Args: c.o.Args, Env: env, Files: []*os.File{theirs.in, theirs.out}, Sandbox: c.o.Sandbox, EndsWithUs: true})
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	proc.Stdin.Close()
	if runtime.GOMAXPROCS(0) < processors {
		runtime.GOMAXPROCS(processors)
	}
	return proc, ours, nil
}

// processors are how many the runtime has to have, at least: who waits for a client in the
// kernel keeps one, who waits for the process another, and if none is idle beside them every
// word wakes a thread that looks after them.
const processors = 3

// hostEnd is an end of two pairs of sockets, one for what is read and one for what is written:
// where one is both, every word that the other end takes wakes whoever waits for the next one
// here. It is read by a thread that waits in the kernel: over the poller of the runtime every
// word would wake one thread more.
type hostEnd struct{ in, out *os.File }

func hostEnds() (ours, theirs hostEnd, err error) {
	if ours.in, theirs.out, err = socketPair(); err != nil {
		return ours, theirs, err
	}
	if ours.out, theirs.in, err = socketPair(); err != nil {
		ours.in.Close()
		theirs.out.Close()
	}
	return ours, theirs, err
}

// The descriptors of the process that runs extensions, behind the standard ones.
const (
	fromDaemon = 3
	toDaemon   = 4
)

// FromChild is what [Serve] reads and writes in the process that a [Child] has started.
func FromChild() (io.ReadWriteCloser, error) {
	end := hostEnd{os.NewFile(fromDaemon, "daemon"), os.NewFile(toDaemon, "daemon")}
	for _, f := range []*os.File{end.in, end.out} {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
			return nil, errors.New("there is no daemon")
		}
	}
	return end, nil
}

func socketPair() (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "extensions"), os.NewFile(uintptr(fds[1]), "extensions"), nil
}

func (s hostEnd) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s hostEnd) Write(b []byte) (int, error) { return s.out.Write(b) }

// do does something with a descriptor.
func do(f *os.File, what func(fd int)) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { what(int(fd)) }) // one that is closed is the reader's to find
	}
}

// tryWrite writes what the socket takes at once.
func (s hostEnd) tryWrite(b []byte) (n int) {
	do(s.out, func(fd int) { n, _ = syscall.SendmsgN(fd, b, nil, nil, syscall.MSG_DONTWAIT) })
	return max(n, 0)
}

// Close ends who reads and who writes, too.
func (s hostEnd) Close() error {
	var errs []error
	for _, f := range []*os.File{s.in, s.out} {
		do(f, func(fd int) { _ = syscall.Shutdown(fd, syscall.SHUT_RDWR) }) // the other end may be gone
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// exitTime is how long the process may take to end when nobody speaks to it any more.
const exitTime = 2 * time.Second

// watch sees a process to its end, and ends one that has too much memory.
func (c *Child) watch(client *Client, proc *tools.Spawned) {
	defer c.ends.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-proc.Exited():
			over = true
		case <-client.Over():
			over = true
			select {
			case <-proc.Exited():
			case <-time.After(exitTime):
			}
		case <-tick.C:
			if resident(proc.Pid()) > c.o.Memory {
				client.end("the extension host used more than " + strconv.FormatInt(c.o.Memory>>20, 10) + " MiB")
				_ = proc.Signal(syscall.SIGKILL) // it may just have ended
			}
		}
	}
	client.end("the extension host died")
	<-client.Over()
	proc.Kill(time.Millisecond) // and what it started
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.since) > longLife {
		c.deaths = 0
	}
	c.client, c.proc, c.deaths, c.since = nil, nil, c.deaths+1, time.Now()
}

// resident is what memory a process has, 0 if nobody says.
func resident(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// mostLine is what a line of the process may have.
const mostLine = 64 << 10

// listen gives the lines that the process writes to whoever logs.
func (c *Child) listen(proc *tools.Spawned) {
	defer c.ends.Done()
	defer proc.Stdout.Close()
	defer proc.Stderr.Close()
	go io.Copy(io.Discard, proc.Stdout) // it has nothing to say there
	eachLine(proc.Stderr, func(line string) bool { c.o.Log(line); return true })
}

// eachLine reads lines until there are no more, or nobody wants them. A longer one than
// mostLine comes in pieces.
func eachLine(from io.Reader, say func(line string) bool) {
	r := bufio.NewReaderSize(from, mostLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 && !say(strings.TrimRight(string(line), "\r\n")) || err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}
