package conn

import (
	"cmp"
	"path/filepath"
	"strings"

	"troupe/actors/relay"
	"troupe/protocol"
)

// placed is a request whose paths are absolute, once and for all: what no session resolves is
// relative to the directory of the connection. What a session is asked is relative to its own.
func (r *router) placed(req protocol.Request) protocol.Request {
	switch cmd := req.Cmd.(type) {
	case protocol.OpenSession:
		cmd.Cwd, cmd.SessionPath = r.directory(cmd.Cwd), r.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.AdoptSession:
		cmd.Cwd = r.directory(cmd.Cwd)
		req.Cmd = cmd
	case protocol.AttachSession:
		cmd.SessionPath = r.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.DeleteSession:
		cmd.SessionPath = r.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.ListSessions:
		if req.SessionID == "" && r.cfg.MultiSession {
			cmd.SessionDir, cmd.Under = r.absolute(cmd.SessionDir), r.absolute(cmd.Under)
			req.Cmd = cmd
		}
	}
	return req
}

// absolute is a path that a client names, "" for none.
func (r *router) absolute(path string) string {
	if path == "" {
		return ""
	}
	if rest, home := strings.CutPrefix(path, "~"); home && (rest == "" || rest[0] == '/') {
		path = filepath.Join(r.server.Home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.cfg.Default.Cwd, path)
	}
	return filepath.Clean(path)
}

// directory is a working directory that a client names; in a cluster it may be one in a root.
func (r *router) directory(cwd string) string {
	if r.inRoot(cwd) {
		return cwd
	}
	return r.absolute(cwd)
}

// inRoot says whether a directory is named as one in a root of the cluster.
func (r *router) inRoot(cwd string) bool {
	return r.server.Cluster != nil && relay.InRoot(cwd)
}

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
