package clients

import (
	"io"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"troupe/actors/scenario/harness"
)

// piped is a transport that can be tracked with a weak pointer.
type piped struct {
	io.Reader
	io.Writer
}

func (*piped) Close() error { return nil }

func (*piped) String() string { return "piped" }

// TestNothingIsLeftOfAConnection checks that the daemon keeps no reference to a client whose
// connection has ended.
func TestNothingIsLeftOfAConnection(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		come := func() weak.Pointer[piped] {
			in, said := io.Pipe()
			client := &piped{in, io.Discard}
			connection := a.Daemon.Connect(a.Config.Conn, client)
			_, err := io.WriteString(said, `{"id":"1","type":"hello"}`+"\n")
			require.NoError(t, err)
			require.NoError(t, said.Close())
			require.NoError(t, connection.Wait())
			return weak.Make(client)
		}
		gone := come()
		for range 3 { // an actor keeps its last message, and with it the sender
			come()
		}
		a.Settle()
		runtime.GC()
		runtime.GC() // a value with a cleanup needs two
		require.Nil(t, gone.Value())
		a.End()
	})
}
