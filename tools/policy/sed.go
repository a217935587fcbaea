package policy

import (
	"regexp"
	"strings"
	"sync"
)

// sedOrders reports whether a sed script has commands that do more than print or change the
// output.
func sedOrders(words []word) bool {
	var scripts []string
	var operands []word
	next := "" // the option whose value the next word is
	for _, w := range words {
		long, value, has := strings.Cut(w.value, "=")
		switch {
		case w.dynamic && len(scripts) == 0 && len(operands) == 0, w.dynamic && next != "":
			return true
		case next == "e":
			scripts, next = append(scripts, w.value), ""
		case next != "":
			next = ""
		case strings.HasPrefix(w.value, "--expression"):
			if long != "--expression" || w.dynamic {
				return true
			}
			if next = "e"; has {
				scripts, next = append(scripts, value), ""
			}
		case strings.HasPrefix(w.value, "--"):
			if !sedLong[long] {
				return true
			}
		case strings.HasPrefix(w.value, "-") && w.value != "-":
			letters := strings.TrimLeft(w.value[1:], "nErsuz")
			switch {
			case letters == "" || letters[0] == 'i' && !w.dynamic:
			case w.dynamic || !strings.Contains("el", letters[:1]):
				return true
			case letters == "e" || letters == "l":
				next = letters
			case letters[0] == 'e':
				scripts = append(scripts, letters[1:])
			}
		default:
			operands = append(operands, w)
		}
	}
	if len(scripts) == 0 && len(operands) > 0 {
		if operands[0].dynamic {
			return true
		}
		scripts = []string{operands[0].value}
	}
	return !tame().MatchString(strings.Join(scripts, "\n"))
}

var sedLong = map[string]bool{"--": true, "--quiet": true, "--silent": true, "--regexp-extended": true, "--null-data": true, "--separate": true,
	"--unbuffered": true, "--posix": true, "--debug": true, "--sandbox": true, "--follow-symlinks": true, "--zero-terminated": true,
	"--in-place": true, "--help": true, "--version": true}

// tame is a script of sed without e, r, R, w, W and whatever else is not known here. A
// delimiter within brackets ends the expression for some seds and not for others: such
// a script is not tame.
var tame = sync.OnceValue(func() *regexp.Regexp {
	expression := func(delimiter string) string {
		d := regexp.QuoteMeta(delimiter)
		return `(?:[^` + d + `\\\n\[]|\\[^\n]|\[(?:[^` + d + `\\\n\]]|\\[^\n` + d + `])+\])*` + d
	}
	var edits []string
	for d := range strings.SplitSeq("/ | , # @ : ! ~ % _ +", " ") {
		quoted := regexp.QuoteMeta(d)
		replacement := `(?:[^` + quoted + `\\\n]|\\(?s:.))*` + quoted
		edits = append(edits, `s`+quoted+expression(d)+replacement+`[gpiImM0-9]*`, `y`+quoted+expression(d)+replacement)
	}
	line := `(?:[0-9]+(?:~[0-9]+)?|\$|/` + expression("/") + `[IM]*)`
	address := line + `(?:\s*,\s*(?:` + line + `|[+~][0-9]+))?`
	command := `[=dDgGhHlnNpPxzF]|[qQl][0-9]*|[btT]|[btT:]\s*[A-Za-z0-9_]+|[aic](?:\\\n)?[^\\\n]*|` + strings.Join(edits, "|")
	end := `[ \t]*(?:$|[;\n}][;}\s]*|#[^\n]*(?:$|\n[;}\s]*))`
	return regexp.MustCompile(`^[;\s]*(?:(?:` + address + `)?\s*!?\s*(?:\{[;\s]*|(?:` + command + `)` + end + `))*$`)
})
