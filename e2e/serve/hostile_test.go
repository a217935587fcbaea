package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
)

// roundTrip sends bytes and returns the status of the response, or 0 if there is no response.
func roundTrip(s *harness.Server, request string) int {
	s.T.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(s.T, err)
	defer c.Close()
	require.NoError(s.T, c.SetDeadline(time.Now().Add(harness.Patience)))
	_, err = io.WriteString(c, request)
	require.NoError(s.T, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// TestHostileRequests checks the responses to malformed and malicious HTTP requests.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	raw, err := os.ReadFile(filepath.Join(p.AgentDir(), "troupe", "serve.token"))
	require.NoError(t, err)
	host := strings.TrimPrefix(s.URL, "http://")
	port := host[strings.LastIndex(host, ":"):]
	auth := "Authorization: Bearer " + strings.TrimSpace(string(raw)) + "\r\n"
	names := "Host: " + host + "\r\n"
	for request, want := range map[string]int{
		"GET /healthz HTTP/1.1\r\n" + names + "\r\n":                                                                                200,
		"GET /healthz HTTP/1.1\r\nHost: LOCALHOST" + port + "\r\n\r\n":                                                              200,
		"GET /healthz HTTP/1.1\r\nHost: localhost." + port + "\r\n\r\n":                                                             403,
		"GET /healthz HTTP/1.0\r\n\r\n":                                                                                             403,
		"GET http://evil.test/healthz HTTP/1.1\r\n" + names + "\r\n":                                                                403,
		"GET /healthz HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-Host: " + host + "\r\n\r\n":                                        403,
		"GET /healthz HTTP/1.1\r\n" + names + "Host: evil.test\r\n\r\n":                                                             400,
		"GET /healthz HTTP/1.1\r\n" + names + "Origin: " + s.URL + "\r\nOrigin: http://evil.test\r\n\r\n":                           403,
		"GET /healthz HTTP/1.1\r\n" + names + "Origin: http://127.0.0.1:9\r\n\r\n":                                                  403,
		"POST /v1/login HTTP/1.1\r\n" + names + "Origin: http://evil.test\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n": 403,
		"GET /v1/rpc HTTP/1.1\r\n" + names + auth + "\r\n":                                                                          405,
		"POST /v1/ws HTTP/1.1\r\n" + names + auth + "Content-Length: 0\r\n\r\n":                                                     405,
		"TRACE / HTTP/1.1\r\n" + names + "\r\n":                                                                                     405,
		"GET /../../etc/passwd HTTP/1.1\r\n" + names + "\r\n":                                                                       404,
		"GET /ui/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + names + "\r\n":                                                            404,
		"GET / HTTP/1.1\r\n" + names + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n":                                             431,
		"POST /v1/rpc HTTP/1.1\r\n" + names + auth + "Content-Length: 99999999999\r\n\r\n{":                                         413,
		"POST /v1/rpc HTTP/1.1\r\n" + names + strings.Replace(auth, "Bearer", "bearer", 1) + "Content-Length: 0\r\n\r\n":            200,
		"POST /v1/rpc HTTP/1.1\r\n" + names + strings.Replace(auth, "Bearer", "Basic", 1) + "Content-Length: 0\r\n\r\n":             401,
		"POST /v1/rpc HTTP/1.1\r\n" + names + "Authorization: Bearer x\r\n" + auth + "Content-Length: 0\r\n\r\n":                    401,
		"GET /v1/events?session=none HTTP/1.1\r\n" + names + auth + "\r\n":                                                          404,
		"GET /v1/events?session=s1%0Adata:%20x HTTP/1.1\r\n" + names + auth + "\r\n":                                                400,
		"GET /v1/ws HTTP/1.1\r\n" + names + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: troupe.v9\r\n\r\n": 400,
	} {
		assert.Equal(t, want, roundTrip(s, request), "%.200s", request)
	}
	status, _ := s.Do("GET", "/healthz", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, 143, s.Stop())
	assert.NotContains(t, s.Stderr(), "panic")
}

// TestHostileFrames checks that an invalid WebSocket frame closes its own connection with the right
// code, and no other connection.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	token := s.Token()
	bystander, _ := s.Dial(token, "troupe.v1")
	const mask = "\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		bytes string
		code  int
	}{
		"not masked":          {"\x81\x02{}", 1002},
		"compressed":          {"\xc1\x82" + mask + "{}", 1002},
		"binary":              {"\x82\x82" + mask + "{}", 1003},
		"an unknown opcode":   {"\x83\x82" + mask + "{}", 1002},
		"half a ping":         {"\x09\x81" + mask + "x", 1002},
		"a ping too long":     {"\x89\xfe\x00\xc8" + mask + strings.Repeat("x", 200), 1002},
		"a rest of nothing":   {"\x80\x82" + mask + "{}", 1002},
		"two at once":         {"\x01\x81" + mask + "{" + "\x81\x81" + mask + "}", 1002},
		"a negative length":   {"\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" + mask, 1002},
		"a code that is none": {"\x88\x82" + mask + "\x03\xed", 1002},
	} {
		client, status := s.Dial(token, "troupe.v1")
		require.Contains(t, status, "101")
		_, err := io.WriteString(client.Conn, c.bytes)
		require.NoError(t, err)
		opcode, payload := client.ReadMessage()
		require.Equal(t, byte(8), opcode, name)
		assert.Equal(t, c.code, int(payload[0])<<8|int(payload[1]), "%s: %s", name, payload[2:])
	}
	long := `{"id":"long","type":"ping","x":"` + strings.Repeat("x", 17<<20) + `"}` // as hello's limits allow
	for i, line := range []string{long, "garbage", "[1,2]", `{"id":` + strings.Repeat("[", 50_000), "{\"type\":\"ping\xff\"}", `{"type":1}`} {
		client, _ := s.Dial(token, "troupe.v1")
		client.Send(line)
		client.Send(fmt.Sprintf(`{"id":"%d","type":"ping"}`, i))
		client.WaitFor(fmt.Sprint(i))
	}
	bystander.Send(`{"id":"still","type":"ping"}`)
	bystander.WaitFor("still")
	assert.Equal(t, 143, s.Stop())
	assert.NotContains(t, s.Stderr(), "panic")
}
