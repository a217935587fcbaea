package flow

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"iter"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/link"
	"troupe/actors/scenario/harness"
	"troupe/actors/session"
	"troupe/protocol"
	"troupe/protocol/pi"
	"troupe/providers"
	"troupe/store/config"
	"troupe/store/storetest"
	"troupe/tools"
)

// steady is a model that answers with a fixed number of words.
type steady struct {
	*actortest.Models
	words int
}

func (s steady) Stream(context.Context, providers.Request) iter.Seq2[protocol.Part, error] {
	// Allocated here so that it is not counted.
	var word protocol.Part = protocol.PartDelta{Delta: "word "}
	return func(yield func(protocol.Part, error) bool) {
		ok := yield(protocol.PartStart{}, nil) && yield(protocol.PartBlockStart{Kind: protocol.BlockText}, nil)
		for i := 0; ok && i < s.words; i++ {
			ok = yield(word, nil)
		}
		_ = ok && yield(protocol.PartBlockEnd{}, nil) && yield(protocol.PartDone{StopReason: protocol.StopStop}, nil)
	}
}

// daemon is a daemon in real time with a disk in memory, for counting allocations.
type daemon struct {
	tb    testing.TB
	in    io.WriteCloser
	lines *bufio.Reader
	done  chan error
}

func startDaemon(tb testing.TB, words int, features ...string) *daemon {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	cfg := &actors.Config{
		Log:  zerolog.Nop(),
		Conn: conn.Config{Codec: pi.Codec{}, Drain: true, Features: features},
		Sessions: session.NewShared(session.Config{
			Version: "test", AgentDir: harness.EmptyDir, SessionDir: "/sessions", Home: harness.EmptyDir, Consent: config.Refused,
			NoContext: true, NoPrompts: true, NoSkills: true,
			Env: func(string) string { return "" }, Environ: []string{"PATH=/bin:/usr/bin"},
			Tools: tools.New(), Files: new(tools.Files), Guard: tools.NewGuard(), Models: steady{actortest.NewModels(), words},
			FS: storetest.NewMem(),
		}, zerolog.Nop()),
	}
	cfg.Sessions.Default = link.OpenSpec{Cwd: harness.EmptyDir, Provider: "acme", Model: "plain", Settings: []byte(`{"compaction":{"enabled":false}}`)}
	d := &daemon{tb: tb, in: inW, lines: bufio.NewReaderSize(outR, 1<<20), done: make(chan error, 1)}
	go func() { d.done <- actors.Run(cfg, conn.Stdio{In: inR, Out: outW}, nil); outW.Close() }()
	tb.Cleanup(func() {
		inW.Close()
		_, _ = io.Copy(io.Discard, outR)
		require.NoError(tb, <-d.done)
	})
	d.ask(getState)
	return d
}

var (
	getState  = []byte(`{"id":"x","type":"get_state"}` + "\n")
	setName   = []byte(`{"id":"x","type":"set_session_name","name":"name"}` + "\n")
	goPrompt  = []byte(`{"id":"x","type":"prompt","message":"go"}` + "\n")
	isAnswer  = []byte(`"type":"response"`)
	isSettled = []byte(`{"type":"agent_settled"`)
)

func (d *daemon) until(mark []byte) {
	for {
		line, err := d.lines.ReadSlice('\n')
		for err == bufio.ErrBufferFull {
			_, err = d.lines.ReadSlice('\n')
		}
		if err != nil {
			d.tb.Fatal(err)
		}
		if bytes.Contains(line[:min(len(line), 60)], mark) {
			return
		}
	}
}

func (d *daemon) ask(line []byte) {
	_, _ = d.in.Write(line)
	d.until(isAnswer)
}

func (d *daemon) prompt() {
	_, _ = d.in.Write(goPrompt)
	d.until(isSettled)
}

func BenchmarkDaemonCommand(b *testing.B) {
	d := startDaemon(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		d.ask(getState)
	}
}

// BenchmarkDaemonAppend measures a command that writes an entry before its answer.
func BenchmarkDaemonAppend(b *testing.B) {
	d := startDaemon(b, 1)
	d.prompt() // creates the session file
	b.ReportAllocs()
	for b.Loop() {
		d.ask(setName)
	}
}

func BenchmarkDaemonPrompt(b *testing.B) {
	d := startDaemon(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		d.prompt()
	}
}

// deltas measures the cost of one word of a streamed answer.
func deltas(b *testing.B, features ...string) {
	const words = 20_000
	d := startDaemon(b, words, features...)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%words == 0 {
			d.prompt()
		}
		n++
	}
}

func BenchmarkDaemonDelta(b *testing.B) {
	b.Run("deltaOnly", func(b *testing.B) { deltas(b, "deltaUpdates") })
	b.Run("cumulative", func(b *testing.B) { deltas(b) })
}

// TestDaemonAllocations checks how many allocations the whole daemon makes, in all its goroutines,
// for a query, a command that writes and a delta. It does not run in parallel, because the count is
// that of the process.
func TestDaemonAllocations(t *testing.T) {
	d := startDaemon(t, 1)
	perCommand := testing.AllocsPerRun(500, func() { d.ask(getState) })
	t.Logf("get_state: %v allocations", perCommand)
	require.LessOrEqual(t, perCommand, maxCommandAllocs)
	d.prompt()
	perAppend := testing.AllocsPerRun(500, func() { d.ask(setName) })
	t.Logf("set_session_name: %v allocations", perAppend)
	require.LessOrEqual(t, perAppend, maxAppendAllocs)
	for _, c := range []struct {
		name     string
		max      float64
		features []string
	}{{"delta-only", maxDeltaAllocs, []string{"deltaUpdates"}}, {"cumulative", maxDeltaAllocs, nil}} {
		const words = 5000
		d := startDaemon(t, words, c.features...)
		per := testing.AllocsPerRun(5, d.prompt) / words
		t.Logf("a delta, %s: %.2f allocations", c.name, per)
		require.LessOrEqual(t, per, c.max, c.name)
	}
}

// Maximum allocations for a query, a command that writes and a delta, from the incoming line or the
// provider's part to the outgoing line.
const (
	maxCommandAllocs = 15.0
	maxAppendAllocs  = 27.0 // with -race, two are the paths of store.Stamp around a write
	maxDeltaAllocs   = 3.6
)
