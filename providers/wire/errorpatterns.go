package wire

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"troupe/protocol"
)

// specificWords are error types and codes that mean one thing wherever they
// appear, in lower case.
var specificWords = words(map[protocol.ErrorKind]string{
	protocol.ErrorQuota: `insufficient_quota billing_error billing_hard_limit_reached billing_not_active quota_exceeded
		exceeded_current_quota_error insufficient_balance insufficient_credits insufficient_funds payment_required
		usage_limit_reached usage_not_included usage_limit_exceeded credits_exhausted credit_limit_reached
		monthly_limit_reached monthlylimiterror gousagelimiterror freeusagelimiterror creditserror arrearage
		quota_limit_exceeded spend_limit_exceeded out_of_budget budget_exceeded
		1008 1113 1308 1309 1310`,
	protocol.ErrorOverflow: `context_length_exceeded request_too_large model_context_window_exceeded
		exceed_context_size_error context_window_exceeded contextwindowexceedederror prompt_too_long input_too_long
		max_tokens_per_request_exceeded 1261`,
	protocol.ErrorAuth: `authentication_error invalid_api_key permission_error permission_denied unauthenticated
		invalid_authentication_error unauthorized account_deactivated expired_api_key token_expired incorrect_api_key_error
		api_key_invalid api_key_expired invalidapikey accessdenied access_denied accessdeniedexception
		unrecognizedclientexception expiredtokenexception missing_api_key authenticationerror permissiondeniederror
		unsupported_country_region_territory consumer_suspended api_key_service_blocked 1004`,
	protocol.ErrorRefusal: `content_filter content_policy_violation responsibleaipolicyviolation datainspectionfailed
		data_inspection_failed content_policy content_moderation moderation_blocked 1301 1026 1027`,
	protocol.ErrorRateLimit: `rate_limit_error rate_limit_exceeded rate_limit_reached_error rate_limited ratelimited
		ratelimitreached ratelimiterror too_many_requests toomanyrequests throttling throttlingexception
		throttling.ratequota throttling.allocationquota throttled limit_requests limit_burst_rate
		rate_limit_exceeded_error concurrency_limit_exceeded 1002 1039 1302 1303`,
	protocol.ErrorOverloaded: `overloaded_error overloaded server_is_overloaded engine_overloaded_error engine_overloaded
		model_overloaded unavailable service_unavailable service_unavailable_error serviceunavailable
		serviceunavailableexception serviceunavailableerror slow_down insufficient_system_resource capacity_exceeded
		flex_capacity_exceeded no_capacity modelnotreadyexception 1305`,
})

// genericWords count only where the status says nothing.
var genericWords = words(map[protocol.ErrorKind]string{
	protocol.ErrorServer: `api_error internal_error internalerror internal_server_error internalservererror server_error
		servererror internal upstream_error timeout_error timeout gateway_timeout deadline_exceeded bad_gateway
		provider_error proxy_error stream_error internalfailure internalserverexception modelstreamerrorexception
		modeltimeoutexception apierror cancelled`,
	protocol.ErrorInvalid: `invalid_request_error invalid_request bad_request badrequesterror bad_request_error
		invalid_argument not_found_error not_found notfounderror model_not_found unprocessable_entity validationexception
		invalidparameter invalid_parameter_error failed_precondition invalid_prompt unsupported_parameter
		unsupported_value invalid_value resourcenotfoundexception`,
})

// words turns lists by kind into a table by word, when it is first needed.
func words(lists map[protocol.ErrorKind]string) func() map[string]protocol.ErrorKind {
	return sync.OnceValue(func() map[string]protocol.ErrorKind {
		table := map[string]protocol.ErrorKind{}
		for kind, list := range lists {
			for _, word := range strings.Fields(list) {
				table[word] = kind
			}
		}
		return table
	})
}

// statusKinds are the statuses that differ from their class: 5xx is the
// server's fault, 3xx and 4xx ours.
var statusKinds = map[int]protocol.ErrorKind{
	http.StatusUnauthorized:       protocol.ErrorAuth,
	http.StatusPaymentRequired:    protocol.ErrorQuota,
	http.StatusForbidden:          protocol.ErrorAuth,
	http.StatusProxyAuthRequired:  protocol.ErrorAuth,
	http.StatusRequestTimeout:     protocol.ErrorServer,
	http.StatusConflict:           protocol.ErrorServer, // official clients retry it: a lock on the other side
	http.StatusTooEarly:           protocol.ErrorServer,
	http.StatusTooManyRequests:    protocol.ErrorRateLimit,
	http.StatusNotImplemented:     protocol.ErrorInvalid,
	http.StatusServiceUnavailable: protocol.ErrorOverloaded,
	498:                           protocol.ErrorOverloaded, // Groq: flex capacity exceeded
	499:                           protocol.ErrorServer,     // a proxy lost its patience
	529:                           protocol.ErrorOverloaded, // Anthropic
}

// phrases compiles alternatives into one expression that ignores case, when it
// is first needed.
func phrases(alternatives ...string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?is)" + strings.Join(alternatives, "|"))
	})
}

var (
	// overflowText is how services say that the context is larger than the
	// model's window.
	overflowText = phrases(
		`prompt is too long`, // Anthropic
		`request_too_large`,  // Anthropic
		"input length and `?max_tokens`? exceed context limit", // Anthropic, before answers were cut at the window
		`input is too long for requested model`,                // Bedrock
		`exceeds the context window`,                           // OpenAI
		`input token count.*exceeds the maximum`,               // Google
		`maximum prompt length is \d+`,                         // xAI
		`reduce the length of the messages`,                    // Groq
		`maximum context length (is|of) \d+`,                   // OpenRouter, vLLM, DeepSeek and many gateways
		`exceeds the limit of \d+`,                             // GitHub Copilot
		`exceeds the available context size`,                   // llama.cpp
		`greater than the context length`,                      // LM Studio
		`context window exceeds limit`,                         // MiniMax
		`exceeded model token limit`,                           // Moonshot, Kimi
		`too large for model with \d+ maximum context length`,  // Mistral
		`model_context_window_exceeded`,                        // z.ai
		`prompt exceeds max length`,                            // z.ai
		`prompt too long; exceeded (max )?context length`,      // Ollama
		`range of input length should be`,                      // DashScope
		`longer than the model'?s context length`,              // SGLang
		`context (the )?overflows`,                             // LM Studio
		`reached context length of \d+`,                        // LM Studio
		`max_tokens must be at least 1, got -\d+`,              // vLLM, before it named the window
		"`?inputs`? must have less than \\d+ tokens",           // TGI
		`max(imum)? input tokens? (is|of) \d+`,                 // SiliconFlow and gateways
		`less than max_seq_len`,                                // SiliconFlow, with code 20015
		`exceeds? max(imum)? (message|input|prompt) tokens?`,   // Volcengine
		`input length \d+ exceeds the maximum length`,          // Volcengine
		"`?inputs?`? tokens \\+ `?max_new_tokens`? must be",    // Together, TGI
		`ContextWindowExceeded`,                                // LiteLLM
		`context[_ ]length[_ ]exceeded`,
		`too many tokens`,
		`token limit exceeded`,
	)

	// parameterText is about a member of the request. Its name may be any word of the lists below.
	parameterText = phrases(
		`(unknown|unrecogni[sz]ed|unsupported|unexpected|invalid|extra|additional) (request )?(parameter|argument|field|propert|keyword|option)`,
		`(parameter|argument|field|property|option)s?\b.{0,60}(not (supported|allowed|permitted|recogni[sz]ed|valid)|must be)`,
		`extra inputs are not permitted`,
	)
	// passedOnText is all that a gateway says that answers 400 for a failure of another server. It stands at the
	// beginning: inside of a sentence the same words are names.
	passedOnText = phrases(
		`^(provider returned error|upstream (connect|request)|bad gateway|gateway time|internal server error|service unavailable)`,
		`^(socket hang up|fetch failed|connection (error|refused|reset|closed))`,
		`^(throttl(ing|ed)|rate limit(ed)?( reached| exceeded)?|too many requests|overloaded)\s*([:.!,]|$)`,
	)

	quotaText = phrases(
		`insufficient[_ ]quota`, `exceeded your current quota`, `quota (has been |was )?exceeded`,
		`exceeded .{0,40}\bquota\b`, `\bbilling\b`, `credit balance`, `insufficient (account )?(balance|credit|fund)`,
		`available balance`, `balance (is )?(not enough|too low|insufficient)`, `out of (budget|credits)`,
		`(requires|need|add) more credits`, `usage limit`, `monthly (usage |spend(ing)? )?limit`, `spend(ing)? limit`,
		`payment required`, `please recharge`, `no resource package`, `in arrears`, `余额不足`, `欠费`,
	)
	// perMinuteText marks a quota that fills up again by itself.
	perMinuteText = phrases(`per[ _-]?(minute|min|second)\b`, `PerMinute`, `\b[rt]pm\b`)

	authText = phrases(
		`(invalid|incorrect|missing|expired|revoked) (x-)?api[ _-]?key`,
		`api[ _-]?key (is )?(not valid|invalid|expired|not found|missing|disabled)`,
		`no (api[ _-]?key|auth credentials|cookie auth credentials)`,
		`authentication (failed|required|error)`, `invalid (bearer |access |auth(entication)? )?(token|credentials)`,
		`\bunauthori[sz]ed\b`, `not authorized`, `permission denied`,
	)
	refusalText = phrases(
		`content management policy`, `content[_ -]?filter`, `content policy`, `usage polic(y|ies)`, `data.?inspection`,
		`inappropriate content`, `flagged (as|by|for)`, `blocked by .{0,40}(safety|moderation)`,
	)
	rateText = phrases(
		`rate.?limit`, `too many requests`, `throttl`, `retry delay`, `requests per (minute|second|hour|day)`,
		`resource.?(has been )?exhausted`, `concurrency limit`, `please wait before`,
	)
	overloadText = phrases(
		`overloaded`, `(at|over|no|insufficient|out of) capacity`, `capacity (exceeded|constraints)`, `temporarily unavailable`,
		`service.?(is )?(currently )?unavailable`, `(high|heavy) (demand|load|traffic)`, `(server|system|model) is (currently )?(too )?busy`,
		`currently loading`, `no available (channel|worker|instance|server|backend)`, `no healthy upstream`,
	)
	networkText = phrases(
		`connection.?(error|refused|lost|reset|closed|aborted|timed)`, `socket hang up`, `\bECONN(RESET|REFUSED|ABORTED)\b`,
		`\bE(TIMEDOUT|PIPE|AI_AGAIN)\b`, `timed? ?out`, `network.?error`, `upstream.?connect`, `reset before headers`,
		`other side closed`, `fetch failed`, `premature close`, `unexpected EOF`, `http/?2`, `websocket closed`,
	)
	serverText = phrases(
		`internal.?(server.?)?error`, `server.?error`, `bad gateway`, `gateway.?time`, `provider returned error`,
		`terminated`, `ended without`, `try again`, `an error occurred while processing`,
	)
)
