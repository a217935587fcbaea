package auth

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full has every write of a store fail until the disk is free again.
func full(h *home) (free func()) {
	h.Store.write = func(path string, _ []byte) error { return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }
	return func() { h.Store.write = save }
}

// TestStore_full: a token that cannot be saved is used all the same, and not the one that it
// has replaced, for which the service would revoke the login; it is saved when that can be.
func TestStore_full(t *testing.T) {
	for name, later := range map[string]func(t *testing.T, h *home){
		"at the end": func(_ *testing.T, h *home) { h.Close() },
		"at a request": func(t *testing.T, h *home) {
			time.Sleep(rest + time.Second)
			token, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, "access-canary-2", token)
			h.pending.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHome(t)
				h.loggedIn(-time.Minute)
				before := h.text()
				free := full(h)
				token, _, err := h.sign(openAI, modelURL)
				require.NoError(t, err)
				assert.Equal(t, "access-canary-2", token)
				assert.Equal(t, before, h.text())
				assert.Contains(t, h.notices[0], "the renewed login of openai could not be saved, which is tried again")
				free()
				later(t, h)
				assert.Contains(t, h.text(), "refresh-canary-2")
				assert.Equal(t, 1, h.vendor.asked(tokenPath))
				entries, err := os.ReadDir(h.dir)
				require.NoError(t, err)
				assert.Len(t, entries, 1, "nothing else is left behind")
			})
		})
	}
	t.Run("at the next renewal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			h.loggedIn(-time.Minute)
			free := full(h)
			for _, want := range []string{"access-canary-2", "access-canary-3"} {
				token, _, err := h.sign(openAI, modelURL)
				require.NoError(t, err)
				assert.Equal(t, want, token)
				time.Sleep(2 * time.Hour)
			}
			free()
			token, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, "access-canary-4", token)
			assert.Contains(t, h.text(), "refresh-canary-4")
			assert.Zero(t, h.vendor.reuses)
		})
	})
	t.Run("another login meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHome(t)
			h.loggedIn(-time.Minute)
			free := full(h)
			_, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			free()
			h.loggedIn(time.Hour)
			token, _, err := h.sign(openAI, modelURL)
			require.NoError(t, err)
			assert.Equal(t, "access-canary-3", token)
			h.Close()
			assert.Contains(t, h.text(), "refresh-canary-3", "that is what counts")
		})
	})
}

// TestStore_whose: a token that was got belongs to the entry that it was got for, whatever
// another login has put there behind it.
func TestStore_whose(t *testing.T) {
	h := newHome(t)
	h.loggedIn(-time.Minute)
	got, err := h.refresh(openAI, h.File().Entries[openAI])
	require.NoError(t, err)
	assert.Equal(t, tokenPair{"access-canary-2", "refresh-canary-2"}, got.of)
	assert.Nil(t, got.unsaved)
}
