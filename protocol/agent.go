package protocol

import (
	"encoding/json"
	"slices"
	"strings"
)

// Agent is a kind of session that the task tool starts: what its prompt says and
// what it may do.
type Agent struct {
	Name        string
	Aliases     []string // other programs' names for it
	Description string   // for the model that chooses one
	Source      AgentSource
	Path        string // of its file, "" for a bundled one
	Prompt      string

	Tools      []string // names of ours; nil is all that the ceiling allows
	Disallowed []string // taken away from those
	Spawns     []string // agents that it may start itself; ["*"] is all, nil is none

	Models []string      // patterns, the first that is available counts; ModelInherit is the parent's; nil is that, too
	Level  ThinkingLevel // "" is the parent's

	Output    json.RawMessage // what it hands over, in the subset of JSON Schema that tools check; nil is anything
	Isolated  bool            // always works in a workspace of its own
	NoContext bool            // is not shown AGENTS.md and CLAUDE.md

	MaxTurns *int64 // answers of its model; nil is no limit, 0 allows nothing
	Limits   BudgetLimits
}

// AgentSource is where an agent comes from.
type AgentSource string

// Sources of agents.
const (
	AgentBundled AgentSource = "bundled"
	AgentUser    AgentSource = "user"
	AgentProject AgentSource = "project"
)

// ModelInherit stands for the parent's model in the list of an agent.
const ModelInherit = "inherit"

// SpawnsAll stands for every agent in Spawns.
const SpawnsAll = "*"

// Agents are those that a session knows, each name once, the preferred ones first.
type Agents []Agent

// Named finds an agent by its name, or else by another program's name for it.
func (a Agents) Named(name string) (Agent, bool) {
	i := slices.IndexFunc(a, func(b Agent) bool { return b.Name == name })
	if i < 0 {
		i = slices.IndexFunc(a, func(b Agent) bool { return slices.Contains(b.Aliases, name) })
	}
	if i < 0 {
		return Agent{}, false
	}
	return a[i], true
}

// Names lists the names in alphabetical order, for people.
func (a Agents) Names() string {
	var names []string
	for _, agent := range a {
		names = append(names, agent.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// MaySpawn says whether the agent may start another one, or one of its own kind.
func (a Agent) MaySpawn(name string) bool {
	return slices.Contains(a.Spawns, SpawnsAll) || slices.Contains(a.Spawns, name)
}

// Forbids returns the name of a limit of the agent that lets none of its children ask a model; "" if
// none does.
func (a Agent) Forbids() string {
	none := func(n *int64) bool { return n != nil && *n == 0 }
	switch {
	case none(a.MaxTurns):
		return "maxTurns"
	case none(a.Limits.MaxWallTimeMs):
		return "maxWallTimeMs"
	case none(a.Limits.MaxToolCalls):
		return "maxToolCalls"
	case none(a.Limits.MaxTotalTokens):
		return "maxTotalTokens"
	case a.Limits.MaxCostUSD != nil && *a.Limits.MaxCostUSD == 0:
		return "maxCostUsd"
	}
	return ""
}
