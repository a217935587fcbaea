package harness

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// Run sends a prompt to a session, lets an hour pass and returns the answer to the prompt.
func (c *Client) Run(session, text string) gjson.Result {
	c.T.Helper()
	id := c.Say(session, "prompt", text)
	c.Advance(time.Hour)
	return c.Answer(c.T, id)
}

// Open opens a session and returns its handle.
func (c *Client) Open() string {
	c.T.Helper()
	v := c.Call(c.T, `{"type":"open_session"}`)
	require.True(c.T, v.Get("success").Bool(), v.Raw)
	return v.Get("data.sessionId").Str
}

// Code returns the error code of an answer.
func Code(v gjson.Result) string { return v.Get("code").Str }

// OpenSessions returns the handles of the open sessions.
func (c *Client) OpenSessions() (handles []string) {
	c.T.Helper()
	for _, s := range c.Call(c.T, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		handles = append(handles, s.Get("sessionId").Str)
	}
	return handles
}

// DeclareTool returns the command set_host_tools with one tool.
func DeclareTool(session, tool string) string {
	return `{"type":"set_host_tools","tools":[{"name":"` + tool + `","description":"asks","parameters":{"type":"object"}}]` + At(session) + `}`
}

// RunWork uses all parts of a session while a fault strikes: a run with tools and a retry, queued
// input, queries and a dialog.
func (c *Client) RunWork(session, mark string) {
	c.T.Helper()
	c.Say(session, "prompt", mark+"one rounds=2 calls=2 pace=10 work=50")
	c.Advance(20 * time.Millisecond)
	c.Say(session, "steer", mark+"two")
	c.Say(session, "follow_up", mark+"three rounds=1 tool=danger")
	c.Say(session, "follow_up", mark+"four fail=overloaded times=1")
	c.Send(`{"type":"get_state"` + At(session) + `}`)
	c.Send(`{"type":"get_session_stats"` + At(session) + `}`)
	c.AdvanceApproving(session, time.Minute)
	c.Say(session, "prompt", mark+"five")
	c.AdvanceApproving(session, time.Hour)
}

// AdvanceApproving lets twice the time d pass and confirms every dialog that opens in the first
// half.
func (c *Client) AdvanceApproving(session string, d time.Duration) {
	for range 8 {
		c.Advance(d / 8)
		c.AnswerDialogs(session, true)
	}
	c.Advance(d)
}

// At returns the member that addresses a command to a session, to be appended to other members. It
// is empty for the default session, which is "".
func At(session string) string {
	if session == "" {
		return ""
	}
	return `,"sessionId":"` + session + `"`
}

// RequireWorking requires that a session completes a prompt.
func (c *Client) RequireWorking(session, text string) {
	c.T.Helper()
	id := c.Say(session, "prompt", text)
	c.AdvanceApproving(session, time.Hour)
	v := c.Answer(c.T, id)
	require.True(c.T, v.Get("success").Bool(), v.Raw)
	settled := c.Events(session, "agent_settled")
	require.NotEmpty(c.T, settled)
	require.Equal(c.T, "completed", settled[len(settled)-1].Get("outcome").Str)
}

// AnswerDialogs answers every dialog of a session that was opened since the last call.
func (c *Client) AnswerDialogs(session string, yes bool) {
	dialogs := c.Events(session, "extension_ui_request")
	seen := c.answered[session]
	c.answered[session] = len(dialogs)
	for _, e := range dialogs[seen:] {
		c.Line(fmt.Sprintf(`{"type":"extension_ui_response","id":%q,"confirmed":%t%s}`, e.Get("id").Str, yes, At(session)))
	}
	c.Settle()
}

// Crashes returns how often a session has crashed.
func (c *Client) Crashes(session string) int { return c.Watch.Crashes("daemon/sessions/" + session) }

// Decide answers an approval with one of its options, and more members of the command.
func (c *Client) Decide(session, id, option string, more ...string) gjson.Result {
	c.T.Helper()
	line := fmt.Sprintf(`{"type":"approval_response","approvalId":%q,"optionId":%q`, id, option)
	for _, m := range more {
		line += "," + m
	}
	return c.Call(c.T, line+At(session)+`}`)
}

// OpenParked opens a session, has it complete a prompt and waits until it is parked. The daemon
// needs the option [ParkSoon]. path is the session's file.
func (c *Client) OpenParked() (session, path string) {
	c.T.Helper()
	session = c.Open()
	c.Run(session, "~a~ one")
	c.Advance(3 * time.Hour)
	c.RequireParked(session)
	for path = range c.Disk.Files() {
	}
	return session, path
}

// RequireParked requires that a session is parked.
func (c *Client) RequireParked(session string) {
	c.T.Helper()
	v := c.Call(c.T, `{"type":"list_open_sessions"}`).Get(`data.sessions.#(sessionId=="` + session + `").status`)
	require.Equal(c.T, "parked", v.Str)
}

// ChildEvents returns the events about children of a session, as "start A" and "end A 0" with the
// exit code.
func (c *Client) ChildEvents(session string) (list []string) {
	for _, e := range c.Events(session) {
		switch e.Get("type").Str {
		case "subagent_start":
			list = append(list, "start "+e.Get("id").Str)
		case "subagent_end":
			list = append(list, fmt.Sprintf("end %s %d", e.Get("id").Str, e.Get("exitCode").Int()))
		}
	}
	return list
}
