package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestGrep(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, content := range map[string]string{
		"a.txt":         "one\nTwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n",
		"b/c.go":        "package c\r\n\r\nfunc Two() {}\r\n",
		"b/.hidden":     "Two hidden",
		".gitignore":    "ignored\n",
		"ignored":       "Two ignored\n",
		"binary":        "Two\x00\n",
		"late":          strings.Repeat("x\n", 10) + "Two\n" + strings.Repeat("x\n", 40000) + "\x00Two\nTwo\n",
		"-dash":         "--flag\n",
		"latin":         "caf\xe9 Three\n",
		".git/config":   "Two",
		"b/d/deep.go":   "// a+b (two)\n",
		"b/d/other.txt": "Twofold\nTwo Two\n",
	} {
		put(t, env, name, content)
	}
	require.NoError(t, os.Symlink("a.txt", filepath.Join(env.Cwd, "link")))
	for name, c := range map[string]struct {
		args object
		want string
	}{
		"plain":             {object{"pattern": "Two"}, "a.txt:2: Two\nb/.hidden:1: Two hidden\nb/c.go:3: func Two() {}\nb/d/other.txt:1: Twofold\nb/d/other.txt:2: Two Two\nlate:11: Two"},
		"regular":           {object{"pattern": `^T\w+$`}, "a.txt:2: Two\nb/d/other.txt:1: Twofold\nlate:11: Two"},
		"end of a CRLF":     {object{"pattern": `\{\}$`}, "b/c.go:3: func Two() {}"},
		"without case":      {object{"pattern": "tWO h|TWO\\)", "ignoreCase": true}, "b/.hidden:1: Two hidden\nb/d/deep.go:1: // a+b (two)"},
		"literal":           {object{"pattern": "a+b (", "literal": true}, "b/d/deep.go:1: // a+b (two)"},
		"literal, no case":  {object{"pattern": "A+B (TWO)", "literal": true, "ignoreCase": true}, "b/d/deep.go:1: // a+b (two)"},
		"dashes":            {object{"pattern": "--flag"}, "-dash:1: --flag"},
		"nothing":           {object{"pattern": "absent"}, "No matches found"},
		"glob":              {object{"pattern": "Two", "glob": "*.go"}, "b/c.go:3: func Two() {}"},
		"glob of a path":    {object{"pattern": "(?i)two", "glob": "b/**/*.go"}, "b/c.go:3: func Two() {}\nb/d/deep.go:1: // a+b (two)"},
		"glob, negated":     {object{"pattern": "Two", "glob": "!{*.txt,late}"}, "b/.hidden:1: Two hidden\nb/c.go:3: func Two() {}"},
		"directory":         {object{"pattern": "Two", "path": "b/d"}, "other.txt:1: Twofold\nother.txt:2: Two Two"},
		"file":              {object{"pattern": "Two", "path": "b/d/other.txt"}, "other.txt:1: Twofold\nother.txt:2: Two Two"},
		"file by a link":    {object{"pattern": "Two", "path": "link"}, "link:2: Two"},
		"ignored by name":   {object{"pattern": "Two", "path": "ignored"}, "ignored:1: Two ignored"},
		"not UTF-8":         {object{"pattern": "Three"}, "latin:1: caf\uFFFD Three"},
		"limit":             {object{"pattern": "Two", "limit": 2}, "a.txt:2: Two\nb/.hidden:1: Two hidden\n\n[2 matches limit reached. Use limit=4 for more, or a narrower pattern]"},
		"limit just enough": {object{"pattern": "Two", "limit": 6}, "a.txt:2: Two\nb/.hidden:1: Two hidden\nb/c.go:3: func Two() {}\nb/d/other.txt:1: Twofold\nb/d/other.txt:2: Two Two\nlate:11: Two"},
		"context":           {object{"pattern": "three|five|ten", "context": 1, "path": "a.txt"}, "a.txt-2- Two\na.txt:3: three\na.txt-4- four\na.txt:5: five\na.txt-6- six\n--\na.txt-9- nine\na.txt:10: ten"},
		"context of files":  {object{"pattern": "Twof|func", "context": 2}, "b/c.go-1- package c\nb/c.go-2- \nb/c.go:3: func Two() {}\n--\nb/d/other.txt:1: Twofold\nb/d/other.txt-2- Two Two"},
		"context at limit":  {object{"pattern": "one|six", "context": 1, "limit": 1}, "a.txt:1: one\na.txt-2- Two\n\n[1 matches limit reached. Use limit=2 for more, or a narrower pattern]"},
		"huge context":      {object{"pattern": "three", "context": 99999, "path": "a.txt"}, "a.txt-1- one\na.txt-2- Two\na.txt:3: three\na.txt-4- four\na.txt-5- five\na.txt-6- six\na.txt-7- seven\na.txt-8- eight\na.txt-9- nine\na.txt-10- ten"},
		"binary by name":    {object{"pattern": "Two", "path": "binary"}, "binary:1: Two\x00"},
		"empty pattern":     {object{"pattern": "", "path": "-dash"}, "-dash:1: --flag"},
	} {
		text, _, err := run(t, env, "grep", c.args)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, text, name)
	}
	for name, c := range map[string]struct {
		args object
		want string
	}{
		"bad":           {object{"pattern": "a("}, "regex parse error:\n    a(\n     ^\nerror: unclosed group"},
		"lookahead":     {object{"pattern": "a(?=b)"}, "    a(?=b)\n     ^^^\nerror: look-around, including look-ahead and look-behind, is not supported"},
		"long pattern":  {object{"pattern": strings.Repeat("a", 64<<10+1), "literal": true}, "invalid pattern: it is longer than 64.0KB"},
		"line break":    {object{"pattern": "a\nb", "literal": true}, `the literal "\n" is not allowed in a regex: matches do not span lines`},
		"missing":       {object{"pattern": "a", "path": "missing"}, "ENOENT: no such file or directory, stat '" + env.Cwd + "/missing'"},
		"backreference": {object{"pattern": `(a)\1`}, "    (a)\\1\n       ^^\nerror: backreferences are not supported"},
		"device":        {object{"pattern": "a", "path": "/dev/zero"}, "not a regular file"},
		"bad glob":      {object{"pattern": "a", "glob": "["}, "invalid glob pattern"},
	} {
		_, _, err := run(t, env, "grep", c.args)
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestGrepDetails(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "a", "match "+strings.Repeat("€", 600)+"\n"+strings.Repeat("x", 3000)+"match"+strings.Repeat("y", 3000)+"\nmatch\n")
	text, result, err := run(t, env, "grep", object{"pattern": "mat.h", "limit": 2})
	require.NoError(t, err)
	assert.JSONEq(t, `{"matchLimitReached":2,"linesTruncated":true}`, string(result.Details))
	lines := strings.Split(text, "\n")
	require.Len(t, lines, 4)
	assert.Equal(t, "a:1: match "+strings.Repeat("€", 494)+"... [cut]", lines[0])
	assert.Equal(t, "a:2: ... "+strings.Repeat("x", 100)+"match"+strings.Repeat("y", 391)+"... [cut]", lines[1], "the match is in it")
	assert.Equal(t, "[2 matches limit reached. Use limit=4 for more, or a narrower pattern. Long lines are cut to 500 characters: use read to see all of them]", lines[3])
	put(t, env, "b", strings.Repeat("match "+strings.Repeat("z", 480)+"\n", 300))
	text, result, err = run(t, env, "grep", object{"pattern": "match", "path": "b", "limit": 1000})
	require.NoError(t, err)
	d := unmarshal[map[string]any](t, result.Details)
	assert.Equal(t, "bytes", d["truncation"].(map[string]any)["truncatedBy"])
	assert.Contains(t, text, "\n\n[Cut at 2000 lines or 50.0KB: ask for less]")
	assert.NotContains(t, d, "matchLimitReached")
	put(t, env, "c", "match\n")
	_, result, err = run(t, env, "grep", object{"pattern": "match", "path": "c"})
	require.NoError(t, err)
	assert.Nil(t, result.Details)
}

// grepTwin searches the whole text at once, without context.
func grepTwin(re *regexp.Regexp, text string) (lines []string) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if (text != "") && re.MatchString(line) {
			lines = append(lines, fmt.Sprintf("f:%d: %s", i+1, line))
		}
	}
	return lines
}

// Blocks, prefilters and context change nothing about which lines match.
func TestGrepFindsWhatARegexpFinds(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	filler := strings.Repeat("filler.", 50) + "\n" + strings.Repeat("-", 1600) + "\n" // 140 are more than a block
	word := rapid.SampledFrom([]string{"a", "ab", "abc", "needle", "", "x y", "ABC"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			b.WriteString(word.Draw(t, "word") + word.Draw(t, "word"))
			if rapid.IntRange(0, 9).Draw(t, "filler") == 0 {
				b.WriteString("\n" + strings.Repeat(filler, rapid.SampledFrom([]int{1, 5, 140}).Draw(t, "times")))
			}
			b.WriteString("\n")
		}
		text := b.String()
		pattern := rapid.SampledFrom([]string{"needle", "ab+c", "^a", "b$", "(abc|needle)", "a.*c", "(?i)abc", "^$", "x\\sy", "(ab){2}", "a{2,}", "(?:needle)+a?"}).Draw(t, "pattern")
		require.NoError(t, os.WriteFile(filepath.Join(env.Cwd, "f"), []byte(text), 0o666))
		want := grepTwin(regexp.MustCompile(pattern), text)
		for _, context := range []int{0, 2} {
			s, err := newGrepRun(grepArgs{Pattern: pattern, Context: context, Limit: 1500})
			require.NoError(t, err)
			if err := s.searchOne(t.Context(), filepath.Join(env.Cwd, "f")); err != nil {
				require.ErrorIs(t, err, errEnough)
			}
			var got []string
			for line := range strings.SplitSeq(s.list.text.String(), "\n") {
				if strings.HasPrefix(line, "f:") {
					got = append(got, line)
				}
			}
			if context == 0 {
				require.Equal(t, want[:min(len(want), 1500)], got)
			} else {
				require.Equal(t, want[:len(got)], got)
				requireContext(t, s.list.text.String(), strings.Split(text, "\n"))
			}
		}
	})
}

// requireContext says that every line shown is one of the file, once, in
// order, and that gaps are marked.
func requireContext(t *rapid.T, shown string, lines []string) {
	last, gap := 0, true
	for line := range strings.SplitSeq(shown, "\n") {
		if line == "--" {
			gap = true
			continue
		}
		if shown == "" {
			return
		}
		var number int
		var mark byte
		_, err := fmt.Sscanf(line, "f%c%d", &mark, &number)
		require.NoError(t, err, line)
		text, _ := cutLine(lines[number-1])
		require.Equal(t, fmt.Sprintf("f%c%d%c %s", mark, number, mark, text), line)
		require.Greater(t, number, last)
		require.Equal(t, gap, last == 0 || number > last+1, "%d after %d", number, last)
		last, gap = number, false
	}
}

func TestRequiredText(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]required{
		"abc": {text: "abc"}, "ab+cd": {text: "cd"}, "a(bcd)e?": {text: "bcd"}, "a|b": {}, "x*abc": {text: "abc"},
		"(abc){2}": {text: "abc"}, "(abc){0,2}": {}, "abc.*defg": {text: "defg"}, "(abc)+": {text: "abc"}, "^func \\w+\\(": {text: "func "}, "": {},
		"(?i)aBc": {"abc", true}, "(?i)a.Task-1": {"ta", true}, "(?i)k": {"", true}, "(?i)\u00c4rger": {"rger", true}, "(?i:ab)cde": {text: "cde"},
	} {
		re, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		assert.Equal(t, want, requiredText(re), pattern)
	}
}

// What only Unicode knows to be another case is found.
func TestGrepFoldsUnicode(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "f", "\u212aelvin\nGRO\u00df\n\u017fTRING\n\u00c4RGER\n")
	for pattern, want := range map[string]string{
		"kelvin": "f:1: \u212aelvin", "gro\u1e9e": "f:2: GRO\u00df", "string": "f:3: \u017fTRING", "\u00e4rg": "f:4: \u00c4RGER",
	} {
		text, _, err := run(t, env, "grep", object{"pattern": pattern, "ignoreCase": true})
		require.NoError(t, err)
		assert.Equal(t, want, text, pattern)
	}
}

// Files of other encodings are searched as text, without their marks.
func TestGrepDecodes(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "be", "\xfe\xff\x00s\x04\x36\x00\r\x00\n\x00x")
	put(t, env, "le", "\xff\xfe\xff\xfes\x00\x36\x04\n\x00x\x00")
	put(t, env, "utf8", "\ufeffs\u0436\nx")
	put(t, env, "unmarked", "s\x00\x36\x04\n\x00")
	text, _, err := run(t, env, "grep", object{"pattern": `^s\w$`})
	require.NoError(t, err)
	assert.Equal(t, "be:1: s\u0436\nle:1: s\u0436\nutf8:1: s\u0436", text)
}

func TestGrepAborted(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	put(t, env, "f", strings.Repeat("a\n", 1_000_000))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{".", "f"} {
		_, err := New().Run(ctx, "grep", Call{Args: json.RawMessage(`{"pattern":"b","path":"` + path + `"}`), Env: env})
		assert.EqualError(t, err, "Operation aborted")
	}
	_, err := New().Run(ctx, "find", Call{Args: json.RawMessage(`{"pattern":"b"}`), Env: env})
	assert.EqualError(t, err, "Operation aborted")
	_, err = New().Run(ctx, "ls", Call{Args: json.RawMessage(`{}`), Env: env})
	assert.EqualError(t, err, "Operation aborted")
}

func BenchmarkGrep(b *testing.B) {
	env := newEnv(b)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(b, err)
	env.Cwd = filepath.Join(strings.TrimSpace(string(root)), "src")
	for name, args := range map[string]string{
		"literal":      `{"pattern":"ErrClosedPipeNowhere"}`,
		"regexp":       `{"pattern":"func \\(\\w+ \\*Nowhere\\) Foo"}`,
		"no literal":   `{"pattern":"[0-9]{9}[a-f]{9}"}`,
		"without case": `{"pattern":"nowhere to be found","ignoreCase":true}`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := New().Run(b.Context(), "grep", Call{Args: json.RawMessage(args), Env: env}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
