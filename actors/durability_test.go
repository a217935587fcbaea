package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
)

// TestNotDurable: what cannot be written is refused, memory is not ahead of the
// disk, and when the disk recovers the session goes on.
func TestNotDurable(t *testing.T) {
	for _, plan := range []string{
		"write *.jsonl always ENOSPC", "write *.jsonl always EIO", "write *.jsonl always short=20", "create * always EMFILE",
		"mkdir * always EACCES", "create * always EROFS",
	} {
		t.Run(plan, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t)
				s := b.open()
				b.disk.Fail(plan)
				for _, command := range []string{"prompt", "steer", "follow_up", "queue_message", "abort_and_prompt"} {
					id := b.Say(s, command, "~a~ refused "+command)
					b.pass(time.Second)
					assert.Equal(t, "not_durable", code(b.Answer(t, id)), command)
				}
				state := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
				assert.Zero(t, state.Get("messageCount").Int())
				assert.Zero(t, state.Get("pendingMessageCount").Int())
				assert.False(t, state.Get("isStreaming").Bool())
				assert.Empty(t, b.Events(s, "agent_start"))
				assert.Empty(t, b.models.Asked())
				b.disk.Fail("")
				b.heal(s, "~a~ accepted")
				b.check()
			})
		})
	}
}

// TestDiskFillsDuringARun: the run ends with an error, every bracket closes,
// the calls get their results when the disk has room again.
func TestDiskFillsDuringARun(t *testing.T) {
	for n := 1; n <= 14; n++ {
		for _, how := range []string{fmt.Sprintf("#%d ENOSPC", n), fmt.Sprintf("#%d short=11", n), fmt.Sprintf("#%d+ EIO", n)} {
			t.Run(how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := start(t, confirm)
					s := b.open()
					b.disk.Fail("write *.jsonl " + how)
					b.Say(s, "prompt", "~a~one rounds=2 calls=2 work=100")
					b.pass(50 * time.Millisecond)
					b.Say(s, "steer", "~a~two rounds=1 tool=danger")
					b.Say(s, "follow_up", "~a~three")
					b.live(s, time.Hour)
					state := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
					assert.False(t, state.Get("isStreaming").Bool())
					b.disk.Fail("")
					b.Call(t, `{"type":"clear_queue"`+at(s)+`}`)
					b.heal(s, "~a~ last")
					b.check()
				})
			})
		}
	}
}

// TestDiskFillsUnderTasks: children and theirs are at work when an entry of somebody cannot be
// written. What they have cost counts all the same, in the log of each that is above them.
func TestDiskFillsUnderTasks(t *testing.T) {
	for n := 1; n <= 30; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, withTasks)
				s := b.open()
				b.disk.Fail(fmt.Sprintf("write *.jsonl #%d ENOSPC", n))
				b.Say(s, "prompt", "~a~ tool=task rounds=1 children=2 each=tool=task,rounds=1,agent=helper,each=rounds=1")
				b.live(s, time.Hour)
				b.disk.Fail("")
				b.heal(s, "~a~ again")
				for path := range b.disk.Files() { // calls that were cut off get their results when somebody comes back
					if strings.HasSuffix(path, ".jsonl") {
						b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
					}
				}
				b.check()
			})
		})
	}
}

// TestCloseOnAFullDisk: a session can be closed although nothing can be
// written any more.
func TestCloseOnAFullDisk(t *testing.T) {
	for _, mode := range []string{"close", "eof", "signal"} {
		t.Run(mode, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, func(c *Config) { c.Conn.Drain = false })
				s := b.open()
				b.Say(s, "prompt", "~a~ stall")
				b.pass(time.Second)
				b.disk.Fail("write * always ENOSPC")
				began := time.Now()
				switch mode {
				case "close":
					v := b.Call(t, `{"type":"close_session","sessionId":"`+s+`","mode":"abort"}`)
					assert.True(t, v.Get("success").Bool())
				case "signal":
					b.stop <- Stop{Abort: true}
					b.wait()
				}
				b.end()
				assert.Less(t, time.Since(began), time.Second)
				b.judge(actortest.Options{})
			})
		})
	}
}

// TestKilledAnywhere: the process dies before or after each write, and again
// during the recovery. What was acknowledged is there when a third life opens
// the file, every call has a result, and the file only grew.
func TestKilledAnywhere(t *testing.T) {
	for _, mode := range []string{"kill", "power"} {
		for n := range 40 {
			t.Run(fmt.Sprintf("%s at half write %d", mode, n), func(t *testing.T) {
				bubble(t, func(t *testing.T) { killedAt(t, mode, n) })
			})
		}
	}
}

func killedAt(t *testing.T, mode string, n int) {
	h, disk, models := &actortest.History{}, actortest.NewDisk(), actortest.NewModels()
	var earlier map[string][]byte
	for life := range 2 {
		b := startWith(t, nil, h, disk, models, confirm, durable)
		image := make(chan left, 1)
		disk.At(n/(1+3*life), func() { // the second life dies sooner: while it recovers
			h := b.History.Fork()
			if mode == "power" {
				image <- left{h, b.disk.PowerCut(uint64(n))}
			} else {
				image <- left{h, b.disk.Killed()}
			}
		})
		s := b.reopen(life)
		b.work(s, fmt.Sprintf("~a~%d", life))
		b.abandon()
		select {
		case after := <-image:
			h, disk = after.h, after.disk
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
	b := startWith(t, nil, h, disk, models, confirm, durable)
	s := b.reopen(2)
	state := b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data")
	require.False(t, state.Get("isStreaming").Bool(), "what was queued is offered again and does not run by itself")
	b.heal(s, "~a~2 last")
	b.end()
	b.judge(actortest.Options{Files: disk.Files()})
}

// reopen opens the file that an earlier life left, or a new session.
func (b *bench) reopen(life int) string {
	b.t.Helper()
	for path := range b.disk.Files() {
		v := b.Call(b.t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
		if v.Get("success").Bool() {
			return v.Get("data.sessionId").Str
		}
		require.Contains(b.t, v.Raw, "not a valid pi session", "life %d", life) // its header was torn
	}
	return b.open()
}

// TestInterruptedSaysWhatHadStarted: the record of a killed run tells the calls
// that may have had effects from those that have not.
func TestInterruptedSaysWhatHadStarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		s := b.open()
		b.Say(s, "prompt", "~a~ rounds=1 calls=2 work=100000")
		b.pass(time.Second)
		disk := b.disk.Killed()
		h := b.History.Fork()
		h.Add(actortest.Killed, "")
		b.abandon()
		c := startWith(t, nil, h, disk, b.models)
		s = c.reopen(1)
		v := c.Call(t, `{"type":"get_messages"`+at(s)+`}`).Get("data.messages")
		assert.Contains(t, v.Get("2.content.0.text").Str, "may have had effects")
		assert.Contains(t, v.Get("3.content.0.text").Str, "never started")
		assert.Equal(t, "aborted", v.Get("4.stopReason").Str, v.Raw)
		for _, content := range disk.Files() {
			assert.Equal(t, 1, strings.Count(string(content), "troupe.interrupted"))
		}
		c.end()
		c.judge(actortest.Options{Files: disk.Files()})
	})
}

// TestQueueIsOfferedAgain: steers and follow-ups that were acknowledged wait in
// the file for the next life.
func TestQueueIsOfferedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		s := b.open()
		b.Say(s, "prompt", "~a~ stall")
		b.Say(s, "steer", "~a~ s1")
		b.Say(s, "follow_up", "~a~ f1")
		b.Say(s, "steer", "~a~ s2")
		b.pass(time.Second)
		h, disk := b.History.Fork(), b.disk.Killed()
		h.Add(actortest.Killed, "")
		b.abandon()
		c := startWith(t, nil, h, disk, b.models)
		s = c.reopen(1)
		assert.Equal(t, int64(3), c.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.pendingMessageCount").Int())
		v := c.Call(t, `{"type":"clear_queue"`+at(s)+`}`).Get("data")
		assert.JSONEq(t, `{"steering":["~a~ s1","~a~ s2"],"followUp":["~a~ f1"]}`, v.Raw)
		c.heal(s, "~a~ last")
		c.end()
		c.judge(actortest.Options{Files: disk.Files()})
	})
}

// TestOneWriter: a file that is open cannot be opened again; the end of its
// owner frees it at once.
func TestOneWriter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t)
		s := b.open()
		b.run(s, "~a~ one")
		var path string
		for p := range b.disk.Files() {
			path = p
		}
		open := fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
		assert.Equal(t, "session_in_use", code(b.Call(t, open)))
		require.True(t, b.Call(t, `{"type":"close_session","sessionId":"`+s+`"}`).Get("success").Bool())
		v := b.Call(t, open)
		require.True(t, v.Get("success").Bool(), v.Raw)
		b.end()
		b.judge(actortest.Options{Files: b.disk.Files(), Mixed: true})
	})
}

// TestGroupCommit: where an answer stands for an fsync, messages that arrive
// together share one; each is on disk before its answer.
func TestGroupCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, durable)
		s := b.open()
		b.Say(s, "prompt", "~a~ stall")
		actortest.Settle()
		before := b.disk.Syncs()
		b.Say(s, "steer", "~a~ 0")
		actortest.Settle()
		assert.Equal(t, before+1, b.disk.Syncs(), "one alone has its own")
		const many = 100
		for i := 1; i <= many; i++ {
			b.Say(s, []string{"steer", "follow_up"}[i%2], fmt.Sprintf("~a~ %d", i))
		}
		actortest.Settle()
		assert.Empty(t, b.Unanswered())
		assert.Less(t, b.disk.Syncs()-before, 20)
		assert.Equal(t, int64(many+1), b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.pendingMessageCount").Int())
		assert.Equal(t, many+1, strings.Count(string(b.onlyFile()), `"op":"add"`))
		b.Send(`{"type":"abort"` + at(s) + `}`)
		b.Send(`{"type":"clear_queue"` + at(s) + `}`)
		b.check()
	})
}

// TestGroupCommit_fails: an fsync that fails refuses every message of the
// group, and the session goes on.
func TestGroupCommit_fails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, durable)
		s := b.open()
		b.Say(s, "prompt", "~a~ stall")
		actortest.Settle()
		b.disk.Fail("sync *.jsonl #1 EIO")
		var ids []string
		for i := range 5 {
			ids = append(ids, b.Say(s, "steer", fmt.Sprintf("~a~ %d", i)))
		}
		actortest.Settle()
		refused := 0
		for _, id := range ids {
			if code(b.Answer(t, id)) == "not_durable" {
				refused++
			}
		}
		assert.Positive(t, refused)
		assert.Equal(t, int64(len(ids)-refused), b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.pendingMessageCount").Int())
		b.Send(`{"type":"abort"` + at(s) + `}`)
		b.Send(`{"type":"clear_queue"` + at(s) + `}`)
		b.heal(s, "~a~ last")
		b.check()
	})
}

func (b *bench) onlyFile() []byte {
	for _, content := range b.disk.Files() {
		return content
	}
	return nil
}
