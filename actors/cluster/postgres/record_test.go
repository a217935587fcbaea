package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// TestNewerRecord (C16): what only a newer version reads is called that, whatever else is in it, and is no damaged record; fields
// that are not known harm nobody.
func TestNewerRecord(t *testing.T) {
	read := func(v any, more string) (cluster.Record, error) {
		return record([][]byte{[]byte("2"), fmt.Appendf(nil, `{"v":%v,"kind":"lines",%s}`+"\none", v, more)})
	}
	r, err := read(cluster.Format, `"tomorrow":{"x":1}`)
	require.NoError(t, err)
	assert.Equal(t, []any{cluster.Lines, "one"}, []any{r.Kind, string(r.Lines)})
	for _, shape := range []string{`"n":1`, `"n":"of another shape"`} {
		_, err = read(cluster.Format+1, shape)
		assert.ErrorIs(t, err, cluster.ErrNewer)
		assert.ErrorContains(t, err, fmt.Sprint(cluster.Format+1))
	}
	for _, v := range []any{`"x"`, "1}"} {
		_, err = read(v, `"n":1`)
		assert.ErrorIs(t, err, cluster.ErrDamaged)
	}
	_, err = record([][]byte{[]byte("2"), []byte(`{"v":1}`)})
	assert.ErrorIs(t, err, cluster.ErrDamaged)
}
