package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// work is what a session does while a fault strikes: a run with tools and a
// retry, input queued meanwhile, questions, a bash command, a dialog.
func (b *bench) work(session, mark string) {
	b.t.Helper()
	b.Say(session, "prompt", mark+"one rounds=2 calls=2 pace=10 work=50")
	b.pass(20 * time.Millisecond)
	b.Say(session, "steer", mark+"two")
	b.Say(session, "follow_up", mark+"three rounds=1 tool=danger")
	b.Say(session, "follow_up", mark+"four fail=overloaded times=1")
	b.Send(`{"type":"get_state"` + at(session) + `}`)
	b.Send(`{"type":"get_session_stats"` + at(session) + `}`)
	b.live(session, time.Minute)
	b.Say(session, "prompt", mark+"five")
	b.live(session, time.Hour)
}

// live lets time pass and says yes to every dialog that opens meanwhile.
func (b *bench) live(session string, d time.Duration) {
	for range 8 {
		b.pass(d / 8)
		b.consent(session, true)
	}
	b.pass(d)
}

func at(session string) string {
	if session == "" {
		return ""
	}
	return `,"sessionId":"` + session + `"`
}

// heal shows that a session works: a prompt runs to its end.
func (b *bench) heal(session, text string) {
	b.t.Helper()
	id := b.Say(session, "prompt", text)
	b.live(session, time.Hour)
	v := b.Answer(b.t, id)
	require.True(b.t, v.Get("success").Bool(), v.Raw)
	settled := b.Events(session, "agent_settled")
	require.NotEmpty(b.t, settled)
	require.Equal(b.t, "completed", settled[len(settled)-1].Get("outcome").Str)
}

// consent answers every dialog that was opened since the last call.
func (b *bench) consent(session string, yes bool) {
	dialogs := b.Events(session, "extension_ui_request")
	seen := b.answered[session]
	b.answered[session] = len(dialogs)
	for _, e := range dialogs[seen:] {
		b.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"confirmed":%t%s}`, e.Get("id").Str, yes, at(session)))
	}
	b.Settle()
}

// crashPlaces are where actors are made to crash; see [TestEveryPointIsReached].
var crashPlaces = []struct{ actor, point string }{
	{"s1", "Request"}, {"s1", "StreamParts"}, {"s1", "StreamEnd"}, {"s1", "ToolDone"}, {"s1", "ToolProgress"},
	{"s1", "RetryScheduled"}, {"s1", "RetryDue"}, {"s1", "UIAnswered"}, {"s1", "opened"}, {"s1", "WorkerGone"},
	{"s1", "Append"}, {"s1", "Reply"}, {"s1", "Emit"}, {"s1", "Query"}, {"s1", "StartStream"}, {"s1", "StartTool"},
	{"s1", "ScheduleRetry"}, {"s1", "AskUI"}, {"s1", "ResolveUI"}, {"s1", "Cancel"},
	{"s1/turn/*", "finished"}, {"s1/tool/*", "finished"}, {"s1/retry", "ScheduleRetry"}, {"s1/ui", "AskUI"}, {"s1/ui", "AnswerUI"},
}

// TestCrashes: wherever an actor crashes, commands are answered once, what was
// begun is closed, what was accepted is not lost, the neighbour does not
// notice, and afterwards everything works.
func TestCrashes(t *testing.T) {
	for _, p := range crashPlaces {
		for _, action := range []string{"Panic", "PanicAfter"} {
			for _, n := range []int{0, 1, 3} {
				plan := fmt.Sprintf(`%s %s %s %d`, action, p.actor, p.point, n)
				t.Run(strings.ReplaceAll(plan, "/", "-"), func(t *testing.T) {
					bubble(t, func(t *testing.T) { crashOnce(t, plan) })
				})
			}
		}
	}
}

func crashOnce(t *testing.T, plan string) {
	b := start(t, faults(plan), confirm, func(c *Config) { c.Conn.MultiSession = true })
	hurt := "s1"
	b.Call(t, `{"type":"open_session"}`) // it may crash already
	well := b.open()
	b.Say(well, "prompt", "~w~ rounds=3 pace=100")
	b.work(hurt, "~h~")
	assert.Empty(t, b.Unanswered(), plan)
	assert.Len(t, b.Events(well, "agent_settled"), 1)
	assert.Equal(t, "completed", b.Events(well, "agent_settled")[0].Get("outcome").Str)

	b.cfg.Faults.Release()
	b.heal(hurt, "~h~ last")
	b.check()

	inSession := 0
	for _, hit := range b.cfg.Faults.Hits() {
		if hit.Actor == "s1" {
			inSession++
		}
	}
	assert.Equal(t, inSession, b.crashes(hurt), "restarts are injected crashes and no others")
	assert.Zero(t, b.crashes(well))
}

// crashes counts the crashes of a session.
func (b *bench) crashes(session string) int { return b.watch.Crashes(b.pidOf(session)) }

func (b *bench) pidOf(session string) string { return "daemon/sessions/" + session }

// TestEveryPointIsReached: a failpoint that nothing passes promises nothing.
func TestEveryPointIsReached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Delay 0s * *`), confirm, withTasks, func(c *Config) { c.Conn.MultiSession = true })
		hurt := b.open()
		b.work(hurt, "~h~")
		b.Say(hurt, "prompt", "~h~ with a child tool=task rounds=1")
		b.pass(time.Minute)
		b.Send(`{"type":"list_open_sessions"}`)
		b.Send(`{"type":"prompt","message":"parts=1000 pause=1s"` + at(hurt) + `}`)
		b.Send(`{"type":"new_session"` + at(hurt) + `}`)
		b.Settle()
		b.end()
		seen := map[string]bool{}
		for _, hit := range b.cfg.Faults.Hits() {
			kind, _, _ := strings.Cut(strings.TrimPrefix(hit.Actor, "s1/"), "/")
			seen[kind+" "+hit.Msg] = true
		}
		for _, p := range crashPlaces {
			where := strings.TrimSuffix(strings.TrimPrefix(p.actor, "s1/"), "/*")
			assert.True(t, seen[where+" "+p.point], "%v is not reached; there are %v", p, seen)
		}
		for _, point := range chaosPoints {
			assert.True(t, seen["s1 "+point], "%s is not reached; there are %v", point, seen)
		}
	})
}

// TestPromisedRun: who was told that a run has started sees it begin and end,
// even if the session crashed between the two.
func TestPromisedRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`PanicAfter s1 Reply 1`))
		s := b.open()
		id := b.Say(s, "prompt", "~a~")
		b.pass(time.Second)
		assert.Equal(t, "started", b.Answer(t, id).Get("data.disposition").Str)
		assert.Equal(t, []string{"agent_start", "turn_start", "message_start", "message_end", "turn_end", "agent_end", "agent_settled"}, b.Kinds(s))
		assert.Equal(t, "interrupted", b.Events(s, "agent_settled")[0].Get("outcome").Str)
		b.heal(s, "~a~ again")
		b.check()
	})
}
