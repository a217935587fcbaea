package extension

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScrypt has the vectors of RFC 7914.
func TestScrypt(t *testing.T) {
	for _, c := range []struct {
		password, salt string
		n, r, p        int
		want           string
	}{
		{"", "", 16, 1, 1, "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"},
		{"password", "NaCl", 1024, 8, 16, "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"},
		{"pleaseletmein", "SodiumChloride", 16384, 8, 1, "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"},
	} {
		key, err := scryptKey([]byte(c.password), []byte(c.salt), c.n, c.r, c.p, 64)
		require.NoError(t, err)
		require.Equal(t, c.want, hex.EncodeToString(key))
	}
	for _, bad := range [][3]int{{0, 1, 1}, {3, 1, 1}, {1 << 30, 8, 1}, {16, 0, 1}, {16, 1, 0}, {2, 1 << 30, 1 << 30}} {
		_, err := scryptKey(nil, nil, bad[0], bad[1], bad[2], 1)
		require.Error(t, err, bad)
	}
	o := newOps(t)
	require.Equal(t, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", o.code("crypto.scrypt", "p", "s", 4.0, map[string]any{"N": 3, "r": 1, "p": 1}))
}
