package providers

import (
	"context"
	"encoding/json"

	"troupe/protocol"
)

// Registration is a provider that an extension brings along. Config has the form of
// a provider in models.json; one that has models has no others. Stream asks its
// models, nil for whoever speaks their API.
type Registration struct {
	Name   string
	Config json.RawMessage
	Stream Provider
	// Login makes keys of the login that auth.json has for the provider; nil for nobody.
	Login Login
	// Virtual is a model of the provider that has every request answered by another one,
	// which Route names; nil for a registration of something else.
	Virtual *Virtual
}

// Login is what knows the logins of one provider, as auth.json has them: an object with
// access, refresh, expires and whatever else.
type Login interface {
	// Refresh buys another login for one that is over. The store keeps it.
	Refresh(ctx context.Context, login json.RawMessage) (json.RawMessage, error)
	// Key is what requests authenticate with.
	Key(ctx context.Context, login json.RawMessage) (string, error)
}

// Virtual is a model that answers nothing itself.
type Virtual struct {
	Model *protocol.Model
	Route func(ctx context.Context, req Request) (Route, error)
}

// Route is the model that answers a request, and how much it thinks.
type Route struct {
	Provider, ModelID string
	Level             protocol.ThinkingLevel
}

// Taps are what looks at requests on their way, and may change them; nil members look
// at nothing. They are called while a request is made, one after another.
type Taps struct {
	// Body returns the body that is sent in the place of the one it is given.
	Body func(body []byte) []byte
	// Headers returns the headers, by name, one value each.
	Headers func(headers map[string]string) map[string]string
	// Answered is told of the answer before anything of it is read.
	Answered func(status int, headers map[string]string)
	// Event is told of every event of the answer, a JSON object.
	Event func(data []byte)
}
