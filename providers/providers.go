// Package providers is the contract with models: what a session asks of a
// provider and what it gets back. Each wire has a package of its own below
// this one; the registry knows which model is served by which.
//
// A request goes through these hands, in order:
//
//	Registry   finds the key and the headers (auth.json, environment, models.json)
//	Provider   of the model's API: anthropic, openai, responses, google, scripted
//	Convert    makes of the session's messages what any model can be shown
//	Wire       writes the request in the form of its API
//	Client     sends it, over connections that no two accounts share
//	watch      gives up on a server that stays silent; see DefaultStall
//	EventReader, the wire's Decoder, Parts   turn the bytes into parts
//	Classify   says what a failure means
//
// # Adding a wire
//
// A wire over HTTP and server-sent events is a [Wire]: Encode, which begins with
// [Converse] and a [Shape], and a [Decoder] that puts what it reads into [Parts].
// Everything between the two is in [Client.Stream]. Its test is a
// providertest.Fixture, which writes the server's side of the wire, a checker of
// the service's rules beside the others in providertest, and the recorded
// streams in its testdata. The tests of hand-overs between models take it up as
// one more side.
package providers

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"troupe/protocol"
)

// Provider speaks one model wire. Implementations are safe for concurrent use.
type Provider interface {
	// Stream asks the model and yields its answer part by part, in the order
	// protocol.Part prescribes. The sequence ends in exactly one of two ways:
	// with a protocol.PartDone, or with a *protocol.StreamError (yielded with a
	// nil part, and nothing after it). A stream that ends without the wire's
	// closing event is an error, never a success.
	//
	// Cancelling ctx, or breaking out of the loop, closes the connection; after
	// a cancel the error has kind ErrorAborted. What is made again here, before a
	// part has been yielded, is in Request.Repeats, but that the registry renews
	// credentials; and no goroutine outlives the sequence.
	Stream(ctx context.Context, req Request) iter.Seq2[protocol.Part, error]
}

// Request is one question to a model.
type Request struct {
	Model       *protocol.Model
	Deployment  string             // what the model is called on the wire; "" is Model.ID
	System      string             // the system prompt
	Messages    []protocol.Message // the context as the session has it; see Convert
	Tools       []protocol.ToolInfo
	Thinking    protocol.ThinkingLevel           // already clamped to the model
	Budgets     map[protocol.ThinkingLevel]int64 // thinking tokens per level, nil for defaults
	MaxTokens   int64                            // of the answer; 0 is the model's maximum
	SessionID   string                           // key of the provider's prompt cache; "" for none
	Cache       CacheRetention
	BlockImages bool   // replace every image by a line of text
	UserID      string // an opaque name of the person, for wires that take one; "" for none
	FullErrors  bool   // name failures in the words of pi 1.x, the whole error object; else in those of pi up to 0.74
	Repeats     Repeats
	Memo        *Memo // what the session's requests have in common, to save writing it again; nil for none

	Credentials Credentials
	Network     Network

	known known // of Messages, while the request is encoded
}

// known is a beginning of the history that is not looked at again.
type known struct {
	messages int
	bytes    int // on the wire
	size     int // as estimate counts
}

// CacheRetention says how long a provider should keep the prompt.
type CacheRetention string

const (
	CacheShort CacheRetention = ""     // the provider's usual time
	CacheLong  CacheRetention = "long" // an hour or a day, where offered
	CacheNone  CacheRetention = "none" // do not write the cache
)

// WireModel is the model's name on the wire.
func (r *Request) WireModel() string {
	if r.Deployment != "" {
		return r.Deployment
	}
	return r.Model.ID
}

// Budget is how many tokens the request's thinking level is worth where a wire
// counts them, 0 for no thinking.
func (r *Request) Budget() int64 {
	if n := r.Budgets[r.Thinking]; n > 0 {
		return n
	}
	return defaultBudgets[r.Thinking]
}

// defaultBudgets are in tokens.
var defaultBudgets = map[protocol.ThinkingLevel]int64{
	protocol.ThinkingMinimal: 1024,
	protocol.ThinkingLow:     2048,
	protocol.ThinkingMedium:  8192,
	protocol.ThinkingHigh:    16384,
	protocol.ThinkingXHigh:   16384,
	protocol.ThinkingMax:     32768,
}

// Effort is the provider's word for the request's thinking level: the model's
// own word if it has one, else the level itself. It is "" for off, unless the
// model has a word for that, too.
func (r *Request) Effort() string {
	if s := r.Model.Settings; s != nil {
		if word := s.ThinkingValues[string(r.level())]; word != nil {
			return *word
		}
	}
	if r.level() == protocol.ThinkingOff {
		return ""
	}
	return string(r.level())
}

// Thinks says whether the model is asked to think.
func (r *Request) Thinks() bool { return r.Model.Reasoning && r.level() != protocol.ThinkingOff }

func (r *Request) level() protocol.ThinkingLevel {
	if r.Thinking == "" {
		return protocol.ThinkingOff
	}
	return r.Thinking
}

// Compat reads into dst how the model's endpoint departs from its wire. What
// the description does not mention stays as it is in dst; a description that
// does not fit leaves dst alone, the registry has reported it.
func (r *Request) Compat(dst any) {
	if s := r.Model.Settings; s != nil && len(s.Compat) > 0 {
		_ = json.Unmarshal(s.Compat, dst)
	}
}

// Called lists the names of the tools that messages call, in order.
func Called(messages []protocol.Message) []string {
	var names []string
	for _, m := range messages {
		if m, ok := m.(*protocol.AssistantMessage); ok {
			for _, call := range m.Content.ToolCalls() {
				if !slices.Contains(names, call.Name) {
					names = append(names, call.Name)
				}
			}
		}
	}
	return names
}

// Schema is the JSON Schema of a tool's parameters, of no parameters if it has
// none.
func Schema(tool protocol.ToolInfo) json.RawMessage {
	if len(tool.Parameters) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return cleanObject(tool.Parameters)
}

// AnswerLimit is how many tokens the answer may have: what was asked for, at
// most what the model can write, at most what its window has room for besides
// the context. Services refuse a request whose two parts do not fit together,
// long before the context itself is too large.
func (r *Request) AnswerLimit() int64 {
	limit := r.Model.MaxTokens
	if limit <= 0 {
		limit = fallbackMaxTokens
	}
	if r.MaxTokens > 0 {
		limit = min(limit, r.MaxTokens)
	}
	if window := r.Model.ContextWindow; limit > window/4 && window > 0 {
		// The estimate is rough and rather high; the floor keeps a wrong one
		// from cutting answers short.
		limit = min(limit, max(window-r.estimate(), window/8))
	}
	return max(limit, 1)
}

// OutputLimit is AnswerLimit for wires that count thinking as part of the
// answer. What was asked for is the answer alone, so thinking tokens of it come
// on top, as far as the model can go.
func (r *Request) OutputLimit(thinking int64) int64 {
	limit := r.AnswerLimit()
	if r.MaxTokens <= 0 || !r.Thinks() || thinking <= 0 {
		return limit
	}
	longest := *r
	longest.MaxTokens = 0
	return min(limit+thinking, longest.AnswerLimit())
}

// fallbackMaxTokens is for models that do not say how much they can write.
const fallbackMaxTokens = 16384

// estimate is about how many tokens the request's context has: one for three
// bytes, 1600 for an image.
func (r *Request) estimate() int64 {
	return int64((r.size(r.Messages[r.known.messages:], imageSize) + r.known.size) / 3)
}

func imageSize(protocol.Image) int { return 1600 * 3 }

// SizeHint is about how many bytes the request takes on a wire, to save the
// growing of a large one.
func (r *Request) SizeHint() int {
	messages := r.Messages[r.known.messages:]
	size := r.size(messages, func(b protocol.Image) int { return len(b.Data) })
	return r.known.bytes + size + size/16 + 160*len(messages) + 4<<10
}

// size counts the bytes of the context with these messages, an image as image
// says.
func (r *Request) size(messages []protocol.Message, image func(protocol.Image) int) int {
	size := len(r.System) + 1024
	for _, tool := range r.Tools {
		size += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	return size + historySize(messages, image)
}

func historySize(messages []protocol.Message, image func(protocol.Image) int) (size int) {
	for _, m := range messages {
		switch m := m.(type) {
		case *protocol.UserMessage:
			size += contentSize(m.Content, image)
		case *protocol.AssistantMessage:
			size += contentSize(m.Content, image)
		case *protocol.ToolResultMessage:
			size += contentSize(m.Content, image)
		case *protocol.CustomMessage:
			size += contentSize(m.Content, image)
		case *protocol.BashExecutionMessage:
			size += len(m.Command) + len(m.Output)
		case *protocol.BranchSummaryMessage:
			size += len(m.Summary)
		case *protocol.CompactionSummaryMessage:
			size += len(m.Summary)
		case *protocol.UnknownMessage: // not sent
		}
	}
	return size
}

func contentSize(content protocol.Content, image func(protocol.Image) int) (size int) {
	for _, b := range content {
		switch b := b.(type) {
		case protocol.Text:
			size += len(b.Text)
		case protocol.Thinking:
			size += len(b.Thinking) + len(b.Signature)
		case protocol.ToolCall:
			size += len(b.Name) + len(b.Arguments)
		case protocol.Image:
			size += image(b)
		case protocol.UnknownBlock: // not sent
		}
	}
	return size
}

// Endpoint is the URL of one operation of a service: its base URL, which may
// have a query, with path appended unless it ends so already.
func Endpoint(baseURL, path string) string {
	base, query, found := strings.Cut(baseURL, "?")
	base = strings.TrimRight(base, "/")
	if !strings.HasSuffix(base, path) {
		base += path
	}
	if found {
		base += "?" + query
	}
	return base
}

// Credentials are what a request authenticates with. They appear in no log,
// event or error.
type Credentials struct {
	Key     string
	Headers map[string]string // sent as they are, replacing others of the same name
	Bearer  bool              // send Key as Authorization: Bearer whatever the wire's habit
}
