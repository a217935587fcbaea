package providertest

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/providers"
)

// CheckConverse says which rules of Amazon Bedrock's ConverseStream a request
// breaks, as the service's reference states them.
func CheckConverse(header http.Header, body []byte, req providers.Request) error {
	r := &Rules{}
	r.Must(req.Credentials.Key == "" || header.Get("Authorization") == "Bearer "+req.Credentials.Key, "key")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	r.Must(!v.Get("model").Exists(), "the model is in the path")
	r.Must(v.Get("inferenceConfig.maxTokens").Int() >= 1, "maxTokens")
	r.Must(strings.Count(string(body), `"cachePoint"`) <= 4, "at most four cache points")
	id := req.Model.ID
	r.Must(strings.Contains(id, "anthropic.") || strings.Contains(id, "amazon.nova") || !strings.Contains(string(body), `"cachePoint"`), "cache points where there is no cache")
	r.Must(strings.Contains(id, "anthropic.") || !v.Get("additionalModelRequestFields").Exists(), "fields of another maker's model")
	if budget := v.Get("additionalModelRequestFields.thinking.budget_tokens"); budget.Exists() {
		r.Must(budget.Int() >= 1024 && budget.Int() < v.Get("inferenceConfig.maxTokens").Int(), "1024 <= budget_tokens < maxTokens")
	}
	if system := v.Get("system"); system.Exists() {
		r.Must(strings.TrimSpace(system.Get("0.text").Str) != "", "system: empty text")
	}
	for _, tool := range v.Get("toolConfig.tools").Array() {
		if spec := tool.Get("toolSpec"); spec.Exists() {
			r.Must(safe64.MatchString(spec.Get("name").Str), "tool name %q", spec.Get("name").Str)
			r.Must(spec.Get("inputSchema.json").IsObject(), "inputSchema of %s", spec.Get("name").Str)
		} else {
			r.Must(tool.Get("cachePoint.type").Str == "default" && strings.Contains(id, "anthropic."), "a tool that is none")
		}
	}
	converseMessages(r, v, strings.Contains(id, "anthropic."))
	return r.Err()
}

// converseMessages: roles alternate, no block is empty, and every call is
// answered in the next message.
func converseMessages(r *Rules, v gjson.Result, signed bool) {
	role, seen := "assistant", map[string]bool{}
	var open []string
	messages := v.Get("messages").Array()
	r.Must(len(messages) > 0 && messages[len(messages)-1].Get("role").Str == "user", "the last message is the user's")
	for i, m := range messages {
		r.Must(m.Get("role").Str != role, "message %d: roles alternate", i)
		role = m.Get("role").Str
		blocks := m.Get("content").Array()
		r.Must(len(blocks) > 0, "message %d: no content", i)
		var calls, results []string
		for j, b := range blocks {
			switch {
			case b.Get("text").Exists():
				r.Must(strings.TrimSpace(b.Get("text").Str) != "", "message %d: blank text", i)
			case b.Get("image").Exists():
				r.Must(role == "user", "message %d: an image in an answer", i)
				r.Must(strings.Contains("png jpeg gif webp", b.Get("image.format").Str), "message %d: image format", i)
			case b.Get("toolUse").Exists():
				id := b.Get("toolUse.toolUseId").Str
				r.Must(role == "assistant" && safe64.MatchString(id) && !seen[id], "message %d: toolUseId %q", i, id)
				r.Must(b.Get("toolUse.input").IsObject() && safe64.MatchString(b.Get("toolUse.name").Str), "message %d: toolUse", i)
				seen[id], calls = true, append(calls, id)
			case b.Get("toolResult").Exists():
				results = append(results, b.Get("toolResult.toolUseId").Str)
				r.Must(len(b.Get("toolResult.content").Array()) > 0, "message %d: empty result", i)
				for _, part := range b.Get("toolResult.content").Array() {
					r.Must(part.Get("image").Exists() || part.Get("text").Str != "", "message %d: empty text in a result", i)
				}
			case b.Get("reasoningContent").Exists():
				r.Must(role == "assistant", "message %d: thinking of the user", i)
				r.Must(signed == (b.Get("reasoningContent.reasoningText.signature").Str != "" || b.Get("reasoningContent.redactedContent").Str != ""), "message %d: signature of thinking", i)
			case b.Get("cachePoint").Exists():
				r.Must(role == "user" && i == len(messages)-1 && j == len(blocks)-1, "message %d: cache point in the middle", i)
			default:
				r.Must(false, "message %d: a block of no kind: %s", i, b.Raw)
			}
		}
		r.Must(strings.Join(open, " ") == strings.Join(results, " "), "message %d: calls %v, results %v", i, open, results)
		open = calls
	}
	r.Must(len(seen) == 0 || v.Get("toolConfig.tools.0").Exists(), "a history with calls needs toolConfig")
}
