package failpoint

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Parse reads a plan. Empty text is the nil plan.
func Parse(text string) (*Plan, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	ps := &parser{in: text}
	p := &Plan{released: make(chan struct{})}
	for ps.skip(); ps.in != ""; ps.skip() {
		f, err := ps.fault()
		if err != nil {
			return nil, fmt.Errorf("fault plan: %w near %q", err, clip(ps.in))
		}
		p.faults = append(p.faults, f)
	}
	texts := make([]string, 0, len(p.faults))
	for _, f := range p.faults {
		texts = append(texts, f.text)
	}
	p.text = strings.Join(texts, " ")
	return p, nil
}

func clip(s string) string { return s[:min(len(s), 30)] }

type parser struct{ in string }

func (p *parser) skip() { p.in = strings.TrimLeft(p.in, " \t\r\n") }

// token reads a parenthesis, a quoted string or a word.
func (p *parser) token() (string, error) {
	p.skip()
	switch {
	case p.in == "":
		return "", fmt.Errorf("unexpected end")
	case p.in[0] == '(' || p.in[0] == ')':
		t := p.in[:1]
		p.in = p.in[1:]
		return t, nil
	case p.in[0] == '"':
		quoted, err := strconv.QuotedPrefix(p.in)
		if err != nil {
			return "", fmt.Errorf("unterminated string")
		}
		p.in = p.in[len(quoted):]
		return strconv.Unquote(quoted)
	}
	n := strings.IndexAny(p.in, " \t\r\n()\"")
	if n < 0 {
		n = len(p.in)
	}
	t := p.in[:n]
	p.in = p.in[n:]
	return t, nil
}

func (p *parser) expect(want string) error {
	got, err := p.token()
	if err == nil && got != want {
		err = fmt.Errorf("want %q, got %q", want, got)
	}
	return err
}

func (p *parser) open() (string, error) {
	if err := p.expect("("); err != nil {
		return "", err
	}
	return p.token()
}

func (p *parser) fault() (fault, error) {
	name, err := p.open()
	if err != nil {
		return fault{}, err
	}
	f := fault{action: action(name), counts: &counts{seen: map[string]int{}, rngs: map[string]*rand.Rand{}}}
	switch f.action {
	case actPanic, actPanicAfter, actStall, actDrop, actKill, actKillAfter:
	case actDelay:
		word, err := p.token()
		if err != nil {
			return f, err
		}
		if f.delay, err = time.ParseDuration(word); err != nil {
			return f, err
		}
	default:
		return f, fmt.Errorf("unknown action %q", name)
	}
	if f.when, err = p.predicate(); err != nil {
		return f, err
	}
	f.text = "(" + name
	if f.action == actDelay {
		f.text += " " + f.delay.String()
	}
	f.text += " " + f.when.String() + ")"
	return f, p.expect(")")
}

func (p *parser) predicate() (predicate, error) {
	name, err := p.open()
	if err != nil {
		return nil, err
	}
	pred, err := p.body(name)
	if err != nil {
		return nil, err
	}
	return pred, p.expect(")")
}

func (p *parser) body(name string) (predicate, error) {
	switch name {
	case "Actor":
		s, err := p.token()
		return actorIs{s}, err
	case "Msg":
		s, err := p.token()
		return msgIs{s}, err
	case "OnIndex", "From":
		n, err := p.number()
		return onIndex{n, name == "From"}, err
	case "Randomly":
		return p.randomly()
	case "And":
		list, err := p.list()
		return and(list), err
	case "Or":
		list, err := p.list()
		return or(list), err
	case "Not":
		inner, err := p.predicate()
		return not{inner}, err
	}
	return nil, fmt.Errorf("unknown predicate %q", name)
}

func (p *parser) number() (int, error) {
	word, err := p.token()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(word)
}

func (p *parser) randomly() (predicate, error) {
	word, err := p.token()
	if err != nil {
		return nil, err
	}
	prob, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, err
	}
	word, err = p.token()
	if err != nil {
		return nil, err
	}
	seed, err := strconv.ParseUint(word, 10, 64)
	return randomly{prob, seed}, err
}

func (p *parser) list() ([]predicate, error) {
	var list []predicate
	for p.skip(); p.in != "" && p.in[0] == '('; p.skip() {
		pred, err := p.predicate()
		if err != nil {
			return nil, err
		}
		list = append(list, pred)
	}
	return list, nil
}
