package resource

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// JSONC turns JSON with comments and trailing commas into JSON, by putting
// spaces in their place: what remains stands where it stood. It checks
// nothing.
func JSONC(src []byte) []byte {
	out := append([]byte(nil), src...)
	comma := -1 // a comma after which nothing but space and comments has come
	for i := 0; i < len(out); {
		switch {
		case out[i] == '"':
			i = stringEnd(out, i)
			comma = -1
		case out[i] == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := commentEnd(out, i)
			blank(out[i:end])
			i = end
		case out[i] == ',':
			comma = i
			i++
		case out[i] == '}' || out[i] == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			i++
		case strings.IndexByte(" \t\r\n", out[i]) >= 0:
			i++
		default:
			comma = -1
			i++
		}
	}
	return out
}

func stringEnd(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(b))
}

func commentEnd(b []byte, i int) int {
	if b[i+1] == '/' {
		if n := strings.IndexByte(string(b[i:]), '\n'); n >= 0 {
			return i + n
		}
		return len(b)
	}
	if n := strings.Index(string(b[i+2:]), "*/"); n >= 0 {
		return i + 2 + n + 2
	}
	return len(b)
}

// blank writes spaces over a comment but keeps its line breaks.
func blank(b []byte) {
	for i := range b {
		if b[i] != '\n' && b[i] != '\r' {
			b[i] = ' '
		}
	}
}

// checkJSON says what is wrong with a file of JSON, and where.
func checkJSON(path string, src []byte) *Problem {
	var any json.RawMessage
	err := json.Unmarshal(src, &any)
	if err == nil {
		return nil
	}
	p := &Problem{Path: path, Err: err}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		p.Line, p.Column = position(src, int(syntax.Offset)-1)
	}
	return p
}

// position is the line and the column of a byte, counted from 1; columns count
// characters.
func position(src []byte, offset int) (line, column int) {
	before := string(src[:max(0, min(offset, len(src)))])
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}
