package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// viaYAML reads a head with a whole YAML parser. ok is false if it is no YAML
// or not flat.
func viaYAML(head string) (frontmatter, bool) {
	var top map[string]yaml.Node
	if yaml.Unmarshal([]byte(head), &top) != nil {
		return nil, false
	}
	f := frontmatter{}
	for key, node := range top {
		switch node.Kind {
		case yaml.ScalarNode:
			v := node.Value
			if node.Tag == "!!null" {
				v = ""
			}
			f[key] = yamlValue{text: v}
		case yaml.SequenceNode:
			list := []string{}
			for _, item := range node.Content {
				if item.Kind != yaml.ScalarNode {
					return nil, false
				}
				v := item.Value
				if item.Tag == "!!null" {
					v = ""
				}
				list = append(list, v)
			}
			f[key] = yamlValue{list: list}
		default:
			return nil, false
		}
	}
	return f, true
}

// heads are in the shapes people use; the YAML parser has to agree on all.
var heads = []string{
	"",
	"name: x",
	"name: x\ndescription: Some text, with commas and it's fine\n",
	"name:   padded   \nother:\tx",
	"a: 'single ''quoted'' text'\nb: \"double \\\"quoted\\\" \\n \\t \\u00e9 \\\\ \\x41\"",
	"\"quoted key\": v\n'other': w",
	"# comment\nname: x # trailing\nurl: http://x/#frag\nhash: a#b",
	"empty:\nnothing: ~\nword: null\nbool: true\nnum: 12",
	"list: [a, b, 'c, d', \"e\"]\nempty: []\n",
	"list: [a,\n  b,\n  c]\nafter: x",
	"list:\n  - a\n  - 'b: c'\n  - \"d\"\n  - e # comment\nafter: x",
	"list:\n- a\n- b\nafter: x",
	"list:\n  - a\n\n  # comment\n  - b\n",
	"text: |\n  line one\n  line two\n\n  after blank\nafter: x",
	"text: |-\n  line one\n    deeper\n  back\nafter: x",
	"text: |+\n  line\n\n\nafter: x",
	"text: >\n  folded one\n  folded two\n\n  new paragraph\nafter: x",
	"text: >-\n  folded\n  text\n\n",
	"text: |\n    four\n      six\n    four\nafter: x",
	"text: |2\n    two more\n  base\n",
	"text: >- # comment\n  a\n  b",
	"text: |\n",
	"text: a plain text\n  that goes on\n  and on\nafter: x",
	"text: para one\n\n  para two\nafter: x",
	"text:\n  begins below\n  goes on\nafter: x",
	"text:\n  \"quoted below\"\nafter: x",
	"text: \"quoted\n  over lines\n\n  and paragraphs\"\nafter: x",
	"text: 'single\n  over lines'\nafter: x",
	"text: \"escaped \\\n  break\"\nafter: x",
	"text: \"has: colon\"\nafter: x",
	"a: x:y\nb: 12:30\nc: -5\nd: '-'\ne: \"[not a list]\"",
	"description: Does things - with dashes, (parens), [brackets] and {braces}\n",
}

func TestFrontmatterAsYAML(t *testing.T) {
	agreed := 0
	for _, head := range heads {
		want, ok := viaYAML(head)
		if !ok {
			continue
		}
		agreed++
		got, _ := splitFrontmatter("---\n" + head + "\n---\nbody")
		assert.Equal(t, want, got, "%s", head)
	}
	assert.GreaterOrEqual(t, agreed, len(heads)-2, "the parser reads nearly all of them")
}

// Texts of every kind survive being written in every style.
func TestFrontmatterStyles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z][a-z0-9'",.!-]{0,6}`), 1, 12).Draw(t, "words")
		text := strings.Join(words, " ")
		var wrapped []string // one to three words a line
		for rest := words; len(rest) > 0; {
			n := min(rapid.IntRange(1, 3).Draw(t, "n"), len(rest))
			wrapped = append(wrapped, strings.Join(rest[:n], " "))
			rest = rest[n:]
		}
		below := strings.Join(wrapped, "\n  ")
		for style, head := range map[string]string{
			"single":  "k: '" + strings.ReplaceAll(below, "'", "''") + "'",
			"double":  "k: \"" + strings.ReplaceAll(below, `"`, `\"`) + "\"",
			"folded":  "k: >-\n  " + below,
			"literal": "k: |-\n  " + strings.Join(words, " "),
			"list":    "l:\n  - '" + strings.ReplaceAll(text, "'", "''") + "'\nk: '" + strings.ReplaceAll(text, "'", "''") + "'",
			"flow":    "l: ['" + strings.ReplaceAll(text, "'", "''") + "']\nk: >\n  " + below,
		} {
			got, body := splitFrontmatter("---\n" + head + "\nafter: x\n---\n\nbody\n")
			want, ok := viaYAML(head + "\nafter: x")
			require.True(t, ok, head)
			require.Equal(t, want, got, "%s:\n%s", style, head)
			require.Equal(t, text, strings.TrimSpace(got.text("k")), style)
			require.Equal(t, "body", body)
		}
	})
}

// What YAML refuses and people write all the same.
func TestFrontmatterLeniency(t *testing.T) {
	for head, want := range map[string]string{
		"description: Use when: there are colons": "Use when: there are colons",
		"description: @mention first":             "@mention first",
		"description: `code` first":               "`code` first",
		"description: 100% sure: yes":             "100% sure: yes",
		"description: \"never closed":             "\"never closed",
		"description: x\n\tindented by a tab":     "x",
		"description: 'it''s' trailing":           "'it''s' trailing",
		"description: [file] [options]":           "[file] [options]",
		"description: {a: b}":                     "",
		"description:\n  nested: map\n  of: x":    "",
		"description: [a, [b]]":                   "",
		"description: [a":                         "[a",
		"description: &anchor x":                  "x",
		"description: *nobody":                    "*nobody",
		"description: |x":                         "",
		"no colon here\ndescription: x":           "x",
		"description: a\ndescription: b":          "b",
	} {
		got, _ := splitFrontmatter("---\n" + head + "\nafter: ok\n---\nbody")
		assert.Equal(t, want, got.text("description"), head)
		assert.Equal(t, "ok", got.text("after"), "what follows is read: %s", head)
	}
}

func TestSplitFrontmatter(t *testing.T) {
	for src, want := range map[string]string{
		"body":                          " | body",
		"---\nname: x\n---\nbody\n":     "x | body",
		"---\r\nname: x\r\n---\r\nbody": "x | body",
		"---\nname: x\n---":             "x | ",
		"---\nname: x\n--- \n\n\nbody":  "x | body",
		"---\nname: x\nbody":            " | ---\nname: x\nbody",
		"----\nname: x\n---\nbody":      " | ----\nname: x\n---\nbody",
		" ---\nname: x\n---\nbody":      " | ---\nname: x\n---\nbody",
		"---\n---\nbody\n---\nmore":     " | body\n---\nmore",
		"":                              " | ",
	} {
		head, body := splitFrontmatter(src)
		assert.Equal(t, want, head.text("name")+" | "+body, "%q", src)
	}
	head, _ := splitFrontmatter("---\ntools: [a, b]\nyes: true\nYes: TRUE\nno: 'no'\n---\n")
	assert.Equal(t, "a, b", head.text("tools"))
	assert.True(t, head.bool("yes"))
	assert.True(t, head.bool("Yes"))
	assert.False(t, head.bool("no"))
	assert.False(t, head.bool("absent"))
}

// variable is what may stand for arguments in a template, as a pattern.
var variable = regexp.MustCompile(`\$ARGUMENTS|\$@|\$(\d+)|\$\{(\d+|@)(?::-([^}]*))?\}|\$\{@:(\d+)(?::(\d+))?\}`)

// expandByPattern is a second, slower Expand.
func expandByPattern(body string, args []string) string {
	at := func(digits string) string {
		for i, a := range args {
			if fmt.Sprint(i+1) == strings.TrimLeft(digits, "0") {
				return a
			}
		}
		return ""
	}
	return variable.ReplaceAllStringFunc(body, func(v string) string {
		m := variable.FindStringSubmatch(v)
		all := strings.Join(args, " ")
		switch {
		case m[1] != "":
			return at(m[1])
		case m[2] != "":
			value := all
			if m[2] != "@" {
				value = at(m[2])
			}
			if value == "" {
				value = m[3]
			}
			return value
		case m[4] != "":
			var taken []string
			for i, a := range args {
				from := bigger(m[4], i+1)
				if !from && (m[5] == "" || !tooMany(m[5], len(taken))) {
					taken = append(taken, a)
				}
			}
			return strings.Join(taken, " ")
		}
		return all
	})
}

// bigger says whether the number in digits is above n.
func bigger(digits string, n int) bool {
	d, m := strings.TrimLeft(digits, "0"), fmt.Sprint(n)
	return len(d) > len(m) || len(d) == len(m) && d > m
}

// tooMany says whether n items already are all that the digits allow.
func tooMany(digits string, n int) bool { return !bigger(digits, n) }

func FuzzTemplate(f *testing.F) {
	for _, head := range heads {
		f.Add("---\n"+head+"\n---\n$1 ${@:2} ${1:-x} $ARGUMENTS", "a 'b c' \"d\\\"e\"")
	}
	f.Add("${@:1:2}${@:0}${9999999999999999999}$ ${@:2:1}${@:007}${01}$$1", "a b c")
	f.Add("${1:-${2:-x}} ${@:-} ${@:1:} ${@:}", "'' b")
	f.Fuzz(func(t *testing.T, src, text string) {
		_, body := splitFrontmatter(src)
		args := SplitArguments(text)
		bare := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsSpace(r) || strings.ContainsRune(`"'\`, r) {
					return -1
				}
				return r
			}, s)
		}
		if utf8.ValidString(text) {
			require.Equal(t, bare(text), bare(strings.Join(args, " ")), "nothing but quotes and space gets lost")
		}
		require.Equal(t, expandByPattern(body, args), expanded(t, body, args))
	})
}
