// Package store is the memory of the house: session files and what can be
// read from them.
//
// A session is a file of JSON lines. The first line is its header, every other
// line an entry that names its parent, so that the file is a tree; the entry
// that the next one will hang from is the leaf. pi reads and writes the same
// files.
//
//   - [Log] is the one writer of a session. It only ever appends, in one write
//     per entry, and keeps an index of some forty bytes per entry; the entries
//     themselves stay on disk.
//   - [View] is a snapshot of a log that any goroutine may read: records,
//     branches, the context for a model, the state to resume from, trees and
//     statistics. It stays valid while the log grows and until it is closed.
//   - [Lister] finds sessions. [Fork] makes a new one from an old one.
//
// # What is promised
//
// After Append has returned without error the entry is in the file, and with
// [Options].Sync it survives a power cut. After an error marked
// [ErrNotDurable] the entry is neither in the file nor in the index: memory
// equals disk. Opening never changes a file; what needs mending (a torn last
// line, an old version) is mended by the first append, and bytes that are
// nobody's entry are moved aside, never overwritten. A file that is not a
// session is refused and left as it is, and so is one with a line longer than
// [protocol.MaxSessionLine].
//
// An append is also a look at what others have done: before it writes, a log
// makes sure that the file is as it left it, and before it returns, that the
// session's path leads to what was written. A file that was removed, renamed,
// replaced or written over costs an error, never an entry in silence; what
// another program has appended is taken in as a branch of its own.
package store
