package tools

import (
	"encoding/json"
	"fmt"
	"strings"

	"troupe/protocol"
)

// listing collects the lines of a result, no more than may be shown.
type listing struct {
	text    strings.Builder
	lines   int
	notices []string
}

// add adds a line. False means that there is no room for more.
func (l *listing) add(line string) bool {
	if l.lines > 0 {
		l.text.WriteByte('\n')
	}
	l.text.WriteString(line)
	l.lines++
	return l.lines <= MaxLines && l.text.Len() <= MaxBytes
}

// notice puts a remark below the list.
func (l *listing) notice(format string, args ...any) {
	l.notices = append(l.notices, fmt.Sprintf(format, args...))
}

// truncate cuts what came to be over the limits.
func (l *listing) truncate() *Truncation {
	t := truncateHead(strings.ToValidUTF8(l.text.String(), "\uFFFD"))
	l.text.Reset()
	l.text.WriteString(t.Content)
	if !t.Truncated {
		return nil
	}
	l.notice("Cut at %d lines or %s: ask for less", MaxLines, protocol.FormatSize(MaxBytes))
	return &t
}

// result is the tool result. Details is a struct with omitempty on all fields.
func (l *listing) result(extra any) protocol.ToolResult {
	result := protocol.ToolResult{Content: protocol.TextContent(withNotices(l.text.String(), l.notices...))}
	if d := details(extra); string(d) != "{}" {
		result.Details = json.RawMessage(d)
	}
	return result
}

// orLimit is the limit a model gave, or the usual one.
func orLimit(given, usual int) int {
	if given <= 0 {
		return usual
	}
	return given
}
