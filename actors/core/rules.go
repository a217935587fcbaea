package core

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"troupe/protocol"
)

// Rule is a stream rule: it is shown to the model only when what the model
// writes matches its trigger.
type Rule struct {
	protocol.StreamRule
	Trigger *regexp.Regexp
}

// RuleSettings say how stream rules work.
type RuleSettings struct {
	Rules []Rule
	Keep  bool // the answer that was cut off stays in the context
	Gap   int  // turns after which a rule may fire again, 0 for never
	Prose bool // text is watched
	Calls bool // arguments of tool calls are watched
}

// watchWindow is how much of the end of an answer is matched: triggers are
// short, and the cost of a delta must not grow with the answer.
const watchWindow = 2048

// watch looks for triggers in what the answer has grown by. If there is one, it
// stops the answer, shows the rules to the model and lets it begin again: to the
// client a run that ends and another that begins, with nothing settled in between.
func (m *Machine) watch(s *streaming, kind protocol.BlockKind, delta string) bool {
	w := &m.set.StreamRules
	if len(w.Rules) == 0 || kind == protocol.BlockThinking ||
		kind == protocol.BlockText && !w.Prose || kind == protocol.BlockToolCall && !w.Calls {
		return false
	}
	s.tail = append(s.tail, delta...)
	if over := len(s.tail) - watchWindow - len(delta); over > 0 {
		s.tail = slices.Delete(s.tail, 0, over)
	}
	var tripped []protocol.StreamRule
	for _, r := range w.Rules {
		if m.mayFire(r.Name) && r.Trigger.Match(s.tail) {
			tripped = append(tripped, r.StreamRule)
		}
	}
	if len(tripped) == 0 {
		return false
	}
	m.release()
	m.emit(protocol.TTSRTriggered{Rules: tripped})
	why := "Interrupted by stream rule " + strings.Join(namesOf(tripped), ", ")
	m.breakOff(s.run, s.stream, protocol.StopAborted, why, ending{outcome: aborted, rules: tripped})
	return true
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

func ruleText(rules []protocol.StreamRule) string {
	var b strings.Builder
	for i, r := range rules {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "<system-interrupt rule=%q path=%q>\nYour output was stopped because it ran against this rule. "+
			"Follow it, and begin again:\n\n%s\n</system-interrupt>", r.Name, r.Path, r.Content)
	}
	return b.String()
}
