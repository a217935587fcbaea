package wire

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/protocol"
)

// control lists the commands that must be answered immediately, whatever is running.
// TestControlWhole checks that the list is complete.
var control = []string{
	`{"type":"get_state"}`, `{"type":"get_messages"}`, `{"type":"get_available_models"}`, `{"type":"get_available_thinking_levels"}`,
	`{"type":"get_fork_messages"}`, `{"type":"get_branch_messages"}`, `{"type":"get_session_tree"}`, `{"type":"get_tree"}`,
	`{"type":"get_entries"}`, `{"type":"get_image","entryId":"ENTRY"}`, `{"type":"get_session_stats"}`, `{"type":"get_last_assistant_text"}`, `{"type":"get_context_usage"}`,
	`{"type":"get_tools"}`, `{"type":"get_commands"}`, `{"type":"get_protocol_info"}`, `{"type":"ping"}`, `{"type":"get_budget"}`, `{"type":"get_dialogs"}`, `{"type":"get_permissions"}`,
	`{"type":"get_subagents"}`, `{"type":"get_subagent_messages","subagentId":"A"}`, `{"type":"set_subagent_subscription","level":"events"}`,
	`{"type":"get_auth"}`, `{"type":"get_login_providers"}`,
	`{"type":"set_model","provider":"mock","modelId":"mock-1"}`, `{"type":"set_thinking_level","level":"off"}`,
	`{"type":"set_steering_mode","mode":"all"}`, `{"type":"set_follow_up_mode","mode":"all"}`, `{"type":"set_queue_mode","mode":"all"}`,
	`{"type":"set_interrupt_mode","mode":"wait"}`, `{"type":"set_auto_compaction","enabled":true}`, `{"type":"set_auto_retry","enabled":true}`,
	`{"type":"set_permission_mode","mode":"auto"}`, `{"type":"set_budget","limits":{"maxToolCalls":1000}}`,
	`{"type":"set_session_name","name":"busy"}`, `{"type":"set_entry_label","targetId":"ENTRY","label":"here"}`,
	`{"type":"set_active_tools","toolNames":["bash"]}`, `{"type":"set_todos","phases":[]}`, `{"type":"set_host_tools","tools":[]}`,
	`{"type":"list_sessions"}`, `{"type":"list_sessions","scope":"all"}`, `{"type":"list_open_sessions"}`, `{"type":"list_directories"}`,
	`{"type":"cycle_model"}`, `{"type":"cycle_thinking_level"}`, `{"type":"hello"}`,
	`{"type":"queue_message","message":"later"}`, `{"type":"clear_queue"}`, `{"type":"abort_retry"}`,
}

// alone lists the commands that a daemon without a cluster rejects immediately.
var alone = []string{`{"type":"get_cluster"}`}

// stops lists the commands that abort running work.
var stops = []string{`{"type":"abort_bash"}`, `{"type":"abort"}`, `{"type":"abort_and_prompt","message":"now this"}`}

// TestControlWhole checks that TestBusy sends every command that reads, sets, lists or aborts.
func TestControlWhole(t *testing.T) {
	var asked []string
	for _, c := range slices.Concat(control, alone, stops) {
		asked = append(asked, gjson.Get(c, "type").Str)
	}
	for _, c := range protocol.Commands {
		for _, prefix := range []string{"get_", "set_", "list_", "abort"} {
			if strings.HasPrefix(c.Name, prefix) {
				assert.Contains(t, asked, c.Name)
			}
		}
	}
}

// A state is work that runs until its gate opens. enter starts it and returns once it runs. leave
// opens the gate and waits for the end.
type state struct {
	name  string
	enter func(d *harness.Daemon)
	leave func(d *harness.Daemon)
	stops []string
}

var states = []state{
	{
		"prompt",
		func(d *harness.Daemon) {
			d.Place.Model.Enqueue(harness.Text("a").Then(harness.Gate("prompt")))
			n := d.Place.Model.RequestCount()
			d.OK(`{"type":"prompt","message":"go"}`)
			d.Place.Model.Request(n)
		},
		func(d *harness.Daemon) { d.Place.Model.OpenGate("prompt"); d.Event("agent_settled") },
		stops,
	},
	{
		"tool",
		func(d *harness.Daemon) {
			d.Place.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"read x < fifo"}`), harness.Text("done"))
			d.OK(`{"type":"prompt","message":"go"}`)
			d.Event("tool_execution_start")
		},
		func(d *harness.Daemon) { writeTo(d, "fifo"); d.Event("agent_settled") },
		stops,
	},
	{
		"bash",
		func(d *harness.Daemon) { d.Send(`{"id":"bash","type":"bash","command":"read x < fifo"}`) },
		func(d *harness.Daemon) { writeTo(d, "fifo"); d.Response("bash") },
		stops,
	},
	{
		"retry wait",
		func(d *harness.Daemon) {
			d.Place.Model.Enqueue(harness.WithHeader("X-Should-Retry", "false", harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)))
			d.OK(`{"type":"prompt","message":"go"}`)
			d.Event("auto_retry_start")
		},
		func(d *harness.Daemon) { d.OK(`{"type":"abort"}`) },
		append([]string{`{"type":"abort_retry"}`}, stops...),
	},
	{
		"repeat wait",
		func(d *harness.Daemon) {
			d.Place.Model.Enqueue(harness.WithHeader("Retry-After", "50", harness.Fail(429, `{"error":{"message":"slow down"}}`)))
			n := d.Place.Model.RequestCount()
			d.OK(`{"type":"prompt","message":"go"}`)
			d.Place.Model.Request(n)
		},
		func(d *harness.Daemon) { d.OK(`{"type":"abort"}`) },
		stops,
	},
	{
		"compaction",
		func(d *harness.Daemon) {
			d.Place.Model.Enqueue(harness.Text("more"))
			d.Prompt("more " + harness.LongPrompt) // there must be something new to compact
			d.Place.Model.Enqueue(harness.Gate("compaction").Then(harness.Text("summary")))
			n := d.Place.Model.RequestCount()
			d.Send(`{"id":"compact","type":"compact"}`)
			d.Place.Model.Request(n)
		},
		func(d *harness.Daemon) { d.Place.Model.OpenGate("compaction"); d.Response("compact") },
		stops,
	},
}

// TestBusy checks that control commands are answered during long work. The work waits for a gate,
// so the test does not depend on timing.
func TestBusy(t *testing.T) {
	for _, s := range states {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d := busyDaemon(t)
			entry := d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
			s.enter(d)
			for _, c := range control {
				if s.name == "retry wait" && strings.Contains(c, "abort_retry") {
					continue
				}
				d.OK(strings.Replace(c, "ENTRY", entry, 1))
			}
			for _, c := range alone {
				assert.Equal(t, "unsupported", d.Call(c).Get("code").Str)
			}
			s.leave(d)
			for _, stop := range s.stops {
				d.Place.Model.OpenGates() // forgets the gates, so that they are closed again
				s.enter(d)
				d.Place.Model.Enqueue(harness.Text("after the stop"))
				from := d.Count()
				d.OK(stop)
				if strings.Contains(stop, "prompt") {
					d.Wait(from, "the end of the new run", func(v gjson.Result) bool { return v.Get("outcome").Str == "completed" })
				}
				s.end(d)
			}
		})
	}
}

// TestBusySummary checks the time in which navigate_tree waits for a branch summary. Commands that
// do not depend on the branch are answered. Messages are queued and start a run at the new
// position.
func TestBusySummary(t *testing.T) {
	d := busyDaemon(t)
	entry := d.OK(`{"type":"get_fork_messages"}`).Get("messages.0.entryId").Str
	d.Place.Model.Enqueue(harness.Gate("summary").Then(harness.Text("summary")))
	n := d.Place.Model.RequestCount()
	d.Send(`{"id":"go","type":"navigate_tree","targetId":"` + entry + `","summarize":true}`)
	d.Place.Model.Request(n)
	for _, c := range control {
		if strings.Contains(c, `"get_`) || strings.Contains(c, `"list_`) {
			d.OK(strings.Replace(c, "ENTRY", entry, 1))
		}
	}
	d.OK(`{"type":"set_steering_mode","mode":"all"}`)
	assert.Equal(t, "queued", d.OK(`{"type":"prompt","message":"in the new place"}`).Get("disposition").Str)
	assert.True(t, d.OK(`{"type":"get_state"}`).Get("isCompacting").Bool())
	d.Place.Model.Enqueue(harness.Text("here"))
	d.Place.Model.OpenGate("summary")
	assert.True(t, d.Response("go").Get("success").Bool())
	d.Event("agent_settled")
	messages := d.OK(`{"type":"get_messages"}`).Get("messages.#.role").Raw
	assert.Equal(t, `["branchSummary","user","assistant"]`, messages)

	// Replacing the session cancels the summary.
	d.Place.Model.Enqueue(harness.Gate("never").Then(harness.Text("summary")))
	n = d.Place.Model.RequestCount()
	d.Send(`{"id":"again","type":"navigate_tree","targetId":"` + entry + `","summarize":true}`)
	d.Place.Model.Request(n)
	d.Send(`{"id":"new","type":"new_session"}`)
	assert.True(t, d.Response("again").Get("data.cancelled").Bool())
	assert.True(t, d.Response("new").Get("success").Bool())
}

// end ends work that a stop may have left running.
func (s state) end(d *harness.Daemon) {
	d.OK(`{"type":"abort_bash"}`)
	d.OK(`{"type":"abort"}`)
	d.Place.Model.Clear()
	if s.name == "bash" {
		d.Response("bash")
	}
}

// busyDaemon returns a daemon after two turns, so that there is something to compact, and makes a
// FIFO that a command can wait for.
func busyDaemon(t *testing.T) *harness.Daemon {
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"reserveTokens":1000,"keepRecentTokens":50},"retry":{"baseDelayMs":50000}}`)
	require.NoError(t, syscall.Mkfifo(filepath.Join(p.Work, "fifo"), 0o600))
	p.Model.EnqueueFor("CHILDA", harness.Text("done"))
	p.Model.Enqueue(harness.ToolCall("t", "task", `{"agent":"task","tasks":[{"id":"A","description":"a","assignment":"CHILDA"}]}`), harness.Text("one"), harness.Text("two"))
	d := p.Start("--tools", "read,bash,edit,write,task")
	d.OK(`{"type":"prompt","message":"one","images":[{"type":"image","mimeType":"image/png","data":"` + harness.Pixel + `"}]}`)
	d.Event("agent_settled")
	d.Prompt("two " + harness.LongPrompt)
	return d
}

func writeTo(d *harness.Daemon, name string) {
	require.NoError(d.T, os.WriteFile(filepath.Join(d.Place.Work, name), []byte("\n"), 0o600))
}
