package store

import (
	"errors"
	"fmt"
)

// Kinds of failure, to be told apart with errors.Is. A missing file is
// fs.ErrNotExist, a closed log fs.ErrClosed.
var (
	// ErrNotSession: the file exists and is not a session. It was not touched.
	ErrNotSession = errors.New("not a session file")
	// ErrEmpty: the file holds no session yet, because it has no bytes, only
	// white space, or only the torn beginning of a header. NewLog with the same
	// path takes it over.
	ErrEmpty = errors.New("empty session file")
	// ErrNotDurable marks a failed append: the entry is not stored. The cause is
	// wrapped beside it.
	ErrNotDurable = errors.New("entry is not stored")
	// ErrNoEntry: no entry of the session has that id.
	ErrNoEntry = errors.New("no such entry")
	// ErrInUse: another log, here or in another process, holds the file.
	ErrInUse = errors.New("session file is in use")
	// ErrChanged: the file is no longer the one the log wrote; it was replaced,
	// cut, or altered in place by somebody else.
	ErrChanged = errors.New("session file was changed by another program")
	// ErrTooLarge: a line longer than MaxLine, or a file of an old version larger
	// than MaxMigrated. The file was not touched.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidPath: a path that no session file can have.
	ErrInvalidPath = errors.New("invalid path")
)

// Bounds on session files. What is in a file may be anybody's doing, and a line
// is in memory as a whole.
const (
	MaxLine     = 256 << 20 // bytes of a line
	MaxMigrated = 512 << 20 // bytes of a file of version 1 or 2; that is also where pi ends
)

func lineTooLong(off int64) error {
	return fmt.Errorf("line at byte %d is %w: a line may have %d bytes", off, ErrTooLarge, MaxLine)
}

func noEntry(id string) error { return fmt.Errorf("entry %q: %w", id, ErrNoEntry) }
