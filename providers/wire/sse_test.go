package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gotEvent is an Event that outlives the next call.
type gotEvent struct {
	Name, Data string
	Comment    bool
	Torn       bool
}

func readAll(r io.Reader) (events []gotEvent, err error) {
	d := NewEventReader(r)
	for {
		ev, err := d.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, gotEvent{ev.Name, string(ev.Data), ev.Comment, ev.Torn})
	}
}

func TestEventReader(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []gotEvent
	}{
		{"nothing", "", nil},
		{"blank lines", "\n\n\r\n\r\r\n", nil},
		{"one", "data: a\n\n", []gotEvent{{Data: "a"}}},
		{"named", "event: ping\ndata: {}\n\n", []gotEvent{{Name: "ping", Data: "{}"}}},
		{"name is not kept", "event: a\ndata: 1\n\ndata: 2\n\n", []gotEvent{{Name: "a", Data: "1"}, {Data: "2"}}},
		{"name without data", "event: a\n\ndata: 2\n\n", []gotEvent{{Data: "2"}}},
		{"last name wins", "event: a\nevent: b\ndata: 2\n\n", []gotEvent{{Name: "b", Data: "2"}}},
		{"no space", "data:a\nevent:b\n\n", []gotEvent{{Name: "b", Data: "a"}}},
		{"one space is dropped", "data:  a\n\n", []gotEvent{{Data: " a"}}},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []gotEvent{{Data: "a\n\nb"}}},
		{"empty data", "data\n\ndata:\n\n", []gotEvent{{}, {}}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []gotEvent{{Data: "a\nb"}, {Data: "c"}}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []gotEvent{{Data: "a\nb"}, {Data: "c"}}},
		{"mixed", "data: a\r\ndata: b\rdata: c\n\r\n", []gotEvent{{Data: "a\nb\nc"}}},
		{"comment", ": hello\n:\n::x\n", []gotEvent{{Data: "hello", Comment: true}, {Comment: true}, {Data: ":x", Comment: true}}},
		{"comment inside", "event: a\n: hi\ndata: 1\n\n", []gotEvent{{Data: "hi", Comment: true}, {Name: "a", Data: "1"}}},
		{"other fields", "id: 7\nretry: 3\nfoo\ndata: a\nfoo: bar\n\n", []gotEvent{{Data: "a"}}},
		{"not quite data", "datax: a\n data: b\nDATA: c\n\n", nil},
		{"BOM", "\xEF\xBB\xBFdata: a\n\n", []gotEvent{{Data: "a"}}},
		{"BOM only once", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n", []gotEvent{{Data: "b"}}},
		{"torn", "data: a\n\ndata: b\n", []gotEvent{{Data: "a"}, {Data: "b", Torn: true}}},
		{"torn line", "event: x\ndata: {\"a", []gotEvent{{Name: "x", Data: `{"a`, Torn: true}}},
		{"torn without data", "data: a\n\nevent: x", []gotEvent{{Data: "a"}}},
		{"data with colons", "data: a: b:c\n\n", []gotEvent{{Data: "a: b:c"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(c.stream))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			for _, reader := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
				split, err := readAll(reader(strings.NewReader(c.stream)))
				require.NoError(t, err)
				assert.Equal(t, c.want, split)
			}
		})
	}
}

func TestEventReader_errors(t *testing.T) {
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []gotEvent{{Data: "a"}}, got, "the incomplete event is dropped")

	_, err = readAll(readerFunc(func([]byte) (int, error) { return 0, nil }))
	require.ErrorIs(t, err, io.ErrNoProgress)
	_, err = readAll(readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }))
	require.Error(t, err)

	d := NewEventReader(strings.NewReader("data: a"))
	ev, err := d.Next()
	require.NoError(t, err)
	require.True(t, ev.Torn)
	for range 3 {
		_, err = d.Next()
		require.ErrorIs(t, err, io.EOF, "the end stays the end")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestEventReader_limit(t *testing.T) {
	endless := func(line string) io.Reader {
		var rest []byte
		return readerFunc(func(p []byte) (int, error) {
			if len(rest) == 0 {
				rest = []byte(line)
			}
			n := copy(p, rest)
			rest = rest[n:]
			return n, nil
		})
	}
	for name, line := range map[string]string{"one line": strings.Repeat("x", 4096), "many lines": "data: " + strings.Repeat("x", 4096) + "\n"} {
		t.Run(name, func(t *testing.T) {
			d := NewEventReader(endless(line))
			d.max = 1 << 20
			_, err := d.Next()
			require.ErrorIs(t, err, ErrEventTooLarge)
			_, err = d.Next()
			require.ErrorIs(t, err, ErrEventTooLarge, "it stays failed")
		})
	}
	d := NewEventReader(endless("x"))
	d.max = 1 << 20
	_, err := d.Next()
	require.ErrorIs(t, err, ErrEventTooLarge)
	assert.LessOrEqual(t, len(d.buf), d.max, "no more is kept than may be there")
	d = NewEventReader(strings.NewReader("data: " + strings.Repeat("y", 900<<10) + "\n\ndata: z\n\n"))
	d.max = 1 << 20
	ev, err := d.Next()
	require.NoError(t, err)
	assert.Len(t, ev.Data, 900<<10)
	ev, err = d.Next()
	require.NoError(t, err)
	assert.Equal(t, "z", string(ev.Data))
}

// TestEventReader_promptness: an event is returned as soon as its last byte is
// there, without waiting for more.
func TestEventReader_promptness(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r", ": c\n"} {
		waited := errors.New("waited for more")
		d := NewEventReader(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(waited)))
		_, err := d.Next()
		assert.NoError(t, err, "%q", stream)
	}
}

// naiveEvents is the decoder as the specification words it, for whole streams.
func naiveEvents(stream string) (events []gotEvent) {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	unfinished := !strings.HasSuffix(stream, "\n") && !strings.HasSuffix(stream, "\r")
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream), "\n")
	if !unfinished {
		lines = lines[:len(lines)-1]
	} else if stream == "" {
		lines = nil
	}
	name, data := "", []string(nil)
	for _, line := range lines {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				events = append(events, gotEvent{Name: name, Data: strings.Join(data, "\n")})
			}
			name, data = "", nil
		case field == "":
			events = append(events, gotEvent{Data: value, Comment: true})
		case field == "data":
			data = append(data, value)
		case field == "event":
			name = value
		}
	}
	if data != nil {
		events = append(events, gotEvent{Name: name, Data: strings.Join(data, "\n"), Torn: true})
	}
	return events
}

func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "event: x\r\ndata: y\r\n\r\n: c\rdata\r\r", "\xEF\xBB\xBFdata:  \n\n", "data: a\ndata: b", "::\n:\n\n\r\r\n", "\r\ndata:\r\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		want := naiveEvents(string(stream))
		rest := stream
		got, err := readAll(readerFunc(func(p []byte) (int, error) {
			if len(rest) == 0 {
				return 0, io.EOF
			}
			n := copy(p[:min(len(p), int(step)+1)], rest)
			rest = rest[n:]
			return n, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, want, got, "%q", stream)
	})
}

func BenchmarkEventReader(b *testing.B) {
	event := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello, world\"}}\n\n"
	stream := bytes.Repeat([]byte(event), 1000)
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		d := NewEventReader(bytes.NewReader(stream))
		for ; n < b.N; n++ {
			if _, err := d.Next(); err != nil {
				break
			}
		}
	}
}
