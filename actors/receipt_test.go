package actors

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/link"
	"troupe/protocol"
	"troupe/tools"
)

// editor stands for a tool that changes a file, and counts.
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

// withEditor gives the daemon such a tool.
func withEditor(name string, files protocol.FileUse, ran *atomic.Int32) func(*Config) {
	return func(c *Config) {
		c.Sessions.Tools = tools.New(editor{name, files, ran})
		c.Sessions.Default.Tools = []string{name}
	}
}

// TestLookFirst: edit and write begin 10 ms after the record that announces them
// was written, and not at all if the run is aborted before.
func TestLookFirst(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, b *bench, ran *atomic.Int32){
		"a quick client": func(t *testing.T, b *bench, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=2 tool=edit calls=2")
			for i := range 4 {
				b.pass(link.LookTime - time.Millisecond)
				require.Len(t, b.Events("", "tool_execution_start"), i+1)
				require.EqualValues(t, i, ran.Load(), "the event is there, the file is as it was")
				b.pass(time.Millisecond)
				require.EqualValues(t, i+1, ran.Load())
			}
		},
		"a client that reads later": func(t *testing.T, b *bench, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit pace=100")
			b.pass(50 * time.Millisecond)
			b.Stop()
			b.pass(2 * time.Second)
			require.Zero(t, ran.Load(), "nobody was told yet")
			b.Go()
			b.pass(link.LookTime - time.Millisecond)
			require.Zero(t, ran.Load())
			b.pass(time.Millisecond)
			require.EqualValues(t, 1, ran.Load())
		},
		"a client that does not read": func(t *testing.T, b *bench, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit pace=100")
			b.pass(50 * time.Millisecond)
			b.Stop()
			b.pass(time.Minute)
			require.EqualValues(t, 1, ran.Load(), "a run does not hang for a look")
			b.Go()
		},
		"abort": func(t *testing.T, b *bench, ran *atomic.Int32) {
			b.Say("", "prompt", "~a~ rounds=1 tool=edit")
			b.pass(link.LookTime / 2)
			began := time.Now()
			id := b.Send(`{"type":"abort"}`)
			b.Settle()
			require.True(t, b.Answer(t, id).Get("success").Bool())
			require.Zero(t, time.Since(began), "at once")
			b.pass(time.Second)
			require.Zero(t, ran.Load())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var ran atomic.Int32
				b := start(t, withEditor("edit", protocol.WritesFile, &ran))
				play(t, b, &ran)
				b.pass(time.Hour)
				b.check()
			})
		})
	}
	immediately := func(t *testing.T, b *bench, ran *atomic.Int32) {
		b.Settle()
		require.EqualValues(t, 1, ran.Load(), "nobody looks")
		b.pass(time.Hour)
		b.check()
	}
	t.Run("a tool that changes no file", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := start(t, withEditor("note", protocol.ReadsFile, &ran))
			b.Say("", "prompt", "~a~ rounds=1 tool=note")
			immediately(t, b, &ran)
		})
	})
	t.Run("a single run", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := start(t, withEditor("write", protocol.WritesFile, &ran), func(c *Config) { c.Sessions.Mode = "print" })
			b.Say("", "prompt", "~a~ rounds=1 tool=write")
			immediately(t, b, &ran)
		})
	})
	t.Run("nobody attached", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := start(t, withEditor("write", protocol.WritesFile, &ran), func(c *Config) { c.Conn.MultiSession = true })
			took := func(detach bool) time.Duration {
				s := b.Call(t, `{"type":"open_session","retain":true}`).Get("data.sessionId").Str
				before := ran.Load()
				b.Say(s, "prompt", "~"+s+"~ rounds=1 tool=write pace=100")
				if b.Settle(); detach {
					b.Call(t, `{"type":"detach","sessionId":"`+s+`"}`)
				}
				began := time.Now()
				for ran.Load() == before {
					b.pass(time.Millisecond)
				}
				return time.Since(began)
			}
			assert.Equal(t, link.LookTime, took(false)-took(true))
			b.pass(time.Hour)
			b.check()
		})
	})
	t.Run("after a dialog", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var ran atomic.Int32
			b := start(t, withEditor("write", protocol.WritesFile, &ran), func(c *Config) { c.Sessions.Confirm = []string{"write"} })
			b.Say("", "prompt", "~a~ rounds=1 tool=write")
			b.pass(time.Second)
			id := b.Events("", "extension_ui_request")[0].Get("id").Str
			b.Line(`{"type":"extension_ui_response","id":"` + id + `","confirmed":true}`)
			b.Settle()
			assert.EqualValues(t, 1, ran.Load(), "they had their look while they were asked")
			b.pass(time.Hour)
			b.end()
		})
	})
}
