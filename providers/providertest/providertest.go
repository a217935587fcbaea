// Package providertest is what every provider of an HTTP wire must pass. A wire
// says in a [Fixture] how its server would write an answer, and [Run] tries
// everything that can happen on the way: pieces of any size, cuts after every
// byte, refusals, silence, garbage, cancellation; and it asks whether the
// requests for random histories keep the rules of the service. A wire runs it
// in ten lines:
//
//	func TestConformance(t *testing.T) { providertest.Run(t, fixture{}) }
package providertest

import (
	"net/http"
	"testing"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// Fixture is one wire as its server speaks it.
type Fixture interface {
	// New makes the provider under test.
	New(client *wire.Client) providers.Provider

	// Model describes a model at baseURL that thinks, takes images and has
	// prices.
	Model(baseURL string) *protocol.Model

	// Answer writes an answer, one element per event. The last element is, or
	// holds, the closing event of the wire.
	Answer(a Answer) [][]byte

	// Content is the content that the parts of Answer(a) must add up to. It
	// differs from a.Content() where the wire cannot carry something, or makes
	// ids of its own.
	Content(a Answer) protocol.Content

	// Keepalive writes what the server sends to keep a connection alive.
	Keepalive() []byte

	// Failure writes an event that ends an answer with an overload.
	Failure() []byte

	// Refusal writes the body of an error response.
	Refusal(status int, message string) []byte

	// Check says which published rule of the service a request breaks, nil for
	// none. system and tools are what the request was made with.
	Check(header http.Header, body []byte, req providers.Request) error
}

// Answer is what a server answers.
type Answer struct {
	ID     string
	Blocks []Block
	Usage  protocol.Usage // the four classes; no total, no cost
	Stop   protocol.StopReason
}

// Block is one block of an answer, in the pieces in which it is streamed.
type Block struct {
	Kind      protocol.BlockKind
	Pieces    []string
	Signature string // of thinking, where the wire has signatures
	ID, Name  string // of a tool call
}

// Text joins the pieces.
func (b Block) Text() (text string) {
	for _, piece := range b.Pieces {
		text += piece
	}
	return text
}

// Content is the content of an answer on a wire that carries everything.
func (a Answer) Content() protocol.Content {
	content := protocol.Content{}
	for _, b := range a.Blocks {
		switch b.Kind {
		case protocol.BlockText:
			content = append(content, protocol.Text{Text: b.Text()})
		case protocol.BlockThinking:
			content = append(content, protocol.Thinking{Thinking: b.Text(), Signature: b.Signature})
		case protocol.BlockToolCall:
			content = append(content, protocol.ToolCall{ID: b.ID, Name: b.Name, Arguments: []byte(b.Text())})
		}
	}
	return content
}

// Run puts a wire through the whole suite. It leaves no goroutine behind.
func Run(t *testing.T, fixture Fixture) {
	s := &suite{fixture}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"answers", s.answers},
		{"stop reasons", s.stopReasons},
		{"pieces of any size", s.pieces},
		{"cut after every byte", s.cuts},
		{"characters split over events", s.characters},
		{"huge event", s.huge},
		{"mutated streams", s.mutations},
		{"garbage", s.garbage},
		{"refusals", s.refusals},
		{"failure in the stream", s.failure},
		{"secrets", s.secrets},
		{"transport failures", s.transport},
		{"repeats", s.repeats},
		{"cancel", s.cancel},
		{"break", s.breakOut},
		{"accounts", s.accounts},
		{"reuse", s.reuse},
		{"silence", s.silence},
		{"slow but alive", s.slow},
		{"requests", s.requests},
	} {
		t.Run(test.name, test.run)
	}
}

type suite struct{ Fixture }

// Samples of answers that the tests share.
var (
	full = Answer{
		ID: "resp_1",
		Blocks: []Block{
			{Kind: protocol.BlockThinking, Pieces: []string{"Let me ", "think: é, 漢字, ", "😀."}, Signature: "c2lnbmF0dXJlMDE="},
			{Kind: protocol.BlockText, Pieces: []string{"I will ", "read \"two\"\nfiles\\", " — ok ✓"}},
			{Kind: protocol.BlockToolCall, ID: "call_a1", Name: "read", Pieces: []string{`{"path`, `":"a.t`, `xt"}`}},
			{Kind: protocol.BlockToolCall, ID: "call_b2", Name: "bash", Pieces: []string{`{"command":"ls `, `-l \"x\" 😀"}`}},
		},
		Usage: protocol.Usage{Input: 1200, Output: 345, CacheRead: 800},
		Stop:  protocol.StopToolUse,
	}
	short = Answer{
		ID:     "resp_2",
		Blocks: []Block{{Kind: protocol.BlockText, Pieces: []string{"Hello, ", "wörld"}}},
		Usage:  protocol.Usage{Input: 10, Output: 4},
		Stop:   protocol.StopStop,
	}
)

// question is an ordinary request.
func question(model *protocol.Model) providers.Request {
	return providers.Request{
		Model:  model,
		System: "You are a test.",
		Messages: []protocol.Message{
			&protocol.UserMessage{Content: protocol.TextContent("Hello"), Timestamp: 1},
		},
		Tools: []protocol.ToolInfo{
			{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
			{Name: "bash", Description: "Runs.", Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)},
		},
		Thinking:    protocol.ThinkingMedium,
		SessionID:   "session-1",
		Credentials: providers.Credentials{Key: "canary-key-0123456789"},
	}
}
