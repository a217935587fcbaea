package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// Encode implements [wire.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req, compat: compatOf(req)}
	e.cache = e.cacheControl()
	e.messages = e.arrange(wire.Convert(req, wire.Shape{
		ToolID:   e.toolID,
		UserLast: e.compat.mergeUsers,
		Spoken:   true,
	}))
	e.input = req.EstimateInput(e.messages)
	e.cached = e.cachedMessage()
	if len(e.messages) == 0 {
		return nil, errors.New("there is no message to send")
	}
	return &wire.Call{
		URL:    endpoint(req.Model),
		Header: e.header(),
		Body:   e.body(),
	}, nil
}

// endpoint is where a model is asked.
func endpoint(model *protocol.Model) string {
	base := model.BaseURL
	if u, err := url.Parse(base); err == nil && model.API == MistralAPI && strings.Trim(u.Path, "/") == "" {
		base = strings.TrimRight(base, "/") + "/v1"
	}
	return wire.Endpoint(base, "/chat/completions")
}

type encoder struct {
	req      *providers.Request
	compat   *compat
	messages []protocol.Message
	input    int64  // about how many tokens the request has
	cache    string // the marker after what is to be cached, with its comma
	cached   int    // the last message that can carry the marker, -1 for none
}

const maxID = 40 // of OpenAI; others take longer ones

// toolID shapes the id of a call. The Responses wire leaves CALL|ITEM.
func (e *encoder) toolID(id string, own bool, try int) string {
	if e.compat.mistralIDs {
		return wire.HashID(id, 9, try)
	}
	if own && try == 0 {
		return id
	}
	if call, _, found := strings.Cut(id, "|"); found || try > 0 {
		return wire.SafeID(call, maxID, try)
	}
	if e.req.Model.Provider == "openai" && len(id) > maxID {
		return wire.SafeID(id, maxID, try)
	}
	return id
}

// What is said between a tool result and a user where an endpoint wants an
// assistant there, and in front of the images of tools.
const (
	bridgeText    = "I have read the tool results."
	imagesText    = "The images of the tool results above:"
	seeImagesText = "(see the image below)"
)

// arrange moves the images of tool results, which the wire takes from users
// only, behind the results they belong to, and bridges gaps.
func (e *encoder) arrange(messages []protocol.Message) []protocol.Message {
	if !e.compat.mergeUsers && !e.compat.RequiresAssistantAfterToolResult && !slices.ContainsFunc(messages, isResultWithImage) {
		return messages
	}
	out := make([]protocol.Message, 0, len(messages)+4)
	var images []protocol.Image
	user := func(m *protocol.UserMessage) { out = e.appendUser(out, m) }
	flush := func() {
		if len(images) > 0 {
			content := protocol.TextContent(imagesText)
			for _, image := range images {
				content = append(content, image)
			}
			user(&protocol.UserMessage{Content: content})
			images = nil
		}
	}
	for _, m := range messages {
		switch m := m.(type) {
		case *protocol.ToolResultMessage:
			out = append(out, m)
			images = append(images, m.Content.Images()...)
		case *protocol.UserMessage:
			flush()
			user(m)
		case *protocol.AssistantMessage:
			flush()
			out = append(out, m)
		default: // Convert leaves no others
		}
	}
	flush()
	return out
}

func isResultWithImage(m protocol.Message) bool {
	r, ok := m.(*protocol.ToolResultMessage)
	return ok && len(r.Content.Images()) > 0
}

// appendUser adds a user message in the way in which the endpoint wants users
// to follow tool results and each other.
func (e *encoder) appendUser(out []protocol.Message, m *protocol.UserMessage) []protocol.Message {
	if len(out) == 0 {
		return append(out, m)
	}
	last := len(out) - 1
	if _, ok := out[last].(*protocol.ToolResultMessage); ok && e.compat.RequiresAssistantAfterToolResult {
		out = append(out, &protocol.AssistantMessage{Content: protocol.TextContent(bridgeText)})
	}
	if before, ok := out[last].(*protocol.UserMessage); ok && e.compat.mergeUsers {
		out[last] = &protocol.UserMessage{Content: append(before.Content[:len(before.Content):len(before.Content)], m.Content...)}
		return out
	}
	return append(out, m)
}

func (e *encoder) cacheControl() string {
	switch {
	case e.compat.CacheControlFormat != "anthropic" || e.req.Cache == providers.CacheNone:
		return ""
	case e.req.Cache == providers.CacheLong && e.compat.SupportsLongCacheRetention:
		return `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

// cachedMessage is the last message of the user or the assistant with text.
func (e *encoder) cachedMessage() int {
	for i := len(e.messages) - 1; i >= 0 && e.cache != ""; i-- {
		switch m := e.messages[i].(type) {
		case *protocol.UserMessage:
			if wire.TextOf(m.Content, "") != "" {
				return i
			}
		case *protocol.AssistantMessage:
			if wire.TextOf(m.Content, "") != "" {
				return i
			}
		case *protocol.ToolResultMessage: // has no place for a marker
		default: // Convert leaves no others
		}
	}
	return -1
}

func (e *encoder) header() http.Header {
	h := http.Header{}
	if e.compat.SendSessionAffinityHeaders && e.req.SessionID != "" {
		wire.AffinityHeaders(h, e.compat.SessionAffinityFormat, e.req.SessionID)
		if e.compat.SessionAffinityFormat != "openrouter" {
			h.Set("X-Session-Affinity", e.req.SessionID)
		}
	}
	wire.Authorize(h, &e.req.Credentials, "")
	return h
}

func (e *encoder) body() []byte {
	c, req := e.compat, e.req
	b := wire.Buffer(e.messages, e.input)
	b = wire.Str(b, `{"model":`, req.WireModel())
	b = append(b, `,"stream":true`...)
	if c.SupportsUsageInStreaming {
		b = append(b, `,"stream_options":{"include_usage":true}`...)
	}
	b = e.appendPromptCache(b)
	if c.SupportsStore {
		b = append(b, `,"store":false`...)
	}
	b = append(b, ',')
	b = protocol.AppendString(b, c.MaxTokensField)
	b = append(b, ':')
	b = strconv.AppendInt(b, req.AnswerLimit(e.input, req.Budget()), 10)
	b = e.appendThinking(b)
	if c.routes {
		b = appendMember(b, "provider", c.OpenRouterRouting)
	}
	if len(c.VercelGatewayRouting) > 0 {
		b = append(b, `,"providerOptions":{"gateway":`...)
		b = append(append(b, c.VercelGatewayRouting...), '}')
	}
	if c.VLLMPriority != nil {
		b = append(b, `,"priority":`...)
		b = strconv.AppendInt(b, *c.VLLMPriority, 10)
	}
	b = e.appendTools(b)
	b = append(b, `,"messages":[`...)
	b = e.appendSystem(b)
	for i, m := range e.messages {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = e.appendMessage(b, m, i == e.cached)
	}
	return append(b, `]}`...)
}

func appendMember(b []byte, name string, raw []byte) []byte {
	if len(raw) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return append(b, raw...)
}

func (e *encoder) appendPromptCache(b []byte) []byte {
	if e.req.Cache == providers.CacheNone || e.req.SessionID == "" {
		return b
	}
	long := e.req.Cache == providers.CacheLong && e.compat.SupportsLongCacheRetention
	if wire.SendsCacheKey(e.compat.PromptCacheKeyMode, e.compat.promptCacheKey || long) {
		b = wire.Str(b, `,"prompt_cache_key":`, e.req.SessionID)
	}
	if long {
		b = append(b, `,"prompt_cache_retention":"24h"`...)
	}
	return b
}

func (e *encoder) appendTools(b []byte) []byte {
	tools := e.req.Tools
	if len(tools) == 0 {
		if e.compat.RequiresToolsWithToolHistory && len(wire.Called(e.messages)) > 0 {
			b = append(b, `,"tools":[]`...)
		}
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Str(b, `{"type":"function","function":{"name":`, tool.Name)
		b = wire.Str(b, `,"description":`, tool.Description)
		b = append(b, `,"parameters":`...)
		b = append(b, wire.Schema(tool)...)
		if e.compat.SupportsStrictMode {
			b = append(b, `,"strict":false`...)
		}
		b = append(b, '}')
		if i == len(tools)-1 {
			b = append(b, e.cache...)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if must := e.req.Forces(); must != "" {
		b = append(wire.Str(b, `,"tool_choice":{"type":"function","function":{"name":`, must), "}}"...)
	}
	if e.compat.ZaiToolStream {
		b = append(b, `,"tool_stream":true`...)
	}
	return b
}

func (e *encoder) appendSystem(b []byte) []byte {
	if strings.TrimSpace(e.req.System) == "" {
		return b
	}
	role := "system"
	if e.req.Model.Reasoning && e.compat.SupportsDeveloperRole {
		role = "developer"
	}
	b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
	b = e.appendText(b, e.req.System, true)
	return append(b, '}')
}

// appendText writes text as a string, or as the one marked part that carries a
// cache marker.
func (e *encoder) appendText(b []byte, text string, mark bool) []byte {
	if !mark || e.cache == "" {
		return protocol.AppendString(b, text)
	}
	b = wire.Str(b, `[{"type":"text","text":`, text)
	b = append(b, e.cache...)
	return append(b, `}]`...)
}

func (e *encoder) appendMessage(b []byte, m protocol.Message, mark bool) []byte {
	switch m := m.(type) {
	case *protocol.UserMessage:
		b = append(b, `{"role":"user","content":`...)
		b = e.appendInput(b, m.Content, mark)
	case *protocol.AssistantMessage:
		b = append(b, `{"role":"assistant"`...)
		b = e.appendAnswer(b, m, mark)
	case *protocol.ToolResultMessage:
		b = wire.Str(b, `{"role":"tool","tool_call_id":`, m.ToolCallID)
		if e.compat.RequiresToolResultName {
			b = wire.Str(b, `,"name":`, m.ToolName)
		}
		b = append(b, `,"content":`...)
		text := cmp.Or(wire.TextOf(m.Content, "\n"), seeImagesText)
		b = protocol.AppendString(b, text)
	default: // Convert leaves no others
	}
	return append(b, '}')
}

// appendInput writes what a user says: a plain string, which every server
// takes, or parts if there are images.
func (e *encoder) appendInput(b []byte, content protocol.Content, mark bool) []byte {
	if len(content.Images()) == 0 {
		return e.appendText(b, wire.TextOf(content, "\n\n"), mark)
	}
	last := -1
	for i, block := range content {
		if _, ok := block.(protocol.Text); ok {
			last = i
		}
	}
	for i, block := range content {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		b = append(b, sep)
		switch block := block.(type) {
		case protocol.Text:
			b = wire.Str(b, `{"type":"text","text":`, block.Text)
			if mark && i == last {
				b = append(b, e.cache...)
			}
			b = append(b, '}')
		case protocol.Image:
			b = wire.Str(b, `{"type":"image_url","image_url":{"url":`, "data:"+block.MimeType+";base64,"+block.Data)
			b = append(b, `}}`...)
		case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // Convert leaves none where input stands
		}
	}
	return append(b, ']')
}

// reasoningFields are where services put thinking. It goes back to the field it
// came from, whose name is its signature.
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_text"}

// partThinking is the signature of thinking that Mistral puts among the parts
// of the content.
const partThinking = "thinking"

func (e *encoder) appendAnswer(b []byte, m *protocol.AssistantMessage, mark bool) []byte {
	text, thoughts, field := e.split(m.Content)
	calls := slices.ContainsFunc(m.Content, isCall)
	b = append(b, `,"content":`...)
	switch {
	case field == partThinking:
		b = wire.Str(b, `[{"type":"thinking","thinking":[{"type":"text","text":`, thoughts)
		b = wire.Str(b, `}]},{"type":"text","text":`, text)
		b = append(b, `}]`...)
		return appendCalls(b, m.Content)
	case text != "":
		b = e.appendText(b, text, mark)
	case !calls || e.compat.RequiresNonNullAssistantContent || e.compat.RequiresAssistantAfterToolResult:
		b = append(b, `""`...)
	default:
		b = append(b, `null`...)
	}
	if field == "" && e.compat.RequiresReasoningContent {
		field = reasoningFields[0]
	}
	if field != "" {
		b = append(append(append(b, `,"`...), field...), `":`...)
		b = protocol.AppendString(b, thoughts)
	}
	return appendCalls(b, m.Content)
}

func isCall(b protocol.Block) bool {
	_, ok := b.(protocol.ToolCall)
	return ok
}

// split parts an answer into text and thinking, and names the field the
// thinking goes to, "" if there is none.
func (e *encoder) split(content protocol.Content) (text, thoughts, field string) {
	leading := ""
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			text += b.Text
		case protocol.Thinking:
			into := e.fieldFor(b)
			switch {
			case b.Thinking == "":
			case into == "":
				leading = join(leading, "\n\n", b.Thinking)
			default:
				thoughts, field = join(thoughts, "\n", b.Thinking), into
			}
		case protocol.ToolCall: // appendCalls writes them
		case protocol.Image, protocol.UnknownBlock: // Convert leaves none in an answer
		}
	}
	return join(leading, "\n\n", text), thoughts, field
}

// join puts sep between two texts, unless one is empty.
func join(a, sep, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// fieldFor is where a piece of thinking goes, "" for the text.
func (e *encoder) fieldFor(b protocol.Thinking) string {
	switch {
	case e.compat.RequiresThinkingAsText:
		return ""
	case b.Signature == partThinking || slices.Contains(reasoningFields, b.Signature):
		return b.Signature
	case e.compat.RequiresReasoningContent:
		return reasoningFields[0]
	}
	return ""
}

// appendCalls writes the calls of an answer, if it has any.
func appendCalls(b []byte, content protocol.Content) []byte {
	var details []string
	sep := `,"tool_calls":[`
	for _, block := range content {
		call, ok := block.(protocol.ToolCall)
		if !ok {
			continue
		}
		b = append(append(b, sep...), `{"id":`...)
		sep = ","
		b = protocol.AppendString(b, call.ID)
		b = wire.Str(b, `,"type":"function","function":{"name":`, call.Name)
		b = wire.Str(b, `,"arguments":`, string(call.Arguments))
		b = append(b, '}')
		detail, extra := proof(call.ThoughtSignature)
		if detail != "" {
			details = append(details, detail)
		}
		b = appendMember(b, "extra_content", []byte(extra))
		b = append(b, '}')
	}
	if sep == "," {
		b = append(b, ']')
	}
	if len(details) > 0 {
		b = append(b, `,"reasoning_details":[`...)
		b = append(b, strings.Join(details, ",")...)
		b = append(b, ']')
	}
	return b
}

// proof reads the signature of a call: JSON of an encrypted reasoning detail,
// as OpenRouter sends it, or of the extra content of Google's endpoint.
func proof(signature string) (detail, extra string) {
	if !strings.HasPrefix(signature, "{") || !json.Valid([]byte(signature)) {
		return "", ""
	}
	v := gjson.Parse(signature)
	switch {
	case strings.HasPrefix(v.Get("type").Str, "reasoning."):
		return signature, ""
	case v.Get("google").Exists():
		return "", signature
	}
	return "", ""
}
