package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/store"
)

// TestGrants: what is allowed for a project is kept for it alone, in a file of the user's,
// and can be taken back.
func TestGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe", "grants.json")
	fsys := store.OS{}
	list, err := store.Grants(fsys, path, "/a")
	require.NoError(t, err)
	assert.Empty(t, list)
	one, two := store.Grant{Rule: "bash(x)", By: "Ann", At: 1}, store.Grant{Rule: "edit(y)", At: 2}
	for range 2 { // the second time changes nothing
		list, err = store.AddGrants(fsys, path, "/a", one, two)
		require.NoError(t, err)
		assert.Equal(t, []store.Grant{one, two}, list)
	}
	_, err = store.AddGrants(fsys, path, "/b", two)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, st.Mode().Perm())
	list, err = store.RevokeGrant(fsys, path, "/a", "bash(x)")
	require.NoError(t, err)
	assert.Equal(t, []store.Grant{two}, list)
	_, err = store.RevokeGrant(fsys, path, "/a", "bash(x)")
	assert.ErrorIs(t, err, store.ErrNoEntry)
	list, err = store.Grants(fsys, path, "/b")
	require.NoError(t, err)
	assert.Equal(t, []store.Grant{two}, list)

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = store.Grants(fsys, path, "/a")
	assert.Error(t, err)
	_, err = store.AddGrants(fsys, path, "/a", one)
	assert.Error(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "{", string(content), "what cannot be read is not overwritten")
}

// TestNothingIsKeptOfARelativeDirectory: it is another one for whoever stands elsewhere.
func TestNothingIsKeptOfARelativeDirectory(t *testing.T) {
	dir := t.TempDir()
	grants, trust := filepath.Join(dir, "grants.json"), filepath.Join(dir, "trust.json")
	require.NoError(t, os.WriteFile(grants, []byte(`{"sub":[{"rule":"bash(x)"}]}`), 0o600))
	list, err := store.Grants(store.OS{}, grants, "sub")
	assert.Error(t, err)
	assert.Empty(t, list)
	_, err = store.AddGrants(store.OS{}, grants, "sub", store.Grant{Rule: "bash(y)"})
	assert.Error(t, err)
	assert.Error(t, store.SaveTrust(store.OS{}, trust, "sub", true))
	assert.NoFileExists(t, trust)
}
