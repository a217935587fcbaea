package providertest

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"

	"troupe/protocol"
)

// Journey is a session that several models worked on, each in the manner of its
// wire, with what a request to one of them must and must not carry over. Every
// text, thought, result and signature in it is unique.
type Journey struct {
	Messages []protocol.Message

	Said    []string                     // texts that every request has, once
	Unsaid  []string                     // texts of answers that failed: no request has them
	Thought []string                     // thinking, which every request has in some form
	Proofs  map[*protocol.Model][]string // signatures, for the model that made them and nobody else
	Lost    []string                     // signatures of answers that failed: for nobody

	n      int // of unique things so far
	models []*protocol.Model
	t      *rapid.T
}

// Journeys generates sessions in which models take turns: tool calls that are
// answered, late, twice or never, aborted and failed answers, images, summaries
// and commands. The models' APIs say how their answers look.
func Journeys(models ...*protocol.Model) *rapid.Generator[*Journey] {
	return rapid.Custom(func(t *rapid.T) *Journey {
		j := &Journey{Proofs: map[*protocol.Model][]string{}, models: models, t: t}
		j.user()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			j.step()
		}
		return j
	})
}

func (j *Journey) unique(what string) string {
	j.n++
	return fmt.Sprintf("%s-%d.", what, j.n)
}

func (j *Journey) add(m protocol.Message) { j.Messages = append(j.Messages, m) }

func (j *Journey) say() protocol.Content {
	text := j.unique("say")
	j.Said = append(j.Said, text)
	return protocol.TextContent(text)
}

func (j *Journey) user() {
	content := j.say()
	if rapid.IntRange(0, 4).Draw(j.t, "with an image") == 0 {
		content = append(content, protocol.Image{Data: pixel, MimeType: "image/png"})
	}
	j.add(&protocol.UserMessage{Content: content})
}

func (j *Journey) step() {
	switch rapid.SampledFrom([]string{"turn", "turn", "turn", "turn", "user", "compaction", "branch", "bash", "custom"}).Draw(j.t, "step") {
	case "turn":
		j.turn(rapid.SampledFrom(j.models).Draw(j.t, "model"))
	case "user":
		j.user()
	case "compaction":
		j.add(&protocol.CompactionSummaryMessage{Summary: j.say().Text("")})
	case "branch":
		j.add(&protocol.BranchSummaryMessage{Summary: j.say().Text("")})
	case "bash":
		j.add(&protocol.BashExecutionMessage{Command: "ls", Output: j.say().Text("")})
	case "custom":
		j.add(&protocol.CustomMessage{CustomType: "note", Content: j.say()})
	}
}

// turn adds an answer and the results of its calls, in any state.
func (j *Journey) turn(m *protocol.Model) {
	a := &protocol.AssistantMessage{API: m.API, Provider: m.Provider, Model: m.ID, StopReason: rapid.SampledFrom([]protocol.StopReason{
		protocol.StopStop, protocol.StopStop, protocol.StopStop, protocol.StopLength, protocol.StopError, protocol.StopAborted,
	}).Draw(j.t, "stop")}
	failed := a.StopReason == protocol.StopError || a.StopReason == protocol.StopAborted
	keep := func(list *[]string, text string) string {
		if failed {
			list = &j.Unsaid
		}
		*list = append(*list, text)
		return text
	}
	proof := func() string {
		j.n++
		s := fmt.Sprintf("SIG%012dX", j.n) // base64, as far as that goes
		if failed {
			j.Lost = append(j.Lost, s)
		} else {
			j.Proofs[m] = append(j.Proofs[m], s)
		}
		return s
	}
	if rapid.Bool().Draw(j.t, "thinks") {
		a.Content = append(a.Content, native(m.API).thinking(keep(&j.Thought, j.unique("think")), proof))
	}
	calls := rapid.IntRange(0, 3).Draw(j.t, "calls")
	if calls == 0 || rapid.Bool().Draw(j.t, "speaks") {
		a.Content = append(a.Content, native(m.API).text(keep(&j.Said, j.unique("answer")), j.n, proof))
	}
	anew := rapid.IntRange(0, 3).Draw(j.t, "ids begin anew") == 0 // some servers number the calls of each answer
	for i := range calls {
		n := i
		if !anew {
			j.n++
			n = j.n
		}
		a.Content = append(a.Content, native(m.API).call(native(m.API).id(n, j.n), i == 0, proof))
	}
	j.add(a)
	j.results(a, failed)
	if rapid.Bool().Draw(j.t, "the user goes on") {
		j.user()
	}
}

func (j *Journey) results(a *protocol.AssistantMessage, failed bool) {
	for _, call := range a.Content.ToolCalls() {
		result := func(text string) *protocol.ToolResultMessage {
			content := protocol.TextContent(text)
			if rapid.IntRange(0, 5).Draw(j.t, "shows an image") == 0 {
				content = append(content, protocol.Image{Data: pixel, MimeType: "image/png"})
			}
			return &protocol.ToolResultMessage{ToolCallID: call.ID, ToolName: call.Name, Content: content, IsError: rapid.Bool().Draw(j.t, "is an error")}
		}
		list := &j.Said
		if failed {
			list = &j.Unsaid
		}
		switch rapid.SampledFrom([]string{"answered", "answered", "answered", "never", "late", "twice"}).Draw(j.t, "fate") {
		case "answered":
			text := j.unique("result")
			*list = append(*list, text)
			j.add(result(text))
		case "late":
			text := j.unique("result")
			*list = append(*list, text)
			j.user()
			j.add(result(text))
		case "twice":
			text, again := j.unique("result"), j.unique("result")
			*list, j.Unsaid = append(*list, text), append(j.Unsaid, again)
			j.add(result(text))
			j.add(result(again))
		}
	}
}

// manner is how the answers of a wire look in a session.
type manner struct {
	id       func(n, unique int) string
	thinking func(text string, proof func() string) protocol.Block
	text     func(text string, n int, proof func() string) protocol.Block
	proof    func(first bool, proof func() string) string // of a call
}

func (m manner) call(id string, first bool, proof func() string) protocol.ToolCall {
	call := protocol.ToolCall{ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"a.txt"}`)}
	if m.proof != nil {
		call.ThoughtSignature = m.proof(first, proof)
	}
	return call
}

func plainText(text string, _ int, _ func() string) protocol.Block { return protocol.Text{Text: text} }

// native is the manner of a wire.
func native(api string) manner {
	signed := func(text string, proof func() string) protocol.Block {
		return protocol.Thinking{Thinking: text, Signature: proof()}
	}
	switch api {
	case "anthropic-messages", "bedrock-converse-stream":
		return manner{
			id:       func(n, _ int) string { return fmt.Sprintf("toolu_%d", n) },
			thinking: signed, text: plainText,
		}
	case "openai-responses":
		return manner{
			id: func(n, unique int) string { return fmt.Sprintf("call_%d|fc_%d", n, unique) },
			thinking: func(text string, proof func() string) protocol.Block {
				s := proof()
				return protocol.Thinking{Thinking: text, Signature: fmt.Sprintf(`{"id":"rs_%s","type":"reasoning","encrypted_content":%q,"summary":[{"type":"summary_text","text":%q}]}`, s, s, text)}
			},
			text: func(text string, n int, _ func() string) protocol.Block {
				return protocol.Text{Text: text, Signature: fmt.Sprintf(`{"v":1,"id":"msg_x%d"}`, n)}
			},
		}
	case "google-generative-ai":
		return manner{
			id: func(n, _ int) string { return fmt.Sprintf("read_kRkXaf2xFqGn_%d", n) },
			thinking: func(text string, _ func() string) protocol.Block {
				return protocol.Thinking{Thinking: text}
			},
			text: func(text string, _ int, proof func() string) protocol.Block {
				return protocol.Text{Text: text, Signature: proof()}
			},
			proof: func(first bool, proof func() string) string {
				if first {
					return proof()
				}
				return ""
			},
		}
	}
	return manner{ // chat completions, behind a gateway that passes proofs on
		id: func(n, _ int) string { return fmt.Sprintf("chatcmpl-tool:%040d", n) },
		thinking: func(text string, _ func() string) protocol.Block {
			return protocol.Thinking{Thinking: text, Signature: "reasoning_content"}
		},
		text: plainText,
		proof: func(_ bool, proof func() string) string {
			return fmt.Sprintf(`{"type":"reasoning.encrypted","id":"x","data":%q}`, proof())
		},
	}
}
