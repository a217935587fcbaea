package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// appendThinking asks for the request's thinking level in the endpoint's own
// way. The forms are those of compat.ThinkingFormat:
//
//	openai              reasoning_effort
//	openrouter          reasoning:{effort}, "none" for off
//	together            reasoning:{enabled} and reasoning_effort
//	ant-ling            reasoning:{effort} for levels the model has a word for
//	zai                 thinking:{type, clear_thinking} and reasoning_effort
//	deepseek            thinking:{type} and reasoning_effort
//	qwen                enable_thinking and reasoning_effort
//	qwen-chat-template  chat_template_kwargs:{enable_thinking, preserve_thinking}
//	chat-template       chat_template_kwargs as chatTemplateKwargs says
//	baseten             chat_template_args as chatTemplateArgs says, and reasoning_effort
//	string-thinking     thinking:LEVEL
//	mistral             prompt_mode:reasoning
func (e *encoder) appendThinking(b []byte) []byte {
	if !e.req.Model.Reasoning {
		return b
	}
	on, effort := e.req.Thinks(), e.effort()
	state := "disabled"
	if on {
		state = "enabled"
	}
	switch e.compat.ThinkingFormat {
	case "openrouter":
		if effort == "" {
			effort = "none"
		}
		b = append(b, `,"reasoning":{"effort":`...)
		b = append(protocol.AppendString(b, effort), '}')
	case "ant-ling":
		if word := e.ownWord(); word != "" {
			b = append(b, `,"reasoning":{"effort":`...)
			b = append(protocol.AppendString(b, word), '}')
		}
	case "together":
		b = append(b, `,"reasoning":{"enabled":`...)
		b = append(strconv.AppendBool(b, on), '}')
		b = e.appendEffort(b, effort, on)
	case "zai":
		b = append(b, `,"thinking":{"type":"`+state+`"`...)
		if on {
			b = append(b, `,"clear_thinking":false`...)
		}
		b = append(b, '}')
		b = e.appendEffort(b, effort, on)
	case "deepseek":
		b = append(b, `,"thinking":{"type":"`+state+`"}`...)
		b = e.appendEffort(b, effort, on)
	case "qwen":
		b = append(b, `,"enable_thinking":`...)
		b = strconv.AppendBool(b, on)
		b = e.appendEffort(b, effort, on)
	case "qwen-chat-template":
		b = append(b, `,"chat_template_kwargs":{"enable_thinking":`...)
		b = strconv.AppendBool(b, on)
		b = append(b, `,"preserve_thinking":true}`...)
	case "chat-template":
		b = e.appendTemplate(b, "chat_template_kwargs", e.compat.ChatTemplateKwargs)
	case "string-thinking":
		if effort != "" {
			b = append(b, `,"thinking":`...)
			b = protocol.AppendString(b, effort)
		}
	case "mistral":
		if on {
			b = append(b, `,"prompt_mode":"reasoning"`...)
		}
	default: // openai, baseten
		b = e.appendEffort(b, effort, effort != "")
	}
	b = e.appendTemplate(b, "chat_template_args", e.compat.ChatTemplateArgs)
	return e.appendBudget(b)
}

// effort is the endpoint's word for the level, "" for none.
func (e *encoder) effort() string {
	if word, ok := e.compat.ReasoningEffortMap[string(e.req.Thinking)]; ok {
		return word
	}
	return e.req.Effort()
}

// ownWord is the word that the model's description has for the level.
func (e *encoder) ownWord() string {
	if s := e.req.Model.Settings; s != nil {
		if word := s.ThinkingValues[string(e.req.Thinking)]; word != nil {
			return *word
		}
	}
	return ""
}

func (e *encoder) appendEffort(b []byte, effort string, wanted bool) []byte {
	if !wanted || effort == "" || !e.compat.SupportsReasoningEffort {
		return b
	}
	b = append(b, `,"reasoning_effort":`...)
	return protocol.AppendString(b, effort)
}

func (e *encoder) appendBudget(b []byte) []byte {
	if e.compat.ThinkingTokenBudgetField == "" || !e.req.Thinks() {
		return b
	}
	budget := min(e.req.Budget(), e.req.OutputLimit(e.req.Budget())-1024)
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
		if effort := e.effort(); effort != "" {
			return protocol.AppendString(nil, effort)
		}
	case "thinking.budget":
		if e.req.Thinks() {
			return strconv.AppendInt(nil, e.req.Budget(), 10)
		}
	}
	return nil
}
