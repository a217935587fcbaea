package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

var toolsThereAre = []string{"read", "bash", "edit", "write", "grep", "find", "ls", "task"}

func agentText(more string) string { return "---\ndescription: d\n" + more + "\n---\nDo it." }

// agents loads, and says by name which source each agent has.
func (w world) agents() (Agents, map[string]string, []string) {
	found, problems := LoadAgents(w.dirs, toolsThereAre)
	for _, wanted := range found.Wanted {
		problems = append(problems, wanted.Unknown(func(name string) bool { return name == "look_up" })...)
	}
	from := map[string]string{}
	for _, a := range found.List {
		from[a.Name] = string(a.Source) + " " + w.short(a.Path)
	}
	return found, from, w.told(problems)
}

func TestAgentPlaces(t *testing.T) {
	w := newWorld(t, map[string]string{
		"work/.git/HEAD":                 "x",
		"work/.pi/agents/mine.md":        agentText(""),
		"work/.omp/agents/mine.md":       agentText("name: other"),
		"work/.claude/agents/explore.md": agentText(""),
		"agent/agents/mine.md":           agentText(""),
		"agent/agents/users.md":          agentText(""),
		".claude/agents/claudes.md":      agentText(""),
	})
	found, from, told := w.agents()
	assert.Empty(t, told)
	assert.Equal(t, map[string]string{
		"mine": "project ~/work/.pi/agents/mine.md", "other": "project ~/work/.omp/agents/mine.md", "explore": "project ~/work/.claude/agents/explore.md",
		"users": "user ~/agent/agents/users.md", "claudes": "user ~/.claude/agents/claudes.md",
		"task": "bundled ", "quick_task": "bundled ", "plan": "bundled ", "reviewer": "bundled ",
	}, from)
	assert.Equal(t, "~/work/.pi/agents", w.short(found.ProjectDir))
	assert.True(t, found.Own)

	w.dirs.Access = Texts // not trusted: the user's and ours come first
	_, from, told = w.agents()
	assert.Equal(t, "user ~/agent/agents/mine.md", from["mine"])
	assert.Equal(t, "project ~/work/.omp/agents/mine.md", from["other"])
	assert.Equal(t, "bundled ", from["explore"])
	assert.Equal(t, []string{
		"~/work/.pi/agents/mine.md: the project is not trusted: there is an agent mine already",
		"~/work/.claude/agents/explore.md: the project is not trusted: there is an agent explore already",
	}, told)

	w.dirs.Access = ContextOnly
	found, from, told = w.agents()
	assert.Empty(t, told)
	assert.NotContains(t, from, "other")
	assert.Empty(t, found.ProjectDir)

	// The nearest directory that has some is the only one.
	w.dirs.Access = Everything
	w.write("work/proj/.claude/agents/near.md", agentText(""))
	_, from, _ = w.agents()
	assert.Contains(t, from, "near")
	assert.NotContains(t, from, "other")
}

// Of two agents of one name in a directory the second is said to be left out: nobody can have
// wanted that, other than of two directories.
func TestAgentsOfOneName(t *testing.T) {
	w := newWorld(t, map[string]string{
		"agent/agents/a.md": agentText("name: one"), "agent/agents/b.md": agentText("name: one"), ".claude/agents/one.md": agentText(""),
	})
	_, from, told := w.agents()
	assert.Equal(t, "user ~/agent/agents/a.md", from["one"])
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "~/agent/agents/b.md: there is an agent one already")
}

func TestAgentsOfOthersAlone(t *testing.T) {
	w := newWorld(t, map[string]string{".claude/agents/claudes.md": agentText("")})
	found, _, _ := w.agents()
	assert.False(t, found.Own)
	w.dirs.Cwd = w.home // somebody works at home
	found, from, _ := w.agents()
	assert.Equal(t, "user ~/.claude/agents/claudes.md", from["claudes"])
	assert.Empty(t, found.ProjectDir)
}

func TestBundledAgents(t *testing.T) {
	w := newWorld(t, nil)
	found, _, told := w.agents()
	assert.Empty(t, told)
	assert.Equal(t, "explore, plan, quick_task, reviewer, task", found.List.Names())
	scout, ok := found.List.Named("scout")
	require.True(t, ok)
	assert.Equal(t, "explore", scout.Name)
	assert.Equal(t, []string{"read", "grep", "find", "ls"}, scout.Tools)
	assert.True(t, scout.NoContext)
	task, _ := found.List.Named("task")
	assert.Nil(t, task.Tools)
	assert.True(t, task.MaySpawn("explore"))
	assert.True(t, task.MaySpawn("task"), "its own kind, too")
	quick, _ := found.List.Named("quick_task")
	assert.Nil(t, quick.Spawns)
	reviewer, _ := found.List.Named("reviewer")
	assert.Contains(t, string(reviewer.Output), `"priority":{"enum":["high","medium","low"]}`)
	_, ok = found.List.Named("oracle")
	assert.False(t, ok)
}

func TestAgentFields(t *testing.T) {
	whole := func(n int64) *int64 { return &n }
	cost := 0.5
	base := protocol.Agent{Name: "a", Description: "d", Source: protocol.AgentUser, Prompt: "Do it."}
	for _, c := range []struct {
		head string
		want func(a *protocol.Agent)
		told string
	}{
		{"", func(*protocol.Agent) {}, ""},
		{"tools: Read, Bash,MultiEdit, edit", func(a *protocol.Agent) { a.Tools = []string{"read", "bash", "edit"} }, ""},
		{"tools: [read, WebFetch]", func(a *protocol.Agent) { a.Tools = []string{"read", "WebFetch"} }, "unknown tools: WebFetch"},
		{"tools: [read, look_up]", func(a *protocol.Agent) { a.Tools = []string{"read", "look_up"} }, ""},
		{"tools: [read, look_up, WebFetch]", func(a *protocol.Agent) { a.Tools = []string{"read", "look_up", "WebFetch"} }, "unknown tools: WebFetch"},
		{"tools: Bash(git:*)", func(a *protocol.Agent) { a.Tools = []string{"Bash(git:*)"} }, "unknown tools: Bash(git:*)"},
		{"tools: '*'", func(*protocol.Agent) {}, ""},
		{"tools:", func(a *protocol.Agent) { a.Tools = []string{} }, ""},
		{"disallowedTools: [Write, NotebookEdit]", func(a *protocol.Agent) { a.Disallowed = []string{"write", "NotebookEdit"} }, ""},
		{"tools: Task", func(a *protocol.Agent) { a.Tools, a.Spawns = []string{"task"}, []string{"*"} }, ""},
		{"tools: task\nspawns: explore, plan", func(a *protocol.Agent) { a.Tools, a.Spawns = []string{"task"}, []string{"explore", "plan"} }, ""},
		{"tools: task\nspawns: []", func(a *protocol.Agent) { a.Tools = []string{"task"} }, ""},
		{"recursive: true", func(a *protocol.Agent) { a.Spawns = []string{"*"} }, ""},
		{"model: inherit", func(a *protocol.Agent) { a.Models = []string{"inherit"} }, ""},
		{"model: [haiku, 'x/y:low']", func(a *protocol.Agent) { a.Models = []string{"haiku", "x/y:low"} }, ""},
		{"thinkingLevel: High", func(a *protocol.Agent) { a.Level = protocol.ThinkingHigh }, ""},
		{"effort: much", func(*protocol.Agent) {}, "effort: no thinking level: much"},
		{"output:\n  properties:\n    n: {type: uint8}", func(a *protocol.Agent) {
			a.Output = []byte(`{"additionalProperties":false,"properties":{"n":{"maximum":255,"minimum":0,"type":"integer"}},"required":["n"],"type":"object"}`)
		}, ""},
		{"output:\n  enum: [2020-01-02, '3']", func(a *protocol.Agent) { a.Output = []byte(`{"enum":["2020-01-02","3"]}`) }, ""},
		{"isolation: worktree", func(a *protocol.Agent) { a.Isolated = true }, ""},
		{"isolated: true", func(a *protocol.Agent) { a.Isolated = true }, ""},
		{"contextFiles: false", func(a *protocol.Agent) { a.NoContext = true }, ""},
		{"maxTurns: 7\nmaxCostUsd: 0.5\nmaxTotalTokens: 8\nmaxWallTimeMs: 9\nmaxToolCalls: 0", func(a *protocol.Agent) {
			a.MaxTurns = new(int64(7))
			a.Limits = protocol.BudgetLimits{MaxCostUSD: &cost, MaxTotalTokens: whole(8), MaxWallTimeMs: whole(9), MaxToolCalls: whole(0)}
		}, ""},
		{"hooks:\n  PreToolUse: []", func(*protocol.Agent) {}, "this version does not obey hooks of an agent"},
		{"permissionMode: plan\ncolor: red\nmemory: user", func(*protocol.Agent) {}, "this version does not obey permissionMode of an agent"},
	} {
		w := newWorld(t, map[string]string{"agent/agents/a.md": agentText(c.head)})
		found, _, told := w.agents()
		want := base
		want.Path = w.path("agent/agents/a.md")
		c.want(&want)
		got, ok := found.List.Named("a")
		require.True(t, ok, c.head)
		assert.Equal(t, want, got, c.head)
		if c.told == "" {
			assert.Empty(t, told, c.head)
		} else {
			assert.Equal(t, []string{"~/agent/agents/a.md: " + c.told}, told, c.head)
		}
	}
}

func TestAgentsLeftOut(t *testing.T) {
	for text, why := range map[string]string{
		"---\nname: x\n---\nDo it.":             "agent without description",
		"Do it.":                                "agent without description",
		agentText("name: a b"):                  `"a b" cannot be the name of an agent`,
		agentText("output: yes"):                "output: want a schema",
		agentText("output:\n  type: int64"):     "output: the schema cannot be checked: /: unknown type int64",
		agentText("output: &a\n  elements: *a"): "output: want a schema",
		agentText("output:\n  enum: [" + strings.Repeat("a,", 10_000) + "]"): "output: want a schema",
		agentText("isolation: maybe"):                                        "isolation: want worktree, true, none or false",
		agentText("maxCostUsd: little"):                                      "maxCostUsd: want a number of at least 0",
		agentText("maxCostUsd: nan"):                                         "maxCostUsd: want a number of at least 0",
		agentText("maxToolCalls: -1"):                                        "maxToolCalls: want a whole number of at least 0",
		agentText("x: " + strings.Repeat("y", protocol.MaxAgentFile+1)):      "larger than 256 KiB",
	} {
		w := newWorld(t, map[string]string{"agent/agents/a.md": text})
		_, from, told := w.agents()
		assert.NotContains(t, from, "a")
		assert.Equal(t, []string{"~/agent/agents/a.md: " + why}, told)
	}
}

func TestTooManyAgents(t *testing.T) {
	w := newWorld(t, nil)
	for i := range protocol.MaxAgents + 1 {
		w.write(fmt.Sprintf("agent/agents/a%03d.md", i), agentText(""))
	}
	found, _, told := w.agents()
	assert.Len(t, found.List, protocol.MaxAgents)
	assert.Equal(t, []string{"~/agent/agents/a200.md: more than 200 agents: the rest is left out"}, told)
}

// A project that nobody trusts does not choose models, and is not read through links
// that lead out of it.
func TestAgentsNotTrusted(t *testing.T) {
	w := newWorld(t, map[string]string{
		"work/proj/.pi/agents/a.md": agentText("model: dear/one"),
		"secret/b.md":               agentText(""),
	})
	require.NoError(t, os.Symlink(w.path("secret/b.md"), w.path("work/proj/.pi/agents/b.md")))
	w.dirs.Access = Texts
	found, from, told := w.agents()
	a, ok := found.List.Named("a")
	require.True(t, ok)
	assert.Nil(t, a.Models)
	assert.NotContains(t, from, "b")
	assert.Equal(t, []string{
		"~/work/proj/.pi/agents/a.md: the project is not trusted: its agents do not choose models",
		"~/work/proj/.pi/agents/b.md: a link that leads out of the project, which is not trusted",
	}, told)
	assert.False(t, found.Own, "its agents do not turn the task tool on")
	w.dirs.Access = Everything
	found, _, _ = w.agents()
	assert.True(t, found.Own, "those of a trusted project do")
}
