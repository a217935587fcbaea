package compat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// TestSeedClients checks a client written from the text of each seed. It runs the same scenario
// without negotiation and in the dialect of its seed. The clients differ in how they read records
// and in their own commands.
func TestSeedClients(t *testing.T) {
	for _, seed := range []struct {
		name string
		new  func(*wireEnd) seedClient
	}{
		{"s0", func(w *wireEnd) seedClient {
			return &sampleClient{w: w, interjects: "steer", points: "get_fork_messages", forks: "fork"}
		}},
		{"s1", func(w *wireEnd) seedClient { return &piscesClient{helperClient{w: w, branch: "branch"}} }},
		{"s2", func(w *wireEnd) seedClient {
			c := &webClient{helperClient: helperClient{w: w, branch: "fork"}}
			c.also = c.heard
			return c
		}},
		{"s3", func(w *wireEnd) seedClient {
			return &sampleClient{w: w, interjects: "queue_message", points: "get_branch_messages", forks: "branch"}
		}},
		{"s4", func(w *wireEnd) seedClient { return &rustClient{helperClient{w: w, branch: "fork"}} }},
	} {
		for _, args := range [][]string{nil, {"--dialect", seed.name}} {
			t.Run(strings.Join(append([]string{seed.name}, args...), " "), func(t *testing.T) {
				t.Parallel()
				p := harness.NewPlace(t)
				p.WriteFile("greet.txt", "hi")
				p.WriteFile(".pi/prompts/build.md", "Build it")
				w := &wireEnd{t: t, d: p.Start(args...)}
				scenario(w, seed.new(w))
				require.Zero(t, w.d.Close())
			})
		}
	}
}

// seedClient is the interface of all these clients.
type seedClient interface {
	// ask sends a prompt and reads until the end of the run, as the seed defines it. It returns the
	// text of the answer. during, if not nil, is called once after the first text.
	ask(prompt string, during func()) string
	interject(text string) // sends a message while the model answers
	command(command string) gjson.Result
	forkPoints() []gjson.Result
	fork(entry string) string
	own() // commands that only this seed has
}

func scenario(w *wireEnd, c seedClient) {
	t, llm := w.t, w.d.Place.Model

	llm.Enqueue(harness.ToolCall("c1", "read", `{"path":"greet.txt"}`), harness.Text("It says ", "hi."))
	assert.Equal(t, "It says hi.", c.ask("what is in greet.txt?", nil), "prompt with a tool")

	llm.Enqueue(harness.Text("One").Then(harness.Gate("interjected")), harness.Text(" two"))
	assert.Equal(t, "One two", c.ask("count", func() {
		c.interject("and on")
		llm.OpenGate("interjected")
	}), "steer or queue")

	llm.Enqueue(harness.Text("I shall never").Then(harness.Gate("never")))
	assert.Equal(t, "I shall never", c.ask("talk", func() { c.command(`{"type":"abort"}`) }), "abort")

	assert.Equal(t, "out\n", c.command(`{"type":"bash","command":"echo out"}`).Get("output").Str)

	var models []string
	for _, m := range c.command(`{"type":"get_available_models"}`).Get("models").Array() {
		models = append(models, m.Get("id").Str)
	}
	assert.Subset(t, models, []string{"mock-1", "think"})
	assert.Equal(t, "think", c.command(`{"type":"set_model","provider":"mock","modelId":"think"}`).Get("id").Str)
	c.command(`{"type":"set_thinking_level","level":"high"}`)
	assert.Equal(t, "high", c.command(`{"type":"get_state"}`).Get("thinkingLevel").Str)
	assert.Equal(t, "off", c.command(`{"type":"cycle_thinking_level"}`).Get("level").Str)
	assert.Equal(t, "think2", c.command(`{"type":"cycle_model"}`).Get("model.id").Str)

	stats := c.command(`{"type":"get_session_stats"}`)
	assert.EqualValues(t, 4, stats.Get("userMessages").Int())
	assert.EqualValues(t, 1, stats.Get("toolResults").Int())
	assert.Equal(t, "I shall never", c.command(`{"type":"get_last_assistant_text"}`).Get("text").Str)
	first := c.command(`{"type":"get_state"}`)
	before := c.command(`{"type":"get_messages"}`).Get("messages").Raw

	assert.False(t, c.command(`{"type":"new_session"}`).Get("cancelled").Bool())
	assert.Equal(t, "[]", c.command(`{"type":"get_messages"}`).Get("messages").Raw)
	llm.Enqueue(harness.Text("afresh"))
	assert.Equal(t, "afresh", c.ask("begin", nil))
	points := c.forkPoints()
	require.Len(t, points, 1)
	assert.Equal(t, "begin", points[0].Get("text").Str)
	assert.Equal(t, "begin", c.fork(points[0].Get("entryId").Str))
	assert.Equal(t, "[]", c.command(`{"type":"get_messages"}`).Get("messages").Raw)

	path, _ := json.Marshal(first.Get("sessionFile").Str)
	c.command(`{"type":"switch_session","sessionPath":` + string(path) + `}`)
	assert.Equal(t, first.Get("sessionId").Str, c.command(`{"type":"get_state"}`).Get("sessionId").Str)
	assert.Equal(t, before, c.command(`{"type":"get_messages"}`).Get("messages").Raw)

	c.own()
}

// wireEnd is the client's end of the pipes.
type wireEnd struct {
	t  *testing.T
	d  *harness.Daemon
	at int
}

// next waits for the next record.
func (w *wireEnd) next() gjson.Result {
	w.t.Helper()
	v, at := w.d.Wait(w.at, "another record", func(gjson.Result) bool { return true })
	w.at = at
	return v
}

// sampleClient reads as the Python sample of S0 and S3 does: it uses no ids and one loop over the
// lines, and a prompt ends with agent_end.
type sampleClient struct {
	w                         *wireEnd
	interjects, points, forks string
	text                      string
	ended                     bool // agent_end was seen
}

func (c *sampleClient) event() gjson.Result {
	e := c.w.next()
	switch e.Get("type").Str {
	case "message_update":
		if d := e.Get("assistantMessageEvent"); d.Get("type").Str == "text_delta" {
			c.text += d.Get("delta").Str
		}
	case "agent_end":
		c.ended = true
	}
	return e
}

func (c *sampleClient) ask(prompt string, during func()) string {
	raw, _ := json.Marshal(prompt)
	c.text, c.ended = "", false
	c.w.d.Send(`{"type": "prompt", "message": ` + string(raw) + `}`)
	for !c.ended {
		c.event()
		if c.text != "" && during != nil {
			during()
			during = nil
		}
	}
	return c.text
}

// command sends a command and reads records until its response.
func (c *sampleClient) command(command string) gjson.Result {
	c.w.t.Helper()
	c.w.d.Send(command)
	for {
		e := c.event()
		if e.Get("type").Str == "response" && e.Get("command").Str == gjson.Get(command, "type").Str {
			require.True(c.w.t, e.Get("success").Bool(), "%s: %s", command, e.Raw)
			require.False(c.w.t, e.Get("id").Exists(), e.Raw)
			return e.Get("data")
		}
	}
}

func (c *sampleClient) interject(text string) {
	raw, _ := json.Marshal(text)
	c.command(`{"type": "` + c.interjects + `", "message": ` + string(raw) + `}`)
}

func (c *sampleClient) forkPoints() []gjson.Result {
	return c.command(`{"type": "` + c.points + `"}`).Get("messages").Array()
}

func (c *sampleClient) fork(entry string) string {
	return c.command(`{"type": "` + c.forks + `", "entryId": "` + entry + `"}`).Get("text").Str
}

// own checks the queue modes under the names of the two seeds.
func (c *sampleClient) own() {
	if c.interjects == "queue_message" {
		c.command(`{ "type": "set_queue_mode", "mode": "all" }`)
		assert.Equal(c.w.t, "all", c.command(`{ "type": "get_state" }`).Get("queueMode").Str)
		c.command(`{ "type": "queue_message", "message": "Additional context" }`)
		assert.EqualValues(c.w.t, 1, c.command(`{ "type": "get_state" }`).Get("queuedMessageCount").Int())
		c.w.d.Place.Model.Enqueue(harness.Text("with it"))
		assert.Equal(c.w.t, "with it", c.ask("Hello!", nil))
		return
	}
	c.command(`{"type": "set_steering_mode", "mode": "all"}`)
	c.command(`{"type": "set_follow_up_mode", "mode": "all"}`)
	st := c.command(`{"type": "get_state"}`)
	assert.Equal(c.w.t, "all all", st.Get("steeringMode").Str+" "+st.Get("followUpMode").Str)
	assert.EqualValues(c.w.t, 0, st.Get("pendingMessageCount").Int())
	// A transient overload must not end the run: this client takes the first agent_end for the end.
	c.w.d.Place.Model.Enqueue(harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), harness.Text("at last"))
	assert.Equal(c.w.t, "at last", c.ask("Hello!", nil))
	// A lasting error is retried by the session.
	c.w.d.Place.Model.Enqueue(harness.WithHeader("X-Should-Retry", "false", harness.Fail(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)), harness.Text("at once"))
	assert.Empty(c.w.t, c.ask("Hello!", nil))
	assert.Equal(c.w.t, "at once", c.ask("Hello again!", nil))
}

// helperClient reads as the RpcClient of S1 does. Its ids are req_1, req_2 and so on, a response
// belongs to the request with its id, and unknown events are ignored.
type helperClient struct {
	w      *wireEnd
	branch string
	also   func(gjson.Result) // sees every event
	ids    int
	text   string
	ended  bool
	events []string
}

var agentEvents = strings.Fields("agent_start agent_end turn_start turn_end message_start message_update message_end " +
	"tool_execution_start tool_execution_update tool_execution_end auto_compaction_start auto_compaction_end auto_retry_start auto_retry_end")

// until reads records until the response with this id or, with "", until the end of the run.
func (c *helperClient) until(id string) gjson.Result {
	c.w.t.Helper()
	for {
		e := c.w.next()
		if e.Get("type").Str == "response" {
			require.Equal(c.w.t, id, e.Get("id").Str, "a response that nobody waits for: %s", e.Raw)
			return e
		}
		if c.also != nil {
			c.also(e)
		}
		kind := e.Get("type").Str
		if !slices.Contains(agentEvents, kind) {
			continue
		}
		c.events = append(c.events, kind)
		if d := e.Get("assistantMessageEvent"); d.Get("type").Str == "text_delta" {
			c.text += d.Get("delta").Str
		}
		if c.ended = kind == "agent_end"; c.ended && id == "" || c.text != "" && id == "text" {
			return e
		}
	}
}

func (c *helperClient) request(command string) gjson.Result {
	c.w.t.Helper()
	c.ids++
	id := fmt.Sprintf("req_%d", c.ids)
	c.w.d.Send(`{"id":"` + id + `",` + strings.TrimPrefix(command, "{"))
	r := c.until(id)
	assert.Equal(c.w.t, gjson.Get(command, "type").Str, r.Get("command").Str)
	return r
}

func (c *helperClient) command(command string) gjson.Result {
	c.w.t.Helper()
	r := c.request(command)
	require.True(c.w.t, r.Get("success").Bool(), "%s: %s", command, r.Raw)
	return r.Get("data")
}

func (c *helperClient) ask(prompt string, during func()) string {
	raw, _ := json.Marshal(prompt)
	c.text, c.ended, c.events = "", false, nil
	c.command(`{"type":"prompt","message":` + string(raw) + `}`)
	require.Empty(c.w.t, c.events, "the acknowledgement comes before the run")
	if during != nil {
		c.until("text")
		during()
	}
	for !c.ended {
		c.until("")
	}
	return c.text
}

func (c *helperClient) interject(text string) {
	raw, _ := json.Marshal(text)
	c.command(`{"type":"prompt","message":` + string(raw) + `,"streamingBehavior":"steer"}`)
}

func (c *helperClient) forkPoints() []gjson.Result {
	return c.command(`{"type":"get_` + c.branch + `_messages"}`).Get("messages").Array()
}

func (c *helperClient) fork(entry string) string {
	return c.command(`{"type":"` + c.branch + `","entryId":"` + entry + `"}`).Get("text").Str
}

// piscesClient is the client of S1.
type piscesClient struct{ helperClient }

func (c *piscesClient) own() {
	t := c.w.t
	assert.Equal(t, "Session name cannot be empty", c.request(`{"type":"set_session_name","name":""}`).Get("error").Str)
	c.command(`{"type":"set_session_name","name":"mine"}`)
	c.command(`{"type":"set_interrupt_mode","mode":"wait"}`)
	c.w.d.Send(`{"type":"extension_ui_response","id":"nobody","cancelled":true}`) // ignored
	st := c.command(`{"type":"get_state"}`)
	assert.Equal(t, "mine wait 0", st.Get("sessionName").Str+" "+st.Get("interruptMode").Str+" "+st.Get("queuedMessageCount").Raw)
	c.w.d.Place.Model.Enqueue(harness.Text("One").Then(harness.Gate("never")), harness.Text("another"))
	c.text = ""
	c.command(`{"type":"prompt","message":"one"}`)
	c.until("text")
	c.command(`{"type":"abort_and_prompt","message":"another"}`)
	assert.Equal(t, "agent_end", c.events[len(c.events)-1], "the old run is over before the answer")
	c.text, c.ended = "", false
	for !c.ended {
		c.until("")
	}
	assert.Equal(t, "another", c.text)
}

// webClient is the client of S2. It keeps a view of the session and reloads it whenever the session
// changes.
type webClient struct {
	helperClient
	stale   bool
	reasons []string
	pending int64
}

func (c *webClient) heard(e gjson.Result) {
	switch e.Get("type").Str {
	case "session_changed":
		c.stale = true
		c.reasons = append(c.reasons, e.Get("reason").Str)
	case "queue_changed":
		c.pending = e.Get("pendingMessageCount").Int()
	}
}

// command reloads the view if the session has changed. The event precedes the response.
func (c *webClient) command(command string) gjson.Result {
	c.w.t.Helper()
	data := c.helperClient.command(command)
	if c.stale {
		c.stale = false
		tree := c.helperClient.command(`{"type":"get_session_tree"}`)
		assert.True(c.w.t, tree.Get("nodes").IsArray())
		messages := c.helperClient.command(`{"type":"get_messages"}`).Get("messages").Array()
		assert.EqualValues(c.w.t, len(messages), c.helperClient.command(`{"type":"get_state"}`).Get("messageCount").Int())
	}
	return data
}

func (c *webClient) fork(entry string) string {
	return c.command(`{"type":"fork","entryId":"` + entry + `"}`).Get("text").Str
}

func (c *webClient) own() {
	t := c.w.t
	assert.Zero(t, c.pending)
	sessions := c.command(`{"type":"list_sessions"}`).Get("sessions").Array()
	assert.GreaterOrEqual(t, len(sessions), 2)
	point := c.forkPoints()[1].Get("entryId").Str
	c.command(`{"type":"set_entry_label","targetId":"` + point + `","label":"here"}`)
	assert.Contains(t, c.command(`{"type":"get_session_tree"}`).Raw, `"label":"here"`)
	assert.Equal(t, "count", c.command(`{"type":"navigate_tree","targetId":"`+point+`"}`).Get("editorText").Str)
	assert.Equal(t, "build", c.command(`{"type":"reload_resources"}`).Get("commands.0.name").Str)
	assert.Equal(t, `["read"]`, c.command(`{"type":"set_active_tools","toolNames":["read","none"]}`).Get("activeToolNames").Raw)
	assert.Equal(t, `["read"]`, c.command(`{"type":"get_tools"}`).Get("activeToolNames").Raw)
	assert.NotZero(t, c.command(`{"type":"get_context_usage"}`).Get("usage.contextWindow").Int())
	c.command(`{"type":"set_session_name","name":"mine"}`)
	assert.Equal(t, "new fork switch tree reload", strings.Join(c.reasons, " "))
}

// rustClient is the client of S4. It matches error texts and null data.
type rustClient struct{ helperClient }

func (c *rustClient) interject(text string) {
	raw, _ := json.Marshal(text)
	c.command(`{"type":"steer","message":` + string(raw) + `}`)
}

func (c *rustClient) own() {
	t := c.w.t
	for command, why := range map[string]string{
		`{"type":"prompt"}`:                                         "Missing message",
		`{"type":"steer"}`:                                          "Missing message",
		`{"type":"set_model","provider":"anthropic"}`:               "Missing modelId",
		`{"type":"set_model","provider":"no","modelId":"none"}`:     "Model not found: no/none",
		`{"type":"set_thinking_level"}`:                             "Missing level",
		`{"type":"set_steering_mode","mode":"some"}`:                "Invalid steering mode",
		`{"type":"set_follow_up_mode","mode":"some"}`:               "Invalid follow-up mode",
		`{"type":"bash"}`:                                           "Missing command",
		`{"type":"switch_session"}`:                                 "Missing sessionPath",
		`{"type":"fork"}`:                                           "Missing entryId",
		`{"type":"set_session_name"}`:                               "Missing name",
		`{"type":"set_auto_retry"}`:                                 "Missing enabled",
		`{"type":"prompt","message":"x","streamingBehavior":"now"}`: "Invalid streamingBehavior: now",
	} {
		assert.Equal(t, why, c.request(command).Get("error").Str, command)
	}
	c.w.d.Send(`{"message":"no type"}`)
	assert.Equal(t, "Missing command type", c.until("").Get("error").Str)
	c.w.d.Send(`{bad`)
	assert.True(t, strings.HasPrefix(c.until("").Get("error").Str, "Failed to parse command: "))
	c.command(`{"type":"set_model","provider":"mock","modelId":"mock-1"}`)
	assert.Equal(t, "null", c.request(`{"type":"cycle_thinking_level"}`).Get("data").Raw)
	c.command(`{"type":"new_session"}`)
	assert.Equal(t, `{"text":null}`, c.command(`{"type":"get_last_assistant_text"}`).Raw)
	assert.Empty(t, c.command(`{"type":"get_state"}`).Get("sessionName").String()) // an Option: null, or no member
	c.command(`{"type":"set_session_name","name":"my-feature-work"}`)
	c.w.d.Place.Model.Enqueue(harness.Text("said"), harness.Text("more"))
	c.command(`{"type":"follow_up","message":"starts when idle"}`)
	for c.text, c.ended = "", false; !c.ended; {
		c.until("")
	}
	assert.Equal(t, "said", c.text)
}
