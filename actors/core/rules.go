package core

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Rule is a stream rule: it is shown to the model only when what the model
// writes matches its trigger.
type Rule struct {
	protocol.StreamRule
	Trigger *regexp.Regexp
	Scopes  []RuleScope // what it watches; none is text and the arguments of calls
}

// RuleScope is a kind of content that a rule watches.
type RuleScope struct {
	Kind  protocol.BlockKind
	Tool  string                 // of a call, "" for any
	Files func(path string) bool // of a call: that it is about; nil for any, also for none
}

// RuleSettings say how stream rules work.
type RuleSettings struct {
	Rules []Rule
	Keep  bool   // the answer that was cut off stays in the context
	Gap   int    // turns after which a rule may fire again, 0 for never
	Mode  string // which matches stop the answer, for rules that do not say it: always, prose-only, tool-only, never
}

// watchWindow is how much of the end of a block is matched: triggers are short, and
// the cost of a delta must not grow with the answer.
const watchWindow = 2048

// watch looks for triggers in what a block of the answer has grown by. Where a match
// stops the answer, the rules are shown to the model, and it begins again: to the
// client a run that ends and another that begins, with nothing settled in between.
// Other rules that match are shown when the turn is over.
func (m *Machine) watch(s *streaming, index int, delta string) bool {
	w, b := &m.set.StreamRules, &s.blocks[index]
	if !w.watches(b) {
		return false
	}
	b.tail = append(b.tail, delta...)
	if over := len(b.tail) - watchWindow - len(delta); over > 0 {
		b.tail = slices.Delete(b.tail, 0, over)
	}
	var tripped []protocol.StreamRule
	for i := range w.Rules {
		switch r := &w.Rules[i]; {
		case !r.watches(b) || !m.mayFire(r.Name) || s.run.defers(r.Name) || !r.Trigger.Match(b.tail):
		case interrupts(cmp.Or(r.InterruptMode, w.Mode), b.kind):
			tripped = append(tripped, r.StreamRule)
		default:
			s.run.deferred = append(s.run.deferred, r.StreamRule)
		}
	}
	if len(tripped) == 0 {
		return false
	}
	m.release()
	m.emit(protocol.TTSRTriggered{Rules: tripped})
	why := "Interrupted by stream rule " + strings.Join(namesOf(tripped), ", ")
	if m.words().pisces {
		why = piscesAborted
	}
	m.breakOff(s.run, s.stream, protocol.StopAborted, why, ending{outcome: aborted, rules: append(tripped, s.run.deferred...)})
	return true
}

// watches says whether any rule is about a block.
func (w *RuleSettings) watches(b *block) bool {
	for i := range w.Rules {
		if w.Rules[i].about(b) {
			return true
		}
	}
	return false
}

// about says whether a rule may match in a block, whichever file it is about.
func (r *Rule) about(b *block) bool {
	if len(r.Scopes) == 0 {
		return b.kind != protocol.BlockThinking
	}
	return slices.ContainsFunc(r.Scopes, func(s RuleScope) bool { return s.Kind == b.kind && (s.Tool == "" || s.Tool == b.call.Name) })
}

// watches says whether a rule matches in a block now: the path of a call has to be
// there if it is about certain files.
func (r *Rule) watches(b *block) bool {
	if len(r.Scopes) == 0 {
		return b.kind != protocol.BlockThinking
	}
	return slices.ContainsFunc(r.Scopes, func(s RuleScope) bool {
		return s.Kind == b.kind && (s.Tool == "" || s.Tool == b.call.Name) && (s.Files == nil || s.Files(b.path()))
	})
}

// path is what a call is about, as far as its arguments are there; "" for nothing.
func (b *block) path() string {
	args := b.args.AppendJSON(nil)
	for _, name := range []string{"path", "file_path"} {
		if path := gjson.GetBytes(args, name).Str; path != "" {
			return path
		}
	}
	return ""
}

// interrupts says whether a match in a kind of content stops the answer.
func interrupts(mode string, kind protocol.BlockKind) bool {
	switch mode {
	case "never":
		return false
	case "prose-only":
		return kind != protocol.BlockToolCall
	case "tool-only":
		return kind == protocol.BlockToolCall
	}
	return true
}

// defers says whether a rule is to be shown at the end of the turn.
func (r *run) defers(name string) bool {
	return slices.ContainsFunc(r.deferred, func(rule protocol.StreamRule) bool { return rule.Name == name })
}

// deferredNote is the message with the rules that have waited for the end of the
// turn, nil if there are none.
func (m *Machine) deferredNote(r *run) *protocol.CustomMessageEntry {
	rules := r.deferred
	if len(rules) == 0 {
		return nil
	}
	r.deferred = nil
	m.noteFired(rules)
	return m.ruleNote(rules, "What you wrote runs against this rule. Follow it from now on")
}

// ruleNote is the message with rules, and why they are shown.
func (m *Machine) ruleNote(rules []protocol.StreamRule, why string) *protocol.CustomMessageEntry {
	note := noteToModel(protocol.NoteRules, ruleText(rules, why))
	note.Details, note.Display = protocol.JSON(protocol.RulesOp{Rules: namesOf(rules)}), !m.set.Rules.QuietNotes
	return note
}

func (m *Machine) mayFire(name string) bool {
	at, fired := m.fired[name]
	return !fired || m.set.StreamRules.Gap > 0 && m.turns-at >= m.set.StreamRules.Gap
}

func namesOf(rules []protocol.StreamRule) (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// noteFired remembers, in the log too, that rules have fired.
func (m *Machine) noteFired(rules []protocol.StreamRule) {
	names := namesOf(rules)
	for _, n := range names {
		m.fired[n] = m.turns
	}
	m.appendOwn(protocol.CustomRules, protocol.RulesOp{Rules: names})
}

// stoppedByRule begins the text of a rule that has stopped an answer.
const stoppedByRule = "Your output was stopped because it ran against this rule. Follow it, and begin again"

func ruleText(rules []protocol.StreamRule, why string) string {
	var b strings.Builder
	for i, r := range rules {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "<system-interrupt reason=\"rule_violation\" rule=%q path=%q>\n%s:\n\n%s\n</system-interrupt>", r.Name, r.Path, why, r.Content)
	}
	return b.String()
}
