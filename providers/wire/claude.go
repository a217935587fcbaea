package wire

import (
	"errors"

	"troupe/protocol"
	"troupe/providers"
)

// InterleavedBeta lets Claude think between calls of tools.
const InterleavedBeta = "interleaved-thinking-2025-05-14"

const (
	minBudget     = 1024 // thinking tokens below which Claude refuses
	answerReserve = 1024 // tokens that thinking must leave for the answer
)

// Claude is what Claude is asked, over whichever wire: the conversation as it takes it, how much
// it may answer, and how much of that is thinking.
type Claude struct {
	Messages  []protocol.Message
	Input     int64 // about how many tokens the request has
	MaxTokens int64
	Budget    int64 // thinking tokens; 0 for adaptive or no thinking
	Effort    string
}

// maxClaudeID is how long the ids of calls may be, and the names of tools.
const maxClaudeID = 64

// ClaudeID is an id or a name by the rule for both: ^[a-zA-Z0-9_-]+$.
func ClaudeID(id string, try int) string { return SafeID(id, maxClaudeID, try) }

// ClaudeOf makes it of a request. It fails for one without a message. adaptive is for models that
// choose their budget themselves.
func ClaudeOf(req *providers.Request, thinks, adaptive bool) (Claude, error) {
	c := Claude{Messages: Convert(req, Shape{
		ToolID:     func(id string, _ bool, try int) string { return ClaudeID(id, try) },
		MergeUsers: true, UserFirst: true, UserLast: true, Spoken: true,
	})}
	if len(c.Messages) == 0 {
		return c, errors.New("there is no message to send")
	}
	c.Input = req.EstimateInput(c.Messages)
	c.MaxTokens = req.AnswerLimit(c.Input, 0)
	switch {
	case !thinks:
	case adaptive:
		if c.Effort = req.Effort(nil); c.Effort == string(protocol.ThinkingMinimal) {
			c.Effort = string(protocol.ThinkingLow)
		}
	default:
		c.Budget = req.Budget()
		c.MaxTokens = req.AnswerLimit(c.Input, c.Budget)
		if c.MaxTokens <= c.Budget {
			c.Budget = c.MaxTokens - answerReserve
		}
		if c.Budget < minBudget {
			c.Budget = 0
		}
	}
	return c, nil
}

// Offered are the tools of a request. A history with calls needs tools even when none is
// active any more: then every tool that was called stands there by name, with what is
// said of one that is gone.
func Offered(req *providers.Request, messages []protocol.Message, gone string) (tools []protocol.ToolInfo, none bool) {
	if tools = req.Tools; len(tools) > 0 {
		return tools, false
	}
	for _, name := range Called(messages) {
		tools = append(tools, protocol.ToolInfo{Name: name, Description: gone})
	}
	return tools, true
}

// AppendTurns writes messages as a list of turns of user and assistant: tool results and
// what the user says after them are one turn. one writes the blocks of a message.
func AppendTurns(b []byte, messages []protocol.Message, one func(b []byte, i int, m protocol.Message) []byte) []byte {
	b = append(b, `,"messages":[`...)
	role := ""
	for i, m := range messages {
		next := "user"
		if m.Role() == protocol.RoleAssistant {
			next = "assistant"
		}
		if role == next {
			b = append(b, ',')
		} else {
			if role != "" {
				b = append(b, `]},`...)
			}
			b = append(b, `{"role":"`...) // in pieces: text that is joined first is an allocation for each turn
			b = append(b, next...)
			b = append(b, `","content":[`...)
		}
		role = next
		b = one(b, i, m)
	}
	return b
}
