package extension

import (
	"context"
	"encoding/json"
	"maps"

	"troupe/protocol"
	"troupe/protocol/extension"
	"troupe/providers"
)

// RequestEvents are the events about a request to a model, as it travels.
var RequestEvents = []string{"before_provider_request", "before_provider_headers", "after_provider_response", "provider_stream_event"}

// Taps let extensions look at a request and change it. An extension that fails changes nothing.
func (t *Tools) Taps(ctx context.Context, model *protocol.Model, listens map[string]bool) *providers.Taps {
	taps := &providers.Taps{}
	if listens["before_provider_request"] {
		taps.Body = func(body []byte) []byte {
			var r struct{ Payload json.RawMessage }
			if _, ok := t.says(ctx, "before_provider_request", map[string]any{"type": "before_provider_request", "payload": json.RawMessage(body)}, &r); ok && len(r.Payload) > 0 {
				return r.Payload
			}
			return body
		}
	}
	if listens["before_provider_headers"] {
		taps.Headers = func(headers map[string]string) map[string]string {
			var r struct{ Headers map[string]*string }
			const name = "before_provider_headers"
			if _, ok := t.says(ctx, name, map[string]any{"type": name, "headers": headers}, &r); !ok || r.Headers == nil {
				return headers
			}
			out := map[string]string{}
			for name, value := range r.Headers {
				if value != nil {
					out[name] = *value
				}
			}
			return out
		}
	}
	if listens["after_provider_response"] {
		taps.Answered = func(status int, headers map[string]string) {
			_, _ = t.ask(ctx, map[string]any{"type": "after_provider_response", "status": status, "headers": maps.Clone(headers)}) // only shown
		}
	}
	if listens["provider_stream_event"] {
		taps.Event = func(data []byte) {
			t.tell(map[string]any{"type": "provider_stream_event", "provider": model.Provider, "api": model.API, "model": model.ID, "data": json.RawMessage(data)})
		}
	}
	return taps
}

// aside is above the numbers of all events that a session numbers.
const aside = 1 << 50

// tell shows an event to the extensions that no work waits for.
func (t *Tools) tell(event map[string]any) {
	raw := protocol.JSON(event)
	t.mu.Lock()
	vm := t.vm
	t.last += 2
	n := aside + t.last
	t.mu.Unlock()
	if vm != nil {
		vm.Say(extension.Tell{N: n, Event: raw})
	}
}
