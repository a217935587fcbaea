package clients

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
	"troupe/protocol"
)

// do sends a command through a typed client and requires an answer of type R.
func do[R any](t *testing.T, cl *conn.Client, session string, cmd protocol.Command) R {
	t.Helper()
	data, err := cl.DoIn(t.Context(), session, cmd)
	require.Nil(t, err)
	r, ok := data.(R)
	require.True(t, ok, "%T", data)
	return r
}

// until reads events up to one of type E, and counts the events of each session.
func until[E protocol.Event](t *testing.T, cl *conn.Client, seen map[string]int) E {
	t.Helper()
	for {
		session, event, err := cl.Next(t.Context())
		require.NoError(t, err)
		seen[session]++
		if e, ok := event.(E); ok {
			return e
		}
	}
}

// TestTypedClient checks that a client in the daemon's process works like any other: it opens
// sessions, attaches to those of other clients, and receives events in order.
func TestTypedClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t, harness.ConfirmDanger)
		s := a.Open()
		cl := a.Daemon.Dial(conn.Config{Drain: true})
		opened := do[protocol.AttachedSession](t, cl, "", protocol.AttachSession{SessionID: s})
		assert.Equal(t, s, opened.SessionID)
		own := do[protocol.OpenedSession](t, cl, "", protocol.OpenSession{}).SessionID
		assert.NotEqual(t, s, own)
		seen := map[string]int{}
		accepted := do[protocol.Disposition](t, cl, own, protocol.Prompt{Message: "~" + own + "~ rounds=1 tool=danger"})
		assert.Equal(t, protocol.Started, accepted)
		dialog := until[protocol.ExtensionUIRequest](t, cl, seen)
		_, err := cl.DoIn(t.Context(), own, protocol.ExtensionUIResponse{ID: dialog.ID, Confirmed: new(bool)})
		require.Nil(t, err, "what is not answered returns at once")
		assert.Equal(t, "completed", until[protocol.AgentSettled](t, cl, seen).Outcome)
		assert.Equal(t, []string{own}, keysOf(seen))
		a.Run(s, "~"+s+"~ of another client")
		until[protocol.AgentSettled](t, cl, seen)
		assert.NotZero(t, seen[s])
		_, err = cl.Do(t.Context(), protocol.CloseSession{SessionID: "s9"})
		assert.Equal(t, protocol.CodeUnknownSession, err.Code)
		_, err = cl.DoIn(t.Context(), own, protocol.SetSteeringMode{Mode: "some"})
		assert.Equal(t, protocol.CodeInvalidParams, err.Code)
		cl.Close()
		for err := error(nil); err == nil; {
			_, _, err = cl.Next(t.Context())
			if err != nil {
				assert.Equal(t, io.EOF, err)
			}
		}
		_, err = cl.Do(t.Context(), protocol.GetProtocolInfo{})
		assert.Equal(t, protocol.CodeSessionClosing, err.Code)
		assert.Equal(t, []string{s}, a.OpenSessions())
		a.End()
		late := a.Daemon.Dial(conn.Config{})
		_, err = late.Do(t.Context(), protocol.GetState{})
		assert.Equal(t, protocol.CodeSessionClosing, err.Code)
	})
}

func keysOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// TestTypedClientThatTakesNothing checks that a typed client that reads no events blocks its
// sessions but not its commands, and that its sessions resume when it has closed.
func TestTypedClientThatTakesNothing(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		s := a.Open()
		cl := a.Daemon.Dial(conn.Config{Drain: true, MaxOutput: 20_000})
		do[protocol.AttachedSession](t, cl, "", protocol.AttachSession{SessionID: s})
		a.Say(s, "prompt", "~"+s+"~ parts=2000")
		a.Advance(time.Hour)
		assert.Empty(t, a.Events(s, "agent_settled"), "the slowest client of a session sets its pace")
		for range 100 {
			do[*protocol.SessionState](t, cl, s, protocol.GetState{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := cl.DoIn(ctx, s, protocol.GetMessages{})
		require.NotNil(t, err, "a large answer waits for a window")
		assert.Equal(t, protocol.CodeCancelled, err.Code)
		cl.Close()
		a.Advance(time.Hour)
		require.Len(t, a.Events(s, "agent_settled"), 1, "it has left")
		a.End()
		a.Judge(actortest.Options{Files: a.Disk.Files()})
	})
}

// TestRefusedAtTheEnd checks that the error of a late command tells whether its connection or the
// daemon is closing.
func TestRefusedAtTheEnd(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		a := harness.Start(t)
		cl := a.Daemon.Dial(conn.Config{Drain: true})
		own := do[protocol.OpenedSession](t, cl, "", protocol.OpenSession{}).SessionID
		do[protocol.Disposition](t, cl, own, protocol.Prompt{Message: "~" + own + "~ rounds=20 pace=1000"})
		cl.Close()
		_, err := cl.Do(t.Context(), protocol.GetProtocolInfo{})
		require.NotNil(t, err)
		assert.Equal(t, "session_closing: The connection is closing", string(err.Code)+": "+err.Message)
		a.Say("", "prompt", "~a~ rounds=20 pace=1000") // the process waits for it
		a.Settle()
		a.StopRequests <- actors.Stop{}
		a.Settle()
		_, err = cl.Do(t.Context(), protocol.GetProtocolInfo{})
		require.NotNil(t, err)
		assert.Equal(t, "session_closing: The daemon is shutting down", string(err.Code)+": "+err.Message)
		a.Wait()
	})
}
