package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"troupe/protocol"
)

// Agents are what the task tool can start.
type Agents struct {
	List       protocol.Agents
	ProjectDir string // where the project's were found, "" for nowhere
	Own        bool   // somebody has written one for us, beside those of other programs
	Wanted     []WantedTools
}

// WantedTools are tools that the file of an agent names and only an extension can have.
type WantedTools struct {
	Path  string
	Names []string
}

// Unknown is the problem of those among them that nobody has, nil if there are none.
func (w WantedTools) Unknown(has func(name string) bool) []Problem {
	names := slices.DeleteFunc(slices.Clone(w.Names), has)
	if len(names) == 0 {
		return nil
	}
	return []Problem{{Path: w.Path, Err: fmt.Errorf("unknown tools: %s", some(names))}}
}

// LoadAgents finds agents: those of the nearest directory from the working
// directory up to the root of the repository that has some, then the user's, then
// the bundled ones. A project that is not trusted comes last and chooses no models.
// known are the names of the tools that agents may have beside those of extensions.
func LoadAgents(dirs Dirs, known []string) (Agents, []Problem) {
	scan := agentScan{intake: dirs.take("agents"), dirs: dirs, known: known}
	user := scan.userPlaces()
	project := scan.projectPlaces(user)
	switch dirs.Access {
	case Everything:
		scan.places(project)
		scan.places(user)
		scan.bundled()
	case Texts:
		scan.places(user)
		scan.bundled()
		scan.places(project)
	case ContextOnly:
		scan.places(user)
		scan.bundled()
	}
	return scan.found, scan.problems
}

// agentPlace is a directory of agents.
type agentPlace struct {
	place
	own bool // it is for us and not for another program
}

type agentScan struct {
	*intake
	dirs  Dirs
	known []string
	found Agents
}

func (s *agentScan) userPlaces() []agentPlace {
	at := func(own bool, path ...string) agentPlace {
		return agentPlace{place{path: filepath.Join(path...), location: User}, own}
	}
	places := []agentPlace{at(true, s.dirs.Agent, "agents")}
	if home := s.dirs.Home; home != "" {
		places = append(places, at(false, home, ".omp", "agent", "agents"), at(false, home, ".pisces", "agent", "agents"), at(false, home, ".claude", "agents"))
	}
	return places
}

// projectPlaces are those of the nearest directory that has any. Somebody who works
// at home has no project there.
func (s *agentScan) projectPlaces(user []agentPlace) []agentPlace {
	for _, dir := range upToRepository(s.dirs.Cwd) {
		var places []agentPlace
		for _, name := range []string{".pi", ".omp", ".pisces", ".claude"} {
			path := filepath.Join(dir, name, "agents")
			users := slices.ContainsFunc(user, func(u agentPlace) bool { return u.path == path })
			if !users && exists(path) {
				places = append(places, agentPlace{place{path: path, location: Project}, name != ".claude"})
			}
		}
		if len(places) > 0 {
			return places
		}
	}
	return nil
}

func (s *agentScan) places(places []agentPlace) {
	for _, where := range places {
		for _, file := range s.markdownIn(where.place) {
			src, err := s.read(file, where.location)
			if err != nil {
				s.failed(file, err)
				continue
			}
			if where.location == Project && s.found.ProjectDir == "" {
				s.found.ProjectDir = where.path
			}
			// A file of a project that nobody trusts brings an agent, but no tool to start it with.
			s.found.Own = s.found.Own || where.own && (where.location != Project || s.dirs.Access == Everything)
			s.take(file, src, protocol.AgentSource(where.location))
		}
	}
}

// bundled adds the agents that are part of the program.
func (s *agentScan) bundled() {
	if len(s.found.List) == 0 { // as almost everywhere: all sessions share one list
		s.found.List = bundledAgents
		return
	}
	for _, a := range bundledAgents {
		s.put(a, a.Name)
	}
}

// take adds the agent of a file, unless its name is taken.
func (s *agentScan) take(file, src string, source protocol.AgentSource) {
	if s.full {
		return
	}
	if len(src) > protocol.MaxAgentFile {
		s.add(file, fmt.Errorf("larger than %d KiB", protocol.MaxAgentFile>>10))
		return
	}
	a, err := s.agent(file, src, source)
	if err != nil {
		s.add(file, err)
		return
	}
	s.put(a, file)
}

// put adds an agent to those that were found, unless its name is taken.
func (s *agentScan) put(a protocol.Agent, file string) {
	i := slices.IndexFunc(s.found.List, func(b protocol.Agent) bool { return b.Name == a.Name })
	switch {
	case s.full:
		return
	case i >= 0:
		switch taken := s.found.List[i]; {
		case a.Source == protocol.AgentProject && taken.Source != protocol.AgentProject:
			s.add(file, fmt.Errorf("the project is not trusted: there is an agent %s already", a.Name))
		case a.Source != protocol.AgentBundled && filepath.Dir(taken.Path) == filepath.Dir(file):
			s.add(file, fmt.Errorf("there is an agent %s already: %s", a.Name, taken.Path))
		}
		return
	case len(s.found.List) == protocol.MaxAgents:
		s.full = true
		s.add(file, fmt.Errorf("more than %d agents: the rest is left out", protocol.MaxAgents))
		return
	}
	s.found.List = append(s.found.List, a)
}

// agent reads a file. Its error is why there is no agent; what is passed over is a
// problem.
func (s *agentScan) agent(file, src string, source protocol.AgentSource) (a protocol.Agent, err error) {
	head, body := splitFrontmatter(src)
	a = protocol.Agent{
		Name: head.text("name"), Description: protocol.Prefix(strings.TrimSpace(head.text("description")), maxAgentDescription),
		Source: source, Path: file, Prompt: body, NoContext: strings.EqualFold(head.text("contextFiles"), "false"),
	}
	a.Name = cmp.Or(a.Name, strings.TrimSuffix(filepath.Base(file), ".md"))
	switch {
	case !isAgentName(a.Name):
		return a, fmt.Errorf("%q cannot be the name of an agent", a.Name)
	case a.Description == "":
		return a, errors.New("agent without description")
	}
	a.Tools, a.Disallowed = s.tools(file, head, "tools"), s.tools(file, head, "disallowedTools")
	a.Spawns = spawns(head, a.Tools)
	s.models(file, head, &a)
	if a.Output, err = output(head); err != nil {
		return a, err
	}
	if a.Isolated, err = isolated(head); err != nil {
		return a, err
	}
	if err := agentLimits(head, &a); err != nil {
		return a, err
	}
	for _, key := range []string{"hooks", "permissionMode"} { // somebody relies on them
		if _, has := head[key]; has {
			s.add(file, fmt.Errorf("this version does not obey %s of an agent", key))
		}
	}
	return a, nil
}

// maxAgentDescription is what a model is shown of a description, in bytes.
const maxAgentDescription = 1024

// isAgentName says whether a name can stand in a line, in a list and in an id.
func isAgentName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	})
}

// toolNames are the names of tools in Claude Code's files.
var toolNames = map[string]string{
	"Read": "read", "Bash": "bash", "Edit": "edit", "MultiEdit": "edit", "Write": "write",
	"Glob": "find", "Grep": "grep", "LS": "ls", "Task": "task", "Agent": "task",
}

// tools reads a list of tools, by our names. Nil is no list; "*" is none, too.
func (s *agentScan) tools(file string, head frontmatter, key string) []string {
	given := head.texts(key)
	if given == nil || slices.Equal(given, []string{"*"}) && key == "tools" {
		return nil
	}
	list, unknown := []string{}, []string{}
	for _, name := range given {
		if ours, ok := toolNames[name]; ok {
			name = ours
		}
		if slices.Contains(list, name) {
			continue
		}
		list = append(list, name)
		if !slices.Contains(s.known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 && key == "tools" {
		s.found.Wanted = append(s.found.Wanted, WantedTools{file, unknown})
	}
	return list
}

// spawns is what an agent may start: what it says, or everything if it says nothing
// and has the tool.
func spawns(head frontmatter, tools []string) []string {
	list := head.texts("spawns")
	switch {
	case slices.Contains(list, protocol.SpawnsAll), head.bool("recursive"), list == nil && slices.Contains(tools, "task"):
		return []string{protocol.SpawnsAll}
	case len(list) == 0:
		return nil
	}
	return list
}

// models reads which model the agent wants, and how much that is to think. Who is
// not trusted does not say where the conversation goes.
func (s *agentScan) models(file string, head frontmatter, a *protocol.Agent) {
	a.Models = head.texts("model")
	if len(a.Models) == 0 {
		a.Models = nil
	}
	if a.Models != nil && a.Source == protocol.AgentProject && s.dirs.Access < Everything {
		a.Models = nil
		s.add(file, errors.New("the project is not trusted: its agents do not choose models"))
	}
	for _, key := range []string{"thinking", "thinkingLevel", "thinking-level", "effort"} {
		text := strings.ToLower(head.text(key))
		if text == "" {
			continue
		}
		if level := protocol.ThinkingLevel(text); level.Valid() {
			a.Level = level
		} else {
			s.add(file, fmt.Errorf("%s: no thinking level: %s", key, text))
		}
		return
	}
}

// output is the schema of what the agent hands over.
func output(head frontmatter) (json.RawMessage, error) {
	v, has := head["output"]
	switch {
	case !has || !v.nested && v.text == "" && v.list == nil:
		return nil, nil
	case v.json == nil:
		return nil, errors.New("output: want a schema")
	}
	schema, err := protocol.OutputSchema(v.json)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return schema, nil
}

// isolated says whether the agent works in a workspace of its own.
func isolated(head frontmatter) (bool, error) {
	for _, key := range []string{"isolation", "isolated"} {
		switch text := strings.ToLower(head.text(key)); text {
		case "":
		case "true", "worktree":
			return true, nil
		case "false", "none":
			return false, nil
		default:
			return false, fmt.Errorf("%s: want worktree, true, none or false", key)
		}
	}
	return false, nil
}

// agentLimits reads the limits of one child. One that cannot be read leaves the
// agent out: without it a child would have none.
func agentLimits(head frontmatter, a *protocol.Agent) error {
	whole := func(key string, set func(n int64)) error {
		if _, has := head[key]; !has {
			return nil
		}
		n, err := strconv.ParseInt(head.text(key), 10, 64)
		if err != nil || n < 0 || n > maxSafeInteger {
			return fmt.Errorf("%s: want a whole number of at least 0", key)
		}
		set(n)
		return nil
	}
	if _, has := head["maxCostUsd"]; has {
		cost, err := strconv.ParseFloat(head.text("maxCostUsd"), 64)
		if err != nil || !(cost >= 0) || cost > maxSafeInteger {
			return errors.New("maxCostUsd: want a number of at least 0")
		}
		a.Limits.MaxCostUSD = &cost
	}
	return errors.Join(
		whole("maxTurns", func(n int64) { a.MaxTurns = &n }),
		whole("maxTotalTokens", func(n int64) { a.Limits.MaxTotalTokens = &n }),
		whole("maxWallTimeMs", func(n int64) { a.Limits.MaxWallTimeMs = &n }),
		whole("maxToolCalls", func(n int64) { a.Limits.MaxToolCalls = &n }),
	)
}
