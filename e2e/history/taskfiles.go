package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// maxTaskText is how long the result of a call of the tool task may be, in bytes.
const maxTaskText = 50_000

// taskResult is what a file shows of T4 and T16.
func taskResult(path string, msg gjson.Result) (found []string) {
	if msg.Get("toolName").Str != "task" {
		return nil
	}
	if wrong := onlyGood(msg.Get("details")); wrong != "" {
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

// taskLog is what the log of a session says of T4, T5, T10 and T11.
func taskLog(path string, list []gjson.Result) (found []string) {
	l := taskLogState{ended: map[string]gjson.Result{}, index: map[string]int64{}, merges: map[string]int64{}, told: map[string]bool{}, over: map[string]bool{}}
	for _, e := range list {
		if wrong := l.entry(e); wrong != "" {
			found = append(found, fmt.Sprintf("%s: %s: %s", wrong, path, clip(e.Raw)))
		}
	}
	return found
}

// taskLogState is what a log has said so far. Children are known by call and id.
type taskLogState struct {
	ended   map[string]gjson.Result // their results
	index   map[string]int64        // in the call
	merges  map[string]int64        // by call: the index of the item that was merged last
	merging string                  // the child whose merge was announced last
	over    map[string]bool         // calls that have a result
	told    map[string]bool         // limits, since they were last raised
	limit   string                  // that is exceeded, "" for none
	since   int64                   // epoch milliseconds; 0 when the answer has come that was asked for before
}

func (l *taskLogState) entry(e gjson.Result) string {
	data := e.Get("data")
	switch e.Get("type").Str + " " + e.Get("customType").Str {
	case "message ":
		msg := e.Get("message")
		l.over[msg.Get("toolCallId").Str] = true
		for _, block := range msg.Get("content").Array() {
			if id := block.Get("id").Str; block.Get("type").Str == "toolCall" { // models use ids again
				delete(l.over, id)
				delete(l.merges, id)
			}
		}
		if l.limit != "" && msg.Get("role").Str == "assistant" && msg.Get("usage.totalTokens").Int() > 0 &&
			!slices.Contains([]string{"aborted", "error"}, msg.Get("stopReason").Str) {
			asked := msg.Get("timestamp").Int() // a limit that is set meanwhile lets it come to its end
			if asked == 0 || asked > l.since {
				return "T11: an answer behind a budget that is exceeded"
			}
			l.since = 0
		}
	case "custom troupe.task":
		return l.step(data, data.Get("call").Str, data.Get("call").Str+" "+data.Get("id").Str)
	case "custom troupe.budget":
		return l.budget(data, millis(e))
	}
	return ""
}

// step is an entry of a child.
func (l *taskLogState) step(data gjson.Result, call, child string) string {
	op := data.Get("op").Str
	if l.over[call] && op != "spent" {
		return "T5: of a call that is over"
	}
	switch op {
	case "start":
		l.index[child] = data.Get("index").Int()
		if l.limit != "" {
			return "T11: a child begins behind a budget that is exceeded"
		}
	case "end":
		l.ended[child] = data.Get("result")
	case "merge":
		last, merged := l.merges[call]
		l.merges[call], l.merging = l.index[child], child
		switch result := l.ended[child]; {
		case !result.Exists() || result.Get("exitCode").Int() != 0:
			return "T4: a merge of what has not succeeded"
		case merged && l.index[child] <= last:
			return "T4: a merge out of order"
		}
	case "merged":
		if l.merging != child {
			return "T4: merged while another one was"
		}
	}
	return ""
}

// budget is an entry of what clients are told of the budget.
func (l *taskLogState) budget(data gjson.Result, at int64) string {
	op, reason := data.Get("op").Str, data.Get("reason").Str
	switch op {
	case "cleared", "limits":
		clear(l.told)
		l.limit = ""
	case "warned", "exceeded":
		if l.told[op+reason] || l.limit != "" {
			return "T10: told twice, or too late"
		}
		l.told[op+reason] = true
		if op == "exceeded" {
			l.limit, l.since = reason, at
		}
	}
	return ""
}

// counters is T12 over all lives: what a session says was used up never goes down.
func counters(records []Record) (found []string) {
	used, files := map[string]snapshot{}, map[string]string{} // by session file; which those are, by connection and handle
	for _, r := range records {
		v := gjson.Parse(r.Line)
		session := fmt.Sprint(r.Conn, " ", handleOf(v))
		switch {
		case r.Kind == Life:
			clear(files)
		case r.Kind == Output && v.Get("command").Str == "get_state":
			files[session] = v.Get("data.sessionFile").Str
		case r.Kind == Output && (v.Get("type").Str == "session_changed" || strings.HasPrefix(v.Get("command").Str, "new_session") || v.Get("command").Str == "switch_session"):
			delete(files, session)
		case r.Kind == Output && v.Get("command").Str == "get_budget" && files[session] != "" && len(v.Get("data.limits").Map()) > 0:
			now := snapshotOf(v.Get("data.snapshot"))
			if was := used[files[session]]; now.less(was) {
				found = append(found, fmt.Sprintf("T12: %+v, and before %+v: %s", now, was, files[session]))
			}
			used[files[session]] = now
		}
	}
	return found
}

// stats is the rest of T7: what a session says at the end it has cost is what all the files say.
func stats(l life, files map[string][]byte) (found []string) {
	said := map[string]gjson.Result{} // by handle
	for _, r := range l.records {
		v := gjson.Parse(r.Line)
		switch {
		case r.Kind == Command && parseCommand(r.Line).kind != "get_session_stats", r.Kind == Output && v.Get("runId").Exists():
			delete(said, handleOf(v)) // it may cost something more
		case r.Kind == Output && v.Get("command").Str == "get_session_stats" && v.Get("success").Bool():
			said[handleOf(v)] = v.Get("data")
		}
	}
	for _, data := range said {
		path := data.Get("sessionFile").Str
		list, _, _ := entries(files[path])
		if len(list) == 0 || list[0].Get("parentSession").Exists() { // a fork has the costs of what it copied
			continue
		}
		if tokens := data.Get("session.tokens.total").Int(); tokens != spentBy(files, path, math.MaxInt64) {
			found = append(found, fmt.Sprintf("T7: %s: %d tokens are said to be used, and %d are", path, tokens, spentBy(files, path, math.MaxInt64)))
		}
	}
	return found
}
