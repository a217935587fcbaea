package session

import (
	"encoding/json"
	"slices"

	"troupe/protocol"
	words "troupe/protocol/extension"
)

// snapshot is what extensions may read of the session at any time.
type snapshot struct {
	changing
	ActiveTools []string          `json:"activeTools"`
	Scoped      []json.RawMessage `json:"scopedModels,omitempty"`    // at the beginning
	Models      json.RawMessage   `json:"models,omitempty"`          // at the beginning
	Available   json.RawMessage   `json:"availableModels,omitempty"` // likewise
	Settings    json.RawMessage   `json:"settings,omitempty"`        // likewise
}

// changing is what of a snapshot changes while a session is at work. It can be compared: it is
// taken for every hook, and seldom another one.
type changing struct {
	Cwd         string                 `json:"cwd"`
	SessionID   string                 `json:"sessionId"`
	SessionFile string                 `json:"sessionFile,omitempty"`
	SessionName orNull                 `json:"sessionName"`
	Model       shownModel             `json:"model"`
	Level       protocol.ThinkingLevel `json:"thinkingLevel"`
	Idle        bool                   `json:"idle"`
	Running     bool                   `json:"running"`
	Pending     int                    `json:"pending"`
	LeafID      orNull                 `json:"leafId"`
	Trusted     bool                   `json:"trusted"`
	Usage       contextUsage           `json:"contextUsage"`
}

// seen is the snapshot that extensions have. What is in it beside what changes is as old as tooling.
type seen struct {
	changing
	tooling *byte
}

// orNull is a text that may be missing.
type orNull string

func (t orNull) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

type shownModel struct{ model *protocol.Model }

func (m shownModel) MarshalJSON() ([]byte, error) {
	if m.model == nil {
		return []byte("null"), nil
	}
	return modelJSON(m.model), nil
}

// contextUsage is nothing without a model whose window is known.
type contextUsage struct{ tokens, window int64 }

func (u contextUsage) MarshalJSON() ([]byte, error) {
	if u.window <= 0 {
		return []byte("null"), nil
	}
	return json.Marshal(map[string]any{"tokens": u.tokens, "contextWindow": u.window, "percent": 100 * float64(u.tokens) / float64(u.window)})
}

// shownTool is a tool as extensions see it.
type shownTool struct {
	protocol.ToolInfo
	Guidelines []string             `json:"promptGuidelines,omitempty"`
	Source     *protocol.SourceInfo `json:"sourceInfo,omitempty"`
}

// toolsShown are all tools, with where they come from.
func (s *Session) toolsShown() []shownTool {
	infos := s.box().Infos()
	list := make([]shownTool, len(infos))
	for i, info := range infos {
		source := &protocol.SourceInfo{Path: "builtin:" + info.Name, Source: "builtin", Scope: "temporary", Origin: "top-level"}
		if path := s.ext.tools.PathOf(info.Name); path != "" {
			source = s.sourceOf(path)
		}
		list[i] = shownTool{info, info.Guidelines, source}
	}
	return list
}

// changing takes that part of a snapshot.
func (s *Session) changing() changing {
	st := s.m.State()
	now := changing{
		Cwd: s.work.cwd, SessionID: st.SessionID, SessionFile: s.file.path, SessionName: orNull(s.m.Name()),
		Model: shownModel{st.Model}, Level: st.ThinkingLevel, Idle: s.m.Idle(), Running: st.IsStreaming, Pending: s.m.Pending(),
		LeafID: orNull(s.file.Leaf()), Trusted: s.work.trusted(),
	}
	if m := st.Model; m != nil {
		now.Usage = contextUsage{s.m.ContextTokens(), m.ContextWindow}
	}
	return now
}

// snapshot takes one; whole has what hardly changes, too.
func (s *Session) snapshot(whole bool) json.RawMessage {
	snap := snapshot{changing: s.changing(), ActiveTools: s.m.ActiveTools()}
	if whole {
		for _, scoped := range s.work.settings.Scope {
			snap.Scoped = append(snap.Scoped, modelJSON(scoped.Model))
		}
		snap.Settings = s.work.files.Given
		catalog := s.catalog()
		snap.Models, snap.Available = protocol.AppendValue(nil, catalog.Models), protocol.AppendValue(nil, catalog.Available())
	}
	raw := protocol.JSON(snap)
	raw = append(raw[:len(raw)-1], ',')
	return append(raw, s.tooling()...)
}

// update shows the extensions what they may read at any time, if it has changed.
func (s *Session) update() {
	if now := (seen{s.changing(), &s.tooling()[0]}); now != s.ext.seen {
		s.ext.seen = now
		s.ext.send(words.Update{Snapshot: s.snapshot(false)})
	}
}

// tooling is what a snapshot says of tools and commands. It is large, and is made again only when
// something of what it is made of is another: a snapshot is taken for every hook.
type tooling struct {
	active  []string
	hosts   []protocol.HostTool
	prompts *promptResources
	regs    int
	made    []byte // members of the snapshot, and its end
}

func (s *Session) tooling() []byte {
	t, active, hosts, prompts := &s.ext.tooling, s.m.ActiveTools(), s.m.HostTools(), s.work.prompts.get()
	sameHosts := len(t.hosts) == len(hosts) && (len(hosts) == 0 || &t.hosts[0] == &hosts[0])
	if t.made != nil && sameHosts && t.prompts == prompts && t.regs == s.ext.regs && slices.Equal(t.active, active) {
		return t.made
	}
	raw := protocol.JSON(struct {
		Tools        []shownTool     `json:"tools"`
		Commands     json.RawMessage `json:"commands"`
		SystemPrompt string          `json:"systemPrompt"`
	}{s.toolsShown(), protocol.AppendValue(nil, s.commandList().Commands), s.systemPrompt()})
	*t = tooling{slices.Clone(active), hosts, prompts, s.ext.regs, raw[1:]}
	return t.made
}

func modelJSON(m *protocol.Model) json.RawMessage {
	if m == nil {
		return nil
	}
	return protocol.AppendValue(nil, m)
}

// systemPrompt is the one in force.
func (s *Session) systemPrompt() string {
	return s.work.prompts.get().system(s.box().Select(s.m.ActiveTools()))
}

// promptOptions are what it is made of.
func (s *Session) promptOptions() json.RawMessage {
	return protocol.JSON(s.work.prompts.get().options(s.box().Select(s.m.ActiveTools())))
}
