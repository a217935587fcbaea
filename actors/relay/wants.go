package relay

import (
	"maps"
	"path/filepath"
	"strings"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// Wants is what a session that is to be opened needs of its node, and its working directory as
// it is called on this one. A directory in a root is named as "root:path", or by a path of this
// node; one in no root is on this node only.
func (s *Shared) Wants(cmd protocol.OpenSession, base string) (o Opening, cwd string, err *protocol.Error) {
	w := &o.Wants
	if of := cmd.Wants; of != nil {
		w.Root, w.Labels = of.Root, map[string]string{}
		maps.Copy(w.Labels, of.Labels)
		if of.Provider != "" {
			w.Labels[cluster.ProviderLabel+of.Provider] = cluster.LabelYes
		}
	}
	cwd = cmd.Cwd
	root, rest, _ := strings.Cut(cwd, ":")
	switch {
	case InRoot(cwd):
		if w.Root != "" && w.Root != root {
			return o, "", protocol.CodeInvalidParams.Errorf("cwd is in the root %s, and wants.root is %s", root, w.Root)
		}
		if w.Root = root; rest != "" && !filepath.IsLocal(rest) {
			return o, "", protocol.CodeInvalidParams.Errorf("cwd leads out of the root %s: %s", root, rest)
		}
		cwd = s.in(root, rest)
		return o, cwd, s.noFiles(root, cwd)
	case cwd == "" && w.Root != "":
		return o, s.in(w.Root, ""), nil
	case cwd == "":
		cwd = base
	}
	if w.Root == "" {
		w.Root = s.rootOf(cwd)
	}
	if err := s.noFiles(w.Root, cwd); err != nil {
		return o, "", err
	}
	if w.Root == "" || s.Roots[w.Root].Mode == cluster.Pinned {
		w.Node = s.Members.Self()
		return o, cwd, nil
	}
	o.Path = cwd
	return o, cwd, nil
}

// InRoot says whether a directory is named as one in a root: "root:path".
func InRoot(cwd string) bool {
	root, _, named := strings.Cut(cwd, ":")
	return named && !strings.ContainsAny(root, "/~.")
}

// noFiles refuses a directory in a root of mode none, which has one: that is another one on each node.
func (s *Shared) noFiles(root, cwd string) *protocol.Error {
	if of := s.Roots[root]; of.Mode == cluster.None && cwd != of.Path {
		return protocol.CodeInvalidParams.Errorf("The root %s has no files, and so no directories: cwd has to be %s:", root, root)
	}
	return nil
}

// Copies is where a node has copies of sessions, in its agent directory.
const Copies = "troupe/cluster"

// CopyOf is the session of which a file may be the copy that a node has, this one or another: each lists its own files. "" for none.
func CopyOf(path string) string {
	id, is := strings.CutSuffix(filepath.Base(path), ".jsonl")
	if !is || !strings.HasSuffix(filepath.Dir(path), "/"+Copies) || !cluster.Valid(id) {
		return ""
	}
	return id
}

// in is a directory in a root, "" if this node does not have it.
func (s *Shared) in(root, rest string) string {
	of, has := s.Roots[root]
	if !has || of.Path == "" {
		return ""
	}
	return filepath.Join(of.Path, rest)
}

// rootOf is the root of this node that a path is in, the innermost one; "" for none.
func (s *Shared) rootOf(path string) (name string) {
	longest := -1
	for n, root := range s.Roots {
		rel, err := filepath.Rel(root.Path, path)
		if err == nil && root.Path != "" && root.Mode != cluster.Git && // whose directories are made for sessions
			filepath.IsLocal(rel) && (len(root.Path) > longest || len(root.Path) == longest && n < name) {
			name, longest = n, len(root.Path)
		}
	}
	return name
}

// elsewhere says whether a directory that was named by its path here has another path on a
// node.
func (o *Opening) elsewhere(on cluster.Node, here map[string]cluster.Root) bool {
	return o.Path != "" && on.Roots[o.Wants.Root].Path != here[o.Wants.Root].Path
}
