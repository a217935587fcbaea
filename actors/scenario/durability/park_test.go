package durability

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/store/storetest"
)

// TestParkingGivesBack checks that memory is returned to the system once after several sessions
// were opened together, and once each time that several are parked together.
func TestParkingGivesBack(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var given, idle atomic.Int32
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.ParkAfter = time.Minute
			c.Sessions.GiveBack = func(always bool) {
				if always {
					given.Add(1)
				} else {
					idle.Add(1)
				}
			}
		})
		b.Advance(2 * time.Second)
		require.Zero(t, given.Load(), "one session that is there from the start")
		sessions := []string{b.Open(), b.Open(), b.Open()}
		b.Advance(2 * time.Second)
		require.EqualValues(t, 1, given.Swap(0))
		sleep := func(round string) {
			for _, s := range sessions {
				b.Say(s, "prompt", "~"+s+round+"~")
				b.Advance(time.Second / 3)
			}
			before := given.Load()
			b.Advance(50 * time.Second)
			assert.Equal(t, before, given.Load(), "nobody sleeps")
			b.Advance(time.Minute)
			require.Contains(t, b.Call(t, `{"type":"list_open_sessions"}`).Raw, `"parked"`)
		}
		sleep("a")
		assert.EqualValues(t, 1, given.Load())
		sleep("b")
		assert.EqualValues(t, 2, given.Load())
		assert.NotZero(t, idle.Load(), "after a run, in case it has left much")
		b.End()
		b.Check()
	})
}

// TestLargeAnswersGiveBack checks that memory is returned after answers that read the whole session.
func TestLargeAnswersGiveBack(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var given atomic.Int32
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.GiveBack = func(bool) { given.Add(1) }
		})
		s := b.Open()
		b.Say(s, "prompt", "~a~")
		b.Advance(10 * time.Second)
		for _, command := range []string{"get_fork_messages", "export_html", "get_messages"} {
			given.Store(0)
			b.Advance(10 * time.Second)
			require.Zero(t, given.Load(), "idle")
			require.True(t, b.Call(t, `{"type":"`+command+`"`+harness.At(s)+`}`).Get("success").Bool())
			b.Advance(10 * time.Second)
			assert.EqualValues(t, 1, given.Load(), command)
		}
		require.True(t, b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("success").Bool())
		b.Advance(10 * time.Second)
		assert.EqualValues(t, 1, given.Load(), "get_state is small")
		b.End()
		b.Check()
	})
}

// TestParkedKeepsItsFile checks that a parked session keeps the lock of its file, and that its file
// is not opened again to answer a command. Lines that a program without the lock has appended are
// read.
func TestParkedKeepsItsFile(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.ParkSoon)
		s, path := b.OpenParked()
		assert.Equal(t, "session_in_use", harness.Code(b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))))
		b.Disk.Fail("append * always EMFILE")
		assert.EqualValues(t, 2, b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.messageCount").Int())
		b.Disk.Fail("")
		b.Advance(3 * time.Hour)
		b.RequireParked(s)
		lines := strings.Split(strings.TrimSuffix(string(onlyFile(b)), "\n"), "\n")
		last := gjson.Get(lines[len(lines)-1], "id").Str
		more := fmt.Sprintf(`{"type":"message","id":"aaaaaaaa","parentId":%q,"timestamp":"2026-01-01T00:00:00.000Z",`+
			`"message":{"role":"user","content":[{"type":"text","text":"~a~ of another"}],"timestamp":1}}`, last)
		harness.Overwrite(t, b.Disk.Mem(), path, []byte(strings.Join(append(lines, more), "\n")+"\n"))
		there := b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages.2.content.0.text").Str
		assert.Equal(t, "~a~ of another", there)
		b.End()
	})
}

// TestParkedFileGone checks that commands to a parked session fail while its file is missing or has
// other content, and that nothing is written. Once the file is back, the session works.
func TestParkedFileGone(t *testing.T) {
	for name, meddle := range map[string]func(t *testing.T, disk *storetest.Mem, path string) (undo func()){
		"removed": func(t *testing.T, disk *storetest.Mem, path string) func() {
			was := disk.ReadFile(path)
			require.NoError(t, disk.Remove(path))
			return func() { disk.WriteFile(path, was) }
		},
		"moved": func(t *testing.T, disk *storetest.Mem, path string) func() {
			require.NoError(t, disk.Rename(path, path+".bak"))
			return func() { require.NoError(t, disk.Rename(path+".bak", path)) }
		},
		"emptied": func(t *testing.T, disk *storetest.Mem, path string) func() {
			was := disk.ReadFile(path)
			harness.Overwrite(t, disk, path, nil)
			return func() { harness.Overwrite(t, disk, path, was) }
		},
		"another session": func(t *testing.T, disk *storetest.Mem, path string) func() {
			was := disk.ReadFile(path)
			harness.Overwrite(t, disk, path, []byte(`{"type":"session","version":3,"id":"another","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}`+"\n"))
			return func() { harness.Overwrite(t, disk, path, was) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.ParkSoon)
				s, path := b.OpenParked()
				undo := meddle(t, b.Disk.Mem(), path)
				left := b.Disk.Files()
				for range 2 {
					for _, command := range []string{`"prompt","message":"~a~ lost"`, `"get_state"`, `"get_messages"`, `"set_session_name","name":"lost"`} {
						v := b.Call(t, `{"type":`+command+harness.At(s)+`}`)
						assert.Equal(t, "not_durable", harness.Code(v), v.Raw)
					}
					b.RequireParked(s)
				}
				assert.Equal(t, left, b.Disk.Files())
				undo()
				b.RequireWorking(s, "~a~ two")
				assert.Equal(t, int64(4), b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.messageCount").Int())
				b.Check()
			})
		})
	}
}

// TestParkedCannotWake checks that a temporary error when a parked session opens its file fails the
// current commands only.
func TestParkedCannotWake(t *testing.T) {
	for plan, want := range map[string]string{
		"lock": "session_in_use", "append * always EMFILE": "io_error", "read * always EIO": "io_error", "stat * #2 EIO": "io_error",
	} {
		t.Run(plan, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.ParkSoon)
				s, path := b.OpenParked()
				harness.ReplaceFile(t, b.Disk.Mem(), path) // otherwise the file is not opened again
				free := func() { b.Disk.Fail("") }
				if plan == "lock" {
					other, err := b.Disk.FS().OpenAppend(path)
					require.NoError(t, err)
					require.NoError(t, other.Lock())
					free = func() { require.NoError(t, other.Close()) }
				} else {
					b.Disk.Fail(plan)
				}
				state, prompt := b.Send(`{"type":"get_state"`+harness.At(s)+`}`), b.Say(s, "prompt", "~a~ refused")
				b.Advance(time.Second)
				assert.Equal(t, want, harness.Code(b.Answer(t, state)))
				if plan != "stat * #2 EIO" {
					assert.Equal(t, want, harness.Code(b.Answer(t, prompt)))
					b.RequireParked(s)
				}
				free()
				b.RequireWorking(s, "~a~ two")
				b.Check()
			})
		})
	}
}

// TestParkedWithoutItsFile checks that the file of a session that is parked and could not be opened
// again is in use for other sessions, until the session is closed.
func TestParkedWithoutItsFile(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.ParkSoon)
		s, path := b.OpenParked()
		harness.ReplaceFile(t, b.Disk.Mem(), path)
		b.Disk.Fail("append * always EMFILE")
		assert.Equal(t, "io_error", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
		b.RequireParked(s)
		b.Disk.Fail("")
		other := b.Open()
		take := fmt.Sprintf(`{"type":"switch_session","sessionPath":%q%s}`, path, harness.At(other))
		assert.Equal(t, "session_in_use", harness.Code(b.Call(t, take)))
		assert.Equal(t, "session_in_use", harness.Code(b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))))
		b.RequireWorking(s, "~a~ two")
		b.Call(t, `{"type":"close_session"`+harness.At(s)+`}`)
		assert.True(t, b.Call(t, take).Get("success").Bool())
		b.End()
	})
}

// TestParkedCloses checks that a session that cannot be resumed from parking can be closed.
func TestParkedCloses(t *testing.T) {
	for _, how := range []string{"close", "end"} {
		t.Run(how, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.ParkSoon)
				s, path := b.OpenParked()
				require.NoError(t, b.Disk.Mem().Remove(path))
				assert.Equal(t, "not_durable", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
				if how == "close" {
					assert.True(t, b.Call(t, `{"type":"close_session","sessionId":"`+s+`"}`).Get("success").Bool())
					assert.Equal(t, "unknown_session", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
				}
				b.End()
				b.Judge(actortest.Options{})
			})
		})
	}
}

// TestCrashWithoutFile checks that a session that crashes during a run and cannot open its file
// again ends the run for its clients, and works again once the file can be opened.
func TestCrashWithoutFile(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 StreamParts 2`))
		s := b.Open()
		b.Say(s, "prompt", "~a~ one pace=100")
		b.Advance(50 * time.Millisecond)
		b.Disk.Fail("append * always EMFILE")
		b.Advance(time.Hour)
		require.Equal(t, 1, b.Crashes(s))
		assert.Len(t, b.Events(s, "agent_settled"), 1)
		assert.Equal(t, "io_error", harness.Code(b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`)))
		b.RequireParked(s)
		b.Disk.Fail("")
		b.Config.Faults.Release()
		b.RequireWorking(s, "~a~ two")
		b.Check()
	})
}

// TestFileChanged checks that a session whose file was overwritten notices it with the next command
// that reads or writes. That command fails, and the session continues with the content of the file.
func TestFileChanged(t *testing.T) {
	for _, first := range []string{`"prompt","message":"~a~ refused"`, `"get_messages"`, `"export_html","outputPath":"/dev/null"`} {
		for name, change := range map[string]func(lines []string) []string{
			"garbage inside": func(lines []string) []string { lines[3] = strings.Repeat("x", len(lines[3])); return lines },
			"shorter":        func(lines []string) []string { return lines[:4] },
			"reordered":      func(lines []string) []string { return append([]string{lines[0], ""}, lines[1:]...) },
		} {
			t.Run(name+first, func(t *testing.T) {
				harness.Bubble(t, func(t *testing.T) {
					b := harness.Start(t)
					s := b.Open()
					b.Run(s, "~a~ one")
					b.Run(s, "~a~ two")
					var path string
					for path = range b.Disk.Files() {
					}
					was := strings.Split(strings.TrimSuffix(string(onlyFile(b)), "\n"), "\n")
					now := []byte(strings.Join(change(was), "\n") + "\n")
					harness.Overwrite(t, b.Disk.Mem(), path, now)
					v := b.Call(t, `{"type":`+first+harness.At(s)+`}`)
					b.Advance(time.Second)
					assert.Contains(t, []string{"not_durable", "io_error"}, harness.Code(v), v.Raw)
					assert.Equal(t, string(now), string(onlyFile(b)))
					there := b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`)
					require.True(t, there.Get("success").Bool(), there.Raw)
					b.RequireWorking(s, "~a~ three")
					more := b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages").Array()
					assert.Len(t, more, len(there.Get("data.messages").Array())+2)
					assert.True(t, strings.HasPrefix(string(onlyFile(b)), string(now)))
					b.End()
				})
			})
		}
	}
}

// TestFileReplaced checks that a session notices that its file was replaced by another one, as sed
// -i and editors do it. The first message is refused, or the active run ends. Then the session
// continues with the content of the new file.
func TestFileReplaced(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t)
				s := b.Open()
				b.Run(s, "~a~ one")
				var path string
				for path = range b.Disk.Files() {
				}
				now := []byte(strings.ReplaceAll(string(onlyFile(b)), "part 0", "other part"))
				if running {
					b.Say(s, "prompt", "~a~ parts=3 pace=1000")
					b.Advance(time.Second)
				}
				f, err := b.Disk.Mem().Create(path + ".new")
				require.NoError(t, err)
				_, err = f.Write(now)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				require.NoError(t, b.Disk.Mem().Rename(path+".new", path))
				b.Advance(time.Minute)
				v := b.Call(t, `{"type":"prompt","message":"~a~ refused"`+harness.At(s)+`}`)
				if !running { // otherwise the write of the run has failed already
					assert.Equal(t, "not_durable", harness.Code(v), v.Raw)
				}
				b.Advance(time.Minute)
				assert.Contains(t, b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("data.messages.1.content.0.text").Str, "other part")
				b.RequireWorking(s, "~a~ three")
				assert.True(t, strings.HasPrefix(string(onlyFile(b)), string(now)))
				b.End()
			})
		})
	}
}
