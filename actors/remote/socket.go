package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"troupe/actors/conn"
	"troupe/actors/kernel"
)

// A Preface is the first line of "troupe connect": where it was started and with
// which flags; or of "troupe serve pair", which wants nothing else. A client that speaks
// to the socket by itself has none, and its first line is a command.
type Preface struct {
	Word  string   `json:"troupe"` // wordConnect or wordPair
	Cwd   string   `json:"cwd,omitempty"`
	Args  []string `json:"args,omitempty"`
	Scope Scope    `json:"scope,omitempty"` // of the browser that is to be paired
}

const (
	wordConnect = "connect"
	wordPair    = "pair"
)

// maxPreface bounds the first line: flags may hold a system prompt.
const maxPreface = 1 << 20

// lineClient is a client on a socket of lines.
type lineClient struct {
	visitor
	net.Conn
	in *bufio.Reader
}

func (c *lineClient) Read(p []byte) (int, error) { return c.in.Read(p) }

// readPreface reads the first line, if it is one.
func readPreface(in *bufio.Reader) (*Preface, error) {
	const begins = `{"troupe":"`
	head, err := in.Peek(len(begins))
	if err != nil || string(head) != begins {
		return nil, nil // what is wrong with it the connection will say
	}
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxPreface {
			return nil, errors.New("the first line is too long or not whole")
		}
	}
	var p Preface
	if err := json.Unmarshal(line, &p); err != nil {
		return nil, err
	}
	if p.Word != wordConnect && p.Word != wordPair {
		return nil, fmt.Errorf("unknown service %q", p.Word)
	}
	return &p, nil
}

// Listen opens the socket of a directory, which must be ours alone. lock keeps a
// second daemon away, and lets the file of one that was killed be replaced.
func Listen(path string) (l net.Listener, unlock func(), err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, nil, err
	}
	if !st.IsDir() || st.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("%s can be entered by others: chmod 700", dir)
	}
	if owner, ok := st.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
		return nil, nil, fmt.Errorf("%s belongs to another user", dir)
	}
	lock, err := lockAs(path+".lock", path)
	if err != nil {
		return nil, nil, err
	}
	if err := removeSocket(path); err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	l, err = net.Listen("unix", path)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, errors.Join(err, l.Close(), lock.Close())
	}
	return l, func() { _ = lock.Close() }, nil
}

// removeSocket removes the socket of a daemon that was killed. Other files, and sockets that somebody listens
// on, stay.
func removeSocket(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket: remove it, or give another --socket", path)
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s is the socket of another program, which listens there: give another --socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s may be the socket of another program: %w", path, err)
	}
	return os.Remove(path)
}

// dialTime bounds the look at a socket that is in the way.
const dialTime = 5 * time.Second

// maxLock is how long a lock is, which holds the number of a process.
const maxLock = 20

// LockState keeps a second daemon away from the state of an agent directory, whatever
// socket it is to have: devices, grants and what waits in sessions are one daemon's. The
// kernel lets go of the lock when the process ends, however that is.
func LockState(agentDir string) (unlock func(), err error) {
	dir := filepath.Join(agentDir, "troupe", "run")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockAs(filepath.Join(dir, "serve.lock"), agentDir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// lockAs locks a file and writes the process's number into it, or says which daemon has
// locked it for what.
func lockAs(path, what string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if held, _ := io.ReadAll(io.LimitReader(lock, maxLock+1)); len(held) > maxLock || strings.Trim(string(held), "0123456789") != "" {
		return nil, errors.Join(fmt.Errorf("%s exists and is not the lock of a daemon: remove it, or give another --socket", path), lock.Close())
	}
	_, _ = lock.Seek(0, io.SeekStart)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		who, _ := io.ReadAll(io.LimitReader(lock, 100))
		return nil, errors.Join(fmt.Errorf("a daemon serves %s already: process %s", what, who), lock.Close())
	}
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt([]byte(fmt.Sprint(os.Getpid())), 0)
	return lock, nil
}

func (s *Server) takeLines(c net.Conn) {
	uid, pid, err := peerProcess(c)
	if err == nil && uid != os.Getuid() && uid != 0 {
		err = fmt.Errorf("user %d is not this one", uid)
	}
	if err != nil {
		s.Log.Warn().Err(err).Int("pid", pid).Msg("client rejected")
		_ = c.Close()
		return
	}
	if !s.enter() {
		s.Log.Warn().Int("pid", pid).Msg("client rejected: too many connections")
		turnAway(c, "overloaded", errors.New("too many connections"))
		return
	}
	defer s.leave()
	client := &lineClient{visitor: s.visitor(fmt.Sprintf("socket, process %d", pid), who{}), Conn: c, in: bufio.NewReaderSize(c, 64<<10)}
	preface, err := readPreface(client.in)
	if err == nil && preface != nil && preface.Word == wordPair {
		if err = s.pair(c, client.name, preface.Scope); err == nil {
			return
		}
	}
	var cfg conn.Config
	if err == nil {
		cfg, err = s.Configure(preface)
	}
	if err != nil {
		turnAway(c, "invalid_params", err)
		return
	}
	s.Log.Info().Str("client", client.name).Msg("connected")
	s.run(cfg, client)
	s.Log.Info().Str("client", client.name).Msg("disconnected")
}

// invitation answers "troupe serve pair".
type invitation struct {
	Success bool   `json:"success"`
	URL     string `json:"url"` // with a one-time code
}

// pair invites one more browser. The log has who wanted that, and not the code.
func (s *Server) pair(c net.Conn, name string, scope Scope) error {
	switch {
	case s.Tokens == nil:
		return errors.New("this daemon has no page: it was started without --listen")
	case s.draining.Load():
		return errors.New("the daemon ends")
	case scope != ScopeFull && scope != ScopeView:
		return fmt.Errorf("scope %q: want %s or %s", scope, ScopeFull, ScopeView)
	}
	s.Log.Info().Str("client", name).Str("scope", string(scope)).Msg("browser invited")
	said, _ := json.Marshal(invitation{Success: true, URL: s.Tokens.Invite(scope)})
	_ = c.SetWriteDeadline(time.Now().Add(handshakeTime))
	_, _ = c.Write(append(said, '\n')) // whoever is gone does not want it
	return c.Close()
}

// Pair asks the daemon on a connection for the address of its page, good for one browser.
func Pair(c net.Conn, scope Scope, within time.Duration) (url string, err error) {
	var answer struct {
		invitation
		Error string
	}
	if err := ask(c, Preface{Word: wordPair, Scope: scope}, &answer, within); err != nil {
		return "", err
	}
	if !answer.Success {
		return "", errors.New(answer.Error)
	}
	return answer.URL, nil
}

// ask writes a line to a daemon and reads one.
func ask(c net.Conn, question, answer any, within time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(question); err != nil {
		return err
	}
	return json.NewDecoder(c).Decode(answer)
}

// refusal is what a client or a request hears that is not served. Its beginning tells it apart from
// every record of a session.
type refusal struct {
	Code    string `json:"code"`
	Type    string `json:"type"`
	Command string `json:"command,omitempty"`
	Success bool   `json:"success"`
	Error   string `json:"error"`

	Data map[string]int64 `json:"data,omitempty"`
}

const refusalBegins = `{"code":`

func turnAway(c net.Conn, code string, err error) {
	said, _ := json.Marshal(refusal{Code: code, Type: "response", Command: "connect", Error: err.Error()})
	_ = c.SetWriteDeadline(time.Now().Add(handshakeTime))
	_, _ = c.Write(append(said, '\n'))
	_ = c.Close()
}

// run serves a connection to its end.
func (s *Server) run(cfg conn.Config, t conn.Transport) {
	if err := s.Daemon.Connect(cfg, t).Wait(); err != nil {
		s.Log.Info().Err(err).Stringer("client", t).Msg("connection ended")
	}
}

// enter counts a connection, and says whether there is room for it.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections >= maxConnections {
		return false
	}
	s.connections++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections--
}

// Ping says why the daemon on a connection does not answer within a time; nil if it does.
func Ping(c net.Conn, within time.Duration) error {
	var answer refusal
	if err := ask(c, map[string]string{"id": "1", "type": "ping"}, &answer, within); err != nil {
		return err
	}
	if !answer.Success {
		return errors.New(answer.Error)
	}
	return nil
}

// Relay copies both ways until the daemon says no more. It is "troupe connect". That
// the daemon has refused the client, or ended before the client did, is an error.
func Relay(c *net.UnixConn, p Preface, in io.Reader, out io.Writer) error {
	p.Word = wordConnect
	first, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := c.Write(append(first, '\n')); err != nil {
		return err
	}
	var inputEnded atomic.Bool
	kernel.Beside(func() { // it may wait for a line that never comes
		_, err := io.Copy(c, in)
		inputEnded.Store(err == nil) // if the daemon is gone, reading from it says so
		_ = c.CloseWrite()
	}, func(any) { _ = c.Close() })
	from := bufio.NewReaderSize(c, 64<<10)
	if head, _ := from.Peek(len(refusalBegins)); string(head) == refusalBegins {
		var r refusal
		if err := json.NewDecoder(from).Decode(&r); err != nil {
			return err
		}
		return errors.New(r.Error)
	}
	if _, err = io.Copy(out, from); err == nil && !inputEnded.Load() {
		err = errors.New("the daemon has ended the connection")
	}
	return err
}
