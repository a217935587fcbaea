package session

import (
	"errors"
	"slices"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store/config"
	"troupe/tools"
	"troupe/tools/policy"
)

// readPermissions reads what the user's and the project's permissions.json say of a
// session.
func (h *Shared) readPermissions(dirs config.Dirs) *policy.Set {
	place := policy.Place{Cwd: dirs.Cwd, Home: dirs.Home, Own: []string{dirs.Agent}, Tools: append(h.Tools.Names(), core.TodoTool), Real: tools.RealPath}
	var files []policy.File
	for _, f := range config.PermissionFiles(dirs) {
		files = append(files, policy.File{Path: f.Path, Content: f.Content, Err: f.Err, Tightens: f.Project})
	}
	set := policy.Load(place, files...)
	for _, text := range set.Problems() {
		h.complaints.about(errors.New(text))
	}
	if set.Mode("") != policy.Auto || len(set.Rules()) > 0 {
		h.complaints.about(errors.New("permissions.json: of what it says this version obeys sandbox and sandboxNetwork"))
	}
	return set
}

// sandbox is what programs of a session are kept from: the strictest of what the command
// line, the permission files and open_session say.
func (h *Shared) sandbox(spec link.OpenSpec, asked policy.Sandbox, cwd string) (tools.Sandbox, *protocol.Error) {
	s := h.Sandbox
	s.Workspace = cwd
	for _, word := range []string{asked.Files, spec.Sandbox} {
		files, err := tools.ParseSandbox(word)
		if word == "" {
			continue
		}
		if err != nil {
			return s, protocol.CodeInvalidParams.Errorf("%s", err)
		}
		s.Files = tools.StricterSandbox(s.Files, files)
	}
	s.NoNetwork = s.NoNetwork || slices.Contains([]string{asked.Network, spec.SandboxNetwork}, "off")
	if !s.On() {
		return tools.Sandbox{}, nil
	}
	if err := s.Check(); err != nil {
		return s, protocol.CodeUnsupported.Errorf("Session needs a sandbox: %s", err)
	}
	return s, nil
}
