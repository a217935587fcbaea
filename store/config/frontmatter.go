package config

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// frontmatter is the head of a Markdown file: the YAML between two lines of
// three dashes at its beginning. What matters of it are texts, lists of texts and,
// for a few keys, values of other shapes.
type frontmatter map[string]yamlValue

// yamlValue is a text, a list of texts, or something nested.
type yamlValue struct {
	text   string
	list   []string        // nil for a text
	nested bool            // a map, or a list of more than texts
	json   json.RawMessage // of what is nested; nil where it has nothing that JSON can say
}

// splitFrontmatter separates a file's head from its body, which is returned
// without surrounding space. Without a closing line there is no head.
func splitFrontmatter(src string) (frontmatter, string) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	rest, ok := strings.CutPrefix(src, "---\n")
	if !ok {
		return nil, strings.TrimSpace(src)
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		if strings.TrimRight(line, " \t") == "---" {
			return seenHeads.parse(lines[:i]), strings.TrimSpace(strings.Join(lines[i+1:], "\n"))
		}
	}
	return nil, strings.TrimSpace(src)
}

// seenHeads are those of files that were read before: every session reads the same ones, and a
// child is a session.
var seenHeads headCache

// headCache remembers what heads say, which nobody changes.
type headCache struct {
	mu    sync.Mutex
	known map[string]frontmatter
	bytes int
}

// maxHeads is how much text of heads is remembered, in bytes. Beyond it all is forgotten.
const maxHeads = 1 << 20

func (h *headCache) parse(lines []string) frontmatter {
	text := strings.Join(lines, "\n")
	h.mu.Lock()
	f, ok := h.known[text]
	h.mu.Unlock()
	if ok {
		return f
	}
	f = parseHead(lines)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || h.bytes+len(text) > maxHeads {
		h.known, h.bytes = map[string]frontmatter{}, 0
	}
	if len(text) <= maxHeads/8 {
		h.known[text] = f
		h.bytes += len(text)
	}
	return f
}

// parseHead reads the lines of a head. People write what YAML refuses, most often
// a colon in a plain text ("description: Use when: …"). Such a head is read key
// by key, so that one of them does not cost the others; a key that YAML refuses
// has what follows it on its line as its text.
func parseHead(lines []string) frontmatter {
	f := frontmatter{}
	if f.read(lines) {
		return f
	}
	for keys := 0; len(lines) > 0; keys++ {
		n := 1
		for n < len(lines) && !beginsKey(lines[n]) {
			n++
		}
		if keys >= maxKeys || !f.read(lines[:n]) {
			f.plain(lines[0])
		}
		lines = lines[n:]
	}
	return f
}

// maxKeys bounds the work that a head which is no YAML makes. Real ones have a
// handful of keys.
const maxKeys = 100

// read adds what lines of YAML say. It reports false if they are no mapping. They
// are not decoded into a map of Go, which takes time that grows with the square
// of the number of keys.
func (f frontmatter) read(lines []string) bool {
	var doc yaml.Node
	err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")+"\n"), &doc)
	if err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	pairs := doc.Content[0].Content
	for i := 0; i < len(pairs); i += 2 {
		key, node := pairs[i].Value, pairs[i+1]
		v := yamlValue{text: scalar(node)}
		ok := node.Kind == yaml.ScalarNode
		if node.Kind == yaml.SequenceNode {
			ok, v.list = true, []string{}
			for _, item := range node.Content {
				ok = ok && item.Kind == yaml.ScalarNode
				v.list = append(v.list, scalar(item))
			}
		}
		if !ok && node.Kind != yaml.AliasNode {
			v = yamlValue{nested: true, json: asJSON(node)}
		}
		if ok || v.nested {
			f[key] = v
		}
	}
	return true
}

// maxNested bounds the values in a nested one: to decode a map takes time that grows
// with the square of the number of keys.
const maxNested = 10_000

// asJSON is a node as JSON; nil where it has nothing that JSON can say.
func asJSON(node *yaml.Node) json.RawMessage {
	room := maxNested
	var v any
	if !plainTexts(node, &room) || node.Decode(&v) != nil { // it fails, too, for aliases that are endless, or stand for too much
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

// plainTexts makes texts of dates, which JSON does not have. It says whether there is
// room for so many nodes.
func plainTexts(node *yaml.Node, room *int) bool {
	*room--
	if node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	return *room >= 0 && !slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return !plainTexts(n, room) })
}

// scalar is a node's text, "" for null.
func scalar(node *yaml.Node) string {
	if node.Tag == "!!null" {
		return ""
	}
	return node.Value
}

// beginsKey says whether a line is the first of a key: what is indented, a
// comment or an item of a list belongs to the key before.
func beginsKey(line string) bool {
	return line != "" && !strings.ContainsAny(line[:1], " \t#") && line != "-" && !strings.HasPrefix(line, "- ")
}

// plain adds a key with what stands behind it. A text that should stand on the
// next lines is none.
func (f frontmatter) plain(line string) {
	key, text, ok := strings.Cut(line, ": ")
	if text = strings.TrimSpace(text); ok && text != "" && text[0] != '|' && text[0] != '>' {
		f[strings.TrimSpace(key)] = yamlValue{text: text}
	}
}

// texts is a key's list; a text is split at its commas. nil if it has neither.
func (f frontmatter) texts(key string) []string {
	v, has := f[key]
	switch {
	case !has || v.nested:
		return nil
	case v.list != nil:
		return slices.Clone(v.list) // the head may be another's, too
	}
	list := []string{}
	for _, item := range strings.Split(v.text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// text is a key's text, "" if it has none. A list is joined by commas.
func (f frontmatter) text(key string) string {
	v := f[key]
	if v.list != nil {
		return strings.Join(v.list, ", ")
	}
	return v.text
}

// bool says whether a key is true.
func (f frontmatter) bool(key string) bool { return strings.EqualFold(f[key].text, "true") }
