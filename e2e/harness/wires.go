package harness

import (
	"encoding/json"
	"fmt"
	"strings"
)

// responses writes an answer in the protocol openai-responses.
func (s *stream) responses() {
	in, out := s.a.usage()
	send := func(kind string, data m) {
		data["type"] = kind
		data["sequence_number"] = s.said
		s.said++
		s.event(kind, data)
	}
	head := m{"id": "resp_1", "object": "response", "status": "in_progress", "model": "mock", "output": []any{}}
	send("response.created", m{"response": head})
	index := -1
	var items []any
	var text strings.Builder
	open := false
	closeText := func() {
		if !open {
			return
		}
		open = false
		item := m{"id": fmt.Sprintf("msg_%d", index), "type": "message", "role": "assistant", "status": "completed",
			"content": []any{m{"type": "output_text", "text": text.String(), "annotations": []any{}}}}
		send("response.output_text.done", m{"item_id": item["id"], "output_index": index, "content_index": 0, "text": text.String()})
		send("response.output_item.done", m{"output_index": index, "item": item})
		items = append(items, item)
		text.Reset()
	}
	for _, st := range s.a.Steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		switch st.Kind {
		case "text":
			if !open {
				index++
				open = true
				id := fmt.Sprintf("msg_%d", index)
				send("response.output_item.added", m{"output_index": index, "item": m{"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}})
				send("response.content_part.added", m{"item_id": id, "output_index": index, "content_index": 0, "part": m{"type": "output_text", "text": ""}})
			}
			text.WriteString(st.Part)
			send("response.output_text.delta", m{"item_id": fmt.Sprintf("msg_%d", index), "output_index": index, "content_index": 0, "delta": st.Part})
		case "tool":
			closeText()
			index++
			item := m{"id": "fc_" + st.ID, "type": "function_call", "call_id": st.ID, "name": st.Name, "arguments": "", "status": "in_progress"}
			send("response.output_item.added", m{"output_index": index, "item": item})
			half := len(st.Part) / 2
			for _, part := range []string{st.Part[:half], st.Part[half:]} {
				send("response.function_call_arguments.delta", m{"item_id": item["id"], "output_index": index, "delta": part})
			}
			done := m{"id": "fc_" + st.ID, "type": "function_call", "call_id": st.ID, "name": st.Name, "arguments": st.Part, "status": "completed"}
			if s.a.Stop == "length" {
				continue
			}
			send("response.function_call_arguments.done", m{"item_id": item["id"], "output_index": index, "arguments": st.Part})
			send("response.output_item.done", m{"output_index": index, "item": done})
			items = append(items, done)
		}
	}
	closeText()
	if s.a.Cut {
		return
	}
	final := m{"id": "resp_1", "object": "response", "status": "completed", "model": "mock", "output": items,
		"usage": m{"input_tokens": in, "output_tokens": out, "total_tokens": in + out}}
	kind := "response.completed"
	if s.a.Stop == "length" {
		kind = "response.incomplete"
		final["status"], final["incomplete_details"] = "incomplete", m{"reason": "max_output_tokens"}
	}
	send(kind, m{"response": final})
}

// google writes an answer in the protocol google-generative-ai.
func (s *stream) google() {
	in, out := s.a.usage()
	chunk := func(part m, finish string) {
		candidate := m{"index": 0, "content": m{"role": "model", "parts": []any{}}}
		if part != nil {
			candidate["content"] = m{"role": "model", "parts": []any{part}}
		}
		data := m{"candidates": []any{candidate}, "responseId": "r1", "modelVersion": "mock"}
		if finish != "" {
			candidate["finishReason"] = finish
			data["usageMetadata"] = m{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out}
		}
		s.event("", data)
	}
	for _, st := range s.a.Steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		switch st.Kind {
		case "text":
			chunk(m{"text": st.Part}, "")
		case "tool":
			chunk(m{"functionCall": m{"name": st.Name, "args": json.RawMessage(st.Part)}}, "")
		}
	}
	if s.a.Cut {
		return
	}
	chunk(nil, map[string]string{"": "STOP", "stop": "STOP", "length": "MAX_TOKENS", "toolUse": "STOP"}[s.a.Stop])
}
