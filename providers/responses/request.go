package responses

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"troupe/protocol"
	"troupe/providers"
)

const (
	maxID     = 64 // characters of an id
	minOutput = 16 // tokens below which the API refuses max_output_tokens
)

// Encode implements [providers.Wire].
func (wire) Encode(req *providers.Request) (*providers.Call, error) {
	e := &encoder{req: req, compat: compatOf(req)}
	e.talk = providers.Converse(req, providers.Shape{
		ToolID:     e.toolID,
		SignedText: true,
		Spoken:     true,
	}, e.resume)
	defer e.talk.Close()
	body := e.body()
	if e.count == 0 {
		return nil, errors.New("there is no message to send")
	}
	return &providers.Call{
		URL:    providers.Endpoint(req.Model.BaseURL, "/responses"),
		Header: e.header(),
		Body:   body,
	}, nil
}

type encoder struct {
	req    *providers.Request
	compat *compat
	talk   *providers.Conversation
	start  int // of the conversation in the body
	given
	begun [][2]int // the lengths of calls and callItems before talk, and after each call of it
}

// given is what was given out so far. No two items may share an id; those of
// calls are given out before the others, as none of the others looks like them.
type given struct {
	count     int // items of the conversation
	calls     *providers.IDs
	callItems *providers.IDs
	items     *providers.IDs
}

// kept is what was given out before a cut, of sets that have grown since.
type kept struct {
	given
	callsLen, callItemsLen, itemsLen int
}

// resume goes on after a cut, or begins.
func (e *encoder) resume(state any) {
	k, ok := state.(kept)
	if !ok {
		k.given = given{0, &providers.IDs{}, &providers.IDs{}, &providers.IDs{}}
	}
	e.given = k.given
	e.calls.Cut(k.callsLen)
	e.callItems.Cut(k.callItemsLen)
	e.items.Cut(k.itemsLen)
	e.begun = [][2]int{{k.callsLen, k.callItemsLen}}
}

// kept is the state at the cut of the conversation.
func (e *encoder) kept() kept {
	k := kept{given: e.given, itemsLen: e.items.Len()}
	k.callsLen, k.callItemsLen = e.begun[e.talk.CutIDs][0], e.begun[e.talk.CutIDs][1]
	return k
}

func (e *encoder) header() http.Header {
	h := http.Header{}
	if e.compat.SendSessionAffinityHeaders && e.req.Cache != providers.CacheNone {
		providers.AffinityHeaders(h, e.compat.SessionAffinityFormat, e.req.SessionID)
	}
	e.req.Credentials.Apply(h, "")
	return h
}

func (e *encoder) body() []byte {
	b := make([]byte, 0, e.req.SizeHint())
	b = append(b, `{"model":`...)
	b = protocol.AppendString(b, e.req.WireModel())
	b = append(b, `,"stream":true`...)
	if e.compat.SupportsStore {
		b = append(b, `,"store":false`...)
	}
	b = append(b, `,"max_output_tokens":`...)
	b = strconv.AppendInt(b, max(e.req.OutputLimit(e.req.Budget()), minOutput), 10)
	b = e.appendPromptCache(b)
	b = e.appendReasoning(b)
	b = e.appendTools(b)
	b = append(b, `,"input":[`...)
	b = e.appendInput(b)
	return append(b, `]}`...)
}

func (e *encoder) appendPromptCache(b []byte) []byte {
	if e.req.Cache == providers.CacheNone || e.req.SessionID == "" || !providers.SendsCacheKey(e.compat.PromptCacheKeyMode, true) {
		return b
	}
	b = append(b, `,"prompt_cache_key":`...)
	b = protocol.AppendString(b, e.req.SessionID)
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
	effort := e.effort()
	switch {
	case e.req.Thinks():
		b = append(b, `,"reasoning":{`...)
		if e.compat.SupportsReasoningEffort && effort != "" {
			b = append(b, `"effort":`...)
			b = append(protocol.AppendString(b, effort), ',')
		}
		b = append(b, `"summary":"auto"}`...)
	case !e.compat.SupportsReasoningEffort || !e.canBeOff():
	default:
		if effort == "" {
			effort = "none"
		}
		b = append(b, `,"reasoning":{"effort":`...)
		b = append(protocol.AppendString(b, effort), '}')
	}
	return append(b, `,"include":["reasoning.encrypted_content"]`...)
}

// effort is the endpoint's word for the level, "" for none.
func (e *encoder) effort() string {
	if word, ok := e.compat.ReasoningEffortMap[string(e.req.Thinking)]; ok {
		return word
	}
	return e.req.Effort()
}

// canBeOff says whether the model takes being told not to think.
func (e *encoder) canBeOff() bool {
	return e.req.Model.Clamp(protocol.ThinkingOff) == protocol.ThinkingOff
}

func (e *encoder) appendTools(b []byte) []byte {
	if len(e.req.Tools) == 0 {
		return b
	}
	sep := `,"tools":[`
	for _, tool := range e.req.Tools {
		b = append(append(b, sep...), `{"type":"function","name":`...)
		b = protocol.AppendString(b, tool.Name)
		b = append(b, `,"description":`...)
		b = protocol.AppendString(b, tool.Description)
		b = append(b, `,"parameters":`...)
		b = append(b, providers.Schema(tool)...)
		if e.compat.SupportsStrictMode {
			b = append(b, `,"strict":false`...) // what is left out counts as true at OpenAI
		}
		b = append(b, '}')
		sep = ","
	}
	return append(b, ']')
}

// toolID shapes the id of a call, which is CALL or CALL|ITEM. The service
// matches calls and results by the first half, which must be unique. The second
// half ties a call to the reasoning before it; it goes only to the model that
// made it.
func (e *encoder) toolID(id string, own bool, try int) string {
	call, itemID, _ := strings.Cut(id, "|")
	call = strings.TrimRight(providers.SafeID(call, maxID, try), "_")
	if call == "" || !e.calls.Add(call) {
		return ""
	}
	made := call
	if own && try == 0 && strings.HasPrefix(itemID, callItem) && isItemID(itemID) && e.callItems.Add(itemID) {
		made = call + "|" + itemID
	}
	e.begun = append(e.begun, [2]int{e.calls.Len(), e.callItems.Len()})
	return made
}

// callItem is what the ids of items begin with that are calls, and no others.
const callItem = "fc"

// claim takes the id of an item that is no call. It is false for an id that is
// taken or that the service would refuse.
func (e *encoder) claim(id string) bool {
	return isItemID(id) && !strings.HasPrefix(id, callItem) && e.items.Add(id)
}

func isItemID(id string) bool {
	return id != "" && len(id) <= maxID && providers.SafeID(id, maxID, 0) == id
}
