package serve

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

var webSocketCuts = flag.Int("ws.cuts", 100, "how often TestWebSocketCuts cuts clients that have come back")

// TestWebSocketCuts: clients whose socket is cut at any byte, also within a frame, and who
// come back with the number of the last event that they have read, miss no event and read
// none twice, and every word of the model arrives in its order.
func TestWebSocketCuts(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	s := p.Serve("--listen", "127.0.0.1:0")
	token := s.Token()
	speaker, status := s.Dial(token, "troupe.v1.lines")
	require.Contains(t, status, "101")
	speaker.Send(`{"id":"hello","type":"hello","features":["deltaUpdates"]}`) // a round is far from what may wait for it, however slow this process is
	speaker.Send(`{"id":"open","type":"open_session","permissionMode":"auto"}`)
	handle := speaker.WaitFor("open").Get("data.sessionId").Str

	clients := min(20, max(4, *webSocketCuts/5000))
	over := make(chan struct{}) // closed when every client has been cut often enough
	came := make(chan struct{}, 1)
	var exact, shots, lives atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := &cutClient{s: s, token: token, handle: handle, rng: rand.New(rand.NewPCG(uint64(i), 19)), word: -1, came: came}
			for c.back < *webSocketCuts/clients {
				lives.Add(1)
				if err := c.live(&exact, &shots); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	go func() { all.Wait(); close(over) }()
	words := 0
	for round := 0; ; round++ {
		// The model waits until a client has resumed since the last round began. On a busy machine it would
		// otherwise be so far ahead that the ring buffer has dropped the events that clients resume from.
		select {
		case <-came:
		case <-over:
		}
		if isClosed(over) {
			break
		}
		a := harness.Answer{}
		for range 200 {
			a = a.Then(harness.Text(fmt.Sprint(words, " ")))
			words++
		}
		p.Model.Enqueue(a)
		if round%20 == 19 { // so that snapshots stay short
			speaker.Send(`{"id":"new","type":"new_session","sessionId":"` + handle + `"}`)
			speaker.WaitFor("new")
		}
		speaker.Send(`{"type":"prompt","message":"go on","sessionId":"` + handle + `"}`)
		speaker.WaitFor("agent_settled")
	}
	all.Wait()
	t.Logf("%d cuts: %d behind an exact resumption, %d behind a snapshot; %d words", lives.Load(), exact.Load(), shots.Load(), words)
	assert.Greater(t, exact.Load(), shots.Load())
	assert.Equal(t, 143, s.Stop())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// cutClient comes and goes.
type cutClient struct {
	s             *harness.Server
	token, handle string
	rng           *rand.Rand
	epoch         string
	last          int64           // the event that it has read
	word          int             // likewise, of the model's; -1 for none
	back          int             // how many responses to attach it read before it was cut
	came          chan<- struct{} // receives a value, if it has none, each time the client is back
}

// live connects, reads a random number of bytes, for a moment at most, and is cut.
func (c *cutClient) live(exact, shots *atomic.Int64) error {
	protocol := []string{"troupe.v1", "troupe.v1.lines"}[c.rng.IntN(2)]
	w, status := c.s.Dial(c.token, protocol)
	defer w.Conn.Close()
	if strings.Contains(status, "503") { // a thousand that were cut are still on their way out: a busy machine
		return nil
	}
	if !strings.Contains(status, "101") {
		return fmt.Errorf("refused: %s", status)
	}
	w.Send(`{"id":"hello","type":"hello","features":["seq","deltaUpdates"]}`)
	since := `"snapshot":{"limit":1}`
	if c.epoch != "" && c.rng.IntN(8) > 0 {
		since = fmt.Sprintf(`"since":{"epoch":%q,"seq":%d}`, c.epoch, c.last)
	}
	w.Send(`{"id":"attach","type":"attach","sessionId":"` + c.handle + `",` + since + `}`)
	most := c.rng.IntN(20_000)
	_ = w.Conn.SetReadDeadline(time.Now().Add(time.Duration(c.rng.IntN(30)) * time.Millisecond))
	read, _ := io.ReadAll(io.LimitReader(w.Reader, int64(most)))
	for len(read) > 0 {
		payload, rest, whole := serverFrame(read)
		if !whole {
			return nil
		}
		read = rest
		for line := range bytes.SplitSeq(payload, []byte("\n")) {
			if err := c.take(gjson.ParseBytes(line), exact, shots); err != nil {
				return fmt.Errorf("%w: %s", err, line)
			}
		}
	}
	return nil
}

// isBack counts a response to attach that was read before the cut.
func (c *cutClient) isBack() {
	c.back++
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// take looks at a record.
func (c *cutClient) take(v gjson.Result, exact, shots *atomic.Int64) error {
	seq := v.Get("seq").Int()
	switch {
	case v.Get("id").Str == "hello":
		c.epoch = v.Get("data.epoch").Str
	case v.Get("id").Str == "attach" && v.Get("data.replay").Str == "exact":
		exact.Add(1)
		c.isBack()
	case v.Get("id").Str == "attach":
		shots.Add(1)
		c.isBack()
		c.last, c.word = v.Get("data.seq").Int(), -1
		if !v.Get("success").Bool() {
			return fmt.Errorf("no snapshot")
		}
	case seq > 0:
		from := seq
		if f := v.Get("seqFrom"); f.Exists() {
			from = f.Int()
		}
		if from != c.last+1 {
			return fmt.Errorf("behind %d", c.last)
		}
		c.last = seq
		for word := range strings.FieldsSeq(v.Get("assistantMessageEvent.delta").Str) {
			n, err := strconv.Atoi(word)
			if err != nil || c.word >= 0 && n != c.word+1 {
				return fmt.Errorf("the word behind %d", c.word)
			}
			c.word = n
		}
	}
	return nil
}

// serverFrame takes the first frame of a message from what was read.
func serverFrame(b []byte) (payload, rest []byte, whole bool) {
	if len(b) < 2 {
		return nil, b, false
	}
	n, head := int(b[1]&0x7f), 2
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		if head += more; len(b) < head {
			return nil, b, false
		}
		n = 0
		for _, x := range b[2:head] {
			n = n<<8 | int(x)
		}
	}
	if len(b) < head+n {
		return nil, b, false
	}
	return b[head : head+n], b[head+n:], true
}
