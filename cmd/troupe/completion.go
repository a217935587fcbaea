package main

import (
	"embed"
	"slices"
	"strings"

	"troupe/providers"
)

// completionScripts teach a shell to ask "troupe completion words" for the words that can follow. They contain no
// table of their own.
//
//go:embed completion.bash completion.zsh completion.fish
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

// completionWords is the argument with which the scripts of shells call troupe completion.
const completionWords = "words"

// Words of a completion that stand for names of files and directories, which the shell completes itself.
const (
	completeFiles = ":files"
	completeDirs  = ":dirs"
)

// completion is troupe completion.
func completion(args []string) int {
	if len(args) > 0 && args[0] == completionWords {
		words := args[1:]
		if len(words) > 0 && words[0] == "--" {
			words = words[1:]
		}
		var text strings.Builder
		for _, c := range complete(words) {
			text.WriteString(c.word)
			if c.doc != "" {
				text.WriteString("\t" + c.doc)
			}
			text.WriteString("\n")
		}
		return show(text.String())
	}
	words, err := arguments("completion", args, nil)
	if err != nil {
		return exitCode(err)
	}
	script, err := completionScripts.ReadFile("completion." + words[0])
	if err != nil {
		return exitCode(wrong("completion", badValue("completion", words[0], wanted(either(shells)))))
	}
	return show(string(script))
}

// candidate is a word that may stand where a completion is asked for.
type candidate struct{ word, doc string }

// complete returns the candidates for the last of some words. Bash splits words at "=", the other shells do not.
func complete(words []string) (list []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	all := commands()
	given, last := words[:len(words)-1], words[len(words)-1]
	before := "" // the flag and "=" before the value, in a shell that does not split there
	if name, v, inline := strings.Cut(last, "="); inline && strings.HasPrefix(name, "-") {
		before, given, last = name+"=", append(slices.Clone(given), name), v
	}
	if last == "=" {
		last = ""
	} else if len(given) > 1 && given[len(given)-1] == "=" {
		given = given[:len(given)-1]
	}
	c, arguments, open := parseGiven(given, all)
	switch {
	case slices.Contains(given, "--"):
		return nil
	case open != nil:
		list = open.completions()
	case strings.HasPrefix(last, "-"):
		list = c.flagCompletions()
	default:
		list = c.wordCompletions(arguments, all)
	}
	list = slices.DeleteFunc(list, func(c candidate) bool {
		return !strings.HasPrefix(c.word, ":") && !strings.HasPrefix(c.word, last)
	})
	for i := range list {
		if !strings.HasPrefix(list[i].word, ":") {
			list[i].word = before + list[i].word
		}
	}
	return list
}

// parseGiven finds the command that some words belong to, its arguments so far, and the flag whose value comes
// next, nil for none.
func parseGiven(given []string, all []command) (c *command, arguments []string, open *flag) {
	c = &all[0]
	var verbs []string
	for i, word := range given {
		switch {
		case open != nil && word != "=":
			open = nil
		case word == "=":
		case strings.HasPrefix(word, "-"):
			if open = flagNamed(word, c.allSections()); open != nil && open.arg == "" {
				open = nil
			}
		case i > 0 && len(verbs) == 0: // a prompt
			arguments = append(arguments, word)
		default:
			verbs = append(verbs, word)
			if found, n := find(verbs, all); found != nil {
				c, arguments = found, verbs[n:]
			} else {
				arguments = verbs
			}
		}
	}
	return c, arguments, open
}

// allSections returns the flags that a command accepts.
func (c *command) allSections() (list []section) {
	if c.sections != nil {
		list = c.sections()
	}
	if c.rpc {
		list = append(list, accepted(new(options).sections(), c.only)...)
	}
	return list
}

func (f *flag) completions() (list []candidate) {
	for _, choice := range f.value.choices {
		list = append(list, candidate{choice, ""})
	}
	if list == nil {
		list = fileCompletions(f.arg)
	}
	return list
}

// fileCompletions says by the placeholder of a value whether the shell completes files or directories.
func fileCompletions(placeholder string) []candidate {
	switch {
	case strings.HasPrefix(placeholder, "DIR"):
		return []candidate{{completeDirs, ""}}
	case slices.ContainsFunc([]string{"FILE", "PATH", "SOCKET", "SOURCE"}, func(word string) bool { return strings.Contains(placeholder, word) }):
		return []candidate{{completeFiles, ""}}
	}
	return nil
}

func (c *command) flagCompletions() (list []candidate) {
	for _, s := range c.allSections() {
		for _, f := range s.flags {
			doc, _, _ := strings.Cut(f.doc, ". ")
			for name := range strings.SplitSeq(f.names, ", ") {
				if strings.HasPrefix(name, "--") {
					list = append(list, candidate{name, strings.TrimSuffix(doc, ".")})
				}
			}
		}
	}
	if !slices.ContainsFunc(list, func(c candidate) bool { return c.word == "--help" }) {
		list = append(list, candidate{"--help", "Print the help of this command"})
	}
	return list
}

// wordCompletions returns the words that may follow the arguments of a command.
func (c *command) wordCompletions(arguments []string, all []command) (list []candidate) {
	var start []string
	if c.name != "" {
		start = strings.Fields(c.name)
	}
	if c.name == "help" { // its arguments are the words of another command
		start = nil
	}
	start = append(start, arguments...)
	for i := range all {
		words := strings.Fields(all[i].name)
		if len(words) <= len(start) || !slices.Equal(words[:len(start)], start) {
			continue
		}
		word, doc := words[len(start)], strings.TrimSuffix(all[i].summary, ".")
		if len(words) > len(start)+1 {
			doc = ""
		}
		if !slices.ContainsFunc(list, func(c candidate) bool { return c.word == word }) {
			list = append(list, candidate{word, doc})
		}
	}
	if c.choices != nil && len(arguments) == 0 {
		for _, choice := range c.choices() {
			list = append(list, candidate{choice, ""})
		}
	}
	if names := strings.Fields(c.args); c.name != "" && len(arguments) < len(names) {
		list = append(list, fileCompletions(names[len(arguments)])...)
	}
	return list
}

// providerNames are the providers that troupe knows.
func providerNames() (names []string) {
	for _, v := range providers.Vendors {
		if v.ID != providers.ScriptedAPI && v.Now == "" {
			names = append(names, v.ID)
		}
	}
	return names
}
