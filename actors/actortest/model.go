package actortest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/e2e/history"
	"troupe/protocol"
	"troupe/providers"
)

// Models is a provider whose answers are decided by the user's last message,
// so that they are the same before and after a crash. Words in the message:
//
//	tool=NAME     call this tool, in every round; "note" by default
//	rounds=N      N answers with tool calls come before the last answer
//	calls=K       calls per round, 1 by default
//	parts=N       pieces of text in the last answer, 2 by default
//	children=N    items of a call of the tool task, 1 by default, and
//	each=WORDS    the words that they are told, with commas between them
//	resume=ID     the child with which they go on
//	agent=NAME    who does them, task by default, which cannot have itself do something
//	pace=MS       fake milliseconds before each part
//	fail=KIND     the request fails with this error kind, forever, or
//	times=N       only the first N times
//	stall         nothing comes until the request is cancelled
//	cut           the stream ends without its closing event
//	panic         the provider panics
type Models struct {
	mu     sync.Mutex
	failed map[string]int // by message
	asked  []string       // the last user message of each request
	h      *history.History
}

// Watch has a history say from now on what is asked, and when it is answered.
func (m *Models) Watch(h *history.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.h = h
}

// NewModels has one model that thinks and one that does not, and one without a
// key.
func NewModels() *Models { return &Models{failed: map[string]int{}} }

var catalog = &protocol.Catalog{
	Models: []*protocol.Model{
		{ID: "plain", Name: "plain", API: "fake", Provider: "acme", Input: []string{"text", "image"}, ContextWindow: 200_000, MaxTokens: 4096},
		{ID: "thinker", Name: "thinker", API: "fake", Provider: "acme", Reasoning: true, Input: []string{"text"}, ContextWindow: 200_000, MaxTokens: 4096},
		{ID: "locked", Name: "locked", API: "fake", Provider: "locked", Input: []string{"text"}},
	},
	Keys: map[string]bool{"acme": true},
}

func (m *Models) Catalog() (*protocol.Catalog, error)       { return catalog, nil }
func (m *Models) Secrets(func(string) bool) map[string]bool { return map[string]bool{"ACME_KEY": true} }

// Asked lists the last user message of every request so far.
func (m *Models) Asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.asked...)
}

// Stream answers.
func (m *Models) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		if ctx.Err() != nil {
			yield(nil, protocol.Aborted())
			return
		}
		text, rounds := lastUser(req.Messages)
		w := words(text)
		answered := m.note(text, req.Model.MaxTokens)
		defer answered(0)
		var output int64
		left := false // whoever asked listens no more, and must not be told anything else
		if err := m.play(ctx, w, text, rounds, func(p protocol.Part) bool {
			switch p := p.(type) {
			case protocol.PartUsage:
				output = p.Usage.Output
			case protocol.PartDone:
				answered(output) // before anybody knows
			default: // says nothing of what was used
			}
			left = !yield(p, nil)
			return !left
		}); err != nil && !left {
			yield(nil, err)
		}
	}
}

// note keeps what is asked; answered, the first time it is called, how many tokens were written.
func (m *Models) note(text string, most int64) (answered func(output int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, text)
	h, n := m.h, len(m.asked)
	if h == nil {
		return func(int64) {}
	}
	h.Add(history.Asked, fmt.Sprintf(`{"n":%d,"max":%d}`, n, most))
	return func(output int64) {
		if n != 0 {
			h.Add(history.Answered, fmt.Sprintf(`{"n":%d,"output":%d}`, n, output))
		}
		n = 0
	}
}

// lastUser finds the message that decides, and how many rounds of tool calls
// have followed it.
func lastUser(messages []protocol.Message) (text string, rounds int) {
	for i := len(messages) - 1; i >= 0; i-- {
		switch msg := messages[i].(type) {
		case *protocol.UserMessage:
			return msg.Content.Text(""), rounds
		case *protocol.AssistantMessage:
			if len(msg.Content.ToolCalls()) > 0 {
				rounds++
			}
		default: // decides nothing
		}
	}
	return "", rounds
}

// words are the name=value words of a message.
type messageWords map[string]string

func words(text string) messageWords {
	w := messageWords{}
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		w[name] = value
	}
	return w
}

func (w messageWords) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(w[name]); err == nil {
		return n
	}
	return otherwise
}

func (w messageWords) has(name string) bool { _, ok := w[name]; return ok }

func (m *Models) fails(w messageWords, text string) bool {
	if !w.has("fail") {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[text]++
	return !w.has("times") || m.failed[text] <= w.number("times", 0)
}

func (m *Models) play(ctx context.Context, w messageWords, text string, rounds int, yield func(protocol.Part) bool) error {
	pace := time.Duration(w.number("pace", 0)) * time.Millisecond
	put := func(p protocol.Part) bool {
		if pace > 0 {
			select {
			case <-time.After(pace):
			case <-ctx.Done():
				return false
			}
		}
		return yield(p)
	}
	gone := protocol.Aborted()
	switch {
	case w.has("panic"):
		panic("the provider of " + text + " panics")
	case m.fails(w, text):
		return protocol.ErrorKind(w["fail"]).Errorf("the provider fails with %s", w["fail"])
	}
	if !put(protocol.PartStart{ResponseID: "r"}) {
		return gone
	}
	if w.has("stall") {
		<-ctx.Done()
		return gone
	}
	if rounds < w.number("rounds", 0) {
		return m.call(w, text, rounds, put)
	}
	parts := []protocol.Part{protocol.PartBlockStart{Kind: protocol.BlockText}}
	for i := range w.number("parts", 2) {
		parts = append(parts, protocol.PartDelta{Delta: fmt.Sprintf("part %d for %s; ", i, text)})
	}
	parts = append(parts, protocol.PartBlockEnd{}, protocol.PartUsage{Usage: protocol.Usage{Input: 10, Output: 5}})
	if w.has("cut") {
		return putAll(parts, put)
	}
	return putAll(append(parts, protocol.PartDone{StopReason: protocol.StopStop}), put)
}

func putAll(parts []protocol.Part, put func(protocol.Part) bool) error {
	for _, p := range parts {
		if !put(p) {
			return protocol.Aborted()
		}
	}
	return nil
}

// taskArgs are the arguments of a call of the tool task. What an item is told has the
// mark of the message, and its own id behind that: ~a~7 has ~a~7.A and ~a~7.B.
func taskArgs(w messageWords, mark string) json.RawMessage {
	var tasks []map[string]string
	for i := range w.number("children", 1) {
		id := string(rune('A' + i))
		task := map[string]string{
			"id": id, "description": "part " + id, "assignment": mark + "." + id + " " + strings.ReplaceAll(w["each"], ",", " "),
		}
		if w["resume"] != "" {
			task["resume"] = w["resume"]
		}
		tasks = append(tasks, task)
	}
	args, _ := json.Marshal(map[string]any{"agent": cmp.Or(w["agent"], "task"), "tasks": tasks})
	return args
}

// call answers with tool calls. Their ids name the message, the round and the
// place, so they are unique and the same whenever the request is repeated.
func (m *Models) call(w messageWords, text string, round int, put func(protocol.Part) bool) error {
	name := cmp.Or(w["tool"], "note")
	var parts []protocol.Part
	for i := range w.number("calls", 1) {
		args, _ := json.Marshal(map[string]string{"text": text})
		if name == "task" {
			args = taskArgs(w, strings.Fields(text)[0])
		}
		id := fmt.Sprintf("%s-%d-%d", strings.Fields(text)[0], round, i)
		parts = append(parts,
			protocol.PartBlockStart{Index: i, Kind: protocol.BlockToolCall, ID: id, Name: name},
			protocol.PartDelta{Index: i, Delta: string(args[:len(args)/2])},
			protocol.PartDelta{Index: i, Delta: string(args[len(args)/2:])},
			protocol.PartBlockEnd{Index: i})
	}
	return putAll(append(parts, protocol.PartDone{StopReason: protocol.StopToolUse}), put)
}
