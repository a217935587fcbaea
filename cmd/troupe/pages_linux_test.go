package main

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestDropStart(t *testing.T) {
	resident := func() (clean, kept int) {
		for _, p := range pieces() {
			if p.clean {
				clean += p.resident
			} else {
				kept += p.resident
			}
		}
		return clean, kept
	}
	before, written := resident()
	require.NotZero(t, before)
	require.NotZero(t, written)
	dropStart()
	after, still := resident()
	t.Logf("%d kB that nobody wrote were resident, %d kB are", before, after)
	require.Less(t, after, before/2, "most of what is linked is used by nobody")
	require.GreaterOrEqual(t, still, written)
}

// The end of input is no second word of a client: the process looks through no memory that is
// about to go with it.
func TestEndOfInputDropsNothing(t *testing.T) {
	dropped := make(chan bool, 1)
	was := startIsOver
	startIsOver = func() { dropped <- true }
	defer func() { startIsOver = was }()
	read := func(parts ...string) {
		var all []io.Reader
		for _, p := range parts {
			all = append(all, strings.NewReader(p))
		}
		_, err := io.Copy(io.Discard, struct{ io.Reader }{&askedAgain{Reader: io.MultiReader(all...)}})
		require.NoError(t, err)
	}
	synctest.Test(t, func(t *testing.T) {
		read("one line")
		synctest.Wait()
		require.Empty(t, dropped)
		read("one line", "and another")
		synctest.Wait()
		require.NotEmpty(t, dropped)
	})
}
