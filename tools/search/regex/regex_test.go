package regex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The results are those of ripgrep 15.0.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern   string
		found     []string
		different []string
	}{
		{`\bслово\b`, []string{"слово", "a слово b"}, []string{"словосочетание", "предслово"}},
		{`^\w+$`, []string{"слово", "naïve", "e\u0301", "a\u200db", "x_1"}, []string{"a b", "a-b", "caf\xe9"}},
		{`(?-u)^\w+$`, []string{"x_1"}, []string{"слово"}},
		{`^\d+$`, []string{"12", "१२३"}, []string{"x"}},
		{`(?-u:\d)`, []string{"1"}, []string{"१"}},
		{`a\sb`, []string{"a b", "a\u00a0b", "a\u2028b"}, []string{"ab"}},
		{`\<б`, []string{"a б"}, []string{"аб"}},
		{`б\>`, []string{"аб c"}, []string{"абв"}},
		{`\b{start}б`, []string{"a б"}, []string{"аб"}},
		{`б\b{end}`, []string{"аб"}, []string{"абв"}},
		{`\b{start-half}-`, []string{"-", " -"}, []string{"ж-"}},
		{`-\b{end-half}`, []string{"-"}, []string{"-ж", "-\xe9"}},
		{`(?-u:\b{start})b`, []string{"b", "жb"}, []string{"ab"}},
		{`\Bb`, []string{"жb"}, []string{"b", "\xffb"}},
		{`\b{2}b`, []string{"b"}, []string{"жb"}},
		{`\u{394}|\x{416}|\u0431|\x{1F600}|\U0001F601`, []string{"Δ", "Ж", "б", "😀", "😁"}, []string{"a"}},
		{"(?x) a  b # comment\n \\ c", []string{"ab c"}, []string{"abc"}},
		{`(?x)[a b]`, []string{"a"}, []string{" "}},
		{`[a-z&&[^b]]`, []string{"a"}, []string{"b", "A"}},
		{`[\w--[a-z]]`, []string{"A", "ж"}, []string{"a"}},
		{`[a-c~~b-d]`, []string{"a", "d"}, []string{"b", "c"}},
		{`[^a&&b]`, []string{"a", "b"}, nil},
		{`[]a]`, []string{"]", "a"}, []string{"b"}},
		{`[[:nope:]]`, []string{"n", ":"}, []string{"a"}},
		{`[[:^alpha:]]`, []string{"ж"}, []string{"a"}},
		{`^\pL\p{Lu}\p{Greek}\p{sc=Cyrl}\p{gc=Decimal_Number}\P{L}$`, []string{"aBδж1."}, []string{"abδж1."}},
		{`\p{White_Space}\p{Alphabetic}\p{ASCII}`, []string{" жa"}, []string{" жж"}},
		{`(?i)δ`, []string{"Δ", "δ"}, []string{"d"}},
		{`(?i)[k]`, []string{"\u212a", "K"}, nil},
		{`(?i-u)k`, []string{"K"}, []string{"\u212a"}},
		{`(?i)a(?-i)B`, []string{"AB"}, []string{"ab"}},
		{`caf.`, []string{"café"}, []string{"caf\xe9"}},
		{`(?-u:caf\xe9)`, []string{"caf\xe9"}, []string{"café"}},
		{`(?-u)caf.`, []string{"caf\xe9"}, []string{"caf"}},
		{`^.{2000}$`, []string{strings.Repeat("x", 2000)}, []string{"x"}},
		{`a**`, []string{""}, nil},
		{`\/\&\-\#`, []string{"/&-#"}, nil},
		{`(?P<n>a)(?<m>b)(?:c)`, []string{"abc"}, nil},
		{`a{ 1 , 2 }b`, []string{"aab"}, []string{"b"}},
		{`[^\x00-\x{10ffff}]|b`, []string{"b"}, []string{"a"}},
	} {
		re, err := Compile(c.pattern, Options{})
		require.NoError(t, err, c.pattern)
		for _, line := range c.found {
			assert.True(t, re.Match([]byte(line)), "%s in %q", c.pattern, line)
		}
		for _, line := range c.different {
			assert.False(t, re.Match([]byte(line)), "%s in %q", c.pattern, line)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	re, err := Compile("a+Ж(", Options{Literal: true, IgnoreCase: true})
	require.NoError(t, err)
	assert.True(t, re.Match([]byte("xA+ж(")))
	assert.False(t, re.Match([]byte("aaж(")))
	_, complete := re.Text()
	assert.False(t, complete)
	re, err = Compile(`a\.b`, Options{})
	require.NoError(t, err)
	text, complete := re.Text()
	assert.True(t, complete)
	assert.Equal(t, "a.b", text)
	re, err = Compile(`xж\b`, Options{})
	require.NoError(t, err)
	_, complete = re.Text()
	assert.False(t, complete, "the boundary is not in the text")
	assert.Equal(t, 2, re.Index([]byte("  xж")))
}

// The texts are ripgrep's.
func TestErrors(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`ж(`: "regex parse error:\n    ж(\n     ^\nerror: unclosed group", `a)`: "error: unopened group", `*a`: "error: repetition operator missing expression",
		`a{`: "error: unclosed counted repetition", `a{x}`: "error: repetition quantifier expects a valid decimal", `a{3,2}`: "error: invalid repetition count range, the start must be <= the end",
		`a{1`: "error: unclosed counted repetition", `(?i)*`: "error: repetition operator missing expression",
		`a(?=b)`: "\n     ^^^\nerror: look-around, including look-ahead and look-behind, is not supported", `(?<!a)`: "error: look-around",
		`(a)\1`: "\n       ^^\nerror: backreferences are not supported", `[a`: "error: unclosed character class", `[a-`: "error: unclosed character class",
		`[z-a]`: "error: invalid character class range, the start must be <= the end", `[\d-a]`: "error: invalid range boundary, must be a literal",
		`[\b]`: "error: invalid escape sequence found in character class", `\y`: "error: unrecognized escape sequence", `\`: "error: incomplete escape sequence",
		`\pX`: "error: Unicode property not found", `\p{sc=Nope}`: "error: Unicode property value not found", `(?-u)\pL`: "error: Unicode not allowed here",
		`\x{110000}`: "error: hexadecimal literal is not a Unicode scalar value", `\x{zz}`: "error: invalid hexadecimal digit", `\x{}`: "error: hexadecimal literal empty",
		`(?z)`: "error: unrecognized flag", `(?ii)`: "error: duplicate flag", `(?i-)`: "error: dangling flag negation operator", `(?i`: "error: unclosed group",
		`(?P<n>a)(?P<n>b)`: "error: duplicate capture group name", `(?P<1>a)`: "error: invalid capture group character", `(?<>a)`: "error: empty capture group name",
		`\b{nope}`: "error: unrecognized special word boundary assertion", `\b{start`: "error: special word boundary assertion is either unclosed",
		"a\n": `the literal "\n" is not allowed in a regex`, `[\n]`: `the literal "\n" is not allowed in a regex`, `\x00`: `pattern contains "\0" but it is impossible to match`,
		`((a{1000}){1000}){1000}`: "compiled regex exceeds size limit", strings.Repeat("(", 300) + strings.Repeat(")", 300): "exceeded the maximum number of nested parentheses",
		strings.Repeat("[", 300): "exceeded the maximum number of nested parentheses", "\xff": "not valid UTF-8",
	} {
		_, err := Compile(pattern, Options{})
		assert.ErrorContains(t, err, want, pattern)
	}
}

// A pattern never causes a crash, and the filter matches at least as much as the
// machine does.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{`\bж+\b`, `[a-z&&[^b]--c]`, `(?i-u)\x{e9}{2,3}`, `(?x) a # b`, `\p{Greek}|\b{start}x`, `(?P<n>a)*?`, `[[:^alpha:]\d-]`} {
		f.Add(pattern, "ab ж\xff")
	}
	f.Fuzz(func(t *testing.T, pattern, line string) {
		if len(pattern) > 200 || len(line) > 200 {
			return
		}
		re, err := Compile(pattern, Options{})
		if err == nil && re.machine.match([]byte(line)) && re.filter != nil {
			require.True(t, re.filter.MatchString(line), "%q in %q", pattern, line)
		}
		if err == nil && re.filter != nil && re.exact && !strings.ContainsRune(strings.ToValidUTF8(line, "\uFFFD"), '\uFFFD') {
			require.Equal(t, re.filter.MatchString(line), re.machine.match([]byte(line)), "%q in %q", pattern, line)
		}
	})
}
