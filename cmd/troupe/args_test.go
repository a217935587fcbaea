package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnknownLongOptions: an option that an extension may have is kept with what may
// be its value; nothing else unknown is taken.
func TestUnknownLongOptions(t *testing.T) {
	o, err := parseArgs([]string{"--plan", "--preset", "fast", "--level=high", "-e", "a.ts", "--last", "@file", "--end", "--", "--text"})
	require.NoError(t, err)
	assert.Equal(t, []unknownOption{{"--plan", "", false}, {"--preset", "fast", false}, {"--level", "high", true}, {"--last", "", false}, {"--end", "", false}}, o.unknown)
	assert.Equal(t, []string{"a.ts"}, o.extensions.Sources)
	assert.Equal(t, []string{"file"}, o.files)
	assert.Equal(t, []string{"--text"}, o.messages)
	assert.Equal(t, 2, o.words(), "a value may be a message")
	for _, arg := range []string{"-x", "-xyz", "--", "---", "--=x", "--1"} {
		if arg != "--" {
			_, err := parseArgs([]string{arg})
			assert.ErrorContains(t, err, "unknown option", arg)
		}
	}
	_, err = parseArgs([]string{"--extension-host", "v8"})
	assert.ErrorContains(t, err, `--extension-host: want auto, quick, inline, node or off, got "v8"`)
}

// TestTimesAndFeatures: a time is not negative; a feature that there is not is said.
func TestTimesAndFeatures(t *testing.T) {
	for _, flag := range []string{"--park-after", "--eof-limit", "--approval-timeout"} {
		_, err := parseArgs([]string{flag, "-1s"})
		assert.ErrorContains(t, err, flag+`: want a duration, such as 90s or 10m, got "-1s"`)
	}
	o, err := parseArgs([]string{"--park-after", "0", "--features", "seq,nope"})
	require.NoError(t, err)
	assert.Zero(t, o.parkAfter)
	require.NoError(t, o.check())
	assert.Equal(t, []string{"--features: want " + either(featureNames()) + `, got "nope"; ignored`}, o.warnings)
}

// TestNumbersOutOfRange: a number that nothing can calculate with is a wrong command line.
func TestNumbersOutOfRange(t *testing.T) {
	for _, flag := range []string{"--max-line", "--max-sessions"} {
		for _, v := range []string{"0", "-1", "x", "1.5", "2147483648", "9223372036854775807", "99999999999999999999"} {
			_, err := parseArgs([]string{flag, v})
			assert.ErrorContains(t, err, "want a number from", "%s %s", flag, v)
		}
		_, err := parseArgs([]string{flag, "2147483647"})
		assert.NoError(t, err)
	}
}
