package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"troupe/protocol"
)

// write stores a whole line and returns its offset. If it fails, nothing of
// the line is left where a reader would take it for an entry.
func (l *Log) write(line []byte, durable bool) (int64, error) {
	switch {
	case l.migrated:
		if err := l.rewrite(); err != nil {
			return 0, err
		}
		return l.writeFile(line)
	case l.adrift:
		if err := l.opt.Commit.Commit(line); err != nil {
			return 0, err
		}
		return l.keep(line), nil
	case l.file != nil && l.opt.Commit != nil:
		return l.writeCopy(line)
	case l.file != nil:
		return l.writeFile(line)
	case l.path == "" || !durable:
		return l.keep(line), nil
	case l.opt.Commit != nil:
		return l.beginCopy(line)
	}
	return l.materialise(line)
}

// keep puts a line behind what is in memory.
func (l *Log) keep(line []byte) int64 {
	l.buf = append(l.buf, line...)
	return int64(len(l.buf) - len(line))
}

// beginCopy gives everything that has waited to who keeps the session, and makes the copy.
func (l *Log) beginCopy(line []byte) (int64, error) {
	if err := l.opt.Commit.Commit(slices.Concat(l.buf, line)); err != nil {
		return 0, err
	}
	off, err := l.materialise(line)
	if err != nil {
		l.adrift = true
		return l.keep(line), nil
	}
	return off, nil
}

// writeCopy appends to the copy what is kept elsewhere by then. Where that cannot be done the
// copy is left behind, as it is.
func (l *Log) writeCopy(line []byte) (int64, error) {
	err := l.prepare()
	if errors.Is(err, ErrChanged) {
		return 0, err
	}
	if err := l.opt.Commit.Commit(line); err != nil {
		return 0, err
	}
	if err == nil {
		var off int64
		if off, err = l.writeFile(line); err == nil {
			return off, nil
		}
	}
	whole := make([]byte, l.end, l.end+int64(len(line)))
	if unread := readFull(l.file, whole, 0); unread != nil {
		return 0, fmt.Errorf("%w: %w", ErrChanged, errors.Join(err, unread)) // it has to be loaded again
	}
	l.views, l.file, l.buf, l.adrift = l.file, nil, whole, true
	return l.keep(line), nil
}

// materialise creates the file with everything that waited for it, in one
// write.
func (l *Log) materialise(line []byte) (int64, error) {
	if l.opt.UniqueID {
		unlock, err := l.claimID()
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	f, adopted, err := l.create()
	if err != nil {
		return 0, err
	}
	whole := slices.Concat(l.buf, line)
	if err := l.fill(f, whole); err != nil {
		l.abandon(f, adopted)
		return 0, err
	}
	stamp, err := f.Stamp()
	if err == nil {
		stamp, err = l.arrived(stamp, int64(len(whole)))
	}
	if err != nil && !errors.Is(err, errTogether) {
		l.abandon(f, true) // the name may be somebody else's by now
		return 0, err
	}
	l.toDisk(f, int64(len(whole)), stamp)
	return l.end - int64(len(line)), nil
}

// claimID makes sure that nobody else has a session with the id, or makes one
// until unlock is called.
func (l *Log) claimID() (unlock func(), err error) {
	dir := filepath.Dir(l.path)
	if err := l.makeDirs(dir); err != nil {
		return nil, err
	}
	unlock, err = l.fsys.LockDir(dir)
	switch {
	case noLocks(err):
		unlock = func() {}
	case err != nil:
		return nil, err
	}
	entries, err := l.fsys.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if path == l.path || !strings.HasSuffix(e.Name(), "_"+l.header.ID+sessionSuffix) {
			continue
		}
		if st, bad := statRegular(l.fsys, path); bad == nil {
			h, ok, _ := readHeader(l.fsys, path, st.Size())
			if ok && h.ID == l.header.ID && h.Cwd == l.header.Cwd {
				err = fmt.Errorf("%w: %s", ErrIDTaken, path)
			}
		}
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// fill writes a new file's content and, if so wished, makes it durable.
func (l *Log) fill(f File, content []byte) error {
	if err := writeAll(f, content); err != nil {
		return err
	}
	if l.opt.Sync {
		return l.syncWith(f)
	}
	return nil
}

func (l *Log) toDisk(f File, size int64, stamp Stamp) {
	l.file, l.readOnly, l.buf, l.stamp = f, false, nil, stamp
	l.end, l.junk, l.prefix = size, 0, nil
}

func writeAll(f File, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// create makes the session's file. If the name is taken by a file without a
// session in it, that one is taken over.
func (l *Log) create() (f File, adopted bool, err error) {
	if err := CheckPath(l.path); err != nil {
		return nil, false, err
	}
	if err := l.makeDirs(filepath.Dir(l.path)); err != nil {
		return nil, false, err
	}
	f, err = l.fsys.Create(l.path)
	if err == nil {
		f, err = l.claim(f)
	}
	if !errors.Is(err, fs.ErrExist) {
		return f, false, err
	}
	f, adoptErr := l.adopt()
	if errors.Is(adoptErr, ErrNotSession) {
		return nil, false, err
	}
	return f, true, adoptErr
}

// makeDirs makes the session's directory. For the file to be found after a
// power cut all directories on the way to it have to be synced, also those
// that exist: whoever made them, perhaps a moment ago, may not have done so.
func (l *Log) makeDirs(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		l.mustSync(d)
		if d == filepath.Dir(d) {
			break
		}
	}
	return l.fsys.MkdirAll(dir)
}

func (l *Log) mustSync(dir string) {
	if !slices.Contains(l.unsynced, dir) {
		l.unsynced = append(l.unsynced, dir)
	}
}

// adopt opens a file that is in the way and empties it, if there is nothing in
// it that anybody could miss. The torn beginning of a header is moved aside.
func (l *Log) adopt() (File, error) {
	st, err := statRegular(l.fsys, l.path)
	if err != nil {
		return nil, err
	}
	if st.Size() > protocol.MaxHeader && !l.ours {
		return nil, ErrNotSession
	}
	f, err := l.fsys.OpenAppend(l.path)
	if err != nil {
		return nil, err
	}
	if f, err = l.claim(f); err != nil {
		return nil, err
	}
	if err := l.empty(f, st.Size()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (l *Log) empty(f File, size int64) error {
	if size > 0 && !l.ours {
		b := make([]byte, size)
		if err := readFull(f, b, 0); err != nil {
			return err
		}
		if !isUnborn(b) {
			return ErrNotSession
		}
		if !isBlank(b) {
			if err := l.quarantine(b); err != nil {
				return err
			}
		}
	}
	return f.Truncate(0)
}

// abandon removes what a failed creation left. Nobody has been told of the
// file yet. If even that fails, the next attempt knows whose it is.
func (l *Log) abandon(f File, adopted bool) {
	cut := l.cut(f, 0)
	f.Close()
	if adopted {
		l.ours = cut != nil
		return
	}
	l.ours = l.fsys.Remove(l.path) != nil
}

// rewrite replaces a file of an old version by its image in the current one:
// in one step, or not at all.
func (l *Log) rewrite() error {
	switch now, err := l.fsys.Stamp(l.path); {
	case err != nil:
		return err
	case now != l.stamp:
		return ErrChanged
	}
	f, err := l.replace(l.buf)
	if err != nil {
		return fmt.Errorf("rewrite in version %d: %w", protocol.SessionVersion, err)
	}
	l.file.Close() // views read the image
	l.migrated = false
	l.toDisk(f, int64(len(l.buf)), Stamp{})
	return nil
}

// replace puts a new file with the content in the place of the session's. The
// content is synced in any case: a rename that survives a power cut without
// its content would be the end of the session.
func (l *Log) replace(content []byte) (File, error) {
	id, err := l.newID()
	if err != nil {
		return nil, err
	}
	temp := l.path + ".tmp-" + id
	f, err := l.fsys.Create(temp)
	if err != nil {
		return nil, err
	}
	if f, err = l.claim(f); err == nil {
		err = l.moveIn(f, temp, content)
	}
	if err != nil {
		l.fsys.Remove(temp)
		return nil, err
	}
	l.mustSync(filepath.Dir(l.path))
	return f, nil
}

func (l *Log) moveIn(f File, temp string, content []byte) error {
	err := writeAll(f, content)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.fsys.Rename(temp, l.path)
	}
	if err != nil {
		f.Close()
	}
	return err
}

// writeFile appends to the file, after making sure that its end is where it
// should be. The line counts as written when the session's path leads to the
// file that has it.
func (l *Log) writeFile(line []byte) (int64, error) {
	if err := l.prepare(); err != nil {
		return 0, err
	}
	data := line
	if len(l.prefix) > 0 {
		data = slices.Concat(l.prefix, line)
	}
	err := writeAll(l.file, data)
	if err == nil && l.opt.Sync {
		err = l.syncFile()
	}
	if err != nil {
		l.retract(len(data))
		return 0, err
	}
	stamp, err := l.arrived(l.stamp, l.end+int64(len(data)))
	if errors.Is(err, errTogether) && l.opt.Commit == nil {
		err = l.together(data, stamp.Size)
	}
	if l.stamp = stamp; err != nil {
		l.retract(len(data))
		l.stamp = Stamp{}
		return 0, err
	}
	l.end += int64(len(data))
	l.prefix = nil
	return l.end - int64(len(line)), nil
}

// arrived makes sure that what was written is where the session's path leads:
// in this file, which has that end now. Whatever others have done to the file
// or its name since the write began is noticed here, before anybody is told of
// the entry.
func (l *Log) arrived(file Stamp, end int64) (Stamp, error) {
	at, err := l.fsys.Stamp(l.path)
	switch {
	case err != nil:
		return Stamp{}, err
	case !at.sameFile(file) || at.Size < end:
		return Stamp{}, ErrChanged
	case at.Size > end:
		return at, errTogether
	}
	return at, nil
}

// errTogether: there is more in the file than was written.
var errTogether = fmt.Errorf("%w in the same moment", ErrChanged)

// together finds what was just written to a file that another program has
// written to in the same moment, and takes in what that one has put before it.
// What came after it the next append takes in.
func (l *Log) together(data []byte, size int64) error {
	if size-l.end > int64(len(data))+maxTogether {
		return ErrChanged
	}
	both := make([]byte, size-l.end)
	if err := readFull(l.file, both, l.end); err != nil {
		return err
	}
	at := bytes.Index(both, data)
	if at < 0 || at > 0 && both[at-1] != '\n' {
		return ErrChanged
	}
	return l.absorb(l.end + int64(at))
}

// maxTogether bounds what another program may write in the moment of an append.
const maxTogether = 1 << 20

// unknownJunk says that a failed write may have left something.
const unknownJunk = -1

// retract cuts off what a failed write of n bytes left. If that fails too, the
// rest is remembered as junk for the next append to deal with.
func (l *Log) retract(n int) {
	now, err := l.file.Stamp()
	if err == nil && now.Size > l.end+int64(n) { // somebody else has written there, too
		l.stamp = Stamp{}
		return
	}
	if l.cut(l.file, l.end) == nil {
		l.stamp, _ = l.file.Stamp()
		return
	}
	l.junkOurs, l.junk = true, unknownJunk
	if l.stamp = now; err == nil {
		l.junk = now.Size - l.end
	}
}

// prepare makes the file ready for the next line: writable, with nothing in it
// that the index has not seen, and without junk at its end.
func (l *Log) prepare() error {
	if l.doubt != nil && l.opt.Sync {
		return l.doubt
	}
	if l.readOnly {
		if err := l.reopen(); err != nil {
			return err
		}
	}
	now, err := l.stampNow()
	if err != nil || now == l.stamp && l.junk == 0 && now.Size == l.end {
		return err
	}
	return l.look(now)
}

// stampNow is the stamp of the open file. Where no name leads to that any more,
// and another file has taken its name, the error is ErrChanged: there is a
// session to go on with, if somebody opens it.
func (l *Log) stampNow() (Stamp, error) {
	now, err := l.file.Stamp()
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := l.fsys.Stamp(l.path); gone == nil {
			return Stamp{}, ErrChanged
		}
	}
	return now, err
}

// look finds out what has become of a file whose stamp is another one now, or
// that has junk: whether the path still leads to it, and what others have
// written.
func (l *Log) look(now Stamp) error {
	at, err := l.fsys.Stamp(l.path)
	switch {
	case err != nil:
		return err
	case !at.sameFile(now):
		return ErrChanged
	case now != l.stamp:
		err = l.unaltered(at.Size)
	}
	if err == nil {
		err = l.mend(at.Size)
	}
	if err == nil {
		l.stamp, err = l.file.Stamp()
	}
	return err
}

// Intact says whether the session's path still leads to its file, and whether
// that still has what the index says: else the error is ErrChanged, or the file
// system's. A session that is not on disk is intact.
func (l *Log) Intact() error {
	if l.file == nil || l.closed {
		return nil
	}
	now, err := l.stampNow()
	if err != nil {
		return err
	}
	at, err := l.fsys.Stamp(l.path)
	switch {
	case err != nil:
		return err
	case !at.sameFile(now) || l.migrated && now != l.stamp:
		return ErrChanged
	case l.migrated:
		return nil
	}
	return l.unaltered(at.Size)
}

// Untouched says whether the session's path leads to the file as this log has
// last read or written it, as far as its stamp tells. A session that is not on
// disk is untouched.
func (l *Log) Untouched() bool {
	if l.file == nil || l.closed {
		return true
	}
	now, err := l.fsys.Stamp(l.path)
	return err == nil && now == l.stamp
}

// unaltered makes sure that the file still has, at its beginning, what the
// index says: others may add to it and touch it, not write over it.
func (l *Log) unaltered(size int64) error {
	if size < l.end {
		return ErrChanged
	}
	if h, ok, err := headerOf(l.file, size); err != nil || !ok || h.ID != l.header.ID {
		return errors.Join(err, ErrChanged)
	}
	v := l.View()
	for _, err := range v.lines(v.all(nil)) {
		if err != nil {
			return err
		}
	}
	return nil
}

// mend takes in what others have written to a file of so many bytes, and cuts
// off junk.
func (l *Log) mend(size int64) error {
	if l.junk == unknownJunk {
		l.junk = max(0, size-l.end)
	}
	if size != l.end+l.junk {
		if l.opt.Commit != nil {
			return ErrChanged // who keeps the session knows nothing of it
		}
		if err := l.absorb(size); err != nil {
			return err
		}
	}
	if l.junk > 0 {
		return l.dropJunk()
	}
	return nil
}

// cut shortens a file. Where entries are durable, so is their removal, if that
// can be had: otherwise a power cut may bring back what was reported as failed.
func (l *Log) cut(f File, size int64) error {
	err := f.Truncate(size)
	if err == nil && l.opt.Sync {
		_ = f.Sync()
	}
	return err
}

func (l *Log) reopen() error {
	f, err := l.fsys.OpenAppend(l.path)
	if err != nil {
		return err
	}
	l.views, l.file, l.readOnly, l.stamp = l.file, f, false, Stamp{}
	return nil
}

// absorb takes in what another program appended, so that offsets are right
// and ids stay unique. Its entries become branches; the leaf stays.
func (l *Log) absorb(size int64) error {
	if size < l.end {
		return ErrChanged
	}
	from := int32(len(l.idx.slots))
	in := &loader{idx: l.idx, found: true, end: l.end, open: len(l.prefix) > 0}
	err := readLines(l.file, l.end, size, in.take)
	in.idx.resolve(from)
	l.idx = in.idx
	l.damage.Foreign += len(l.idx.slots) - int(from)
	l.damage.Skipped += in.skipped
	l.settle(in)
	return err
}

// dropJunk removes the bytes after end. Junk that the file came with goes to
// the side file first. Where it cannot be removed it is left as a line that no
// reader takes for an entry.
func (l *Log) dropJunk() error {
	if l.junk > protocol.MaxSessionLine {
		return lineTooLong(l.end)
	}
	junk := make([]byte, l.junk)
	if err := readFull(l.file, junk, l.end); err != nil {
		return err
	}
	var err error
	if !l.junkOurs {
		err = l.quarantine(junk)
	}
	if err == nil {
		err = l.file.Truncate(l.end)
	}
	if err != nil {
		return l.fenceJunk(junk, err)
	}
	l.junk, l.junkOurs = 0, false
	return nil
}

// fenceJunk makes the next write end the junk's line. Our own may be a whole
// entry but for its line ending, which must not come to life: hence the mark.
// If it even has its line ending there is nothing to be done.
func (l *Log) fenceJunk(junk []byte, cause error) error {
	if junk[len(junk)-1] == '\n' {
		return cause
	}
	l.prefix = []byte("\n")
	if l.junkOurs {
		l.prefix = []byte("!\n")
	}
	l.end += int64(len(junk))
	l.junk, l.junkOurs = 0, false
	return nil
}

// TornSuffix is what the side file's name has after the session file's. It
// collects the torn ends that were cut off.
const TornSuffix = ".torn"

// quarantine appends torn bytes to the side file, durably: the next step is to
// cut them off the session.
func (l *Log) quarantine(torn []byte) error {
	name := l.path + TornSuffix
	f, err := l.fsys.Create(name)
	if errors.Is(err, fs.ErrExist) {
		f, err = l.fsys.OpenAppend(name)
	}
	if err != nil {
		return err
	}
	err = writeAll(f, append(slices.Clip(torn), '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (l *Log) syncFile() error { return l.syncWith(l.file) }

func (l *Log) syncWith(f File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return l.syncDirs()
}

func (l *Log) syncDirs() error {
	for len(l.unsynced) > 0 {
		// What the user may not even read was not made by us.
		if err := l.fsys.SyncDir(l.unsynced[0]); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		l.unsynced = l.unsynced[1:]
	}
	return nil
}

// isReadOnly says whether an error of OpenAppend leaves reading possible.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
