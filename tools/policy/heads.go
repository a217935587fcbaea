package policy

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// escapes are options with which a program that reads starts another one, or writes a
// file, or takes its orders from elsewhere. A star in a rule never stands for them.
var escapes = map[string][]string{
	"git": {"-c", "-C", "-o", "-O", "-u", "-x", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--output", "--output-directory", "--ext-diff",
		"--textconv", "--upload-pack", "--receive-pack", "--exec", "--open-files-in-pager", "--template", "--paginate", "--extcmd", "--config", "--export-marks", "--import-marks"},
	"rg":   {"-z", "--pre", "--hostname-bin", "--search-zip"},
	"fd":   {"-x", "-X", "--exec", "--exec-batch"},
	"find": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"},
	"sort": {"-o", "-T", "--output", "--compress-program", "--temporary-directory"},
	"tar":  {"-I", "-F", "--to-command", "--checkpoint-action", "--use-compress-program", "--info-script", "--new-volume-script", "--rmt-command", "--rsh-command", "--index-file"},
	"go": {"-exec", "-toolexec", "-o", "-overlay", "-vettool", "-ldflags", "-gccgoflags", "-compiler", "-modfile", "-C", "-w",
		"-cpuprofile", "-memprofile", "-blockprofile", "-mutexprofile", "-coverprofile", "-trace", "-outputdir"},
	"man":     {"-P", "-H", "-C", "-p", "--pager", "--html", "--config-file", "--preprocessor"},
	"less":    {"-o", "-O", "-k", "-T", "--log-file", "--lesskey-file", "--lesskey-src", "--tag-file"},
	"date":    {"-s", "--set"},
	"tree":    {"-o"},
	"file":    {"-C", "-m"},
	"awk":     {"-f", "-i", "-l", "-E", "-o", "-d", "-p", "-D", "--file", "--include", "--load", "--exec", "--pretty-print", "--dump-variables", "--profile", "--debug"},
	"sed":     {"-i", "-f", "--in-place", "--file"},
	"make":    {"-f", "-C", "-I", "--file", "--makefile", "--directory", "--eval", "--include-dir"},
	"npm":     {"--prefix", "--script-shell", "--userconfig", "--globalconfig", "--node-options", "-C"},
	"cargo":   {"--config", "--manifest-path", "-Z", "-C"},
	"pytest":  {"-p", "-c", "--rootdir", "--confcutdir"},
	"rsync":   {"-e", "-M", "--rsh", "--rsync-path", "--remote-option", "--log-file", "--write-batch", "--only-write-batch"},
	"sqlite3": {"-cmd", "-init"},
	"curl": {"-o", "-O", "-J", "-K", "-D", "-c", "-T", "--output", "--output-dir", "--remote-name", "--remote-name-all", "--config", "--dump-header", "--cookie-jar",
		"--upload-file", "--trace", "--trace-ascii", "--stderr", "--libcurl", "--hsts", "--alt-svc", "--etag-save", "--engine"},
	"wget": {"-e", "-o", "-a", "-O", "-P", "--execute", "--config", "--use-askpass", "--output-file", "--append-output", "--output-document", "--directory-prefix",
		"--save-cookies", "--warc-file", "--hsts-file"},
	"ssh":    {"-o", "-F", "-E", "-I", "-S", "-D"},
	"vim":    {"-c", "-S", "-s", "-u", "-U", "-w", "-W", "-i", "-l", "--cmd", "--listen"},
	"split":  {"--filter"},
	"shuf":   {"-o", "--output"},
	"diff":   {"-l", "--paginate"},
	"yq":     {"-i", "-s", "--inplace", "--in-place", "--split-exp", "--split-exp-file"},
	"gofmt":  {"-w", "-cpuprofile"},
	"zip":    {"-TT", "--unzip-command"},
	"hg":     {"--config"},
	"svn":    {"--config-option", "--config-dir", "--diff-cmd", "--diff3-cmd", "--editor-cmd"},
	"bat":    {"--pager"},
	"env":    {"-S", "--split-string"},
	"sudo":   {"-e", "-i", "-s", "--edit", "--login", "--shell"},
	"doas":   {"-s"},
	"time":   {"-o", "-a", "--output", "--append"},
	"strace": {"-o", "--output"},

	"iconv":   {"-o", "--output"},
	"sdiff":   {"-o", "--output", "--diff-program"},
	"ss":      {"-D", "-K", "--diag", "--kill"},
	"patch":   {"-o", "-r", "--output", "--reject-file"},
	"ptx":     {"-G", "--traditional"},
	"gpg":     {"-o", "--output", "--exec-path", "--photo-viewer", "--logger-file", "--status-file"},
	"openssl": {"-out", "-keyout", "-writerand", "-engine", "-provider", "-config"},
	"apt":     {"-o", "-c", "--option", "--config-file"},
}

// likewise are programs whose options are those of another one.
var likewise = map[string]string{
	"gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "fdfind": "fd",
	"vi": "vim", "view": "vim", "ex": "vim", "nvim": "vim", "gvim": "vim", "vimdiff": "vim", "rview": "vim", "rvim": "vim",
	"scp": "ssh", "sftp": "ssh", "gmake": "make", "pnpm": "npm", "batcat": "bat", "guniq": "uniq", "gsplit": "split",
	"g++": "gcc", "cc": "gcc", "c++": "gcc", "cpp": "gcc", "clang": "gcc", "clang++": "gcc", "gpg2": "gpg", "gpatch": "patch",
	"apt-get": "apt", "apt-cache": "apt", "aptitude": "apt",
}

// kin is the name by which the tables know a program.
func kin(program string) string {
	head := path.Base(program)
	return cmp.Or(likewise[head], head)
}

// orders find what makes a program start another one, or write a file, though it is no
// option: it stands in a text that the program reads, or in the place of a word.
var orders = map[string]func([]word) bool{
	"awk":      texts(`\b(system|close|printf?\b[^;}\n]*>)|@|[^|]\|[^|]|\|&`),
	"sed":      sedOrders,
	"sqlite3":  texts(`(?im)^\s*\.[a-z]|\b(writefile|edit|load_extension|attach|vacuum)\b`),
	"psql":     texts(`(?i)\\|\bprogram\b|^-o|^-L|^--(out|log)`),
	"mysql":    texts(`(?i)\\|\b(system|pager|tee|outfile|dumpfile)\b`),
	"git":      places(`^(foreach|bisect|filter-branch|difftool|mergetool|instaweb|send-email|hook|bundle|mailinfo|pack-objects)$|^ext::`),
	"make":     texts(`=|\$\(`),
	"tar":      places(`^[^-].*:|^-[a-zA-Z]*f.*:|^--file=.*:`), // a host
	"less":     places(`^\+`),
	"vim":      places(`^\+`),
	"uniq":     func(words []word) bool { return operands(words, "fsw") > 1 },
	"ip":       places(`^-b|^netns$`),
	"gcc":      places(`^--?(wrapper|specs|fplugin)|^-B|^@`),
	"curl":     places(`%output`),
	"xxd":      func(words []word) bool { return operands(words, "cglos") > 1 },
	"parallel": always, "watch": always, "entr": always, "script": always, "flock": always, "su": always, "runuser": always, "nsenter": always,
	"taskset": always, "chrt": always, "setarch": always, "linux64": always, "linux32": always, "i386": always, "x86_64": always, "uname26": always,
	"prlimit": always, "setpriv": always, "capsh": always, "ssh-agent": always, "valgrind": always, "perf": always, "dbus-run-session": always,
	"start-stop-daemon": always, "systemd-run": always, "fakeroot": always, "firejail": always, "bwrap": always, "rlwrap": always, "unbuffer": always, "ltrace": always, "gdb": always, "lldb": always,
}

func always([]word) bool { return true }

// texts finds an expression in words that are programs, and so have to be known.
func texts(expression string) func([]word) bool {
	found := places(expression)
	return func(words []word) bool {
		return slices.ContainsFunc(words, func(w word) bool { return w.dynamic }) || found(words)
	}
}

// places finds an expression in one of the words.
func places(expression string) func([]word) bool {
	found := has(expression)
	return func(words []word) bool {
		return slices.ContainsFunc(words, func(w word) bool { return found(w.value) })
	}
}

// has says whether a text has an expression, which is compiled for the first text: most
// processes judge none.
func has(expression string) func(string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
	return func(text string) bool { return compiled().MatchString(text) }
}

// operands counts the words that are no options, nor the values of short ones.
func operands(words []word, valued string) (n int) {
	value := false
	for _, w := range words {
		option := len(w.value) > 1 && w.value[0] == '-' && !w.many
		if w.many {
			n++
		}
		if !option && !value {
			n++
		}
		value = option && w.value[1] != '-' && strings.ContainsRune(valued, rune(w.value[len(w.value)-1]))
	}
	return n
}

// sedOrders says whether a script of sed has other commands than those that only print
// and change what is printed.
func sedOrders(words []word) bool {
	var scripts []string
	var operands []word
	next := "" // the option whose value the next word is
	for _, w := range words {
		long, value, has := strings.Cut(w.value, "=")
		switch {
		case w.dynamic && len(scripts) == 0 && len(operands) == 0, w.dynamic && next != "":
			return true
		case next == "e":
			scripts, next = append(scripts, w.value), ""
		case next != "":
			next = ""
		case strings.HasPrefix(w.value, "--expression"):
			if long != "--expression" || w.dynamic {
				return true
			}
			if next = "e"; has {
				scripts, next = append(scripts, value), ""
			}
		case strings.HasPrefix(w.value, "--"):
			if !sedLong[long] {
				return true
			}
		case strings.HasPrefix(w.value, "-") && w.value != "-":
			letters := strings.TrimLeft(w.value[1:], "nErsuz")
			switch {
			case letters == "" || letters[0] == 'i' && !w.dynamic:
			case w.dynamic || !strings.Contains("el", letters[:1]):
				return true
			case letters == "e" || letters == "l":
				next = letters
			case letters[0] == 'e':
				scripts = append(scripts, letters[1:])
			}
		default:
			operands = append(operands, w)
		}
	}
	if len(scripts) == 0 && len(operands) > 0 {
		if operands[0].dynamic {
			return true
		}
		scripts = []string{operands[0].value}
	}
	return !tame().MatchString(strings.Join(scripts, "\n"))
}

var sedLong = map[string]bool{"--": true, "--quiet": true, "--silent": true, "--regexp-extended": true, "--null-data": true, "--separate": true,
	"--unbuffered": true, "--posix": true, "--debug": true, "--sandbox": true, "--follow-symlinks": true, "--zero-terminated": true,
	"--in-place": true, "--help": true, "--version": true}

// tame is a script of sed without e, r, R, w, W and whatever else is not known here. A
// delimiter within brackets ends the expression for some seds and not for others: such
// a script is not tame.
var tame = sync.OnceValue(func() *regexp.Regexp {
	expression := func(delimiter string) string {
		d := regexp.QuoteMeta(delimiter)
		return `(?:[^` + d + `\\\n\[]|\\[^\n]|\[(?:[^` + d + `\\\n\]]|\\[^\n` + d + `])+\])*` + d
	}
	var edits []string
	for d := range strings.SplitSeq("/ | , # @ : ! ~ % _ +", " ") {
		quoted := regexp.QuoteMeta(d)
		replacement := `(?:[^` + quoted + `\\\n]|\\(?s:.))*` + quoted
		edits = append(edits, `s`+quoted+expression(d)+replacement+`[gpiImM0-9]*`, `y`+quoted+expression(d)+replacement)
	}
	line := `(?:[0-9]+(?:~[0-9]+)?|\$|/` + expression("/") + `[IM]*)`
	address := line + `(?:\s*,\s*(?:` + line + `|[+~][0-9]+))?`
	command := `[=dDgGhHlnNpPxzF]|[qQl][0-9]*|[btT]|[btT:]\s*[A-Za-z0-9_]+|[aic](?:\\\n)?[^\\\n]*|` + strings.Join(edits, "|")
	end := `[ \t]*(?:$|[;\n}][;}\s]*|#[^\n]*(?:$|\n[;}\s]*))`
	return regexp.MustCompile(`^[;\s]*(?:(?:` + address + `)?\s*!?\s*(?:\{[;\s]*|(?:` + command + `)` + end + `))*$`)
})

// readers are programs of which a star may stand for the arguments, with the words
// that have to come first: nothing they do changes anything.
var readers = []string{
	"git status", "git diff", "git log", "git show", "git blame", "go list", "go vet", "go version", "ls", "rg", "grep", "wc",
}

// runners run code of the project.
var runners = []string{
	"go test", "go build", "go run", "go generate", "npm", "pnpm", "yarn", "make", "cargo", "pytest", "just", "mvn", "gradle", "npx", "tox", "rake",
}

// inert are commands of the shell itself that start nothing and change nothing.
var inert = map[string]bool{"true": true, "false": true, ":": true, "exit": true, "break": true, "continue": true}

// strange are commands of the shell by which a text comes to mean something else.
var strange = map[string]bool{
	"unalias": true, "compopt": true, "history": true, "read": true, "getopts": true, "unset": true, "set": true, "declare": true, "typeset": true,
	"local": true, "export": true, "readonly": true, "let": true, "pushd": true, "popd": true, "dirs": true, "umask": true, "ulimit": true,
}

// obscure are those by which a name comes to mean another program, or that run a text.
var obscure = map[string]bool{
	"alias": true, "enable": true, "hash": true, "shopt": true, "bind": true, "complete": true, "compgen": true, "mapfile": true, "readarray": true, "fc": true,
}

// strictSet is how scripts begin.
var strictSet = map[string]bool{"set -e": true, "set -u": true, "set -x": true, "set -eu": true, "set -ex": true, "set -eux": true,
	"set -o pipefail": true, "set -euo pipefail": true, "set -eo pipefail": true, "set -euxo pipefail": true}

// wrapper says how a program that starts another one is written: its options that take
// a value, and how many words of its own follow.
type wrapper struct {
	valued  string // letters of short options with a value behind them
	own     int
	through bool // what it starts is all that it does: it counts for rules that allow
}

var wrappers = map[string]wrapper{
	"nice": {"n", 0, true}, "nohup": {"", 0, true}, "timeout": {"ks", 1, true}, "time": {"fo", 0, false}, "stdbuf": {"ioe", 0, true}, "setsid": {"", 0, true},
	"sudo": {"ughpCDRTU", 0, false}, "doas": {"uC", 0, false}, "env": {"uCS", 0, false}, "xargs": {"adEeIiLlnPs", 0, false},
	"command": {"", 0, false}, "builtin": {"", 0, false}, "exec": {"a", 0, false}, "busybox": {"", 0, false}, "ionice": {"cnp", 0, false},
	"chroot": {"", 1, false}, "unshare": {"", 0, false}, "strace": {"eopsu", 0, false}, "watch": {"n", 0, false},
}

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true}

// lookBehind finds what a command starts. It shows rules that limit more than the
// command itself; rules that allow see no more than they did.
func (r *reader) lookBehind(c simple) {
	head := path.Base(c.words[0].value)
	rest := c.words[1:]
	switch w, wraps := wrappers[head]; {
	case head == "eval":
		r.s.veil("it runs a text")
		r.nested(rest, true)
	case head == "source" || head == ".":
		r.s.hide("it runs a file")
	case head == "trap":
		r.s.veil("it sets a trap")
		r.nested(rest, false)
	case obscure[head]:
		r.s.hide("it changes what the shell does")
	case strange[head] && !strictSet[c.text]:
		r.s.veil("it changes what the shell does")
		r.s.calculates = true // the names that it is given may have subscripts
	case head == "cd":
		r.s.moves = true
	case shells[head]:
		r.shell(rest)
	case wraps:
		if head == "exec" || head == "builtin" || head == "command" {
			r.s.veil("it changes what the shell does")
		}
		r.unwrap(w, rest)
	case head == "find":
		r.findActions(rest)
	case head == "printf" && len(rest) > 0 && (rest[0].dynamic || strings.HasPrefix(rest[0].value, "-v")):
		r.s.veil("it sets a variable")
		r.s.calculates = true
	case head == "wait" && slices.ContainsFunc(rest, func(w word) bool { return w.many || strings.HasPrefix(w.value, "-") }):
		r.s.compute() // wait -p sets a variable
	case head == "test" || head == "[":
		r.tested(rest)
	}
}

// tested looks for the operators of test that take the name of a variable, which may have a
// subscript: written out, or as what a word may stand for that has another one behind it.
func (r *reader) tested(words []word) {
	for i, w := range words {
		operand := i+1 < len(words) && (words[i+1].dynamic || len(words[i+1].value) > 1 && strings.ContainsRune(words[i+1].value, '['))
		if w.value == "-v" || w.value == "-R" || w.many || w.dynamic && !plainPrefix(w.prefix) && operand {
			r.s.compute()
		}
	}
}

// nested reads words as a text for the shell: all of them, or the first.
func (r *reader) nested(words []word, all bool) {
	if !all && len(words) > 1 {
		words = words[:1]
	}
	var texts []string
	for _, w := range words {
		if w.dynamic {
			r.s.hide("it runs a text that is not known")
			return
		}
		texts = append(texts, w.value)
	}
	r.s.read(strings.Join(texts, " "), r.depth+1)
}

func (r *reader) shell(words []word) {
	for i, w := range words {
		switch {
		case w.dynamic:
			r.s.hide("it runs what is not known")
			return
		case strings.HasPrefix(w.value, "-") && !strings.HasPrefix(w.value, "--") && strings.Contains(w.value, "c"):
			if i+1 < len(words) {
				r.nested(words[i+1:], false)
			}
			return
		case !strings.HasPrefix(w.value, "-") && !strings.HasPrefix(w.value, "+"):
			return // a file
		}
	}
	r.s.hide("a shell runs what it reads")
}

// unwrap finds the command that a wrapper starts.
func (r *reader) unwrap(w wrapper, words []word) {
	own := w.own
	for len(words) > 0 {
		first := words[0]
		if first.dynamic {
			r.s.hide("it starts what is not known")
			return
		}
		switch v := first.value; {
		case v == "--":
			words = words[1:]
			continue
		case strings.HasPrefix(v, "-") && len(v) == 2 && strings.Contains(w.valued, v[1:]) && len(words) > 1:
			words = words[2:]
			continue
		case strings.HasPrefix(v, "-"), assignment(v):
			words = words[1:]
			continue
		}
		if own == 0 {
			break
		}
		own--
		words = words[1:]
	}
	if len(words) > 0 {
		r.add(simple{words: slices.Clone(words)}, true)
	}
}

func assignment(v string) bool {
	name, _, ok := strings.Cut(v, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/.-")
}

// findActions are the commands that find starts.
func (r *reader) findActions(words []word) {
	for i, w := range words {
		switch w.value {
		case "-exec", "-execdir", "-ok", "-okdir":
			if i+1 < len(words) {
				end := len(words)
				for j := i + 1; j < len(words); j++ {
					if words[j].value == ";" || words[j].value == "+" {
						end = j
						break
					}
				}
				if end > i+1 {
					r.add(simple{words: slices.Clone(words[i+1 : end])}, true)
				}
			}
		}
	}
}

// escapesBy says whether a word may be one of the options in escapes: written out,
// shortened, or among others behind one dash.
func escapesBy(head string, w word) bool {
	list := escapes[head]
	if w.dynamic && (w.many || !plainPrefix(w.prefix)) {
		return len(list) > 0
	}
	v := w.value
	if !strings.HasPrefix(v, "-") || v == "-" || v == "--" {
		return false
	}
	name, _, _ := strings.Cut(v, "=")
	single := head == "find" || head == "go" || head == "openssl" // their options have one dash and many letters
	return slices.ContainsFunc(list, func(option string) bool {
		switch {
		case single:
			return strings.TrimLeft(name, "-") == strings.TrimLeft(option, "-")
		case strings.HasPrefix(option, "--"):
			return strings.HasPrefix(name, "--") && strings.HasPrefix(option, name)
		case len(option) > 2:
			return name == option
		}
		return !strings.HasPrefix(v, "--") && strings.Contains(v, option[1:])
	})
}

// plainPrefix says that a word that begins so is no option.
func plainPrefix(p string) bool { return p != "" && p[0] != '-' }
