package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tokens(t *testing.T) *Tokens {
	t.Helper()
	of, err := OpenTokens(filepath.Join(t.TempDir(), "troupe"), TokenFile{})
	require.NoError(t, err)
	return of
}

// A device that is withdrawn while others sign in does not come back.
func TestRevokeIsNotLost(t *testing.T) {
	of := tokens(t)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			token, d, err := of.Login(of.NewCode(ScopeFull), fmt.Sprint(i))
			if !assert.NoError(t, err) || i%2 == 0 {
				return
			}
			found, err := Revoke(of.dir, d.ID)
			assert.NoError(t, err)
			assert.True(t, found)
			_, _, ok := of.Check(token)
			assert.False(t, ok)
		})
	}
	group.Wait()
	list, err := ReadDevices(of.dir)
	require.NoError(t, err)
	assert.Len(t, list, 10)
	found, err := Revoke(of.dir, "none")
	assert.NoError(t, err)
	assert.False(t, found)
}

// Two changes of one instant are two changes.
func TestChangesOfOneInstant(t *testing.T) {
	of := tokens(t)
	token, d, err := of.Login(of.NewCode(ScopeView), "")
	require.NoError(t, err)
	before := of.read.ModTime()
	_, err = Revoke(of.dir, d.ID)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(of.path(), before, before))
	_, _, ok := of.Check(token)
	assert.False(t, ok)
}

// Codes end after ten minutes, and tokens that nobody uses after thirty days.
func TestCredentialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := tokens(t)
		old := of.NewCode(ScopeFull)
		time.Sleep(codeLife + time.Second)
		_, _, err := of.Login(old, "")
		assert.ErrorIs(t, err, errBadCode)

		token, d, err := of.Login(of.NewCode(ScopeView), "a\x1b[31mb")
		require.NoError(t, err)
		assert.Equal(t, "a[31mb", d.Name)
		for range 3 { // each use makes it last
			time.Sleep(deviceLife - time.Hour)
			id, scope, ok := of.Check(token)
			assert.True(t, ok)
			assert.Equal(t, d.ID, id)
			assert.Equal(t, ScopeView, scope)
		}
		time.Sleep(deviceLife + time.Second)
		_, _, ok := of.Check(token)
		assert.False(t, ok)
	})
}

// A scope that is not known, and a file that cannot be read, let nobody in.
func TestDevicesFailClosed(t *testing.T) {
	of := tokens(t)
	token, d, err := of.Login(of.NewCode(ScopeFull), "")
	require.NoError(t, err)
	d.Scope = "all"
	b, err := json.Marshal([]Device{d})
	require.NoError(t, err)
	for _, content := range []string{string(b), "[", "", "{}"} {
		require.NoError(t, os.WriteFile(of.path(), []byte(content), 0o600))
		_, _, ok := of.Check(token)
		assert.False(t, ok, content)
	}
}
