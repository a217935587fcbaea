package extension

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
)

// relieved has another goroutine read on before a frame is heard, every time.
type relieved struct{ goroutines }

func (relieved) Inline(tell, takeOver func()) (reads bool) {
	takeOver()
	tell()
	return false
}

// TestFramesInOrder: frames are heard one after another as they came, whoever reads on, also
// those of one read, and nothing behind one that makes no sense.
func TestFramesInOrder(t *testing.T) {
	for name, turns := range map[string]Turns{"one": goroutines{}, "relieved": relieved{}} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			defer theirs.Close()
			var heard []uint64
			bad := errors.New("bad")
			r := newReader(theirs, turns, func(f frame) error {
				heard = append(heard, f.id)
				if f.id == 299 {
					return bad
				}
				return nil
			})
			var want []uint64
			go r.read()
			for i := uint64(0); i < 300; i += 3 {
				var b []byte
				for n := i; n < i+3; n++ {
					b = frame{kind: sayFirst, id: n, payload: make([]byte, n)}.append(b)
					want = append(want, n)
				}
				_, err := ours.Write(b[:len(b)-1]) // the last one comes in two pieces
				require.NoError(t, err)
				_, err = ours.Write(b[len(b)-1:])
				require.NoError(t, err)
			}
			require.Equal(t, bad, <-r.over)
			require.Equal(t, want, heard)
		})
	}
	t.Run("end", func(t *testing.T) {
		ours, theirs := net.Pipe()
		r := newReader(theirs, goroutines{}, func(frame) error { return nil })
		ours.Close()
		r.read()
		require.Equal(t, io.EOF, <-r.over)
	})
}

// TestWordsComeBack: what a VM says is what is heard, in whatever form it crosses.
func TestWordsComeBack(t *testing.T) {
	for _, s := range []words.Said{
		words.Told{N: 7}, words.Done{ID: 1}, words.Done{ID: 1 << 52, Result: []byte(`{"a":1}`), Path: "/x/é.ts"}, words.Done{ID: 3, Path: "/x.ts"},
		words.Done{ID: 4, Err: "no"}, words.Done{ID: 5, TimedOut: true}, words.Done{ID: 6, Path: "/x.ts", Err: "no"}, words.Quiet{Quiet: true}, words.Gone{Why: "w"},
	} {
		f := frameOf(9, s)
		require.Equal(t, uint32(9), f.session)
		back, err := saidOf(f)
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
	for _, w := range []words.Word{
		words.Tell{N: 7, Event: []byte(`{"type":"x"}`)}, words.Call{ID: 1 << 52, Event: []byte(`{`)}, words.CancelCall{ID: 3}, words.Prepare{ID: 4, Call: words.ToolCall{ID: "c", Name: "n", Args: []byte(`{}`), Prepared: true}},
		words.RunTool{ID: 5, Call: words.ToolCall{ID: "c", Args: []byte(`{}`)}}, words.CancelTool{ID: 6}, words.RunCommand{ID: 7, Name: "c", Args: "a b"}, words.Invoke{ID: 8, Key: "k", Member: "m", Args: []json.RawMessage{[]byte(`1`)}},
		words.Answer{Op: 9, Result: nil, Err: ""}, words.Answer{Op: 10, Result: []byte(`null`), Err: ""}, words.Answer{Op: 11, Result: nil, Err: "no"}, words.Part{Op: 12, Event: []byte(`{}`)}, words.Update{Snapshot: []byte(`{}`)}, words.Appended{Entry: []byte(`{}`)},
		words.AbortRun{}, words.Rebind{Spec: words.Spec{Cwd: "/c"}}, words.Close{Reason: "quit"},
	} {
		f := wordFrame(9, w)
		require.Equal(t, uint32(9), f.session)
		back, err := decodeWord(sayWords, sayFirst, f)
		require.NoError(t, err)
		require.Equal(t, w, back)
	}
	back, err := decodeWord(sayWords, sayFirst, wordFrame(9, words.Answer{Op: 9, Result: []byte(`{`), Err: ""}))
	require.NoError(t, err)
	require.NotEmpty(t, back.(words.Answer).Err, "who waits hears of it")
	_, err = decodeWord(sayWords, sayFirst, frame{kind: sayFirst + kind(len(sayWords))})
	require.Error(t, err)
	_, err = saidOf(frame{kind: saidAnswer, payload: []byte("/x.ts")})
	require.Error(t, err)
	_, err = saidOf(frame{kind: saidFirst - 1})
	require.Error(t, err)
}
