package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"troupe/protocol"
)

// verifyPlan is what the work of an item has to pass.
type verifyPlan struct {
	Profile   string // "" for commands of the call alone
	Commands  []protocol.VerifyCommand
	OnFailure string
	Repairs   int    // that the agent may try
	Note      string // what of the call was not obeyed, for its result
}

// wantedVerify is what a call says as an object.
type wantedVerify struct {
	Profile *string `json:"profile"`
	protocol.VerifyProfile
	Lsp  json.RawMessage `json:"lspDiagnostics"`
	Lsp2 json.RawMessage `json:"lsp"`
}

// planVerify says how the work of a call's items is checked: nil if it is not, or why
// the call is refused. What the user requires is neither dropped nor loosened by a
// call, which may only add commands.
func planVerify(raw json.RawMessage, isolated bool, set *protocol.VerifySettings) (plan *verifyPlan, refusal string) {
	required := set.Enabled && set.RequireForIsolated && isolated
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		if !required {
			return nil, ""
		}
		return requiredPlan(nil, set)
	case string(raw) == "false":
		if !required {
			return nil, ""
		}
		if plan, refusal = requiredPlan(nil, set); refusal == "" {
			plan.Note = "verify: false was not obeyed: the user requires verification of isolated tasks"
		}
		return plan, refusal
	case string(raw) == "true":
		return namedPlan(set.DefaultProfile, required, set)
	case raw[0] == '"':
		name := readText(raw)
		if name == "" {
			name = set.DefaultProfile
		}
		return namedPlan(name, required, set)
	}
	var want wantedVerify
	if json.Unmarshal(raw, &want) != nil || raw[0] != '{' {
		return nil, "Invalid verify: want true, false, the name of a profile, or {profile?, commands?, mode?, maxRetries?, onFailure?}."
	}
	return want.plan(required, set)
}

// BashTool runs commands.
const BashTool = "bash"

// ownChecks are the commands that a call brings itself, to verify what its items do. They
// are the model's words like a call of bash, and nothing that stands against that lets them pass.
func (m *Machine) ownChecks(c *call) []string {
	if c.Name != TaskTool {
		return nil
	}
	_, own := m.set.Tasks.Checks(c.Arguments)
	return own
}

// Checks are the commands that a call of the task tool would have run on what its items
// change, as permission rules judge them: those of the user's profiles, and those that
// the call brings itself.
func (set *TaskSettings) Checks(args json.RawMessage) (profile, own []string) {
	var c taskCall
	if !set.Isolation || json.Unmarshal(MendTask(args, false), &c) != nil {
		return nil, nil
	}
	plan, _ := planVerify(c.Verify, c.isolates(&taskRules{agents: set.Agents, isolation: true}), &set.Verify)
	if plan == nil {
		return nil, nil
	}
	var want wantedVerify
	_ = json.Unmarshal(c.Verify, &want) // else it brings none
	for _, command := range plan.Commands {
		if slices.ContainsFunc(want.Commands, func(w protocol.VerifyCommand) bool { return w.Command == command.Command }) {
			own = append(own, command.Command)
		} else {
			profile = append(profile, command.Command)
		}
	}
	return profile, own
}

// namedPlan is a profile that a call names: beside the required one, if there is one.
func namedPlan(name string, required bool, set *protocol.VerifySettings) (*verifyPlan, string) {
	plan, refusal := profilePlan(name, set)
	switch {
	case refusal != "" || !required:
		return plan, refusal
	case plan == nil || name == set.DefaultProfile:
		return requiredPlan(nil, set)
	}
	return requiredPlan(plan.Commands, set)
}

// requiredPlan is the profile that the user requires, with more commands behind its
// own.
func requiredPlan(more []protocol.VerifyCommand, set *protocol.VerifySettings) (*verifyPlan, string) {
	plan, refusal := profilePlan(set.DefaultProfile, set)
	switch {
	case refusal != "":
		return nil, refusal
	case plan == nil: // it checks nothing
		return nil, unknownProfile(set.DefaultProfile)
	}
	plan.Commands = append(plan.Commands, more...)
	return plan, ""
}

// plan is what an object asks for.
func (w *wantedVerify) plan(required bool, set *protocol.VerifySettings) (*verifyPlan, string) {
	if w.Lsp != nil || w.Lsp2 != nil {
		return nil, "LSP-based task verification is not implemented yet. Use command checks for now."
	}
	if why := w.Wrong(); why != "" {
		return nil, "Invalid verify: " + why + "."
	}
	for i := range w.Commands {
		if w.Commands[i].Name == "" {
			w.Commands[i].Name = fmt.Sprintf("check%d", i+1)
		}
	}
	name := set.DefaultProfile
	if w.Profile != nil && *w.Profile != "" {
		name = *w.Profile
	}
	if required {
		plan, refusal := namedPlan(name, required, set)
		if refusal == "" {
			plan.Commands = append(plan.Commands, w.Commands...)
		}
		return plan, refusal
	}
	if w.Mode == "none" {
		return nil, ""
	}
	p, known := set.Profiles[name]
	if name != "" && !known {
		return nil, unknownProfile(name)
	}
	if w.Commands != nil {
		p.Commands = w.Commands
	}
	if w.OnFailure != "" {
		p.OnFailure = w.OnFailure
	}
	if w.MaxRetries != nil {
		p.MaxRetries = w.MaxRetries
	}
	if w.Mode != "" {
		p.Mode = w.Mode
	}
	return planOf(name, p, set)
}

func unknownProfile(name string) string {
	return fmt.Sprintf("Unknown or invalid verification profile %q.", name)
}

// profilePlan is that of a profile as it stands.
func profilePlan(name string, set *protocol.VerifySettings) (*verifyPlan, string) {
	if name == "" {
		return nil, "Verification requested but no verification profile or commands were provided."
	}
	p, ok := set.Profiles[name]
	if !ok {
		return nil, unknownProfile(name)
	}
	return planOf(name, p, set)
}

func planOf(name string, p protocol.VerifyProfile, set *protocol.VerifySettings) (*verifyPlan, string) {
	switch {
	case p.Mode == "none":
		return nil, ""
	case len(p.Commands) == 0:
		return nil, "Verification requires at least one command. Provide verify.commands or configure task.verification.profiles."
	}
	plan := &verifyPlan{Profile: name, Commands: append([]protocol.VerifyCommand(nil), p.Commands...), OnFailure: p.OnFailure}
	if plan.OnFailure == "" {
		plan.OnFailure = protocol.ReturnFailure
	}
	switch {
	case set.MaxRetries == 0:
	case p.MaxRetries != nil:
		plan.Repairs = int(*p.MaxRetries)
	case plan.OnFailure == protocol.RetryOnce:
		plan.Repairs = int(set.MaxRetries)
	}
	return plan, ""
}
