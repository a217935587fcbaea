package session

import (
	"slices"

	"troupe/actors/link"
	"troupe/protocol"
	"troupe/tools"
	"troupe/tools/policy"
)

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
			return s, protocol.CodeInvalidParams.Errorf("sandbox: %s", err)
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
	return s.Open(tools.Sandbox{}.With(spec.Places)), nil
}
