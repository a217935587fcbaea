package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// What pi's lock goes by: a directory beside the file, forgotten when nobody has
// touched it for orphanAge.
const (
	orphanAge  = 30 * time.Second
	touchEvery = 5 * time.Second
	pollLeast  = 20 * time.Millisecond
	pollMost   = 100 * time.Millisecond
)

// lockOf is where the lock of a file is.
func lockOf(path string) string { return path + ".lock" }

// lock takes the lock that pi takes to write auth.json, against other processes.
// Callers in this process take turns before. release may be called once.
func (s *Store) lock(ctx context.Context, path string) (release func(), err error) {
	name := lockOf(path)
	for {
		err := os.Mkdir(name, 0o755)
		switch {
		case err == nil:
			return hold(name), nil
		case errors.Is(err, fs.ErrNotExist):
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, err
			}
			continue
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
		if err := s.takeOver(name); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is held by another program", name)
		case <-time.After(pollLeast + rand.N(pollMost-pollLeast)): // no doubling: one of two writers would starve
		}
	}
}

// hold keeps a lock from looking forgotten until it is released.
func hold(name string) (release func()) {
	mine, err := os.Stat(name)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(touchEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				_ = os.Chtimes(name, now, now) // gone, or of another owner: nothing to be done
			}
		}
	}()
	return func() {
		close(done)
		<-gone
		if now, e := os.Stat(name); err != nil || e == nil && os.SameFile(mine, now) {
			_ = os.Remove(name)
		}
	}
}

// seen is a lock of another process, as it was when we first saw it so.
type seen struct {
	info  fs.FileInfo
	since time.Time // with the monotonic clock
}

// takeOver removes a lock that was forgotten. The error is one that waiting does
// not mend.
func (s *Store) takeOver(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return nil // released meanwhile
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is in the way: the lock of auth.json is a directory", name)
	}
	before := s.other
	if before.info == nil || !os.SameFile(before.info, info) || !before.info.ModTime().Equal(info.ModTime()) {
		s.other = seen{info, time.Now()}
		return nil // look a second time: it may have been made this moment
	}
	watched := time.Since(before.since)
	if watched < orphanAge && ageOf(name, info) < orphanAge {
		return nil
	}
	// By renaming, for between a look and a removal another process may have taken
	// it over.
	aside := fmt.Sprintf("%s.%d.%x", name, os.Getpid(), rand.Uint64())
	if os.Rename(name, aside) != nil {
		return nil
	}
	if moved, err := os.Lstat(aside); err == nil && !os.SameFile(moved, info) {
		_ = os.Rename(aside, name) // it is somebody's fresh one
		return nil
	}
	_ = os.Remove(aside)
	return nil
}

// ageOf is how long ago a lock was touched, by the clock of its file system: that
// of a server is not ours. It is 0 if nobody can tell.
func ageOf(name string, info fs.FileInfo) time.Duration {
	if time.Since(info.ModTime()) < orphanAge/2 {
		return 0
	}
	probe, err := os.CreateTemp(filepath.Dir(name), ".auth.json.now-")
	if err != nil {
		return 0
	}
	defer os.Remove(probe.Name())
	defer probe.Close()
	now, err := probe.Stat()
	if err != nil {
		return 0
	}
	return now.ModTime().Sub(info.ModTime())
}
