package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
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
		if a.First() {
			sum += len(a.Gzipped())
		}
	}
	assert.Len(t, assets, 8)
	_, look, _ := strings.Cut(page, "<style>")
	look, _, _ = strings.Cut(look, "</style>")
	hash := sha256.Sum256([]byte(look))
	assert.Equal(t, Policy+"; manifest-src 'self'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'", assets["/"].Policy, "the style of the page, and no other")
	assert.NotContains(t, page, "{{")
	assert.Less(t, sum, 110<<10, "gzipped, without the highlighter and the template of exports")
	t.Logf("first load: %d bytes", sum)
}

// TestManifest: a browser can install the page, with icons that the server has.
func TestManifest(t *testing.T) {
	assets, err := Assets()
	require.NoError(t, err)
	page := string(assets["/"].Body)
	_, rest, found := strings.Cut(page, `rel="manifest" href="`)
	require.True(t, found)
	path, _, _ := strings.Cut(rest, `"`)
	require.Equal(t, "application/manifest+json", assets[path].Type)
	var manifest struct {
		StartURL string `json:"start_url"`
		Display  string
		Icons    []struct{ Src, Sizes, Type string }
	}
	require.NoError(t, json.Unmarshal(assets[path].Body, &manifest))
	assert.Equal(t, "/", manifest.StartURL)
	assert.Equal(t, "standalone", manifest.Display)
	require.Len(t, manifest.Icons, 2)
	for _, icon := range manifest.Icons {
		assert.Equal(t, icon.Type, assets[icon.Src].Type, icon.Src)
	}
	config, err := png.DecodeConfig(bytes.NewReader(assets[manifest.Icons[1].Src].Body))
	require.NoError(t, err)
	assert.Equal(t, manifest.Icons[1].Sizes, fmt.Sprintf("%dx%d", config.Width, config.Height))
}
