package durability

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/link"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
	"troupe/tools"
)

// editor is a tool that counts its runs and declares how it uses files.
type editor struct {
	name  string
	files protocol.FileUse
	ran   *atomic.Int32
}

func (e editor) Info() protocol.ToolInfo {
	return protocol.ToolInfo{Name: e.name, Description: "For tests.", Parameters: json.RawMessage(`{"type":"object"}`), Files: e.files}
}

func (e editor) Run(context.Context, tools.Call) (protocol.ToolResult, error) {
	e.ran.Add(1)
	return protocol.ToolResult{Content: protocol.TextContent("changed")}, nil
}

// withEditor is an option: the daemon has only the tool editor.
func withEditor(name string, files protocol.FileUse, ran *atomic.Int32) func(*actors.Config) {
	return func(c *actors.Config) {
		c.Sessions.Tools = tools.New(editor{name, files, ran})
		c.Sessions.Default.Tools = []string{name}
	}
}

// TestLookFirst checks that edit and write start 10 ms after the event that announces them was
// written to the client, and do not start if the run is aborted before.
func TestLookFirst(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, b *harness.Client, ran *atomic.Int32){
		"a quick client": func(t *testing.T, b *harness.Client, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=2 tool=edit calls=2")
			for i := range 4 {
				b.Advance(link.LookTime - time.Millisecond)
				require.Len(t, b.Events("", "tool_execution_start"), i+1)
				require.EqualValues(t, i, ran.Load(), "the event is there, the file is as it was")
				b.Advance(time.Millisecond)
				require.EqualValues(t, i+1, ran.Load())
			}
		},
		"a client that reads later": func(t *testing.T, b *harness.Client, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit pace=100")
			b.Advance(50 * time.Millisecond)
			b.Stop()
			b.Advance(2 * time.Second)
			require.Zero(t, ran.Load(), "nobody was told yet")
			b.Go()
			b.Advance(link.LookTime - time.Millisecond)
			require.Zero(t, ran.Load())
			b.Advance(time.Millisecond)
			require.EqualValues(t, 1, ran.Load())
		},
		"a client that does not read": func(t *testing.T, b *harness.Client, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit pace=100")
			b.Advance(50 * time.Millisecond)
			b.Stop()
			b.Advance(time.Minute)
			require.EqualValues(t, 1, ran.Load(), "a run does not hang for a look")
			b.Go()
		},
		"abort": func(t *testing.T, b *harness.Client, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit")
			b.Advance(link.LookTime / 2)
			began := time.Now()
			id := b.Send(`{"type":"abort"}`)
			b.Settle()
			require.True(t, b.Answer(t, id).Get("success").Bool())
			require.Zero(t, time.Since(began), "at once")
			b.Advance(time.Second)
			require.Zero(t, ran.Load())
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				var ran atomic.Int32
				b := harness.Start(t, withEditor("edit", protocol.WritesFile, &ran))
				play(t, b, &ran)
				b.Advance(time.Hour)
				b.Check()
			})
		})
	}
	immediately := func(t *testing.T, b *harness.Client, ran *atomic.Int32) {
		b.Settle()
		require.EqualValues(t, 1, ran.Load(), "nobody looks")
		b.Advance(time.Hour)
		b.Check()
	}
	t.Run("a tool that changes no file", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := harness.Start(t, withEditor("note", protocol.ReadsFile, &ran))
			b.Say("", "prompt", "~a~ rounds=1 tool=note")
			immediately(t, b, &ran)
		})
	})
	t.Run("a single run", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := harness.Start(t, withEditor("write", protocol.WritesFile, &ran), func(c *actors.Config) { c.Sessions.Mode = "print" })
			b.Say("", "prompt", "~a~ rounds=1 tool=write")
			immediately(t, b, &ran)
		})
	})
	t.Run("nobody attached", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := harness.Start(t, withEditor("write", protocol.WritesFile, &ran), func(c *actors.Config) { c.Conn.MultiSession = true })
			took := func(detach bool) time.Duration {
				s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
				before := ran.Load()
				b.Say(s, "prompt", "~"+s+"~ rounds=1 tool=write pace=100")
				if b.Settle(); detach {
					b.Call(t, `{"type":"detach","sessionId":"`+s+`"}`)
				}
				began := time.Now()
				for ran.Load() == before {
					b.Advance(time.Millisecond)
				}
				return time.Since(began)
			}
			assert.Equal(t, link.LookTime, took(false)-took(true))
			b.Advance(time.Hour)
			b.Check()
		})
	})
	t.Run("after a dialog", func(t *testing.T) {
		harness.Bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := harness.Start(t, withEditor("write", protocol.WritesFile, &ran), func(c *actors.Config) { c.Sessions.Confirm = []string{"write"} })
			b.Say("", "prompt", "~a~ rounds=1 tool=write")
			b.Advance(time.Second)
			id := b.Events("", "extension_ui_request")[0].Get("id").Str
			b.Line(`{"type":"extension_ui_response","id":"` + id + `","confirmed":true}`)
			b.Settle()
			assert.EqualValues(t, 1, ran.Load(), "they had their look while they were asked")
			b.Advance(time.Hour)
			b.End()
		})
	})
}
