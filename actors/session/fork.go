package session

import (
	"path/filepath"
	"time"

	"troupe/store"
)

// ForkFile begins a session in dir, for the default session's working
// directory, with a copy of a view's branch, and returns its path.
func ForkFile(shared *Shared, view store.View, dir string) (string, error) {
	h := store.NewHeader(shared.Default.ID, shared.Default.Cwd, view.Path(), time.Now().UnixMilli())
	path := filepath.Join(dir, store.FileName(h))
	log, err := store.Fork(shared.fs(), view, path, h, shared.logOptions())
	if err != nil {
		return "", err
	}
	return path, log.Close()
}
