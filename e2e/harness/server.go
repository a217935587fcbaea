package harness

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// Server is a process running troupe serve, to which clients connect.
type Server struct {
	T      *testing.T
	Place  *Place
	Cmd    *exec.Cmd
	Socket string
	URL    string     // of the page; "" without --listen
	Code   string     // that pairs one browser
	Ended  chan error // has the error of Wait when the process has ended

	mu     sync.Mutex
	stderr bytes.Buffer
}

// Serve starts a server on a Unix socket of the place. It returns when clients can connect or when
// the process has exited.
func (p *Place) Serve(args ...string) *Server {
	p.T.Helper()
	s := &Server{T: p.T, Place: p, Socket: filepath.Join(p.Root, "run", "s.sock"), Ended: make(chan error, 1)}
	s.Cmd = exec.Command(Binary, append([]string{"serve", "--socket", s.Socket, "--model", "mock/mock-1"}, args...)...)
	s.Cmd.Env, s.Cmd.Dir = p.Environ(), p.Work
	out, err := s.Cmd.StderrPipe()
	require.NoError(p.T, err)
	require.NoError(p.T, s.Cmd.Start())
	ready := make(chan bool)
	go func() {
		lines, told := bufio.NewReader(out), false
		for {
			line, err := lines.ReadString('\n')
			s.mu.Lock()
			s.stderr.WriteString(line)
			s.mu.Unlock()
			if at := regexp.MustCompile(`(http\S+)/#c=(\S+)`).FindStringSubmatch(line); at != nil {
				s.URL, s.Code = at[1], at[2]
			}
			isReady := strings.Contains(line, "clients connect with") && !strings.Contains(strings.Join(args, " "), "--listen") || s.Code != ""
			if !told && (isReady || err != nil) {
				told = true
				close(ready)
			}
			if err != nil {
				s.Ended <- s.Cmd.Wait()
				return
			}
		}
	}()
	<-ready
	p.T.Cleanup(func() { _ = s.Cmd.Process.Kill() })
	return s
}

// Stderr returns the text that the process has written to stderr so far.
func (s *Server) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// Stop ends the process with SIGTERM and returns its exit code.
func (s *Server) Stop() int {
	s.T.Helper()
	require.NoError(s.T, s.Cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.Ended:
	case <-time.After(Patience):
		s.T.Fatal("the daemon did not end\n" + s.Stderr())
	}
	return s.Cmd.ProcessState.ExitCode()
}

// Connect starts troupe connect, whose stdio is a client of the server.
func (s *Server) Connect(args ...string) *Daemon {
	return s.Place.StartRaw(append([]string{"connect", "--to", s.Socket}, args...)...)
}

// Do sends an HTTP request. header alternates names and values of headers.
func (s *Server) Do(method, path, body string, header ...string) (status int, answer string) {
	s.T.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	require.NoError(s.T, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.T, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(s.T, err)
	return res.StatusCode, string(b)
}

// Login exchanges a pairing code for a token, as a browser does.
func (s *Server) Login(code string) (token, scope string) {
	s.T.Helper()
	status, answer := s.Do("POST", "/v1/login", `{"code":"`+code+`","name":"test"}`)
	require.Equal(s.T, 200, status, answer)
	return gjson.Get(answer, "token").Str, gjson.Get(answer, "scope").Str
}

// Token reads the token for programs from its file.
func (s *Server) Token() string {
	s.T.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Place.AgentDir(), "troupe", "serve.token"))
	require.NoError(s.T, err)
	return strings.TrimSpace(string(raw))
}

// Bearer returns the header, for [Server.Do], that carries a token.
func Bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Dial opens a WebSocket at the default path. It also returns the HTTP status.
func (s *Server) Dial(token, protocol string) (*WSClient, string) {
	s.T.Helper()
	return s.DialPath("/v1/ws", token, protocol)
}

// DialPath is Dial for another path.
func (s *Server) DialPath(path, token, protocol string) (*WSClient, string) {
	s.T.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(s.T, err)
	s.T.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET "+path+" HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s, troupe.auth.%s\r\n\r\n",
		strings.TrimPrefix(s.URL, "http://"), protocol, base64.RawURLEncoding.EncodeToString([]byte(token)))
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	require.NoError(s.T, err)
	assert.NotContains(s.T, res.Header.Get("Sec-WebSocket-Protocol"), "auth")
	return &WSClient{T: s.T, Conn: c, Reader: in}, res.Status
}
