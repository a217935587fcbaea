package harness

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Clip shortens a text to n bytes for an error message.
func Clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// Kinds returns the types of events, in order.
func Kinds(events []gjson.Result) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.Get("type").Str)
	}
	return list
}

// FirstEvent returns the first event of a type. If there is no such event, Exists of the result is
// false.
func FirstEvent(events []gjson.Result, kind string) gjson.Result {
	for _, e := range events {
		if e.Get("type").Str == kind {
			return e
		}
	}
	return gjson.Result{}
}

// ResultTexts returns the texts of tool results in events of a type, one per line.
func ResultTexts(events []gjson.Result, kind string) string {
	var list []string
	for _, e := range events {
		if e.Get("type").Str == kind {
			list = append(list, e.Get("result.content.0.text").Str)
		}
	}
	return strings.Join(list, "\n")
}
