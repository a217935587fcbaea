package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// goPattern writes a tree in the syntax of package regexp. Regexp.String of
// package syntax would look at each character of each class for its case.
func goPattern(b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			b.WriteString("(?i:" + regexp.QuoteMeta(string(re.Rune)) + ")")
		} else {
			b.WriteString("(?:" + regexp.QuoteMeta(string(re.Rune)) + ")")
		}
	case syntax.OpCharClass:
		b.WriteByte('[')
		for i := 0; i < len(re.Rune); i += 2 {
			fmt.Fprintf(b, `\x{%x}-\x{%x}`, re.Rune[i], re.Rune[i+1])
		}
		b.WriteByte(']')
	case syntax.OpNoMatch:
		b.WriteString(`[^\x00-\x{10FFFF}]`)
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpBeginText:
		b.WriteString(`\A`)
	case syntax.OpEndText:
		b.WriteString(`\z`)
	case syntax.OpWordBoundary:
		b.WriteString(`\b`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`\B`)
	default:
		goOperation(b, re)
	}
}

func goOperation(b *strings.Builder, re *syntax.Regexp) {
	b.WriteString("(?:")
	for i, sub := range re.Sub {
		if i > 0 && re.Op == syntax.OpAlternate {
			b.WriteByte('|')
		}
		goPattern(b, sub)
	}
	b.WriteByte(')')
	switch re.Op {
	case syntax.OpStar:
		b.WriteByte('*')
	case syntax.OpPlus:
		b.WriteByte('+')
	case syntax.OpQuest:
		b.WriteByte('?')
	case syntax.OpRepeat:
		switch {
		case re.Max < 0:
			fmt.Fprintf(b, "{%d,}", re.Min)
		case re.Max == re.Min:
			fmt.Fprintf(b, "{%d}", re.Min)
		default:
			fmt.Fprintf(b, "{%d,%d}", re.Min, re.Max)
		}
	}
	if re.Flags&syntax.NonGreedy != 0 {
		b.WriteByte('?')
	}
}
