package openai

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers/wire"
)

// thinkingForm is how an endpoint is asked to think: the member that is written
// when the model is to think, the one when it is not, and whether a member
// reasoning_effort follows the first.
type thinkingForm struct {
	on, off string
	effort  bool
}

// thinkingForms are the values of compat.ThinkingFormat that need no more than
// that; appendThinking has the others.
var thinkingForms = map[string]thinkingForm{
	"together": {`,"reasoning":{"enabled":true}`, `,"reasoning":{"enabled":false}`, true},
	"zai":      {`,"thinking":{"type":"enabled","clear_thinking":false}`, `,"thinking":{"type":"disabled"}`, true},
	"deepseek": {`,"thinking":{"type":"enabled"}`, `,"thinking":{"type":"disabled"}`, true},
	"qwen":     {`,"enable_thinking":true`, `,"enable_thinking":false`, true},
	"qwen-chat-template": {`,"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}`,
		`,"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}`, false},
	"mistral": {`,"prompt_mode":"reasoning"`, ``, false},
}

// appendThinking asks for the request's thinking level in the endpoint's own
// way. Besides those of [thinkingForms] the forms are:
//
//	openai           reasoning_effort
//	openrouter       reasoning:{effort}, "none" for off
//	ant-ling         reasoning:{effort} for levels the model has a word for
//	string-thinking  thinking:LEVEL
//	chat-template    chat_template_kwargs as chatTemplateKwargs says
//	baseten          chat_template_args as chatTemplateArgs says, and reasoning_effort
func (e *encoder) appendThinking(b []byte) []byte {
	if !e.req.Model.Reasoning {
		return b
	}
	effort := e.req.Effort(e.compat.ReasoningEffortMap)
	format := e.compat.ThinkingFormat
	form, simple := thinkingForms[format]
	switch {
	case simple && e.req.Thinks():
		b = append(b, form.on...)
		if form.effort {
			b = e.appendEffort(b, effort)
		}
	case simple:
		b = append(b, form.off...)
	case format == "openrouter":
		b = appendReasoning(b, cmp.Or(effort, "none"))
	case format == "ant-ling":
		word, _ := e.req.OwnWord()
		b = appendReasoning(b, word)
	case format == "string-thinking":
		if effort != "" {
			b = wire.Str(b, `,"thinking":`, effort)
		}
	case format == "chat-template":
		b = e.appendTemplate(b, "chat_template_kwargs", e.compat.ChatTemplateKwargs)
	default: // openai, baseten
		b = e.appendEffort(b, effort)
	}
	b = e.appendTemplate(b, "chat_template_args", e.compat.ChatTemplateArgs)
	return e.appendBudget(b)
}

func appendReasoning(b []byte, effort string) []byte {
	if effort == "" {
		return b
	}
	return append(wire.Str(b, `,"reasoning":{"effort":`, effort), '}')
}

func (e *encoder) appendEffort(b []byte, effort string) []byte {
	if effort == "" || !e.compat.SupportsReasoningEffort {
		return b
	}
	return wire.Str(b, `,"reasoning_effort":`, effort)
}

func (e *encoder) appendBudget(b []byte) []byte {
	if e.compat.ThinkingTokenBudgetField == "" || !e.req.Thinks() {
		return b
	}
	budget := min(e.req.Budget(), e.req.AnswerLimit(e.input, e.req.Budget())-1024)
	if budget <= 0 {
		return b
	}
	b = append(protocol.AppendString(append(b, ','), e.compat.ThinkingTokenBudgetField), ':')
	return strconv.AppendInt(b, budget, 10)
}

// appendTemplate writes arguments for a chat template. A value {"$var": NAME}
// stands for thinking.enabled, thinking.effort or thinking.budget; with
// omitWhenOff it is left out when the model is not to think.
func (e *encoder) appendTemplate(b []byte, name string, args map[string]json.RawMessage) []byte {
	if len(args) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	sep := byte('{')
	for _, key := range slices.Sorted(maps.Keys(args)) {
		value := []byte(args[key])
		if v := gjson.GetBytes(value, "$var"); v.Exists() {
			if gjson.GetBytes(value, "omitWhenOff").Bool() && !e.req.Thinks() {
				continue
			}
			if value = e.variable(v.Str); value == nil {
				continue
			}
		}
		b = append(protocol.AppendString(append(b, sep), key), ':')
		b = append(b, value...)
		sep = ','
	}
	if sep == '{' {
		b = append(b, sep)
	}
	return append(b, '}')
}

// variable is the JSON of a template variable, nil if it has no value.
func (e *encoder) variable(name string) []byte {
	switch name {
	case "thinking.enabled":
		return strconv.AppendBool(nil, e.req.Thinks())
	case "thinking.effort", "thinking.level":
		if effort := e.req.Effort(e.compat.ReasoningEffortMap); effort != "" {
			return protocol.AppendString(nil, effort)
		}
	case "thinking.budget":
		if e.req.Thinks() {
			return strconv.AppendInt(nil, e.req.Budget(), 10)
		}
	}
	return nil
}
