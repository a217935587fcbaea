package extension

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/protocol/extension"
)

// answering is a virtual machine that answers every question alike.
type answering struct {
	tools *Tools
	says  extension.Done
}

func (a answering) Say(w extension.Word) {
	a.says.ID = w.(extension.Call).ID
	a.tools.answer(a.says)
}

// TestUserBash: a command of the client runs if its extensions have nothing to say to
// it, and only then.
func TestUserBash(t *testing.T) {
	own := &protocol.BashResult{Output: "mine"}
	for _, c := range []struct {
		name   string
		says   extension.Done
		result *protocol.BashResult
		err    string
	}{
		{"nothing", extension.Done{}, nil, ""},
		{"a result", extension.Done{Result: []byte(`{"result":{"output":"mine"}}`)}, own, ""},
		{"a handler threw", extension.Done{Result: []byte(`{"block":true,"reason":"boom"}`)}, nil, "boom"},
		{"it threw nothing", extension.Done{Result: []byte(`{"block":true}`)}, nil, "user_bash: the command was blocked"},
		{"too late", extension.Done{TimedOut: true}, nil, "the extensions did not answer in time"},
		{"gone", extension.Done{Err: "why"}, nil, "why"},
		{"of a wrong type", extension.Done{Result: []byte(`{"result":"x"}`), Path: "/x.ts"}, nil,
			"user_bash: /x.ts: json: cannot unmarshal string into Go struct field .result of type protocol.BashResult"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tools := NewTools()
			var reported []string
			tools.report = func(f extension.Failure) { reported = append(reported, f.Event+" of "+f.Path) }
			tools.use(answering{tools: tools, says: c.says})
			got, err := tools.UserBash(t.Context(), "ls", "/", false)
			if c.err != "" {
				require.EqualError(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.result, got)
			if c.says.Path == "" {
				assert.Empty(t, reported)
			} else {
				assert.Equal(t, []string{"user_bash of /x.ts"}, reported)
			}
		})
	}
}
