package conn

import (
	"path/filepath"
	"reflect"
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
	spec := protocol.SpecOf(req.Cmd)
	ours := spec.Scope == protocol.ScopeConnection || p.lists && req.SessionID == "" && spec.Is(protocol.AboutFiles)
	if !ours || len(spec.Paths()) == 0 {
		return req
	}
	cmd := reflect.New(spec.Params).Elem()
	cmd.Set(reflect.ValueOf(req.Cmd))
	for _, of := range spec.Paths() {
		if path := cmd.Field(of.Index); of.Path != protocol.PathAbsolute && (of.Path != protocol.PathDirectory || !p.inRoot(path.String())) {
			path.SetString(p.absolute(path.String()))
		}
	}
	req.Cmd = cmd.Interface().(protocol.Command)
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
		if filepath.IsLocal(path) && path[0] != '~' || filepath.IsAbs(path) && p.allowed(filepath.Clean(path)) {
			continue
		}
		return errOutside(path)
	}
	return nil
}

func errOutside(path string) *protocol.Error {
	return protocol.CodeForbidden.Errorf("Clients over the network may name files below the daemon's --root directories only: %s", path)
}

// named are the paths that a command names: where it names none, and acts in a directory, that of
// the connection.
func (p paths) named(cmd protocol.Command) (list []string) {
	own := ""
	for _, of := range protocol.SpecOf(cmd).Paths() {
		if path := reflect.ValueOf(cmd).Field(of.Index).String(); path != "" {
			list = append(list, path)
		}
		if of.Path != protocol.PathFile {
			own = p.cwd
		}
	}
	if list == nil && own != "" {
		list = []string{own}
	}
	return list
}
