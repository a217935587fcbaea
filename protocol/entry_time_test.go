package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFormatTime: times are as the library prints them, and are read back.
func TestFormatTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.OneOf(
			rapid.Int64Range(-62_167_219_200_000-10, -62_167_219_200_000+10), // around the year 0
			rapid.Int64Range(253_402_300_800_000-10, 253_402_300_800_000+10), // around the year 10000
			rapid.Int64Range(-1<<43, 1<<43),
		).Draw(t, "ms")
		got := FormatTime(ms)
		require.Equal(t, time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"), got)
		if len(got) == len("2026-11-21T01:04:26.000Z") {
			require.Equal(t, ms, ParseTime(got))
		}
	})
}
