package main

import (
	"fmt"
	"strings"
)

// manual is troupe man.
func manual(args []string) int {
	if _, err := arguments("man", args, nil); err != nil {
		return exitCode(err)
	}
	return show(manualPage())
}

// roff is a text in the language of man pages (man(7)).
type roff struct{ strings.Builder }

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// text writes a line of text. One that begins with a control character of roff gets an empty character before it.
func (r *roff) text(s string) {
	s = roffEscapes.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	r.WriteString(s + "\n")
}

// item writes a term in bold and its description.
func (r *roff) item(term, doc string) {
	r.WriteString(".TP\n\\fB" + roffEscapes.Replace(term) + "\\fR\n")
	r.text(doc)
}

func (r *roff) heading(kind, title string) {
	fmt.Fprintf(r, ".%s \"%s\"\n", kind, roffEscapes.Replace(title))
}

// sections writes flags below a heading of their own, which has the name of the command before it.
func (r *roff) sections(list []section) {
	for _, s := range list {
		r.heading("SS", s.title)
		for _, f := range s.flags {
			if s.title == unusedFlags {
				f.doc = "No effect."
			}
			r.item(f.label(), f.description())
		}
	}
}

func (r *roff) examples(list [][2]string) {
	for _, e := range list {
		r.WriteString(".PP\n")
		if e[1] != "" {
			r.text(e[1])
		}
		r.WriteString(".EX\n")
		r.text("  " + e[0])
		r.WriteString(".EE\n")
	}
}

// manualPage returns the manual page of troupe in roff.
func manualPage() string {
	r, all := new(roff), commands()
	fmt.Fprintf(r, ".TH TROUPE 1 \"\" \"troupe %s\" \"User Commands\"\n", roffEscapes.Replace(version))
	r.heading("SH", "NAME")
	r.text("troupe - run coding agents, and serve them to programs and browsers")
	r.heading("SH", "SYNOPSIS")
	for i, c := range all {
		if i > 0 {
			r.WriteString(".br\n")
		}
		r.text(c.call())
	}
	r.heading("SH", "DESCRIPTION")
	r.text("troupe runs coding agents. It speaks the RPC protocol of the coding agent pi: one JSON object per line. Answers go to standard output, warnings and logs to standard error.")
	r.heading("SH", "OPTIONS")
	r.sections(all[0].sections())
	r.heading("SH", "EXAMPLES")
	r.examples(all[0].examples)
	r.heading("SH", "COMMANDS")
	for i, c := range all {
		r.heading("SS", c.call())
		r.text(strings.TrimSpace(c.summary + " " + c.details))
		if i == 0 { // its options and examples are above
			continue
		}
		switch {
		case c.only != nil:
			r.text("Of the options above, these are accepted, too: " + strings.Join(flagNames(accepted(all[0].sections(), c.only)), ", ") + ".")
		case c.rpc:
			r.text("The options above are accepted, too.")
		}
		if c.sections != nil {
			for _, s := range c.sections() {
				for _, f := range s.flags {
					r.item(f.label(), f.description())
				}
			}
		}
		r.examples(c.examples)
	}
	r.heading("SH", "ENVIRONMENT")
	r.text("API keys. The first variable of a provider that is set counts.")
	for _, v := range keyVariables() {
		r.item(v.names, v.doc)
	}
	r.WriteString(".PP\n")
	r.text("Other variables:")
	for _, v := range environment {
		r.item(v.names, v.doc)
	}
	r.heading("SH", "EXIT STATUS")
	for _, v := range exitCodes {
		r.item(v.names, v.doc)
	}
	return r.String()
}
