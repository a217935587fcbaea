package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Cache keeps what was made of extensions, for the next process. A nil Cache keeps
// nothing. What it gives is run as it is: its folder is the user's alone, and one that
// belongs to somebody else is not used.
type Cache struct {
	dir     string
	kind    string // of what is kept of an extension: there may be several of one
	version func() string
}

// cacheLimit is how many bytes a cache may have; the files that were used longest ago go.
const cacheLimit = 64 << 20

// touchEvery is how old the mark of a file's last use may be.
const touchEvery = time.Hour

// Entry is a bundle and what the engine made of it.
type Entry struct {
	Bundle
	ForNode bool   `json:"forNode,omitempty"` // Code is the script itself
	Code    []byte `json:"-"`                 // bytecode
}

// OpenCache gives the cache in dir of a kind of entries, nil if it cannot be used. Those
// of another version are not found.
func OpenCache(dir, kind string, version func() string) *Cache {
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !mine(info) {
		return nil
	}
	return &Cache{dir: dir, kind: kind, version: version}
}

// header is the first line of a file: what must be true of the rest.
type header struct {
	Version string `json:"version"`
	Sum     string `json:"sum"` // of all that follows
	Meta    int    `json:"meta"`
	Code    int    `json:"code"`
}

func (c *Cache) file(path string) string {
	sum := sha256.Sum256([]byte(c.kind + path))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:])+".qbc")
}

// Get finds the entry of an extension whose files are as they were, and whose
// packages that were missing still are.
func (c *Cache) Get(path string) (*Entry, bool) {
	e, ok := c.last(path)
	if !ok {
		return nil, false
	}
	for _, in := range e.Inputs {
		if !in.same() {
			return nil, false
		}
	}
	if slices.ContainsFunc(e.Missing, Import.installed) {
		return nil, false
	}
	return e, true
}

// last finds the entry of an extension, whatever has become of its files.
func (c *Cache) last(path string) (*Entry, bool) {
	if c == nil {
		return nil, false
	}
	real, err := realPath(path)
	if err != nil {
		return nil, false
	}
	name := c.file(real)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, false
	}
	line, rest, ok := bytes.Cut(data, []byte("\n"))
	var h header
	if !ok || json.Unmarshal(line, &h) != nil || h.Version != c.version() || sumOf(rest) != h.Sum ||
		h.Meta < 0 || h.Code < 0 || h.Meta+h.Code > len(rest) {
		return nil, false
	}
	var e Entry
	if json.Unmarshal(rest[:h.Meta], &e) != nil || e.Path != real {
		return nil, false
	}
	e.Code, e.Map = rest[h.Meta:h.Meta+h.Code], rest[h.Meta+h.Code:]
	if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > touchEvery {
		now := time.Now()
		_ = os.Chtimes(name, now, now) // only the order of forgetting suffers
	}
	return &e, true
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put keeps an entry.
func (c *Cache) Put(e *Entry) error {
	if c == nil {
		return nil
	}
	meta, err := json.Marshal(e)
	if err != nil {
		return err
	}
	rest := slices.Concat(meta, e.Code, e.Map)
	line, err := json.Marshal(header{Version: c.version(), Sum: sumOf(rest), Meta: len(meta), Code: len(e.Code)})
	if err != nil {
		return err
	}
	if err := Keep(c.file(e.Path), slices.Concat(line, []byte("\n"), rest)); err != nil {
		return err
	}
	return c.trim()
}

// Keep writes a file of the cache, in the place of an older one: a reader sees one or the other, whole.
func Keep(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name())) // or trim does, one day
	}
	return nil
}

// trim removes what was used longest ago until the rest is small enough, and what a
// process left behind that died while it wrote.
func (c *Cache) trim() error {
	list, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var size int64
	for _, d := range list {
		info, err := d.Info()
		if err != nil {
			continue // another process removed it
		}
		if strings.HasPrefix(d.Name(), "new-") && time.Since(info.ModTime()) > touchEvery {
			_ = os.Remove(filepath.Join(c.dir, d.Name())) // or the next time
			continue
		}
		files = append(files, info)
		size += info.Size()
	}
	slices.SortFunc(files, func(x, y fs.FileInfo) int { return cmp.Compare(x.ModTime().UnixNano(), y.ModTime().UnixNano()) })
	for _, f := range files {
		if size <= cacheLimit {
			break
		}
		if os.Remove(filepath.Join(c.dir, f.Name())) == nil {
			size -= f.Size()
		}
	}
	return nil
}

// realPath is the path of a file without symbolic links, also if it is gone.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			real = filepath.Join(dir, filepath.Base(path))
		}
	}
	return real, err
}
