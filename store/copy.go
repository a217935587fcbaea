package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"
	"path/filepath"
	"strconv"
)

// MarkSuffix is what the name of the file has after that of a copy which says how far
// the copy goes. A copy that was set aside has AsideSuffix and a number.
const (
	MarkSuffix  = ".mark"
	AsideSuffix = ".aside-"
)

// Copy is the file of a session that is kept elsewhere, see [Keeper], while it is
// brought up to date.
type Copy struct {
	fsys FS
	path string
	file File

	ahead  []byte // lines that it had behind its mark: they were kept elsewhere before they were written
	met    int    // how many bytes of these were written again
	strays bool   // others were
}

// copyMark is a copy as it was when it was marked: so many bytes with that sum, and a note of
// who keeps the session.
type copyMark struct {
	Size int64           `json:"size"`
	Sum  uint64          `json:"sum"`
	Note json.RawMessage `json:"note"`
}

// OpenCopy opens the copy at path, cut to what its mark says, with the note of that; a file
// without a mark, or with one that does not fit, is set aside, which aside says, and the copy
// begins anew with a nil note.
func OpenCopy(fsys FS, path string) (c *Copy, note []byte, aside string, err error) {
	c = &Copy{fsys: fsys, path: path}
	if err := CheckPath(path); err != nil {
		return nil, nil, "", err
	}
	m, err := readMark(fsys, path)
	if err == nil {
		if c.file, err = fsys.OpenAppend(path); err == nil {
			if err = c.cut(m); err == nil {
				return c, m.Note, "", nil
			}
			_ = c.file.Close()
		}
	}
	if aside, err = c.Reset(); err != nil {
		return nil, nil, "", err
	}
	return c, nil, aside, nil
}

func readMark(fsys FS, path string) (m copyMark, err error) {
	text, err := readAll(fsys, path+MarkSuffix)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

func readAll(fsys FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, st.Size())
	return b, readFull(f, b, 0)
}

// cut makes the file what the mark says.
func (c *Copy) cut(m copyMark) error {
	st, err := c.file.Stat()
	if err != nil {
		return err
	}
	if sum, err := sumOf(c.file, m.Size); err != nil || sum != m.Sum || st.Size() < m.Size {
		return errors.Join(ErrChanged, err)
	}
	if st.Size() == m.Size {
		return nil
	}
	rest := make([]byte, st.Size()-m.Size)
	if err := readFull(c.file, rest, m.Size); err != nil {
		return err
	}
	c.ahead = rest[:wholeLines(rest)]
	return c.file.Truncate(m.Size)
}

// wholeLines is where the lines end that nobody has cut or changed, as far as can be seen.
func wholeLines(b []byte) (end int) {
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) || !json.Valid(line) {
			break
		}
		end += len(line)
	}
	return end
}

// Ahead says whether the file had lines behind its mark when it was opened. They are written
// again, if the session has them where it is kept; [Copy.Lost] says what is not.
func (c *Copy) Ahead() bool { return len(c.ahead) > 0 }

// Forget has the lines that the file had behind its mark be none of the session's.
func (c *Copy) Forget() { c.ahead = nil }

// Lost is how many of the lines that the file had behind its mark were not written again, though
// nothing else was: they are behind the rest again. aside is the file that has them if something
// else was written.
func (c *Copy) Lost() (lines int, aside string, err error) {
	rest := c.ahead[c.met:]
	c.ahead, c.met = nil, 0
	switch {
	case len(rest) == 0:
		return 0, "", nil
	case !c.strays:
		return bytes.Count(rest, []byte("\n")), "", c.Write(rest)
	}
	aside = c.freeName()
	f, err := c.fsys.Create(aside)
	if err != nil {
		return 0, "", err
	}
	return 0, aside, errors.Join(writeAll(f, rest), f.Close())
}

// freeName is a name for a file that is set aside.
func (c *Copy) freeName() string {
	for n := 1; ; n++ {
		name := c.path + AsideSuffix + strconv.Itoa(n)
		if _, err := c.fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
}

// sumOf is the sum of the first bytes of a file.
func sumOf(f File, size int64) (sum uint64, err error) {
	b := make([]byte, min(size, 1<<20))
	for off := int64(0); off < size; off += int64(len(b)) {
		b = b[:min(int64(len(b)), size-off)]
		if err := readFull(f, b, off); err != nil {
			return 0, err
		}
		sum = crc64.Update(sum, crc64.MakeTable(crc64.ECMA), b)
	}
	return sum, nil
}

// Reset begins the copy anew. A file that has taken its name is set aside.
func (c *Copy) Reset() (aside string, err error) {
	if c.file != nil && c.Ahead() {
		if _, _, err := c.Lost(); err != nil {
			return "", err
		}
	}
	if st, err := c.fsys.Stat(c.path); err == nil && st.Size() > 0 {
		aside = c.freeName()
		if err := c.fsys.Rename(c.path, aside); err != nil {
			return "", err
		}
	} else if err == nil {
		if err := c.fsys.Remove(c.path); err != nil {
			return "", err
		}
	}
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
	return aside, nil
}

// Write appends lines. The file is made with the first.
func (c *Copy) Write(lines []byte) (err error) {
	if c.file == nil {
		if c.file, err = c.fsys.Create(c.path); err != nil {
			return err
		}
	}
	if again := min(len(lines), len(c.ahead)-c.met); !c.strays && bytes.Equal(lines[:again], c.ahead[c.met:c.met+again]) {
		c.met += again
	} else {
		c.strays = true
	}
	return writeAll(c.file, lines)
}

// Close gives the file back; false if there is none, since there are no lines.
func (c *Copy) Close() (exists bool, err error) {
	if c.file == nil {
		return false, nil
	}
	return true, c.file.Close()
}

// MarkCopy notes beside the copy at path how far it goes, which may be nowhere, for
// [OpenCopy].
func MarkCopy(fsys FS, path string, note []byte) error {
	m := copyMark{Note: note}
	switch f, err := fsys.Open(path); {
	case err == nil:
		st, err := f.Stat()
		if err == nil {
			m.Size = st.Size()
			m.Sum, err = sumOf(f, m.Size)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return ReplaceFile(fsys, path+MarkSuffix, text)
}

// PlaceExport gives a session file its place below a directory of sessions, as pi has it there. A
// file that it finds may be its beginning; one that has other lines stays, and the error wraps
// ErrChanged.
func PlaceExport(fsys FS, file, dir string) (path string, err error) {
	is, err := readAll(fsys, file)
	if err != nil {
		return "", err
	}
	h, ok, err := readHeader(fsys, file, int64(len(is)))
	if err != nil || !ok {
		return "", cmp.Or(err, ErrNotSession)
	}
	path = filepath.Join(dir, EncodeCwd(h.Cwd), FileName(h))
	if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
		return "", err
	}
	was, err := readAll(fsys, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if !bytes.HasPrefix(is, was) {
		return "", fmt.Errorf("%s has gone on by itself: %w", path, ErrChanged)
	}
	if err := fsys.Rename(file, path); err != nil {
		return "", err
	}
	return path, fsys.SyncDir(filepath.Dir(path))
}
