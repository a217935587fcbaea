package failpoint

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type Prompt struct{}

// attempt passes a point and says whether it panicked.
func attempt(p *Plan, actor, point string) (panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			_, panicked = r.(Injected)
		}
	}()
	p.Hit(actor, point)
	return false
}

// pattern passes a point n times and draws where it panicked.
func pattern(p *Plan, actor, point string, n int) string {
	var b strings.Builder
	for range n {
		if attempt(p, actor, point) {
			b.WriteByte('x')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

func TestWhen(t *testing.T) {
	for plan, want := range map[string]string{
		"Panic * Append":                  "xxxxxx",
		"Panic * Reply":                   "......",
		"Panic * * 2":                     "..x...",
		"Panic * * 3+":                    "...xxx",
		"Panic s1 * 0":                    "x.....",
		"Panic s2 * 0":                    "......",
		"Panic s*/tool/* Append":          "......",
		"Panic * * 0; Panic * * 3":        "x...x.", // the second is not asked when the first strikes
		"Panic * * 0/1":                   "......",
		"Panic * * 1/1":                   "xxxxxx",
		"PanicAfter * * 1":                ".x....",
		"Drop * *":                        "......",
		"Panic * * 1; Panic * Append 0; ": "xx....", // counted when it is asked
	} {
		p, err := Parse(strings.TrimSuffix(plan, "; "))
		require.NoError(t, err, plan)
		assert.Equal(t, want, pattern(p, "s1", "Append", 6), plan)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, actor string
		want        bool
	}{
		{"s1", "s1", true}, {"s1", "s10", false}, {"s?", "s1", true}, {"s?", "s10", false}, {"s?", "s1/ui", false},
		{"s1/*", "s1/tool/3/c1", true}, {"s1/*", "s1", false}, {"*/router", "conn$1/router", true}, {"*", "anything/at/all", true},
		{"s?/turn/*", "s1/turn/4", true}, {"s?/tool/*", "s1/tool/4/call", false},
	} {
		assert.Equal(t, c.want, isActor(c.glob, c.actor), "%s %s", c.glob, c.actor)
	}
}

// TestChanceIsPerActor: what happens to one actor does not depend on how often
// others were asked.
func TestChanceIsPerActor(t *testing.T) {
	draw := func(others int) string {
		p, err := Parse("Panic * * 0.3/7")
		require.NoError(t, err)
		var b strings.Builder
		for range 50 {
			for range others {
				attempt(p, "s2", "x")
			}
			b.WriteString(pattern(p, "s1", "x", 1))
		}
		return b.String()
	}
	assert.Equal(t, draw(0), draw(3))
	assert.Contains(t, draw(0), "x")
}

func TestAround(t *testing.T) {
	p, err := Parse("Panic * Prompt 0; PanicAfter * Prompt 0")
	require.NoError(t, err)
	require.Panics(t, func() { p.Around("s1", Prompt{}) })
	after := p.Around("s1", &Prompt{})
	require.Panics(t, after)
	p.Around("s1", Prompt{})()
	require.Len(t, p.Hits(), 2)
	assert.Equal(t, Hit{"PanicAfter * Prompt 0", "s1", "Prompt"}, p.Hits()[1])
}

func TestDelayAndStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Parse("Delay 3s * * 0; Stall * * 1")
		require.NoError(t, err)
		began := time.Now()
		p.Hit("a", "x")
		assert.Equal(t, 3*time.Second, time.Since(began))
		go func() { time.Sleep(time.Hour); p.Release() }()
		p.Hit("a", "x")
		assert.Equal(t, time.Hour+3*time.Second, time.Since(began))
		p.Hit("a", "x") // released: nothing happens any more
	})
}

func TestNilPlan(t *testing.T) {
	p, err := Parse("  ")
	require.NoError(t, err)
	require.Nil(t, p)
	p.Hit("a", "x")
	p.Release()
	assert.Empty(t, p.Hits())
	assert.Empty(t, p.String())
	assert.Nil(t, FromEnv(), "a build without the tag does not look at the environment")
}

func TestMistakes(t *testing.T) {
	for _, plan := range []string{
		"x", "Panic", "Panic *", "Explode * *", "Panic * * x", "Panic * * 1 2", "Panic [ *", "Panic * *;",
		"Delay soon * *", "Delay", "Panic * * x/1", "Panic * * 0.1/-1", "Panic * * +",
	} {
		_, err := Parse(plan)
		assert.Error(t, err, plan)
	}
}
