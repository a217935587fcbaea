package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/protocol/extension"
	"troupe/providers"
)

// What jobs ask extensions about, before they do what they are for. Each question is
// asked only if somebody listens.

// Context is what extensions make of the messages that a model is to be shown.
func (t *Tools) Context(ctx context.Context, messages []protocol.Message) []protocol.Message {
	const name = "context"
	var r struct {
		Messages *[]json.RawMessage `json:"messages"`
	}
	by, ok := t.says(ctx, name, map[string]any{"type": name, "messages": rawMessages(messages)}, &r)
	if !ok || r.Messages == nil {
		return messages
	}
	out, err := messagesOf(*r.Messages)
	if err != nil {
		t.misread(name, by, err)
		return messages
	}
	return out
}

// ContextWithSystem is what extensions make of a request whose system prompt is the first
// message. They say what the model is told; the tools stay what they are.
func (t *Tools) ContextWithSystem(ctx context.Context, req *providers.Request) {
	const name = "context_with_system"
	tools := []map[string]any{}
	for _, tool := range req.Tools {
		tools = append(tools, map[string]any{"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters})
	}
	head := protocol.JSON(map[string]any{"role": "system", "content": req.System, "toolsAdded": tools, "timestamp": time.Now().UnixMilli()})
	var r struct {
		Messages *[]json.RawMessage `json:"messages"`
	}
	messages := append([]json.RawMessage{head}, rawMessages(req.Messages)...)
	by, ok := t.says(ctx, name, map[string]any{"type": name, "messages": messages}, &r)
	if !ok || r.Messages == nil {
		return
	}
	var system []string
	rest, err := messagesOf(slices.DeleteFunc(*r.Messages, func(raw json.RawMessage) bool {
		var s struct{ Role, Content string }
		is := json.Unmarshal(raw, &s) == nil && s.Role == "system"
		if is {
			system = append(system, s.Content)
		}
		return is
	}))
	if err != nil {
		t.misread(name, by, err)
		return
	}
	req.System, req.Messages = strings.Join(system, "\n\n"), rest
}

// says asks extensions and reads what they say; not ok if there is nothing that can be read.
// Why they have no answer is said by whoever runs them. by is the one that spoke last.
func (t *Tools) says(ctx context.Context, name string, event map[string]any, v any) (by string, ok bool) {
	d, err := t.ask(ctx, event)
	if err != nil {
		return "", false
	}
	if err := unmarshal(d.Result, v); err != nil {
		t.misread(name, d.Path, err)
		return "", false
	}
	return d.Path, true
}

// misread reports an answer that makes no sense. It changes nothing.
func (t *Tools) misread(name, by string, err error) {
	t.report(extension.Failure{Path: cmp.Or(by, "<runtime>"), Event: name, Message: name + ": " + err.Error()})
}

// unmarshal reads an answer; none leaves v as it is.
func unmarshal(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// UserBash is what extensions say to a command of the client: its result, if one of
// them ran it, or why it must not run.
func (t *Tools) UserBash(ctx context.Context, command, cwd string, exclude bool) (*protocol.BashResult, error) {
	const name = "user_bash"
	d, err := t.ask(ctx, map[string]any{"type": name, "command": command, "cwd": cwd, "excludeFromContext": exclude})
	if err != nil {
		return nil, err
	}
	var r struct {
		Result     *protocol.BashResult `json:"result"`
		Operations json.RawMessage      `json:"operations"`
		Block      bool                 `json:"block"` // a handler threw, so nobody has said yes
		Reason     string               `json:"reason"`
	}
	if err := unmarshal(d.Result, &r); err != nil {
		t.misread(name, d.Path, err)
		return nil, fmt.Errorf("%s: %s: %w", name, cmp.Or(d.Path, "<runtime>"), err)
	}
	if r.Block {
		return nil, errors.New(bounded(cmp.Or(r.Reason, "user_bash: the command was blocked")))
	}
	if r.Result == nil && len(r.Operations) > 0 && string(r.Operations) != "null" {
		return nil, fmt.Errorf("user_bash: operations of an extension are not available in this host; it can return a result")
	}
	return r.Result, nil
}

// BeforeCompact asks extensions about a compaction: they may make it themselves, or
// not let it be. Nil and false leave it to a model.
func (t *Tools) BeforeCompact(ctx context.Context, k *worker.Compactor, enabled bool) (made *protocol.Compaction, cancelled bool) {
	const name = "session_before_compact"
	lists := k.FilesOf(slices.Concat(k.Cut.History, k.Cut.Prefix))
	preparation := map[string]any{
		"firstKeptEntryId": k.Cut.FirstKept, "messagesToSummarize": rawMessages(k.Cut.History), "turnPrefixMessages": rawMessages(k.Cut.Prefix),
		"isSplitTurn": len(k.Cut.Prefix) > 0, "tokensBefore": k.Tokens,
		"fileOps":  map[string]any{"read": lists.ReadFiles, "written": []string{}, "edited": lists.ModifiedFiles},
		"settings": map[string]any{"enabled": enabled, "reserveTokens": k.Reserve, "keepRecentTokens": k.Keep},
	}
	if k.Cut.Previous != "" {
		preparation["previousSummary"] = k.Cut.Previous
	}
	event := map[string]any{"type": name, "preparation": preparation, "reason": k.Ask.Reason, "willRetry": k.Ask.Retries}
	if k.Ask.Instructions != "" {
		event["customInstructions"] = k.Ask.Instructions
	}
	var r struct {
		Cancel     bool `json:"cancel"`
		Compaction *struct {
			Summary          string          `json:"summary"`
			FirstKeptEntryID string          `json:"firstKeptEntryId"`
			TokensBefore     int64           `json:"tokensBefore"`
			Details          json.RawMessage `json:"details"`
			Usage            *protocol.Usage `json:"usage"`
		} `json:"compaction"`
	}
	if _, ok := t.says(ctx, name, event, &r); !ok || r.Cancel || r.Compaction == nil {
		return nil, r.Cancel
	}
	c := r.Compaction
	return &protocol.Compaction{
		Summary: c.Summary, FirstKeptEntryID: cmp.Or(c.FirstKeptEntryID, k.Cut.FirstKept), TokensBefore: cmp.Or(c.TokensBefore, k.Tokens),
		Details: c.Details, Usage: c.Usage, FromHook: true,
	}, false
}

// Trust asks extensions whether they trust the project of a working directory: "yes",
// "no", or something else for no opinion.
func (t *Tools) Trust(ctx context.Context, cwd string) string {
	const name = "project_trust"
	var r struct {
		Trusted string `json:"trusted"`
	}
	t.says(ctx, name, map[string]any{"type": name, "cwd": cwd}, &r)
	return r.Trusted
}

// Leave tells extensions that another session takes the place of theirs. What their
// handlers do until it returns is done in the session that is left.
func (t *Tools) Leave(ctx context.Context, reason, target string) {
	event := map[string]any{"type": "session_shutdown", "reason": reason}
	if target != "" {
		event["targetSessionFile"] = target
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit) // whatever has become of their process
	defer cancel()
	_, _ = t.ask(ctx, event) // nobody can keep the session
}

// Resources are the paths of what extensions bring along for a person to lay out.
type Resources struct{ Skills, Prompts []string }

// Discover asks extensions for resources. reason is startup or reload.
func (t *Tools) Discover(ctx context.Context, cwd, reason string) Resources {
	const name = "resources_discover"
	type found struct{ Path, ExtensionPath string }
	var r struct{ SkillPaths, PromptPaths []found }
	t.says(ctx, name, map[string]any{"type": name, "cwd": cwd, "reason": reason}, &r)
	paths := func(list []found) (out []string) {
		for _, f := range list {
			if !filepath.IsAbs(f.Path) && !strings.HasPrefix(f.Path, "~") {
				f.Path = filepath.Join(filepath.Dir(f.ExtensionPath), f.Path)
			}
			out = append(out, f.Path)
		}
		return out
	}
	return Resources{paths(r.SkillPaths), paths(r.PromptPaths)}
}

// messagesOf reads messages of extensions.
func messagesOf(list []json.RawMessage) ([]protocol.Message, error) {
	out := make([]protocol.Message, len(list))
	for i, raw := range list {
		var err error
		if out[i], err = protocol.DecodeExactMessage(raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rawMessages are messages as extensions see them.
func rawMessages(messages []protocol.Message) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.AppendJSON(nil)
	}
	return list
}

// BeforeSwitch says whether extensions want the session to stay, when a command is
// about to replace it or to go elsewhere in it. name is the event's, "" for a command
// that does neither.
func BeforeSwitch(cmd protocol.Command, more Replacing) (name string, event map[string]any) {
	switch cmd := cmd.(type) {
	case protocol.NewSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "new"}
	case protocol.SwitchSession:
		return "session_before_switch", map[string]any{"type": "session_before_switch", "reason": "resume", "targetSessionFile": cmd.SessionPath}
	case protocol.Fork:
		position := "before"
		if more.At {
			position = "at"
		}
		return "session_before_fork", map[string]any{"type": "session_before_fork", "entryId": cmd.EntryID, "position": position}
	case protocol.Clone:
		return "session_before_fork", map[string]any{"type": "session_before_fork", "position": "at"}
	case protocol.NavigateTree:
		return "session_before_tree", map[string]any{"type": "session_before_tree", "preparation": map[string]any{
			"targetId": cmd.TargetID, "userWantsSummary": cmd.Summarize, "customInstructions": cmd.CustomInstructions,
			"replaceInstructions": cmd.ReplaceInstructions, "label": cmd.Label,
		}}
	default:
		return "", nil
	}
}

// Vetoes says whether extensions say {cancel: true} to the event of a name.
func (t *Tools) Vetoes(ctx context.Context, name string, event map[string]any) bool {
	var r struct {
		Cancel bool `json:"cancel"`
	}
	t.says(ctx, name, event, &r)
	return r.Cancel
}

// BeforeTree asks extensions about a navigation: they may cancel it, change what it
// says about its summary, or make that themselves.
func (t *Tools) BeforeTree(ctx context.Context, cmd protocol.NavigateTree, leaf string) (cancelled bool, changed protocol.NavigateTree, made *protocol.BranchSummary) {
	name, event := BeforeSwitch(cmd, Replacing{})
	event["preparation"].(map[string]any)["oldLeafId"] = leaf
	var r struct {
		Cancel  bool `json:"cancel"`
		Summary *struct {
			Summary string          `json:"summary"`
			Details json.RawMessage `json:"details"`
			Usage   *protocol.Usage `json:"usage"`
		} `json:"summary"`
		Instructions *string `json:"customInstructions"`
		Replace      *bool   `json:"replaceInstructions"`
		Label        *string `json:"label"`
	}
	if _, ok := t.says(ctx, name, event, &r); !ok || r.Cancel {
		return r.Cancel, cmd, nil
	}
	changed = cmd
	if r.Instructions != nil {
		changed.CustomInstructions = *r.Instructions
	}
	if r.Replace != nil {
		changed.ReplaceInstructions = *r.Replace
	}
	if r.Label != nil {
		changed.Label = *r.Label
	}
	if s := r.Summary; s != nil && cmd.Summarize {
		made = &protocol.BranchSummary{FromID: leaf, Summary: s.Summary, Details: s.Details, Usage: s.Usage, FromHook: true}
	}
	return false, changed, made
}
