package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// Access is how much a project may bring. More includes less.
type Access uint8

const (
	ContextOnly Access = iota // context files; what pi 1.x loads of a project that is not trusted
	Texts                     // all text, and settings that cannot run programs, change endpoints, relax limits or grant anything
	Everything                // the project is trusted
)

// Effect is what a part of a project can do to the person who opens it.
type Effect uint8

const (
	Context   Effect = iota // it is text for the model that every version of pi loads
	Text                    // it is text for the model or the person
	Tunes                   // it changes how the project's sessions work, and does none of what follows
	Starts                  // it runs programs
	Redirects               // it sends the conversation, or what is kept of it, elsewhere
	Loosens                 // it takes away a limit, a rule or a question of the user's
	Widens                  // it gives the model or a program more: tools, files, variables
	Reserved                // it is for the user to say: no project says it, trusted or not
	Tightens                // it can only take away from what a session may do
)

var effectWords = map[Effect]string{
	Starts: "starts programs", Redirects: "redirects", Loosens: "loosens", Widens: "widens",
	Context: "context", Tightens: "tightens", Text: "text", Tunes: "tunes", Reserved: "is for the user's settings",
}

func (e Effect) String() string { return effectWords[e] }

// Needs is the access that lets a part with this effect in.
func (e Effect) Needs() Access {
	switch e {
	case Context, Tightens:
		return ContextOnly
	case Text, Tunes:
		return Texts
	}
	return Everything
}

// Part is one thing that a project, or the user in the agent directory, may
// bring: a key of settings.json with all that is below it, or a file or
// directory.
type Part struct {
	Key    string // of settings.json, dotted
	Path   string // of a file or directory below the working directory
	Agent  string // of the same below the agent directory, "" for nowhere
	Effect Effect
	// Missing says what this version would need to obey it; "" for nothing. It is
	// named on stderr where somebody has it.
	Missing string
	// Screen marks what only matters on a screen, which there is none of.
	Screen bool
	// Harmless says whether a value of a key does the contrary of the effect: it
	// tightens or narrows, so that no trust is needed. Nil is never.
	Harmless func(v gjson.Result) bool
}

// Name is how a part is called in messages and in get_state.
func (p Part) Name() string { return p.Key + p.Path }

// What this version does not have yet.
const (
	installing = "installing packages"
	checking   = "isolation and verification of tasks"
	tasks      = "parts of the task tool"
	mcp        = "MCP servers"
	rulesOf    = "permission rules"
	sockets    = "WebSockets to providers"
)

// Parts are the one table that says what a project may contribute, whatever the
// transport: each part with what it can do. A part that is not in it does not
// load, so whoever adds a kind of configuration adds its row; a setting that is obeyed has
// it in [Settings.fields].
func Parts() []Part { return parts() }

var parts = sync.OnceValue(func() []Part { return slices.Concat(files, settingParts()) })

// files are the parts that are files, and the settings that this version does not obey.
var files = []Part{
	// texts
	{Path: "AGENTS.override.md", Effect: Context},
	{Path: "AGENTS.md", Effect: Context},
	{Path: "AGENTS.MD", Effect: Context},
	{Path: "CLAUDE.md", Effect: Context},
	{Path: "CLAUDE.MD", Effect: Context},
	{Path: ".pi/SYSTEM.md", Effect: Text},
	{Path: ".pi/APPEND_SYSTEM.md", Effect: Text},
	{Path: ".pi/prompts", Effect: Text},
	{Path: ".pi/skills", Effect: Text},
	{Path: ".agents/skills", Effect: Text},
	{Path: ".pi/rules", Effect: Text},
	{Path: ".omp/rules", Effect: Text},
	{Path: ".pisces/rules", Effect: Text},
	{Path: ".claude/rules", Effect: Text},
	{Path: ".cursor/rules", Effect: Text},
	{Path: ".pi/agents", Agent: "agents", Effect: Text},
	{Path: ".pi/commands", Agent: "commands", Effect: Text, Missing: "prompts under their old name"},
	{Path: ".pi/themes", Effect: Text, Screen: true},

	// programs, and who is asked before they run
	{Path: ".pi/extensions", Effect: Starts},
	{Path: ".pi/hooks", Effect: Starts},
	{Path: ".pi/tools", Effect: Starts},
	{Path: ".omp/extensions", Effect: Starts},
	{Path: ".omp/hooks", Effect: Starts},
	{Path: ".omp/tools", Effect: Starts},
	{Path: ".pi/npm", Effect: Starts},
	{Path: ".pi/git", Effect: Starts},
	{Path: ".pi/mcp.json", Agent: "mcp.json", Effect: Starts, Missing: mcp},
	{Path: ".mcp.json", Effect: Starts, Missing: mcp},
	{Path: ".pi/permissions.json", Effect: Tightens},
	{Path: ".pi/models.json", Effect: Redirects, Missing: "models of a project"},
	{Path: ".pi/auth.json", Effect: Redirects, Missing: "keys of a project"},
	{Key: "npmCommand", Effect: Starts, Missing: installing},
	{Key: "mcpServers", Effect: Starts, Missing: mcp},
	{Key: "mcp", Effect: Starts, Missing: mcp},
	{Key: "permissions.deny", Effect: Tunes, Missing: rulesOf},
	{Key: "permissions.ask", Effect: Tunes, Missing: rulesOf},
	{Key: "permissions", Effect: Loosens, Missing: rulesOf},
	{Key: "task.batch", Effect: Tunes, Missing: tasks},
	{Key: "retry.maxDelayMs", Effect: Tunes, Missing: "Cloud Code"},
	{Key: "websockets", Effect: Tunes, Missing: sockets},
	{Key: "transport", Effect: Tunes, Missing: sockets},
	{Key: "websocketConnectTimeoutMs", Effect: Tunes, Missing: sockets},
	{Key: "cacheWarming", Effect: Tunes, Missing: sockets},
}

// onScreen are settings that only matter on a screen.
var onScreen = []string{
	"theme", "themes", "quietStartup", "hideThinkingBlock", "showCacheMissNotices", "externalEditor",
	"doubleEscapeAction", "treeFilterMode", "tuiMode", "fullscreenExitOutput", "fullscreenScrollbar",
	"fullscreenCopyOnSelect", "editorPaddingX", "outputPad", "autocompleteMaxVisible", "showHardwareCursor", "terminal",
	"markdown", "warnings", "collapseChangelog", "lastChangelogVersion", "enableInstallTelemetry", "enableAnalytics",
	"branchSummary.skipPrompt",
}

// settingParts are the rows of settings.
func settingParts() (list []Part) {
	for _, f := range Defaults().fields("", User) {
		if !slices.ContainsFunc(files, func(p Part) bool { return p.Key == f.key }) {
			list = append(list, Part{Key: f.key, Effect: f.effect, Harmless: f.harmless})
		}
	}
	for _, key := range onScreen {
		list = append(list, Part{Key: key, Screen: true})
	}
	return list
}

func is(want bool) func(gjson.Result) bool {
	return func(v gjson.Result) bool { return v.IsBool() && v.Bool() == want }
}

func atMost(n float64) func(gjson.Result) bool {
	return func(v gjson.Result) bool { return v.Type == gjson.Number && v.Num <= n }
}

func atLeast(n float64) func(gjson.Result) bool {
	return func(v gjson.Result) bool { return v.Type == gjson.Number && v.Num >= n }
}

// onlyTakesAway says whether a list of tools only takes from the user's.
func onlyTakesAway(v gjson.Result) bool {
	names, err := stringList(v)
	return err == nil && !slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "-") })
}

// admitted says whether a project with this access may bring a value of a key.
func (p Part) admitted(access Access, v gjson.Result) bool {
	return p.Effect.Needs() <= access || access >= Texts && p.Harmless != nil && p.Harmless(v)
}

// partOf finds the row of a key: its own, or that of what it is in.
func partOf(key string) (Part, bool) {
	for {
		if i := slices.IndexFunc(parts(), func(p Part) bool { return p.Key == key && key != "" }); i >= 0 {
			return parts()[i], true
		}
		dot := strings.LastIndexByte(key, '.')
		if dot < 0 {
			return Part{}, false
		}
		key = key[:dot]
	}
}

// holdsParts says whether a key has rows of its own below it.
func holdsParts(key string) bool {
	return slices.ContainsFunc(parts(), func(p Part) bool { return strings.HasPrefix(p.Key, key+".") })
}

// Consent is what the command line says of projects.
type Consent uint8

const (
	Unsaid   Consent = iota
	Approved         // --approve
	Refused          // --no-approve
)

// Policy is what decides about a project beside what is saved in the agent
// directory.
type Policy struct {
	Consent Consent
	// Run is who trusts the project for this run: TrustedByExtension, TrustedByAnswer, ""
	// for nobody.
	Run string
	// Above is what holds for the session above it: of a copy of the project nobody has said
	// anything. nil for a session of its own.
	Above *protocol.ProjectTrust
	// Budget is what the command line says of limits, as settings; nil for nothing.
	Budget []byte
	// Strict: of a project that is not trusted nothing but context files load, as
	// in pi 1.x.
	Strict bool
}

// Who may trust a project for a run.
const (
	TrustedByExtension = "project_trust" // an extension of the user
	TrustedByAnswer    = "dialog"        // a client that was asked
)

// Words of the setting defaultProjectTrust.
const (
	trustAsk    = "ask" // clients of serve are asked; until somebody answers it is not trusted
	trustAlways = "always"
	trustNever  = "never"
)

// Decide says how much a project may bring, and who decided it: the command
// line, else the session above it, else an extension, else a decision saved for the working directory or the nearest directory
// above it, in our own store and then in pi's, else the user's setting
// defaultProjectTrust. A store that cannot be read trusts nobody: it may have
// said no.
func Decide(d Dirs, p Policy, setting string) (access Access, by string, found []Problem) {
	refused := Texts
	if p.Strict {
		refused = ContextOnly
	}
	switch p.Consent {
	case Approved:
		return Everything, "--approve", nil
	case Refused: // whoever says so means what pi means by it
		return ContextOnly, "--no-approve", nil
	case Unsaid:
	}
	if p.Above != nil {
		if p.Above.Trusted {
			return Everything, p.Above.DecidedBy, nil
		}
		return refused, p.Above.DecidedBy, nil
	}
	if p.Run != "" {
		return Everything, p.Run, nil
	}
	cwd := real(d.Cwd)
	for _, file := range []string{filepath.Join(d.Agent, "troupe", "trust.json"), filepath.Join(d.Agent, "trust.json")} {
		yes, decided, err := saved(file, cwd)
		switch {
		case err != nil:
			return refused, file, []Problem{{Path: file, Err: fmt.Errorf("%w: no project is trusted", err)}}
		case decided && yes:
			return Everything, file, nil
		case decided:
			return refused, file, nil
		}
	}
	if setting == trustAlways {
		return Everything, "defaultProjectTrust", nil
	}
	return refused, "defaultProjectTrust", nil
}

// saved looks a directory up in a store: an object of absolute directories
// without symbolic links, each true, false or null for undecided.
func saved(file, dir string) (yes, decided bool, err error) {
	src, err := read(file, protocol.MaxSettingsFile)
	if isAbsent(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	tree, problem := parse(file, []byte(src))
	if problem != nil {
		return false, false, problem.Err
	}
	said := map[string]gjson.Result{}
	tree.ForEach(func(key, v gjson.Result) bool {
		if !v.IsBool() && v.Type != gjson.Null {
			err = fmt.Errorf("%s is neither true nor false", key.Str)
		}
		said[key.Str] = v
		return err == nil
	})
	if err != nil {
		return false, false, err
	}
	for ; filepath.IsAbs(dir); dir = filepath.Dir(dir) {
		if v := said[dir]; v.IsBool() {
			return v.Bool(), true, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false, false, nil
}

// partsPresent looks which files and directories of the table there are: those
// of the project that d.Access does not let in, those that this version does not
// obey, of the project and of the user.
func partsPresent(d Dirs) (leftOut, notObeyed []string) {
	in := d.take("")
	there := map[string]bool{}
	inDir := func(part string) bool { // most projects have none of the directories that parts lie in
		dir, _, is := strings.Cut(part, "/")
		if _, known := there[dir]; is && !known {
			there[dir] = exists(filepath.Join(d.Cwd, dir))
		}
		return !is || there[dir]
	}
	for _, p := range files {
		if p.Path == "" || p.Screen {
			continue
		}
		path := filepath.Join(d.Cwd, p.Path)
		if inDir(p.Path) && holdsSomething(path) && !d.isUsers(path) {
			if p.Effect.Needs() > d.Access || in.leadsOut(path) {
				leftOut = append(leftOut, p.Name())
			}
			if p.Missing != "" {
				notObeyed = append(notObeyed, fmt.Sprintf("%s (%s)", path, p.Missing))
			}
		}
		if user := filepath.Join(d.Agent, p.Agent); p.Agent != "" && p.Missing != "" && holdsSomething(user) {
			notObeyed = append(notObeyed, fmt.Sprintf("%s (%s)", user, p.Missing))
		}
	}
	return leftOut, notObeyed
}

// isUsers says whether a path of the project is the user's own, as it is for who
// works at home.
func (d Dirs) isUsers(path string) bool {
	return below(d.Agent, path) || d.Home != "" && below(filepath.Join(d.Home, ".agents"), path)
}

// holdsSomething says whether there is a file, or a directory with something in
// it. Old pis kept the programs fd and rg where custom tools lie.
func holdsSomething(path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return err == nil
	}
	entries, more, _ := bounded.ReadDir(path, 100)
	return more || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name()[0] != '.' && e.Name() != "fd" && e.Name() != "rg"
	})
}
