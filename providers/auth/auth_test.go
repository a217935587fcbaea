package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

const modelURL = "https://api.openai.com/v1/responses"

func failure_(t *testing.T, err error) *protocol.StreamError {
	t.Helper()
	var failed *protocol.StreamError
	require.ErrorAs(t, err, &failed)
	return failed
}

// TestStore_good: a token that is good is used as it is, and nobody is asked.
func TestStore_good(t *testing.T) {
	h := newHome(t)
	h.loggedIn(time.Hour)
	token, _, err := h.sign(openAI, modelURL)
	require.NoError(t, err)
	assert.Equal(t, "access-canary-1", token)
	assert.Zero(t, h.vendor.asked(tokenPath))
}

// TestStore_hosts: tokens go to the hosts of their provider and to no other.
func TestStore_hosts(t *testing.T) {
	h := newHome(t)
	h.loggedIn(time.Hour)
	for _, address := range []string{
		"http://api.openai.com/v1", "https://api.openai.com.evil.example/v1", "https://127.0.0.1/v1", "http://localhost:8080/v1", "https://api.openai.com:8443/v1", "https://api.x.ai/v1",
	} {
		_, _, err := h.sign(openAI, address)
		assert.ErrorContains(t, err, "auth_host_refused", address)
	}
}

// TestStore_refresh: a token that ends is renewed once, whoever waits for it, and what
// else is in the file stays as it is.
func TestStore_refresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(time.Minute)
		h.vendor.slow = time.Second
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				token, _, err := h.sign(openAI, modelURL)
				assert.NoError(t, err)
				assert.Equal(t, "access-canary-2", token)
			})
		}
		all.Wait()
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
		want := fmt.Sprintf("{\n  \"other\": {\n    \"x\": [\n      1,\n      2.50\n    ]\n  },\n  \"openai\": {\n    \"type\": \"oauth\",\n    \"access\": \"access-canary-2\",\n    \"refresh\": \"refresh-canary-2\",\n    \"expires\": %d,\n    \"clientId\": \"oaiapp_1\",\n    \"extra\": true\n  }\n}\n",
			time.Now().Add(57*time.Minute).UnixMilli())
		assert.Equal(t, want, h.text())
		_, err := os.Stat(lockOf(h.path()))
		require.ErrorIs(t, err, fs.ErrNotExist, "the lock is gone")
		token, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-2", token)
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
	})
}

// TestStore_outlives: a refresh goes on when the prompt that asked for it is gone, and
// the end of the process waits for it.
func TestStore_outlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(-time.Minute)
		h.vendor.slow = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := h.Signer(openAI).Sign(ctx, modelURL, nil)
		assert.Equal(t, protocol.ErrorAborted, failure_(t, err).Kind)
		h.Close()
		assert.Contains(t, h.text(), "refresh-canary-2", "it was saved")
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
	})
}

// TestStore_byHand: what is done to the file by hand while a login is renewed, which takes no
// lock, stays done.
func TestStore_byHand(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(h *home)
		want string // in the file afterwards, "" for no file
	}{
		"a key added": {func(h *home) {
			h.write(strings.Replace(h.text(), `{"other"`, `{"groq": {"type": "api_key", "key": "k"}, "other"`, 1))
		}, `"refresh-canary-2",`},
		"removed":       {func(h *home) { require.NoError(h.t, os.Remove(h.path())) }, ""},
		"another login": {func(h *home) { h.loggedIn(time.Hour) }, `"refresh-canary-2",`},
		"logged out":    {func(h *home) { h.write(`{"other": {"x": 1}}`) }, `{"other": {"x": 1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHome(t)
				h.loggedIn(-time.Minute)
				h.vendor.slow = time.Second
				go func() {
					time.Sleep(500 * time.Millisecond)
					test.do(h)
				}()
				_, _, err := h.sign(openAI, modelURL)
				require.NoError(t, err)
				if test.want == "" {
					assert.NoFileExists(t, h.path())
				} else {
					assert.Contains(t, h.text(), test.want)
				}
				_, _, err = h.sign(openAI, modelURL)
				switch name {
				case "a key added":
					assert.Contains(t, h.text(), `"groq"`)
					assert.NoError(t, err)
				case "another login":
					assert.Equal(t, 1, h.vendor.asked(tokenPath), "nobody renews that one")
					assert.NoError(t, err)
				default:
					assert.ErrorContains(t, err, "There is no login of openai in auth.json any more")
				}
			})
		})
	}
}

// TestStore_slow: a refresh takes no more than 10 seconds, and a token that is still good
// is used to its end.
func TestStore_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(time.Minute)
		h.vendor.slow = time.Hour
		begun := time.Now()
		token, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-1", token)
		assert.Equal(t, exchangeTime, time.Since(begun))
		time.Sleep(time.Minute)
		_, _, err = h.sign(openAI, modelURL)
		assert.Contains(t, failure_(t, err).Message, "OAuth refresh failed for openai: the login service did not answer in time")
	})
}

// TestStore_persists: an answer that was lost is asked for again, a busy service waited for.
func TestStore_persists(t *testing.T) {
	for name, broken := range map[string]func(*vendor){
		"busy": func(v *vendor) {
			left := 2
			v.fail = func(string) (int, string) {
				if left--; left >= 0 {
					return 503, "later"
				}
				return 0, ""
			}
		},
		"lost": func(v *vendor) { v.lost = 1; v.fail = func(string) (int, string) { return 0, "" } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHome(t)
				h.loggedIn(-time.Minute)
				broken(h.vendor)
				token, _, err := h.sign(openAI, modelURL)
				if name == "lost" { // the service had taken the token back: that cannot be told from theft
					assert.Contains(t, failure_(t, err).Message, "refresh_token_reused")
					assert.Contains(t, h.text(), "refresh-canary-1", "nothing is blanked")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "access-canary-2", token)
			})
		})
	}
}

// TestStore_revoked: 100 sessions whose login was revoked cost one refresh and get one
// clear error each; nobody asks again until somebody has signed in, then all go on.
func TestStore_revoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		var told []protocol.AuthChanged
		h.Watch(onlyChanges(&told))
		h.loggedIn(time.Hour)
		token, signer, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-1", token)
		h.vendor.revoked["family"] = true
		signer.Forget()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_, _, err := h.sign(openAI, modelURL)
				failed := failure_(t, err)
				assert.Equal(t, protocol.ErrorAuth, failed.Kind)
				assert.Equal(t, "OAuth refresh failed for openai: (HTTP 400): invalid_grant: nobody knows ***\n\nSign in again with `troupe login openai`.", failed.Message)
			})
		}
		all.Wait()
		_, _, err = h.sign(openAI, modelURL)
		require.Error(t, err)
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
		assert.Equal(t, []protocol.AuthChanged{{Provider: openAI, State: protocol.AuthInvalid, Reason: "(HTTP 400): invalid_grant: nobody knows ***"}}, told)
		var report protocol.ProviderAuth
		h.Report(openAI, h.File().Entries[openAI], &report)
		assert.Equal(t, protocol.AuthInvalid, report.State)

		_, refused := h.login(protocol.Login{Provider: openAI, Method: methodPaste}, nil)
		require.Nil(t, refused)
		token, _, err = h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Contains(t, h.text(), token)
		assert.Equal(t, protocol.AuthReady, told[len(told)-1].State)
	})
}

// TestStore_refused: a token that the model's service refuses is renewed, once.
func TestStore_refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(time.Hour)
		_, signer, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		signer.Forget()
		headers, err := signer.Sign(t.Context(), modelURL, nil)
		require.NoError(t, err)
		assert.Equal(t, "Bearer access-canary-2", headers["Authorization"])
		signer.Forget()
		_, err = signer.Sign(t.Context(), modelURL, nil)
		assert.Contains(t, failure_(t, err).Message, "refuses a login that was renewed this moment")
		assert.Equal(t, 1, h.vendor.asked(tokenPath))
		time.Sleep(rest + time.Second)
		_, err = signer.Sign(t.Context(), modelURL, nil)
		require.NoError(t, err, "later it is tried again")
	})
}

// TestStore_elsewhere: what another process has got is taken.
func TestStore_elsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(-time.Minute)
		require.NoError(t, os.Mkdir(lockOf(h.path()), 0o755))
		go func() {
			time.Sleep(time.Second)
			h.loggedIn(2 * time.Minute) // less than what is renewed: but this moment it is fresh
			_ = os.Remove(lockOf(h.path()))
		}()
		token, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-2", token)
		assert.Zero(t, h.vendor.asked(tokenPath))
	})
}

// TestStore_lifetimes: what a service says of the life of a token may be anything.
func TestStore_lifetimes(t *testing.T) {
	for said, want := range map[any]time.Duration{
		3600: 57 * time.Minute, "3600": 57 * time.Minute, nil: 57 * time.Minute, 0: 57 * time.Minute, -5: 57 * time.Minute, "soon": 57 * time.Minute,
		60: 45 * time.Second, 315360000: 30*24*time.Hour - 3*time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			h.loggedIn(-time.Minute)
			h.vendor.lifetime = said
			_, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, want, h.File().Entries[openAI].left(time.Now()), "%v", said)
			_, _, err = h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, 1, h.vendor.asked(tokenPath), "%v: not at every request", said)
		})
	}
}

// TestStore_skew: a clock that is wrong by minutes is named, and whatever it says a login is
// renewed once, and used for as long as its service has said.
func TestStore_skew(t *testing.T) {
	for off, named := range map[time.Duration]string{
		-2 * time.Hour: "off by 2h0m0s", -3 * time.Minute: "off by 3m0s", -time.Minute: "", 0: "", time.Minute: "", 3 * time.Minute: "off by 3m0s", 2 * time.Hour: "off by 2h0m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			h.config.Now = func() time.Time { return time.Now().Add(off) } // the machine's
			h.loggedIn(off - time.Minute)                                  // over, by the machine's clock
			for range 3 {
				token, _, err := h.sign(openAI, modelURL)
				require.NoError(t, err)
				assert.Equal(t, "access-canary-2", token)
				time.Sleep(17 * time.Minute)
			}
			assert.Equal(t, 1, h.vendor.asked(tokenPath), off)
			_, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			_, _, err = h.sign(openAI, modelURL)
			require.NoError(t, err)
			time.Sleep(2 * time.Minute)
			_, _, err = h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, 2, h.vendor.asked(tokenPath), off)
			said := strings.Join(h.notices, "\n")
			assert.Equal(t, named != "", strings.Contains(said, "the clock of this machine is "+named) && named != "", "%v: %s", off, said)
			assert.Equal(t, named != "", strings.Contains(said, "clock"), "%v: %s", off, said)
		})
	}
}

// TestStore_jump: a clock that jumps while a login is used does not make it over, nor good for
// ever: what was got here goes by the time that has passed.
func TestStore_jump(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			h.loggedIn(-time.Minute)
			_, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			text := h.text() // as if the wall clock had jumped: the file says another time, the token is the same
			h.write(strings.Replace(text, fmt.Sprint(h.File().Entries[openAI].Expires), fmt.Sprint(h.File().Entries[openAI].Expires-jump.Milliseconds()), 1))
			time.Sleep(20 * time.Minute)
			_, _, err = h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, 1, h.vendor.asked(tokenPath), "%v: it is good for 52 minutes", jump)
			time.Sleep(35 * time.Minute)
			_, _, err = h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, 2, h.vendor.asked(tokenPath), jump)
		})
	}
}

// TestStore_broker: logins whose flow is pi's are renewed by pi.
func TestStore_broker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.write(fmt.Sprintf(`{"xai": {"type": "oauth", "access": "stale-token", "refresh": "r", "expires": %d}}`, time.Now().Add(time.Minute).UnixMilli()))
		h.broker = func() (string, error) { return "token-of-pi-1\n", nil }
		for range 3 {
			token, _, err := h.sign("xai", "https://api.x.ai/v1/responses")
			require.NoError(t, err)
			assert.Equal(t, "token-of-pi-1", token)
		}
		assert.Equal(t, []string{"pi auth print-bearer-token --provider xai --min-expiry 10m"}, h.asked)
		time.Sleep(brokered)
		h.broker = func() (string, error) { return "", fs.ErrNotExist }
		_, _, err := h.sign("xai", "https://api.x.ai/v1/responses")
		assert.Equal(t, "OAuth refresh failed for xai: pi renews it, and is not there\n\nRun pi and sign in to xai there or set XAI_API_KEY.", failure_(t, err).Message)
		_, _, err = h.sign("xai", "https://api.x.ai/v1/responses")
		require.Error(t, err)
		assert.Len(t, h.asked, 2, "nobody asks again")

		h.settings.Broker = "/opt/pi"
		h.broker = func() (string, error) { return "", errors.New("exit status 1") }
		h.write(`{"kimi-coding": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}}`)
		_, _, err = h.sign("kimi-coding", "https://api.kimi.com/coding/v1/messages")
		require.Error(t, err)
		_, _, err = h.sign("kimi-coding", "https://api.kimi.com/coding/v1/messages")
		require.Error(t, err)
		assert.Len(t, h.asked, 3)
		time.Sleep(rest)
		h.broker = func() (string, error) { return "token-of-pi-2", nil }
		token, _, err := h.sign("kimi-coding", "https://api.kimi.com/coding/v1/messages")
		require.NoError(t, err)
		assert.Equal(t, "token-of-pi-2", token)
		assert.True(t, strings.HasPrefix(h.asked[3], "/opt/pi auth "))
	})
}

// TestStore_Use: the table of what is used, and how.
func TestStore_Use(t *testing.T) {
	h := newHome(t)
	login := Entry{Type: typeOAuth, Access: "a", Refresh: "r", Expires: 1}
	for provider, want := range map[string]Use{
		"openai": UseLogin, "xai": UseLogin, "kimi-coding": UseLogin, "meta": UseLogin, "of-an-extension": UseLogin,
		"anthropic": UseRefused, "google-gemini-cli": UseRefused, "google-antigravity": UseRefused, "github-copilot": UseRefused, "openai-codex": UseRefused, "radius": UseRefused,
	} {
		assert.Equal(t, want, h.Use(provider, login), provider)
		assert.Equal(t, UseKey, h.Use(provider, Entry{Type: typeKey, Key: "k"}), provider)
		assert.Equal(t, want == UseRefused, h.Why(provider, login) != "", provider)
		assert.Equal(t, UseNothing, h.Use(provider, Entry{Type: "somebody else's"}), provider)
	}
	assert.Equal(t, UseKey, h.Use(openRouter, Entry{Type: typeOAuth, Access: "sk-or", Expires: forever}), "it has no end")
	h.settings.NoReuse = true
	assert.Equal(t, UseRefused, h.Use("xai", login))
	h.settings = Settings{Reuse: []string{"xai"}}
	assert.Equal(t, UseLogin, h.Use("xai", login))
	assert.Equal(t, UseRefused, h.Use("openai", login))
}

// TestParse: entries of pi, and what others have written.
func TestParse(t *testing.T) {
	file, err := parse([]byte(`{"a": {"type": "api_key", "key": "k", "env": {"X": "y"}}, "b": {"type": "oauth", "access": "a", "refresh": "", "expires": 9007199254740991},
		"c": 5, "d": {}, "a": {"type": "api_key", "key": "last"}}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]Entry{"a": {Type: typeKey, Key: "last"}, "b": {Type: typeOAuth, Access: "a", Expires: forever}}, file.Entries)
	require.EqualError(t, file.Unused, "auth.json: the entry of \"c\" is not used: it is not an object\nauth.json: the entry of \"d\" is not used: it has no type")
	assert.True(t, file.Entries["b"].permanent())
	assert.Greater(t, file.Entries["b"].left(time.Now()), 50*365*24*time.Hour)
	for _, wrong := range []string{"", "[]", "\ufeff{}", "{} // c"} {
		_, err := parse([]byte(wrong))
		assert.Error(t, err, wrong)
	}
	for _, wrong := range []string{`{"a": {"type": "api_key", "key": 5}}`, `{"a": {"type": "oauth", "access": {}}}`, `{"a": {"type": "oauth", "access": "two\nlines", "refresh": "r"}}`, `{"a": {"type": "api_key", "env": {"X": 1}}}`} {
		file, err := parse([]byte(strings.TrimSuffix(wrong, "}") + `, "good": {"type": "api_key", "key": "k"}}`))
		require.NoError(t, err)
		assert.ErrorContains(t, file.Unused, `the entry of "a" is not used`, wrong)
		assert.Equal(t, []string{"good"}, file.Names(), "the others are used")
	}
}

// TestStore_torn: a file that is written in place is read again.
func TestStore_torn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.write(`{"a": {"type": "api_`)
		go func() {
			time.Sleep(30 * time.Millisecond)
			h.write(`{"a": {"type": "api_key", "key": "k"}}`)
		}()
		file := h.File()
		require.NoError(t, file.Err)
		assert.Equal(t, "k", file.Entries["a"].Key)
		assert.Same(t, file, h.File(), "unchanged")
	})
}

// TestStore_removed: who removes the file means it; who puts another in its place does not
// leave a moment without one.
func TestStore_removed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t)
		h.loggedIn(time.Hour)
		_, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		require.NoError(t, os.Remove(h.path()))
		go func() {
			time.Sleep(30 * time.Millisecond)
			h.loggedIn(time.Hour)
		}()
		token, _, err := h.sign(openAI, modelURL)
		require.NoError(t, err)
		assert.Equal(t, "access-canary-2", token)
		require.NoError(t, os.Remove(h.path()))
		_, _, err = h.sign(openAI, modelURL)
		assert.ErrorContains(t, err, "There is no login of openai in auth.json any more")
		assert.Empty(t, h.File().Entries)
		h.write(`{"openai": {"type": "oau`)
		assert.Empty(t, h.File().Entries, "nor does what follows bring them back")
		assert.Error(t, h.File().Err)
	})
}

// TestStore_edit: the ways of writing the file.
func TestStore_edit(t *testing.T) {
	add := func(h *home) error {
		return h.edit(t.Context(), func(_ context.Context, list []member) ([]member, bool, error) {
			return put(list, "new", json.RawMessage(`{"type":"api_key","key":"k"}`)), true, nil
		})
	}
	mode := func(path string) fs.FileMode {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		return info.Mode()
	}
	t.Run("no file", func(t *testing.T) {
		h := newHome(t)
		h.config.Dir = filepath.Join(h.dir, "not", "there")
		require.NoError(t, add(h))
		assert.Equal(t, fs.FileMode(0o600), mode(h.path()))
		assert.Equal(t, fs.FileMode(0o700)|fs.ModeDir, mode(h.config.Dir))
	})
	t.Run("an administrator's mode stays", func(t *testing.T) {
		h := newHome(t)
		h.write(`{}`)
		require.NoError(t, os.Chmod(h.path(), 0o640))
		require.NoError(t, add(h))
		assert.Equal(t, fs.FileMode(0o640), mode(h.path()))
		h.File()
		h.File()
		require.Len(t, h.notices, 1, "it is named, once")
		assert.Contains(t, h.notices[0], "can be read by others (mode 0640)")
	})
	t.Run("a symbolic link stays, the lock is beside its target", func(t *testing.T) {
		h := newHome(t)
		target := filepath.Join(t.TempDir(), "real.json")
		require.NoError(t, os.WriteFile(target, []byte(`{}`), 0o600))
		require.NoError(t, os.Symlink(target, h.path()))
		require.NoError(t, h.edit(t.Context(), func(_ context.Context, list []member) ([]member, bool, error) {
			assert.DirExists(t, lockOf(target))
			return put(list, "new", json.RawMessage(`{}`)), true, nil
		}))
		assert.NotZero(t, mode(h.path())&fs.ModeSymlink)
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		assert.True(t, gjson.GetBytes(text, "new").Exists())
	})
	t.Run("so does one whose target is to be made", func(t *testing.T) {
		h := newHome(t)
		target := filepath.Join(t.TempDir(), "later", "real.json")
		require.NoError(t, os.Symlink(target, h.path()))
		require.NoError(t, add(h))
		assert.NotZero(t, mode(h.path())&fs.ModeSymlink)
		assert.Equal(t, fs.FileMode(0o600), mode(target))
	})
	t.Run("a directory that cannot be written", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root writes everywhere")
		}
		h := newHome(t)
		h.write(`{}`)
		require.NoError(t, os.Chmod(h.dir, 0o500))
		defer os.Chmod(h.dir, 0o700)
		require.Error(t, add(h), "the lock cannot be taken")
	})
	t.Run("a file that is no JSON is left alone", func(t *testing.T) {
		h := newHome(t)
		h.write(`{ // mine`)
		require.Error(t, add(h))
		assert.Equal(t, `{ // mine`, h.text())
	})
	for _, text := range []string{"", " \n"} {
		h := newHome(t)
		h.write(text)
		require.NoError(t, add(h))
		assert.JSONEq(t, `{"new":{"type":"api_key","key":"k"}}`, h.text())
	}
}

// TestLock: the table of locks that are in the way.
func TestLock(t *testing.T) {
	held := func(t *testing.T, h *home, age time.Duration) {
		require.NoError(t, os.Mkdir(lockOf(h.path()), 0o755))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(lockOf(h.path()), then, then))
	}
	nothing := func(context.Context, []member) ([]member, bool, error) { return nil, false, nil }
	t.Run("one that is held is waited for", func(t *testing.T) {
		h := newHome(t)
		held(t, h, 29*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		assert.ErrorContains(t, h.edit(ctx, nothing), "is held by another program")
		assert.DirExists(t, lockOf(h.path()))
	})
	t.Run("one that was forgotten is taken over", func(t *testing.T) {
		h := newHome(t)
		held(t, h, 31*time.Second)
		require.NoError(t, h.edit(t.Context(), nothing))
		entries, err := os.ReadDir(h.dir)
		require.NoError(t, err)
		assert.Empty(t, entries, "nothing is left behind")
	})
	t.Run("one of the future is forgotten when nobody has touched it for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			require.NoError(t, os.Mkdir(lockOf(h.path()), 0o755))
			then := time.Now().Add(100 * 365 * 24 * time.Hour)
			require.NoError(t, os.Chtimes(lockOf(h.path()), then, then))
			for range 3 {
				assert.Error(t, h.edit(t.Context(), nothing))
			}
			require.NoError(t, h.edit(t.Context(), nothing))
		})
	})
	t.Run("a file is in the way", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, os.WriteFile(lockOf(h.path()), nil, 0o600))
		assert.ErrorContains(t, h.edit(t.Context(), nothing), "is in the way")
	})
	t.Run("one that is removed under us", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, h.edit(t.Context(), func(_ context.Context, list []member) ([]member, bool, error) {
			require.NoError(t, os.Remove(lockOf(h.path())))
			return put(list, "new", json.RawMessage(`{}`)), true, nil
		}))
		assert.JSONEq(t, `{"new":{}}`, h.text())
		assert.NoDirExists(t, lockOf(h.path()))
	})
	t.Run("one that is touched is somebody's, however old", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			require.NoError(t, os.Mkdir(lockOf(h.path()), 0o755))
			ctx, stop := context.WithCancel(t.Context())
			var toucher sync.WaitGroup
			defer toucher.Wait()
			defer stop()
			toucher.Go(func() {
				for at := time.Now(); ctx.Err() == nil; at = at.Add(touchEvery) {
					_ = os.Chtimes(lockOf(h.path()), at, at)
					time.Sleep(touchEvery)
				}
			})
			for range 6 {
				assert.ErrorContains(t, h.edit(t.Context(), nothing), "is held by another program")
			}
			assert.DirExists(t, lockOf(h.path()))
		})
	})
	t.Run("one that was taken from us is left to who has it", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, h.edit(t.Context(), func(context.Context, []member) ([]member, bool, error) {
			require.NoError(t, os.Rename(lockOf(h.path()), lockOf(h.path())+".old"))
			require.NoError(t, os.Mkdir(lockOf(h.path()), 0o755))
			return nil, false, nil
		}))
		assert.DirExists(t, lockOf(h.path()))
	})
}

// TestStore_looks: between being found and being used the entry is not looked up again, but
// before another attempt with it.
func TestStore_looks(t *testing.T) {
	h := newHome(t)
	h.loggedIn(time.Hour)
	_, signer, err := h.sign(openAI, modelURL)
	require.NoError(t, err)
	h.File()
	first := h.Signer(openAI)
	h.loggedIn(time.Hour)
	signed := func(s providers.Signer) string {
		headers, err := s.Sign(t.Context(), modelURL, nil)
		require.NoError(t, err)
		return headers["Authorization"]
	}
	assert.Equal(t, "Bearer access-canary-1", signed(first), "it was found a moment ago")
	first.Forget()
	assert.Equal(t, "Bearer access-canary-2", signed(first), "there is a newer one")
	assert.Zero(t, h.vendor.asked(tokenPath))
	assert.Equal(t, "Bearer access-canary-2", signed(signer))
	h.loggedIn(time.Hour)
	assert.Equal(t, "Bearer access-canary-3", signed(signer), "it looks again")
}

// BenchmarkSign is what a login costs each request: one look at auth.json, and nothing read.
func BenchmarkSign(b *testing.B) {
	dir := b.TempDir()
	text := fmt.Sprintf(`{"openai": {"type": "oauth", "access": "e30.eyJzdWIiOiJ1c2VyIn0.e30", "refresh": "r", "expires": %d, "clientId": "c"}}`, time.Now().Add(time.Hour).UnixMilli())
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	s := Open(Config{Dir: dir})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.File()
		signer := s.Signer(openAI)
		if _, err := signer.Sign(b.Context(), modelURL, nil); err != nil {
			b.Fatal(err)
		}
		_ = signer.Account()
	}
}
