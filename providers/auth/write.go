package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// edit changes the entries of auth.json under its lock: change gets what is in the
// file now. If it returns false or an error nothing is written.
func (s *Store) edit(ctx context.Context, change func(ctx context.Context, list []member) ([]member, bool, error)) error {
	if s.config.Dir == "" {
		return errors.New("there is no agent directory to keep logins in")
	}
	waiting, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-waiting.Done():
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.life.Err() != nil:
			return errors.New("troupe is ending")
		}
		return errors.New("another login is writing auth.json")
	}
	path := resolved(s.path())
	release, err := s.lock(waiting, path)
	if err != nil {
		return err
	}
	defer release()
	list, err := load(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	list, write, err := change(ctx, list)
	if err != nil || !write {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, object(list), "", "  "); err != nil {
		return err
	}
	return s.write(path, append(text.Bytes(), '\n'))
}

// resolved is the file behind a symbolic link, which stays, also of one that is to be made.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		if at, err := filepath.EvalSymlinks(filepath.Dir(to)); err == nil {
			to = filepath.Join(at, filepath.Base(to))
		}
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to
		}
	}
	return path
}

// load reads the members of auth.json, none if there is no file.
func load(path string) ([]member, error) {
	text, err := bounded.ReadFile(path, protocol.MaxModelsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(text)) == 0:
		return nil, nil
	}
	return membersOf(text)
}

// save replaces a file by another with its mode, so that readers see the one or the
// other. Where that is not possible, as with a mounted file, or would change who has access,
// it is written over.
func save(path string, text []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if owner, known := ownerOf(info); known && owner != os.Geteuid() || hasACL(path) {
			return overwrite(path, text)
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".auth.json-")
	if err != nil {
		return overwrite(path, text)
	}
	defer os.Remove(temp.Name()) // unless it was renamed
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return overwrite(path, text)
	}
	return nil
}

// ownerOf is whose file it is.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}

func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Sync(), f.Close())
}
