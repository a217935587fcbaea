package registry

import (
	"encoding/json"
	"errors"
	"strings"

	"troupe/protocol"
	"troupe/providers"
)

// cloudNamed is the cloud that a provider belongs to, nil for none.
func (r *Registry) cloudNamed(provider string) providers.Cloud {
	if custom := r.custom(provider); custom != nil && custom.Auth != "" {
		return r.config.Clouds[custom.Auth]
	}
	return r.config.Clouds[providers.VendorOf(provider).Cloud]
}

// cloudOf is the cloud whose credentials a provider's requests may have: that of
// models.json, or else the vendor's if there are credentials.
func (r *Registry) cloudOf(provider string) providers.Cloud {
	cloud := r.cloudNamed(provider)
	if custom := r.custom(provider); cloud == nil || custom != nil && custom.Auth != "" {
		return cloud
	}
	if cloud.Found(r.secrets.lookup(r.auth.Entries[provider].Env)) {
		return cloud
	}
	return nil
}

// withRegion is env where AWS has a region in any case: the cloud finds one when
// it is needed.
func withRegion(env func(string) string) func(string) string {
	return func(name string) string {
		if value := env(name); value != "" || name != "AWS_REGION" {
			return value
		}
		return "us-east-1"
	}
}

// onVertex says that Vertex AI serves a model of Anthropic, whose requests have
// another form there.
var onVertex = json.RawMessage(`{"vertexRequests":true}`)

// placeOf is a model with the address at which it is asked, and how requests
// depart from its wire there. keyed says that the request goes with a key.
func placeOf(model *protocol.Model, cloud providers.Cloud, keyed bool, env func(string) string) (*protocol.Model, *protocol.StreamError) {
	address := model.BaseURL
	if cloud != nil {
		var err error
		if address, err = cloud.Address(address, keyed, env); err != nil {
			if known, is := errors.AsType[*protocol.StreamError](err); is {
				return nil, known
			}
			return nil, protocol.ErrorInvalid.Errorf("The address of %s: %v", model.Provider, err)
		}
	}
	address, missing := fillURL(address, env)
	if isAzureProvider(model.Provider) {
		address = azureURL(address, env("AZURE_OPENAI_API_VERSION"))
	}
	if missing != "" {
		return nil, protocol.ErrorInvalid.Errorf("The address of %s is not known: set %s", model.Provider, missing)
	}
	vertex := model.API == "anthropic-messages" && strings.Contains(address, "/publishers/anthropic")
	if address == model.BaseURL && !vertex {
		return model, nil
	}
	placed := *model
	placed.BaseURL = address
	if vertex {
		return withCompat(&placed, onVertex), nil
	}
	return &placed, nil
}

// withCompat is a model whose requests depart further from its wire, unless what is
// configured says otherwise.
func withCompat(model *protocol.Model, compat json.RawMessage) *protocol.Model {
	if len(compat) == 0 {
		return model
	}
	out, extra := *model, protocol.ProviderConfig{}
	if model.ProviderConfig != nil {
		extra = *model.ProviderConfig
	}
	extra.Compat = mergeCompat(compat, extra.Compat)
	out.ProviderConfig = &extra
	return &out
}
