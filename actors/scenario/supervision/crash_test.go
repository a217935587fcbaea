package supervision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/actors"
	"troupe/actors/scenario/harness"
)

// crashPlaces are the actors and messages at which crashes are injected; see
// [TestEveryPointIsReached].
var crashPlaces = []struct{ actor, point string }{
	{"s1", "Request"}, {"s1", "StreamParts"}, {"s1", "StreamEnd"}, {"s1", "ToolDone"}, {"s1", "ToolProgress"},
	{"s1", "RetryScheduled"}, {"s1", "RetryDue"}, {"s1", "UIAnswered"}, {"s1", "opened"}, {"s1", "WorkerGone"},
	{"s1", "Append"}, {"s1", "Reply"}, {"s1", "Emit"}, {"s1", "Query"}, {"s1", "StartStream"}, {"s1", "StartTool"},
	{"s1", "ScheduleRetry"}, {"s1", "AskUI"}, {"s1", "ResolveUI"}, {"s1", "Cancel"},
	{"s1/turn/*", "finished"}, {"s1/tool/*", "finished"}, {"s1/retry", "ScheduleRetry"}, {"s1/ui", "AskUI"}, {"s1/ui", "AnswerUI"},
}

// TestCrashes checks that, wherever an actor crashes, commands are answered once, spans end,
// accepted messages are kept, another session is not affected, and the session works afterwards.
func TestCrashes(t *testing.T) {
	for _, p := range crashPlaces {
		for _, action := range []string{"Panic", "PanicAfter"} {
			for _, n := range []int{0, 1, 3} {
				plan := fmt.Sprintf(`%s %s %s %d`, action, p.actor, p.point, n)
				t.Run(strings.ReplaceAll(plan, "/", "-"), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) { crashOnce(t, plan) })
				})
			}
		}
	}
}

func crashOnce(t *testing.T, plan string) {
	b := harness.Start(t, harness.Faults(plan), harness.ConfirmDanger, func(c *actors.Config) { c.Conn.MultiSession = true })
	hurt := "s1"
	b.Call(t, `{"type":"open_session"}`) // may crash already
	well := b.Open()
	b.Say(well, "prompt", "~w~ rounds=3 pace=100")
	b.RunWork(hurt, "~h~")
	assert.Empty(t, b.Unanswered(), plan)
	assert.Len(t, b.Events(well, "agent_settled"), 1)
	assert.Equal(t, "completed", b.Events(well, "agent_settled")[0].Get("outcome").Str)

	b.Config.Faults.Release()
	b.RequireWorking(hurt, "~h~ last")
	b.Check()

	inSession := 0
	for _, hit := range b.Config.Faults.Hits() {
		if hit.Actor == "s1" {
			inSession++
		}
	}
	assert.Equal(t, inSession, b.Crashes(hurt), "restarts are injected crashes and no others")
	assert.Zero(t, b.Crashes(well))
}

// TestEveryPointIsReached checks that every failpoint of these tests is reached.
func TestEveryPointIsReached(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Delay 0s * *`), harness.ConfirmDanger, harness.WithTasks, func(c *actors.Config) { c.Conn.MultiSession = true })
		hurt := b.Open()
		b.RunWork(hurt, "~h~")
		b.Say(hurt, "prompt", "~h~ with a child tool=task rounds=1")
		b.Advance(time.Minute)
		b.Send(`{"type":"list_open_sessions"}`)
		b.Send(`{"type":"prompt","message":"parts=1000 pause=1s"` + harness.At(hurt) + `}`)
		b.Send(`{"type":"new_session"` + harness.At(hurt) + `}`)
		b.Settle()
		b.End()
		seen := map[string]bool{}
		for _, hit := range b.Config.Faults.Hits() {
			kind, _, _ := strings.Cut(strings.TrimPrefix(hit.Actor, "s1/"), "/")
			seen[kind+" "+hit.Msg] = true
		}
		for _, p := range crashPlaces {
			where := strings.TrimSuffix(strings.TrimPrefix(p.actor, "s1/"), "/*")
			assert.True(t, seen[where+" "+p.point], "%v is not reached; there are %v", p, seen)
		}
		for _, point := range harness.SessionPoints {
			assert.True(t, seen["s1 "+point], "%s is not reached; there are %v", point, seen)
		}
	})
}

// TestPromisedRun checks that a client that received the disposition started sees the run start and
// end, even if the session crashes in between.
func TestPromisedRun(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`PanicAfter s1 Reply 1`))
		s := b.Open()
		id := b.Say(s, "prompt", "~a~")
		b.Advance(time.Second)
		assert.Equal(t, "started", b.Answer(t, id).Get("data.disposition").Str)
		assert.Equal(t, []string{"agent_start", "turn_start", "message_start", "message_end", "turn_end", "agent_end", "agent_settled"}, b.Kinds(s))
		assert.Equal(t, "interrupted", b.Events(s, "agent_settled")[0].Get("outcome").Str)
		b.RequireWorking(s, "~a~ again")
		b.Check()
	})
}
