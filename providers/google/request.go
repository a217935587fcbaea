package google

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

const maxID = 64 // characters of an id, and of a function's name

// Encode implements [wire.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req, family: familyOf(req)}
	shape := wire.Shape{MergeUsers: true, UserFirst: true, UserLast: true, SignedText: true, Spoken: true}
	if e.family.ids {
		shape.ToolID = func(id string, _ bool, try int) string { return wire.SafeID(id, maxID, try) }
	}
	messages := wire.Convert(req, shape)
	head := e.head(messages)
	body := e.contents(head, messages)
	if len(body) == len(head) {
		return nil, errors.New("there is no message to send")
	}
	return &wire.Call{URL: endpoint(req.Model.BaseURL, req.WireModel()), Header: e.header(), Body: append(body, `]}`...)}, nil
}

// endpoint is the address of a model. A base URL that is only the host of the
// Gemini API gets the version that has everything.
func endpoint(baseURL, model string) string {
	base, query, _ := strings.Cut(baseURL, "?")
	base = strings.TrimRight(base, "/")
	if u, err := url.Parse(base); err == nil && u.Path == "" && u.Hostname() == "generativelanguage.googleapis.com" {
		base += "/v1beta"
	}
	if query != "" {
		query += "&"
	}
	model = url.PathEscape(strings.TrimPrefix(model, "models/"))
	return strings.TrimSuffix(base, "/models") + "/models/" + model + ":streamGenerateContent?" + query + "alt=sse"
}

type encoder struct {
	req    *providers.Request
	family family
}

func (e *encoder) header() http.Header {
	h := http.Header{}
	wire.Authorize(h, &e.req.Credentials, "X-Goog-Api-Key")
	return h
}

// head is what stands before the conversation, with room for that.
func (e *encoder) head(messages []protocol.Message) []byte {
	input := e.req.EstimateInput(messages)
	b := wire.Buffer(messages, input)
	b = append(b, '{')
	if strings.TrimSpace(e.req.System) != "" {
		b = wire.Str(b, `"systemInstruction":{"parts":[{"text":`, e.req.System)
		b = append(b, `}]},`...)
	}
	b = e.appendTools(b)
	b = e.appendConfig(b, input)
	return append(b, `,"contents":[`...)
}

func (e *encoder) appendTools(b []byte) []byte {
	if len(e.req.Tools) == 0 {
		return b
	}
	sep := `"tools":[{"functionDeclarations":[`
	for _, tool := range e.req.Tools {
		b = append(append(b, sep...), `{"name":`...)
		b = protocol.AppendString(b, functionName(tool.Name))
		b = wire.Str(b, `,"description":`, tool.Description)
		b = append(b, `,"parametersJsonSchema":`...)
		b = append(b, wire.Schema(tool)...)
		b = append(b, '}')
		sep = ","
	}
	if b = append(b, `]}],`...); e.req.Must != "" {
		b = append(wire.Str(b, `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[`, functionName(e.req.Must)), "]}},"...)
	}
	return b
}

// appendConfig writes the limit of the answer, in which the service counts the
// thinking, and how much of that there may be.
func (e *encoder) appendConfig(b []byte, input int64) []byte {
	b = append(b, `"generationConfig":{"maxOutputTokens":`...)
	b = strconv.AppendInt(b, e.req.AnswerLimit(input, max(e.family.budget(e.req), e.req.Budget())), 10)
	b = append(b, e.thinking()...)
	return append(b, '}')
}

func (e *encoder) thinking() string {
	switch {
	case !e.req.Model.Reasoning:
		return ""
	case !e.req.Thinks() && (e.family.levels || e.family.pro || !e.req.CanBeOff()):
		return "" // there is no word for off; Gemini 2.5 Pro always thinks
	case !e.req.Thinks():
		return `,"thinkingConfig":{"thinkingBudget":0}`
	case e.family.levels:
		return `,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":` + string(protocol.AppendString(nil, e.family.level(e.req))) + `}`
	}
	return `,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":` + strconv.FormatInt(e.family.budget(e.req), 10) + `}`
}

// functionName makes a name that begins as the service wants it.
func functionName(name string) string {
	if name == "" || name[0] != '_' && (name[0]|0x20 < 'a' || name[0]|0x20 > 'z') {
		name = "_" + name
	}
	return name[:min(len(name), maxID)]
}

// validSignature says whether the service would take a signature: it answers a
// broken one with an error.
func validSignature(signature string) bool {
	if signature == "" || len(signature)%4 != 0 {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(signature)
	return err == nil
}
