package supervision

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/tools"
)

var everyOutcome = flag.Bool("outcome.all", false, "crash at every point of every command, and not at some")

// actingOnce is a command that must be executed at most once, however often it is sent, with a
// function that counts its effects.
type actingOnce struct {
	name   string
	before string // state of the session before the command: "", said, long or running
	line   string // without id and session
	acted  func(b *harness.Client, session string) int
	ranOut bool // its effect is not in the log
}

// actsOnceCases returns the commands whose effects can be counted.
func actsOnceCases(ran *atomic.Int32) []actingOnce {
	inFiles := func(text string) func(*harness.Client, string) int {
		return func(b *harness.Client, _ string) (n int) {
			for _, content := range b.Disk.Files() {
				n += strings.Count(string(content), text)
			}
			return n
		}
	}
	message := func(b *harness.Client, _ string) (n int) { // in the conversation or in the queue
		for _, content := range b.Disk.Files() {
			for line := range strings.Lines(string(content)) {
				if strings.Contains(line, harness.UserSaid+"~x~ counted") && !strings.Contains(line, `"troupeQueueId"`) || strings.Contains(line, `"op":"add"`) && strings.Contains(line, "~x~ counted") {
					n++
				}
			}
		}
		return n
	}
	changed := func(b *harness.Client, session string) int { return len(b.Events(session, "session_changed")) }
	return []actingOnce{
		{"bash", "said", `"type":"bash","command":"echo counted sleep=500"`, func(*harness.Client, string) int { return int(ran.Load()) }, true},
		{"prompt", "", `"type":"prompt","message":"~x~ counted"`, message, false},
		{"prompt, while one waits", "running", `"type":"prompt","streamingBehavior":"followUp","message":"~x~ counted"`, message, false},
		{"steer", "running", `"type":"steer","message":"~x~ counted"`, message, false},
		{"queue_message", "running", `"type":"queue_message","message":"~x~ counted"`, message, false},
		{"abort_and_prompt", "running", `"type":"abort_and_prompt","message":"~x~ counted"`, message, false},
		{"set_session_name", "said", `"type":"set_session_name","name":"counted"`, inFiles(`"name":"counted"`), false},
		{"compact", "long", `"type":"compact"`, inFiles(`"type":"compaction"`), false},
		{"new_session", "said", `"type":"new_session"`, changed, false},
		{"clone", "said", `"type":"clone"`, changed, false},
		{"set_todos", "said", `"type":"set_todos","phases":[{"name":"counted","tasks":[]}]`, inFiles(`"name":"counted"`), false},
	}
}

// outcomeOf sends one command to a session under a plan of faults. It returns the daemon, the line
// that was sent, and the range of the session's failpoints between the command and its answer.
func outcomeOf(t *testing.T, plan string, of actingOnce, ran *atomic.Int32, client string) (b *harness.Client, session, line string, from, to int) {
	b = harness.Start(t, harness.Faults(plan), func(c *actors.Config) {
		c.Sessions.Exec = func(ctx context.Context, spec tools.ExecSpec) (tools.ExecResult, error) {
			ran.Add(1)
			return actortest.Exec(ctx, spec)
		}
	})
	if client != "" {
		b.Call(t, fmt.Sprintf(`{"type":"hello","clientId":%q}`, client))
	}
	session = b.Open()
	switch of.before {
	case "said":
		b.Run(session, "~x~ before")
	case "long":
		b.Run(session, "~x~ "+strings.Repeat("before ", 20_000))
	case "running":
		b.Say(session, "prompt", "~x~ first pace=200 parts=30")
		b.Advance(time.Second)
	}
	points := func() int { return len(b.Config.Faults.Hits()) }
	from = points()
	line = `{"id":"x-once",` + of.line + harness.At(session) + `}`
	b.Line(line)
	for i := 0; len(b.Responses("x-once")) == 0; i++ {
		require.Less(t, i, 1000, "no answer: %s", b.History.Tail(60))
		b.Advance(10 * time.Millisecond)
	}
	return b, session, line, from, points()
}

// TestOutcomeOfCrashes crashes a session at different points of a command and checks that the
// answer says whether the command may have run. A client that sends again a command that did not
// run has it executed once. A client with an id may always send it again, unless the outcome cannot
// be known.
func TestOutcomeOfCrashes(t *testing.T) {
	for i := range actsOnceCases(nil) {
		for _, client := range []string{"", "client-one"} {
			t.Run(fmt.Sprint(actsOnceCases(nil)[i].name, client), func(t *testing.T) {
				t.Parallel()
				var from, to int
				t.Run("points", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var ran atomic.Int32
						of := actsOnceCases(&ran)[i]
						b, s, _, begin, end := outcomeOf(t, "Delay 0s s1 *", of, &ran, client)
						from, to = begin, end
						require.Equal(t, 1, of.acted(b, s))
						b.End()
					})
				})
				step := 5
				if *everyOutcome {
					step = 1
				}
				for _, action := range []string{"Panic", "PanicAfter"} {
					for at := from; at < to; at += step {
						plan := fmt.Sprintf("%s s1 * %d", action, at)
						t.Run(plan, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { outcomeOfCrash(t, plan, i, client) })
						})
					}
				}
			})
		}
	}
}

func outcomeOfCrash(t *testing.T, plan string, i int, client string) {
	var ran atomic.Int32
	of := actsOnceCases(&ran)[i]
	b, s, line, _, _ := outcomeOf(t, plan, of, &ran, client)
	v := b.Answer(t, "x-once")
	acted := of.acted(b, s)
	what := b.Config.Faults.Hits()
	require.LessOrEqual(t, acted, 1, "%v %s", what, v.Raw)
	if !v.Get("success").Bool() {
		unknown := b.RequireRetryInfo(v)
		require.False(t, acted > 0 && !unknown, "%v: it is said not to have run, and has: %s", what, v.Raw)
		if client != "" || !unknown {
			b.Advance(time.Second)
			v = b.Resend(line, "x-once")
			require.True(t, v.Get("success").Bool() || of.ranOut && b.RequireRetryInfo(v), "%v %s", what, v.Raw)
		}
	}
	b.Advance(time.Second)
	if v.Get("success").Bool() {
		assert.Equal(t, 1, of.acted(b, s), "%v %s", what, v.Raw)
		if client != "" {
			again := b.Resend(line, "x-once")
			assert.True(t, again.Get("replayed").Bool(), again.Raw)
		}
	}
	assert.LessOrEqual(t, of.acted(b, s), 1, "%v %s", what, v.Raw)
	b.End()
}

// TestNotBegun crashes a session while an extension asks whether it may be left. The answers to
// commands that wait say that they have not run and may be sent again. The answers to active
// commands say that they may have run.
func TestNotBegun(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		found := filepath.Join(t.TempDir(), "x.ts")
		require.NoError(t, os.WriteFile(found, nil, 0o600))
		b := harness.Start(t, harness.Faults("Panic s1 Query 0"), func(c *actors.Config) {
			c.Sessions.ExtensionHost, c.Sessions.Extensions.Sources = actortest.AskingHost{}, []string{found}
		})
		s := b.Open()
		b.Run(s, "~x~ one")
		want := map[string]bool{}
		for i, line := range []string{`"type":"bash","command":"sleep=5000"`, `"type":"new_session"`, `"type":"bash","command":"waits"`, `"type":"prompt","message":"~x~ waits"`, `"type":"get_session_stats"`} {
			id := fmt.Sprint("x-", i)
			want[id] = i < 2
			b.Line(`{"id":"` + id + `",` + line + harness.At(s) + `}`)
			b.Advance(100 * time.Millisecond)
		}
		for id, begun := range want {
			v := b.Answer(t, id)
			assert.Equal(t, begun, b.RequireRetryInfo(v), v.Raw)
		}
		b.End()
	})
}
