package responses

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

const (
	maxID     = 64 // characters of an id
	minOutput = 16 // tokens below which the API refuses max_output_tokens
)

// Encode implements [wire.Format].
func (format) Encode(req *providers.Request) (*wire.Call, error) {
	e := &encoder{req: req, compat: compatOf(req), calls: ids{}, items: ids{}}
	e.messages = wire.Convert(req, wire.Shape{
		ToolID:     e.toolID,
		SignedText: true,
		Spoken:     true,
	})
	body := e.body()
	if e.count == 0 {
		return nil, errors.New("there is no message to send")
	}
	return &wire.Call{
		URL:    wire.Endpoint(req.Model.BaseURL, "/responses"),
		Header: e.header(),
		Body:   body,
	}, nil
}

type encoder struct {
	req      *providers.Request
	compat   *compat
	messages []protocol.Message
	count    int // items of the conversation so far
	calls    ids // given to calls and their results
	items    ids // given to items: no two may share one
}

// ids are names, each given out once.
type ids map[string]struct{}

// add takes a name; it is false if the name is taken.
func (s ids) add(id string) bool {
	if _, taken := s[id]; taken {
		return false
	}
	s[id] = struct{}{}
	return true
}

func (e *encoder) header() http.Header {
	h := http.Header{}
	if e.compat.SendSessionAffinityHeaders && e.req.Cache != providers.CacheNone {
		wire.AffinityHeaders(h, e.compat.SessionAffinityFormat, e.req.SessionID)
	}
	wire.Authorize(h, &e.req.Credentials, "")
	return h
}

func (e *encoder) body() []byte {
	input := e.req.EstimateInput(e.messages)
	b := wire.Buffer(e.messages, input)
	b = wire.Str(b, `{"model":`, e.req.WireModel())
	b = append(b, `,"stream":true`...)
	if e.compat.SupportsStore {
		b = append(b, `,"store":false`...)
	}
	if e.compat.SupportsMaxOutputTokens {
		b = append(b, `,"max_output_tokens":`...)
		b = strconv.AppendInt(b, max(e.req.AnswerLimit(input, e.req.Budget()), minOutput), 10)
	}
	b = e.appendPromptCache(b)
	b = e.appendReasoning(b)
	b = e.appendTools(b)
	b = append(b, `,"input":[`...)
	b = e.appendInput(b)
	return append(b, `]}`...)
}

func (e *encoder) appendPromptCache(b []byte) []byte {
	if e.req.Cache == providers.CacheNone || e.req.SessionID == "" || !wire.SendsCacheKey(e.compat.PromptCacheKeyMode, true) {
		return b
	}
	b = wire.Str(b, `,"prompt_cache_key":`, e.req.SessionID)
	if e.req.Cache == providers.CacheLong && e.compat.SupportsLongCacheRetention {
		b = append(b, `,"prompt_cache_retention":"24h"`...)
	}
	return b
}

// appendReasoning asks for the request's thinking level, for summaries that
// people can read, and for the reasoning itself in the encrypted form that goes
// back with the next request.
func (e *encoder) appendReasoning(b []byte) []byte {
	if !e.req.Model.Reasoning {
		return b
	}
	effort := e.req.Effort(e.compat.ReasoningEffortMap)
	switch {
	case e.req.Thinks():
		b = append(b, `,"reasoning":{`...)
		if e.compat.SupportsReasoningEffort && effort != "" {
			b = append(wire.Str(b, `"effort":`, effort), ',')
		}
		b = append(b, `"summary":"auto"}`...)
	case !e.compat.SupportsReasoningEffort || !e.req.CanBeOff():
	default:
		effort = cmp.Or(effort, "none")
		b = append(wire.Str(b, `,"reasoning":{"effort":`, effort), '}')
	}
	return append(b, `,"include":["reasoning.encrypted_content"]`...)
}

func (e *encoder) appendTools(b []byte) []byte {
	if len(e.req.Tools) == 0 {
		return b
	}
	sep := `,"tools":[`
	for _, tool := range e.req.Tools {
		b = append(append(b, sep...), `{"type":"function","name":`...)
		b = protocol.AppendString(b, tool.Name)
		b = wire.Str(b, `,"description":`, tool.Description)
		b = append(b, `,"parameters":`...)
		b = append(b, wire.Schema(tool)...)
		if e.compat.SupportsStrictMode {
			b = append(b, `,"strict":false`...) // what is left out counts as true at OpenAI
		}
		b = append(b, '}')
		sep = ","
	}
	if b = append(b, ']'); e.req.Must != "" {
		b = append(wire.Str(b, `,"tool_choice":{"type":"function","name":`, e.req.Must), '}')
	}
	return b
}

// toolID shapes the id of a call, which is CALL or CALL|ITEM. The service
// matches calls and results by the first half, which must be unique. The second
// half ties a call to the reasoning before it; it goes only to the model that
// made it.
func (e *encoder) toolID(id string, own bool, try int) string {
	call, itemID, _ := strings.Cut(id, "|")
	call = strings.TrimRight(wire.SafeID(call, maxID, try), "_")
	if call == "" || !e.calls.add(call) {
		return ""
	}
	if own && try == 0 && strings.HasPrefix(itemID, callItem) && isItemID(itemID) && e.items.add(itemID) {
		return call + "|" + itemID
	}
	return call
}

// callItem is what the ids of items begin with that are calls, and no others.
const callItem = "fc"

// claim takes the id of an item that is no call. It is false for an id that is
// taken or that the service would refuse.
func (e *encoder) claim(id string) bool {
	return isItemID(id) && !strings.HasPrefix(id, callItem) && e.items.add(id)
}

func isItemID(id string) bool {
	return id != "" && len(id) <= maxID && wire.SafeID(id, maxID, 0) == id
}
