package anthropic

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

const (
	version         = "2023-06-01"
	vertexVersion   = "vertex-2023-10-16"
	interleavedBeta = "interleaved-thinking-2025-05-14"
	minBudget       = 1024 // thinking tokens below which the API refuses
	answerReserve   = 1024 // tokens that thinking must leave for the answer
	maxID           = 64
)

// compat is how an endpoint departs from Anthropic's own.
type compat struct {
	ForceAdaptiveThinking           bool  `json:"forceAdaptiveThinking"`           // the model chooses its budget itself
	AllowEmptySignature             bool  `json:"allowEmptySignature"`             // thinking comes and goes unsigned
	SupportsEagerToolInputStreaming bool  `json:"supportsEagerToolInputStreaming"` // arguments need not wait to be whole
	SupportsCacheControlOnTools     bool  `json:"supportsCacheControlOnTools"`
	SupportsLongCacheRetention      *bool `json:"supportsLongCacheRetention"` // nil: only Anthropic's own endpoint
	SendSessionAffinityHeaders      bool  `json:"sendSessionAffinityHeaders"`
	VertexRequests                  bool  `json:"vertexRequests"` // Vertex AI: model in the path, version in the body
}

// Encode implements [providers.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req, compat: compat{SupportsCacheControlOnTools: true}}
	req.Compat(&e.compat)
	e.messages = wire.Convert(req, wire.Shape{
		ToolID:     toolID,
		MergeUsers: true,
		UserFirst:  true,
		UserLast:   true,
		Spoken:     true,
	})
	if len(e.messages) == 0 {
		return nil, errors.New("there is no message to send")
	}
	e.input = req.EstimateInput(e.messages)
	e.thinking()
	e.cache = e.cacheControl()
	address := endpoint(req.Model.BaseURL)
	if e.compat.VertexRequests {
		address = wire.Endpoint(req.Model.BaseURL, "/models/"+url.PathEscape(req.WireModel())+":streamRawPredict")
	}
	return &wire.Call{URL: address, Header: e.header(), Body: e.body()}, nil
}

// toolID is the rule of the API for ids: ^[a-zA-Z0-9_-]+$.
func toolID(id string, _ bool, try int) string { return wire.SafeID(id, maxID, try) }

// endpoint adds the path, of which some base URLs have the first half.
func endpoint(baseURL string) string {
	base, query, _ := strings.Cut(baseURL, "?")
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	if query != "" {
		base += "?" + query
	}
	return wire.Endpoint(base, "/v1/messages")
}

type encoder struct {
	req      *providers.Request
	compat   compat
	messages []protocol.Message
	input    int64  // about how many tokens the request has
	cache    string // the marker after a block to be cached, with its comma

	maxTokens int64
	budget    int64 // thinking tokens; 0 for adaptive or no thinking
	effort    string
}

// thinking decides how much of the answer is thinking.
func (e *encoder) thinking() {
	e.maxTokens = e.req.AnswerLimit(e.input, 0)
	if !e.req.Thinks() {
		return
	}
	if e.compat.ForceAdaptiveThinking {
		if e.effort = e.req.Effort(nil); e.effort == string(protocol.ThinkingMinimal) {
			e.effort = string(protocol.ThinkingLow)
		}
		return
	}
	e.budget = e.req.Budget()
	e.maxTokens = e.req.AnswerLimit(e.input, e.budget)
	if e.maxTokens <= e.budget {
		e.budget = e.maxTokens - answerReserve
	}
	if e.budget < minBudget {
		e.budget = 0
	}
}

func (e *encoder) cacheControl() string {
	if e.req.Cache == providers.CacheNone {
		return ""
	}
	long := isAnthropic(e.req.Model.BaseURL)
	if set := e.compat.SupportsLongCacheRetention; set != nil {
		long = *set
	}
	if long && e.req.Cache == providers.CacheLong {
		return `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

func isAnthropic(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && u.Hostname() == "api.anthropic.com"
}

func (e *encoder) header() http.Header {
	h := http.Header{}
	if !e.compat.VertexRequests {
		h.Set("Anthropic-Version", version)
	}
	if e.compat.SendSessionAffinityHeaders && e.req.SessionID != "" {
		h.Set("X-Session-Affinity", e.req.SessionID)
	}
	wire.Authorize(h, &e.req.Credentials, "X-Api-Key")
	if e.budget > 0 {
		betas := h.Get("Anthropic-Beta")
		if betas != "" && !strings.Contains(betas, interleavedBeta) {
			betas += ","
		}
		if !strings.Contains(betas, interleavedBeta) {
			betas += interleavedBeta
		}
		h.Set("Anthropic-Beta", betas)
	}
	return h
}

func (e *encoder) body() []byte {
	b := wire.Buffer(e.messages, e.input)
	if e.compat.VertexRequests {
		b = append(b, `{"anthropic_version":"`+vertexVersion+`"`...)
	} else {
		b = append(b, `{"model":`...)
		b = protocol.AppendString(b, e.req.WireModel())
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, e.maxTokens, 10)
	b = append(b, `,"stream":true`...)
	b = e.appendThinking(b)
	if e.req.UserID != "" {
		b = append(b, `,"metadata":{"user_id":`...)
		b = protocol.AppendString(b, e.req.UserID)
		b = append(b, '}')
	}
	if strings.TrimSpace(e.req.System) != "" {
		b = append(b, `,"system":[{"type":"text","text":`...)
		b = protocol.AppendString(b, e.req.System)
		b = append(b, e.cache...)
		b = append(b, `}]`...)
	}
	b = e.appendTools(b)
	b = e.appendMessages(b)
	return append(b, '}')
}

func (e *encoder) appendThinking(b []byte) []byte {
	switch {
	case !e.req.Model.Reasoning:
	case e.effort != "":
		b = append(b, `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":`...)
		b = protocol.AppendString(b, e.effort)
		b = append(b, '}')
	case e.budget > 0:
		b = append(b, `,"thinking":{"type":"enabled","budget_tokens":`...)
		b = strconv.AppendInt(b, e.budget, 10)
		b = append(b, `,"display":"summarized"}`...)
	case e.req.CanBeOff():
		b = append(b, `,"thinking":{"type":"disabled"}`...)
	}
	return b
}

// appendTools writes the tools. A history with calls needs tools even when none
// is active any more: then every tool that was called stands there by name, and
// may not be called.
func (e *encoder) appendTools(b []byte) []byte {
	tools := e.req.Tools
	choice := ""
	if len(tools) == 0 {
		for _, name := range wire.Called(e.messages) {
			tools = append(tools, protocol.ToolInfo{Name: name, Description: "No longer available."})
		}
		choice = `,"tool_choice":{"type":"none"}`
	}
	if len(tools) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = protocol.AppendString(b, tool.Name)
		b = append(b, `,"description":`...)
		b = protocol.AppendString(b, tool.Description)
		if e.compat.SupportsEagerToolInputStreaming {
			b = append(b, `,"eager_input_streaming":true`...)
		}
		b = append(b, `,"input_schema":`...)
		b = append(b, wire.Schema(tool)...)
		if i == len(tools)-1 && e.compat.SupportsCacheControlOnTools {
			b = append(b, e.cache...)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	return append(b, choice...)
}

// appendMessages writes the conversation. Tool results and what the user says
// after them are one message; its last block ends the part that is cached.
func (e *encoder) appendMessages(b []byte) []byte {
	b = append(b, `,"messages":[`...)
	role := ""
	for i, m := range e.messages {
		next := "user"
		if m.Role() == protocol.RoleAssistant {
			next = "assistant"
		}
		if next != role {
			if role != "" {
				b = append(b, `]},`...)
			}
			b = append(b, `{"role":"`...)
			b = append(b, next...)
			b = append(b, `","content":[`...)
			role = next
		} else {
			b = append(b, ',')
		}
		cache := ""
		if i == len(e.messages)-1 {
			cache = e.cache
		}
		b = e.appendMessage(b, m, cache)
	}
	return append(b, `]}]`...)
}

// appendMessage writes the blocks of one message.
func (e *encoder) appendMessage(b []byte, m protocol.Message, cache string) []byte {
	switch m := m.(type) {
	case *protocol.UserMessage:
		for i, block := range m.Content {
			if i > 0 {
				b = append(b, ',')
			}
			mark := ""
			if i == len(m.Content)-1 {
				mark = cache
			}
			b = appendInput(b, block, mark)
		}
	case *protocol.AssistantMessage:
		b = e.appendAnswer(b, m.Content)
	case *protocol.ToolResultMessage:
		b = appendResult(b, m, cache)
	case *protocol.BashExecutionMessage, *protocol.CustomMessage, *protocol.BranchSummaryMessage,
		*protocol.CompactionSummaryMessage, *protocol.UnknownMessage: // Convert leaves none
	}
	return b
}

// appendInput writes text or an image, with the cache marker given.
func appendInput(b []byte, block protocol.Block, cache string) []byte {
	switch block := block.(type) {
	case protocol.Text:
		b = append(b, `{"type":"text","text":`...)
		b = protocol.AppendString(b, block.Text)
	case protocol.Image:
		b = append(b, `{"type":"image","source":{"type":"base64","media_type":`...)
		b = protocol.AppendString(b, block.MimeType)
		b = append(b, `,"data":`...)
		b = protocol.AppendString(b, block.Data)
		b = append(b, '}')
	case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // Convert leaves none where input stands
	}
	b = append(b, cache...)
	return append(b, '}')
}

func (e *encoder) appendAnswer(b []byte, content protocol.Content) []byte {
	start := len(b)
	for _, block := range content {
		if len(b) > start {
			b = append(b, ',')
		}
		switch block := block.(type) {
		case protocol.Text:
			b = appendInput(b, block, "")
		case protocol.Thinking:
			b = e.appendThought(b, block)
		case protocol.ToolCall:
			b = append(b, `{"type":"tool_use","id":`...)
			b = protocol.AppendString(b, block.ID)
			b = append(b, `,"name":`...)
			b = protocol.AppendString(b, block.Name)
			b = append(b, `,"input":`...)
			b = append(b, block.Arguments...)
			b = append(b, '}')
		case protocol.Image, protocol.UnknownBlock: // Convert leaves none in an answer
		}
	}
	return b
}

// appendThought gives the model its own thinking back. Without a signature it
// would be refused, unless the endpoint knows none.
func (e *encoder) appendThought(b []byte, t protocol.Thinking) []byte {
	switch {
	case t.Redacted:
		b = append(b, `{"type":"redacted_thinking","data":`...)
		b = protocol.AppendString(b, t.Signature)
		return append(b, '}')
	case t.Signature == "" && !e.compat.AllowEmptySignature:
		return appendInput(b, protocol.Text{Text: t.Thinking}, "")
	}
	b = append(b, `{"type":"thinking","thinking":`...)
	b = protocol.AppendString(b, t.Thinking)
	b = append(b, `,"signature":`...)
	b = protocol.AppendString(b, t.Signature)
	return append(b, '}')
}

// appendResult writes a tool result: a string, or blocks if there are images.
func appendResult(b []byte, m *protocol.ToolResultMessage, cache string) []byte {
	b = append(b, `{"type":"tool_result","tool_use_id":`...)
	b = protocol.AppendString(b, m.ToolCallID)
	b = append(b, `,"content":`...)
	text := wire.TextOf(m.Content, "\n")
	if len(m.Content.Images()) > 0 {
		b = append(b, '[')
		if text == "" {
			b = append(b, `{"type":"text","text":"(see the image)"},`...)
		}
		for i, block := range m.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendInput(b, block, "")
		}
		b = append(b, ']')
	} else {
		b = protocol.AppendString(b, text)
	}
	b = append(b, `,"is_error":`...)
	b = strconv.AppendBool(b, m.IsError)
	b = append(b, cache...)
	return append(b, '}')
}
