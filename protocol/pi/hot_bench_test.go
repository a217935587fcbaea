package pi

import (
	"bytes"
	"io"
	"testing"

	"troupe/protocol"

	"github.com/stretchr/testify/require"
)

var (
	stateLine  = []byte(`{"id":"req_1","type":"get_state"}`)
	promptLine = []byte(`{"id":"req_1","type":"prompt","message":"tidy up the code, please"}`)
)

func aState() *protocol.SessionState {
	return &protocol.SessionState{Model: &protocol.Model{ID: "m", Name: "m", API: "a", Provider: "p", BaseURL: "https://p.example", Input: []string{"text"}},
		SessionID: "s", ThinkingLevel: protocol.ThinkingOff, WaitingFor: []string{}}
}

// endless is a client that repeats itself.
type endless struct{ block []byte }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.block), nil }

func lines(n int) io.Reader {
	return &endless{bytes.Repeat(append(bytes.Clone(stateLine), '\n'), n)}
}

func BenchmarkFrame(b *testing.B) {
	r := NewLineReader(lines(900), 0)
	b.ReportAllocs()
	b.SetBytes(int64(len(stateLine) + 1))
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResponse(b *testing.B) {
	wire, _, _ := protocol.DialectUnion.Open()
	enc := NewEncoder(wire, "")
	r := protocol.Response{ID: []byte(`"req_1"`), Command: "get_state", Data: aState()}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = enc.AppendResponse(buf[:0], r)
	}
}

// TestCommandAllocations holds the way of a command through this room to its
// price: the frame is cut for nothing, decoding makes the request and its
// parts (one more with the race detector), the answer is written into the
// writer's buffer.
func TestCommandAllocations(t *testing.T) {
	frames := NewLineReader(lines(900), 0)
	wire, _, _ := protocol.DialectUnion.Open()
	enc := NewEncoder(wire, "")
	answer := protocol.Response{ID: []byte(`"req_1"`), Command: "get_state", Data: aState()}
	buf := make([]byte, 0, 4096)
	for _, c := range []struct {
		name string
		max  float64
		f    func()
	}{
		{"frame", 0, func() { _, _ = frames.Next() }},
		{"decode get_state", 2, func() { _, _ = Decode(stateLine) }},
		{"decode prompt", 7, func() { _, _ = Decode(promptLine) }},
		{"answer get_state", 0, func() { buf = enc.AppendResponse(buf[:0], answer) }},
	} {
		n := testing.AllocsPerRun(1000, c.f)
		t.Logf("%s: %v allocations", c.name, n)
		require.LessOrEqual(t, n, c.max, c.name)
	}
}

// BenchmarkSize is what the send window asks of every answer.
func BenchmarkSize(b *testing.B) {
	state := aState()
	b.ReportAllocs()
	for b.Loop() {
		protocol.SizeOf(state)
	}
}
