package registry

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers/auth"
)

// TestDocumentedModels holds the long models.json of docs/configuration.md to the program: it
// has every member, no other, and is accepted.
func TestDocumentedModels(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	var long string
	for _, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], "modelOverrides") {
			long = m[1]
		}
	}
	_, err = parseModels([]byte(long), func(id string) bool { return id == "anthropic" || id == "amazon-bedrock" })
	require.NoError(t, err)

	var file struct {
		Providers map[string]providerEntry `json:"providers"`
	}
	strict := jsonv2.RejectUnknownMembers(true)
	require.NoError(t, jsonv2.Unmarshal([]byte(long), &file, strict))
	for _, p := range file.Providers {
		for _, raw := range p.Models {
			require.NoError(t, jsonv2.Unmarshal(raw, new(modelEntry), strict), string(raw))
		}
		for _, raw := range p.ModelOverrides {
			require.NoError(t, jsonv2.Unmarshal(jsontext.Value(raw), new(modelEntry), strict), string(raw))
		}
	}
	for _, of := range []any{providerEntry{}, modelEntry{}, costEntry{}, auth.Device{}, protocol.StallLimits{}, protocol.CostTier{}} {
		typ := reflect.TypeOf(of)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				assert.Contains(t, long, `"`+name+`"`, typ.Name())
			}
		}
	}
}
