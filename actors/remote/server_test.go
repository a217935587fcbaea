package remote

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/conn"
)

// Strangers cannot take all descriptors: the one too many is closed, and another may
// come once one of them has gone.
func TestStrangersAreBounded(t *testing.T) {
	s := New(Config{})
	var first net.Conn
	for range maxStrangers {
		first, _ = net.Pipe()
		s.count(first, http.StateNew)
	}
	open := func() bool {
		ours, theirs := net.Pipe()
		s.count(ours, http.StateNew)
		go func() { _, _ = ours.Write([]byte("x")) }()
		n, _ := theirs.Read(make([]byte, 1))
		return n == 1
	}
	assert.False(t, open())
	s.count(first, http.StateClosed)
	assert.True(t, open())
}

// The place where a stream of events has ended is taken as it is, or not at all.
func TestAttachTo(t *testing.T) {
	since := map[string]any{"epoch": "e", "seq": uint64(7)}
	assert.Equal(t, since, attachTo("s1", "e:s1:7")["since"])
	for _, last := range []string{"", "e:s2:7", "e:s1:x", "e:s1:-1", `e:s1:0},"x":{`, "e:s1:7:8"} {
		of := attachTo("s1", last)
		assert.NotContains(t, of, "since", last)
		assert.Contains(t, of, "snapshot", last)
	}
}

// pipes is a listener of connections in this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Who sends half a request, or does not read the answer, is not waited for long, whatever
// the path and whether it has a credential or not.
func TestHalfRequestsEnd(t *testing.T) {
	const host = "Host: h\r\n"
	for name, half := range map[string]string{
		"nothing": "", "head": "GET / HTTP/1.1\r\n",
		"login":       "POST /v1/login HTTP/1.1\r\n" + host + "Content-Length: 9\r\n\r\n{",
		"commands":    "POST /v1/rpc HTTP/1.1\r\n" + host + "Authorization: Bearer TOKEN\r\nContent-Length: 9\r\n\r\n{",
		"stranger":    "POST /v1/rpc HTTP/1.1\r\n" + host + "Content-Length: 9\r\n\r\n{",
		"other name":  "POST /v1/rpc HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 9\r\n\r\n{",
		"no such way": "PUT /x HTTP/1.1\r\n" + host + "Content-Length: 9\r\n\r\n{",
		"chunks":      "POST /x HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
		"page":        "GET / HTTP/1.1\r\n" + host + "Content-Length: 9\r\n\r\n{",
		"deaf":        "GET / HTTP/1.1\r\n" + host + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			token, err := OpenTokens(filepath.Join(t.TempDir(), "troupe"), TokenFile{})
			require.NoError(t, err)
			token.file = sha256.Sum256([]byte("TOKEN"))
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Tokens: token, Hosts: []string{"h"}, Log: zerolog.Nop()})
				l := make(pipes)
				go func() { _ = s.http.Serve(l) }()
				ours, theirs := net.Pipe()
				l <- theirs
				begun := time.Now()
				_, err := io.WriteString(ours, half)
				require.NoError(t, err)
				if name == "deaf" {
					for len(s.open()) > 0 { // it is let go
						time.Sleep(time.Second)
					}
				} else {
					_, err = io.Copy(io.Discard, ours)
					require.NoError(t, err)
				}
				assert.LessOrEqual(t, time.Since(begun), rpcPatience+writePatience)
				close(l)
				_ = s.http.Close()
			})
		})
	}
}

// open are the connections of TCP that may be anybody's.
func (s *Server) open() (list []net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.strangers {
		list = append(list, c)
	}
	return list
}

// Who guesses is told when to come again, and programs by a code what it is.
func TestTooManyFailures(t *testing.T) {
	tokens, err := OpenTokens(filepath.Join(t.TempDir(), "troupe"), TokenFile{})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Tokens: tokens, Hosts: []string{"h"}, Log: zerolog.Nop()})
		guess := func() (status int, retryAfter string, said gjson.Result) {
			r := httptest.NewRequest(http.MethodPost, "http://h/v1/rpc", nil)
			r.Header.Set("Authorization", "Bearer guess")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code, w.Header().Get("Retry-After"), gjson.ParseBytes(w.Body.Bytes())
		}
		for range failuresAMinute {
			status, retryAfter, said := guess()
			require.Equal(t, http.StatusUnauthorized, status)
			require.Empty(t, retryAfter)
			require.Equal(t, "unauthorized", said.Get("code").Str)
		}
		time.Sleep(20*time.Second + time.Millisecond)
		status, retryAfter, said := guess()
		require.Equal(t, http.StatusTooManyRequests, status)
		require.Equal(t, "40", retryAfter)
		require.Equal(t, "rate_limited", said.Get("code").Str)
		require.EqualValues(t, 39_999, said.Get("data.retryAfterMs").Int())
		time.Sleep(40 * time.Second)
		status, _, _ = guess()
		require.Equal(t, http.StatusUnauthorized, status)
	})
}

// The log has who has asked for what.
func TestAccessLog(t *testing.T) {
	var said bytes.Buffer
	log := zerolog.New(&said)
	v := &visitor{log: &log, name: "WebSocket 1", device: "d1"}
	v.Answered(conn.Answer{Command: "hello", ClientID: "client-1"})
	v.Answered(conn.Answer{Session: "s1", Command: "get_state", Asks: true})
	v.Answered(conn.Answer{Session: "s1", Command: "approval_response", Code: "forbidden"})
	assert.Equal(t, `{"level":"info","client":"WebSocket 1","device":"d1","clientId":"client-1","command":"hello","message":"command"}
{"level":"info","client":"WebSocket 1","device":"d1","clientId":"client-1","session":"s1","command":"approval_response","code":"forbidden","message":"command"}
`, said.String())
}

// Whatever is refused is refused in one form, for people and for programs.
func TestRefusalsAreObjects(t *testing.T) {
	tokens, err := OpenTokens(t.TempDir(), TokenFile{})
	require.NoError(t, err)
	token, _, err := tokens.Login(tokens.NewCode(ScopeFull), "test")
	require.NoError(t, err)
	s := New(Config{Log: zerolog.Nop(), Hosts: []string{"h"}, Tokens: tokens})
	for asked, want := range map[string]struct {
		status int
		code   string
	}{
		"GET http://h/v1/nothing":  {404, "not_found"},
		"GET http://h/nothing":     {404, "not_found"},
		"GET http://h/v1/image/x":  {404, "not_found"},
		"GET http://h/v1/rpc":      {405, "unsupported"},
		"DELETE http://h/v1/ws":    {405, "unsupported"},
		"POST http://h/":           {405, "unsupported"},
		"GET http://h/v1/ws":       {426, "invalid_params"},
		"GET http://h/v1/ws?x=y":   {400, "invalid_params"},
		"POST http://h/v1/login":   {400, "invalid_params"},
		"GET http://other/v1/ws":   {403, "forbidden"},
		"GET http://h/v1/events":   {400, "invalid_params"},
		"GET http://h/metrics":     {404, "not_found"},
		"DELETE http://h/v1/image": {405, "unsupported"},
	} {
		method, url, _ := strings.Cut(asked, " ")
		r := httptest.NewRequest(method, url, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		assert.Equal(t, want.status, w.Code, asked)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), asked)
		v := gjson.Parse(w.Body.String())
		assert.Equal(t, want.code, v.Get("code").Str, "%s: %s", asked, w.Body)
		assert.NotEmpty(t, v.Get("error").Str, asked)
		assert.Equal(t, want.status == 405, w.Header().Get("Allow") != "", asked)
	}
}
