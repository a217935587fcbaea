package conn

import (
	"cmp"
	"path/filepath"

	"troupe/protocol"
)

// outside refuses a command that names a file where the client may not look. What is named
// relative to a session's working directory has to stay in it.
func (r *router) outside(cmd protocol.Command) *protocol.Error {
	if r.cfg.Allowed == nil {
		return nil
	}
	for _, path := range r.named(cmd) {
		if path == "" || filepath.IsLocal(path) && path[0] != '~' || filepath.IsAbs(path) && r.cfg.Allowed(filepath.Clean(path)) {
			continue
		}
		return protocol.CodeForbidden.Errorf("Clients over the network may name files below the daemon's --root directories only: %s", path)
	}
	return nil
}

// named are the paths that a command names. A command that names files has to be here: see
// TestPathsOverTheNetwork.
func (r *router) named(cmd protocol.Command) []string {
	switch cmd := cmd.(type) {
	case protocol.OpenSession:
		if cmd.SessionPath == "" {
			return []string{cmp.Or(cmd.Cwd, r.cfg.Default.Cwd)}
		}
		return []string{cmd.SessionPath, cmd.Cwd}
	case protocol.AdoptSession:
		return []string{cmd.Cwd}
	case protocol.AttachSession:
		return []string{cmd.SessionPath}
	case protocol.SwitchSession:
		return []string{cmd.SessionPath}
	case protocol.NewSession:
		return []string{cmd.ParentSession}
	case protocol.ExportHTML:
		return []string{cmd.OutputPath}
	case protocol.ListSessions:
		return []string{cmd.SessionDir, cmd.Under}
	case protocol.GetSubagentMessages:
		return []string{cmd.SessionFile}
	case protocol.DeleteSession:
		return []string{cmd.SessionPath}
	case protocol.ListDirectories:
		if cmd.Path == "" {
			return []string{r.cfg.Default.Cwd}
		}
		return []string{cmd.Path}
	default:
		return nil
	}
}
