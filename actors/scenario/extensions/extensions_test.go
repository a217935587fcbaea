package extensions

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/extension"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
)

var extensionSeeds = flag.Int("extensions.seeds", 60, "histories of extensions that die")

// TestChaosOfExtensions runs random clients with extensions that listen to everything, answer late
// and die at any moment. It checks that every command is answered once, that every run ends, and
// that no call runs that the extensions did not allow.
func TestChaosOfExtensions(t *testing.T) {
	for seed := range *extensionSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) { playExtensions(t, uint64(seed)) })
		})
	}
}

func playExtensions(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	host := actortest.NewExtensions(seed)
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	b := harness.Start(t, func(c *actors.Config) {
		c.Sessions.ExtensionHost = host
		c.Sessions.Extensions.Sources = []string{found}
		if seed%2 == 0 {
			c.Sessions.ParkAfter = 5 * time.Second
		}
		if seed%3 == 0 {
			harness.SyncWrites(c)
		}
		c.Sessions.Default.Tools = append(actortest.ToolNames[:len(actortest.ToolNames):len(actortest.ToolNames)], "xt")
	})
	var sessions []string
	for range 1 + rng.IntN(2) {
		sessions = append(sessions, b.Open())
	}
	dialogs := 0
	for step := range 5 + rng.IntN(30) {
		s := sessions[rng.IntN(len(sessions))]
		tool := []string{"note", "danger", "xt", "boom"}[rng.IntN(4)]
		switch rng.IntN(14) {
		case 0, 1, 2:
			b.Say(s, "prompt", fmt.Sprintf("~%s~%d rounds=%d tool=%s", s, step, rng.IntN(3), tool))
		case 3:
			b.Say(s, []string{"steer", "follow_up"}[rng.IntN(2)], fmt.Sprintf("~%s~%d", s, step))
		case 4:
			b.Send(`{"type":"abort"` + harness.At(s) + `}`)
		case 5:
			host.Kill()
		case 6:
			b.Say(s, "prompt", fmt.Sprintf("/xc ~%s~%d", s, step))
		case 7:
			b.Send(`{"type":"new_session"` + harness.At(s) + `}`)
		case 8: // any open dialogs
			for range 1 + rng.IntN(3) {
				dialogs++
				b.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":"ext_%d","confirmed":%t%s}`, dialogs, rng.IntN(3) > 0, harness.At(s)))
			}
		case 9:
			b.Send(`{"type":"reload_resources"` + harness.At(s) + `}`)
		case 10:
			b.Advance(time.Minute)
		default:
			b.Advance(time.Duration(rng.IntN(8000)) * time.Millisecond)
		}
	}
	b.Advance(time.Hour)
	for _, s := range sessions {
		for _, ev := range b.Events(s, "tool_execution_end") {
			if !ev.Get("isError").Bool() {
				require.True(t, host.MayRun(ev.Get("toolCallId").Str), "a call ran that the gate has not let pass: %s\n%s", ev.Raw, b.History.Tail(100))
			}
		}
		state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
		require.Equal(t, "idle", state.Get("phase").Str, state.Raw)
		require.Empty(t, waitingFor(state), "nothing is waited for")
	}
	b.End()
	require.True(t, host.Closed, "the host ends with the daemon")
	b.Judge(actortest.Options{Files: b.Disk.Files(), Free: true, Extended: true})
}

// TestCommandsOfACrashedSession checks that clients receive the end of an extension command if the
// session has crashed.
func TestCommandsOfACrashedSession(t *testing.T) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, harness.Faults(`Panic s1 CommandOver 0`), func(c *actors.Config) {
			c.Sessions.ExtensionHost = actortest.NewExtensions(1)
			c.Sessions.Extensions.Sources = []string{found}
		})
		b.Call(t, `{"type":"hello","features":["stateEvents"]}`)
		s := b.Open()
		b.Say(s, "prompt", "/xc ~a~")
		b.Advance(time.Minute)
		require.NotEmpty(t, b.Config.Faults.Hits())
		require.Len(t, b.Events(s, "extension_command_end"), 1)
		b.Check()
	})
}

// TestReloadKeepsTheOrder checks that commands that wait for reload_resources are answered in the
// order in which they were sent, with and without an fsync per answer.
func TestReloadKeepsTheOrder(t *testing.T) {
	for _, name := range []string{"process", "sync"} {
		t.Run(name, func(t *testing.T) {
			found := filepath.Join(t.TempDir(), "x.ts")
			require.NoError(t, os.WriteFile(found, nil, 0o600))
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, func(c *actors.Config) {
					c.Sessions.ExtensionHost = actortest.NewExtensions(1)
					c.Sessions.Extensions.Sources = []string{found}
					c.Sessions.Durability = name
				})
				s := b.Open()
				b.Run(s, "~a~ rounds=0")
				ids := []string{
					b.Send(`{"type":"reload_resources"` + harness.At(s) + `}`), b.Say(s, "follow_up", "~a~ first"), b.Send(`{"type":"new_session"` + harness.At(s) + `}`),
					b.Say(s, "prompt", "~a~ second rounds=0"), b.Say(s, "follow_up", "~a~ third rounds=0"),
				}
				b.Advance(time.Minute)
				var answered []string
				for _, line := range b.Lines() {
					v := gjson.Parse(line)
					if id := v.Get("id").Str; v.Get("type").Str == "response" && slices.Contains(ids, id) {
						answered = append(answered, id)
					}
				}
				require.Equal(t, ids[1:], answered[len(answered)-4:])
				b.End()
			})
		})
	}
}

// TestHeldOnce checks that commands that wait for reload_resources are executed once, with and
// without extensions.
func TestHeldOnce(t *testing.T) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	for name, sources := range map[string][]string{"none": nil, "one": {found}} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, func(c *actors.Config) {
					c.Sessions.ExtensionHost = actortest.NewExtensions(1)
					c.Sessions.Extensions.Sources = sources
				})
				s := b.Open()
				b.Run(s, "~a~ rounds=0")
				for _, cmd := range []string{
					`{"type":"reload_resources"`, `{"type":"bash","command":"~a~b sleep=3000"`, `{"type":"prompt","message":"~a~1 work=500"`,
					`{"type":"new_session"`, `{"type":"prompt","message":"~a~2 rounds=0"`,
				} {
					b.Send(cmd + harness.At(s) + `}`)
				}
				b.Advance(time.Minute)
				count := func(event, path, value string) (n int) {
					for _, ev := range b.Events(s, event) {
						if ev.Get(path).Str == value {
							n++
						}
					}
					return n
				}
				require.Equal(t, 1, count("session_changed", "reason", "new"))
				require.Equal(t, 3, count("message_end", "message.role", "user"))
				ran := 0
				for _, content := range b.Disk.Files() {
					for line := range strings.Lines(string(content)) {
						if gjson.Get(line, "type").Str == "message" && gjson.Get(line, "message.role").Str == "bashExecution" {
							ran++
						}
					}
				}
				require.Equal(t, 1, ran)
				b.End()
				b.Judge(actortest.Options{Files: b.Disk.Files(), Extended: true})
			})
		})
	}
}

func waitingFor(state gjson.Result) []gjson.Result { return state.Get("waitingFor").Array() }

// TestParkedWithExtensions checks that a session with extensions is parked, and that its extensions
// keep running and wake it by their actions. They are restarted only if the session's file was
// replaced.
func TestParkedWithExtensions(t *testing.T) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	harness.Bubble(t, func(t *testing.T) {
		host := actortest.NewExtensions(1)
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.ExtensionHost = host
			c.Sessions.Extensions.Sources = []string{found}
			c.Sessions.ParkAfter = 2 * time.Hour
		})
		s, path := b.OpenParked()
		entries := func() int { return bytes.Count(b.Disk.Mem().ReadFile(path), []byte(`"customType":"n"`)) }
		before := entries()
		host.Act("appendEntry", `{"customType":"n","data":1}`)
		b.Advance(time.Minute)
		require.Equal(t, before+1, entries())
		b.Advance(3 * time.Hour)
		b.RequireParked(s)
		require.Equal(t, 1, host.Opened(), "they were not loaded again")

		harness.ReplaceFile(t, b.Disk.Mem(), path)
		require.True(t, b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("success").Bool())
		b.Advance(time.Minute)
		require.Equal(t, 2, host.Opened())
		b.Advance(3 * time.Hour)
		b.RequireParked(s)
		b.End()
		b.Check()
	})
}

// TestDialogAboutASwitch checks the commands that are sent while an extension asks whether the
// session may be left: queries are answered, an abort stops the run and closes the dialog, and
// other commands wait for the answer and apply to the new session.
func TestDialogAboutASwitch(t *testing.T) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	harness.Bubble(t, func(t *testing.T) {
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.ExtensionHost = actortest.AskingHost{}
			c.Sessions.Extensions.Sources = []string{found}
		})
		s := b.Open()
		b.Say(s, "prompt", "~a~ stall")
		answer := func(id string) (r gjson.Result) {
			for _, line := range b.Lines() {
				if v := gjson.Parse(line); v.Get("type").Str == "response" && v.Get("id").Str == id {
					r = v
				}
			}
			return r
		}
		dialogs := func() []gjson.Result {
			return b.Call(t, `{"type":"get_dialogs"`+harness.At(s)+`}`).Get("data.dialogs").Array()
		}
		actortest.Settle()

		leave := b.Send(`{"type":"new_session"` + harness.At(s) + `}`)
		actortest.Settle()
		state := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
		require.True(t, state.Get("isStreaming").Bool())
		require.True(t, b.Call(t, `{"type":"get_messages"`+harness.At(s)+`}`).Get("success").Bool())
		require.Len(t, dialogs(), 1)
		require.Empty(t, answer(leave).Raw)
		require.True(t, b.Call(t, `{"type":"abort"`+harness.At(s)+`}`).Get("success").Bool())
		require.True(t, answer(leave).Get("data.cancelled").Bool(), answer(leave).Raw)
		require.Len(t, b.Events(s, "agent_settled"), 1)
		require.Empty(t, dialogs())
		same := b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data.sessionFile").Str
		require.Equal(t, state.Get("sessionFile").Str, same)

		leave = b.Send(`{"type":"new_session"` + harness.At(s) + `}`)
		meant := b.Send(`{"type":"set_session_name","name":"n"` + harness.At(s) + `}`)
		actortest.Settle()
		b.Line(`{"type":"extension_ui_response","id":"` + dialogs()[0].Get("id").Str + `","confirmed":true` + harness.At(s) + `}`)
		actortest.Settle()
		require.False(t, answer(leave).Get("data.cancelled").Bool())
		require.True(t, answer(meant).Get("success").Bool())
		state = b.Call(t, `{"type":"get_state"`+harness.At(s)+`}`).Get("data")
		require.Equal(t, "n", state.Get("sessionName").Str)
		require.NotEqual(t, same, state.Get("sessionFile").Str)

		// A dialog request of the session that was left is not shown, even if it arrives only now.
		b.Watch.SendToParent(t, "/extensions/1", extension.UI{Op: 1, Request: protocol.ExtensionUIRequest{Method: "confirm", Title: new("Late?")}})
		actortest.Settle()
		require.Empty(t, dialogs())
		var shown []string
		for _, r := range b.Events(s, "extension_ui_request") {
			shown = append(shown, r.Get("method").Str+" "+r.Get("title").Str+r.Get("message").Str)
		}
		require.Equal(t, []string{"confirm Leave?", "confirm Leave?", `notify {"cancelled":true}`}, shown)
		b.End()
		b.Check()
	})
}

// TestDialogsAgainAndAgain checks that an extension that repeats a dialog in a session without
// clients is slowed down.
func TestDialogsAgainAndAgain(t *testing.T) {
	found := filepath.Join(t.TempDir(), "x.ts")
	require.NoError(t, os.WriteFile(found, nil, 0o600))
	harness.Bubble(t, func(t *testing.T) {
		host := &actortest.StubbornHost{}
		b := harness.Start(t, func(c *actors.Config) {
			c.Sessions.Mode = "print"
			c.Sessions.ExtensionHost = host
			c.Sessions.Extensions.Sources = []string{found}
		})
		b.Open()
		time.Sleep(10 * time.Second)
		require.Greater(t, host.Asked.Load(), uint64(100), "it is answered")
		require.Less(t, host.Asked.Load(), uint64(200), "and not as fast as it asks")
	})
}

// TestSessionStartBeforeAnswers checks that the first command, and each command that needs extensions, waits for
// session_start: as long as that takes, but at most 100 ms.
func TestSessionStartBeforeAnswers(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name         string
		load, handle time.Duration
		dialect      string
		commands     []string
		want         string // what is answered or shown, with the milliseconds and the commands of extensions
	}{
		{"state", 30 * ms, 20 * ms, "", []string{"get_state"}, "notify 50, get_state 50"},
		{"commands", 30 * ms, 20 * ms, "pi1", []string{"get_commands", "get_state"}, "notify 50, get_commands 50 late1, get_state 50"},
		{"s4", 30 * ms, 20 * ms, "s4", []string{"get_state", "get_commands"}, "get_state 0, notify 50, get_commands 50 late1"},
		{"slow loading", 500 * ms, 20 * ms, "", []string{"get_state", "get_commands"}, "get_state 100, notify 520, get_commands 520 late1"},
		{"slow handler", 30 * ms, 500 * ms, "", []string{"get_commands"}, "get_commands 130, notify 530"},
		{"slow handler, state", 30 * ms, 500 * ms, "", []string{"get_state"}, "get_state 100, notify 530"},
		{"another session", 30 * ms, 20 * ms, "", []string{"get_commands", "new_session", "get_state", "get_commands"},
			"notify 50, get_commands 50 late1, new_session 50, get_state 50, notify 100, get_commands 100 late2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := filepath.Join(t.TempDir(), "x.ts")
			require.NoError(t, os.WriteFile(found, nil, 0o600))
			harness.Bubble(t, func(t *testing.T) {
				b := harness.Start(t, func(config *actors.Config) {
					config.Sessions.ExtensionHost = actortest.StartHost{Load: c.load, Handle: c.handle}
					config.Sessions.Extensions.Sources = []string{found}
				})
				if c.dialect != "" {
					b.Call(t, `{"type":"hello","dialect":"`+c.dialect+`"}`)
				}
				session, seen := b.Open(), len(b.Lines())
				for _, name := range c.commands {
					b.Send(`{"type":"` + name + `"` + harness.At(session) + `}`)
				}
				b.Settle()
				var got []string
				for at := range 600 {
					for _, line := range b.Lines()[seen:] {
						seen++
						switch v := gjson.Parse(line); v.Get("type").Str {
						case "response":
							got = append(got, strings.TrimSpace(fmt.Sprint(v.Get("command").Str, " ", at, " ", v.Get("data.commands.0.name").Str)))
						case "extension_ui_request":
							got = append(got, fmt.Sprint(v.Get("method").Str, " ", at))
						}
					}
					b.Advance(time.Millisecond)
				}
				require.Equal(t, c.want, strings.Join(got, ", "))
				b.End()
			})
		})
	}
}
