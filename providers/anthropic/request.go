package anthropic

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

const (
	version       = "2023-06-01"
	vertexVersion = "vertex-2023-10-16"
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

// Encode implements [wire.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req, compat: compat{SupportsCacheControlOnTools: true}}
	req.Compat(&e.compat)
	var err error
	if e.Claude, err = wire.ClaudeOf(req, req.Thinks(), e.compat.ForceAdaptiveThinking); err != nil {
		return nil, err
	}
	e.cache = e.cacheControl()
	address := endpoint(req.Model.BaseURL)
	if e.compat.VertexRequests {
		address = wire.Endpoint(req.Model.BaseURL, "/models/"+url.PathEscape(req.WireModel())+":streamRawPredict")
	}
	return &wire.Call{URL: address, Header: e.header(), Body: e.body()}, nil
}

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
	req    *providers.Request
	compat compat
	cache  string // the marker after a block to be cached, with its comma
	wire.Claude
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
	if e.Budget > 0 {
		betas := h.Get("Anthropic-Beta")
		if betas != "" && !strings.Contains(betas, wire.InterleavedBeta) {
			betas += ","
		}
		if !strings.Contains(betas, wire.InterleavedBeta) {
			betas += wire.InterleavedBeta
		}
		h.Set("Anthropic-Beta", betas)
	}
	return h
}

func (e *encoder) body() []byte {
	b := wire.Buffer(e.Messages, e.Input)
	if e.compat.VertexRequests {
		b = append(b, `{"anthropic_version":"`+vertexVersion+`"`...)
	} else {
		b = wire.Str(b, `{"model":`, e.req.WireModel())
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, e.MaxTokens, 10)
	b = append(b, `,"stream":true`...)
	b = e.appendThinking(b)
	if e.req.UserID != "" {
		b = wire.Str(b, `,"metadata":{"user_id":`, e.req.UserID)
		b = append(b, '}')
	}
	if strings.TrimSpace(e.req.System) != "" {
		b = wire.Str(b, `,"system":[{"type":"text","text":`, e.req.System)
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
	case e.Effort != "":
		b = wire.Str(b, `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":`, e.Effort)
		b = append(b, '}')
	case e.Budget > 0:
		b = append(b, `,"thinking":{"type":"enabled","budget_tokens":`...)
		b = strconv.AppendInt(b, e.Budget, 10)
		b = append(b, `,"display":"summarized"}`...)
	case e.req.CanBeOff():
		b = append(b, `,"thinking":{"type":"disabled"}`...)
	}
	return b
}

func (e *encoder) appendTools(b []byte) []byte {
	tools, none := wire.Offered(e.req, e.Messages, "No longer available.")
	if len(tools) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Str(b, `{"name":`, tool.Name)
		b = wire.Str(b, `,"description":`, tool.Description)
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
	switch must := e.req.Forces(); {
	case none:
		b = append(b, `,"tool_choice":{"type":"none"}`...)
	case must != "":
		b = append(wire.Str(b, `,"tool_choice":{"type":"tool","name":`, must), '}')
	}
	return b
}

// appendMessages writes the conversation. Its last block ends the part that is cached.
func (e *encoder) appendMessages(b []byte) []byte {
	b = wire.AppendTurns(b, e.Messages, func(b []byte, i int, m protocol.Message) []byte {
		cache := ""
		if i == len(e.Messages)-1 {
			cache = e.cache
		}
		return e.appendMessage(b, m, cache)
	})
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
	default: // Convert leaves no others
	}
	return b
}

// appendInput writes text or an image, with the cache marker given.
func appendInput(b []byte, block protocol.Block, cache string) []byte {
	switch block := block.(type) {
	case protocol.Text:
		b = wire.Str(b, `{"type":"text","text":`, block.Text)
	case protocol.Image:
		b = wire.Str(b, `{"type":"image","source":{"type":"base64","media_type":`, block.MimeType)
		b = wire.Str(b, `,"data":`, block.Data)
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
			b = wire.Str(b, `{"type":"tool_use","id":`, block.ID)
			b = wire.Str(b, `,"name":`, block.Name)
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
		b = wire.Str(b, `{"type":"redacted_thinking","data":`, t.Signature)
		return append(b, '}')
	case t.Signature == "" && !e.compat.AllowEmptySignature:
		return appendInput(b, protocol.Text{Text: t.Thinking}, "")
	}
	b = wire.Str(b, `{"type":"thinking","thinking":`, t.Thinking)
	b = wire.Str(b, `,"signature":`, t.Signature)
	return append(b, '}')
}

// appendResult writes a tool result: a string, or blocks if there are images.
func appendResult(b []byte, m *protocol.ToolResultMessage, cache string) []byte {
	b = wire.Str(b, `{"type":"tool_result","tool_use_id":`, m.ToolCallID)
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
