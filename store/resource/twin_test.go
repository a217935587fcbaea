package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/jsonc"
	"pgregory.net/rapid"
)

// deepMerge is what merging two settings files means, without any table: the
// second wins, key by key, and lists of resources are joined.
func deepMerge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for key, v := range b {
		below, isObject := v.(map[string]any)
		under, wasObject := out[key].(map[string]any)
		joined, isList := out[key].([]any)
		switch {
		case isObject && wasObject:
			out[key] = deepMerge(under, below)
		case isList && slices.Contains([]string{"skills", "prompts", "extensions"}, key):
			out[key] = slices.Concat(joined, v.([]any))
		default:
			out[key] = v
		}
	}
	return out
}

// tree nests dotted keys, which sometimes stay as they are.
func tree(t *rapid.T, values map[string]string) map[string]any {
	root := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var value any
		require.NoError(t, json.Unmarshal([]byte(values[key]), &value))
		at := root
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
	return root
}

// Two files one after the other are one file with both merged.
func TestSettingsMergeAsTrees(t *testing.T) {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(everyValue)), func(key string) bool {
		return key == "queueMode" || strings.HasPrefix(key, "todoCompletion") // old names
	})
	another := map[string]string{
		"compaction.reserveTokens": `77`, "defaultModel": `"other"`, "enabledModels": `["y","z"]`, "retry.enabled": `true`,
		"compaction.modelOverrides": `{"p/m":{"keepRecentTokens":3},"p/n":{"reserveTokens":4}}`, "skills": `["t","u"]`,
		"modelThinkingLevels": `{"a/b.c":"high","x":"off"}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) map[string]any {
			values := map[string]string{}
			for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID[string]).Draw(t, name) {
				values[key] = everyValue[key]
				if v, ok := another[key]; ok && rapid.Bool().Draw(t, "other value") {
					values[key] = v
				}
			}
			return tree(t, values)
		}
		user, project := draw("user"), draw("project")
		load := func(files ...map[string]any) *Settings {
			s := Defaults()
			for _, f := range files {
				src, err := json.Marshal(f)
				require.NoError(t, err)
				require.Empty(t, s.applyText(string(src), User))
			}
			return s
		}
		require.Equal(t, load(deepMerge(user, project)), load(user, project))
	})
}

// drawJSON draws a value and writes it twice: plainly, and with comments and
// trailing commas wherever they may be.
func drawJSON(t *rapid.T, depth int) (plain, decorated string) {
	gap := func() string {
		return rapid.SampledFrom([]string{"", "", " ", "\n", "// line, }\n", "/* block ]\n\" */", "\t/**/"}).Draw(t, "gap")
	}
	last := func(n int) string {
		if n > 0 && rapid.Bool().Draw(t, "trailing") {
			return "," + gap()
		}
		return ""
	}
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		plain = fmt.Sprint(rapid.Int().Draw(t, "number"))
		return plain, plain
	case 1:
		plain = rapid.SampledFrom([]string{"true", "false", "null", "-1.5e3"}).Draw(t, "word")
		return plain, plain
	case 2, 3:
		b, err := json.Marshal(rapid.SampledFrom([]string{"", "// no", "/* no */", ",]", ",}", `\"`, `\`, "ü,", "a\nb"}).Draw(t, "text"))
		require.NoError(t, err)
		return string(b), string(b)
	}
	opening, closing := "[", "]"
	if kind == 5 {
		opening, closing = "{", "}"
	}
	plain, decorated = opening, opening+gap()
	n := rapid.IntRange(0, 3).Draw(t, "members")
	for i := range n {
		if i > 0 {
			plain, decorated = plain+",", decorated+","+gap()
		}
		if kind == 5 {
			key := fmt.Sprintf(`"k,%d"`, i)
			plain, decorated = plain+key+":", decorated+key+gap()+":"+gap()
		}
		p, d := drawJSON(t, depth-1)
		plain, decorated = plain+p, decorated+d+gap()
	}
	return plain + closing, decorated + last(n) + closing
}

func TestJSONCWithDecorations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, decorated := drawJSON(t, 3)
		var want, got any
		require.NoError(t, json.Unmarshal([]byte(plain), &want))
		require.NoError(t, json.Unmarshal(jsonc.ToJSON([]byte(decorated)), &got), decorated)
		require.Equal(t, want, got, decorated)
	})
}

// The rules of gitignore(5), one by one.
func TestIgnoreRules(t *testing.T) {
	for _, c := range []struct {
		rules, path string
		dir, want   bool
	}{
		{"", "a", true, false},
		{"# a", "# a", true, false},
		{`\#a`, "#a", true, true},
		{`\!a`, "!a", true, true},
		{"a", "a", false, true},
		{"a", "b/c/a", true, true},
		{"a", "ab", true, false},
		{"a ", "a", true, true},
		{"/a", "a", true, true},
		{"/a", "b/a", true, false},
		{"b/a", "b/a", true, true},
		{"b/a", "c/b/a", true, false},
		{"a/", "a", true, true},
		{"a/", "a", false, false},
		{"b/a/", "b/a", false, false},
		{"*.md", "x.md", false, true},
		{"*.md", "b/x.md", false, true},
		{"b/*.md", "b/x.md", false, true},
		{"b/*.md", "b/c/x.md", false, false},
		{"**/a", "b/c/a", true, true},
		{"b/**", "b/c/a", true, true},
		{"b/**/a", "b/a", true, true},
		{"b/**/a", "b/c/d/a", true, true},
		{"a?c", "abc", true, true},
		{"a?c", "a/c", true, false},
		{"[ab]x", "bx", true, true},
		{"[ab]x", "cx", true, false},
		{"[", "[", true, false},
		{"/", "a", true, false},
		{"!", "a", true, false},
		{"*\n!keep", "keep", true, false},
		{"*\n!keep", "other", true, true},
		{"!keep\n*", "keep", true, true},
		{"a\n!b/a", "b/a", true, false},
		{"a\r\nb", "a", true, true},
		{"ä*", "ärger", true, true},
	} {
		w := newWorld(t, map[string]string{"top/.gitignore": c.rules + "\n"})
		var none *ignores
		got := none.with(w.path("top")).ignored(w.path("top/"+c.path), c.dir)
		assert.Equal(t, c.want, got, "%q on %s", c.rules, c.path)
	}
}

func TestIgnoreNearestWins(t *testing.T) {
	w := newWorld(t, map[string]string{
		"top/.gitignore": "a\nb\n", "top/sub/.gitignore": "!a\n", "top/sub/.fdignore": "c\n", "top/sub/deep/.ignore": "a\n",
	})
	var none *ignores
	top := none.with(w.path("top"))
	sub := top.with(w.path("top/sub"))
	deep := sub.with(w.path("top/sub/deep"))
	plain := sub.with(w.path("top/sub/plain"))
	assert.Same(t, sub, plain, "a directory without rules adds none")
	for _, c := range []struct {
		rules *ignores
		path  string
		want  bool
	}{
		{none, "a", false}, {top, "a", true}, {top, "c", false}, {sub, "sub/a", false}, {sub, "sub/b", true}, {sub, "sub/c", true},
		{deep, "sub/deep/a", true}, {deep, "sub/deep/b", true}, {deep, "sub/other/a", false}, {deep, "../outside/a", false},
	} {
		assert.Equal(t, c.want, c.rules.ignored(filepath.Join(w.path("top"), c.path), true), c.path)
	}
}

func TestProblem(t *testing.T) {
	p := Problem{Path: "/a", Err: errNotFile}
	assert.Equal(t, "/a: not a regular file", p.Error())
	assert.ErrorIs(t, p, errNotFile)
	p.Line, p.Column = 3, 4
	assert.Equal(t, "/a:3:4: not a regular file", p.Error())
}
