package providers

import "troupe/protocol"

// DefaultStall is how long a model may be silent, unless the model's
// [protocol.ProviderConfig] or the client's configuration says otherwise.
//
//   - Connect, until the response headers: 5 minutes. Most services answer at
//     once, but gateways hold the headers back until the first token.
//   - First, from the headers to the first content: 5 minutes. Models think
//     before they speak, and some do it silently.
//   - Content, between two pieces of content: 5 minutes, the idle time that
//     clients of these services have lived with.
//
// Comments, pings and empty events are no content: a server that only keeps the
// connection alive is cut off. There is no limit on a whole answer: one that
// keeps coming, however slowly, is never cut off.
var DefaultStall = protocol.StallLimits{ConnectMs: 300_000, FirstMs: 300_000, ContentMs: 300_000}

// localStall replaces DefaultStall for servers on this machine or in a private
// network: they load the model and read the whole prompt before they send a
// byte, which on a slow machine takes longer than any service would.
var localStall = protocol.StallLimits{ConnectMs: 1_800_000, FirstMs: 1_800_000, ContentMs: 300_000}

// LimitsFor puts the limits of one exchange together: the model's, else the
// session's, else the default.
func LimitsFor(model *protocol.Model, session protocol.StallLimits) protocol.StallLimits {
	limits := DefaultStall
	if IsLocal(model.BaseURL) {
		limits = localStall
	}
	limits = limits.With(session)
	if model.ProviderConfig != nil {
		limits = limits.With(model.ProviderConfig.Stall)
	}
	return limits
}
