package conn

import (
	"cmp"
	"path/filepath"
	"strings"

	"troupe/actors/relay"
	"troupe/protocol"
)

// paths is what becomes of the paths that a client names.
type paths struct {
	home    string                 // of the user, for those with ~
	cwd     string                 // that of the connection
	lists   bool                   // the connection lists sessions itself, and none of its sessions does
	roots   bool                   // a directory may be one in a root of a cluster
	allowed func(path string) bool // which may be named, by absolute paths; nil for all
}

func (r *router) paths() paths {
	return paths{home: r.server.Home, cwd: r.cfg.Default.Cwd, lists: r.cfg.MultiSession, roots: r.server.Cluster != nil, allowed: r.cfg.Allowed}
}

// placed is a request whose paths are absolute, once and for all: what no session resolves is
// relative to the directory of the connection. What a session is asked is relative to its own.
func (p paths) placed(req protocol.Request) protocol.Request {
	switch cmd := req.Cmd.(type) {
	case protocol.OpenSession:
		cmd.Cwd, cmd.SessionPath = p.directory(cmd.Cwd), p.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.AdoptSession:
		cmd.Cwd = p.directory(cmd.Cwd)
		req.Cmd = cmd
	case protocol.AttachSession:
		cmd.SessionPath = p.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.DeleteSession:
		cmd.SessionPath = p.absolute(cmd.SessionPath)
		req.Cmd = cmd
	case protocol.ListSessions:
		if req.SessionID == "" && p.lists {
			cmd.SessionDir, cmd.Under = p.absolute(cmd.SessionDir), p.absolute(cmd.Under)
			req.Cmd = cmd
		}
	}
	return req
}

// absolute is a path that a client names, "" for none.
func (p paths) absolute(path string) string {
	if path == "" {
		return ""
	}
	if rest, home := strings.CutPrefix(path, "~"); home && (rest == "" || rest[0] == '/') {
		path = filepath.Join(p.home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.cwd, path)
	}
	return filepath.Clean(path)
}

// directory is a working directory that a client names; in a cluster it may be one in a root.
func (p paths) directory(cwd string) string {
	if p.inRoot(cwd) {
		return cwd
	}
	return p.absolute(cwd)
}

// inRoot says whether a directory is named as one in a root of the cluster.
func (p paths) inRoot(cwd string) bool {
	return p.roots && relay.InRoot(cwd)
}

// outside refuses a command that names a file where the client may not look. What is named
// relative to a session's working directory has to stay in it.
func (p paths) outside(cmd protocol.Command) *protocol.Error {
	if p.allowed == nil {
		return nil
	}
	for _, path := range p.named(cmd) {
		if path == "" || filepath.IsLocal(path) && path[0] != '~' || filepath.IsAbs(path) && p.allowed(filepath.Clean(path)) {
			continue
		}
		return protocol.CodeForbidden.Errorf("Clients over the network may name files below the daemon's --root directories only: %s", path)
	}
	return nil
}

// named are the paths that a command names. A command that names files has to be here: see
// TestPathsOverTheNetwork.
func (p paths) named(cmd protocol.Command) []string {
	switch cmd := cmd.(type) {
	case protocol.OpenSession:
		if cmd.SessionPath == "" {
			return []string{cmp.Or(cmd.Cwd, p.cwd)}
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
			return []string{p.cwd}
		}
		return []string{cmd.Path}
	default:
		return nil
	}
}
