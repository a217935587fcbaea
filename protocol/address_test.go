package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShownAddress checks that addresses of models are shown without secrets, however they are encoded.
func TestShownAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.example.com/v1":    "https://api.example.com/v1",
		"https://user:SECRET@h/v1":      "https://***@h/v1",
		"https://SECRET@h":              "https://***@h",
		"https://a@b:SECRET@h/v1":       "https://***@h/v1",
		"https://user:SEC%ZZRET@h:x/v1": "https://***@h:x/v1",
		"//user:SECRET@h":               "//***@h",
		"https://h/v1?key=SECRET":       "https://h/v1?key=***",
		"https://h/v1?api-version=2026&x=SECRET&y=SECRET&z&key=#frag": "https://h/v1?api-version=2026&x=***&y=***&z&key=#frag",
		"https://h?KEY=SECRET?SECRET":                                 "https://h?KEY=***",
		"/path/answers.json":                                          "/path/answers.json",
		"https://h/@scope/v1":                                         "https://h/@scope/v1",
	} {
		assert.Equal(t, want, ShownAddress(address))
		m := &Model{ID: "m", Provider: "p", BaseURL: address}
		raw, err := json.Marshal(map[string]any{"a": m, "b": *m, "c": []*Model{m}})
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "SECRET")
		assert.NotContains(t, string(m.AppendJSON(nil)), "SECRET")
		assert.Equal(t, address, m.BaseURL, "it is still asked there")
	}
}
