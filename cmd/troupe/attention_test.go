package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// Somebody is told of what a session wants, once, and not of the same session again within
// ten seconds: then of how it is.
func TestNotices(t *testing.T) {
	ns, now := notices{}, time.Unix(1000, 0)
	info := protocol.OpenSessionInfo{SessionID: "s1", DurableID: "d", Title: "T", LastText: "Done.", WaitingFor: []string{"approval"}, Cwd: "/w"}
	hear := func(attention string) []notice {
		info.Attention = attention
		ns.hear(info)
		list, _ := ns.due(now)
		return list
	}
	assert.Empty(t, hear("none"))
	assert.Equal(t, []notice{{"d", "s1", "T", "dialog", "approval", "/w"}}, hear("dialog"))
	now = now.Add(time.Minute)
	assert.Empty(t, hear("dialog"), "it is known")
	assert.Empty(t, hear("none"))
	assert.Equal(t, "dialog", hear("dialog")[0].Kind, "another one")
	assert.Empty(t, hear("none"))
	assert.Empty(t, hear("failed"), "too early")
	assert.Empty(t, hear("done"))
	_, next := ns.due(now)
	assert.Equal(t, now.Add(noticeEvery), next)
	now = next
	assert.Equal(t, []notice{{"d", "s1", "T", "done", "Done.", "/w"}}, hear("done"))
	assert.Empty(t, hear("none"))
	assert.Empty(t, hear("dialog"))
	assert.Empty(t, hear("none"), "it was answered in time")
	now = now.Add(time.Minute)
	list, next := ns.due(now)
	assert.Empty(t, list)
	assert.Zero(t, next)
	info.ParentSessionID = "s0"
	info.SessionID = "s2"
	assert.Empty(t, hear("dialog"), "the session above it says so")
	info.ParentSessionID, info.SessionID, info.Status = "", "s1", "closed"
	assert.Empty(t, hear("done"))
	assert.Empty(t, ns)
}
