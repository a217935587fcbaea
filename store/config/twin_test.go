package config

import (
	"encoding/json"
	"fmt"
	"maps"
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
		case isList && slices.Contains([]string{"skills", "prompts", "extensions", "hooks", "customTools", "packages"}, key):
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
		return key == "queueMode" || key == "task.isolation.mode" || key == "todo.reminders.max" || strings.HasPrefix(key, "todoCompletion") // old names
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
				require.Empty(t, wrong(s.applyText(string(src), User)))
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

func TestProblem(t *testing.T) {
	p := Problem{Path: "/a", Err: errNotFile}
	assert.Equal(t, "/a: not a regular file", p.Error())
	assert.ErrorIs(t, p, errNotFile)
	p.Line, p.Column = 3, 4
	assert.Equal(t, "/a:3:4: not a regular file", p.Error())
}
