package session

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/store"
)

// watched is what a minder has seen of its child.
type watched struct {
	began    time.Time // its first prompt
	tools    watchedTools
	lines    []string // the latest ones of what it has written
	requests int
	usage    protocol.Usage
	before   protocol.Usage // what it had cost when it was resumed
	text     string         // of its latest answer

	warned  map[protocol.BudgetReason]bool // clients were, of limits of its agent
	end     watchedEnd
	resumed bool // it has crashed, and was told to go on
	over    bool // it is done
}

// watchedEnd is how its last run has ended.
type watchedEnd struct {
	submission  *protocol.Submission
	outcome     string
	err         string
	abortReason string // why the minder has stopped it
}

// watchedTools are its tool calls.
type watchedTools struct {
	current string // name; "" for none
	args    string
	began   int64 // epoch milliseconds
	recent  []protocol.TaskTool
	count   int
	tasks   []json.RawMessage // the details of calls of the tool task
	shown   int               // bytes of these
}

// Limits of what is shown of a child.
const (
	shownTools = 5
	shownLines = 8
	shownArgs  = 80
	shownLine  = 200
	shownTasks = 64 << 10 // bytes of details of its own tasks
)

// take follows an event of the child, and says whether it is worth a report.
func (w *watched) take(ev protocol.Event) bool {
	switch ev := ev.(type) {
	case protocol.ToolExecutionStart:
		w.tools.current, w.tools.args, w.tools.began = ev.ToolName, protocol.Prefix(string(ev.Args), shownArgs), time.Now().UnixMilli()
		w.tools.count++
	case protocol.ToolExecutionEnd:
		ended := protocol.TaskTool{Tool: ev.ToolName, Args: w.tools.args, EndMs: time.Now().UnixMilli()}
		w.tools.recent = append([]protocol.TaskTool{ended}, w.tools.recent...)
		w.tools.recent = w.tools.recent[:min(len(w.tools.recent), shownTools)]
		w.tools.current = ""
		if n := len(ev.Result.Details); ev.ToolName == core.TaskTool && !ev.IsError && w.tools.shown+n <= shownTasks {
			w.tools.tasks, w.tools.shown = append(slices.Clip(w.tools.tasks), ev.Result.Details), w.tools.shown+n
		}
	case protocol.MessageEnd:
		answer, ok := ev.Message.(*protocol.AssistantMessage)
		if !ok {
			return false
		}
		if !slices.ContainsFunc(protocol.BudgetReasons[:], func(why protocol.BudgetReason) bool { return answer.ErrorMessage == why.Error() }) {
			w.requests++ // what was not sent for want of a budget is none
		}
		w.usage = w.usage.Add(answer.Usage)
		if text := answer.Content.Text("\n"); text != "" {
			w.text = text
			w.lines = append(w.lines, strings.Split(text, "\n")...)
			w.lines = w.lines[max(0, len(w.lines)-shownLines):]
		}
	case protocol.AgentEnd:
		w.end.err = ev.Error
	default:
		return false
	}
	return true
}

// activity is what the parent's clients are shown.
func (w *watched) activity() protocol.TaskActivity {
	a := protocol.TaskActivity{
		RecentTools: w.tools.recent, ToolCount: w.tools.count, Tokens: w.usage.Sum(), Requests: w.requests, Cost: w.usage.Cost.Total,
		Tasks: w.tools.tasks,
	}
	if w.tools.current != "" {
		a.CurrentTool, a.CurrentToolArgs, a.CurrentToolStartMs = w.tools.current, w.tools.args, w.tools.began
	}
	for _, line := range w.lines {
		a.RecentOutput = append(a.RecentOutput, protocol.Prefix(line, shownLine))
	}
	return a
}

// usageOf is what a session has cost, on all of its branches.
func usageOf(s protocol.SessionStats) protocol.Usage {
	t := s.Session.Tokens
	return protocol.Usage{
		Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, TotalTokens: t.Total,
		Cost: s.Session.Costs,
	}
}

// handedOver is all that a child hands over.
func handedOver(in core.ChildSettled) string {
	if s := in.Submission; s != nil && s.Data != nil {
		return s.Text()
	}
	return in.Text
}

// maxOutputFile is how many bytes are kept of what a child hands over.
const maxOutputFile = 500_000

// writeOutput keeps what a child hands over, before anybody is told of it.
func writeOutput(fsys store.FS, path, text string) error {
	err := fsys.MkdirAll(filepath.Dir(path))
	if err == nil {
		err = store.ReplaceFile(fsys, path, []byte(protocol.Prefix(text, maxOutputFile)))
	}
	if err != nil {
		return fmt.Errorf("output of a task: %w", err)
	}
	return nil
}
