package remote

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/peer"
)

// TestLosePeer: what is written to a node that stands still and is found to be dead ends, and so
// does what is read from it; other nodes' connections go on.
func TestLosePeer(t *testing.T) {
	authority := t.TempDir()
	_, err := peer.NewAuthority(authority)
	require.NoError(t, err)
	side := func(node string) *peer.Side {
		dir := t.TempDir()
		require.NoError(t, peer.NewNode(authority, dir, node))
		keys, err := peer.Load(dir)
		require.NoError(t, err)
		return peer.NewSide(keys, "test")
	}
	s, own := New(Config{}), side("b")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	connect := func(node string) (ours *peerClient, theirs cluster.Conn) {
		took := make(chan *peerClient, 1)
		go func() {
			raw, err := l.Accept()
			if err != nil {
				close(took)
				return
			}
			c, _, err := own.Accept(raw)
			assert.NoError(t, err)
			took <- &peerClient{c, node}
		}()
		theirs, err := side(node).Dial(t.Context(), cluster.Node{Name: "b", Addr: l.Addr().String()}, cluster.Identity{ClientID: "client-1"})
		require.NoError(t, err)
		ours = <-took
		require.NotNil(t, ours)
		s.led(ours, true)
		return ours, theirs
	}
	still, stands := connect("a") // nobody reads there
	defer stands.Close()
	lives, other := connect("c")
	wrote := make(chan error, 1)
	go func() {
		for {
			if _, err := still.Write(make([]byte, 1<<20)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	s.LosePeer("a")
	require.Error(t, <-wrote)
	_, err = still.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = lives.Write([]byte("a line\n"))
	require.NoError(t, err)
	lines, err := other.Read()
	require.NoError(t, err)
	assert.Equal(t, "a line\n", string(lines))
	s.led(still, false)
	assert.Len(t, s.peers, 1)
}
