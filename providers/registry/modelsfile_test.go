package registry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

func FuzzModelsFile(f *testing.F) {
	f.Add([]byte(sampleModels))
	f.Add([]byte(`{"providers":{"a":{"baseUrl":"x","compat":{"openRouterRouting":{}},"models":[{"id":"m","cost":{"tiers":[{}]}}],"modelOverrides":{"z":{"compat":null}}},}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseModels(text, func(provider string) bool { return provider == "anthropic" })
		if err != nil {
			require.Empty(t, list)
			return
		}
		for _, c := range list {
			for i := range c.models {
				model := c.build(c.id, &c.models[i])
				require.NotEmpty(t, model.Levels())
				require.True(t, len(model.ProviderConfig.Compat) == 0 || protocol.ValidJSON(model.ProviderConfig.Compat), "%s", model.ProviderConfig.Compat)
			}
		}
	})
}
