package config

import (
	"path/filepath"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// PermissionFile is a permissions.json.
type PermissionFile struct {
	Path    string
	Content []byte
	Err     error // it is there and cannot be read
	Project bool  // it may only take away
}

// PermissionFiles reads the user's permissions and the project's. The project's counts
// whether it is trusted or not: it may only make a session stricter.
func PermissionFiles(d Dirs) (files []PermissionFile) {
	user := filepath.Join(d.Agent, "permissions.json")
	project := filepath.Join(d.Cwd, ".pi", "permissions.json")
	for _, f := range []PermissionFile{{Path: user}, {Path: project, Project: true}} {
		if f.Project && real(project) == real(user) {
			continue
		}
		f.Content, f.Err = bounded.ReadFile(f.Path, protocol.MaxSettingsFile)
		if !isAbsent(f.Err) {
			files = append(files, f)
		}
	}
	return files
}

// ProjectPermissions is that of the project of a directory; false if there is none.
func ProjectPermissions(cwd string) (f PermissionFile, there bool) {
	f = PermissionFile{Path: filepath.Join(cwd, ".pi", "permissions.json"), Project: true}
	f.Content, f.Err = bounded.ReadFile(f.Path, protocol.MaxSettingsFile)
	return f, !isAbsent(f.Err)
}
