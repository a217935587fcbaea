package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"troupe/protocol"
	"troupe/providers"
)

// demo answers like a very simple model: it understands a few requests for
// tools, reports what they gave, and explains itself to everything else.
func demo(req *providers.Request) *Answer {
	if results := lastResults(req.Messages); len(results) > 0 {
		return &Answer{Steps: []Step{{Text: report(results)}}}
	}
	text, _ := ending(req.Messages)
	for _, intent := range intents() {
		m := intent.pattern.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if tool, args := intent.call(m[1:], req.Tools); tool != "" {
			return withThought(req, "They want me to "+intent.name+"; the "+tool+" tool does that.", []Step{
				{Text: fmt.Sprintf("I will use the %s tool.", tool)},
				{Tool: tool, Args: args},
			})
		}
	}
	return withThought(req, "There is no tool for this. I will explain what I am.", []Step{{Text: explain(text, req.Tools)}})
}

func withThought(req *providers.Request, thought string, steps []Step) *Answer {
	if req.Thinks() {
		steps = append([]Step{{Thinking: thought, Signature: "demo"}}, steps...)
	}
	return &Answer{Steps: steps}
}

// intent is a request that the demo understands.
type intent struct {
	name    string
	pattern *regexp.Regexp
	// call picks a tool among those there are, "" if none fits.
	call func(words []string, tools []protocol.ToolInfo) (string, json.RawMessage)
}

var intents = sync.OnceValue(func() []intent {
	expr := func(s string) *regexp.Regexp {
		return regexp.MustCompile(`(?is)^\s*(?:please |can you |could you )*` + s + `\s*$`)
	}
	return []intent{
		{"have others do it", expr(`(?:have|let) (?:\w+ )?agents (.+?)[.!]?`), taskCall},
		{"list files", expr(`(?:list|ls|(?:what|which) files|show (?:me )?(?:the |all )?files)(?: (?:the |all )?files)?(?: are there| are)?(?: (?:in|of|under) (\S+?))?(?: .*?)?[?.!]?`), listCall},
		{"write a file", expr(`(?:write|put|save) (.+) (?:to|into|in) (?:the )?(?:file )?(\S+?)[.!]?`), writeCall},
		{"run a command", expr(`(?:(?:run|execute|exec|bash)\s+(?:the command |command )?|[$!]\s*)(.+)`), runCall},
		{"read a file", expr(`(?:read|cat|open|display|show)(?: me)?(?: the)?(?: file)? (\S+?)[?.!]?`), readCall},
	}
})

func listCall(words []string, tools []protocol.ToolInfo) (string, json.RawMessage) {
	path := words[0]
	if path == "" || slices.Contains([]string{"here", "this", "the"}, strings.ToLower(path)) {
		path = "."
	}
	if name := pick(tools, "ls"); name != "" {
		return name, args("path", path)
	}
	return pick(tools, "bash"), args("command", "ls "+path)
}

func writeCall(words []string, tools []protocol.ToolInfo) (string, json.RawMessage) {
	return pick(tools, "write"), args("path", unquote(words[1]), "content", unquote(words[0])+"\n")
}

func runCall(words []string, tools []protocol.ToolInfo) (string, json.RawMessage) {
	return pick(tools, "bash"), args("command", unquote(words[0]))
}

// taskCall gives an agent to each part of a request.
func taskCall(words []string, tools []protocol.ToolInfo) (string, json.RawMessage) {
	type task struct {
		ID          string `json:"id"`
		Description string `json:"description"`
		Assignment  string `json:"assignment"`
	}
	call := struct {
		Agent string `json:"agent"`
		Tasks []task `json:"tasks"`
	}{Agent: "task"}
	for i, part := range regexp.MustCompile(`;|\band\b`).Split(words[0], -1) {
		part = unquote(part)
		call.Tasks = append(call.Tasks, task{fmt.Sprint("Part", i+1), part, part})
	}
	raw, _ := json.Marshal(call) // texts are always JSON
	return pick(tools, "task"), raw
}

func readCall(words []string, tools []protocol.ToolInfo) (string, json.RawMessage) {
	return pick(tools, "read"), args("path", unquote(words[0]))
}

func pick(tools []protocol.ToolInfo, name string) string {
	for _, t := range tools {
		if t.Name == name {
			return name
		}
	}
	return ""
}

// args makes the arguments of a call from names and values.
func args(pairs ...string) json.RawMessage {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(protocol.AppendString(b, pairs[i]), ':')
		b = protocol.AppendString(b, pairs[i+1])
	}
	return append(b, '}')
}

// unquote drops a pair of quotes or backticks around s.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && strings.ContainsRune("\"'`", rune(s[0])) && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// lastResults are the tool results that the conversation ends with.
func lastResults(messages []protocol.Message) []*protocol.ToolResultMessage {
	var results []*protocol.ToolResultMessage
	for i := len(messages) - 1; i >= 0; i-- {
		m, ok := messages[i].(*protocol.ToolResultMessage)
		if !ok {
			break
		}
		results = append(results, m)
	}
	slices.Reverse(results)
	return results
}

// shownLines is how much of a result the demo repeats.
const shownLines = 12

func report(results []*protocol.ToolResultMessage) string {
	var b strings.Builder
	for _, r := range results {
		text := strings.TrimSpace(r.Content.Text("\n"))
		lines := strings.Split(text, "\n")
		verb := "gave"
		if r.IsError {
			verb = "failed with"
		}
		switch {
		case text == "":
			fmt.Fprintf(&b, "The %s tool %s no text.\n\n", r.ToolName, verb)
			continue
		case len(lines) == 1:
			fmt.Fprintf(&b, "The %s tool %s one line:\n\n", r.ToolName, verb)
		default:
			fmt.Fprintf(&b, "The %s tool %s %d lines:\n\n", r.ToolName, verb, len(lines))
		}
		shown := lines[:min(len(lines), shownLines)]
		for _, line := range shown {
			fmt.Fprintf(&b, "    %s\n", cut(line, 160))
		}
		if more := len(lines) - len(shown); more > 0 {
			fmt.Fprintf(&b, "    … and %d more\n", more)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

func explain(text string, tools []protocol.ToolInfo) string {
	var b strings.Builder
	b.WriteString("I am troupe's offline demo model: I need no network and no key, and I am not clever.\n\n")
	if text = strings.TrimSpace(text); text != "" {
		fmt.Fprintf(&b, "You said: %s\n\n", cut(text, 200))
	}
	var tries []string
	for tool, try := range map[string]string{"ls": `"list files"`, "read": `"read README.md"`, "bash": `"run date"`, "task": `"have agents run date and run uname"`, "write": `"write hello to hello.txt"`} {
		if pick(tools, tool) != "" {
			tries = append(tries, try)
		}
	}
	if slices.Sort(tries); len(tries) > 0 {
		fmt.Fprintf(&b, "I can show you a real tool call. Try %s.\n\n", strings.Join(tries, ", "))
	}
	b.WriteString("For a real model set a key, such as ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or describe a server of yours " +
		"in models.json (Ollama, llama.cpp and LM Studio need no key), and start with --model PROVIDER/ID.")
	return b.String()
}
