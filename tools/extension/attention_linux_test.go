package extension

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
)

// asleep counts how often somebody waits in the kernel.
type asleep struct{ times int }

func (s *asleep) Read([]byte) (int, error) { s.times++; return 1, nil }

// TestAttention: behind an answer, and only there, it is looked for the next word; a bounded
// number of times, and not at all where others want the processors.
func TestAttention(t *testing.T) {
	for name, c := range map[string]struct {
		quiet, busy bool // nothing was answered; no processor is idle
		comes       int  // the look that finds a word; 0 for none
		each        time.Duration
		looks       int
	}{
		"a word comes":               {comes: 7, each: time.Microsecond, looks: 7},
		"none comes":                 {each: time.Microsecond, looks: 250},
		"none comes, looks are slow": {each: 19 * time.Microsecond, looks: 14},
		"somebody was let go before": {each: 20 * time.Microsecond, looks: 1},
		"nothing was answered":       {quiet: true, comes: 1, each: time.Microsecond},
		"others want the processors": {busy: true, comes: 1, each: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			var s asleep
			looks, clock := 0, time.Time{}
			a := attend(&s)
			a.spare = func() bool { return !c.busy }
			a.now = func() time.Time { return clock }
			a.look = func([]byte) int {
				looks++
				clock = clock.Add(c.each)
				if looks == c.comes {
					return 1
				}
				return 0
			}
			a.soon.Store(!c.quiet)
			read := func() {
				n, err := a.Read(make([]byte, 1))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
			read()
			require.Equal(t, c.looks, looks)
			found := 0
			if looks > 0 && looks == c.comes {
				found = 1
			}
			require.Equal(t, 1-found, s.times, "else it sleeps")
			read()
			require.Equal(t, c.looks, looks, "one answer, one time")
			require.Equal(t, 2-found, s.times)
		})
	}
}

// TestAttentionOfTheProcess: the process of extensions looks behind answers to hooks, and
// neither behind other words nor where it cannot.
func TestAttentionOfTheProcess(t *testing.T) {
	require.Nil(t, attend(strings.NewReader("")).look)
	ours, theirs, err := hostEnds()
	require.NoError(t, err)
	defer ours.Close()
	defer theirs.Close()
	s := &server{turns: goroutines{}, vms: map[uint32]words.VM{}, w: theirs, in: attend(theirs)}
	b := make([]byte, 8)
	require.Zero(t, s.in.look(b), "nothing is there, and it does not wait")
	_, err = ours.Write([]byte("word"))
	require.NoError(t, err)
	require.Equal(t, 4, s.in.look(b))
	for _, word := range []words.Said{words.Told{N: 1}, words.Quiet{}, words.Done{ID: 1, Path: "x.ts"}} {
		s.say(1, word)
		_, answer := word.(words.Done)
		require.Equal(t, answer, s.in.soon.Swap(false), "%T", word)
	}
}

func TestIdle(t *testing.T) {
	for load, want := range map[string]bool{
		"0.00 0.01 0.05 1/160 4711\n": true, "2.00 1.50 1.00 2/160 4711\n": true,
		"0.00 0.01 0.05 3/160 4711\n": false, "": false, "0.00 0.01": false, "0.00 0.01 0.05 x/160 4711": false,
	} {
		require.Equal(t, want, idle(load, 2), load)
	}
	require.False(t, idle("0.00 0.01 0.05 1/160 4711\n", 1), "who waits awake would keep the only one from the other")
}
