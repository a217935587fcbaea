package extension

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
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
					b = frame{kind: sayTell, id: n, payload: make([]byte, n)}.append(b)
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
	for _, s := range []Said{
		Told{N: 7}, Done{ID: 1}, Done{ID: 1 << 52, Result: []byte(`{"a":1}`), Path: "/x/é.ts"}, Done{ID: 3, Path: "/x.ts"},
		Done{ID: 4, Err: "no"}, Done{ID: 5, TimedOut: true}, Done{ID: 6, Path: "/x.ts", Err: "no"}, Quiet{Quiet: true}, Gone{Why: "w"},
	} {
		f := frameOf(9, s)
		require.Equal(t, uint32(9), f.session)
		back, err := saidOf(f)
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
	_, err := saidOf(frame{kind: saidAnswer, payload: []byte("/x.ts")})
	require.Error(t, err)
	_, err = saidOf(frame{kind: saidFirst - 1})
	require.Error(t, err)
}
