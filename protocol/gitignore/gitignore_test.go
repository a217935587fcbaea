package gitignore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol/gitignore"
)

func TestGitignore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules   string
		ignored string // paths, those with a slash at the end are directories
		kept    string
	}{
		{"*.log", "a.log d/e/b.log .log", "a.log.txt alog log"},
		{"/*.log", "a.log", "d/a.log"},
		{"build", "build build/ d/build", "rebuild build.txt"},
		{"build/", "build/ d/build/", "build d/build"},
		{"/build", "build", "d/build"},
		{"d/build", "d/build", "build x/d/build"},
		{"d/", "d/ x/d/", "d"},
		{"**/foo", "foo d/foo d/e/foo", "foo2"},
		{"**/foo/bar", "foo/bar d/foo/bar", "bar foo/x/bar"},
		{"a/**", "a/b a/b/c", "a a/ xa/b"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb x/a/b"},
		{"a/*/b", "a/x/b", "a/b a/x/y/b"},
		{"a**/b", "a/b a/x/b axe/b", "a"},
		{"?at", "cat bat d/rat", "at chat"},
		{"[a-c]x", "ax bx cx", "dx x"},
		{"[!a-c]x", "dx 1x", "ax x"},
		{"[^a]x", "bx", "ax"},
		{"[]x]y", "]y xy", "ay"},
		{"[a-]y", "ay -y", "by"},
		{"[[:digit:][:upper:]]y", "1y Ay", "ay"},
		{"[[:nope:]]y", "", "ny :y"},
		{"[[:alpha:]]-[[:alnum:]]-[[:lower:]]-[[:xdigit:]]", "a-1-b-F A-z-c-9", "1-1-b-F a-_-b-F a-1-B-F a-1-b-g"},
		{"[[:punct:]][[:graph:]][[:print:]]", "-x! _-a", "axx -xä"},
		{"x[[:space:]]y", "", "x-y"},
		{"x[![:space:][:cntrl:][:blank:]]y", "x-y", "xxyy"},
		{"[[:x]", "[ : x", "a"},
		{"[z-a]", "z", "a b"},
		{"[a-\\c]", "a b c", "d \\"},
		{"[a-", "", "a -"},
		{"[a\\", "", "a"},
		{"a[", "", "a[ a"},
		{"a\\", "", "a a\\"},
		{"\\#x", "#x", "x"},
		{"\\!x", "!x", "x"},
		{"# comment\n\nx", "x", "#"},
		{"\\*", "*", "a"},
		{"*.txt\n!keep.txt", "a.txt", "keep.txt d/keep.txt"},
		{"!keep.txt\n*.txt", "keep.txt", ""},
		{"x\r\ny\r\n", "x y", "z"},
		{"\uFEFFx", "x", ""},
		{"x ", "x", ""},
		{"*", "a a/ d/b", ""},
		{"**", "a a/ d/b", ""},
		{"/", "", "a a/"},
		{"//", "", "a a/"},
		{"\u00e4?", "\u00e4x", "\u00e4"},
		{"?", "a", "\u00e4"}, // of two bytes
		{"[\u00e4]", "", "\u00e4"},
		{"{a,b}", "{a,b}", "a b"},
		{"*}{", "x}{ }{", "x"},
		{"*/**", "a/b a/b/c", "a a/"},
		{"x*/**\\/b", "x1/y/b x1/y/z/b", "x1/b"},
		{"A**/**", "A Ab A/b", "a"},
		{"/a**//", "a/", "a ab/ a/b/"},
		{"[a]/**//", "", "a a/ a/b a/b/"},
		{"x[+-9]y", "x1y", "x/y"},
	} {
		rules := with(c.rules)
		for path := range strings.FieldsSeq(c.ignored) {
			name, isDir := strings.CutSuffix(path, "/")
			assert.True(t, rules.Ignored(name, isDir), "%q ignores %q", c.rules, path)
		}
		for path := range strings.FieldsSeq(c.kept) {
			name, isDir := strings.CutSuffix(path, "/")
			assert.False(t, rules.Ignored(name, isDir), "%q keeps %q", c.rules, path)
		}
	}
	assert.True(t, with("a\\ ").Ignored("a ", false), "a quoted space at the end")
}

func TestRulesOfDirectories(t *testing.T) {
	t.Parallel()
	var none *gitignore.Rules
	top := with("a\nb")
	sub := top.With([]byte("!a\n/c"), "sub", 0)
	deep := sub.With([]byte("a"), "sub/deep", 0)
	assert.Same(t, sub, sub.With([]byte("# nothing"), "sub/plain", 0), "a directory without rules adds none")
	for _, c := range []struct {
		rules   *gitignore.Rules
		path    string
		ignored bool
	}{
		{none, "a", false}, {top, "a", true}, {top, "c", false}, {sub, "sub/a", false}, {sub, "sub/b", true}, {sub, "sub/c", true},
		{sub, "c", false}, {sub, "subtle/c", false}, {deep, "sub/deep/a", true}, {deep, "sub/deep/b", true}, {deep, "sub/other/a", false},
	} {
		assert.Equal(t, c.ignored, c.rules.Ignored(c.path, true), c.path)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	rules := with("a\nb").With([]byte("c\nd"), "sub", 3)
	assert.True(t, rules.Ignored("sub/c", false))
	assert.False(t, rules.Ignored("sub/d", false))
}

func with(rules string) *gitignore.Rules {
	var none *gitignore.Rules
	return none.With([]byte(rules), "", 0)
}

// Many stars must not take forever.
func TestStarsAreNotExponential(t *testing.T) {
	t.Parallel()
	assert.False(t, with(strings.Repeat("*a", 30)+"b").Ignored(strings.Repeat("a", 100), false))
	assert.False(t, with(strings.Repeat("**/a/", 20)+"b").Ignored(strings.Repeat("a/", 100), false))
}
