package store

import (
	"encoding/json"
	"fmt"
)

// SaveTrust notes in a trust.json whether the project of a directory is trusted; what else
// the file says stays. dir is the directory without symbolic links. A file that cannot be
// read stays as it is, and is an error.
func SaveTrust(fsys FS, path, dir string, yes bool) error {
	return changeBook(fsys, path, dir, func(said map[string]json.RawMessage) { said[dir], _ = json.Marshal(yes) })
}

// errNoProject refuses a directory that is another one for whoever stands elsewhere.
func errNoProject(dir string) error {
	return fmt.Errorf("not the absolute path of a project: %q", dir)
}
