package providertest

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/providers"
)

// CheckResponses says which rules of the Responses API a request breaks, as the
// API's reference and its error texts state them.
func CheckResponses(header http.Header, body []byte, req providers.Request) error {
	r := &responsesRules{req: req, calls: map[string]bool{}, ids: map[string]bool{}, open: map[string]bool{}}
	r.Must(header.Get("Authorization") == "Bearer "+req.Credentials.Key, "key")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	r.Must(v.Get("model").Str != "" && v.Get("stream").Bool(), "model, stream")
	r.Must(v.Get("store").Type == gjson.False, "store:false")
	r.Must(v.Get("max_output_tokens").Int() >= 16, "max_output_tokens: expected a value >= 16")
	reasons := req.Model.Reasoning
	r.Must(reasons || !v.Get("reasoning").Exists() && !v.Get("include").Exists(), "reasoning.effort is not supported with this model")
	r.Must(!reasons || v.Get("include.0").Str == "reasoning.encrypted_content", "include")
	r.Must((v.Get("prompt_cache_key").Str != "") == (req.Cache != providers.CacheNone), "prompt_cache_key")
	some := r.tools(v.Get("tools").Array(), "name", "parameters", safe64) > 0
	r.Must(!v.Get(`tools.#(type!="function")`).Exists(), "tools that are no functions")
	r.Must(!v.Get("tools").Exists() || some, "empty tools")
	r.input(v.Get("input").Array())
	return r.Err()
}

type responsesRules struct {
	Rules
	req   providers.Request
	calls map[string]bool // every call_id so far
	ids   map[string]bool // every item id so far
	open  map[string]bool // calls that wait for their output
}

func (r *responsesRules) input(list []gjson.Result) {
	r.Must(len(list) > 0, "input: empty array")
	reasoning := "" // a reasoning item that nothing followed yet
	for i, item := range list {
		kind, role := item.Get("type").Str, item.Get("role").Str
		kind = cmp.Or(kind, "message")
		if reasoning != "" {
			ours := kind == "reasoning" || kind == "function_call" || kind == "message" && role == "assistant"
			r.Must(ours, "Item %q of type 'reasoning' was provided without its required following item", reasoning)
		}
		reasoning = ""
		r.Must(role != "user" || len(r.open) == 0, "No tool output found for function call %v", r.open)
		if id := item.Get("id"); id.Exists() {
			r.Must(safe64.MatchString(id.Str), "input[%d].id %q", i, id.Str)
			r.Must(!r.ids[id.Str], "Duplicate item found with id %q", id.Str)
			r.ids[id.Str] = true
		}
		switch kind {
		case "message":
			r.message(item, role, i)
		case "reasoning":
			reasoning = item.Get("id").Str
			r.Must(strings.HasPrefix(reasoning, "rs"), "reasoning id %q", reasoning)
			r.Must(item.Get("summary").IsArray(), "reasoning: summary")
			r.Must(item.Get("encrypted_content").Str != "" || len(item.Get("content").Array()) > 0,
				"Item %q not found. Items are not persisted when `store` is set to false", reasoning)
		case "function_call":
			r.call(item)
		case "function_call_output":
			id := item.Get("call_id").Str
			r.Must(r.open[id], "No tool call found for function call output with call_id %q", id)
			delete(r.open, id)
			r.output(item.Get("output"))
		default:
			r.Must(false, "input[%d].type %q", i, kind)
		}
	}
	r.Must(len(r.open) == 0, "No tool output found for function call %v", r.open)
	r.Must(reasoning == "", "reasoning %q was provided without its required following item", reasoning)
}

func (r *responsesRules) message(item gjson.Result, role string, i int) {
	content := item.Get("content")
	switch role {
	case "system", "developer":
		r.Must(i == 0 && strings.TrimSpace(content.Str) != "", "system")
		r.Must(role == "system" || r.req.Model.Reasoning, "developer")
	case "user":
		r.Must(len(content.Array()) > 0, "user content")
		r.parts(content)
	case "assistant":
		r.Must(strings.HasPrefix(item.Get("id").Str, "msg"), "Expected an ID that begins with 'msg', not %q", item.Get("id").Str)
		r.Must(len(content.Array()) > 0, "assistant content")
		for _, part := range content.Array() {
			r.Must(part.Get("type").Str == "output_text", "assistant part %q", part.Get("type").Str)
			r.Must(strings.TrimSpace(part.Get("text").Str) != "", "assistant text")
		}
	default:
		r.Must(false, "role %q", role)
	}
}

func (r *responsesRules) parts(content gjson.Result) {
	for _, part := range content.Array() {
		switch part.Get("type").Str {
		case "input_text":
			r.Must(strings.TrimSpace(part.Get("text").Str) != "", "input_text")
		case "input_image":
			r.Must(r.req.Model.Accepts("image") && !r.req.BlockImages, "image that nobody wants")
			r.Must(strings.HasPrefix(part.Get("image_url").Str, "data:image/png;base64,iVBOR"), "data URL")
		default:
			r.Must(false, "input part %q", part.Get("type").Str)
		}
	}
}

func (r *responsesRules) call(item gjson.Result) {
	id := item.Get("call_id").Str
	r.Must(safe64.MatchString(id), "call_id %q", id)
	r.Must(!r.calls[id], "call_id %q twice", id)
	if own := item.Get("id"); own.Exists() {
		r.Must(strings.HasPrefix(own.Str, "fc"), "Expected an ID that begins with 'fc', not %q", own.Str)
	}
	r.Must(safe64.MatchString(item.Get("name").Str), "function name %q", item.Get("name").Str)
	args := item.Get("arguments").Str
	r.Must(jsontext.Value(args).IsValid() && gjson.Parse(args).IsObject(), "arguments %q", args)
	r.calls[id], r.open[id] = true, true
}

func (r *responsesRules) output(v gjson.Result) {
	if v.IsArray() {
		r.Must(len(v.Array()) > 0, "empty output")
		r.parts(v)
		return
	}
	r.Must(v.Type == gjson.String && v.Str != "", "output")
}
