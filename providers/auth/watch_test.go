package auth

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// TestWatch_once: a change is told once, whoever finds out about it, and a renewal that
// changes nothing is none.
func TestWatch_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		var told []string
		h.Watch(providers.LoginWatch{Tell: func(ev protocol.Event) { told = append(told, fmt.Sprintf("%T %+v", ev, ev)) }})
		heard := func() (now []string) {
			now, told = told, nil
			return now
		}
		h.loggedIn(time.Hour)
		_, signer, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Empty(t, heard())
		signer.Forget() // refused, and renewed: it was ready and is so again
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, _, _ = h.sign(openAI, modelURL) })
		}
		all.Wait()
		assert.Equal(t, []string{
			"protocol.AuthRefreshStart {isEvent:{} Provider:openai}", "protocol.AuthRefreshEnd {isEvent:{} Provider:openai State:ready Reason:}",
		}, heard())

		h.vendor.mu.Lock()
		h.vendor.fail = func(string) (int, string) { return 400, `{"error":"invalid_grant"}` }
		h.vendor.mu.Unlock()
		time.Sleep(2 * time.Hour)
		for range 20 {
			all.Go(func() { _, _, _ = h.sign(openAI, modelURL) })
		}
		all.Wait()
		assert.Equal(t, []string{
			"protocol.AuthRefreshStart {isEvent:{} Provider:openai}", "protocol.AuthRefreshEnd {isEvent:{} Provider:openai State:invalid Reason:(HTTP 400): invalid_grant}",
			"protocol.AuthChanged {isEvent:{} Provider:openai State:invalid Reason:(HTTP 400): invalid_grant}",
		}, heard())
		h.Changed(openAI, protocol.AuthReady, "")
		h.Changed(openAI, protocol.AuthReady, "")
		assert.Len(t, heard(), 1)
	})
}

// TestWatch_due: a login that is used is renewed before a request has to wait for it, at a
// time of its own; one that nobody uses is left alone.
func TestWatch_due(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		var due []time.Duration
		h.Watch(providers.LoginWatch{Due: func(provider string, in time.Duration) {
			assert.Equal(t, openAI, provider)
			due = append(due, in)
			time.AfterFunc(in, func() { h.Renew(t.Context(), provider) })
		}})
		h.loggedIn(time.Hour)
		for range 3 {
			_, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
		}
		require.Len(t, due, 1, "once for a token")
		assert.InDelta(t, 55*time.Minute, due[0], float64(jitter))
		time.Sleep(57 * time.Minute)
		assert.Equal(t, 1, h.vendor.asked(tokenPath), "nobody has waited for it")
		token, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-2", token)
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
		require.Len(t, due, 2)
		assert.InDelta(t, 50*time.Minute, due[1], float64(2*jitter+time.Minute))
		time.Sleep(5 * time.Hour)
		assert.Equal(t, 2, h.vendor.asked(tokenPath), "the second time it was not used any more")
	})
}

// TestReport_states: what get_auth says of a login, by what is known of it.
func TestReport_states(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			left   time.Duration
			answer string // of the login service to one renewal, "" for none
			want   protocol.AuthState
		}{
			"good": {time.Hour, "", protocol.AuthReady}, "soon over": {4 * time.Minute, "", protocol.AuthExpiring}, "over": {-time.Minute, "", protocol.AuthExpired},
			"revoked": {-time.Minute, `{"error":"invalid_grant"}`, protocol.AuthInvalid}, "renewed": {-time.Minute, "ok", protocol.AuthReady},
			"soon over and revoked": {4 * time.Minute, `{"error":"invalid_grant"}`, protocol.AuthInvalid}, "busy service": {4 * time.Minute, `{}`, protocol.AuthExpiring}, "over and a busy service": {-time.Minute, `{}`, protocol.AuthExpired},
		} {
			h := newHome(t)
			h.loggedIn(c.left)
			if c.answer != "" && c.answer != "ok" {
				h.vendor.fail = func(string) (int, string) { return 400, c.answer }
			}
			if c.answer != "" {
				h.Renew(t.Context(), openAI)
			}
			var out protocol.ProviderAuth
			h.Report(openAI, h.File().Entries[openAI], &out)
			assert.Equal(t, c.want, out.State, name)
			assert.NotEmpty(t, out.Source, name)
			assert.Equal(t, c.answer != "" && c.answer != "ok", out.Reason != "", "%s: why it could not be renewed: %q", name, out.Reason)
			if c.want == protocol.AuthInvalid {
				assert.Contains(t, out.Hint, "troupe login openai", name)
			}
		}
	})
}
