package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Task is about the task tool and about what a session and its children may use up.
type Task struct {
	Enabled             *bool             // nil: by the client's dialect and what else is configured
	MaxRecursionDepth   int64             // 2; levels of children; -1: no limit
	MaxConcurrency      int64             // 32 children of a call at once; 0: no limit
	MaxRuntimeMs        int64             // of a child; 0: no limit
	SoftRequestBudget   int64             // 200 requests after which a child is asked to end; 0: never
	AgentModelOverrides map[string]string // models by agent
	DisabledAgents      []string
	Isolation           Isolation
	Verification        protocol.VerifySettings
	Budget              protocol.BudgetSettings
	Mentioned           bool // a key of these is set, and not just a limit of what any session uses up, somewhere that counts
}

// Isolation is about the workspaces of tasks.
type Isolation struct {
	Enabled  bool     // false
	Merge    string   // patch, branch
	Apply    bool     // true; false leaves it to the user
	Commits  string   // generic, ai
	Carry    []string // ignored directories that a workspace is given
	CarryBy  string   // clone, symlink, copy
	MaxBytes int64    // of files that git does not track, in all and each; 0: 1 GiB and 50 MiB
	Base     string   // the directory of workspaces; "" is that of the cache
	KeepDays int64    // 7; how long work that could not be merged is kept
}

func defaultTask() Task {
	return Task{
		MaxRecursionDepth: 2, MaxConcurrency: 32, SoftRequestBudget: 200,
		Isolation:    Isolation{Merge: "patch", Apply: true, Commits: "generic", Carry: []string{"node_modules", ".venv", "venv"}, CarryBy: "clone", KeepDays: 7},
		Verification: protocol.VerifySettings{MaxRetries: 1, ContextLines: 200},
		Budget:       protocol.BudgetSettings{WarnAtRatio: 0.8},
	}
}

// fields are the keys below task. What a project limits cannot be more than what the
// user allows.
func (t *Task) fields(location Location) []field {
	l, v, iso := &t.Budget.Limits, &t.Verification, &t.Isolation
	project := location == Project
	list := []field{
		{"task.enabled", optionalBool(&t.Enabled), Widens, is(false)},
		{"task.maxRecursionDepth", integer(&t.MaxRecursionDepth, -1), Loosens, nil},
		{"task.maxConcurrency", count(&t.MaxConcurrency), Loosens, nil},
		{"task.maxRuntimeMs", count(&t.MaxRuntimeMs), Loosens, nil},
		{"task.softRequestBudget", count(&t.SoftRequestBudget), Loosens, nil},
		{"task.agentModelOverrides", merge(&t.AgentModelOverrides, anyText), Redirects, nil},
		{"task.disabledAgents", t.disable, Tunes, nil},

		{"task.isolation.mode", iso.mode, Loosens, nil},
		{"task.isolation.enabled", boolean(&iso.Enabled), Loosens, is(true)},
		{"task.isolation.merge", oneOf(&iso.Merge, "patch", "branch"), Loosens, nil},
		{"task.isolation.apply", boolean(&iso.Apply), Loosens, is(false)},
		{"task.isolation.commits", oneOf(&iso.Commits, "generic", "ai"), Loosens, nil},
		{"task.isolation.carry", strs(&iso.Carry), Widens, nil},
		{"task.isolation.carryBy", oneOf(&iso.CarryBy, "clone", "symlink", "copy"), Widens, nil},
		{"task.isolation.maxBytes", count(&iso.MaxBytes), Loosens, nil},
		{"task.isolation.base", str(&iso.Base), Redirects, nil},
		{"task.isolation.keepDays", count(&iso.KeepDays), Loosens, nil},

		{"task.verification.enabled", boolean(&v.Enabled), Loosens, is(true)},
		{"task.verification.defaultProfile", str(&v.DefaultProfile), Starts, nil},
		{"task.verification.requireForIsolated", boolean(&v.RequireForIsolated), Loosens, is(true)},
		{"task.verification.maxRetries", upTo(&v.MaxRetries, protocol.MaxRepairs), Loosens, atMost(1)},
		{"task.verification.failureContextLineLimit", count(&v.ContextLines), Tunes, nil},
		{"task.verification.captureAfter", boolean(&v.CaptureAfter), Tunes, nil},
		{"task.verification.baseline", boolean(&v.Baseline), Tunes, nil},
		{"task.verification.profiles", merge(&v.Profiles, validProfile), Starts, nil},

		// A limit of a project only counts where it is lower than the user's.
		{"task.budget.maxWallTimeMs", limit(&l.MaxWallTimeMs, project), Tunes, nil},
		{"task.budget.maxInputTokens", limit(&l.MaxInputTokens, project), Tunes, nil},
		{"task.budget.maxOutputTokens", limit(&l.MaxOutputTokens, project), Tunes, nil},
		{"task.budget.maxTotalTokens", limit(&l.MaxTotalTokens, project), Tunes, nil},
		{"task.budget.maxCostUsd", limit(&l.MaxCostUSD, project), Tunes, nil},
		{"task.budget.maxToolCalls", limit(&l.MaxToolCalls, project), Tunes, nil},
		{"task.budget.maxSubagents", limit(&l.MaxSubagents, project), Tunes, nil},
		{"task.budget.warnAtRatio", t.warnAt, Tunes, nil},
		{"task.budget.reserveOutput", count(&t.Budget.ReserveOutput), Loosens, nil},
		{"task.budget.strict", t.strict, Loosens, is(true)},
		{"task.budget.requirePrice", optionalBool(&t.Budget.RequirePrice), Loosens, is(true)},
	}
	for i, f := range list {
		list[i].set = func(v gjson.Result) error {
			err := f.set(v)
			limits := strings.HasPrefix(f.key, "task.budget.") && f.key != "task.budget.maxSubagents"
			t.Mentioned = t.Mentioned || err == nil && !limits
			return err
		}
	}
	return list
}

// tooHigh says that a project wants a limit above the user's.
type tooHigh struct{ limit any }

func (e tooHigh) Error() string {
	return fmt.Sprintf("a project may lower the user's limit, not raise it: %v stays", e.limit)
}

// limit takes a number, or null for none. A project only lowers it.
func limit[N int64 | float64](dst **N, project bool) func(gjson.Result) error {
	return func(v gjson.Result) error {
		if v.Type == gjson.Null {
			if project && *dst != nil {
				return tooHigh{**dst}
			}
			*dst = nil
			return nil
		}
		n := N(v.Num)
		if v.Type != gjson.Number || float64(n) != v.Num || !(v.Num >= 0) || v.Num > maxSafeInteger {
			return fmt.Errorf("want a %s of at least 0, or null", kindOf(n))
		}
		if project && *dst != nil && n > **dst {
			return tooHigh{**dst}
		}
		*dst = &n
		return nil
	}
}

func kindOf(n any) string {
	if _, isFloat := n.(float64); isFloat {
		return "number"
	}
	return "whole number"
}

// upTo takes whole numbers within a bound.
func upTo(dst *int64, most int64) func(gjson.Result) error {
	return func(v gjson.Result) error {
		var n int64
		if err := count(&n)(v); err != nil || n > most {
			return fmt.Errorf("want a whole number from 0 to %d", most)
		}
		*dst = n
		return nil
	}
}

func optionalBool(dst **bool) func(gjson.Result) error {
	return func(v gjson.Result) error {
		var on bool
		if err := boolean(&on)(v); err != nil {
			return err
		}
		*dst = &on
		return nil
	}
}

func anyText(string) error { return nil }

func validProfile(p protocol.VerifyProfile) error {
	if why := p.Wrong(); why != "" {
		return fmt.Errorf("%s", why)
	}
	return nil
}

// disable adds to the agents that are switched off: whoever comes later switches
// none on again.
func (t *Task) disable(v gjson.Result) error {
	list, err := stringList(v)
	for _, name := range list {
		if !slices.Contains(t.DisabledAgents, name) {
			t.DisabledAgents = append(slices.Clip(t.DisabledAgents), name)
		}
	}
	return err
}

// mode takes other programs' names for ways to isolate: how it is done is our own
// matter.
func (i *Isolation) mode(v gjson.Result) error {
	var mode string
	if err := oneOf(&mode, "none", "worktree", "fuse-overlay", "fuse-projfs", "auto")(v); err != nil {
		return err
	}
	i.Enabled = mode != "none"
	return nil
}

func (t *Task) warnAt(v gjson.Result) error {
	if v.Type != gjson.Number || math.IsNaN(v.Num) || v.Num <= 0 || v.Num > 1 {
		return fmt.Errorf("want a number above 0, at most 1")
	}
	t.Budget.WarnAtRatio = v.Num
	return nil
}

func (t *Task) strict(v gjson.Result) error {
	var strict bool
	if err := boolean(&strict)(v); err != nil {
		return err
	}
	t.Budget.Lax = !strict
	return nil
}

// omp reads what another program's configuration in a directory says of tasks. The
// rest of it is that program's.
func omp(dir string, location Location, found *problems) layer {
	l := layer{path: filepath.Join(dir, "omp.jsonc"), base: dir, location: location}
	l.read(found)
	l.only = "task"
	return l
}

// applyOmp applies the project's file of that kind: that of the nearest directory up
// to the root of the repository.
func (s *Settings) applyOmp(d Dirs, in *intake, access Access, found *problems) {
	for _, dir := range upToRepository(d.Cwd) {
		for _, dir := range []string{dir, filepath.Join(dir, ".pi")} {
			path := filepath.Join(dir, "omp.jsonc")
			switch {
			case !exists(path) || path == filepath.Join(d.Agent, "omp.jsonc"):
				continue
			case in.leadsOut(path):
				found.add(path, errLeadsOut)
				s.leaveOut("omp.jsonc")
				return
			}
			l := omp(dir, Project, found)
			l.access = access
			*found = append(*found, s.apply(l)...)
			return
		}
	}
}

// concerns says whether a key of a layer counts at all.
func (l layer) concerns(key string) bool {
	return l.only == "" || key == l.only || strings.HasPrefix(key, l.only+".")
}
