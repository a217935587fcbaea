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
	assert.ErrorContains(t, err, "want auto, quick, inline, node, off")
}

// TestTimesAndFeatures: a time is not negative; a feature that there is not is said.
func TestTimesAndFeatures(t *testing.T) {
	for _, flag := range []string{"--park-after", "--eof-limit", "--approval-timeout"} {
		_, err := parseArgs([]string{flag, "-1s"})
		assert.ErrorContains(t, err, flag+` "-1s": want a time`)
	}
	o, err := parseArgs([]string{"--park-after", "0", "--features", "seq,nope"})
	require.NoError(t, err)
	assert.Zero(t, o.parkAfter)
	require.NoError(t, o.check())
	assert.Equal(t, []string{`--features: there is no feature "nope": ignored`}, o.warnings)
}
