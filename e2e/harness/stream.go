package harness

import (
	"encoding/json"
	"fmt"
	"net/http"

	"troupe/e2e/history"
)

// stream writes one answer.
type stream struct {
	model *ModelServer
	w     http.ResponseWriter
	r     *http.Request
	a     Answer
	kind  string // of the block that is open in anthropic-messages
	said  int    // events that openai-responses has sent
	n     int    // of the request, from 1; 0 once it is in the history
}

// recordUsage adds the end of the request to the history. It is called before the client can see
// that end.
func (s *stream) recordUsage(output int) {
	if s.model.history != nil && s.n != 0 {
		s.model.history.Add(history.Answered, fmt.Sprintf(`{"n":%d,"output":%d}`, s.n, output))
	}
	s.n = 0
}

func (s *stream) flush() { s.w.(http.Flusher).Flush() }

func (s *stream) event(name string, data any) {
	raw, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", raw)
	s.flush()
}

// pause handles steps without content. goOn is false if the client has disconnected or the answer
// must never end.
func (s *stream) pause(st Step) (isPause, goOn bool) {
	switch st.Kind {
	case "gate":
		s.flush()
		select {
		case <-s.model.gate(st.Name):
			return true, true
		case <-s.r.Context().Done():
			return true, false
		}
	case "stall":
		s.flush()
		<-s.r.Context().Done()
		return true, false
	case "comment":
		fmt.Fprint(s.w, ": keepalive\n\n")
		s.flush()
		return true, true
	}
	return false, true
}

// m is a JSON object.
type m = map[string]any

// messages writes an answer in the protocol anthropic-messages.
func (s *stream) messages() {
	in, out := s.a.usage()
	s.event("message_start", m{"type": "message_start", "message": m{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{},
		"model": "mock", "usage": m{"input_tokens": in, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}}})
	index := -1
	closeBlock := func() {
		if s.kind != "" {
			s.event("content_block_stop", m{"type": "content_block_stop", "index": index})
			s.kind = ""
		}
	}
	for _, st := range s.a.Steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		if s.kind != st.Kind || st.Kind == "tool" {
			closeBlock()
			index++
			block := m{"type": "text", "text": ""}
			switch st.Kind {
			case "thinking":
				block = m{"type": "thinking", "thinking": "", "signature": ""}
			case "tool":
				block = m{"type": "tool_use", "id": st.ID, "name": st.Name, "input": m{}}
			}
			s.event("content_block_start", m{"type": "content_block_start", "index": index, "content_block": block})
			s.kind = st.Kind
		}
		for _, d := range s.anthropicDeltas(st) {
			s.event("content_block_delta", m{"type": "content_block_delta", "index": index, "delta": d})
		}
	}
	closeBlock()
	if s.a.Cut {
		return
	}
	stop := map[string]string{"": "end_turn", "stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}[s.a.Stop]
	if s.a.Stop == "" && s.a.hasTools() {
		stop = "tool_use"
	}
	s.recordUsage(out)
	s.event("message_delta", m{"type": "message_delta", "delta": m{"stop_reason": stop}, "usage": m{"output_tokens": out}})
	s.event("message_stop", m{"type": "message_stop"})
}

func (s *stream) anthropicDeltas(st Step) []m {
	switch st.Kind {
	case "thinking":
		return []m{{"type": "thinking_delta", "thinking": st.Part}, {"type": "signature_delta", "signature": st.Signature}}
	case "tool":
		half := len(st.Part) / 2
		return []m{{"type": "input_json_delta", "partial_json": st.Part[:half]}, {"type": "input_json_delta", "partial_json": st.Part[half:]}}
	}
	return []m{{"type": "text_delta", "text": st.Part}}
}

// completions writes an answer in the protocol openai-completions.
func (s *stream) completions() {
	in, out := s.a.usage()
	chunk := func(delta m, finish any) {
		s.event("", m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []any{m{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	chunk(m{"role": "assistant", "content": ""}, nil)
	calls := 0
	for _, st := range s.a.Steps {
		if isPause, goOn := s.pause(st); isPause {
			if !goOn {
				return
			}
			continue
		}
		switch st.Kind {
		case "text":
			chunk(m{"content": st.Part}, nil)
		case "thinking":
			chunk(m{"reasoning_content": st.Part}, nil)
		case "tool":
			half := len(st.Part) / 2
			chunk(m{"tool_calls": []any{m{"index": calls, "id": st.ID, "type": "function", "function": m{"name": st.Name, "arguments": st.Part[:half]}}}}, nil)
			chunk(m{"tool_calls": []any{m{"index": calls, "function": m{"arguments": st.Part[half:]}}}}, nil)
			calls++
		}
	}
	if s.a.Cut {
		return
	}
	stop := map[string]string{"": "stop", "stop": "stop", "length": "length", "toolUse": "tool_calls"}[s.a.Stop]
	if s.a.Stop == "" && calls > 0 {
		stop = "tool_calls"
	}
	chunk(m{}, stop)
	s.event("", m{"id": "chatcmpl-1", "choices": []any{}, "usage": m{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}})
	fmt.Fprint(s.w, "data: [DONE]\n\n")
	s.flush()
}
