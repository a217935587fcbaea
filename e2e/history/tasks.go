package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// taskState is what is open of the children of a session.
type taskState struct {
	open map[string]*childState // by id of the item
	told map[string]bool        // limits that were warned of or exceeded, by scope, since they were last raised
	over string                 // the limit of the session that is exceeded, "" for none
	used snapshot               // the latest that was said
	born int64                  // children of this session that began
}

// snapshot is what of a budget never goes down.
type snapshot struct {
	input, output, total, children int64
	cost                           float64
}

// less says whether anything of a snapshot is below another.
func (s snapshot) less(o snapshot) bool {
	return s.input < o.input || s.output < o.output || s.total < o.total || s.children < o.children || s.cost < o.cost-1e-9
}

type childState struct {
	call     string // "" where the dialect does not say it
	attempt  int    // of its verification, 0 before the first
	verifies bool
	command  string // of the verification, that runs
}

// raised follows answers and events after which limits count anew.
func (t *taskState) raised(v gjson.Result) {
	switch v.Get("command").Str + v.Get("type").Str {
	case "set_budgetresponse", "reload_resourcesresponse", "new_sessionresponse", "switch_sessionresponse", "session_changed", "session_recovered":
		t.told, t.over, t.used = nil, "", snapshot{}
	}
	switch v.Get("command").Str + v.Get("type").Str {
	case "new_sessionresponse", "switch_sessionresponse", "session_changed":
		t.born = 0
	}
}

// counted is T12: what was used up stays so, after a crash as well.
func (t *taskState) counted(v gjson.Result) string {
	n := func(name string) int64 { return v.Get(name).Int() }
	now := snapshot{n("inputTokens"), n("outputTokens"), n("totalTokens"), n("subagents"), v.Get("costUsd").Float()}
	if now.less(t.used) {
		return fmt.Sprintf("T12: %+v, and before %+v", now, t.used)
	}
	t.used = now
	return ""
}

// lateStart says whether a child begins that the budget of the session forbids
// (T11), and counts it. A grandchild that was granted before is announced by way
// of its parent, which may be behind the record of the limit: that record has
// counted it.
func (t *taskState) lateStart(v gjson.Result) bool {
	t.born++
	granted := v.Get("parentId").Str != "" && t.born <= t.used.children
	return t.over != "" && t.over != "subagents" && !granted
}

// event is T1 to T4 and T10; tools are the calls that are open.
func (t *taskState) event(v gjson.Result, tools map[string]bool) string {
	t.raised(v)
	id, kind := v.Get("id").Str, v.Get("type").Str
	child := t.open[id]
	switch kind {
	case "subagent_start":
		if t.lateStart(v) {
			return "T11: a child begins behind a budget that is exceeded"
		}
		call := v.Get("toolCallId").Str
		if t.open == nil {
			t.open = map[string]*childState{}
		}
		t.open[id] = &childState{call: call}
		if child != nil || len(tools) == 0 || call != "" && v.Get("parentId").Str == "" && !tools[call] {
			return "T1: subagent_start out of place"
		}
	case "subagent_end":
		delete(t.open, id)
		switch status := v.Get("verification.status").Str; {
		case child == nil:
			return "T1: subagent_end without a start"
		case child.verifies || child.command != "":
			return "T2: subagent_end inside a verification"
		case v.Get("exitCode").Int() == 0 && !slices.Contains([]string{"", "not_requested", "passed"}, status):
			return "T3: succeeded with a verification that has " + status
		}
	case "subagent_verification_start", "subagent_verification_command_start", "subagent_verification_command_end", "subagent_verification_end":
		if child == nil || !child.verified(v) {
			return "T2: " + kind + " out of place"
		}
	case "tool_execution_end":
		for id, child := range t.open {
			if child.call == v.Get("toolCallId").Str || child.call == "" && len(tools) == 0 {
				return fmt.Sprintf("T1: the call has ended before its child %s", id)
			}
		}
		return mergedOnlyGood(v.Get("result.details"))
	case "budget_warning", "budget_exceeded":
		scope := v.Get("scope").Str
		what := kind + " of " + scope + v.Get("id").Str + v.Get("toolCallId").Str
		if kind == "budget_warning" {
			what += v.Get("snapshot.reason").Str
		}
		if t.told[what] || t.told["budget_exceeded of "+scope] {
			return "T10: told twice, or too late"
		}
		if t.told == nil {
			t.told = map[string]bool{}
		}
		t.told[what] = true
		if scope != "session" {
			return ""
		}
		if kind == "budget_exceeded" {
			t.over = v.Get("snapshot.reason").Str
		}
		return t.counted(v.Get("snapshot"))
	}
	return ""
}

// verified follows an event of a verification and says whether it is in its place.
func (c *childState) verified(v gjson.Result) (ok bool) {
	n, name := int(v.Get("attempt").Int()), v.Get("commandName").Str
	switch v.Get("type").Str {
	case "subagent_verification_start":
		ok = !c.verifies && n == c.attempt+1
		c.attempt, c.verifies = n, true
	case "subagent_verification_command_start":
		ok = c.verifies && n == c.attempt && c.command == ""
		c.command = name
	case "subagent_verification_command_end":
		ok = c.verifies && n == c.attempt && c.command == name
		c.command = ""
	case "subagent_verification_end":
		ok = c.verifies && n == c.attempt && c.command == ""
		c.verifies = false
	}
	return ok
}

// mergedOnlyGood is T4: what failed is in nobody's files.
func mergedOnlyGood(details gjson.Result) string {
	for _, r := range details.Get("results").Array() {
		if r.Get("merged").Bool() && r.Get("exitCode").Int() != 0 {
			return fmt.Sprintf("T4: item %s was merged and has exit code %d", r.Get("id").Str, r.Get("exitCode").Int())
		}
	}
	return ""
}

// maxTaskText is how long the result of a call of the tool task may be, in bytes.
const maxTaskText = 50_000

// taskResult is what a file shows of T4 and T16.
func taskResult(path string, msg gjson.Result) (found []string) {
	if msg.Get("toolName").Str != "task" {
		return nil
	}
	if wrong := mergedOnlyGood(msg.Get("details")); wrong != "" {
		found = append(found, fmt.Sprintf("%s: %s", wrong, path))
	}
	var text strings.Builder
	for _, block := range msg.Get("content").Array() {
		text.WriteString(block.Get("text").Str)
	}
	if text.Len() > maxTaskText {
		found = append(found, fmt.Sprintf("T16: %s: a result of %d bytes", path, text.Len()))
	}
	return found
}

// costs is T7: the log of a parent says of each child what the child's own file says, up to
// its end, and never more than once. Of one that was cut off, or lost, the answer may be missing that
// was on its way.
func costs(files map[string][]byte) (found []string) {
	for path, content := range files {
		list, _, _ := entries(content)
		said, at, cut := map[string]int64{}, map[string]int64{}, map[string]bool{}
		ended := map[string]string{} // files of children, by call and id
		for _, e := range list {
			data := e.Get("data")
			if e.Get("customType").Str != "troupe.task" {
				continue
			}
			child, file := data.Get("call").Str+" "+data.Get("id").Str, data.Get("file").Str
			switch op := data.Get("op").Str; {
			case op == "end" && files[file] != nil:
				ended[child] = file
				said[file] += data.Get("result.usage.totalTokens").Int()
				at[file] = data.Get("at").Int()
				cut[file] = cut[file] || data.Get("result.aborted").Bool() || data.Get("result.error").Str == "Internal error"
			case op == "spent" && ended[child] != "": // of an answer that came when it had been cut off
				said[ended[child]] += data.Get("spent.totalTokens").Int()
				at[ended[child]] = max(at[ended[child]], millis(e))
			}
		}
		for child, tokens := range said {
			if spent := spentBy(files, child, at[child]); tokens != spent && !(cut[child] && tokens < spent) {
				found = append(found, fmt.Sprintf("T7: %s: child %s has used %d tokens, and %d count", path, child, spent, tokens))
			}
		}
	}
	return found
}

// millis is when an entry was written, epoch milliseconds; late beyond measure if it does not say.
func millis(entry gjson.Result) int64 {
	at, err := time.Parse(time.RFC3339, entry.Get("timestamp").Str)
	if err != nil {
		return math.MaxInt64
	}
	return at.UnixMilli()
}

// spentBy is how many tokens a session file says were used up to a time, epoch
// milliseconds: by its answers, its summaries and its own children. Those that had no end by
// then say it themselves.
func spentBy(files map[string][]byte, path string, until int64) (tokens int64) {
	list, _, _ := entries(files[path])
	open := map[string]string{} // files of children, by id
	for _, e := range list {
		if millis(e) > until {
			continue
		}
		for _, of := range []string{"message.usage", "usage"} {
			tokens += e.Get(of + ".totalTokens").Int()
		}
		switch data := e.Get("data"); e.Get("customType").Str + " " + data.Get("op").Str {
		case "troupe.task start":
			open[data.Get("id").Str] = data.Get("file").Str
		case "troupe.task end":
			tokens += data.Get("result.usage.totalTokens").Int()
			delete(open, data.Get("id").Str)
		case "troupe.task spent": // of an answer that came when it had been cut off
			tokens += data.Get("spent.totalTokens").Int()
		}
	}
	for _, file := range open {
		tokens += spentBy(files, file, until)
	}
	return tokens
}
