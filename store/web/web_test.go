package web

import (
	"crypto/sha256"
	"encoding/base64"
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
	assert.Len(t, assets, 4)
	_, look, _ := strings.Cut(page, "<style>")
	look, _, _ = strings.Cut(look, "</style>")
	hash := sha256.Sum256([]byte(look))
	assert.Equal(t, Policy+"; style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'", assets["/"].Policy, "the style of the page, and no other")
	assert.NotContains(t, page, "{{")
	assert.Less(t, sum, 95<<10, "gzipped, without the highlighter")
}
