package nodetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/relay"
)

// Network connects the nodes of a test. It implements [cluster.Forwarder].
type Network struct {
	// Refuse is the error of every new connection; nil accepts them.
	Refuse error

	mu    sync.Mutex
	nodes map[string]*Node
	cut   [2]int // bytes after which the next connection breaks, to the node and from it; -1 for never
	links []*Link
}

// NewNetwork returns a network without nodes.
func NewNetwork() *Network { return &Network{nodes: map[string]*Node{}, cut: [2]int{-1, -1}} }

// Dial implements [cluster.Forwarder].
func (w *Network) Dial(_ context.Context, to cluster.Node, who cluster.Identity) (cluster.Conn, error) {
	w.mu.Lock()
	n, cut := w.nodes[to.Name], w.cut
	w.cut = [2]int{-1, -1}
	w.mu.Unlock()
	if n == nil {
		return nil, cluster.ErrRefused
	}
	if w.Refuse != nil {
		return nil, w.Refuse
	}
	c := &Link{out: newPipe(cut[0]), in: newPipe(cut[1])}
	c.out.other, c.in.other = c.in, c.out
	w.mu.Lock()
	w.links = append(w.links, c)
	w.mu.Unlock()
	of := n.Config.Conn
	of.MultiSession, of.Peer, of.Retain, of.Drain, of.ViewOnly = true, true, who.Retain, who.Drain, who.ViewOnly
	if who.Lossy {
		of.Lag, of.MaxOutput = 16<<10, 8<<10
	}
	n.Daemon.Connect(of, &acceptedEnd{c})
	return c, nil
}

// CutAll breaks every connection.
func (w *Network) CutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.links {
		c.out.fail()
		c.in.fail()
	}
	w.links = nil
}

// CutNext breaks the next connection after a number of bytes to the node (direction 0) or from it
// (direction 1).
func (w *Network) CutNext(direction, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = [2]int{-1, -1}
	w.cut[direction] = bytes
}

// TakeLink returns the first open connection. The network forgets all connections, so
// [Network.CutAll] does not break it.
func (w *Network) TakeLink() *Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.links[0]
	w.links = nil
	return first
}

// Link is a connection to another node. It implements [cluster.Conn].
type Link struct {
	out, in *pipe
	rest    []byte // of a line that is not complete
}

func (c *Link) Read() ([]byte, error) {
	for {
		if i := strings.LastIndexByte(string(c.rest), '\n'); i >= 0 {
			lines := slices.Clone(c.rest[:i+1])
			c.rest = c.rest[i+1:]
			return lines, nil
		}
		buf := make([]byte, 4<<10)
		n, err := c.in.Read(buf)
		c.rest = append(c.rest, buf[:n]...)
		if err != nil {
			return nil, err
		}
	}
}

func (c *Link) Write(lines []byte) error {
	_, err := c.out.Write(lines)
	return err
}

func (c *Link) CloseWrite() error { c.out.end(); return nil }

func (c *Link) Close() error { c.out.fail(); c.in.fail(); return nil }

// Passed returns the number of bytes that have passed in a direction; see [Network.CutNext].
func (c *Link) Passed(direction int) int {
	p := []*pipe{c.out, c.in}[direction]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

// acceptedEnd is the end of a connection at the other node.
type acceptedEnd struct{ c *Link }

func (b *acceptedEnd) Read(p []byte) (int, error) { return b.c.out.Read(p) }

func (b *acceptedEnd) Write(p []byte) (int, error) { return b.c.in.Write(p) }

func (b *acceptedEnd) Close() error { b.c.in.end(); return nil }

func (b *acceptedEnd) String() string { return "another node" }

// Cluster starts nodes with these names that reach each other.
func Cluster(t *testing.T, names ...string) (*Network, *clustertest.Memory, []*Node) {
	return ClusterWith(t, func(*actors.Config) {}, names...)
}

// ClusterWith is [Cluster] with an option of every node.
func ClusterWith(t *testing.T, change func(*actors.Config), names ...string) (*Network, *clustertest.Memory, []*Node) {
	engine, h := clustertest.New(1, 0), &actortest.History{}
	w := NewNetwork()
	var nodes []*Node
	for _, name := range names {
		n := Start(t, engine, h, name, func(c *actors.Config) {
			c.Epoch = "e" + name
			w.Use(c, name)
			change(c)
		})
		w.SetNode(name, n)
		nodes = append(nodes, n)
	}
	time.Sleep(2 * time.Second) // until they know each other
	return w, engine, nodes
}

// Use configures the daemon of the node with a name to forward clients over the network.
func (w *Network) Use(c *actors.Config, name string) {
	c.Relay = &relay.Shared{Members: c.Sessions.Cluster.Member, Dial: w, Roots: Roots(name), Held: c.Sessions.Cluster.Held, Log: zerolog.Nop()}
}

// SetNode makes a node reachable by its name. With a nil node, connections to it are refused from
// now on.
func (w *Network) SetNode(name string, n *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[name] = n
}

// Lose makes a node unreachable, as [Node.Lose] does, and breaks every connection.
func (w *Network) Lose(name string) {
	w.mu.Lock()
	n := w.nodes[name]
	delete(w.nodes, name)
	w.mu.Unlock()
	n.Lose()
	w.CutAll()
}
