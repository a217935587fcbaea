package config

import (
	"path/filepath"
	"slices"
)

// ContextFile is text about a project or a user for the system prompt.
type ContextFile struct {
	Path    string
	Content string
}

// contextNames are the names a context file may have. A directory has one: the
// first of these that is there.
var contextNames = []string{"AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"}

// LoadContextFiles reads the context file of the agent directory and then those
// of every directory from the root of the file system down to the working
// directory, so that the nearest comes last.
func LoadContextFiles(d Dirs) ([]ContextFile, []Problem) {
	var files []ContextFile
	in := d.take("context files")
	for _, dir := range contextDirs(d) {
		f, ok := in.contextFile(dir, d)
		known := slices.ContainsFunc(files, func(g ContextFile) bool { return g.Path == f.Path })
		if ok && !known {
			files = append(files, f)
		}
	}
	return files, in.problems
}

func contextDirs(d Dirs) []string {
	var up []string
	for dir := filepath.Clean(d.Cwd); ; dir = filepath.Dir(dir) {
		up = append(up, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(up)
	return append([]string{filepath.Clean(d.Agent)}, up...)
}

// contextFile reads a directory's context file. One that cannot be read is a
// problem, and the next name is tried.
func (in *intake) contextFile(dir string, d Dirs) (ContextFile, bool) {
	location := Project
	if dir == filepath.Clean(d.Agent) {
		location = User
	}
	for _, name := range contextNames {
		path := filepath.Join(dir, name)
		if content, ok := in.readIfThere(path, location); ok {
			return ContextFile{path, content}, true
		}
	}
	return ContextFile{}, false
}
