package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Reference describes, as Markdown, what a project may bring and what of it and
// of the user's configuration this version does not obey.
func Reference() []byte {
	var w bytes.Buffer
	w.WriteString(referenceHead)
	w.WriteString("\n| what it can do | without trust | parts: keys of `.pi/settings.json`, files and directories |\n|---|---|---|\n")
	for _, row := range []struct {
		effect  Effect
		does    string
		without string
	}{
		{Context, "text for the model, in every version of pi", "loads"},
		{Tightens, "only takes away from what a session may do", "counts, whatever is trusted"},
		{Text, "text for the model or the person", "loads; not in `pi1` and not with `--no-approve`"},
		{Tunes, "changes how the project's sessions work", "loads; not in `pi1` and not with `--no-approve`"},
		{Starts, "starts programs", "left out"},
		{Redirects, "sends the conversation, or what is kept of it, elsewhere", "left out"},
		{Loosens, "takes away a limit, a rule or a question", "left out, but for values that do the contrary"},
		{Widens, "gives the model or a program more: tools, files, variables", "left out, but for values that do the contrary"},
		{Reserved, "is for the user to say", "left out, with trust as well"},
	} {
		fmt.Fprintf(&w, "| %s | %s | %s |\n", row.does, row.without, listed(func(p Part) bool { return !p.Screen && p.Effect == row.effect }, Part.Name))
	}
	w.WriteString("| links out of the repository, or out of the working directory if it is in none | left out | whatever they are called |\n")
	w.WriteString("| queued input of a session file that is in none of the user's session directories | left out, with trust as well | `troupe.queue` |\n")
	w.WriteString("\n### Configuration that this version does not obey\n\nNamed on stderr where somebody has it, the user in the agent directory included.\n\n| what is missing | settings, files and directories |\n|---|---|\n")
	var missing []string
	for _, p := range Parts() {
		if p.Missing != "" && !slices.Contains(missing, p.Missing) {
			missing = append(missing, p.Missing)
		}
	}
	for _, what := range missing {
		fmt.Fprintf(&w, "| %s | %s |\n", what, listed(func(p Part) bool { return p.Missing == what }, Part.everywhere))
	}
	fmt.Fprintf(&w, "\nWithout a screen these mean nothing, and nothing is said of them: %s.\n", listed(func(p Part) bool { return p.Screen }, Part.Name))
	return w.Bytes()
}

// everywhere is a part's name, with where the user may have it.
func (p Part) everywhere() string {
	if p.Agent == "" {
		return p.Name()
	}
	return p.Name() + "`, `<agentDir>/" + p.Agent
}

// listed lists parts as code.
func listed(which func(Part) bool, name func(Part) string) string {
	var list []string
	for _, p := range Parts() {
		if which(p) {
			list = append(list, "`"+name(p)+"`")
		}
	}
	return strings.Join(list, ", ")
}

const referenceHead = `
## What a project may bring

Opening a repository runs none of its code. One table (` + "`config.Parts`" + `) lists what ` + "`.pi`" + ` and other files of a project may
contain, and what each part could do. In a project that is not trusted, troupe loads only text, and settings that cannot
run programs, change endpoints, relax limits or grant anything. What is left out is named once on stderr and in
` + "`get_state`" + ` (member ` + "`project`" + `).

The first of these decides whether a project is trusted:

1. the flags ` + "`--approve`" + ` and ` + "`--no-approve`" + `, for all sessions of the run
2. ` + "`<agentDir>/troupe/trust.json`" + `
3. pi's ` + "`<agentDir>/trust.json`" + `
4. the user's setting ` + "`defaultProjectTrust`" + `, which ` + "`open_session`" + ` may also set: ` + "`always`" + `, ` + "`never`" + `, or ` + "`ask`" + `, which means
   no until a client decides

A trust.json is an object of absolute directories without symbolic links: ` + "`{\"/home/me/work\": true}`" + `. Values are true,
false or null. The nearest directory at or above the working directory counts. If the file cannot be read, no project is
trusted. troupe never writes pi's file. ` + "`troupe serve`" + ` writes its own: the first session in a directory without a decision
shows its clients an ` + "`extension_ui_request`" + ` of the method ` + "`select`" + `, once. Trust takes effect when the active run has
ended. No answer means no trust.

Settings of ` + "`open_session`" + ` are the client's own words and need no trust. A project's proxy and timeouts hold for its own sessions.
`
