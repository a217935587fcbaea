package session

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
	"troupe/tools"
)

// TestBoundProviders checks that an extension in a sandbox has the daemon run no command, and without a network ask no
// address that is not in the catalogue.
func TestBoundProviders(t *testing.T) {
	files, network := tools.Sandbox{Files: tools.SandboxWorkspace}, tools.Sandbox{NoNetwork: true}
	for _, config := range []string{
		`{"apiKey":"!touch x"}`, `{"apiKey":" \t!touch x"}`, `{"headers":{"X":"!touch x"}}`, `{"models":[{"id":"m","headers":{"X":"!touch x"}}]}`,
		`{"modelOverrides":{"m":{"headers":{"X":"!touch x"}}}}`, `{"apiKey":"\u0021touch x"}`,
	} {
		assert.NoError(t, checkBound(tools.Sandbox{}, json.RawMessage(config), false))
		for _, sandbox := range []tools.Sandbox{files, network} {
			assert.ErrorIs(t, checkBound(sandbox, json.RawMessage(config), true), errBoundCommand, config)
		}
	}
	for _, config := range []string{`{"baseUrl":"http://h"}`, `{"models":[{"id":"m","baseUrl":"https://h"}]}`, `{"login":{"tokenUrl":"https://h"}}`} {
		assert.NoError(t, checkBound(files, json.RawMessage(config), false))
		assert.ErrorIs(t, checkBound(network, json.RawMessage(config), false), errBoundAddress, config)
		assert.NoError(t, checkBound(network, json.RawMessage(config), true), "the extension makes the requests, inside")
	}
	catalog := &protocol.Catalog{Models: []*protocol.Model{{Provider: "p", ID: "m", BaseURL: "https://known?key=secret"}}}
	for args, want := range map[string]error{
		`{"model":{"provider":"p","id":"m"}}`: nil, `{"model":{"provider":"p","id":"m","baseUrl":"https://known?key=***"}}`: nil,
		`{"model":{"provider":"p","id":"m","baseUrl":"https://other"}}`: errBoundAddress, `{"model":{"provider":"p","id":"x"}}`: errBoundAddress,
		`{"model":{"provider":"p","id":"m","headers":{"X":"!touch x"}}}`: errBoundCommand,
	} {
		assert.ErrorIs(t, checkBoundModel(network, json.RawMessage(args), catalog), want, args)
	}
	assert.ErrorIs(t, checkBoundModel(files, json.RawMessage(`{"model":{"headers":{"X":"!touch x"}}}`), catalog), errBoundCommand)
	assert.NoError(t, checkBoundModel(files, json.RawMessage(`{"model":{"provider":"q","id":"x","baseUrl":"https://other"}}`), catalog))
}
