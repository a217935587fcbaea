package failover

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/scenario/nodetest"
)

var nodeSeeds = flag.Int("nodes.seeds", 12, "how many histories TestNodes plays")

// TestNodes loses, cuts off and restarts three nodes at random, on an engine that fails, while a
// client sends prompts to one session through any node and repeats those without an answer. It
// checks that every acknowledged prompt is in the log exactly once (C2, C3), and that the owner's
// copy equals the log (C12).
func TestNodes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*nodeSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cloud{t: t, rng: rand.New(rand.NewPCG(seed, 7)), engine: clustertest.New(seed, int(seed%15)), h: &actortest.History{}}
				c.play()
			})
		})
	}
}

// cloud is a cluster with one client.
type cloud struct {
	t      *testing.T
	rng    *rand.Rand
	engine *clustertest.Memory
	h      *actortest.History
	nodes  []*nodetest.Node
	lives  int
	id     string
}

// begin starts a node on a disk.
func (c *cloud) begin(at int, disk *actortest.Disk) {
	c.lives++
	n := nodetest.StartOn(c.t, c.engine, c.h, fmt.Sprint("n", at), fmt.Sprint("life", c.lives), disk)
	n.Identify("client-me")
	c.nodes[at] = n
}

func (c *cloud) play() {
	c.nodes = make([]*nodetest.Node, 3)
	for i := range c.nodes {
		c.begin(i, actortest.NewDisk())
	}
	for c.id == "" { // an engine that fails may refuse it
		v := c.nodes[0].Call(c.t, `{"type":"open_session"}`)
		c.id = v.Get("data.sessionId").Str
	}
	var acked []string
	for i := range 25 {
		c.fault()
		text := fmt.Sprintf("~m%d~", i)
		if c.say(fmt.Sprint("k", i), text, 20) {
			acked = append(acked, text)
		}
	}
	c.engine.Faults(0)
	for _, n := range c.nodes {
		n.Engine.Cut(clustertest.Whole)
	}
	c.pass(5 * time.Second)
	require.True(c.t, c.say("last", "~last~", 40), "a session takes a command once faults end (C15)")
	c.pass(time.Minute)
	at, err := c.nodes[0].Member.Where(c.t.Context(), cluster.SessionID(c.id))
	require.NoError(c.t, err)
	owner := slices.IndexFunc(c.nodes, func(n *nodetest.Node) bool { return n.Name == at.Name })
	log := c.nodes[0].Log(c.id)
	times := map[string]int{}
	for line := range strings.Lines(log) {
		if v := gjson.Parse(line); v.Get("message.role").Str == "user" {
			times[v.Get("message.content.0.text").Str]++
		}
	}
	for _, text := range append(acked, "~last~") {
		require.Equal(c.t, 1, times[text], "%s was acknowledged\n%s", text, log)
	}
	for text, n := range times {
		require.Equal(c.t, 1, n, "%s is there more than once", text)
	}
	c.nodes[owner].CheckCopy(c.id)
	for _, n := range c.nodes {
		n.End()
	}
}

func (c *cloud) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fault causes a random fault on a random node, or none.
func (c *cloud) fault() {
	at := c.rng.IntN(len(c.nodes))
	n := c.nodes[at]
	switch c.rng.IntN(6) {
	case 0: // it is killed and restarted
		n.Lose()
		if c.rng.IntN(2) == 0 {
			c.pass(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
		}
		c.begin(at, n.Disk.Killed())
	case 1:
		n.Engine.Cut(clustertest.Gone)
		time.AfterFunc(time.Duration(c.rng.IntN(6000))*time.Millisecond, func() { n.Engine.Cut(clustertest.Whole) })
	case 2: // its requests arrive, and it receives no answers
		n.Engine.Cut(clustertest.Deaf)
		time.AfterFunc(time.Duration(c.rng.IntN(6000))*time.Millisecond, func() { n.Engine.Cut(clustertest.Whole) })
	}
}

// say sends a prompt under an id through random nodes until it is answered with success. It reports
// whether it was.
func (c *cloud) say(id, text string, tries int) bool {
	for range tries {
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		if v := c.ask(n, n.Send(fmt.Sprintf(`{"type":"open_session","sessionPath":%q,"retain":true}`, nodetest.CopiesDir+"/"+c.id+".jsonl"))); !v.Get("success").Bool() {
			c.pass(time.Duration(c.rng.IntN(300)) * time.Millisecond)
			continue
		}
		n.Line(fmt.Sprintf(`{"id":%q,"type":"prompt","message":%q,"streamingBehavior":"followUp","sessionId":%q}`, id, text, c.id))
		if c.ask(n, id).Get("success").Bool() {
			return true
		}
		c.pass(time.Duration(c.rng.IntN(300)) * time.Millisecond)
	}
	return false
}

// ask waits up to three seconds for an answer, and returns an empty result if none arrives.
func (c *cloud) ask(n *nodetest.Node, id string) (v gjson.Result) {
	before := len(n.Lines())
	for range 150 {
		c.pass(20 * time.Millisecond)
		for _, line := range n.Lines()[max(0, before-1):] {
			if v := gjson.Parse(line); v.Get("type").Str == "response" && v.Get("id").Str == id {
				return v
			}
		}
	}
	return v
}
