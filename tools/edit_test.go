package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// pairs makes edits of old and new texts in turn.
func pairs(texts ...string) (edits []replacement) {
	for i := 0; i < len(texts); i += 2 {
		edits = append(edits, replacement{texts[i], texts[i+1]})
	}
	return edits
}

func TestEditText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file  string
		edits []replacement
		want  string
	}{
		"exact":                       {"a\nb\nc\n", pairs("b", "B"), "a\nB\nc\n"},
		"whole file":                  {"a\n", pairs("a\n", "b\n"), "b\n"},
		"deletes":                     {"a\nb\nc\n", pairs("b\n", ""), "a\nc\n"},
		"no line break at end":        {"a\nb", pairs("b", "c"), "a\nc"},
		"several, in any order":       {"a\nb\nc\nd\n", pairs("d", "D", "a", "A", "b\nc", "X"), "A\nX\nD\n"},
		"neighbours":                  {"abcd", pairs("ab", "1", "cd", "2"), "12"},
		"new text is not searched":    {"a b", pairs("a", "b", "b", "c"), "b c"},
		"CRLF is kept":                {"a\r\nb\r\nc\r\n", pairs("a\nb", "x\ny"), "x\r\ny\r\nc\r\n"},
		"CRLF in the edit":            {"a\nb\n", pairs("a\r\nb", "x\r\ny"), "x\ny\n"},
		"mixed line ends elsewhere":   {"a\r\nb\nc\r\nd\n", pairs("b\nc", "x\ny"), "a\r\nx\ny\r\nd\n"},
		"a new line in mixed ends":    {"a\r\nb\nc\r\n", pairs("b", "b\nB", "c", "c\nC"), "a\r\nb\nB\nc\r\nC\r\n"},
		"mixed ends in the passage":   {"a\nb\r\nc\nd\r\n", pairs("a\nb\nc\nd", "A\nB\nC\nD\nE"), "A\nB\r\nC\nD\nE\r\n"},
		"untouched lines of it":       {"a\nb\r\nc\nd\r\n", pairs("a\nb\nc\nd", "a\nb\nX\nY\nc\nd"), "a\nb\r\nX\nY\nc\nd\r\n"},
		"removed lines of it":         {"a\nb\r\nc\nd\r\n", pairs("a\nb\nc", "a\nc"), "a\nc\nd\r\n"},
		"after the last break":        {"a\r\nb", pairs("b", "b\nc"), "a\r\nb\r\nc"},
		"CR only":                     {"a\rb\rc\r", pairs("a\nb", "x\ny\nz"), "x\ry\rz\rc\r"},
		"CR only, CR in the edit":     {"a\rb\rc\r", pairs("a\rb", "x\r\ny"), "x\ry\rc\r"},
		"a break and its CR":          {"a\r\nb\r\n", pairs("\nb", "\nc"), "a\r\nc\r\n"},
		"lone CR":                     {"a\rb\nc", pairs("a\rb", "x"), "x\nc"},
		"mark is kept":                {"\uFEFFa\nb\n", pairs("a", "x"), "\uFEFFx\nb\n"},
		"mark in the edit":            {"\uFEFFa\n", pairs("\uFEFFa", "x"), "\uFEFFx\n"},
		"bytes that are not text":     {"\xff\xfe\na\n\x00\x80", pairs("a", "b"), "\xff\xfe\nb\n\x00\x80"},
		"quotes":                      {"say \u201chi\u201d and \u2018ho\u2019\nrest \u2014 \u201cx\u201d  \n", pairs(`say "hi" and 'ho'`, "bye"), "bye\nrest \u2014 \u201cx\u201d  \n"},
		"dashes":                      {"a \u2013 b \u2212 c\n", pairs("a - b - c", "x"), "x\n"},
		"spaces":                      {"a\u00a0b\u3000c\n", pairs("a b c", "x"), "x\n"},
		"compatibility forms":         {"\uFF21\uFF22 \ufb01n\n", pairs("AB fin", "x"), "x\n"},
		"composed and decomposed":     {"cafe\u0301 au lait\n", pairs("caf\u00e9", "tea"), "tea au lait\n"},
		"white space at ends":         {"if x {   \n\ty()\t\n}\n", pairs("if x {\n\ty()\n}", "z()"), "z()\n"},
		"kept after the end":          {"foo \nbar  \nbaz\n", pairs("foo\nbar", "x\ny"), "x\ny  \nbaz\n"},
		"kept before the start":       {"foo  \nbar\nb \n", pairs("\nbar\nb", "\nx"), "foo  \nx \n"},
		"too much in the edit":        {"foo\nbar\n", pairs("foo  \nbar \t", "x"), "x\n"},
		"exact wins over its likes":   {"foo bar\nfoobar\n", pairs("foo ", "x "), "x bar\nfoobar\n"},
		"dollars are no references":   {"a", pairs("a", "$1${x}\\0"), "$1${x}\\0"},
		"half of a composed one":      {"e\u0301x", pairs("\u0301", ""), "ex"},
		"an emoji":                    {"a \U0001F600 b\n", pairs("\U0001F600", "\u2764\ufe0f"), "a \u2764\ufe0f b\n"},
		"ideographic and ASCII mixed": {"\u4f60\u597d\uff0cworld\n", pairs("\u4f60\u597d,world", "hi"), "hi\n"},
	} {
		got, err := newTextFile(c.file).apply(c.edits)
		if assert.NoError(t, err, name) {
			assert.Equal(t, c.want, got.bytes(), name)
			assert.Equal(t, got.toLF(got.raw), got.text, name)
		}
	}
}

func TestEditTextErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file  string
		edits []replacement
		want  string
	}{
		"none":               {"a", nil, "edits is empty: give at least one replacement"},
		"empty":              {"a", pairs("a", "b", "", "x"), "edits[1]: oldText is empty: to create or replace a whole file use write"},
		"not there":          {"a", pairs("b", "c"), "edits[0]: oldText was not found: it must match the file exactly, white space included. Read the file again"},
		"twice":              {"a a", pairs("a", "b"), "edits[0]: oldText occurs 2 times: add lines around it that make it unique"},
		"overlapping":        {"aaa", pairs("aa", "b"), "edits[0]: oldText occurs 2 times: add lines around it that make it unique"},
		"very often":         {strings.Repeat("a", 5000), pairs("a", "b"), "edits[0]: oldText occurs at least 1000 times: add lines around it that make it unique"},
		"and a like":         {"x = \"a\"\nx = \u201ca\u201d\n", pairs("x = \"a\"", "y"), "edits[0]: oldText occurs 2 times: add lines around it that make it unique"},
		"two likes":          {"x = \u201ea\nx = \u201ca\n", pairs("x = \"a", "y"), ""},
		"and white space":    {"a \nb\na\nb\n", pairs("a\nb", "y"), "edits[0]: oldText occurs 2 times: add lines around it that make it unique"},
		"ends of lines":      {"a\nb a\n", pairs("a ", "y"), "edits[0]: oldText occurs 2 times: add lines around it that make it unique"},
		"no change":          {"a", pairs("a", "a"), "the edits change nothing: oldText and newText say the same"},
		"no change in CRLF":  {"a\r\nb", pairs("a\nb", "a\nb"), "the edits change nothing: oldText and newText say the same"},
		"overlap":            {"abcdef", pairs("cd", "1", "x", "2", "bc", "3"), ""},
		"overlap of two":     {"abcdef", pairs("f", "0", "cd", "1", "bc", "3"), "edits[1] and edits[2] overlap: make one edit of them"},
		"the same twice":     {"abc", pairs("b", "1", "b", "2"), "edits[0] and edits[1] overlap: make one edit of them"},
		"half of a ligature": {"\ufb01x", pairs("ix", "y"), "edits[0]: oldText was not found: it must match the file exactly, white space included. Read the file again"},
		"only a space":       {"ab", pairs(" ", "y"), "edits[0]: oldText was not found: it must match the file exactly, white space included. Read the file again"},
	} {
		_, err := newTextFile(c.file).apply(c.edits)
		if c.want == "" {
			assert.Error(t, err, name)
		} else {
			assert.EqualError(t, err, c.want, name)
		}
	}
}

func TestEditTool(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, args := range map[string]string{
		"list":        `{"path":"f.txt","edits":[{"oldText":"two","newText":"2"},{"oldText":"nine","newText":"9"}]}`,
		"string":      `{"path":"f.txt","edits":"[{\"oldText\":\"two\",\"newText\":\"2\"},{\"oldText\":\"nine\",\"newText\":\"9\"}]"}`,
		"@ and space": `{"path":"@` + env.Cwd + `/f.txt","edits":[{"oldText":"two","newText":"2"},{"oldText":"nine","newText":"9"}]}`,
	} {
		put(t, env, "f.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n13\n14\n15\n")
		text, result, err := run(t, env, "edit", args)
		require.NoError(t, err, name)
		assert.Contains(t, text, "Replaced 2 block(s) in ")
		assert.Equal(t, "one\n2\nthree\nfour\nfive\nsix\nseven\neight\n9\nten\neleven\ntwelve\n13\n14\n15\n", get(t, env, "f.txt"))
		d := unmarshal[map[string]any](t, result.Details)
		assert.Equal(t, 2.0, d["firstChangedLine"])
		assert.Contains(t, d["patch"], "@@ -1,13 +1,13 @@")
		assert.Equal(t, strings.Join([]string{
			"  1 one", "- 2 two", "+ 2 2", "  3 three", "  4 four", "  5 five", "  6 six", "  7 seven", "  8 eight",
			"- 9 nine", "+ 9 9", " 10 ten", " 11 eleven", " 12 twelve", " 13 13", "    ..."}, "\n"), d["diff"])
	}
	put(t, env, "g", "a\n")
	_, _, err := run(t, env, "edit", `{"path":"g","oldText":"a","newText":"b"}`)
	require.NoError(t, err, "the older form")
	assert.Equal(t, "b\n", get(t, env, "g"))
	for args, want := range map[string]string{
		`{"path":"missing","edits":[]}`:       "ENOENT: no such file or directory, open '" + env.Cwd + "/missing'",
		`{"path":".","edits":[]}`:             "EISDIR: is a directory, read '" + env.Cwd + "'",
		`{"path":"g","edits":[]}`:             "g: edits is empty: give at least one replacement",
		`{"path":"g","oldText":"b"}`:          "newText: is required",
		`{"oldText":"b","newText":"c"}`:       "path: is required",
		`{"path":"g"}`:                        "edits: is required",
		`{"path":"g","edits":[{"oldText":1}]`: "not JSON",
	} {
		_, _, err := run(t, env, "edit", args)
		assert.ErrorContains(t, err, want, args)
	}
	f, err := os.Create(filepath.Join(env.Cwd, "huge"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxEditSize+1))
	require.NoError(t, f.Close())
	_, _, err = run(t, env, "edit", `{"path":"huge","edits":[{"oldText":"a","newText":"b"}]}`)
	assert.ErrorContains(t, err, "16.0MB")
}

func TestEditKeepsTheFile(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	path := put(t, env, "dir/script.sh", "echo a\n")
	require.NoError(t, os.Chmod(path, 0o750))
	require.NoError(t, os.Symlink("dir/script.sh", filepath.Join(env.Cwd, "link")))
	_, _, err := run(t, env, "edit", object{"path": "link", "edits": pairs("a", "b")})
	require.NoError(t, err)
	assert.Equal(t, "echo b\n", get(t, env, "dir/script.sh"))
	info, err := os.Lstat(filepath.Join(env.Cwd, "link"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&fs.ModeSymlink, "the link is one still")
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o750), info.Mode())
	require.NoError(t, os.Link(path, filepath.Join(env.Cwd, "hard")))
	_, _, err = run(t, env, "edit", object{"path": "hard", "edits": pairs("b", "c")})
	require.NoError(t, err)
	assert.Equal(t, "echo c\n", get(t, env, "dir/script.sh"), "all names of it")
	entries, err := os.ReadDir(filepath.Join(env.Cwd, "dir"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary file is left")
}

// Parallel edits of one file, by different names, all land.
func TestEditsOfOneFileInParallel(t *testing.T) {
	t.Parallel()
	a, b := newEnv(t), newEnv(t)
	b.Files = a.Files
	var content strings.Builder
	for i := range 40 {
		fmt.Fprintf(&content, "line %d.\n", i)
	}
	path := put(t, a, "f", content.String())
	require.NoError(t, os.Symlink(path, filepath.Join(b.Cwd, "link")))
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			env, name := a, "./f"
			if i%2 == 0 {
				env, name = b, "link"
			}
			_, _, err := run(t, env, "edit", object{"path": name, "edits": pairs(fmt.Sprintf("line %d.", i), fmt.Sprintf("done %d.", i))})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, strings.ReplaceAll(content.String(), "line", "done"), get(t, a, "f"))
	assert.Empty(t, a.Files.locks)
}

func TestEditAborted(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	path := put(t, env, "f", "a")
	unlock, err := env.Files.Lock(t.Context(), path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"edit", "write"} {
		args, _ := json.Marshal(object{"path": "f", "edits": pairs("a", "b"), "content": "b"})
		_, err = New().Run(ctx, name, Call{Args: args, Env: env})
		assert.EqualError(t, err, "Operation aborted")
	}
	unlock()
	unlock()
	assert.Equal(t, "a", get(t, env, "f"))
	assert.Empty(t, env.Files.locks)
}

func TestDiffs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\n", 30)
	for name, c := range map[string]struct{ old, new, want string }{
		"added at end":     {"a\n", "a\nb\n", " 1 a\n+2 b"},
		"from nothing":     {"", "a\nb\n", "+1 a\n+2 b"},
		"to nothing":       {"a\nb\n", "", "-1 a\n-2 b"},
		"break at end":     {"a", "a\n", "-1 a\n+1 a"},
		"gaps":             {long + "a\n" + long + "b\n" + long, long + "A\nA\n" + long + "B\n" + long, "    ...\n 27 x\n 28 x\n 29 x\n 30 x\n-31 a\n+31 A\n+32 A\n 32 x\n 33 x\n 34 x\n 35 x\n    ...\n 58 x\n 59 x\n 60 x\n 61 x\n-62 b\n+63 B\n 63 x\n 64 x\n 65 x\n 66 x\n    ..."},
		"near ones in one": {"1\n2\n3\n4\n5\n6\n7\n", "1\nx\n3\n4\n5\ny\n7\n", " 1 1\n-2 2\n+2 x\n 3 3\n 4 4\n 5 5\n-6 6\n+6 y\n 7 7"},
	} {
		d := unmarshal[map[string]any](t, Diff("f", c.old, c.new))
		assert.Equal(t, c.want, d["diff"], name)
		assert.Equal(t, c.new, applyPatch(t, c.old, d["patch"].(string)), name)
		assert.True(t, strings.HasPrefix(d["patch"].(string), "--- f\n+++ f\n@@ "), name)
	}
	assert.Nil(t, Diff("f", "a", "a"))
	huge := unmarshal[map[string]any](t, Diff("f", strings.Repeat("a\n", 60_000), strings.Repeat("b\n", 60_000)))
	assert.Less(t, len(huge["diff"].(string)), maxDiff+100)
	assert.NotContains(t, huge, "patch")
	assert.Equal(t, 1.0, huge["firstChangedLine"])
}

// applyPatch is a small patch(1).
func applyPatch(t *testing.T, old, patch string) string {
	const noBreak = "\\ No newline at end of file"
	before := strings.SplitAfter(old, "\n")
	var out strings.Builder
	next := 0
	lines := strings.Split(strings.TrimSuffix(patch, "\n"), "\n")[2:]
	for i, line := range lines {
		text := line[1:] + "\n"
		if i+1 < len(lines) && lines[i+1] == noBreak {
			text = line[1:]
		}
		switch line[0] {
		case '@':
			var start int
			_, err := fmt.Sscanf(line, "@@ -%d", &start)
			require.NoError(t, err)
			for ; next < start-1; next++ {
				out.WriteString(before[next])
			}
		case '+':
			out.WriteString(text)
		case '-', ' ':
			require.Equal(t, before[next], text)
			if line[0] == ' ' {
				out.WriteString(text)
			}
			next++
		case '\\':
			require.Equal(t, noBreak, line)
		}
	}
	return out.String() + strings.Join(before[next:], "")
}

// editTwin finds the only place where old is, by trying all.
func editTwin(text, old string) (start, end int, n int) {
	for i := range text {
		if strings.HasPrefix(text[i:], old) {
			start, end, n = i, i+len(old), n+1
		}
	}
	return start, end, n
}

// An edit changes its passage and nothing else, whatever the file.
func TestEditChangesOnlyItsPassage(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "b", "c", " ", "  ", "\n", "\r\n", "\u201c", "\"", "\u2014", "-", "\u00a0", "\ufb01", "fi", "e\u0301", "\u00e9", "\xff", "\t"})
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(piece, 1, 40).Draw(t, "file"), "")
		f := newTextFile(raw)
		runes := []rune(f.text)
		i := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
		j := rapid.IntRange(i+1, min(i+12, len(runes))).Draw(t, "to")
		old := string(runes[i:j])
		if rapid.Bool().Draw(t, "straight") {
			old = strings.NewReplacer("\u201c", "\"", "\u2014", "-", "\u00a0", " ", "\u00e9", "e\u0301").Replace(old)
		}
		got, err := f.apply(pairs(old, "NEW\nTEXT"))
		if err != nil {
			return
		}
		at, behind := strings.Index(got.raw, "NEW"), strings.Index(got.raw, "TEXT")
		require.Contains(t, []string{"NEW\n", "NEW\r\n"}, got.raw[at:behind])
		before, after := got.raw[:at], got.raw[behind+len("TEXT"):]
		require.True(t, strings.HasPrefix(f.raw, before) && strings.HasSuffix(f.raw, after), "%q -> %q", f.raw, got.raw)
		passage := toLF(f.raw[len(before) : len(f.raw)-len(after)])
		require.Equal(t, plainly(old), plainly(passage), "%q -> %q", f.raw, got.raw)
		if start, end, n := editTwin(f.text, old); n == 1 {
			require.Equal(t, f.text[start:end], passage)
		}
	})
}

// plainly removes all that folding removes, and all white space before ends.
func plainly(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(foldRune, norm.NFKC.String(line)), " \t\r")
	}
	return strings.Join(lines, "\n")
}

func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\n", "a\nb", "c")
	f.Add("\uFEFFx \u201cq\u201d  \n", "x \"q\"\n", "")
	f.Add("e\u0301\ufb01\xff\u00a0\n\n", "\u00e9", "\n")
	f.Add("\u1100\u1161\u11a8 \u0f73\u0344", "\uac01", "\r")
	f.Fuzz(func(t *testing.T, file, old, new string) {
		tf := newTextFile(file)
		require.Equal(t, file, tf.bytes())
		got, err := tf.apply([]replacement{{old, new}})
		if err != nil {
			return
		}
		require.NotEqual(t, tf.raw, got.raw)
		// The passage is all that differs.
		p, err := locate(tf.text, fold(tf.text), tf.toLF(strings.TrimPrefix(old, byteOrderMark)))
		require.NoError(t, err)
		start, end := tf.rawOffset(p.start), tf.rawOffset(p.end)
		require.True(t, strings.HasPrefix(got.raw, tf.raw[:start]) && strings.HasSuffix(got.raw, tf.raw[end:]))
		require.Equal(t, tf.toLF(new), tf.toLF(got.raw[start:len(got.raw)-len(tf.raw)+end]))
		require.NotNil(t, diffDetailsOrSame(tf.text, got.text))
	})
}

// diffDetailsOrSame is not nil if the texts differ in more than line ends.
func diffDetailsOrSame(old, new string) json.RawMessage {
	if old == new {
		return json.RawMessage("{}")
	}
	return Diff("f", old, new)
}

func BenchmarkEdit(b *testing.B) {
	var ascii, unicode bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&ascii, "line %d of a file with ordinary text in it\n", i)
		fmt.Fprintf(&unicode, "Zeile %d mit \u201eAnf\u00fchrungszeichen\u201c \u2014 und \u00dcmlauten\n", i)
	}
	for name, c := range map[string]struct{ file, old string }{
		"ascii":   {ascii.String(), "line 12345 of a file"},
		"unicode": {unicode.String(), "Zeile 12345 mit \"Anf\u00fchrungszeichen\" - und"},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.file)))
			for b.Loop() {
				f := newTextFile(c.file)
				got, err := f.apply(pairs(c.old, "something else"))
				if err != nil {
					b.Fatal(err)
				}
				Diff("f", f.text, got.text)
			}
		})
	}
}
