package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// silent are the commands that are answers themselves. Their id is that of the
// question.
var silent = map[string]bool{"extension_ui_response": true, "host_tool_update": true, "host_tool_result": true}

// answers is S1. Ids have to be unique in a life; lines without a type or an id
// are compared by number.
func answers(l life) (found []string) {
	count, asked := map[string]int{}, map[string]int{}
	kinds, dialogs := map[string]string{}, map[string]bool{}
	anonymous, anonymousAnswers := 0, 0
	for _, r := range l.records {
		switch r.Kind {
		case Command:
			c := parseCommand(r.Line)
			switch {
			case strings.TrimSpace(r.Line) == "":
			case silent[c.kind]: // answered only if it fails, or where the client asked for it
				dialogs[c.id] = true
			case c.id == "" || c.kind == "": // a line without a type is answered without its id
				anonymous++
			default:
				asked[c.id]++
				kinds[c.id] = c.kind
			}
		case Output:
			v := gjson.Parse(r.Line)
			if !isResponse(v) {
				continue
			}
			id := v.Get("id").Raw
			if id == "" || id == "null" {
				anonymousAnswers++
				continue
			}
			if count[id]++; dialogs[id] {
				continue
			}
			if count[id] > asked[id] {
				found = append(found, fmt.Sprintf("S1: answer %d to %d commands %s: %s", count[id], asked[id], kinds[id], clip(r.Line)))
			}
		}
	}
	if !l.orderly {
		return found
	}
	for id, n := range asked {
		if count[id] < n {
			found = append(found, fmt.Sprintf("S1: no answer to %s %s", kinds[id], id))
		}
	}
	if anonymous != anonymousAnswers {
		found = append(found, fmt.Sprintf("S1: %d lines without an id, %d answers without one", anonymous, anonymousAnswers))
	}
	return found
}

// hygiene is S11.
func hygiene(l life, o Options) (found []string) {
	for _, r := range l.records {
		if r.Kind != Output {
			continue
		}
		if !gjson.Valid(r.Line) || !strings.HasPrefix(r.Line, "{") {
			found = append(found, "S11: not a JSON object: "+clip(r.Line))
		}
		if !utf8.ValidString(r.Line) {
			found = append(found, "S11: not UTF-8: "+clip(r.Line))
		}
		for _, s := range o.Secrets {
			if strings.Contains(r.Line, s) {
				found = append(found, "S11: a secret: "+clip(r.Line))
			}
		}
	}
	return found
}

// closings is the other half of S1: what a client sends after it has read that
// a session is closed finds no session.
func closings(l life) (found []string) {
	closed, late := map[string]bool{}, map[string]bool{}
	for _, r := range l.records {
		switch r.Kind {
		case Command:
			if c := parseCommand(r.Line); c.id != "" && closed[c.session] {
				late[c.id] = true
			}
		case Output:
			v := gjson.Parse(r.Line)
			if !isResponse(v) {
				continue
			}
			if late[v.Get("id").Raw] && (v.Get("success").Bool() || v.Get("code").Str == "session_closing") {
				found = append(found, "S1: answered by a session that was closed: "+clip(r.Line))
			}
			if v.Get("command").Str == "close_session" && v.Get("success").Bool() {
				closed[v.Get("sessionId").Str] = true
			}
		}
	}
	return found
}

// nesting is S2, the wire's half of S5, and L1.
func nesting(l life, o Options) (found []string) {
	states := map[string]*wireState{}
	newState := func() *wireState {
		return &wireState{tools: map[string]bool{}, runs: map[string]bool{}, tasks: taskState{most: o.Concurrency}}
	}
	for _, r := range l.records {
		if r.Kind == Command {
			if c := parseCommand(r.Line); c.kind == "attach" {
				if states[c.session] == nil { // another client has opened it
					states[c.session] = newState()
					states[c.session].away = true
				}
				states[c.session].attach() // what happens until it is answered may be heard
			}
			continue
		}
		if r.Kind != Output {
			continue
		}
		v := gjson.Parse(r.Line)
		session := handleOf(v)
		if states[session] == nil {
			states[session] = newState()
		}
		follow := states[session].event
		if isResponse(v) {
			follow = states[session].response
		}
		if wrong := follow(v); wrong != "" {
			found = append(found, fmt.Sprintf("%s: %s", wrong, clip(r.Line)))
		}
	}
	if !l.orderly || l.left { // a session that goes on without the client may end its run later
		return found
	}
	for session, s := range states {
		for id := range s.tasks.open {
			found = append(found, fmt.Sprintf("T1: session %q: child %s has no end", session, id))
		}
		if s.run != "" || s.owed || s.retry || len(s.tools) > 0 || s.message || s.turn {
			found = append(found, fmt.Sprintf("L1: session %q ends unsettled: %+v", session, *s))
		}
	}
	return found
}

// wireState is what is open on the wire of one session.
type wireState struct {
	run, last            string
	runs                 map[string]bool
	turn, message, retry bool
	owed                 bool // agent_settled
	failed               bool
	away                 bool // the client has detached
	joined               bool // it came back, perhaps in the middle of a run that it has not seen begin
	tools                map[string]bool
	done                 []string // tool calls ended in this turn
	tasks                taskState
}

// response follows what changes who hears of the session, and says what is wrong with it, "" for nothing.
func (s *wireState) response(v gjson.Result) string {
	if s.away || s.joined {
		return s.hears(v)
	}
	if v.Get("data.reserved").Exists() && s.run == "" && !s.owed {
		return "T9: something is reserved for answers, and there is no run"
	}
	return cmp.Or(s.tasks.answered(v), s.hears(v))
}

// hears follows what changes who hears of the session.
func (s *wireState) hears(v gjson.Result) string {
	done, open := v.Get("success").Bool(), v.Get("code").Str == "internal" // a crash leaves it open
	s.tasks.raised(v)
	switch v.Get("command").Str {
	case "detach":
		if done || open {
			*s = wireState{away: done, joined: open, failed: s.failed, runs: s.runs, tools: map[string]bool{}, tasks: taskState{most: s.tasks.most}}
		}
	case "attach":
		if done || open {
			s.attach()
		}
	}
	return ""
}

func (s *wireState) attach() {
	s.joined = s.joined || s.away
	s.away = false
}

// event follows one event and says what is wrong with it, "" for nothing.
func (s *wireState) event(v gjson.Result) string {
	kind, run := v.Get("type").Str, v.Get("runId").Str
	switch {
	case s.failed && run != "":
		return "S2: a run after session_failed"
	case s.away && kind != "session_failed": // the end is for everybody
		return "S2: an event of a session that the client has detached from"
	case kind == "agent_start":
		s.joined = false
	case s.joined:
		s.failed = s.failed || kind == "session_failed"
		s.tasks = taskState{most: s.tasks.most}
		return ""
	}
	if run != "" && kind != "agent_start" && kind != "agent_settled" && run != s.run {
		return fmt.Sprintf("S2: of run %q while %q is open", run, s.run)
	}
	if wrong := s.ofRun(v, kind, run); wrong != "" {
		return wrong
	}
	return s.tasks.event(v, s.tools)
}

// ofRun follows what belongs to a run.
func (s *wireState) ofRun(v gjson.Result, kind, run string) string {
	switch kind {
	case "agent_start":
		return s.agentStart(run)
	case "agent_end":
		wrong := s.closed(s.run == "" || s.turn || s.message, "agent_end")
		s.run, s.done = "", nil
		return wrong
	case "agent_settled":
		wrong := ""
		if s.run != "" || !s.owed || s.retry || run != s.last {
			wrong = "S2: agent_settled too early or too often"
		}
		s.owed = false
		return wrong
	case "turn_start":
		wrong := s.closed(s.run == "" || s.turn, "turn_start")
		s.turn, s.done = true, nil
		return wrong
	case "turn_end":
		wrong := s.closed(!s.turn || s.message, "turn_end")
		s.turn = false
		return wrong
	case "message_start":
		wrong := ""
		if s.message || !s.turn && v.Get("message.role").Str != "custom" { // extensions speak outside of turns, too
			wrong = "S2: message_start out of place"
		}
		s.message = true
		return wrong
	case "message_update", "message_end":
		wrong := ""
		if !s.message {
			wrong = "S2: " + kind + " without message_start"
		}
		s.message = kind == "message_update"
		return wrong
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		return s.tool(kind, v.Get("toolCallId").Str)
	case "auto_retry_start":
		s.retry = true
	case "auto_retry_end":
		s.retry = false
	case "session_failed":
		s.failed = true
		if s.run != "" || s.owed || s.retry {
			return "S2: session_failed before its run is closed"
		}
	}
	return ""
}

func (s *wireState) agentStart(run string) string {
	wrong := ""
	if s.run != "" || s.runs[run] {
		wrong = "S2: agent_start inside a run, or of an old one"
	}
	s.run, s.last, s.owed = run, run, true
	if run != "" {
		s.runs[run] = true
	}
	s.turn, s.message = false, false
	clear(s.tools)
	return wrong
}

func (s *wireState) closed(wrong bool, what string) string {
	if wrong || len(s.tools) > 0 {
		open := len(s.tools)
		clear(s.tools)
		return fmt.Sprintf("S2: %s out of place (%d tools open)", what, open)
	}
	return ""
}

func (s *wireState) tool(kind, id string) string {
	open := s.tools[id]
	switch {
	case kind == "tool_execution_start":
		s.tools[id] = true
		if open || !s.turn || slices.Contains(s.done, id) {
			return "S5: tool_execution_start out of place"
		}
	case !open:
		return "S5: " + kind + " without a start"
	case kind == "tool_execution_end":
		delete(s.tools, id)
		s.done = append(s.done, id)
	}
	return ""
}

// aborts is S9: what an answered abort ended says nothing more.
func aborts(l life) (found []string) {
	abort := map[string]string{} // by id: the session
	open := map[string]string{}  // by session: its run
	over := map[string]map[string]bool{}
	for _, r := range l.records {
		if r.Kind == Command {
			if c := parseCommand(r.Line); c.kind == "abort" && c.id != "" {
				abort[c.id] = c.session
			}
		}
		if r.Kind != Output {
			continue
		}
		v := gjson.Parse(r.Line)
		if isResponse(v) {
			if session, is := abort[v.Get("id").Raw]; is && v.Get("success").Bool() && open[session] != "" {
				if over[session] == nil {
					over[session] = map[string]bool{}
				}
				over[session][open[session]] = true
			}
			continue
		}
		session, run := handleOf(v), v.Get("runId").Str
		if run == "" {
			continue
		}
		if over[session][run] {
			found = append(found, "S9: after its abort was answered: "+clip(r.Line))
		}
		open[session] = run
		if v.Get("type").Str == "agent_settled" {
			open[session] = ""
		}
	}
	return found
}

// consent is S10: a call runs only after its dialog was confirmed, and once.
func consent(l life, o Options) (found []string) {
	calls := map[string]string{} // by dialog id and session
	allowed := map[string]bool{}
	for _, r := range l.records {
		switch r.Kind {
		case Output:
			v := gjson.Parse(r.Line)
			if v.Get("type").Str == "extension_ui_request" && v.Get("method").Str == "confirm" {
				calls[o.sessionOf(r.Conn, v.Get("sessionId").Str)+"/"+v.Get("id").Str] = v.Get("toolCallId").Str
			}
		case Command:
			c := parseCommand(r.Line)
			if c.kind == "extension_ui_response" && c.raw.Get("confirmed").Bool() && !c.raw.Get("cancelled").Bool() {
				if call := calls[o.sessionOf(r.Conn, c.session)+"/"+c.raw.Get("id").Str]; call != "" {
					allowed[call] = true
				}
			}
		case Ran:
			if !allowed[r.Line] {
				found = append(found, "S10: ran without consent: "+r.Line)
			}
			delete(allowed, r.Line)
		}
	}
	return found
}

// handleOf is the handle that a record is tagged with, "" for the default
// session: there session_changed has the durable id under that name.
func handleOf(v gjson.Result) string {
	if v.Get("type").Str == "session_changed" && !v.Get("durableId").Exists() {
		return ""
	}
	return v.Get("sessionId").Str
}

// sequence is S3.
func sequence(l life) (found []string) {
	last := map[string]int64{}
	for _, r := range l.records {
		if r.Kind != Output {
			continue
		}
		v := gjson.Parse(r.Line)
		session := handleOf(v)
		if at := v.Get("at"); isResponse(v) && at.Exists() { // what attaches goes on from there
			if at.Int() < last[session] {
				found = append(found, fmt.Sprintf("S3: answered at %d after %d: %s", at.Int(), last[session], clip(r.Line)))
			}
			last[session] = at.Int()
			continue
		}
		seq, from := v.Get("seq"), v.Get("seqFrom")
		if !seq.Exists() {
			continue
		}
		if v.Get("type").Str == "resync" { // it says from where on events are missing
			if seq.Int() != last[session] {
				found = append(found, fmt.Sprintf("S3: not behind %d: %s", last[session], clip(r.Line)))
			}
			continue
		}
		if !from.Exists() {
			from = seq
		}
		if from.Int() != last[session]+1 || seq.Int() < from.Int() {
			found = append(found, fmt.Sprintf("S3: %d after %d: %s", seq.Int(), last[session], clip(r.Line)))
		}
		last[session] = seq.Int()
	}
	return found
}

// isolation is S8: a line that carries a session's mark carries no other's, and
// belongs to the session that the mark was first seen with.
func isolation(l life, o Options) (found []string) {
	if o.Canary == nil {
		return nil
	}
	owner := map[string]string{}
	for _, r := range l.records {
		if r.Kind != Command && r.Kind != Output {
			continue
		}
		mark := o.Canary(r.Line)
		if mark == "" {
			continue
		}
		session := handleOf(gjson.Parse(r.Line))
		switch gjson.Get(r.Line, "type").Str {
		case "subagent_lifecycle", "subagent_progress", "subagent_event": // have the marks of children
			continue
		}
		if isResponse(gjson.Parse(r.Line)) && session == "" {
			continue // a router's answer, or one to open_session
		}
		if was, known := owner[mark]; known && was != session {
			found = append(found, fmt.Sprintf("S8: %s of session %q in %q: %s", mark, was, session, clip(r.Line)))
		}
		owner[mark] = session
		for other := range owner {
			if other != mark && strings.Contains(r.Line, other) {
				found = append(found, fmt.Sprintf("S8: %s beside %s: %s", other, mark, clip(r.Line)))
			}
		}
	}
	return found
}
