package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// program lists the arguments that a star in a rule may stand for: none of them starts another
// program or writes a file that the command does not name. Any other argument, above all an
// option that is not listed, asks.
type program struct {
	page   string // the documentation that was read, with the version
	any    bool   // it has no option that does more than read and print
	single bool   // its options have one dash and are whole words; see long

	flags, valued string // letters of short options; of valued only a number may stand in the same word
	long          string // options with two dashes (or one: single), with = after those that take a value
	also          string // an expression of further words with a dash
	operand       string // an expression that each word without a dash fits; "" for all
	operands      int    // how many of these there may be; 0 for any number
	check         func([]word) bool
}

const (
	coreutils = "GNU coreutils 9.1"
	git239    = "git 2.39"
	go125     = "cmd/go of Go 1.25"
)

// programs holds the known programs by name; git, go, npm and cargo with their subcommand. The list
// is short on purpose: an entry has to be right about all options of the program.
var programs = map[string]program{
	"ls": {page: "ls(1), " + coreutils, any: true}, "cat": {page: "cat(1), " + coreutils, any: true}, "echo": {page: "bash(1), 5.2", any: true},
	"wc": {page: "wc(1), " + coreutils, any: true}, "head": {page: "head(1), " + coreutils, any: true}, "tail": {page: "tail(1), " + coreutils, any: true},
	"pwd": {page: "bash(1), 5.2", any: true}, "cut": {page: "cut(1), " + coreutils, any: true}, "tr": {page: "tr(1), " + coreutils, any: true},
	"nl": {page: "nl(1), " + coreutils, any: true}, "tac": {page: "tac(1), " + coreutils, any: true}, "comm": {page: "comm(1), " + coreutils, any: true},
	"join": {page: "join(1), " + coreutils, any: true}, "paste": {page: "paste(1), " + coreutils, any: true}, "fold": {page: "fold(1), " + coreutils, any: true},
	"basename": {page: "basename(1), " + coreutils, any: true}, "dirname": {page: "dirname(1), " + coreutils, any: true},
	"realpath": {page: "realpath(1), " + coreutils, any: true}, "readlink": {page: "readlink(1), " + coreutils, any: true},
	"stat": {page: "stat(1), " + coreutils, any: true}, "du": {page: "du(1), " + coreutils, any: true}, "df": {page: "df(1), " + coreutils, any: true},
	"seq": {page: "seq(1), " + coreutils, any: true}, "id": {page: "id(1), " + coreutils, any: true}, "whoami": {page: "whoami(1), " + coreutils, any: true},
	"uname": {page: "uname(1), " + coreutils, any: true}, "nproc": {page: "nproc(1), " + coreutils, any: true}, "sleep": {page: "sleep(1), " + coreutils, any: true},
	"md5sum": {page: "md5sum(1), " + coreutils, any: true}, "sha256sum": {page: "sha256sum(1), " + coreutils, any: true}, "cksum": {page: "cksum(1), " + coreutils, any: true},
	"printf": {page: "bash(1), 5.2; see printsIntoVariable", any: true}, "test": {page: "bash(1), 5.2; see tested", any: true}, "[": {page: "bash(1), 5.2; see tested", any: true},
	"grep": {page: "grep(1), GNU grep 3.8", any: true}, "egrep": {page: "grep(1), GNU grep 3.8", any: true}, "fgrep": {page: "grep(1), GNU grep 3.8", any: true},
	"cmp": {page: "cmp(1), GNU diffutils 3.8", any: true},

	"sort": {page: "sort(1), " + coreutils, flags: "bdfghiMnRrVcCmsuz", valued: "ktS", also: `^-(k[0-9][0-9.,bdfgiMhnRrV]*|t.)$`,
		long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort month-sort numeric-sort random-sort reverse version-sort " +
			"check merge stable unique zero-terminated key= field-separator= buffer-size= parallel="},
	"uniq": {page: "uniq(1), " + coreutils, flags: "cdDiuz", also: `^-[fsw][0-9]+$`, operands: 1,
		long: "count repeated all-repeated ignore-case unique zero-terminated skip-fields= skip-chars= check-chars="},
	"date": {page: "date(1), " + coreutils, flags: "uR", operand: `^\+`, long: "utc rfc-email iso-8601 iso-8601= rfc-3339= date= reference="},
	"diff": {page: "diff(1), GNU diffutils 3.8", flags: "ucqrsywbBiatENTpd", valued: "UC",
		long: "brief unified unified= context context= recursive report-identical-files side-by-side ignore-case ignore-all-space ignore-space-change ignore-blank-lines text " +
			"new-file minimal color color= width= exclude= label="},
	"file": {page: "file(1), 5.44", flags: "bhiLs", long: "brief mime mime-type mime-encoding dereference no-dereference"},
	"tree": {page: "tree(1), 2.1", flags: "adfishpDCnugFN", valued: "LIP", long: "dirsfirst noreport du prune gitignore filelimit="},
	"find": {page: "find(1), GNU findutils 4.9", single: true, long: "L H P O0 O1 O2 O3 name= iname= path= ipath= wholename= iwholename= lname= regex= iregex= regextype= type= xtype= maxdepth= mindepth= " +
		"newer= anewer= cnewer= mtime= mmin= atime= amin= ctime= cmin= size= empty perm= user= group= uid= gid= nouser nogroup links= inum= samefile= readable writable executable " +
		"print print0 printf= ls prune quit depth d xdev mount daystart follow noleaf true false not o or a and warn nowarn", also: `^-[0-9]+[a-zA-Z]?$`},
	"rg": {page: "rg(1), ripgrep 13.0", flags: "nilcvwxFSsoaUPNHIqLuh0p", valued: "gettTABCmjMrdfe", also: `^-[ABCmj][0-9]+$`,
		long: "line-number no-line-number ignore-case smart-case case-sensitive files-with-matches files-without-match files count count-matches invert-match word-regexp line-regexp " +
			"fixed-strings only-matching text multiline multiline-dotall pcre2 with-filename no-filename quiet follow unrestricted hidden no-ignore no-ignore-vcs json vimgrep heading no-heading " +
			"pretty stats trim null column no-config type-list glob= iglob= type= type-not= after-context= before-context= context= max-count= max-columns= max-depth= max-filesize= threads= " +
			"replace= regexp= color= colors= sort= sortr= encoding= passthru"},
	"sed": {page: "sed(1), GNU sed 4.9", flags: "nErsuz", valued: "el", also: `^-[nErsuz]*e`, check: func(words []word) bool { return !sedOrders(words) },
		long: "quiet silent regexp-extended null-data separate unbuffered posix debug sandbox zero-terminated expression="},
	"awk": {page: "POSIX awk; gawk(1) 5.2, mawk(1) 1.3", valued: "Fv", also: `^-F.$`, check: awkOnlyPrints}, "gawk": {page: "gawk(1) 5.2", valued: "Fv", also: `^-F.$`, check: awkOnlyPrints}, "mawk": {page: "mawk(1) 1.3", valued: "Fv", also: `^-F.$`, check: awkOnlyPrints},
	"gofmt": {page: "gofmt of Go 1.25", flags: "dels", also: `^-(r|simplify)$`},
	"tar":   {page: "tar(1), GNU tar 1.34", flags: "tvzjJ", valued: "f", operand: `^[^:]*$`, check: tarLists},

	// Writing files is the purpose of these programs.
	"mkdir": {page: "mkdir(1), " + coreutils, flags: "pv", valued: "m", long: "parents verbose mode="}, "rmdir": {page: "rmdir(1), " + coreutils, flags: "pv", long: "parents verbose"},
	"touch": {page: "touch(1), " + coreutils, flags: "acmh", valued: "dtr", long: "no-create date= time= reference= no-dereference"},
	"cp":    {page: "cp(1), " + coreutils, flags: "aRrfinpuvLPHdlsxTb", valued: "t", long: "archive recursive force interactive no-clobber parents preserve preserve= update verbose backup target-directory="},
	"mv":    {page: "mv(1), " + coreutils, flags: "finuvTb", valued: "t", long: "force interactive no-clobber update verbose backup target-directory="},
	"rm":    {page: "rm(1), " + coreutils, flags: "rRfidvI", long: "recursive force dir verbose one-file-system preserve-root"},
	"ln":    {page: "ln(1), " + coreutils, flags: "sfnrvTLPbi", valued: "t", long: "symbolic force no-dereference relative verbose"},
	"chmod": {page: "chmod(1), " + coreutils, flags: "Rvcf", also: `^-[rwxXst]+$`, long: "recursive verbose changes quiet reference="},
	"tee":   {page: "tee(1), " + coreutils, flags: "aip", long: "append ignore-interrupts"},

	"git status":    {page: "git-status(1), " + git239, flags: "sbvz", also: `^-u(no|normal|all)?$`, long: "short branch show-stash porcelain porcelain= long verbose untracked-files untracked-files= ignored ignored= ahead-behind no-ahead-behind renames no-renames"},
	"git log":       {page: "git-log(1), " + git239, flags: gitFlags, valued: "nLSGU", also: `^-([0-9]+|n[0-9]+)$`, long: gitLong, check: noSignatures},
	"git show":      {page: "git-show(1), " + git239, flags: gitFlags, valued: "nLSGU", also: `^-([0-9]+|n[0-9]+)$`, long: gitLong, check: noSignatures},
	"git diff":      {page: "git-diff(1), " + git239, flags: gitFlags, valued: "SGU", long: gitLong, check: noSignatures},
	"git blame":     {page: "git-blame(1), " + git239, flags: "blrtfnsepwCM", valued: "L", long: "root show-stats reverse porcelain line-porcelain incremental date= since= show-name show-number show-email"},
	"git rev-parse": {page: "git-rev-parse(1), " + git239, any: true}, "git ls-files": {page: "git-ls-files(1), " + git239, flags: "cdmoiskutvz", long: "cached deleted modified others ignored stage unmerged exclude-standard full-name error-unmatch"},
	"git add":    {page: "git-add(1), " + git239, flags: "nvfuAN", long: "dry-run verbose force update all intent-to-add refresh ignore-errors"},
	"git commit": {page: "git-commit(1), " + git239, flags: "asqvnz", valued: "m", long: "all signoff quiet verbose amend no-edit allow-empty allow-empty-message message= date= no-verify dry-run short porcelain"},

	"go build": {page: go125, single: true, long: goBuild}, "go vet": {page: go125, single: true, long: "n x v json tags= mod=readonly mod=vendor c="},
	"go test": {page: go125, single: true, long: goBuild + " run= skip= count= short timeout= failfast json list= bench= benchmem benchtime= cover covermode= coverpkg= cpu= parallel= shuffle= fullpath"},
	"go list": {page: go125, single: true, long: "m json f= deps e test u versions find retracted n x tags= mod=readonly mod=vendor"}, "go version": {page: go125, single: true, long: "m v"},

	"npm run": {page: "npm-run(1), npm 10", operand: plainName, flags: "s", long: "silent if-present"}, "npm test": {page: "npm-test(1), npm 10", operand: plainName, flags: "s", long: "silent if-present"},
	"make":        {page: "make(1), GNU Make 4.3", flags: "nskBqwr", also: `^-j[0-9]*$`, operand: plainName, long: "dry-run just-print silent keep-going always-make question no-print-directory"},
	"cargo build": {page: "cargo-build(1), 1.80", operand: plainName, flags: "rqv", valued: "pj", long: cargoLong}, "cargo check": {page: "cargo-check(1), 1.80", operand: plainName, flags: "rqv", valued: "pj", long: cargoLong},
	"cargo test": {page: "cargo-test(1), 1.80", operand: plainName, flags: "rqv", valued: "pj", long: cargoLong + " no-run no-fail-fast doc test="},
	"pytest":     {page: "pytest 8.2, pytest --help", flags: "qvxsl", valued: "k", long: "exitfirst verbose quiet lf ff collect-only no-header no-summary maxfail= tb= durations="},
}

const (
	gitFlags = "psizRabwWEFMC"
	gitLong  = "oneline stat shortstat numstat dirstat summary graph all decorate no-decorate decorate= author= committer= since= after= until= before= grep= format= pretty pretty= name-only name-status follow " +
		"reverse abbrev-commit abbrev= no-merges merges first-parent date= max-count= skip= branches tags remotes topo-order date-order cached staged patch no-patch no-color color color= word-diff color-words " +
		"unified= ignore-all-space ignore-space-change ignore-blank-lines minimal patience histogram diff-filter= find-renames merge-base exit-code quiet raw full-index no-ext-diff no-textconv"
	goBuild   = "v x n race a trimpath p= tags= mod=readonly mod=vendor"
	cargoLong = "release quiet verbose locked offline frozen workspace all lib bins tests examples benches all-targets all-features no-default-features features= package= bin= jobs= profile="
	plainName = `^[A-Za-z0-9_][A-Za-z0-9_./:-]*$`
)

// families are the programs with subcommands.
var families = map[string]bool{"git": true, "go": true, "npm": true, "cargo": true}

// known returns the entry of the command's program, and the words after the program and its subcommand.
func (c simple) known() (program, []word, bool) {
	name := c.words[0].value
	if dir, base := path.Split(name); dir == "/bin/" || dir == "/usr/bin/" {
		name = base
	}
	rest := c.words[1:]
	if families[name] {
		if len(rest) == 0 || rest[0].dynamic {
			return program{}, nil, false
		}
		name += " " + rest[0].value
		rest = rest[1:]
	}
	p, ok := programs[name]
	return p, rest, ok
}

// harmlessBut says whether the words of a command do no more than what its program is there
// for. Words that the rule itself has count as such, as often as it has them.
func (c simple) harmlessBut(named []string) bool {
	p, words, ok := c.known()
	if !ok { // only the words of the rule itself
		left := slices.Clone(named)
		return !slices.ContainsFunc(c.words[1:], func(w word) bool { return !take(&left, w) })
	}
	if p.check != nil && !p.check(words) {
		return false
	}
	left, operands, rest := slices.Clone(named), 0, false
	for _, w := range words {
		option := !rest && (w.dynamic && !plainPrefix(w.prefix) || strings.HasPrefix(w.value, "-") && w.value != "-")
		switch {
		case take(&left, w), p.any:
		case w.dynamic && (w.many && rest && p.operands > 0 || option):
			return false
		case w.value == "--":
			rest = true
		case option:
			if !p.takes(w.value) {
				return false
			}
		default:
			if operands++; p.operands > 0 && (operands > p.operands || w.many) {
				return false
			}
			if p.operand != "" && (w.dynamic || !expression(p.operand).MatchString(w.value)) {
				return false
			}
		}
	}
	return true
}

// take takes a word out of a list, and says whether it was there.
func take(list *[]string, w word) bool {
	at := slices.IndexFunc(*list, func(s string) bool { return s == w.value || s == spell([]word{w}, true) })
	if at < 0 || w.dynamic {
		return false
	}
	*list = slices.Delete(*list, at, at+1)
	return true
}

// takes says whether a word is one of the options of a program, written out.
func (p *program) takes(option string) bool {
	name := strings.TrimPrefix(option, "-")
	if !p.single {
		long, is := strings.CutPrefix(option, "--")
		if !is {
			return p.takesShort(name) || p.also != "" && expression(p.also).MatchString(option)
		}
		name = long
	}
	known := strings.Fields(p.long)
	if slices.Contains(known, name) {
		return true
	}
	key, _, attached := strings.Cut(name, "=")
	return slices.Contains(known, key+"=") || p.single && !attached && slices.Contains(known, name) || p.single && p.also != "" && expression(p.also).MatchString(option)
}

// takesShort reports whether the letters after a dash are options; the last one may have a number.
func (p *program) takesShort(letters string) bool {
	for i, c := range letters {
		if strings.ContainsRune(p.valued, c) {
			return i+1 == len(letters) || digits(letters[i+1:])
		}
		if !strings.ContainsRune(p.flags, c) {
			return false
		}
	}
	return true
}

var digits = has(`^[0-9][0-9.,]*$`)

// noSignatures says that nothing asks for signatures, which another program verifies.
func noSignatures(words []word) bool {
	return !slices.ContainsFunc(words, func(w word) bool { return strings.Contains(w.value, "%G") })
}

// tarLists says whether the first word of tar is the letters with which it lists an
// archive; they need no dash.
func tarLists(words []word) bool {
	return len(words) > 0 && listing(words[0].value)
}

var listing = has(`^-?[vzjJ]*t[vzjJ]*f?$`)

// awkOnlyPrints says whether words of awk have nothing by which it starts a program or
// writes a file: no call, no pipe, no redirection, none of gawk's directives.
func awkOnlyPrints(words []word) bool {
	return !slices.ContainsFunc(words, func(w word) bool { return w.dynamic || strings.ContainsAny(w.value, "(|>@") })
}

// readers are commands of which a star may stand for the arguments in an answer of
// "always": they are known, and do nothing but read.
var readers = []string{"git status", "git diff", "git log", "git show", "git blame", "ls", "rg", "grep", "wc"}

// plainPrefix says that a word that begins so is no option.
func plainPrefix(p string) bool { return p != "" && p[0] != '-' }

var expressions sync.Map // of texts: *regexp.Regexp

// expression compiles an expression once.
func expression(text string) *regexp.Regexp {
	if e, ok := expressions.Load(text); ok {
		return e.(*regexp.Regexp)
	}
	e := regexp.MustCompile(text)
	expressions.Store(text, e)
	return e
}

// has says whether a text has an expression, which is compiled for the first text: most
// processes judge none.
func has(expression string) func(string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
	return func(text string) bool { return compiled().MatchString(text) }
}
