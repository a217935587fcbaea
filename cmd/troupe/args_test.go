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
