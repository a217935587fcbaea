package extension

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
)

// Kinds of frames of a WebSocket (RFC 6455).
const (
	frameMore  = 0x0
	frameText  = 0x1
	frameClose = 0x8
	framePing  = 0x9
	framePong  = 0xA
)

type wsMessage struct {
	kind byte
	data []byte
}

// acceptOf is what a server makes of the key of a client.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// readClientFrame reads a frame as a server does: it has to be masked and whole.
func readClientFrame(r io.Reader) (m wsMessage, ok bool) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil || head[1]&0x80 == 0 {
		return m, false
	}
	m.kind = head[0] & 0x0f
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		_, _ = io.ReadFull(r, head[:2])
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		_, _ = io.ReadFull(r, head[:])
		n = binary.BigEndian.Uint64(head[:])
	}
	rest := make([]byte, 4+n)
	_, err := io.ReadFull(r, rest)
	m.data = rest[4:]
	for i := range m.data {
		m.data[i] ^= rest[i%4]
	}
	return m, err == nil
}

func serverFrame(first byte, data string) []byte {
	b := []byte{first}
	switch n := len(data); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, data...)
}

// webSocketServer sends back what it gets, in two frames with a ping between them, breaks
// off at "break", breaks the rules at "rules", and closes at "bye".
func webSocketServer(t *testing.T) string {
	var pongs atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			http.NotFound(w, r)
			return
		}
		assert.Equal(t, "me", r.Header.Get("X-Who"))
		conn, rw, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		chosen := ""
		if r.Header.Get("Sec-WebSocket-Protocol") != "" {
			chosen = "Sec-WebSocket-Protocol: b\r\n"
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+chosen+
			"Sec-WebSocket-Accept: "+acceptOf(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
		echo(conn, rw.Reader, &pongs)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		assert.Positive(t, pongs.Load(), "a ping is answered")
	})
	return strings.Replace(srv.URL, "http", "ws", 1)
}

func echo(conn net.Conn, r *bufio.Reader, pongs *atomic.Int32) {
	for {
		m, ok := readClientFrame(r)
		text := string(m.data)
		switch {
		case !ok || m.kind == frameText && text == "break":
			return
		case m.kind == framePong:
			pongs.Add(1)
		case m.kind == frameClose:
			conn.Write(serverFrame(0x80|frameClose, text))
			return
		case text == "bye":
			conn.Write(serverFrame(0x80|frameClose, "\x0f\xa0see you"))
			io.Copy(io.Discard, r)
			return
		case text == "rules":
			conn.Write(serverFrame(0xF0|frameText, text)) // reserved bits that nobody has agreed on
			io.Copy(io.Discard, r)
			return
		default:
			half := len(text) / 2
			conn.Write(serverFrame(m.kind, text[:half]))
			conn.Write(serverFrame(0x80|framePing, "?"))
			conn.Write(serverFrame(0x80|frameMore, text[half:]))
		}
	}
}

// TestWebSocket: what it sends and gets, how it is closed from both sides, and how it
// breaks.
func TestWebSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ws.ts")
	require.NoError(t, os.WriteFile(path, []byte(`
const once = (s: any, name: string): any => new Promise((done) => s.addEventListener(name, done, { once: true }));
export default function (pi: any) {
	pi.registerCommand("go", { handler: async (url: string) => {
		const open = async () => {
			const s: any = new WebSocket(url, { protocols: ["a", "b"], headers: { "x-who": "me" } } as any);
			await once(s, "open");
			return s;
		};
		const results: any[] = [];
		const s = await open();
		s.binaryType = "arraybuffer";
		results.push([s.readyState, s.protocol, s.url === url + "/"]);
		const got: any[] = [];
		const all = new Promise<void>((done) => { s.onmessage = (e: any) => { got.push(typeof e.data === "string" ? e.data.length + e.data.slice(0, 3) : [...new Uint8Array(e.data)]); if (got.length === 4) done(); }; });
		for (const m of ["grüße", new Uint8Array([1, 2, 255]), "x".repeat(70000), "y".repeat(300)]) s.send(m);
		results.push(s.bufferedAmount > 300);
		await all;
		results.push(got, s.bufferedAmount);
		s.close(3001, "enough");
		const end = async (s: any) => { const e = await once(s, "close"); return [e.code, e.reason, e.wasClean, s.readyState]; };
		results.push(await end(s));
		for (const word of ["bye", "break", "rules"]) {
			const s = await open();
			const failed = once(s, "error").then((e: any) => { results.push("error"); });
			s.send(word);
			results.push(await end(s));
		}
		const none: any = new WebSocket(url + "/none");
		results.push((await once(none, "error")).message, none.readyState);
		try { new WebSocket("ftp://x"); } catch (e: any) { results.push(e.name); }
		try { new WebSocket(url, { headers: { "x-who": "me" } } as any).send("early"); } catch (e: any) { results.push(e.name); }
		pi.appendEntry("said", results);
	} });
}
`), 0o600))
	url := webSocketServer(t)
	w := load(t, path)
	require.Empty(t, w.ready.Errors)
	w.vm.Command(1, "go", url)
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Contains(t, w.acts("appendEntry")[0], `[[1,"b",true],true,["5grü",[1,2,255],"70000xxx","300yyy"],0,[3001,"enough",true,3],`+
		`[4000,"see you",true,3],"error",[1006,"",false,3],"error",[1006,"",false,3],`+
		`"the server answered 404 Not Found to a WebSocket",3,"SyntaxError","InvalidStateError"]`)
}
