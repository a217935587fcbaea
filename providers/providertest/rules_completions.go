package providertest

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/providers"
)

var nineLetters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// CompletionsRules are the rules of chat completions in which endpoints differ.
type CompletionsRules struct {
	Developer     bool // the role developer is known
	Alternate     bool // templates insist that user and assistant alternate
	Bridge        bool // no user may follow a tool result
	ResultNames   bool // tool results name the tool
	NineLetterIDs bool // Mistral: ids of calls have nine letters and digits
	ShortIDs      bool // OpenAI: ids of calls have at most 40 characters
}

// CheckCompletions says which rules a request breaks: those of the chat
// completions reference, and those of strict endpoints.
func CheckCompletions(header http.Header, body []byte, req providers.Request, own CompletionsRules) error {
	r := &completionsRules{req: req, own: own, seen: map[string]bool{}}
	r.Must(header.Get("Authorization") == "Bearer "+req.Credentials.Key, "key")
	r.Must(jsontext.Value(body).IsValid(), "UTF-8, surrogates, duplicate names")
	v := gjson.ParseBytes(body)
	r.Must(v.Get("model").Str != "" && v.Get("stream").Bool(), "model, stream")
	r.Must(v.Get("max_tokens").Int()+v.Get("max_completion_tokens").Int() >= 1, "a limit of the answer")
	some := r.tools(v.Get("tools").Array(), "function.name", "function.parameters", safe64) > 0
	r.Must(!v.Get(`tools.#(type!="function")`).Exists(), "tools that are no functions")
	r.Must(!v.Get("tools").Exists() || some, "[] is too short - 'tools'")
	r.Must(req.Model.Reasoning || !v.Get("reasoning_effort").Exists() && !v.Get("reasoning").Exists() && !v.Get("thinking").Exists(), "thinking for a model that does not")
	r.messages(v.Get("messages").Array())
	return r.Err()
}

type completionsRules struct {
	Rules
	req  providers.Request
	own  CompletionsRules
	seen map[string]bool
	open map[string]bool // calls that wait for their result
}

func (r *completionsRules) messages(list []gjson.Result) {
	r.Must(len(list) > 0, "messages must not be empty")
	before := ""
	for i, m := range list {
		role := m.Get("role").Str
		r.Must(role == "tool" || len(r.open) == 0, "tool_call_ids without response messages")
		switch role {
		case "system", "developer":
			r.Must(i == 0, "system must be first")
			r.Must(role == "system" || r.req.Model.Reasoning && r.own.Developer, "developer")
			r.Must(strings.TrimSpace(m.Get("content").String()) != "", "system content")
		case "user":
			r.Must(!r.own.Alternate || before != "user", "roles must alternate")
			r.Must(!r.own.Bridge || before != "tool", "user after tool")
			r.user(m.Get("content"))
		case "assistant":
			r.assistant(m)
		case "tool":
			id := m.Get("tool_call_id").Str
			r.Must(r.open[id], "unexpected tool_call_id %q", id)
			delete(r.open, id)
			r.Must(m.Get("content").Type == gjson.String && m.Get("content").Str != "", "tool content")
			r.Must(!r.own.ResultNames || m.Get("name").Str != "", "tool name")
		default:
			r.Must(false, "role %q", role)
		}
		before = role
	}
	r.Must(len(r.open) == 0, "tool_call_ids without response messages")
	r.Must(!r.own.Alternate || before != "assistant", "expected last role user or tool")
}

func (r *completionsRules) user(content gjson.Result) {
	if content.Type == gjson.String {
		r.Must(strings.TrimSpace(content.Str) != "", "user content")
		return
	}
	parts := content.Array()
	r.Must(len(parts) > 0, "user content")
	for _, part := range parts {
		switch part.Get("type").Str {
		case "text":
			r.Must(strings.TrimSpace(part.Get("text").Str) != "", "text part")
		case "image_url":
			r.Must(r.req.Model.Accepts("image") && !r.req.BlockImages, "image that nobody wants")
			r.Must(strings.HasPrefix(part.Get("image_url.url").Str, "data:image/png;base64,iVBOR"), "data URL")
		default:
			r.Must(false, "part %q", part.Get("type").Str)
		}
	}
}

func (r *completionsRules) assistant(m gjson.Result) {
	content, calls := m.Get("content"), m.Get("tool_calls").Array()
	r.Must(len(calls) > 0 || content.String() != "", "content or tool_calls")
	r.Must(!m.Get("tool_calls").Exists() || len(calls) > 0, "tool_calls must not be empty")
	r.open = map[string]bool{}
	for _, call := range calls {
		id := call.Get("id").Str
		r.Must(id != "" && !r.seen[id], "id %q is empty or not unique", id)
		r.Must(!r.own.NineLetterIDs || nineLetters.MatchString(id), "Tool call id must be a-z, A-Z, 0-9, with a length of 9: %q", id)
		r.Must(!r.own.ShortIDs || len(id) <= 40, "tool_calls id: maximum length 40, found %d", len(id))
		r.Must(safe64.MatchString(call.Get("function.name").Str), "function name")
		args := call.Get("function.arguments").Str
		r.Must(jsontext.Value(args).IsValid() && gjson.Parse(args).IsObject(), "arguments %q", args)
		r.seen[id], r.open[id] = true, true
	}
}
