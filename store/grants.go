package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"troupe/protocol"
)

// Grant is a permission rule that a person has allowed for a project.
type Grant struct {
	Rule string `json:"rule"`
	By   string `json:"by,omitempty"` // the client, as it names itself
	At   int64  `json:"at"`           // epoch milliseconds
}

// grantBook is the file: grants by the directory of the project, without symbolic links.
type grantBook map[string][]Grant

// Grants reads what was allowed for a project, none without a file. dir is the directory
// of the project, without symbolic links.
func Grants(fsys FS, path, dir string) ([]Grant, error) {
	if !filepath.IsAbs(dir) {
		return nil, errNoProject(dir)
	}
	book, err := readGrants(fsys, path)
	return book[dir], err
}

// AddGrants adds rules to what is allowed for a project, and returns all that is then. A
// file that cannot be read stays as it is.
func AddGrants(fsys FS, path, dir string, more ...Grant) ([]Grant, error) {
	return changeGrants(fsys, path, dir, func(list []Grant) []Grant {
		for _, g := range more {
			if !slices.ContainsFunc(list, func(old Grant) bool { return old.Rule == g.Rule }) {
				list = append(list, g)
			}
		}
		return list
	})
}

// RevokeGrant takes a rule back, and returns what is left. ErrNoEntry says that there was
// none.
func RevokeGrant(fsys FS, path, dir, rule string) ([]Grant, error) {
	found := false
	left, err := changeGrants(fsys, path, dir, func(list []Grant) []Grant {
		return slices.DeleteFunc(list, func(g Grant) bool {
			found = found || g.Rule == rule
			return g.Rule == rule
		})
	})
	if err == nil && !found {
		err = ErrNoEntry
	}
	return left, err
}

func readGrants(fsys FS, path string) (book grantBook, err error) {
	err = readSmall(fsys, path, &book)
	return book, err
}

// readSmall reads a file of JSON; without a file, what is there stays.
func readSmall(fsys FS, path string, into any) error {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > protocol.MaxSettingsFile {
		return fmt.Errorf("%s is no file of at most %d bytes", path, protocol.MaxSettingsFile)
	}
	content := make([]byte, st.Size())
	if _, err := f.ReadAt(content, 0); err != nil && len(content) > 0 {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// changeGrants changes the grants of a project.
func changeGrants(fsys FS, path, dir string, change func([]Grant) []Grant) (left []Grant, err error) {
	err = changeBook(fsys, path, dir, func(book grantBook) {
		if left = change(book[dir]); len(left) == 0 {
			delete(book, dir)
		} else {
			book[dir] = left
		}
	})
	return left, err
}

// changeBook changes a file with something about each of some projects, which others may do at the
// same time. A file that cannot be read, or is no object, stays as it is.
func changeBook[B ~map[string]V, V any](fsys FS, path, dir string, change func(book B)) error {
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
	book := B{}
	if err := readSmall(fsys, path, &book); err != nil {
		return err
	}
	if book == nil { // the file says null
		return errors.New(path + " is no object")
	}
	change(book)
	content, err := json.MarshalIndent(book, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(fsys, path, append(content, '\n'))
}

// ReplaceFile writes a file, private to the user: others see the old content or the new. Two may
// not do so for one file at the same time.
func ReplaceFile(fsys FS, path string, content []byte) error {
	temp := path + ".new"
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
