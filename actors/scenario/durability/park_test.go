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

// TestParkingGivesBack: sessions that are opened together give memory back once, sessions
// that fall asleep together do, and the next time again.
func TestParkingGivesBack(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var given atomic.Int32
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.ParkAfter = time.Minute
			c.Sessions.GiveBack = func() { given.Add(1) }
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
		b.End()
		b.Check()
	})
}

// TestParkedKeepsItsFile: nobody else can have the file of a parked session, it is
// not opened again for a command, and what another program, that asks for no lock,
// has written to it meanwhile is there afterwards.
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

// TestParkedFileGone: a session that is parked does not wake up as another one.
// While its file is gone, whatever it is told fails and nothing is written; when
// the file is back, so is the session.
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

// TestParkedCannotWake: what keeps a parked session from its file for a while
// costs the commands of that while, not the session.
func TestParkedCannotWake(t *testing.T) {
	for plan, want := range map[string]string{
		"lock": "session_in_use", "append * always EMFILE": "io_error", "read * always EIO": "io_error", "stat * #2 EIO": "io_error",
	} {
		t.Run(plan, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, harness.ParkSoon)
				s, path := b.OpenParked()
				harness.ReplaceFile(t, b.Disk.Mem(), path) // else nobody looks
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

// TestParkedCloses: a session that cannot be woken up can be closed.
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

// TestCrashWithoutFile: a session that crashes during a run and cannot open its
// file again ends the run for its clients, and goes on when it can.
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

// TestFileChanged: a session whose file was written over hears of it with the
// next thing that is written or read, and then goes on with what the file says,
// as if it had been opened again.
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

// TestFileReplaced: another file has taken the place of the session's, as sed -i
// and editors do it. The first message is refused, and from then on the session
// is what the new file says; so it is if a run was under way.
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
				if !running { // else the run was
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
