package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/protocol"
)

// toolResultChars is how much of a tool result a summariser reads.
const toolResultChars = 2000

// transcript is a conversation as plain text, so that a summariser reads it and
// does not go on with it. At most room tokens of it are kept, the newest; 0 is
// no limit.
func transcript(messages []protocol.Message, room int64) string {
	var parts []string
	var size int64
	for _, m := range slices.Backward(messages) {
		text := spoken(m)
		if text == "" {
			continue
		}
		n := protocol.EstimateText(text)
		if room > 0 && size+n > room {
			if len(parts) == 0 { // one message is larger than the model's window
				parts = append(parts, text[max(0, len(text)-int(room)):])
			}
			parts = append(parts, "[Earlier messages are left out: they do not fit.]")
			break
		}
		size += n
		parts = append(parts, text)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "\n\n")
}

// spoken is what one message says.
func spoken(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.UserMessage:
		return label("User", m.Content.Text(""))
	case *protocol.CustomMessage:
		return label("User", m.Content.Text(""))
	case *protocol.AssistantMessage:
		return spokenAnswer(m)
	case *protocol.ToolResultMessage:
		return label("Tool result", shorten(m.Content.Text("\n")))
	case *protocol.BashExecutionMessage:
		if m.ExcludeFromContext {
			return ""
		}
		return label("User", shorten(m.ModelText()))
	case *protocol.BranchSummaryMessage:
		return label("User", "Summary of another branch: "+m.Summary)
	case *protocol.CompactionSummaryMessage:
		return label("User", "Summary of the conversation before: "+m.Summary)
	case *protocol.UnknownMessage:
	}
	return ""
}

func spokenAnswer(m *protocol.AssistantMessage) string {
	var thinking, text, calls []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case protocol.Thinking:
			thinking = append(thinking, b.Thinking)
		case protocol.Text:
			text = append(text, b.Text)
		case protocol.ToolCall:
			calls = append(calls, spokenCall(b))
		case protocol.Image, protocol.UnknownBlock:
		}
	}
	parts := []string{
		label("Assistant thinking", strings.Join(thinking, "\n")), label("Assistant", strings.Join(text, "\n")),
		label("Assistant tool calls", strings.Join(calls, "; ")),
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "\n\n")
}

func spokenCall(c protocol.ToolCall) string {
	var args map[string]json.RawMessage
	if json.Unmarshal(c.Arguments, &args) != nil {
		return c.Name + "()"
	}
	var list []string
	for name, value := range args {
		list = append(list, name+"="+string(value))
	}
	slices.Sort(list)
	return fmt.Sprintf("%s(%s)", c.Name, strings.Join(list, ", "))
}

func label(who, text string) string {
	if text == "" {
		return ""
	}
	return "[" + who + "]: " + text
}

func shorten(text string) string {
	r := []rune(text)
	if len(r) <= toolResultChars {
		return text
	}
	return fmt.Sprintf("%s\n\n[%d more characters left out]", string(r[:toolResultChars]), len(r)-toolResultChars)
}

// What a summariser is told.
const summariserRole = "You summarise conversations between a user and a coding assistant. " +
	"Read the conversation you are given and write the summary that is asked for, nothing else. " +
	"Do not continue the conversation, and do not answer questions that occur in it."

const summarySections = `
## Goal
What the user wants to achieve.

## Constraints & Preferences
What the user demands or prefers, or "(none)".

## Progress
### Done
- [x] What is finished.
### In Progress
- [ ] What has been begun.
### Blocked
- What stands in the way, if anything.

## Key Decisions
- **Decision**: why.

## Next Steps
1. What is to be done next, in order.
`

// handoverForm is for a summary from which another model goes on.
const handoverForm = summarySections + `
## Critical Context
- Data, references and findings without which the work cannot go on.

Be concise. Keep file paths, names of functions and error messages exactly as they are.`

const summaryInstruction = "The messages above will be replaced by your summary: another model has to go on with the work " +
	"from it alone. Write it in this form, in Markdown:\n" + handoverForm

const updateInstruction = "The messages above are new. Bring the summary in <previous-summary> up to date with them: " +
	"keep everything that still matters, add what is new, move what is finished to Done, and renew the next steps. " +
	"Write the whole summary in this form, in Markdown:\n" + handoverForm

const prefixInstruction = `The messages above are the beginning of a turn that was too long to keep; its end stays in the conversation. Write what is needed to understand the end, in Markdown:

## Original Request
What the user asked for in this turn.

## Early Progress
- What was done and decided in the part above.

## Context for the Rest
- What the kept part relies on.

Be concise. Keep file paths, names of functions and error messages exactly as they are.`

const branchInstruction = "The messages above are a branch of the conversation that the user has left. Write a summary that " +
	"tells what was tried there and what came of it, in this form, in Markdown:\n" + summarySections + `
Be concise. Keep file paths, names of functions and error messages exactly as they are.`
