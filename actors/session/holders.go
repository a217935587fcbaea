package session

import (
	"sync"

	"troupe/store"
)

// sessionFiles is the state that all sessions of a process share about session files.
type sessionFiles struct {
	holders fileHolders
	lister  func() *store.Lister // finds sessions on disk, and remembers what it has read of their files
}

// fileHolders records which handle has which session file. A session that is parked may have closed its file, and with it
// the lock, because another program has changed it or it could not be opened again: the file is in use all the same. It is
// safe for concurrent use. The zero value is ready.
type fileHolders struct {
	mu    sync.Mutex
	files map[string]string // by handle
}

// hold records that a handle has a file and no other one; "" is a session in memory.
func (f *fileHolders) hold(handle, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[string]string{}
	}
	f.files[handle] = path
}

// reserve is hold, unless another handle has the file: then it returns false.
func (f *fileHolders) reserve(handle, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, file := range f.files {
		if file == path && other != handle {
			return false
		}
	}
	if f.files == nil {
		f.files = map[string]string{}
	}
	f.files[handle] = path
	return true
}

// release records that a handle has no file.
func (f *fileHolders) release(handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, handle)
}

// heldByOther reports whether another handle than this one has a file.
func (f *fileHolders) heldByOther(handle, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, file := range f.files {
		if file == path && other != handle {
			return true
		}
	}
	return false
}
