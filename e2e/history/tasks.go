package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// taskState is what is open of the children of a session.
type taskState struct {
	open map[string]*childState // by id of the item
	told map[string]bool        // limits that were warned of or exceeded, by scope, since they were last raised
	over string                 // the limit of the session that is exceeded, "" for none
	used snapshot               // the latest that was said
	born int64                  // children of this session that began

	calls map[string]*taskCall // that are open, by id
	most  int                  // children of a call that may be at work at once, 0 for any number
}

// taskCall is an open call of the tool task.
type taskCall struct {
	ids   []string // of its items, as they were asked for
	begun []string // children, in their order
	live  int      // of them
}

// taskCallOf reads the arguments of a call.
func taskCallOf(args gjson.Result) *taskCall {
	c := &taskCall{}
	for _, item := range args.Get("tasks").Array() {
		c.ids = append(c.ids, cmp.Or(item.Get("id").Str, item.Get("name").Str))
	}
	return c
}

// of is the open call of a child of this session: where its id is not said, the only one.
func (t *taskState) of(id string) *taskCall {
	if id == "" && len(t.calls) == 1 {
		for _, c := range t.calls {
			return c
		}
	}
	return t.calls[id]
}

// begins is T6: not too many at once, and in the order of the call.
func (c *taskCall) begins(id string, most int) string {
	if c.live++; most > 0 && c.live > most {
		return fmt.Sprintf("T6: %d children of a call at once, and %d may be", c.live, most)
	}
	at := slices.Index(c.ids, id)
	if at >= 0 && slices.ContainsFunc(c.begun, func(other string) bool { return slices.Index(c.ids, other) > at }) {
		return fmt.Sprintf("T6: child %s begins behind %v", id, c.begun)
	}
	c.begun = append(c.begun, id)
	return ""
}

// ends is the rest of T6: the call is over when all its items are, each of which has a result. One that is
// an error was refused or cut off.
func (c *taskCall) ends(call gjson.Result) string {
	results := call.Get("result.details.results").Array()
	if call.Get("isError").Bool() || len(results) == 0 && len(c.begun) == 0 {
		return ""
	}
	if n := len(c.ids); n > 0 && len(results) != n {
		return fmt.Sprintf("T6: a call of %d items ends with %d results", n, len(results))
	}
	for _, id := range c.begun {
		if !slices.ContainsFunc(results, func(r gjson.Result) bool { return r.Get("id").Str == id }) {
			return "T6: a call ends without a result of child " + id
		}
	}
	return ""
}

// answered is T5: with an abort that is answered everything of the run is over.
func (t *taskState) answered(v gjson.Result) string {
	if v.Get("command").Str != "abort" || !v.Get("success").Bool() {
		return ""
	}
	for id := range t.open {
		return "T5: an abort is answered before the end of child " + id
	}
	return ""
}

// snapshot is what of a budget never goes down.
type snapshot struct {
	input, output, total, children int64
	cost                           float64
}

func snapshotOf(v gjson.Result) snapshot {
	n := func(name string) int64 { return v.Get(name).Int() }
	return snapshot{n("inputTokens"), n("outputTokens"), n("totalTokens"), n("subagents"), v.Get("costUsd").Float()}
}

// less says whether anything of a snapshot is below another.
func (s snapshot) less(o snapshot) bool {
	return s.input < o.input || s.output < o.output || s.total < o.total || s.children < o.children || s.cost < o.cost-1e-9
}

type childState struct {
	of       *taskCall // nil for one of a child
	call     string    // "" where the dialect does not say it
	attempt  int       // of its verification, 0 before the first
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
	now := snapshotOf(v)
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
		if of := t.of(call); of != nil && !strings.Contains(id, ".") {
			t.open[id].of = of
			return of.begins(id, t.most)
		}
	case "subagent_end":
		delete(t.open, id)
		if child != nil && child.of != nil {
			child.of.live--
		}
		switch status := v.Get("verification.status").Str; {
		case child == nil:
			return "T1: subagent_end without a start"
		case child.verifies || child.command != "":
			return "T2: subagent_end inside a verification"
		case status == "skipped" && child.attempt > 0:
			return "T2: a verification that was skipped has begun"
		case unverified(v):
			return "T3: succeeded with a verification that has " + status
		}
	case "subagent_verification_start", "subagent_verification_command_start", "subagent_verification_command_end", "subagent_verification_end":
		if child == nil || !child.verified(v) {
			return "T2: " + kind + " out of place"
		}
	case "tool_execution_start":
		if v.Get("toolName").Str == "task" {
			if t.calls == nil {
				t.calls = map[string]*taskCall{}
			}
			t.calls[v.Get("toolCallId").Str] = taskCallOf(v.Get("args"))
		}
	case "tool_execution_end":
		for id, child := range t.open {
			if child.call == v.Get("toolCallId").Str || child.call == "" && len(tools) == 0 {
				return fmt.Sprintf("T1: the call has ended before its child %s", id)
			}
		}
		if c := t.calls[v.Get("toolCallId").Str]; c != nil {
			delete(t.calls, v.Get("toolCallId").Str)
			if wrong := c.ends(v); wrong != "" {
				return wrong
			}
		}
		return onlyGood(v.Get("result.details"))
	case "budget_warning", "budget_exceeded":
		return t.limited(v, kind)
	}
	return ""
}

// limited is T10 and T12: a limit is told of once, until it is raised.
func (t *taskState) limited(v gjson.Result, kind string) string {
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

// unverified says whether a success has a verification that is none.
func unverified(r gjson.Result) bool {
	return r.Get("exitCode").Int() == 0 && !slices.Contains([]string{"", "not_requested", "passed"}, r.Get("verification.status").Str)
}

// onlyGood is T3 and T4 of results: what did not pass is no success, and what failed is in nobody's files.
func onlyGood(details gjson.Result) string {
	for _, r := range details.Get("results").Array() {
		switch {
		case unverified(r):
			return fmt.Sprintf("T3: item %s succeeded with a verification that has %s", r.Get("id").Str, r.Get("verification.status").Str)
		case r.Get("merged").Bool() && r.Get("exitCode").Int() != 0:
			return fmt.Sprintf("T4: item %s was merged and has exit code %d", r.Get("id").Str, r.Get("exitCode").Int())
		}
	}
	return ""
}
