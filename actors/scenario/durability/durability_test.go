package durability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
)

// TestNotDurable checks that a message that cannot be written is refused, that the state in memory
// does not contain it, and that the session works again once the disk does.
func TestNotDurable(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl always ENOSPC", "write *.jsonl always EIO", "write *.jsonl always short=20", "create * always EMFILE",
		"mkdir * always EACCES", "create * always EROFS",
	} {
		t.Run(plan, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t)
				s := b.Open()
				b.Disk.Fail(plan)
				for _, command := range []string{"prompt", "steer", "follow_up", "queue_message", "abort_and_prompt"} {
					id := b.Say(s, command, "~a~ refused "+command)
					b.Advance(time.Second)
					assert.Equal(t, "not_durable", harness.Code(b.Answer(t, id)), command)
				}
				state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
				assert.Zero(t, state.Get("messageCount").Int())
				assert.Zero(t, state.Get("pendingMessageCount").Int())
				assert.False(t, state.Get("isStreaming").Bool())
				assert.Empty(t, b.Events(s, "agent_start"))
				assert.Empty(t, b.Models.Asked())
				b.Disk.Fail("")
				b.RequireWorking(s, "~a~ accepted")
				b.Check()
			})
		})
	}
}

// TestDiskFillsDuringARun checks that a run on a full disk ends with an error, that all its spans
// end, and that its calls get their results when the disk has room again.
func TestDiskFillsDuringARun(t *testing.T) {
	for n := 1; n <= 14; n++ {
		for _, how := range []string{fmt.Sprintf("#%d ENOSPC", n), fmt.Sprintf("#%d short=11", n), fmt.Sprintf("#%d+ EIO", n)} {
			t.Run(how, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					b := harness.Start(t, harness.ConfirmDanger)
					s := b.Open()
					b.Disk.Fail("write *.jsonl " + how)
					b.Say(s, "prompt", "~a~one rounds=2 calls=2 work=100")
					b.Advance(50 * time.Millisecond)
					b.Say(s, "steer", "~a~two rounds=1 tool=danger")
					b.Say(s, "follow_up", "~a~three")
					b.AdvanceApproving(s, time.Hour)
					state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
					assert.False(t, state.Get("isStreaming").Bool())
					b.Disk.Fail("")
					b.Call(t, `{"type":"clear_queue"`+harness.At(s)+`}`)
					b.RequireWorking(s, "~a~ last")
					b.Check()
				})
			})
		}
	}
}

// TestDiskFillsUnderTasks checks that the usage of children and grandchildren is recorded in the
// logs of their ancestors even if one entry could not be written.
func TestDiskFillsUnderTasks(t *testing.T) {
	for n := 1; n <= 30; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.WithTasks)
				s := b.Open()
				b.Disk.Fail(fmt.Sprintf("write *.jsonl #%d ENOSPC", n))
				b.Say(s, "prompt", "~a~ tool=task rounds=1 children=2 each=tool=task,rounds=1,agent=helper,each=rounds=1")
				b.AdvanceApproving(s, time.Hour)
				b.Disk.Fail("")
				b.RequireWorking(s, "~a~ again")
				// Interrupted calls get their results when the session is opened again.
				for path := range b.Disk.Files() {
					if strings.HasSuffix(path, ".jsonl") {
						b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
					}
				}
				b.Check()
			})
		})
	}
}

// TestCloseOnAFullDisk checks that a session can be closed although nothing can be written.
func TestCloseOnAFullDisk(t *testing.T) {
	for _, mode := range []string{"close", "eof", "signal"} {
		t.Run(mode, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, func(c *actors.Config) { c.Conn.Drain = false })
				s := b.Open()
				b.Say(s, "prompt", "~a~ stall")
				b.Advance(time.Second)
				b.Disk.Fail("write * always ENOSPC")
				began := time.Now()
				switch mode {
				case "close":
					v := b.Call(t, `{"type":"close_session","sessionId":"`+s+`","mode":"abort"}`)
					assert.True(t, v.Get("success").Bool())
				case "signal":
					b.StopRequests <- actors.Stop{Abort: true}
					b.Wait()
				}
				b.End()
				assert.Less(t, time.Since(began), time.Second)
				b.Judge(actortest.Options{})
			})
		})
	}
}

// TestKilledAnywhere kills the daemon before or after each write, and a second one during recovery.
// It checks that a third daemon finds everything that was acknowledged, that every call has a
// result, and that files only grew.
func TestKilledAnywhere(t *testing.T) {
	for _, mode := range []string{"kill", "power"} {
		for n := range 40 {
			t.Run(fmt.Sprintf("%s at half write %d", mode, n), func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) { killedAt(t, mode, n) })
			})
		}
	}
}

func killedAt(t *testing.T, mode string, n int) {
	h, disk, models := &actortest.History{}, actortest.NewDisk(), actortest.NewModels()
	var earlier map[string][]byte
	for life := range 2 {
		b := harness.StartWith(t, nil, h, disk, models, harness.ConfirmDanger, harness.SyncWrites)
		image := make(chan harness.Image, 1)
		disk.At(n/(1+3*life), func() { // the second daemon is killed earlier, during recovery
			h := b.History.Fork()
			if mode == "power" {
				image <- harness.Image{History: h, Disk: b.Disk.PowerCut(uint64(n))}
			} else {
				image <- harness.Image{History: h, Disk: b.Disk.Killed()}
			}
		})
		s := reopen(b, life)
		b.RunWork(s, fmt.Sprintf("~a~%d", life))
		b.Abandon()
		select {
		case after := <-image:
			h, disk = after.History, after.Disk
			h.Add(actortest.Killed, mode)
		default:
			h.Add(actortest.End, "")
		}
		files := disk.Files()
		for path, content := range earlier {
			require.True(t, actortest.Grown(content, files[path]), "S6: %s did not only grow", path)
		}
		earlier = files
	}
	b := harness.StartWith(t, nil, h, disk, models, harness.ConfirmDanger, harness.SyncWrites)
	s := reopen(b, 2)
	state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
	require.False(t, state.Get("isStreaming").Bool(), "what was queued is offered again and does not run by itself")
	b.RequireWorking(s, "~a~2 last")
	b.End()
	b.Judge(actortest.Options{Files: disk.Files()})
}

// reopen opens the file that an earlier daemon left, or a new session.
func reopen(b *harness.Client, life int) string {
	b.T.Helper()
	for path := range b.Disk.Files() {
		v := b.Call(b.T, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
		if v.Get("success").Bool() {
			return v.Get("data.sessionId").Str
		}
		// The header of the file is incomplete.
		require.Contains(b.T, v.Raw, "not a valid pi session", "life %d", life)
	}
	return b.Open()
}

// TestInterruptedSaysWhatHadStarted checks that the record of an interrupted run distinguishes
// calls that may have had effects from calls that were never started.
func TestInterruptedSaysWhatHadStarted(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		s := b.Open()
		b.Say(s, "prompt", "~a~ rounds=1 calls=2 work=100000")
		b.Advance(time.Second)
		disk := b.Disk.Killed()
		h := b.History.Fork()
		h.Add(actortest.Killed, "")
		b.Abandon()
		c := harness.StartWith(t, nil, h, disk, b.Models)
		s = reopen(c, 1)
		v := c.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages")
		assert.Contains(t, v.Get("2.content.0.text").Str, "may have had effects")
		assert.Contains(t, v.Get("3.content.0.text").Str, "never started")
		assert.Equal(t, "aborted", v.Get("4.stopReason").Str, v.Raw)
		for _, content := range disk.Files() {
			assert.Equal(t, 1, strings.Count(string(content), "troupe.interrupted"))
		}
		c.End()
		c.Judge(actortest.Options{Files: disk.Files()})
	})
}

// TestQueueIsOfferedAgain checks that acknowledged steering and follow-up messages are still queued
// when the session is opened after a kill.
func TestQueueIsOfferedAgain(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		s := b.Open()
		b.Say(s, "prompt", "~a~ stall")
		b.Say(s, "steer", "~a~ s1")
		b.Say(s, "follow_up", "~a~ f1")
		b.Say(s, "steer", "~a~ s2")
		b.Advance(time.Second)
		h, disk := b.History.Fork(), b.Disk.Killed()
		h.Add(actortest.Killed, "")
		b.Abandon()
		c := harness.StartWith(t, nil, h, disk, b.Models)
		s = reopen(c, 1)
		assert.Equal(t, int64(3), c.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.pendingMessageCount").Int())
		v := c.Call(t, `{"type":"clear_queue"`+harness.At(s)+`}`).Get("data")
		assert.JSONEq(t, `{"steering":["~a~ s1","~a~ s2"],"followUp":["~a~ f1"]}`, v.Raw)
		c.RequireWorking(s, "~a~ last")
		c.End()
		c.Judge(actortest.Options{Files: disk.Files()})
	})
}

// TestOneWriter checks that an open session file cannot be opened a second time, and can be as soon
// as its session is closed.
func TestOneWriter(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t)
		s := b.Open()
		b.Run(s, "~a~ one")
		var path string
		for p := range b.Disk.Files() {
			path = p
		}
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
		assert.Equal(t, "session_in_use", harness.Code(b.Call(t, open)))
		require.True(t, b.Call(t, `{"type":"close_session","sessionId":"`+s+`"}`).Get("success").Bool())
		v := b.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		b.End()
		b.Judge(actortest.Options{Files: b.Disk.Files(), Mixed: true})
	})
}

// TestGroupCommit checks that messages that arrive together share one fsync in the durability mode
// sync, and that each is on disk before it is answered.
func TestGroupCommit(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.SyncWrites)
		s := b.Open()
		b.Say(s, "prompt", "~a~ stall")
		actortest.Settle()
		before := b.Disk.Syncs()
		b.Say(s, "steer", "~a~ 0")
		actortest.Settle()
		assert.Equal(t, before+1, b.Disk.Syncs(), "one alone has its own")
		const many = 100
		for i := 1; i <= many; i++ {
			b.Say(s, []string{"steer", "follow_up"}[i%2], fmt.Sprintf("~a~ %d", i))
		}
		actortest.Settle()
		assert.Empty(t, b.Unanswered())
		assert.Less(t, b.Disk.Syncs()-before, 20)
		assert.Equal(t, int64(many+1), b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.pendingMessageCount").Int())
		assert.Equal(t, many+1, strings.Count(string(onlyFile(b)), `"op":"add"`))
		b.Send(`{"type":"abort"` + harness.At(s) + `}`)
		b.Send(`{"type":"clear_queue"` + harness.At(s) + `}`)
		b.Check()
	})
}

// TestGroupCommit_fails checks that a failed fsync refuses the messages of its group, and that the
// session continues to work.
func TestGroupCommit_fails(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.SyncWrites)
		s := b.Open()
		b.Say(s, "prompt", "~a~ stall")
		actortest.Settle()
		b.Disk.Fail("sync *.jsonl #1 EIO")
		var ids []string
		for i := range 5 {
			ids = append(ids, b.Say(s, "steer", fmt.Sprintf("~a~ %d", i)))
		}
		actortest.Settle()
		refused := 0
		for _, id := range ids {
			if harness.Code(b.Answer(t, id)) == "not_durable" {
				refused++
			}
		}
		assert.Positive(t, refused)
		assert.Equal(t, int64(len(ids)-refused), b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.pendingMessageCount").Int())
		b.Send(`{"type":"abort"` + harness.At(s) + `}`)
		b.Send(`{"type":"clear_queue"` + harness.At(s) + `}`)
		b.RequireWorking(s, "~a~ last")
		b.Check()
	})
}

func onlyFile(b *harness.Client) []byte {
	for _, content := range b.Disk.Files() {
		return content
	}
	return nil
}
