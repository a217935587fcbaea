package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// SaveTrust notes in a trust.json whether the project of a directory is trusted; what else
// the file says stays. dir is the directory without symbolic links. A file that cannot be
// read stays as it is, and is an error.
func SaveTrust(fsys FS, path, dir string, yes bool) error {
	if !filepath.IsAbs(dir) {
		return errNoProject(dir)
	}
	within := filepath.Dir(path)
	if err := fsys.MkdirAll(within); err != nil {
		return err
	}
	unlock, err := fsys.LockDir(within)
	if err != nil && !noLocks(err) {
		return err
	}
	if err == nil {
		defer unlock()
	}
	said := map[string]json.RawMessage{}
	if err := readSmall(fsys, path, &said); err != nil {
		return err
	}
	if said == nil { // the file says null
		return errors.New(path + " is no object")
	}
	said[dir], _ = json.Marshal(yes)
	content, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(fsys, path, append(content, '\n'))
}

// errNoProject refuses a directory that is another one for whoever stands elsewhere.
func errNoProject(dir string) error {
	return fmt.Errorf("not the absolute path of a project: %q", dir)
}
