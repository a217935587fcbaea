// Package policy says whether a call of a tool may run: it judges a [Call] by a mode
// and by rules, and answers allow, ask or deny. It decides and does nothing else: it
// opens no file, starts nothing and remembers nothing.
//
// It is no sandbox. It reads what a call says it will do; a program that is allowed
// does what it likes. What confines programs is the kernel, see package tools.
//
// Rules are written as Claude Code writes them, Tool or Tool(specifier). The order is
// deny, ask, allow, mode: the first that has something to say decides.
package policy

// Mode is what is asked about where no rule says anything.
type Mode string

// The modes, from the loosest to the strictest.
const (
	Auto     Mode = "auto"     // everything runs
	Edits    Mode = "edits"    // reading and editing in the working directory run, the rest asks
	Confirm  Mode = "ask"      // reading in the working directory runs, the rest asks
	ReadOnly Mode = "readonly" // reading in the working directory runs, the rest is refused
)

// Modes are all modes, the loosest first.
var Modes = []Mode{Auto, Edits, Confirm, ReadOnly}

// Known says whether there is such a mode.
func (m Mode) Known() bool { return m.strictness() >= 0 }

func (m Mode) strictness() int {
	for i, known := range Modes {
		if m == known {
			return i
		}
	}
	return -1
}

// Stricter is the stricter of two modes. One that is not known, such as "", counts for
// nothing.
func Stricter(a, b Mode) Mode {
	if b.strictness() > a.strictness() {
		return b
	}
	return a
}

// Kind is what a tool does with the machine.
type Kind uint8

const (
	Other   Kind = iota // nobody knows
	Own                 // it changes nothing but the session
	Read                // it reads files and directories: those of Paths
	Edit                // it writes files: those of Paths
	Command             // it runs a command in a shell
)

// Call is a call of a tool, as it would run.
type Call struct {
	Tool    string
	Kind    Kind
	Paths   []string // absolute and clean, of Read and Edit
	Command string   // of Command
	Shell   string   // the name of the shell that runs Command; "" is bash
	Unbound bool     // Command would run without the session's sandbox
}

// Verdict is what becomes of a call.
type Verdict uint8

const (
	Deny  Verdict = iota // it does not run, and nobody is asked
	Ask                  // it runs if somebody says so
	Allow                // it runs
)

func (v Verdict) String() string { return [...]string{"deny", "ask", "allow"}[v] }

// Decision is a verdict and where it comes from.
type Decision struct {
	Verdict Verdict
	Why     string // for a person, not of Allow
	Rule    *Rule  // that decided; nil: the mode, or what is built in

	// Always are the rules that would let this call run without a question, as they
	// are to be shown and kept, and nothing wider. None: it can be allowed only once.
	Always []string
	// Note says what a person may not see in Always; "" for nothing.
	Note string
}

// MostAlways is how many rules an answer of "always" may add.
const MostAlways = 5

// Decide judges a call. A nil set has no rules, and nothing is in its working
// directory.
func (s *Set) Decide(mode Mode, c Call) Decision {
	if s == nil {
		s = &none
	}
	if s.broken {
		mode = Stricter(mode, Confirm)
	}
	if !mode.Known() {
		mode = Confirm
	}
	d := s.decide(mode, c)
	switch {
	case !c.Unbound || d.Verdict == Deny:
	case mode != Confirm:
		d = Decision{Verdict: Deny, Why: "a command runs without the sandbox only in permission mode " + string(Confirm)}
	default: // each time anew: a rule says what may run, not outside of what
		d = Decision{Verdict: Ask, Why: "it would run without the sandbox"}
	}
	return d
}

func (s *Set) decide(mode Mode, c Call) Decision {
	if mode == Auto && len(s.rules) == 0 {
		return Decision{Verdict: Allow}
	}
	switch c.Kind {
	case Read, Edit:
		return s.decidePaths(mode, c)
	case Command:
		return s.decideCommand(mode, c)
	}
	return s.decideTool(mode, c)
}

var none Set

// decideTool judges a call of which only the name of the tool is known.
func (s *Set) decideTool(mode Mode, c Call) Decision {
	matches := func(r *Rule) bool { return r.whole && r.names(c.Tool) }
	if d, decided := s.limited(matches); decided {
		return d
	}
	if c.Kind == Own || mode == Auto || s.find(allow, matches) != nil {
		return Decision{Verdict: Allow}
	}
	if mode == ReadOnly {
		return byMode(mode)
	}
	return Decision{Verdict: Ask, Why: "the permission mode is " + string(mode), Always: []string{c.Tool}}
}

// limited looks for a rule that denies or asks.
func (s *Set) limited(matches func(*Rule) bool) (Decision, bool) {
	if r := s.find(deny, matches); r != nil {
		return Decision{Verdict: Deny, Rule: r, Why: r.String()}, true
	}
	if r := s.find(ask, matches); r != nil {
		return Decision{Verdict: Ask, Rule: r, Why: r.String()}, true
	}
	return Decision{}, false
}

func byMode(mode Mode) Decision {
	return Decision{Verdict: Deny, Why: "the permission mode is " + string(mode)}
}
