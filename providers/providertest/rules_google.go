package providertest

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/providers"
)

var googleName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// GoogleRules are the rules of the Gemini API in which models differ.
type GoogleRules struct {
	Signed bool // Gemini 3: the first call of an answer carries a signature
	Nested bool // images stand inside of tool results
	Levels bool // thinks by level, not by budget
}

// CheckGoogle says which rules of the Gemini API a request breaks, as the API's
// reference and its error texts state them.
func CheckGoogle(header http.Header, body []byte, req providers.Request, own GoogleRules) error {
	r := &googleRules{req: req, own: own}
	r.Must(header.Get("X-Goog-Api-Key") == req.Credentials.Key && header.Get("Authorization") == "", "key")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	if system := v.Get("systemInstruction"); system.Exists() {
		r.Must(strings.TrimSpace(system.Get("parts.0.text").Str) != "", "systemInstruction")
	}
	some := r.tools(v.Get("tools.0.functionDeclarations").Array(), "name", "parametersJsonSchema", googleName) > 0
	r.Must(!v.Get("tools").Exists() || some, "empty tools")
	r.config(v.Get("generationConfig"))
	r.contents(v.Get("contents").Array())
	return r.Err()
}

type googleRules struct {
	Rules
	req providers.Request
	own GoogleRules
}

func (r *googleRules) config(v gjson.Result) {
	r.Must(v.Get("maxOutputTokens").Int() >= 1, "maxOutputTokens")
	thinking := v.Get("thinkingConfig")
	r.Must(r.req.Model.Reasoning || !thinking.Exists(), "thinking for a model that does not")
	r.Must(r.own.Levels || !thinking.Get("thinkingLevel").Exists(), "Thinking level is not supported for this model")
	r.Must(!r.own.Levels || !thinking.Get("thinkingBudget").Exists(), "a budget for a model that thinks by level")
	switch level := thinking.Get("thinkingLevel"); level.Str {
	case "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH":
	default:
		r.Must(!level.Exists(), "thinkingLevel %q", level.Str)
	}
	budget := thinking.Get("thinkingBudget").Int()
	r.Must(budget >= -1 && budget <= 32768, "thinkingBudget %d", budget)
}

func (r *googleRules) contents(list []gjson.Result) {
	r.Must(len(list) > 0, "contents are required")
	var calls []string // of the content before
	before := ""
	for i, content := range list {
		role, parts := content.Get("role").Str, content.Get("parts").Array()
		r.Must(len(parts) > 0, "contents[%d].parts must not be empty", i)
		r.Must(role == "user" || role == "model", "Please use a valid role: user, model")
		r.Must(i > 0 || role == "user", "the first content must be the user's")
		r.Must(role == "user" || before != "model", "two contents of the model in a row")
		var called, answered []string
		for _, part := range parts {
			r.part(part, role)
			if call := part.Get("functionCall"); call.Exists() {
				called = append(called, call.Get("name").Str)
				signature := part.Get("thoughtSignature").Str
				r.Must(!r.own.Signed || len(called) > 1 || signature != "", "Function call is missing a thought_signature")
			}
			if result := part.Get("functionResponse"); result.Exists() {
				answered = append(answered, result.Get("name").Str)
			}
		}
		r.Must(len(answered) == 0 || len(answered) == len(parts), "results and other parts in one content")
		r.Must(strings.Join(answered, ",") == strings.Join(calls, ","),
			"the number of function response parts must equal the number of function call parts: %q, %q", answered, calls)
		calls, before = called, role
	}
	r.Must(len(calls) == 0 && before == "user", "the last content must be the user's")
}

func (r *googleRules) part(part gjson.Result, role string) {
	signature := part.Get("thoughtSignature")
	if signature.Exists() && signature.Str != "skip_thought_signature_validator" {
		_, err := base64.StdEncoding.DecodeString(signature.Str)
		r.Must(err == nil && signature.Str != "", "thoughtSignature: Base64 decoding failed for %q", signature.Str)
	}
	r.Must(role == "model" || !signature.Exists() && !part.Get("thought").Exists(), "thinking of the user")
	switch {
	case part.Get("text").Exists():
		text := part.Get("text").Str
		r.Must(text != "" || signature.Exists(), "required oneof field 'data' must have one initialized field")
		r.Must(role == "model" || strings.TrimSpace(text) != "", "empty text of the user")
	case part.Get("inlineData").Exists():
		r.image(part)
	case part.Get("functionCall").Exists():
		call := part.Get("functionCall")
		r.Must(role == "model", "call of the user")
		r.Must(googleName.MatchString(call.Get("name").Str), "function name %q", call.Get("name").Str)
		r.Must(call.Get("args").IsObject(), "args must be a Struct")
	case part.Get("functionResponse").Exists():
		r.result(part.Get("functionResponse"), role)
	default:
		r.Must(false, "part %s", part.Raw)
	}
}

func (r *googleRules) image(part gjson.Result) {
	r.Must(r.req.Model.Accepts("image") && !r.req.BlockImages, "image that nobody wants")
	r.Must(part.Get("inlineData.mimeType").Str == "image/png" && part.Get("inlineData.data").Str != "", "inlineData")
}

func (r *googleRules) result(v gjson.Result, role string) {
	r.Must(role == "user", "result of the model")
	r.Must(googleName.MatchString(v.Get("name").Str), "function name %q", v.Get("name").Str)
	r.Must(v.Get("response.output").Str != "" || v.Get("response.error").Str != "", "function_response.response")
	r.Must(r.own.Nested || !v.Get("parts").Exists(), "Multimodal function response is not supported for this model")
	for _, part := range v.Get("parts").Array() {
		r.image(part)
	}
}
