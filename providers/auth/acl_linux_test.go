package auth

import (
	"context"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestStore_acl: what an administrator has added to the mode of the file stays.
func TestStore_acl(t *testing.T) {
	h := newHome(t)
	h.write(`{}`)
	acl := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, entry := range [][3]uint32{{1, 6, 0xffffffff}, {2, 4, 12345}, {4, 0, 0xffffffff}, {16, 4, 0xffffffff}, {32, 0, 0xffffffff}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(entry[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(entry[1]))
		acl = binary.LittleEndian.AppendUint32(acl, entry[2])
	}
	if err := unix.Setxattr(h.path(), "system.posix_acl_access", acl, 0); err != nil {
		t.Skip("no access lists here:", err)
	}
	before, err := os.Stat(h.path())
	require.NoError(t, err)
	require.NoError(t, h.edit(t.Context(), func(_ context.Context, list []member) ([]member, bool, error) {
		return put(list, "x", []byte(`{}`)), true, nil
	}))
	after, err := os.Stat(h.path())
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "it is written over")
	assert.True(t, hasACL(h.path()))
	assert.JSONEq(t, `{"x": {}}`, h.text())
}
