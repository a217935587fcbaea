package wire

import "net/http"

// AffinityHeaders tells a service which requests belong together, so that they
// reach the machine that has their prompt cached. format is the compat flag
// sessionAffinityFormat:
//
//	openai            session_id and X-Client-Request-Id; also ""
//	openai-nosession  X-Client-Request-Id, for proxies that refuse the other
//	openrouter        X-Session-Id
//
// Without a session there is nothing to tell.
func AffinityHeaders(h http.Header, format, sessionID string) {
	switch {
	case sessionID == "":
	case format == "openrouter":
		h.Set("X-Session-Id", sessionID)
	default:
		if format != "openai-nosession" {
			h["session_id"] = []string{sessionID} // as it is: some proxies look for exactly this
		}
		h.Set("X-Client-Request-Id", sessionID)
	}
}

// SendsCacheKey says whether a request carries the session id as the key of the
// prompt cache. mode is the compat flag promptCacheKeyMode: session, enabled or
// always for yes; none, disabled or never for no; anything else, as auto, leaves
// it to what is known about the endpoint.
func SendsCacheKey(mode string, known bool) bool {
	switch mode {
	case "session", "enabled", "always":
		return true
	case "none", "disabled", "never":
		return false
	}
	return known
}
