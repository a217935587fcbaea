package compat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/tidwall/gjson"
)

// The recordings of oh-my-pi 1.337.1, the program of dialect s3, use a model with the chat
// completions API. This file writes the model's side of the replay.

const chatAPI = "openai-completions"

// chatModel is the model of those recordings.
var chatModel = gjson.Parse(`[{"id":"m","name":"M","api":"openai-completions","reasoning":false,"input":["text"],
	"cost":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0},"contextWindow":128000,"maxTokens":4096}]`).Array()

// original lists the recordings that are replayed in their dialect. Not replayed:
//
//   - busy: a second prompt starts a run beside the first, and their events are
//     interleaved. Troupe refuses it, as the seeds say.
//   - bash-abort: abort_bash is never answered while bash runs. Troupe answers both.
var original = []string{
	"text", "state", "setters", "tools", "templates", "abort-text", "bash", "compact", "errors", "no-retry", "retry", "retry-off",
	"queue-message", "queue-modes",
}

// extraChat lists the members that troupe adds to those of oh-my-pi.
var extraChat = []string{"followUpMode", "pendingMessageCount", "contextUsage", "patch"}

// unretried lists traces without a retry for which troupe does retry.
var unretried = []struct{ trace, why string }{
	{"omp1337-retry", "oh-my-pi decides by words in the text, and \"529 mock error 529\" has none of them; troupe by the status"},
}

func TestOriginalTraces(t *testing.T) {
	for _, name := range original {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newReplay(t, "omp1337-"+name, []string{"--dialect", "s3"}).run()
		})
	}
}

// chunk writes events of the chat completions API.
func (a *ask) chunk(t *testing.T, last bool, events ...string) {
	a.write(t, func(w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
		w.(http.Flusher).Flush()
		return last
	})
}

func delta(d m) string {
	raw, _ := json.Marshal(m{"id": "chat_1", "choices": []any{m{"index": 0, "delta": d}}})
	return string(raw)
}

func chatUsage(in, out int64) string {
	return fmt.Sprintf(`{"id":"chat_1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, in, out, in+out)
}

var refusedChat = regexp.MustCompile(`^(\d{3}) (.*)$`)

func (r *replay) beginChat(failed string) {
	if f := refusedChat.FindStringSubmatch(failed); f != nil {
		status, _ := strconv.Atoi(f[1])
		body, _ := json.Marshal(m{"error": m{"message": f[2]}})
		r.answer.fail(r.t, status, string(body))
		r.answer = nil
		return
	}
	r.answer.chunk(r.t, false, delta(m{"role": "assistant"}))
}

// stepChat writes the chunk that causes one message_update. The chunk that starts a text contains
// its first piece. The chunk that ends the last block also ends the answer.
func (r *replay) stepChat(ev gjson.Result) {
	switch kind := ev.Get("type").Str; kind {
	case "text_start":
		r.ahead = true
		for _, e := range r.trace[r.at+1:] {
			if next := e.v.Get("assistantMessageEvent"); next.Get("type").Str == "text_delta" {
				r.answer.chunk(r.t, false, delta(m{"content": next.Get("delta").Str}))
				return
			}
		}
	case "text_delta":
		if !r.ahead {
			r.answer.chunk(r.t, false, delta(m{"content": ev.Get("delta").Str}))
		}
		r.ahead = false
	case "toolcall_start":
		call := r.final.Get(fmt.Sprintf("content.%d", ev.Get("contentIndex").Int()))
		r.answer.chunk(r.t, false, delta(m{"tool_calls": []any{m{"index": 0, "id": call.Get("id").Str, "type": "function",
			"function": m{"name": call.Get("name").Str, "arguments": ""}}}}))
	case "toolcall_delta":
		r.answer.chunk(r.t, false, delta(m{"tool_calls": []any{m{"index": 0, "function": m{"arguments": ev.Get("delta").Str}}}}))
	case "text_end", "toolcall_end":
		if r.final.Get("stopReason").Str == "aborted" {
			return
		}
		reason := map[string]string{"stop": "stop", "length": "length", "toolUse": "tool_calls"}[r.final.Get("stopReason").Str]
		r.answer.chunk(r.t, false, fmt.Sprintf(`{"id":"chat_1","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason),
			chatUsage(r.final.Get("usage.input").Int(), r.final.Get("usage.output").Int()), "[DONE]")
	default:
		r.t.Fatalf("no such step: %s", kind)
	}
}

func (r *replay) finishChat(a *ask) {
	if r.final.Get("stopReason").Str != "aborted" {
		a.write(r.t, func(http.ResponseWriter) bool { return true })
	}
}

func summariseChat(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		delta(m{"role": "assistant", "content": text}), `{"id":"chat_1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, chatUsage(10, 10), "[DONE]",
	} {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}
