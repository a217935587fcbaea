package bedrock

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// compat is what cannot be told from a model's id.
type compat struct {
	Family                     string `json:"family"`                // claude, nova or other, for ids that do not say, as ARNs
	ForceAdaptiveThinking      bool   `json:"forceAdaptiveThinking"` // Claude chooses its budget itself
	SupportsLongCacheRetention bool   `json:"supportsLongCacheRetention"`
}

// Encode implements [wire.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req}
	req.Compat(&e.compat)
	switch family(e.compat.Family) {
	case "", claude, nova, other:
		e.family = familyOf(req.WireModel(), e.compat.Family)
	default:
		return nil, fmt.Errorf("compat family %q of %s is unknown: want claude, nova or other", e.compat.Family, req.Model.ID)
	}
	// Only for Claude the service has documented how one asks for thinking.
	var err error
	if e.Claude, err = wire.ClaudeOf(req, req.Thinks() && e.family == claude, e.compat.ForceAdaptiveThinking); err != nil {
		return nil, err
	}
	e.cache = e.cachePoint()
	h := http.Header{}
	h.Set("Accept", "application/vnd.amazon.eventstream")
	wire.Authorize(h, &req.Credentials, "")
	return &wire.Call{URL: endpoint(req.Model.BaseURL, req.WireModel()), Header: h, Body: e.body()}, nil
}

// endpoint is the address of a model. The service wants the colon of an id
// escaped as well, and the slashes of an ARN.
func endpoint(baseURL, model string) string {
	return wire.Endpoint(baseURL, "/model/"+strings.ReplaceAll(url.PathEscape(model), ":", "%3A")+"/converse-stream")
}

// family is who made a model, as far as requests depend on it.
type family string

const (
	claude family = "claude"
	nova   family = "nova"
	other  family = "other"
)

// familyOf goes by what a model's description says, else by its id.
func familyOf(id, said string) family {
	if said != "" {
		return family(said)
	}
	switch id = strings.ToLower(id); {
	case strings.Contains(id, "anthropic.") || strings.Contains(id, "claude"):
		return claude
	case strings.Contains(id, "amazon.nova"):
		return nova
	}
	return other
}

type encoder struct {
	req    *providers.Request
	compat compat
	family family
	cache  string // the block after what is to be cached, with its comma; "" for none
	wire.Claude
}

func (e *encoder) cachePoint() string {
	switch {
	case e.req.Cache == providers.CacheNone || e.family == other:
		return ""
	case e.req.Cache == providers.CacheLong && e.compat.SupportsLongCacheRetention:
		return `,{"cachePoint":{"type":"default","ttl":"1h"}}`
	}
	return `,{"cachePoint":{"type":"default"}}`
}

func (e *encoder) body() []byte {
	b := wire.Buffer(e.Messages, e.Input)
	b = append(b, `{"inferenceConfig":{"maxTokens":`...)
	b = strconv.AppendInt(b, e.MaxTokens, 10)
	b = append(b, '}')
	b = e.appendThinking(b)
	if strings.TrimSpace(e.req.System) != "" {
		b = wire.Str(b, `,"system":[{"text":`, e.req.System)
		b = append(b, '}')
		b = append(b, e.cache...)
		b = append(b, ']')
	}
	b = e.appendTools(b)
	b = e.appendMessages(b)
	return append(b, '}')
}

// appendThinking writes what the service passes on to Claude as it is.
func (e *encoder) appendThinking(b []byte) []byte {
	switch {
	case e.Effort != "":
		b = wire.Str(b, `,"additionalModelRequestFields":{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":`, e.Effort)
		b = append(b, `}}`...)
	case e.Budget > 0:
		b = append(b, `,"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":`...)
		b = strconv.AppendInt(b, e.Budget, 10)
		b = append(b, `},"anthropic_beta":["`+wire.InterleavedBeta+`"]}`...)
	}
	return b
}

func (e *encoder) appendTools(b []byte) []byte {
	tools, _ := wire.Offered(e.req, e.Messages, "No longer available: do not call it.")
	if len(tools) == 0 {
		return b
	}
	b = append(b, `,"toolConfig":{"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Str(b, `{"toolSpec":{"name":`, wire.ClaudeID(tool.Name, 0))
		if tool.Description != "" { // an empty one is refused
			b = wire.Str(b, `,"description":`, tool.Description)
		}
		b = append(b, `,"inputSchema":{"json":`...)
		b = append(b, wire.Schema(tool)...)
		b = append(b, `}}}`...)
	}
	if e.family == claude { // Nova caches no tools
		b = append(b, e.cache...)
	}
	return append(b, `]}`...)
}

// appendMessages writes the conversation. Its end is the end of what is cached.
func (e *encoder) appendMessages(b []byte) []byte {
	b = wire.AppendTurns(b, e.Messages, e.appendMessage)
	b = append(b, e.cache...)
	return append(b, `]}]`...)
}

// appendMessage writes the blocks of one message.
func (e *encoder) appendMessage(b []byte, _ int, m protocol.Message) []byte {
	switch m := m.(type) {
	case *protocol.UserMessage:
		b = appendInput(b, m.Content)
	case *protocol.AssistantMessage:
		b = e.appendAnswer(b, m.Content)
	case *protocol.ToolResultMessage:
		b = appendResult(b, m)
	default: // Convert leaves no others
	}
	return b
}

// appendInput writes texts and images.
func appendInput(b []byte, content protocol.Content) []byte {
	for i, block := range content {
		if i > 0 {
			b = append(b, ',')
		}
		switch block := block.(type) {
		case protocol.Text:
			b = appendText(b, block.Text)
		case protocol.Image:
			b = wire.Str(b, `{"image":{"format":`, imageFormat(block.MimeType))
			b = wire.Str(b, `,"source":{"bytes":`, block.Data)
			b = append(b, `}}}`...)
		case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // Convert leaves none where input stands
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = wire.Str(b, `{"text":`, text)
	return append(b, '}')
}

// imageFormat is the service's word for a MIME type: png, jpeg, gif or webp.
func imageFormat(mimeType string) string {
	_, kind, _ := strings.Cut(strings.ToLower(mimeType), "/")
	if kind == "jpg" {
		return "jpeg"
	}
	return kind
}

// appendAnswer writes what the model said.
func (e *encoder) appendAnswer(b []byte, content protocol.Content) []byte {
	start := len(b)
	for _, block := range content {
		if len(b) > start {
			b = append(b, ',')
		}
		switch block := block.(type) {
		case protocol.Text:
			b = appendText(b, block.Text)
		case protocol.Thinking:
			b = e.appendThought(b, block)
		case protocol.ToolCall:
			b = wire.Str(b, `{"toolUse":{"toolUseId":`, block.ID)
			b = wire.Str(b, `,"name":`, wire.ClaudeID(block.Name, 0))
			b = append(b, `,"input":`...)
			b = append(b, block.Arguments...)
			b = append(b, `}}`...)
		case protocol.Image, protocol.UnknownBlock: // Convert leaves none in an answer
		}
	}
	return b
}

// appendThought gives the model its own thinking back. Claude's proves itself by
// a signature, without which it would be refused; others know no signatures.
func (e *encoder) appendThought(b []byte, t protocol.Thinking) []byte {
	switch {
	case t.Redacted:
		b = wire.Str(b, `{"reasoningContent":{"redactedContent":`, t.Signature)
		return append(b, `}}`...)
	case e.family != claude:
		b = wire.Str(b, `{"reasoningContent":{"reasoningText":{"text":`, t.Thinking)
		return append(b, `}}}`...)
	case t.Signature == "":
		return appendText(b, t.Thinking)
	}
	b = wire.Str(b, `{"reasoningContent":{"reasoningText":{"text":`, t.Thinking)
	b = wire.Str(b, `,"signature":`, t.Signature)
	return append(b, `}}}`...)
}

// appendResult writes a tool result. One without any text gets some: empty ones
// are refused.
func appendResult(b []byte, m *protocol.ToolResultMessage) []byte {
	b = wire.Str(b, `{"toolResult":{"toolUseId":`, m.ToolCallID)
	b = append(b, `,"content":[`...)
	if len(m.Content) == 0 || len(m.Content.Images()) == 0 && strings.TrimSpace(wire.TextOf(m.Content, "\n")) == "" {
		b = appendText(b, "(no output)")
	} else {
		b = appendInput(b, m.Content)
	}
	status := "success"
	if m.IsError {
		status = "error"
	}
	return append(b, `],"status":"`+status+`"}}`...)
}
