package nodetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/harness"
	"troupe/actors/session"
)

// Removable creates a directory in the root d, which a test may remove, and returns its path and
// its name in the cluster.
func Removable(t *testing.T) (dir, cwd string) {
	require.NoError(t, os.MkdirAll(dirs(), 0o700))
	dir, err := os.MkdirTemp(dirs(), "")
	require.NoError(t, err)
	return dir, "d:" + filepath.Base(dir)
}

// Node is a client of a daemon that is a node of a cluster. [Start] returns a new node's first
// client.
type Node struct {
	*harness.Client
	Name   string
	Member *cluster.Member
	Engine *clustertest.Memory
	kill   context.CancelFunc // stops its heartbeats
	Lost   bool               // after [Node.Lose]
	asks   int                // number of calls of [Node.AskSessionID]
}

// CopiesDir is the directory in which a node keeps copies of its sessions' logs.
const CopiesDir = "/agent/troupe/cluster"

// Roots returns the roots of the node with a name. All nodes share w and d. The root g has mode
// git, and n has no files. The root "only-" and the name belongs to this node alone.
func Roots(name string) map[string]cluster.Root {
	return map[string]cluster.Root{
		"w": {Path: harness.EmptyDir, Mode: cluster.Shared}, "g": {Path: "/roots/g", Mode: cluster.Git}, "n": {Path: filepath.Join(FilelessDir(), name), Mode: cluster.None},
		"d": {Path: dirs(), Mode: cluster.Shared}, "only-" + name: {Path: harness.EmptyDir, Mode: cluster.Shared},
	}
}

// dirs is the directory of the root d.
func dirs() string { return filepath.Join(harness.TempDir, "dirs") }

// FilelessDir returns the directory that holds the root n of each node.
func FilelessDir() string { return filepath.Join(harness.TempDir, "none") }

// One runs a test in fake time with the only node of a cluster, and ends the node.
func One(t *testing.T, test func(t *testing.T, n *Node), changes ...func(*actors.Config)) {
	harness.Bubble(t, func(t *testing.T) {
		n := Start(t, clustertest.New(1, 0), &actortest.History{}, "a", changes...)
		test(t, n)
		n.End()
	})
}

// Two runs a test in fake time with two nodes of a cluster, and ends those that are not lost. They
// do not reach each other.
func Two(t *testing.T, test func(t *testing.T, a, b *Node), changes ...func(*actors.Config)) {
	harness.Bubble(t, func(t *testing.T) {
		engine, h := clustertest.New(1, 0), &actortest.History{}
		a, b := Start(t, engine, h, "a", changes...), Start(t, engine, h, "b", changes...)
		test(t, a, b)
		for _, n := range []*Node{a, b} {
			if !n.Lost {
				n.End()
			}
		}
	})
}

// Start starts a node on an empty disk.
func Start(t *testing.T, engine *clustertest.Memory, h *actortest.History, name string, changes ...func(*actors.Config)) *Node {
	return StartOn(t, engine, h, name, name+"-1", actortest.NewDisk(), changes...)
}

// StartOn starts a node on a disk. boot identifies this life of the node.
func StartOn(t *testing.T, engine *clustertest.Memory, h *actortest.History, name, boot string, disk *actortest.Disk, changes ...func(*actors.Config)) *Node {
	n := &Node{Name: name, Engine: engine.Client()}
	n.Member = cluster.Join(cluster.MemberConfig{
		Self: cluster.Node{Name: name, Boot: boot, Addr: name, Roots: Roots(name), Labels: map[string]string{"is": name}}, Log: n.Engine, Registry: n.Engine, Patience: 5 * time.Second,
	})
	ctx, kill := context.WithCancel(t.Context())
	n.kill = kill
	over := make(chan error, 1)
	go func() { over <- n.Member.Run(ctx) }()
	t.Cleanup(func() {
		kill()
		<-over
		time.Sleep(10 * time.Second) // until requests to an unreachable engine have ended
	})
	n.Client = harness.StartWith(t, nil, h, disk, actortest.NewModels(), append([]func(*actors.Config){func(c *actors.Config) {
		c.Conn.MultiSession = true
		c.Sessions.Cluster = &session.Cluster{
			Member: n.Member, Engine: n.Engine, Dir: CopiesDir,
			Wants: func(string) cluster.Wants { return cluster.Wants{Labels: map[string]string{}} },
		}
	}}, changes...)...)
	time.Sleep(time.Second)
	return n
}

// Lose makes a node lose its engine for ever: it sends no more heartbeats and its appends fail.
func (n *Node) Lose() {
	n.Lost = true
	n.kill()
	n.Engine.Cut(clustertest.Gone)
}
