package policy

import (
	"path"
	"slices"
	"strings"
)

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

// wrapper says how a program that starts another one is written: the options that it
// has, and how many words of its own follow.
type wrapper struct {
	flags, valued string // letters of short options, without a value and with one
	long          string // options with two dashes; with a = those that take a value
	own           int
	assigns       bool // words with a = before the program set variables
	through       bool // it does nothing but start another program, which rules that allow judge instead
}

// wrappers are as in GNU coreutils 9.1, findutils 4.9, util-linux 2.38, time 1.9, sudo
// 1.9.13, OpenDoas 6.8 and bash 5.2, each by its manual page. An option that is not
// here hides what is started.
var wrappers = map[string]wrapper{
	"nice":    {flags: "0123456789", valued: "n", long: "adjustment=", through: true},
	"nohup":   {through: true},
	"timeout": {flags: "fpv", valued: "ks", long: "kill-after= signal= preserve-status foreground verbose", own: 1, through: true},
	"stdbuf":  {valued: "ioe", long: "input= output= error=", through: true},
	"setsid":  {flags: "cfw", long: "ctty fork wait", through: true},
	"time":    {flags: "apqvV", valued: "fo", long: "append portability quiet verbose format= output="},
	"sudo": {flags: "AbBEHikKlnNPSsvV", valued: "CDghpRrTtuU", assigns: true, long: "askpass background bell preserve-env set-home login list non-interactive preserve-groups stdin shell " +
		"user= group= host= prompt= chdir= chroot= command-timeout= other-user= role= type= close-from="},
	"doas":    {flags: "Lns", valued: "uC", assigns: true},
	"env":     {flags: "iv0", valued: "uCa", assigns: true, long: "ignore-environment null debug unset= chdir= argv0="},
	"xargs":   {flags: "0oprtxeil", valued: "adEILnPs", long: "null open-tty interactive no-run-if-empty verbose exit arg-file= delimiter= max-args= max-procs= max-chars="},
	"command": {flags: "pvV"}, "builtin": {}, "exec": {flags: "cl", valued: "a"}, "busybox": {},
	"ionice": {flags: "t", valued: "cn", long: "ignore class= classdata="},
	"chroot": {own: 1, long: "skip-chdir userspec= groups="}, "unshare": {flags: "imnpuUCTfrc"},
	"strace": {flags: "cCdDfFhikqrtTvVwxyYzZ", valued: "aAbeEIoOpPsSuUX"},
}

// starters run other programs, in ways that are not followed.
var starters = map[string]bool{
	"parallel": true, "entr": true, "watch": true, "script": true, "flock": true, "su": true, "runuser": true, "nsenter": true, "taskset": true, "chrt": true,
	"setarch": true, "linux64": true, "linux32": true, "i386": true, "x86_64": true, "uname26": true, "prlimit": true, "setpriv": true, "capsh": true,
	"ssh-agent": true, "valgrind": true, "perf": true, "dbus-run-session": true, "start-stop-daemon": true, "systemd-run": true, "fakeroot": true,
	"firejail": true, "bwrap": true, "rlwrap": true, "unbuffer": true, "ltrace": true, "gdb": true, "lldb": true, "choom": true,
}

var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "zsh": true, "ksh": true}

// lookBehind finds what a command starts. It shows rules that limit more than the
// command itself; rules that allow see no more than they did.
func (r *reader) lookBehind(c simple) {
	head := path.Base(c.words[0].value)
	rest := c.words[1:]
	if w, wraps := wrappers[head]; wraps {
		if head == "exec" || head == "builtin" || head == "command" {
			r.s.veil("it changes what the shell does")
		}
		r.unwrap(head, w, rest)
		return
	}
	switch {
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
		r.s.homeless = true
	case starters[head]:
		r.s.conceal("it starts another program")
	case strange[head] && !strictSet[c.text]:
		r.s.veil("it changes what the shell does")
		r.s.calculates, r.s.homeless = true, true // the names that it is given may have subscripts
		r.s.lost = r.s.lost || head == "pushd" || head == "popd"
	case shells[head]:
		r.shell(rest)
	case head == "find":
		r.findActions(rest)
	case head == "printf" && printsIntoVariable(rest):
		r.s.compute()
	case head == "wait" && slices.ContainsFunc(rest, func(w word) bool { return w.many || strings.HasPrefix(w.value, "-") }):
		r.s.compute() // wait -p sets a variable
	case head == "test" || head == "[":
		r.tested(rest)
	}
}

// countInto is a directive of printf that stores the number of characters in a variable.
var countInto = has(`%[-+ #0-9.*'$hlLjztq]*n`)

// printsIntoVariable says whether words of printf set a variable: by -v, or by %n.
func printsIntoVariable(words []word) bool {
	if len(words) > 0 && words[0].value == "--" {
		words = words[1:]
	} else if len(words) > 0 && strings.HasPrefix(words[0].value, "-v") {
		return true
	}
	return len(words) > 0 && (words[0].dynamic || countInto(words[0].value))
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
	r.s.read(strings.Join(texts, " "), r.depth+1, r.again)
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
func (r *reader) unwrap(name string, w wrapper, words []word) {
	own := w.own
	for len(words) > 0 {
		first := words[0]
		if first.dynamic {
			r.s.hide("it starts what is not known")
			return
		}
		taken := 0
		switch v := first.value; {
		case v == "--":
			taken = 1
		case strings.HasPrefix(v, "-"):
			taken = r.wrapperOption(name, w, v)
		case w.assigns && assignment(v):
			if variable, _, _ := strings.Cut(v, "="); !harmless[variable] {
				r.s.altered, r.s.homeless = true, true
			}
			taken = 1
		case own > 0:
			own--
			taken = 1
		}
		if taken == 0 {
			r.add(simple{words: slices.Clone(words)}, true, r.again)
			return
		}
		words = words[min(taken, len(words)):]
	}
}

// wrapperOption is how many words an option of a wrapper takes.
func (r *reader) wrapperOption(name string, w wrapper, option string) int {
	if option == "-" { // of env
		r.strange(name, "i")
	}
	if long, is := strings.CutPrefix(option, "--"); is {
		long, _, attached := strings.Cut(long, "=")
		options := strings.Fields(w.long)
		r.strange(name, long)
		switch {
		case slices.Contains(options, long+"="):
			if attached {
				return 1
			}
			return 2
		case slices.Contains(options, long) && (!attached || long == "preserve-env"):
			return 1
		}
		r.s.conceal("it is not known what " + name + " does with " + option)
		return 1
	}
	for i, letter := range option[1:] {
		switch {
		case strings.ContainsRune(w.valued, letter):
			r.strange(name, string(letter))
			if i+2 < len(option) {
				return 1
			}
			return 2
		case !strings.ContainsRune(w.flags, letter):
			r.s.conceal("it is not known what " + name + " does with " + option)
			return 1
		case name == "xargs" && strings.ContainsRune("eil", letter):
			return 1 // what follows in the same word is a value
		}
		r.strange(name, string(letter))
	}
	return 1
}

// strange notes options of wrappers that change more than how a program runs: the
// directory, the environment, a file.
func (r *reader) strange(name, option string) {
	switch name + " " + option {
	case "env C", "env chdir", "sudo D", "sudo chdir", "sudo R", "sudo chroot":
		r.s.altered, r.s.lost = true, true
	case "env i", "env ignore-environment", "env u", "env unset", "sudo i", "sudo login", "sudo H", "sudo set-home":
		r.s.altered, r.s.homeless = true, true
	}
}

// assignment says whether env, sudo or doas takes a word for a variable and its value.
func assignment(v string) bool { return strings.Contains(v, "=") }

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
					r.add(simple{words: slices.Clone(words[i+1 : end])}, true, r.again)
				}
			}
		}
	}
}
