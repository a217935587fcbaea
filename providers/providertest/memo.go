package providertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/protocol"
	"troupe/providers"
)

// CheckMemo asks whether requests with a [providers.Memo] are, byte for byte,
// the requests without one, whatever happens to a session between them.
func CheckMemo(t *testing.T, wire providers.Wire, model *protocol.Model) {
	tight := *model // so that the limit of the answer depends on the size of the context
	tight.ContextWindow = tight.MaxTokens + 500
	model = &tight
	rapid.Check(t, func(t *rapid.T) {
		req, memo := Requests(model).Draw(t, "request"), new(providers.Memo)
		req.Tools = question(model).Tools
		for range rapid.IntRange(2, 12).Draw(t, "requests") {
			req.Memo = nil
			want, refused := wire.Encode(&req)
			req.Memo = memo
			got, err := wire.Encode(&req)
			require.Equal(t, refused, err)
			if err == nil {
				require.Equal(t, string(want.Body), string(got.Body))
			}
			happen(t, &req, model)
		}
	})
	reuses(t, wire, model)
}

// happen is what may become of a session before its next request: mostly that
// it goes on.
func happen(t *rapid.T, req *providers.Request, model *protocol.Model) {
	n := len(req.Messages)
	more := Histories(model)
	switch rapid.SampledFrom([]string{"go on", "go on", "turn", "turn", "one", "one", "edit", "back", "branch", "compact", "ask anew"}).Draw(t, "event") {
	case "go on":
		req.Messages = append(slices.Clip(req.Messages), more.Draw(t, "more")...)
	case "turn":
		req.Messages = append(slices.Clip(req.Messages), LongHistory(model, rapid.IntRange(1, 8).Draw(t, "length"))...)
	case "one":
		req.Messages = append(slices.Clip(req.Messages), message(t, model))
	case "edit":
		if n > 0 {
			req.Messages = slices.Clone(req.Messages)
			req.Messages[rapid.IntRange(0, n-1).Draw(t, "at")] = message(t, model)
		}
	case "back":
		req.Messages = slices.Clip(req.Messages[:rapid.IntRange(0, n).Draw(t, "keep")])
	case "branch":
		req.Messages = append(slices.Clip(req.Messages[:rapid.IntRange(0, n).Draw(t, "keep")]), more.Draw(t, "branch")...)
	case "compact":
		rest := req.Messages[rapid.IntRange(0, n).Draw(t, "from"):]
		req.Messages = append([]protocol.Message{&protocol.CompactionSummaryMessage{Summary: "It went well."}}, rest...)
	case "ask anew":
		messages := req.Messages
		*req = Requests(model).Draw(t, "request")
		req.Messages = messages
	}
}

// reuses: what is remembered is not encoded again. A message that changes, as
// none may, shows it.
func reuses(t *testing.T, wire providers.Wire, model *protocol.Model) {
	req := question(model)
	req.Memo = new(providers.Memo)
	req.Messages = LongHistory(model, 100)
	_, err := wire.Encode(&req)
	require.NoError(t, err)
	first := req.Messages[0].(*protocol.UserMessage)
	req.Messages[0] = &protocol.UserMessage{Content: protocol.TextContent("something else")}
	changed, err := wire.Encode(&req)
	require.NoError(t, err)
	assert.Contains(t, string(changed.Body), "something else")

	req.Messages[0] = first
	for range 3 {
		req.Messages = append(req.Messages, &protocol.UserMessage{Content: protocol.TextContent("And?")}, req.Messages[3])
		_, err = wire.Encode(&req)
		require.NoError(t, err)
		first.Content = protocol.TextContent("not as it was")
	}
	call, err := wire.Encode(&req)
	require.NoError(t, err)
	assert.NotContains(t, string(call.Body), "not as it was")
	req.Memo = nil
	call, err = wire.Encode(&req)
	require.NoError(t, err)
	assert.Contains(t, string(call.Body), "not as it was")
}
