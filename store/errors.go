package store

import (
	"errors"
	"fmt"

	"troupe/protocol"
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
	// ErrIDTaken: another session of the working directory has the id that was
	// chosen for a new one.
	ErrIDTaken = errors.New("session id is taken")
	// ErrChanged: the file is no longer the one the log wrote; it was replaced,
	// cut, or altered in place by somebody else.
	ErrChanged = errors.New("session file was changed by another program")
	// ErrTooLarge: a line longer than protocol.MaxSessionLine, or a file of an old
	// version larger than protocol.MaxOldSession. The file was not touched.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidPath: a path that no session file can have.
	ErrInvalidPath = errors.New("invalid path")
)

func lineTooLong(off int64) error {
	return fmt.Errorf("line at byte %d is %w: a line may have %d bytes", off, ErrTooLarge, protocol.MaxSessionLine)
}

func noEntry(id string) error { return fmt.Errorf("entry %q: %w", id, ErrNoEntry) }
