package harness

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// WSClient is a WebSocket client that reads and writes frames itself, so that a test can send
// invalid ones.
type WSClient struct {
	T      *testing.T
	Conn   net.Conn
	Reader *bufio.Reader // of Conn

	rest [][]byte // lines of the last message that WaitFor has not looked at
}

// Send sends a line as one text frame.
func (w *WSClient) Send(line string) {
	n := len(line)
	head := []byte{0x81, 0x80 | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0} // masked with zeros
	_, err := w.Conn.Write(append(head, line...))
	require.NoError(w.T, err)
}

// ReadMessage reads the next frame. Opcode 8 closes the connection.
func (w *WSClient) ReadMessage() (opcode byte, payload []byte) {
	w.T.Helper()
	require.NoError(w.T, w.Conn.SetReadDeadline(time.Now().Add(Patience)))
	head := make([]byte, 2)
	_, err := io.ReadFull(w.Reader, head)
	require.NoError(w.T, err)
	n := int(head[1] & 0x7f)
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		long := make([]byte, more)
		_, err = io.ReadFull(w.Reader, long)
		require.NoError(w.T, err)
		n = 0
		for _, b := range long {
			n = n<<8 | int(b)
		}
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(w.Reader, payload)
	require.NoError(w.T, err)
	return head[0] & 0x0f, payload
}

// WaitFor reads records up to the next one that has this type or id, and answers
// pings.
func (w *WSClient) WaitFor(kind string) gjson.Result {
	w.T.Helper()
	for {
		for len(w.rest) > 0 {
			v := gjson.ParseBytes(w.rest[0])
			w.rest = w.rest[1:]
			if v.Get("type").Str == kind || v.Get("id").Str == kind {
				return v
			}
		}
		opcode, payload := w.ReadMessage()
		require.NotEqual(w.T, byte(8), opcode, "%s did not come", kind)
		if opcode == 9 { // a ping
			_, err := w.Conn.Write(append([]byte{0x8a, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...))
			require.NoError(w.T, err)
			continue
		}
		w.rest = bytes.Split(payload, []byte("\n"))
	}
}
