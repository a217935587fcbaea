package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// trashDir is where deleted sessions are, in the directory of all sessions: one level
// deeper than those that are listed.
const trashDir = ".trash"

// Trash moves a session file below root, and the directory with its children, to the trash
// of root and returns the new path. It fails with [ErrInUse] while somebody has the session
// open, and with [ErrNotSession] for other files.
func Trash(fsys FS, root, path string) (string, error) {
	within, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(within) || within == "." || !strings.HasSuffix(path, sessionSuffix) ||
		strings.HasPrefix(within, trashDir+string(filepath.Separator)) {
		return "", ErrNotSession
	}
	if _, err := statRegular(fsys, path); err != nil {
		return "", err
	}
	if is, err := IsSession(fsys, path); err != nil || !is {
		return "", errors.Join(err, ErrNotSession)
	}
	f, err := fsys.OpenAppend(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := f.Lock(); err != nil && !noLocks(err) {
		return "", err
	}
	to := filepath.Join(root, trashDir, within)
	if filepath.Dir(within) == "." { // the directory of all is that of one project, too
		to = filepath.Join(root, trashDir, "sessions", within)
	}
	if err := fsys.MkdirAll(filepath.Dir(to)); err != nil {
		return "", err
	}
	if to, err = free(fsys, to); err != nil {
		return "", err
	}
	if err := fsys.Rename(path, to); err != nil {
		return "", err
	}
	children := strings.TrimSuffix(path, sessionSuffix)
	if st, err := fsys.Stat(children); err == nil && st.IsDir() {
		if err := fsys.Rename(children, strings.TrimSuffix(to, sessionSuffix)); err != nil {
			return "", fmt.Errorf("move the sessions of its children: %w", err)
		}
	}
	return to, errors.Join(fsys.SyncDir(filepath.Dir(path)), fsys.SyncDir(filepath.Dir(to)))
}

// free is a name that is not taken.
func free(fsys FS, path string) (string, error) {
	for n := 1; ; n++ {
		name := path
		if n > 1 {
			name = fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, sessionSuffix), n, sessionSuffix)
		}
		if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}
