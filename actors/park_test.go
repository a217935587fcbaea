package actors

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/actortest"
	"troupe/store/storetest"
)

// TestParkingGivesBack: sessions that are opened together give memory back once, sessions
// that fall asleep together do, and the next time again.
func TestParkingGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var given atomic.Int32
		b := start(t, func(c *Config) {
			c.Sessions.ParkAfter = time.Minute
			c.Sessions.GiveBack = func() { given.Add(1) }
		})
		b.pass(2 * time.Second)
		require.Zero(t, given.Load(), "one session that is there from the start")
		sessions := []string{b.open(), b.open(), b.open()}
		b.pass(2 * time.Second)
		require.EqualValues(t, 1, given.Swap(0))
		sleep := func(round string) {
			for _, s := range sessions {
				b.Say(s, "prompt", "~"+s+round+"~")
				b.pass(time.Second / 3)
			}
			before := given.Load()
			b.pass(50 * time.Second)
			assert.Equal(t, before, given.Load(), "nobody sleeps")
			b.pass(time.Minute)
			require.Contains(t, b.Call(t, `{"type":"list_open_sessions"}`).Raw, `"parked"`)
		}
		sleep("a")
		assert.EqualValues(t, 1, given.Load())
		sleep("b")
		assert.EqualValues(t, 2, given.Load())
		b.end()
		b.check()
	})
}

// asleep opens a session, lets it say something and parks it.
func (b *bench) asleep() (session, path string) {
	b.t.Helper()
	session = b.open()
	b.run(session, "~a~ one")
	b.pass(3 * time.Hour)
	b.parked(session)
	for path = range b.disk.Files() {
	}
	return session, path
}

func (b *bench) parked(session string) {
	b.t.Helper()
	v := b.Call(b.t, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + session + `").status`)
	require.Equal(b.t, "parked", v.Str)
}

func parkSoon(c *Config) { c.Sessions.ParkAfter = 2 * time.Hour }

// overwrite replaces a file's content in its place.
func overwrite(t *testing.T, disk *storetest.Mem, path string, content []byte) {
	t.Helper()
	f, err := disk.OpenAppend(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// replaceFile puts a file with the same content in the place of one, as an editor
// does.
func replaceFile(t *testing.T, disk *storetest.Mem, path string) {
	t.Helper()
	content := disk.ReadFile(path)
	require.NoError(t, disk.Remove(path))
	disk.WriteFile(path, content)
}

// TestParkedKeepsItsFile: nobody else can have the file of a parked session, it is
// not opened again for a command, and what another program, that asks for no lock,
// has written to it meanwhile is there afterwards.
func TestParkedKeepsItsFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, parkSoon)
		s, path := b.asleep()
		assert.Equal(t, "session_in_use", code(b.Call(t, fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))))
		b.disk.Fail("append * always EMFILE")
		assert.EqualValues(t, 2, b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.messageCount").Int())
		b.disk.Fail("")
		b.pass(3 * time.Hour)
		b.parked(s)
		lines := strings.Split(strings.TrimSuffix(string(b.onlyFile()), "\n"), "\n")
		last := gjson.Get(lines[len(lines)-1], "id").Str
		more := fmt.Sprintf(`{"type":"message","id":"aaaaaaaa","parentId":%q,"timestamp":"2026-01-01T00:00:00.000Z",`+
			`"message":{"role":"user","content":[{"type":"text","text":"~a~ of another"}],"timestamp":1}}`, last)
		overwrite(t, b.disk.Mem(), path, []byte(strings.Join(append(lines, more), "\n")+"\n"))
		there := b.Call(t, `{"type":"get_messages"`+at(s)+`}`).Get("data.messages.2.content.0.text").Str
		assert.Equal(t, "~a~ of another", there)
		b.end()
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
			overwrite(t, disk, path, nil)
			return func() { overwrite(t, disk, path, was) }
		},
		"another session": func(t *testing.T, disk *storetest.Mem, path string) func() {
			was := disk.ReadFile(path)
			overwrite(t, disk, path, []byte(`{"type":"session","version":3,"id":"another","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}`+"\n"))
			return func() { overwrite(t, disk, path, was) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, parkSoon)
				s, path := b.asleep()
				undo := meddle(t, b.disk.Mem(), path)
				left := b.disk.Files()
				for range 2 {
					for _, command := range []string{`"prompt","message":"~a~ lost"`, `"get_state"`, `"get_messages"`, `"set_session_name","name":"lost"`} {
						v := b.Call(t, `{"type":`+command+at(s)+`}`)
						assert.Equal(t, "not_durable", code(v), v.Raw)
					}
					b.parked(s)
				}
				assert.Equal(t, left, b.disk.Files())
				undo()
				b.heal(s, "~a~ two")
				assert.Equal(t, int64(4), b.Call(t, `{"type":"get_state"`+at(s)+`}`).Get("data.messageCount").Int())
				b.check()
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
			bubble(t, func(t *testing.T) {
				b := start(t, parkSoon)
				s, path := b.asleep()
				replaceFile(t, b.disk.Mem(), path) // else nobody looks
				free := func() { b.disk.Fail("") }
				if plan == "lock" {
					other, err := b.disk.FS().OpenAppend(path)
					require.NoError(t, err)
					require.NoError(t, other.Lock())
					free = func() { require.NoError(t, other.Close()) }
				} else {
					b.disk.Fail(plan)
				}
				state, prompt := b.Send(`{"type":"get_state"`+at(s)+`}`), b.Say(s, "prompt", "~a~ refused")
				b.pass(time.Second)
				assert.Equal(t, want, code(b.Answer(t, state)))
				if plan != "stat * #2 EIO" {
					assert.Equal(t, want, code(b.Answer(t, prompt)))
					b.parked(s)
				}
				free()
				b.heal(s, "~a~ two")
				b.check()
			})
		})
	}
}

// TestParkedCloses: a session that cannot be woken up can be closed.
func TestParkedCloses(t *testing.T) {
	for _, how := range []string{"close", "end"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := start(t, parkSoon)
				s, path := b.asleep()
				require.NoError(t, b.disk.Mem().Remove(path))
				assert.Equal(t, "not_durable", code(b.Call(t, `{"type":"get_state"`+at(s)+`}`)))
				if how == "close" {
					assert.True(t, b.Call(t, `{"type":"close_session","sessionId":"`+s+`"}`).Get("success").Bool())
					assert.Equal(t, "unknown_session", code(b.Call(t, `{"type":"get_state"`+at(s)+`}`)))
				}
				b.end()
				b.judge(actortest.Options{})
			})
		})
	}
}

// TestCrashWithoutFile: a session that crashes during a run and cannot open its
// file again ends the run for its clients, and goes on when it can.
func TestCrashWithoutFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, faults(`Panic s1 StreamParts 2`))
		s := b.open()
		b.Say(s, "prompt", "~a~ one pace=100")
		b.pass(50 * time.Millisecond)
		b.disk.Fail("append * always EMFILE")
		b.pass(time.Hour)
		require.Equal(t, 1, b.crashes(s))
		assert.Len(t, b.Events(s, "agent_settled"), 1)
		assert.Equal(t, "io_error", code(b.Call(t, `{"type":"get_state"`+at(s)+`}`)))
		b.parked(s)
		b.disk.Fail("")
		b.cfg.Faults.Release()
		b.heal(s, "~a~ two")
		b.check()
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
				bubble(t, func(t *testing.T) {
					b := start(t)
					s := b.open()
					b.run(s, "~a~ one")
					b.run(s, "~a~ two")
					var path string
					for path = range b.disk.Files() {
					}
					was := strings.Split(strings.TrimSuffix(string(b.onlyFile()), "\n"), "\n")
					now := []byte(strings.Join(change(was), "\n") + "\n")
					overwrite(t, b.disk.Mem(), path, now)
					v := b.Call(t, `{"type":`+first+at(s)+`}`)
					b.pass(time.Second)
					assert.Contains(t, []string{"not_durable", "io_error"}, code(v), v.Raw)
					assert.Equal(t, string(now), string(b.onlyFile()))
					there := b.Call(t, `{"type":"get_messages"`+at(s)+`}`)
					require.True(t, there.Get("success").Bool(), there.Raw)
					b.heal(s, "~a~ three")
					more := b.Call(t, `{"type":"get_messages"`+at(s)+`}`).Get("data.messages").Array()
					assert.Len(t, more, len(there.Get("data.messages").Array())+2)
					assert.True(t, strings.HasPrefix(string(b.onlyFile()), string(now)))
					b.end()
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
			bubble(t, func(t *testing.T) {
				b := start(t)
				s := b.open()
				b.run(s, "~a~ one")
				var path string
				for path = range b.disk.Files() {
				}
				now := []byte(strings.ReplaceAll(string(b.onlyFile()), "part 0", "other part"))
				if running {
					b.Say(s, "prompt", "~a~ parts=3 pace=1000")
					b.pass(time.Second)
				}
				f, err := b.disk.Mem().Create(path + ".new")
				require.NoError(t, err)
				_, err = f.Write(now)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				require.NoError(t, b.disk.Mem().Rename(path+".new", path))
				b.pass(time.Minute)
				v := b.Call(t, `{"type":"prompt","message":"~a~ refused"`+at(s)+`}`)
				if !running { // else the run was
					assert.Equal(t, "not_durable", code(v), v.Raw)
				}
				b.pass(time.Minute)
				assert.Contains(t, b.Call(t, `{"type":"get_messages"`+at(s)+`}`).Get("data.messages.1.content.0.text").Str, "other part")
				b.heal(s, "~a~ three")
				assert.True(t, strings.HasPrefix(string(b.onlyFile()), string(now)))
				b.end()
			})
		})
	}
}
