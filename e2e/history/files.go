package history

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
)

// entries cuts a session file into its entries, the header first. tail is what
// follows the last line ending.
func entries(content []byte) (list []gjson.Result, bad []string, tail string) {
	for {
		line, rest, whole := bytes.Cut(content, []byte("\n"))
		if !whole {
			return list, bad, string(line)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			switch {
			case bytes.HasSuffix(line, []byte("!")): // what a failed write left and could not take back: marked as no entry
			case gjson.ValidBytes(line):
				list = append(list, gjson.ParseBytes(line))
			default:
				bad = append(bad, clip(string(line)))
			}
		}
		content = rest
	}
}

// file is S6, and the file's half of S5.
func file(path string, content []byte, o Options) (found []string) {
	wrong := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("S6: %s: %s", path, fmt.Sprintf(format, args...)))
	}
	list, bad, tail := entries(content)
	for _, line := range bad {
		if o.Scarred {
			break
		}
		wrong("does not parse: %s", line)
	}
	if tail != "" && !o.Open && !gjson.Valid(tail) {
		wrong("ends in a torn line: %s", clip(tail))
	}
	if len(list) == 0 {
		if !o.Open && !o.Lossy {
			wrong("no entries")
		}
		return found
	}
	if list[0].Get("type").Str != "session" || list[0].Get("id").Str == "" {
		wrong("no header: %s", clip(list[0].Raw))
	}
	seen := map[string]bool{}
	for _, e := range list[1:] {
		id, parent := e.Get("id").Str, e.Get("parentId").Str
		if id == "" || seen[id] {
			wrong("id %q is missing or taken: %s", id, clip(e.Raw))
		}
		if parent != "" && !seen[parent] {
			wrong("parent %q is not there yet: %s", parent, clip(e.Raw))
		}
		seen[id] = true
	}
	found = append(found, taskLog(path, list[1:])...)
	return append(found, results(path, branch(list[1:]), o)...)
}

// branch is the path from the root to the last entry.
func branch(list []gjson.Result) []gjson.Result {
	byID := map[string]gjson.Result{}
	for _, e := range list {
		byID[e.Get("id").Str] = e
	}
	var path []gjson.Result
	if len(list) == 0 {
		return nil
	}
	for id := list[len(list)-1].Get("id").Str; id != ""; id = byID[id].Get("parentId").Str {
		path = append(path, byID[id])
		if len(path) > len(list) {
			break // a circle: S6 has said so
		}
	}
	slices.Reverse(path)
	return path
}

// results checks that every tool call has one result, in call order, before the
// next message of anybody.
func results(path string, list []gjson.Result, o Options) (found []string) {
	var owed []string
	for _, e := range list {
		if e.Get("type").Str != "message" {
			continue
		}
		msg := e.Get("message")
		switch msg.Get("role").Str {
		case "toolResult":
			id := msg.Get("toolCallId").Str
			if len(owed) == 0 || owed[0] != id {
				found = append(found, fmt.Sprintf("S5: %s: a result for %q where %v are owed", path, id, owed))
			}
			owed = slices.DeleteFunc(owed, func(o string) bool { return o == id })
			found = append(found, taskResult(path, msg)...)
		case "assistant", "user":
			if len(owed) > 0 {
				found = append(found, fmt.Sprintf("S5: %s: calls %v have no result before %s", path, owed, clip(msg.Raw)))
			}
			owed = nil
			if stop := msg.Get("stopReason").Str; stop == "error" || stop == "aborted" {
				continue
			}
			for _, block := range msg.Get("content").Array() {
				if block.Get("type").Str == "toolCall" {
					owed = append(owed, block.Get("id").Str)
				}
			}
		}
	}
	if len(owed) > 0 && !o.Open {
		found = append(found, fmt.Sprintf("S5: %s: calls %v have no result", path, owed))
	}
	return found
}

// Grown is the rest of S6: later begins with everything that earlier has, up to
// its last whole line.
func Grown(earlier, later []byte) bool {
	return bytes.HasPrefix(later, earlier[:bytes.LastIndexByte(earlier, '\n')+1])
}
