package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"troupe/protocol"
)

// Options tune a log. The zero value suits a session whose entries need to
// survive the process but not the machine.
type Options struct {
	// Sync makes every append survive a power cut before it returns. Without
	// it, a caller that wants the same for several appends at once calls
	// Log.Sync after the last of them.
	Sync bool
	// Exclusive claims the file while the log is open: NewLog's first write and
	// OpenLog fail with ErrInUse if another troupe, or another log of this one,
	// holds it. pi does not look at the claim. Where the file system has no locks
	// there is no claim either.
	Exclusive bool
	// NoLocks is told that files could not be claimed, and why.
	NoLocks func(err error)
	// UniqueID: the id of the session that NewLog begins was chosen by somebody.
	// Its first write fails with ErrIDTaken if another session in the directory,
	// of the same working directory, has it.
	UniqueID bool
	// Commit keeps the session, of which the file is a copy; nil for a file that is none.
	Commit Keeper
	// Rand is where entry ids come from; crypto/rand if nil.
	Rand io.Reader
}

// Keeper keeps a session of which the file is only a copy. A copy that cannot be written does
// no harm: the log goes on in memory. One that somebody else has written to is ErrChanged.
type Keeper interface {
	// Commit is given lines before they are written to the file, the header with the first. With
	// an error nothing is written, and the append fails.
	Commit(lines []byte) error
	// Close is called when the log is closed. whole says that the copy has all that was kept.
	Close(whole bool)
}

// Log is the one writer of a session. It is not safe for concurrent use; what
// other goroutines need they read from a [View].
//
// A log is in one of five places. In memory only: it has no path. Unborn: the
// file does not exist yet and what was appended waits in memory. Migrated: the
// file is of an old version, and its image in today's waits in memory for the
// first append. On disk: the usual one. Adrift: see [Keeper].
type Log struct {
	fsys   FS
	path   string
	opt    Options
	header protocol.Header
	idx    index
	leaf   int32
	damage Damage
	closed bool

	buf      []byte // the whole session unless it is on disk; only ever grows
	adrift   bool   // the copy could not be written: the session is in buf, and with who keeps it
	file     File   // nil unless on disk or migrated
	readOnly bool   // file could only be opened for reading
	views    File   // the handle that was replaced by file and that views may still use, or nil
	migrated bool   // file is of an old version
	stamp    Stamp  // of file when it was last known to be at path, and as the index has it; zero to look again
	ours     bool   // unborn: a failed attempt left a file at path

	end      int64    // on disk: where the next entry goes, the size of the file unless there is junk
	junk     int64    // bytes after end that are nobody's entry, or unknownJunk
	junkOurs bool     // they are left of a failed write, else the file came with them
	prefix   []byte   // what the next write must put before its line to be on a line of its own
	unsynced []string // directories whose new names are not durable
	doubt    error    // of a failed Sync; durability cannot be promised any more

	group *group // nil unless one is open
	line  []byte // scratch
}

// NewLog starts a session that is not on disk yet. The file is made by the
// first durable append, with everything appended before it. An empty path
// keeps the session in memory for good.
func NewLog(fsys FS, path string, header protocol.Header, o Options) *Log {
	return &Log{
		fsys: fsys, path: path, opt: o, header: header, leaf: none,
		buf: append(header.AppendJSON(nil), '\n'),
	}
}

// OpenLog loads a session file. The file is not changed by that, whatever
// state it is in. The leaf is the last entry of the file. Besides the errors
// of the file system it returns ErrNotSession, ErrEmpty, ErrTooLarge and
// ErrInUse.
func OpenLog(fsys FS, path string, o Options) (*Log, error) {
	l, err := openLog(fsys, path, o)
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", path, err)
	}
	return l, nil
}

func openLog(fsys FS, path string, o Options) (*Log, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if _, err := statRegular(fsys, path); err != nil {
		return nil, err
	}
	l := &Log{fsys: fsys, path: path, opt: o, leaf: none}
	if err := l.openFile(); err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// statRegular refuses what cannot be a session before it is opened: opening a
// pipe would wait for its writer, and reading what the kernel makes up may wait
// for ever.
func statRegular(fsys FS, path string) (fs.FileInfo, error) {
	st, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, ErrNotSession
	}
	if k, ok := fsys.(interface{ isKernels(name string) bool }); ok && st.Size() == 0 && k.isKernels(path) {
		return nil, ErrNotSession
	}
	return st, nil
}

// openFile opens for reading and appending, or only for reading where the rest
// is not allowed: such a session can still be looked at.
func (l *Log) openFile() error {
	f, err := l.fsys.OpenAppend(l.path)
	l.readOnly = isReadOnly(err)
	if l.readOnly {
		f, err = l.fsys.Open(l.path)
	}
	if err != nil {
		return err
	}
	l.file, err = l.claim(f)
	return err
}

// claim locks a file that was just opened, if that is wished.
func (l *Log) claim(f File) (File, error) {
	if !l.opt.Exclusive {
		return f, nil
	}
	err := f.Lock()
	if noLocks(err) {
		if l.opt.NoLocks != nil {
			l.opt.NoLocks(err)
		}
		return f, nil
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (l *Log) load() (err error) {
	if l.stamp, err = l.file.Stamp(); err != nil {
		return err
	}
	if l.stamp.Size > protocol.MaxOldSession {
		if h, ok, err := headerOf(l.file, l.stamp.Size); ok && err == nil && h.Version < protocol.SessionVersion {
			return fmt.Errorf("a session of version %d is %w: it may have %d bytes", h.Version, ErrTooLarge, protocol.MaxOldSession)
		}
	}
	in, err := load(l.file, l.stamp.Size)
	if err != nil {
		return err
	}
	if in.header.Version < protocol.SessionVersion {
		if in, err = l.migrate(in.header); err != nil {
			return err
		}
	}
	l.header, l.idx = in.header, in.idx
	l.leaf = int32(len(in.idx.slots)) - 1
	l.damage = Damage{Skipped: in.skipped, TornBytes: in.junk}
	l.settle(in)
	return nil
}

// migrate replaces the loaded file by its image in the current version, which
// stays in memory until the first append.
func (l *Log) migrate(header protocol.Header) (*loader, error) {
	src := make([]byte, l.stamp.Size)
	if err := readFull(l.file, src, 0); err != nil {
		return nil, err
	}
	l.buf, l.migrated = migrate(src, header), true
	return load(bytes.NewReader(l.buf), int64(len(l.buf)))
}

// settle notes how the file ends.
func (l *Log) settle(in *loader) {
	l.end, l.junk, l.junkOurs, l.prefix = in.end, in.junk, false, nil
	if in.open {
		l.prefix = []byte("\n")
	}
}

// Append adds an entry below the leaf and makes it the leaf. at is its time in
// epoch milliseconds. Until the file exists, entries that are not durable wait
// in memory; the first durable one creates the file with all of them. From
// then on durable makes no difference.
//
// An error marked ErrNotDurable says that the entry could not be written: it
// is not part of the log, and the next append starts from a clean end of file
// or fails in turn. (Where the disk refuses both the entry and its removal, the
// next append removes it; should the process die before that, the entry may
// turn out to be there.) A label for an unknown entry is ErrNoEntry.
func (l *Log) Append(entry protocol.Entry, at int64, durable bool) (protocol.EntryMeta, error) {
	return l.AppendAs("", entry, at, durable)
}

// AppendAs is Append under an id of [Log.NewID]. An id that is taken meanwhile is
// an error.
func (l *Log) AppendAs(id string, entry protocol.Entry, at int64, durable bool) (protocol.EntryMeta, error) {
	meta, err := l.append(id, entry, at, durable)
	if err != nil {
		return protocol.EntryMeta{}, fmt.Errorf("append to session %s: %w", l.name(), err)
	}
	return meta, nil
}

func (l *Log) append(id string, entry protocol.Entry, at int64, durable bool) (_ protocol.EntryMeta, err error) {
	if l.closed {
		return protocol.EntryMeta{}, fs.ErrClosed
	}
	if label, ok := entry.(protocol.Label); ok && !l.Has(label.TargetID) {
		return protocol.EntryMeta{}, noEntry(label.TargetID)
	}
	if id == "" {
		id, err = l.newID()
	} else if l.Has(id) {
		err = fmt.Errorf("the id %s is taken", id)
	}
	if err != nil {
		return protocol.EntryMeta{}, err
	}
	meta := protocol.EntryMeta{ID: id, ParentID: l.Leaf(), Timestamp: protocol.FormatTime(at)}
	before := l.line[:0]
	if l.group != nil {
		before = l.group.text
	}
	text, err := encode(before, protocol.Record{EntryMeta: meta, Entry: entry})
	if err != nil {
		return protocol.EntryMeta{}, err
	}
	if n := len(text) - len(before); n >= protocol.MaxSessionLine {
		return protocol.EntryMeta{}, fmt.Errorf("entry is %w: it has %d bytes, a line may have %d", ErrTooLarge, n, protocol.MaxSessionLine)
	}
	if l.group != nil {
		return meta, l.group.stage(text, id, durable)
	}
	if l.line = text; cap(text) > maxScratch {
		l.line = nil
	}
	return meta, l.appendLine(text, id, durable)
}

// maxScratch is the longest line whose memory is kept for the next one.
const maxScratch = 256 << 10

// encode writes an entry's line. The encoder panics at raw JSON that is none;
// here that is an error, since such JSON comes from tools and extensions.
func encode(dst []byte, r protocol.Record) (line []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encode entry: %v", p)
		}
	}()
	return r.AppendJSON(dst), nil
}

// appendLine writes an entry's line, which has no line ending yet, and only
// then makes it an entry of the log and the leaf. A line that would not be read
// as the entry it is meant to be is refused.
func (l *Log) appendLine(line []byte, id string, durable bool) error {
	var h lineHead
	if !h.fits(line, id) {
		return errLine
	}
	line = append(line, '\n')
	off, err := l.write(line, durable)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotDurable, err)
	}
	l.idx.addLine(&h, off, len(line)-1)
	l.leaf = int32(len(l.idx.slots)) - 1
	return nil
}

var errLine = errors.New("entry is not valid JSON")

// fits reads a line, and says whether it would be read as the entry that it is meant to be.
func (h *lineHead) fits(line []byte, id string) bool {
	return scanLine(line, h) && h.kind != nil && string(h.id) == id && bytes.IndexByte(line, '\n') < 0
}

// NewID is an id that no entry has, for [Log.AppendAs]; "" if none can be made.
func (l *Log) NewID() string {
	id, _ := l.newID()
	return id
}

// newID makes an id of 8 hex digits that the session does not have yet. If
// none is found in a hundred tries it is a whole UUID.
func (l *Log) newID() (string, error) {
	for range 100 {
		b, err := l.random(4)
		if err != nil {
			return "", err
		}
		id := hex.EncodeToString(b[:4])
		if l.idx.findPacked(binary.BigEndian.Uint32(b[:4])) == none && !l.group.has(id) {
			return id, nil
		}
	}
	b, err := l.random(16)
	return formatUUID(b, 4), err
}

// random is n random bytes, then zeros.
func (l *Log) random(n int) (b [16]byte, err error) {
	if l.opt.Rand == nil {
		_, _ = rand.Read(b[:n]) // never fails
		return b, nil
	}
	given := make([]byte, n) // b, if passed to an interface, would always be on the heap
	if _, err := io.ReadFull(l.opt.Rand, given); err != nil {
		return b, fmt.Errorf("make entry id: %w", err)
	}
	copy(b[:], given)
	return b, nil
}

// Sync makes everything appended so far survive a power cut. It does nothing
// for a session that is not on disk. Once it has failed it fails until the
// session is opened anew, because the system forgets what it could not write.
func (l *Log) Sync() error {
	if l.closed {
		return fmt.Errorf("sync session %s: %w", l.name(), fs.ErrClosed)
	}
	if l.file == nil || l.migrated {
		return nil
	}
	if l.doubt == nil {
		l.doubt = l.syncFile()
	}
	if l.doubt != nil {
		return fmt.Errorf("sync session %s: %w: %w", l.name(), ErrNotDurable, l.doubt)
	}
	return nil
}

// Closed says whether the log has been closed.
func (l *Log) Closed() bool { return l.closed }

// Close gives the file back. Views of the log can no longer be read.
func (l *Log) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	for _, f := range []File{l.file, l.views} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if l.opt.Commit != nil {
		l.opt.Commit.Close(!l.adrift && l.junk == 0)
	}
	return err
}

// Keeper is who keeps the session, nil for nobody.
func (l *Log) Keeper() Keeper { return l.opt.Commit }

// Path is the session's file, "" for a session in memory.
func (l *Log) Path() string { return l.path }

func (l *Log) name() string {
	if l.path == "" {
		return l.header.ID + " in memory"
	}
	return l.path
}

// Header is the file's first line. Of a file of an old version it says the
// current one, which the file will have after the first append.
func (l *Log) Header() protocol.Header { return l.header }

// Materialised says whether the session is in a file, or with who keeps it.
func (l *Log) Materialised() bool { return l.file != nil || l.adrift }

// Damage says what is wrong with the file.
func (l *Log) Damage() Damage { return l.damage }

// Len is the number of entries on all branches.
func (l *Log) Len() int { return len(l.idx.slots) }

// Has says whether the session has an entry with the id.
func (l *Log) Has(id string) bool { return l.idx.find(id) != none || l.group.has(id) }

// Leaf is the id of the entry that the next one will follow, "" before the
// first.
func (l *Log) Leaf() string {
	if l.group != nil && len(l.group.ids) > 0 {
		return l.group.ids[len(l.group.ids)-1]
	}
	if l.leaf == none {
		return ""
	}
	return l.idx.slots[l.leaf].name(l.idx.names)
}

// SetLeaf moves the leaf, "" to before the first entry. Nothing is written:
// the move is forgotten unless an append follows.
func (l *Log) SetLeaf(id string) error {
	leaf := none
	if id != "" {
		if leaf = l.idx.find(id); leaf == none {
			return noEntry(id)
		}
	}
	l.leaf = leaf
	return nil
}

// View is a snapshot for reading.
func (l *Log) View() View {
	v := View{
		path: l.path, header: l.header, leaf: l.leaf,
		slots: slices.Clip(l.idx.slots), names: slices.Clip(l.idx.names), foreign: l.idx.foreign,
		buf: slices.Clip(l.buf),
	}
	if l.buf == nil {
		v.file = l.file
	}
	return v
}
