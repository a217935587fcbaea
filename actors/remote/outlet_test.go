package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pair is a client of our side of a WebSocket, and the client that it is.
func pair(t *testing.T, single bool) (ours *socketClient, theirs *websocket.Conn) {
	return pairWith(t, single, websocket.CompressionDisabled)
}

func pairWith(t *testing.T, single bool, packs websocket.CompressionMode) (ours *socketClient, theirs *websocket.Conn) {
	taken := make(chan *socketClient, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &small{ResponseWriter: w}
		ws, err := websocket.Accept(s, r, &websocket.AcceptOptions{CompressionMode: packs})
		if err != nil {
			close(taken)
			return
		}
		taken <- &socketClient{ws: ws, out: s.out, single: single, packs: w.Header().Get("Sec-WebSocket-Extensions") != ""}
	}))
	t.Cleanup(server.Close)
	theirs, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{CompressionMode: packs})
	require.NoError(t, err)
	theirs.SetReadLimit(-1)
	ours = <-taken
	require.NotNil(t, ours)
	t.Cleanup(func() { _ = theirs.CloseNow(); _ = ours.ws.CloseNow() })
	return ours, theirs
}

// say writes as the writer of a connection does: without waiting what goes, then the rest.
func (c *socketClient) say(lines string) error {
	frames := c.Frame(nil, []byte(lines))
	n, err := c.TryWrite(frames)
	if err == nil && n < len(frames) {
		_, err = c.Write(frames[n:])
	}
	return err
}

// What is written in frames of our own another implementation reads, whatever the size, also
// if it comes in pieces that are cut anywhere.
func TestFrames(t *testing.T) {
	for i := range 4 {
		single, packs := i%2 == 0, []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionNoContextTakeover}[i/2]
		t.Run(fmt.Sprint(single, packs), func(t *testing.T) {
			ours, theirs := pairWith(t, single, packs)
			require.Equal(t, i/2 == 1, ours.packs)
			var want []string
			var parts []string
			for _, n := range []int{1, 125, 126, 127, 65535, 65536, 300_000} {
				line := strings.Repeat("x", n)
				want = append(want, line)
				parts = append(parts, line+"\n")
			}
			parts = append(parts, "cut ", "off", " twice\n", "ends behind", "\n")
			want = append(want, "cut off twice", "ends behind")
			if single {
				parts = append(parts, "two\nin one\n")
				want = append(want, "two", "in one")
			} else {
				parts = append(parts, "two\nin one\n", "a line\nand the half ", "of one\nand one\n")
				want = append(want, "two\nin one", "a line\nand the half of one\nand one")
			}
			wrote := make(chan error, 1)
			go func() {
				for _, part := range parts {
					if err := ours.say(part); err != nil {
						wrote <- err
						return
					}
				}
				wrote <- nil
			}()
			for _, line := range want {
				kind, got, err := theirs.Read(t.Context())
				require.NoError(t, err)
				assert.Equal(t, websocket.MessageText, kind)
				assert.Equal(t, line, string(got))
			}
			require.NoError(t, <-wrote)
		})
	}
}

// A ping never comes into the middle of a frame, however little of that goes at once, and
// records do not wait for one.
func TestFramesBesidePings(t *testing.T) {
	ours, theirs := pair(t, true)
	require.NoError(t, ours.out.Conn.(*net.TCPConn).SetWriteBuffer(4<<10))
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() {
		for {
			if _, _, err := ours.ws.Read(ctx); err != nil {
				read <- err
				return
			}
		}
	}()
	pinged := make(chan int, 1)
	go func() {
		n := 0
		for ; ours.ws.Ping(ctx) == nil; n++ {
		}
		pinged <- n
	}()
	const n = 100
	wrote := make(chan error, 1)
	go func() {
		for i := range n {
			if err := ours.say(fmt.Sprint(i, strings.Repeat("-", i*100), "\n")); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for i := range n {
		_, got, err := theirs.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i, strings.Repeat("-", i*100)), string(got))
	}
	require.NoError(t, <-wrote)
	cancel()
	assert.Error(t, <-read)
	assert.Positive(t, <-pinged)
}

// Nothing follows a frame that was not written to its end, and no goodbye waits for it.
func TestFrameThatIsCutOff(t *testing.T) {
	ours, _ := pair(t, true)
	long := ours.Frame(nil, []byte(strings.Repeat("x", 32<<20)+"\n"))
	n, err := ours.TryWrite(long)
	require.NoError(t, err)
	require.Positive(t, n)
	require.Less(t, n, len(long))
	assert.True(t, ours.out.busy())
	wrote := make(chan error, 1)
	go func() {
		_, err := ours.Write(long[n:])
		wrote <- err
	}()
	require.Eventually(t, func() bool { // the patience of finish is longer, and set when it begins
		_ = ours.out.SetWriteDeadline(time.Unix(1, 0))
		select {
		case err := <-wrote:
			require.Error(t, err)
			return true
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
	_, err = ours.out.Write([]byte("x"))
	assert.ErrorIs(t, err, net.ErrClosed)
	_, err = ours.TryWrite([]byte("x"))
	assert.ErrorIs(t, err, net.ErrClosed)
	assert.False(t, ours.out.busy())
}

// With --compress a long message takes less, a short one and one that comes in pieces are
// left as they are; a client that cannot read it is sent none.
func TestCompressedFrames(t *testing.T) {
	ours, theirs := pairWith(t, true, websocket.CompressionNoContextTakeover)
	line := strings.Repeat(`{"type":"message_update"}`, 100)
	assert.Less(t, len(ours.Frame(nil, []byte(line+"\n"))), len(line)/4)
	assert.Len(t, ours.Frame(nil, []byte("{}\n")), 4)
	assert.Equal(t, byte(0x1), ours.Frame(nil, []byte(line))[0], "the rest may not be there for long")
	assert.Equal(t, byte(0x80), ours.Frame(nil, []byte(line+"\n"))[0], "it goes on")
	require.NoError(t, theirs.Write(t.Context(), websocket.MessageText, []byte(line)))
	got, err := ours.Chunk()
	require.NoError(t, err)
	assert.Equal(t, line+"\n", string(got))
	plain, _ := pair(t, true)
	assert.Greater(t, len(plain.Frame(nil, []byte(line+"\n"))), len(line))
}

func BenchmarkDeflate(b *testing.B) {
	line := []byte(strings.Repeat(`{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"word "}}`, 10))
	var dst []byte
	for b.Loop() {
		dst = appendDeflated(dst[:0], line)
	}
	b.ReportMetric(float64(len(dst))/float64(len(line)), "of-its-size")
}
