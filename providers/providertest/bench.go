package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/protocol"
	"troupe/providers/wire"
)

// BenchmarkDeltas measures what one delta costs from the socket to the part.
func BenchmarkDeltas(b *testing.B, fixture Fixture) {
	a := short
	pieces := make([]string, 5000)
	for i := range pieces {
		pieces[i] = " a few words"
	}
	a.Blocks = []Block{{Kind: protocol.BlockText, Pieces: pieces}}
	stream := join(fixture.Answer(a))
	server := httptest.NewServer(http.HandlerFunc(play(stream, 0)))
	defer server.Close()
	client := wire.NewClient(wire.ClientConfig{})
	defer client.Close()
	provider, req := fixture.New(client), question(fixture.Model(server.URL))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		for part, err := range provider.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := part.(protocol.PartDelta); ok {
				n++
			}
		}
	}
}

// BenchmarkEncode measures what a request with 10,000 messages costs.
func BenchmarkEncode(b *testing.B, wire wire.Format, model *protocol.Model) {
	req := question(model)
	req.Messages = append(LongHistory(model, 10_000), &protocol.UserMessage{Content: protocol.TextContent("And now?")})
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		call, err := wire.Encode(&req)
		if err != nil {
			b.Fatal(err)
		}
		size = len(call.Body)
	}
	b.SetBytes(int64(size))
}

// LongHistory is a session of n messages with model: questions, each with an
// answer that calls a tool, its result, and an answer.
func LongHistory(model *protocol.Model, n int) (messages []protocol.Message) {
	answer := func(stop protocol.StopReason, blocks ...protocol.Block) *protocol.AssistantMessage {
		return &protocol.AssistantMessage{API: model.API, Provider: model.Provider, Model: model.ID, StopReason: stop, Content: blocks}
	}
	code := strings.Repeat("\tfmt.Println(\"hello, world\") // a line of code\n", 6)
	for i := 0; len(messages) < n; i++ {
		// Strings of their own, as decoding makes them: what is shared is in the processor's cache.
		id, said := fmt.Sprintf("toolu_%d", i), func(text string) protocol.Text { return protocol.Text{Text: fmt.Sprintf("%d: %s", i, text)} }
		messages = append(messages,
			&protocol.UserMessage{Content: protocol.Content{said("Please look at the next file and tell me what is in there, in one sentence.")}},
			answer(protocol.StopToolUse, said("I will read the file."),
				protocol.ToolCall{ID: id, Name: "read", Arguments: json.RawMessage(fmt.Sprintf(`{"path":"src/some/file%d.go","limit":100}`, i))}),
			&protocol.ToolResultMessage{ToolCallID: id, ToolName: "read", Content: protocol.Content{said(code)}},
			answer(protocol.StopStop, said("It prints a greeting several times, and does nothing else.")),
		)
	}
	return messages[:n]
}
