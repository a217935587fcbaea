package web

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWeight: the first load is small, and asks for nothing that is not there.
func TestWeight(t *testing.T) {
	assets, err := Assets()
	require.NoError(t, err)
	page := string(assets["/"].Body)
	sum := len(assets["/"].Gzipped())
	for path, a := range assets {
		if path == "/" {
			continue
		}
		assert.True(t, a.Forever)
		assert.Contains(t, page, `"`+path+`"`)
		if !strings.HasSuffix(path, "highlight.js") {
			sum += len(a.Gzipped())
		}
	}
	assert.Len(t, assets, 5)
	assert.NotContains(t, page, "{{")
	assert.Less(t, sum, 95<<10, "gzipped, without the highlighter")
}
