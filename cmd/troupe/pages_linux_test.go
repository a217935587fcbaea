package main

import (
	"testing"

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
