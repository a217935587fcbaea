package tools

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"troupe/e2e/need"
)

var (
	searches = flag.Int("tools.searches", 60, "how many random trees TestGrepAsRipgrep and TestFindAsFd search")
	searchBy = flag.Uint64("tools.search", 0, "the seed of the only tree they search")
	ripgrep  = flag.String("tools.rg", "", "the ripgrep that TestGrepAsRipgrep compares with, instead of the one in PATH")
)

// Fragments of trees, files, patterns and globs.
var (
	oracleNames    = []string{"a", "b", "ab", "a.c", "b.c", "B.c", "README.md", "readme.txt", "x.log", "y.tmp", "build", "src", "Src", "lib", ".hid", "ä", "Ä.c", "слово", "a b", "a-b", "[a]", "{a}", "#h", "!b", "x,y", "-x", "a]b", "zZ"}
	oracleRules    = []string{"a", "*.log", "*.tmp", "build", "build/", "/src", "!a", "!*.log", "src/**", "**/lib", "a*", "*.[ch]", "?", "lib/*.c", "!b.c", "#x", "\\#h", "\\!b", "sub/", "*b", "ä", "x,y", "!.hid", ".*", "/*", "!/a"}
	oracleBraces   = []string{"*.{log,c}", "{a,b}", "!{src,lib}/*.c", "x{,y}"}
	oracleGlobs    = []string{"*.c", "*.{c,md}", "!*.c", "/a", "/*.c", "/src/**", "src/*.c", "src/**", "**/src/**", "src", "!src", "!src/", "*", "**", "?", "??", "[ab]*", "[!a]*", "[^a]*", "[а-я]*", "ä*", "README*", "readme*", "[R]*", "[a-z]*", "{a,b}", "{a,b}.c", "{src,lib}/**", "a**b", "**/a", "**/*.c", "a/**/b", "*/a", "\\[a\\]", "[[]a]", "\\{a\\}", "{a\\,b,x\\,y}", "a]b", "#h", "\\#h", "!b", "\\!b", "a ", "a\\ b", ".*", "*.C", "*[!c]", "[a-", "{a", "a\\", "[]", "[z-a]", "x,y", "***", "/**/a", "src/***", "z[!z]", "z[!Z]", "[--z]*", "*[]]b", "a?b", "src?a", "src[!x]a", "", "{}", "a{}", "{,a}", "слово", "сл*"}
	oracleNested   = []string{"{a{,b},x}*", "{src/{a,b},lib/*}", "*.{c,{md,txt}}", "a}"}
	oracleLines    = []string{"foo bar", "Foo", "слово", "дело слово дело", "предисловие", "a1 b2", "१२३", "x_y", "naïve", "e\u0301", "Δ", "δ", "K", "k", "ſ", "a\tb", "a\u00a0b", "", "  ", "a.b", "(x)", "[a]", "foo\u200dbar", "caf\xe9", "\xff", "end", "the end", "ABC", "abc", "日本語", "ǆ", "日 本", "-x", "a^b", "a&b", "b", "\u2028", "\ufeffx", "ß", "ẞ", "0", "if x {", "}", "\\d"}
	oraclePatterns = []string{"foo", "\\bслово\\b", "\\bслов", "о\\b", "\\Bо", "\\w+", "^\\w+$", "\\W", "\\d+", "^\\d+$", "\\D", "\\s", "^\\S+$", "\\u{394}", "\\x{394}", "\\u0394", "\\x61", "(?i)δ", "(?i)k", "(?i)s", "(?i)ß", "(?x) foo \\ bar", "(?x)f o o", "[a-z&&[^b]]", "^[a-z&&[^b]]+$", "[\\w--[a-z]]", "[a-c~~b-d]", "\\pL", "\\p{Lu}", "\\p{Greek}", "\\p{Cyrillic}+", "\\P{L}", "^\\PL+$", "\\p{sc=Han}", "\\p{gc=Nd}", "[[:alpha:]]", "[[:^alpha:]]", "[[:space:]]", "(?-u)\\w+$", "(?-u:\\b)b", "(?-u)\\xff", "(?i-u)k", ".", "^.$", "^..$", "caf.", "a.b", "a\\sb", "^", "$", "^$", "end$", "^the", "a|b", "(a|b)+1", "a{1}", "a{2,}", "(?:fo){1}o", "x*", "[^a]", "[^\\w]", "[]a]", "[a-]", "[\\[\\]]", "\\.", "\\-", "\\^", "\\&", "\\{", "}", "(?s).", "(?U)a+?", "foo(?:b)?", "(?P<n>foo)", "(?<n>foo)", "(", ")", "[", "[z-a]", "*", "a**", "a{", "a{1", "{", "\\", "\\y", "\\1", "(?=a)", "(?<!a)b", "\\p{Nope}", "(?z)", "\\x{110000}", "[\\b]", "a\\n", "[[:nope:]]", "日", "^日.語$", "\\A.", "[Δ-δ]", "(?i)[а-я]+", "(?i)СЛОВО", "\\p{Alphabetic}", "\\p{White_Space}", "[\\p{L}&&\\p{ASCII}]", "\\ufeff", "^x", "[\\d-]", "[\\d-a]", "\\\\d", "[0-9]", "\\t", "(?i)(?-i)K", "()", "|", "-x"}
	oracleNewer    = []string{"\\b{start}с", "о\\b{end}", "\\b{start-half}\\w", "\\w\\b{end-half}", "\\<д", "о\\>", "(?R)end$", "\\b{nope}"}
)

func oneOf(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// plantTree writes random files, directories, links and ignore files. files says
// what a file holds.
func plantTree(t testing.TB, r *rand.Rand, dir string, depth int, ignoreNames []string, content func() []byte) {
	for range 3 + r.IntN(7) {
		path := filepath.Join(dir, oneOf(r, oracleNames))
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		switch {
		case depth > 0 && r.IntN(5) < 2:
			require.NoError(t, os.Mkdir(path, 0o777))
			plantTree(t, r, path, depth-1, ignoreNames, content)
		case r.IntN(15) == 0:
			require.NoError(t, os.Symlink(oneOf(r, []string{".", "a", "nowhere", ".."}), path))
		default:
			require.NoError(t, os.WriteFile(path, content(), 0o666))
		}
	}
	if depth > 0 && r.IntN(8) == 0 {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git", "info"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "info", "exclude"), []byte(oracleRulesFile(r, false)), 0o666))
	}
	for _, name := range ignoreNames {
		if r.IntN(4) == 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(oracleRulesFile(r, name != ".gitignore")), 0o666))
		}
	}
}

func oracleRulesFile(r *rand.Rand, braces bool) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		if braces && r.IntN(4) == 0 {
			b.WriteString(oneOf(r, oracleBraces) + "\n")
		} else {
			b.WriteString(oneOf(r, oracleRules) + "\n")
		}
	}
	return b.String()
}

// oracleFile is the content of a random file in some encoding.
func oracleFile(r *rand.Rand) []byte {
	end := oneOf(r, []string{"\n", "\n", "\n", "\r\n"})
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(oneOf(r, oracleLines) + end)
	}
	if r.IntN(4) == 0 {
		b.WriteString(oneOf(r, oracleLines))
	}
	text := b.String()
	switch r.IntN(16) {
	case 0:
		return []byte("\ufeff" + text)
	case 1:
		return encodeUTF16(binary.LittleEndian, text)
	case 2:
		return encodeUTF16(binary.BigEndian, text)
	case 3:
		return []byte("some lines\n" + text + "\x00" + text)
	case 4: // a NUL after what ripgrep reads at first
		return []byte(text + strings.Repeat(strings.Repeat("filler", 700)+"\n", 25) + text + "\x00\n" + text)
	case 5:
		return []byte{[]byte{0xff, 0xfe, 0xef, 0}[r.IntN(4)]}
	}
	return []byte(text)
}

func encodeUTF16(order binary.AppendByteOrder, text string) []byte {
	b := order.AppendUint16(nil, 0xfeff)
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return b
}

// oracleHome writes ignore files that a user may have for git and fd. Its rules have no
// slashes but at the end: fd 8.6 does not match others with the absolute paths
// that pi gives it.
func oracleHome(t testing.TB, r *rand.Rand, env *Env) {
	names := func() string {
		return oneOf(r, []string{"a", "*.log", "build/", "!a", "a*", "*.[ch]", "!b.c", ".*", "ä", "?"}) + "\n" + oneOf(r, []string{"!*.log", "b", "lib"}) + "\n"
	}
	env.Home = t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(env.Home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	}
	if r.IntN(3) == 0 {
		write(".config/git/ignore", names())
	}
	if r.IntN(4) == 0 {
		write(".config/git/config", "[core]\n\texcludesFile = ~/xdg\n")
		write("xdg", names())
	}
	if r.IntN(4) == 0 {
		write(".gitconfig", "[user]\n\tname = x\n[core]\n\texcludesfile = "+env.Home+"/mine\n")
		write("mine", names())
	}
	if r.IntN(4) == 0 {
		write(".config/fd/ignore", oneOf(r, []string{"*.log", "a", "build/", "**/src", "!a"})+"\n")
	}
}

// seedsOf calls f with the seed of each round.
func seedsOf(t *testing.T, f func(t *testing.T, seed uint64, r *rand.Rand)) {
	first, rounds := rand.Uint64N(1<<32), *searches
	if *searchBy != 0 {
		first, rounds = *searchBy, 1
	}
	for seed := first; seed < first+uint64(rounds); seed++ {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { f(t, seed, rand.New(rand.NewPCG(seed, 0))) })
		if !ok {
			t.Fatalf("go test ./tools -run '^%s$' -tools.search=%d", t.Name(), seed)
		}
	}
}

// logRules shows the ignore files below a directory.
func logRules(t *testing.T, dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (strings.HasSuffix(path, "ignore") || strings.HasSuffix(path, "exclude") || dir == filepath.Dir(path)) {
			content, err := os.ReadFile(path)
			t.Logf("%s: %.200q %v", path, content, err)
		}
		return nil
	})
}

// oracleRun runs a program as pi does. It returns its output, or an error if it
// has refused its arguments.
func oracleRun(t testing.TB, env *Env, dir, program string, args ...string) (output string, refused error) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + env.Home, "LC_ALL=C.UTF-8"}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == 1 && stderr.Len() == 0 {
		err = nil // nothing found
	}
	if err != nil && stdout.Len() == 0 {
		return "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// sortedLines makes a set of a tool's output, without lines of filler.
func sortedLines(text string) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, "fillerfiller") || strings.HasPrefix(line, "[Long lines")
	})
	slices.Sort(lines)
	return lines
}

// requireSame compares the results of the program and of the tool.
func requireSame(t *testing.T, env *Env, want, got []string, call any) {
	t.Helper()
	without := func(list, other []string) []string {
		list = slices.DeleteFunc(slices.Clone(list), func(line string) bool { return slices.Contains(other, line) })
		return list[:min(len(list), 10)]
	}
	if !slices.Equal(want, got) {
		logRules(t, env.Cwd)
		logRules(t, env.Home)
		for _, path := range without(want, got) {
			name, _, _ := strings.Cut(path, ":")
			content, err := os.ReadFile(filepath.Join(env.Cwd, "root", name))
			t.Logf("%s: %.200q %v", name, content, err)
		}
		t.Fatalf("%q: %d lines instead of %d\nmissing %q\nextra %q", call, len(got), len(want), without(want, got), without(got, want))
	}
}

// The tool grep finds what ripgrep finds, called as pi calls it, except that the
// tool never looks into .git, and takes a CR before LF for a part of the line end.
func TestGrepAsRipgrep(t *testing.T) {
	program := *ripgrep
	if program == "" {
		program = need.Program(t, "rg")
	}
	version, err := exec.Command(program, "--version").Output()
	require.NoError(t, err)
	if number := regexp.MustCompile(`^ripgrep (\d+)`).FindSubmatch(version); number == nil || string(number[1]) < "15" {
		need.Missing(t, "ripgrep 15", "this is "+strings.SplitN(string(version), "\n", 2)[0])
	}
	patterns, globs := slices.Concat(oraclePatterns, oracleNewer), slices.Concat(oracleGlobs, oracleNested)
	seedsOf(t, func(t *testing.T, seed uint64, r *rand.Rand) {
		env := newEnv(t)
		oracleHome(t, r, env)
		root := filepath.Join(env.Cwd, "root")
		require.NoError(t, os.Mkdir(root, 0o777))
		if r.IntN(3) > 0 {
			require.NoError(t, os.Mkdir(filepath.Join(oneOf(r, []string{root, env.Cwd}), ".git"), 0o777))
		}
		for _, name := range []string{".gitignore", ".ignore", ".rgignore"} {
			if r.IntN(4) == 0 {
				put(t, env, name, oracleRulesFile(r, name != ".gitignore"))
			}
		}
		plantTree(t, r, root, 2, []string{".gitignore", ".ignore", ".rgignore", ".fdignore"}, func() []byte { return oracleFile(r) })
		for range 4 {
			compareGrep(t, r, env, program, root, oneOf(r, patterns), oneOf(r, globs))
		}
	})
}

func compareGrep(t *testing.T, r *rand.Rand, env *Env, program, root, pattern, glob string) {
	args := []string{"--no-config", "--json", "--line-number", "--color=never", "--hidden", "--crlf"}
	call := object{"pattern": pattern, "path": root, "limit": 1 << 20}
	if r.IntN(4) == 0 {
		args, call["ignoreCase"] = append(args, "--ignore-case"), true
	}
	if r.IntN(6) == 0 {
		args, call["literal"] = append(args, "--fixed-strings"), true
	}
	if r.IntN(2) == 0 && glob != "" && !strings.HasSuffix(glob, "/") {
		args, call["glob"] = append(args, "--glob", glob), glob
	}
	args = append(args, "--glob", "!.git", "--", pattern, ".")
	output, refused := oracleRun(t, env, root, program, args...)
	text, _, err := run(t, env, "grep", call)
	require.Equal(t, refused != nil, err != nil, "%v\nripgrep: %v\ngrep: %v", call, refused, err)
	if err != nil {
		return
	}
	switch {
	case text == "No matches found":
		text = ""
	case strings.Contains(text, "\n[Cut at "):
		return
	}
	requireSame(t, env, sortedLines(ripgrepLines(t, output)), sortedLines(text), call)
}

// ripgrepLines shows the matches in ripgrep's output as the tool does.
func ripgrepLines(t testing.TB, output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		event := unmarshal[struct {
			Type string
			Data struct {
				Path, Lines struct {
					Text  string
					Bytes []byte
				}
				Number int `json:"line_number"`
			}
		}](t, []byte(line))
		if event.Type == "match" {
			text := event.Data.Lines.Text + string(event.Data.Lines.Bytes)
			fmt.Fprintf(&b, "%s:%d: %s\n", strings.TrimPrefix(event.Data.Path.Text, "./"), event.Data.Number, displayed([]byte(text)))
		}
	}
	return b.String()
}

// The tool find finds what fd finds, called as pi calls it, except .git. Outside
// of repositories pi has fd obey .gitignore files by a flag that older ones lack.
func TestFindAsFd(t *testing.T) {
	program := need.Program(t, "fdfind", "fd")
	seedsOf(t, func(t *testing.T, seed uint64, r *rand.Rand) {
		env := newEnv(t)
		oracleHome(t, r, env)
		root := filepath.Join(env.Cwd, oneOf(r, []string{"root", "src"}))
		require.NoError(t, os.Mkdir(root, 0o777))
		require.NoError(t, os.Mkdir(filepath.Join(oneOf(r, []string{root, env.Cwd}), ".git"), 0o777))
		for _, name := range []string{".gitignore", ".ignore", ".fdignore"} {
			if r.IntN(4) == 0 {
				put(t, env, name, oracleRulesFile(r, name != ".gitignore"))
			}
		}
		plantTree(t, r, root, 2, []string{".gitignore", ".ignore", ".rgignore", ".fdignore"}, func() []byte { return nil })
		for range 4 {
			compareFind(t, env, program, root, oneOf(r, oracleGlobs))
		}
	})
}

func compareFind(t *testing.T, env *Env, program, root, glob string) {
	effective := glob
	args := []string{"--color=never", "--hidden", "--glob"}
	if strings.Contains(glob, "/") {
		args = append(args, "--full-path")
		if !strings.HasPrefix(glob, "/") && !strings.HasPrefix(glob, "**/") {
			effective = "**/" + glob
		}
	}
	if strings.HasSuffix(glob, "/") {
		return // the tool finds directories
	}
	output, refused := oracleRun(t, env, env.Cwd, program, append(args, "--", effective, root)...)
	text, _, err := run(t, env, "find", object{"pattern": glob, "path": root, "limit": 1 << 20})
	require.Equal(t, refused != nil, err != nil, "%q\nfd: %v\nfind: %v", glob, refused, err)
	if err != nil {
		return
	}
	if text == "No files found matching the pattern" {
		text = ""
	}
	var want []string
	for _, path := range sortedLines(output) {
		path = strings.TrimPrefix(path, root+"/")
		if !strings.HasPrefix(path, ".git/") && !strings.Contains(path, "/.git/") {
			want = append(want, path)
		}
	}
	requireSame(t, env, want, sortedLines(text), glob)
}
