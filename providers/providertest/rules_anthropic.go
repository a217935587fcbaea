package providertest

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/providers"
)

var anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// CheckAnthropic says which rules of the Messages API a request breaks, as the
// API's reference and its error texts state them.
func CheckAnthropic(header http.Header, body []byte, req providers.Request) error {
	r := &anthropicRules{req: req, seen: map[string]bool{}}
	r.Must(header.Get("X-Api-Key") == req.Credentials.Key && header.Get("Authorization") == "", "key")
	r.Must(header.Get("Anthropic-Version") == "2023-06-01", "anthropic-version")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	r.Must(v.Get("model").Str != "", "model")
	r.Must(v.Get("max_tokens").Int() >= 1, "max_tokens")
	r.Must(v.Get("stream").Bool(), "stream")
	r.Must(strings.Count(string(body), `"cache_control"`) <= 4, "at most four cache breakpoints")
	r.thinking(v, header.Get("Anthropic-Beta"))
	if system := v.Get("system"); system.Exists() {
		r.Must(strings.TrimSpace(system.Get("0.text").Str) != "", "system: text content blocks must be non-empty")
	}
	r.tools(v)
	r.messages(v.Get("messages").Array())
	return r.Err()
}

type anthropicRules struct {
	Rules
	req  providers.Request
	seen map[string]bool
}

func (r *anthropicRules) thinking(v gjson.Result, beta string) {
	thinking := v.Get("thinking")
	r.Must(!thinking.Exists() || r.req.Model.Reasoning, "thinking for a model that does not")
	if thinking.Get("type").Str == "enabled" {
		budget := thinking.Get("budget_tokens").Int()
		r.Must(budget >= 1024 && budget < v.Get("max_tokens").Int(), "1024 <= budget_tokens < max_tokens")
		r.Must(strings.Contains(beta, "interleaved-thinking-2025-05-14"), "interleaved thinking needs its header")
	}
}

func (r *anthropicRules) tools(v gjson.Result) {
	some := r.Rules.tools(v.Get("tools").Array(), "name", "input_schema", anthropicName) > 0
	r.Must(some || !v.Get("messages.#.content.#(type==\"tool_use\")|0").Exists(), "tool_use blocks need tools")
	r.Must(some || !v.Get("tool_choice").Exists(), "tool_choice without tools")
}

func (r *anthropicRules) messages(list []gjson.Result) {
	r.Must(len(list) > 0, "messages: at least one message is required")
	role := "assistant"
	var open []string // calls that the next message must answer
	for i, m := range list {
		r.Must(m.Get("role").Str != role, "roles must alternate")
		role = m.Get("role").Str
		content := m.Get("content").Array()
		r.Must(len(content) > 0, "content must be non-empty")
		if role == "assistant" {
			open = r.assistant(content)
		} else {
			r.user(content, open)
			open = nil
		}
		r.Must(i < len(list)-1 || role == "user", "the conversation must end with a user message")
	}
}

func (r *anthropicRules) assistant(content []gjson.Result) (calls []string) {
	for i, b := range content {
		switch b.Get("type").Str {
		case "text":
			r.Must(strings.TrimSpace(b.Get("text").Str) != "", "text content blocks must contain non-whitespace text")
		case "thinking", "redacted_thinking":
			r.Must(b.Get("signature").Str != "" || b.Get("data").Str != "", "thinking needs a signature")
			r.Must(i < len(content)-1, "the final block in an assistant message cannot be thinking")
		case "tool_use":
			id := b.Get("id").Str
			r.Must(safe64.MatchString(id), "tool_use.id %q", id)
			r.Must(!r.seen[id], "tool_use ids must be unique: %q", id)
			r.Must(anthropicName.MatchString(b.Get("name").Str), "tool_use.name %q", b.Get("name").Str)
			r.Must(b.Get("input").IsObject(), "tool_use.input must be an object")
			r.seen[id] = true
			calls = append(calls, id)
		default:
			r.Must(false, "assistant block %q", b.Get("type").Str)
		}
	}
	return calls
}

func (r *anthropicRules) user(content []gjson.Result, open []string) {
	answered := map[string]bool{}
	others := false
	for _, b := range content {
		switch b.Get("type").Str {
		case "tool_result":
			id := b.Get("tool_use_id").Str
			r.Must(!others, "tool results must come first")
			r.Must(!answered[id] && strings.Contains(strings.Join(open, " ")+" ", id+" "), "unexpected tool_use_id %q", id)
			answered[id] = true
			r.Must(b.Get("content").Str != "" || len(b.Get("content").Array()) > 0, "tool_result content")
			for _, inner := range b.Get("content").Array() {
				r.input(inner)
			}
		default:
			others = true
			r.input(b)
		}
	}
	r.Must(len(answered) == len(open), "tool_use ids without tool_result blocks immediately after: %q", open)
}

func (r *anthropicRules) input(b gjson.Result) {
	switch b.Get("type").Str {
	case "text":
		r.Must(strings.TrimSpace(b.Get("text").Str) != "", "text content blocks must contain non-whitespace text")
	case "image":
		r.Must(r.req.Model.Accepts("image") && !r.req.BlockImages, "image that nobody wants")
		r.Must(strings.HasPrefix(b.Get("source.media_type").Str, "image/") && b.Get("source.data").Str != "", "image source")
	case "":
		r.Must(b.Type == gjson.String && b.Str != "", "content of a tool result")
	default:
		r.Must(false, "user block %q", b.Get("type").Str)
	}
}
