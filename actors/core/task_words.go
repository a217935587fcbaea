package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/protocol"
)

// taskWords are those in which calls of the task tool are refused, and their results
// told: ours, or those of pisces, which its clients and models know.
type taskWords struct{ pisces bool }

func (w taskWords) noTasks() string {
	if w.pisces {
		return "No tasks provided. Use: { agent, context, tasks: [{id, description, args}, ...] }"
	}
	return "No tasks provided."
}

// ids says what is wrong with the ids of a call's items, "" if nothing is.
func (w taskWords) ids(items []taskItem) string {
	if w.pisces {
		return piscesIDs(items)
	}
	seen := map[string]bool{}
	for i := range items {
		id := strings.ToLower(items[i].ID)
		if seen[id] {
			return "Duplicate task id: " + items[i].ID
		}
		seen[id] = true
	}
	return ""
}

func piscesIDs(items []taskItem) string {
	var missing, wrong []string
	places := map[string][]string{}
	var order []int // the first item of each id
	for i := range items {
		if strings.TrimSpace(items[i].ID) == "" {
			missing = append(missing, fmt.Sprint(i))
			continue
		}
		id := strings.ToLower(items[i].ID)
		if places[id] == nil {
			order = append(order, i)
		}
		places[id] = append(places[id], fmt.Sprint(i))
	}
	if len(missing) > 0 {
		wrong = append(wrong, "Missing task ids at indexes: "+strings.Join(missing, ", "))
	}
	var twice []string
	for _, i := range order {
		if at := places[strings.ToLower(items[i].ID)]; len(at) > 1 {
			twice = append(twice, fmt.Sprintf("%s (indexes %s)", items[i].ID, strings.Join(at, ", ")))
		}
	}
	if len(twice) > 0 {
		wrong = append(wrong, "Duplicate task ids detected (case-insensitive): "+strings.Join(twice, "; "))
	}
	if len(wrong) == 0 {
		return ""
	}
	return "Invalid tasks: " + strings.Join(wrong, ". ")
}

// noAgent refuses an item that names none. Raw are the arguments of the call.
func (w taskWords) noAgent(item *taskItem, agents protocol.Agents, raw json.RawMessage) string {
	if !w.pisces {
		return fmt.Sprintf("Task %s names no agent. Available: %s", item.ID, agents.Names())
	}
	var shown bytes.Buffer
	if json.Indent(&shown, raw, "", "  ") != nil {
		shown.Write(raw)
	}
	return fmt.Sprintf("Validation failed for tool %q:\n  - agent: must have required property 'agent'\n\nReceived arguments:\n%s", TaskTool, &shown)
}

func (w taskWords) unknownAgent(name string, agents protocol.Agents) string {
	if w.pisces {
		return fmt.Sprintf("Unknown agent %q. Available: %s", name, inOrder(agents, nil))
	}
	return fmt.Sprintf("Unknown agent: %s. Available: %s", name, agents.Names())
}

func (w taskWords) disabledAgent(name string, agents protocol.Agents, disabled []string) string {
	if w.pisces {
		return fmt.Sprintf("Agent %q is disabled in settings. Enable it via /agents, or use a different agent type. Available: %s", name, inOrder(agents, disabled))
	}
	return fmt.Sprintf("Agent %s is disabled", name)
}

// inOrder are the names of agents as they were found, but for some.
func inOrder(agents protocol.Agents, without []string) string {
	var names []string
	for _, a := range agents {
		if !slices.Contains(without, a.Name) {
			names = append(names, a.Name)
		}
	}
	return strings.Join(names, ", ")
}

// isolationOff refuses a call that says isolated, "" if it may.
func (w taskWords) isolationOff(isolated *bool) string {
	switch {
	case isolated == nil:
		return ""
	case w.pisces:
		return "Task isolation is disabled. Remove the isolated argument or set task.isolation.mode to 'worktree', 'fuse-overlay', or 'fuse-projfs'."
	case *isolated:
		return "Task isolation is off (task.isolation.enabled)"
	}
	return ""
}

// running says how far a call is.
func (w taskWords) running(items, done, running int) string {
	if w.pisces {
		return fmt.Sprintf("Running %d agents...", items)
	}
	return fmt.Sprintf("%d/%d done, %d running", done, items, running)
}

// summary is what a model reads of a call that is over: how many of its items have
// succeeded, in what time, and each of them, as many as fit.
func (w taskWords) summary(results []protocol.TaskResult, ms int64) string {
	succeeded := 0
	cost := 0.0
	for i := range results {
		r := &results[i]
		if r.ExitCode == 0 {
			succeeded++
		}
		cost += r.Usage.Cost.Total
	}
	if !w.pisces {
		return fmt.Sprintf("%d/%d succeeded [%.1fs, $%.2f]\n", succeeded, len(results), float64(ms)/1000, cost) + string(w.items(results, 0))
	}
	merged := mergeSummary(results)
	took := fmt.Sprintf("%dms", ms)
	if ms >= 1000 {
		took = fmt.Sprintf("%.1fs", float64(ms)/1000)
	}
	return fmt.Sprintf("<task-summary>\n<header>%d/%d succeeded [%s]</header>\n\n", succeeded, len(results), took) +
		string(w.items(results, len(merged))) + merged + "</task-summary>"
}

// items is what is told of all items, so that with so many bytes more it is within the limit of a
// result: where there is no more room for the text of one, its head alone.
func (w taskWords) items(results []protocol.TaskResult, more int) []byte {
	const (
		usual  = 256   // bytes of an item
		around = 1_000 // bytes of what stands before and behind them, at most
		head   = 96    // bytes of a head without its names, at most
	)
	items, heads := make([]byte, 0, usual*len(results)), 0 // heads: bytes of those that follow
	for i := range results {
		heads += head + len(results[i].ID) + len(results[i].Agent)
	}
	for i := range results {
		r := &results[i]
		heads -= head + len(r.ID) + len(r.Agent)
		if w.pisces && i > 0 {
			items = append(items, "---\n"...)
		}
		begin := len(items)
		if items = w.appendItem(items, r); len(items)+heads+more > maxTaskText-around {
			items = w.appendHead(items[:begin], r)
		}
	}
	return items
}

func (w taskWords) appendItem(dst []byte, r *protocol.TaskResult) []byte {
	if w.pisces {
		return append(dst, piscesText(r)...)
	}
	return appendResult(dst, r)
}

// appendHead appends what is told of an item for whose text there is no room.
func (w taskWords) appendHead(dst []byte, r *protocol.TaskResult) []byte {
	if w.pisces {
		return append(dst, piscesHead(r)+"</agent>\n"...)
	}
	return appendHead(dst, r)
}

func piscesHead(r *protocol.TaskResult) string {
	state := "completed"
	switch {
	case r.Aborted:
		state = "cancelled"
	case r.ExitCode != 0:
		state = fmt.Sprintf("failed (exit %d)", r.ExitCode)
	case len(r.Conflicts) > 0:
		state = "merge failed"
	}
	return fmt.Sprintf("<agent id=%q agent=%q>\n<status>%s</status>\n", r.ID, r.Agent, state)
}

// piscesText is an item: in the form of pisces, with what we have to say beside it.
func piscesText(r *protocol.TaskResult) string {
	var b strings.Builder
	b.WriteString(piscesHead(r))
	output := "(no output)"
	if r.Output != "" {
		output = cut(r.Output, maxItemText)
		fmt.Fprintf(&b, "<meta lines=\"%d\" size=\"%s\" />\n", strings.Count(r.Output, "\n")+1, protocol.FormatSize(int64(len(r.Output))))
	} else {
		b.WriteString("\n")
	}
	if r.Error != "" {
		b.WriteString("<error>" + cut(r.Error, maxItemText/5) + "</error>\n")
	}
	b.WriteString("<result>\n" + output + "\n</result>\n")
	if len(r.Output) > maxItemText && r.OutputPath != "" {
		b.WriteString("The whole output: " + r.OutputPath + "\n")
	}
	if r.Merged == nil || r.Verification != nil && r.Verification.Status == protocol.VerifyFailed || len(r.Conflicts) > 0 || len(r.Notes) > 0 || r.Workspace != "" && r.PatchPath == "" {
		b.WriteString(workText(r))
	}
	if r.ExitCode != 0 && r.SessionFile != "" {
		b.WriteString("Its session: " + r.SessionFile + "\n")
	}
	b.WriteString("</agent>\n")
	return b.String()
}
