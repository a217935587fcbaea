package actors

import (
	"path/filepath"
	"time"

	"troupe/store"
)

// ForkFile begins a session in dir, for the default session's working
// directory, with a copy of a view's branch, and returns its path.
func ForkFile(cfg *Config, view store.View, dir string) (string, error) {
	h := store.NewHeader(cfg.Default.ID, cfg.Default.Cwd, view.Path(), time.Now().UnixMilli())
	path := filepath.Join(dir, store.FileName(h))
	log, err := store.Fork(cfg.fs(), view, path, h, cfg.logOptions())
	if err != nil {
		return "", err
	}
	return path, log.Close()
}
