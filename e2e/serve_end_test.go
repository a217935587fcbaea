package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestServeDrain: a run that is under way when the daemon is told to end comes to its end,
// and meanwhile nobody else is taken.
func TestServeDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0", "--drain", "1m", "--pprof", filepath.Join(p.root, "profiles"))
	token, _ := s.login(s.code)
	d := s.connect()
	p.llm.plays(text("all ").and(gate("rest")).and(text("of it")))
	d.ok(`{"type":"prompt","message":"go"}`)
	d.event("message_update")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		status, _ := s.ask("GET", "/readyz", "")
		return status == 503
	}, patience, 10*time.Millisecond)
	status, _ := s.ask("POST", "/v1/rpc", `{"id":1,"type":"list_open_sessions"}`, bearer(token)...)
	assert.Equal(t, 503, status)
	status, _ = s.ask("GET", "/healthz", "")
	assert.Equal(t, 200, status)
	p.llm.open("rest")
	assert.Equal(t, "all of it", d.event("agent_end").Get("messages.1.content.0.text").Str)
	<-s.ended
	assert.Equal(t, 143, s.cmd.ProcessState.ExitCode())
	assert.FileExists(t, filepath.Join(p.root, "profiles", "allocs.pprof"))
}

// TestServeTLS: with a certificate the port speaks TLS and nothing else.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(t, err)
	coded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert, private := filepath.Join(p.root, "cert.pem"), filepath.Join(p.root, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: coded}), 0o600))

	broken := exec.Command(binary, "serve", "--socket", filepath.Join(p.root, "run", "s.sock"), "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", cert)
	broken.Env = p.environ()
	out, _ := broken.CombinedOutput()
	assert.Equal(t, 1, broken.ProcessState.ExitCode())
	assert.NotContains(t, string(out), "clients connect")

	s := p.serve("--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", private)
	require.True(t, strings.HasPrefix(s.base, "https://"), s.base)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool.AddCert(parsed)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	res, err := client.Get(s.base + "/healthz")
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, 200, res.StatusCode)
	res, err = http.Get("http" + strings.TrimPrefix(s.base, "https") + "/healthz")
	if err == nil {
		res.Body.Close()
		assert.Equal(t, 400, res.StatusCode)
	}
	assert.Equal(t, 143, s.stop())
}

// TestStalledWebSocket: a client on TCP that does not read holds no session back. It is
// told where events are missing, and its commands are answered.
func TestStalledWebSocket(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0")
	token, _ := s.login(s.code)
	reads, _ := s.dial(token, "troupe.v1.lines")
	stalls, _ := s.dial(token, "troupe.v1.lines")
	reads.send(`{"id":"open","type":"open_session","retain":true,"permissionMode":"auto"}`)
	handle := reads.until("open").Get("data.sessionId").Str
	stalls.send(`{"id":"attach","type":"attach","sessionId":"` + handle + `"}`)
	stalls.until("attach")
	long := strings.Repeat("x", 100<<10) // far less than may wait, so who reads misses nothing
	for range 60 {                       // far more, with what the kernel takes
		p.llm.plays(text(long))
		reads.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
		reads.until("agent_settled")
	}
	stalls.send(`{"id":"state","type":"get_state","sessionId":"` + handle + `"}`)
	assert.Equal(t, "lagged", stalls.until("resync").Get("reason").Str)
	assert.True(t, stalls.until("state").Get("success").Bool())
	stalls.send(`{"id":"again","type":"attach","sessionId":"` + handle + `"}`)
	assert.True(t, stalls.until("again").Get("success").Bool())
	assert.Equal(t, 143, s.stop())
}

// TestServeDraining: a client on TCP is told that the end has begun, hears the run that is
// under way to its end, and is told why its WebSocket closes.
func TestServeDraining(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0", "--drain", "1m")
	token, _ := s.login(s.code)
	client, _ := s.dial(token, "troupe.v1")
	client.send(`{"id":"open","type":"open_session","permissionMode":"auto"}`)
	handle := client.until("open").Get("data.sessionId").Str
	p.llm.plays(text("all ").and(gate("rest")).and(text("of it")))
	client.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	client.until("message_update")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.EqualValues(t, 60_000, client.until("draining").Get("deadlineMs").Int())
	client.send(`{"id":"late","type":"prompt","message":"more","sessionId":"` + handle + `"}`)
	assert.Equal(t, "session_closing", client.until("late").Get("code").Str)
	p.llm.open("rest")
	assert.Equal(t, "all of it", client.until("agent_end").Get("messages.1.content.0.text").Str)
	client.until("agent_settled")
	for {
		if opcode, payload := client.message(); opcode == 8 {
			assert.Equal(t, []byte{1001 >> 8, 1001 & 0xff}, payload[:2])
			break
		}
	}
	<-s.ended
	assert.Equal(t, 143, s.cmd.ProcessState.ExitCode())
	assert.Regexp(t, `"client":"WebSocket 127[^\n]*"session":"`+handle+`","command":"prompt"[^\n]*asked`, s.errors())
	assert.Regexp(t, `"command":"prompt","code":"session_closing"`, s.errors())
}

// TestServeDrainingAnswers: what is asked while the daemon ends can be answered, until its time is over.
func TestServeDrainingAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--listen", "127.0.0.1:0", "--drain", "1m")
	client, _ := s.dial(s.token(), "troupe.v1")
	client.send(`{"id":"hello","type":"hello","features":["approvals"]}`)
	client.send(`{"id":"open","type":"open_session","retain":false}`)
	handle := client.until("open").Get("data.sessionId").Str
	p.llm.plays(tool("c1", "bash", `{"command":"echo yes > made"}`), tool("c2", "bash", `{"command":"echo yes >> made"}`), text("made it"))
	client.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + handle + `"}`)
	asked := client.until("approval_request")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	client.until("draining")
	for range 2 {
		client.send(`{"id":"yes","type":"approval_response","approvalId":"` + asked.Get("id").Str + `","optionId":"once","sessionId":"` + handle + `"}`)
		require.Equal(t, "allowed", client.until("approval_resolved").Get("outcome").Str)
		if asked.Get("toolCallId").Str == "c1" {
			asked = client.until("approval_request")
		}
	}
	assert.Equal(t, "completed", client.until("agent_settled").Get("outcome").Str)
	<-s.ended
	assert.Equal(t, 143, s.cmd.ProcessState.ExitCode())
	made, err := os.ReadFile(filepath.Join(p.work, "made"))
	require.NoError(t, err)
	assert.Equal(t, "yes\nyes\n", string(made))
}

// TestOnAttention: a command of the user's is told that a session has come to an end, and by
// which answer.
func TestOnAttention(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	told := filepath.Join(p.root, "told")
	require.NoError(t, syscall.Mkfifo(told, 0o600))
	s := p.serve("--on-attention", "cat > '"+told+"'; echo said >&2; exit 3")
	p.llm.plays(text("all of it"))
	d := s.connect("--permission-mode", "auto")
	d.send(`{"type":"prompt","message":"go on"}`)
	said, err := os.ReadFile(told) // waits for who writes
	require.NoError(t, err)
	n := gjson.ParseBytes(said)
	assert.Equal(t, "done go on all of it "+p.work, n.Get("kind").Str+" "+n.Get("title").Str+" "+n.Get("text").Str+" "+n.Get("cwd").Str, string(said))
	assert.NotEmpty(t, n.Get("session").Str)
	eventually(t, "its failure is in the log", func() bool { return strings.Contains(s.errors(), `"stderr":"said\n"`) })
	require.Equal(t, 0, d.end())
	assert.Equal(t, 143, s.stop())
}
