package cluster_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	chaosSeed   = flag.Uint64("chaos.seed", 1, "what is drawn in a run")
	chaosFaults = flag.String("chaos.faults", "", "which faults, with spaces between; those of the test if empty")
	chaosLong   = flag.Bool("chaos.long", false, "every case there is, and figures: make cluster-long")
	chaosEvery  = flag.Duration("chaos.every", 9*time.Second, "from one fault to the next")
	chaosPause  = flag.Duration("chaos.pause", 20*time.Millisecond, "between a client's commands, at most")
	chaosMore   = flag.Int("chaos.clients", 12, "clients besides one for each session")
)

// play has faults happen one after the other, and judges.
func play(t *testing.T, w *world, faults string) []string {
	if *chaosFaults != "" {
		faults = *chaosFaults
	}
	time.Sleep(3 * time.Second) // under load
	for _, name := range strings.Fields(faults) {
		begun := time.Now()
		w.fault(name)
		if name[0] == 'P' || name == "K6" { // where all is away the next one waits for work to be cut off from
			w.working()
		}
		time.Sleep(max(time.Until(begun.Add(*chaosEvery)), 3*time.Second))
	}
	return w.end()
}

// faults are those of a run, and those of a long one.
func faults(short, long string) string {
	if *chaosLong {
		return long
	}
	return short
}

// long says that a test is one of the night.
func long(t *testing.T) {
	t.Helper()
	needsCluster(t)
	if !*chaosLong {
		t.Skip("make cluster-long runs it")
	}
}

func options() worldOptions { return worldOptions{clients: *chaosMore, pause: *chaosPause} }

// TestChaos_jetstream: kills, stops and cuts, with nothing lost and nothing done twice.
func TestChaos_jetstream(t *testing.T) {
	w := newWorld(t, *chaosSeed, options())
	assert.Empty(t, play(t, w, faults("K1 N5 N1H", "K1 K2 K3 K5 K5L K5A KM K6 K6N K6S S1 S2 S3 S60 SS N1 N1H N2 N3 N4 N5 N6 N7 D3")))
}

// TestPower_jetstream (C5): what was acknowledged is on two disks.
func TestPower_jetstream(t *testing.T) {
	opt := options()
	opt.disks = true
	w := newWorld(t, *chaosSeed, opt)
	assert.Empty(t, play(t, w, faults("P1 P3 P2", "P1 P2 P1 P3 P1 P2 P3 P1")))
}

// TestControl_jetstream: the same without sync_interval: always loses records. A harness that
// does not see that would not see anything.
func TestControl_jetstream(t *testing.T) {
	beside(t)
	opt := options()
	opt.disks, opt.sync = true, "2m"
	w := newWorld(t, *chaosSeed, opt)
	time.Sleep(5 * time.Second)
	w.fault("P1")
	time.Sleep(15 * time.Second)
	violations := slices.DeleteFunc(w.judge(), func(v string) bool { return !strings.HasPrefix(v, "C2") })
	require.NotEmpty(t, violations, "nothing was lost")
	t.Logf("%d violations, the first: %s", len(violations), violations[0])
}

// TestGreedy_jetstream (C9): everybody claims whatever it is asked for. Safety needs no clock.
func TestGreedy_jetstream(t *testing.T) {
	long(t)
	opt := options()
	opt.greedy = true
	w := newWorld(t, *chaosSeed, opt)
	assert.Empty(t, play(t, w, "K1 S2"))
}

// TestChaos_postgres: the same laws with the other engine, and its primary killed.
func TestChaos_postgres(t *testing.T) {
	beside(t)
	opt := options()
	opt.postgres = true
	w := newWorld(t, *chaosSeed, opt)
	assert.Empty(t, play(t, w, faults("K1 G1P", "K1 S2 N2 G1C G1I G1 G1P")))
}
