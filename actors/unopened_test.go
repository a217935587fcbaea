package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNotOpenedAtTheEnd: the default session cannot be opened, and the input has ended
// already: what came before is answered all the same.
func TestNotOpenedAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, func(c *Config) { c.Sessions.Default.Cwd, c.Sessions.Default.CwdSet = "/nowhere", true })
		first := b.Send(`{"type":"get_state"}`)
		second := b.Send(`{"type":"new_session"}`)
		b.end()
		require.Equal(t, "cwd_missing", b.Answer(t, first).Get("code").Str)
		require.Equal(t, "cwd_missing", b.Answer(t, second).Get("code").Str)
	})
}
