// Package storetest has file systems to test sessions on: [Mem], which can
// crash, and [Faulty], which fails on demand. [TestFS] is the contract that
// every file system of package store has to keep.
package storetest

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/store"
)

// Mem is a file system in memory that knows what a power cut would leave of
// it. Beside what programs see it keeps what is durable: content as of the
// last Sync of its file, names as of the last SyncDir of their directory.
// Everything since then may survive, in part: see [Mem.Crash].
//
// Its clock starts at a fixed time and moves by a millisecond with every
// change.
type Mem struct {
	mu    sync.Mutex
	names map[string]*inode // by cleaned absolute path
	ops   []nameOp          // changes of names that are not durable, in order
	clock time.Time
	nodes uint64 // made so far
}

// inode is a file or a directory. data is what programs see; durable and the
// ops after it are what a power cut chooses from.
type inode struct {
	dir     bool
	data    []byte
	durable []byte
	ops     []dataOp
	mtime   time.Time
	id      uint64    // no other has it
	changed time.Time // content, names or rights
	holder  *memFile
	locked  bool // a directory
	mode    fs.FileMode
}

// dataOp is a write at the end (cut < 0) or a truncation.
type dataOp struct {
	data []byte
	cut  int64
}

// nameOp sets a name or removes one; a rename does both at once. The nodes that
// had the names before are kept to take it back.
type nameOp struct {
	set, remove       string // "" for none
	node              *inode // what set names
	replaced, removed *inode
}

// NewMem is an empty file system with a root directory.
func NewMem() *Mem {
	root := &inode{dir: true, mode: 0o700 | fs.ModeDir}
	return &Mem{names: map[string]*inode{"/": root}, clock: time.UnixMilli(1_800_000_000_000)}
}

func clean(name string) string {
	if filepath.IsAbs(name) { // it mostly is, and clean
		return filepath.Clean(name)
	}
	return filepath.Join("/", name)
}

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func (m *Mem) tick() time.Time {
	m.clock = m.clock.Add(time.Millisecond)
	return m.clock
}

// file makes a file.
func (m *Mem) file(content []byte) *inode {
	m.nodes++
	now := m.tick()
	return &inode{id: m.nodes, data: content, durable: slices.Clone(content), mtime: now, changed: now, mode: 0o600}
}

// written notes a change of a file's content.
func (m *Mem) written(n *inode) {
	n.mtime = m.tick()
	n.changed = n.mtime
}

func (n *inode) stamp() store.Stamp {
	return store.Stamp{Ino: n.id, Size: int64(len(n.data)), Changed: n.changed.UnixNano()}
}

func (m *Mem) OpenAppend(name string) (store.File, error) { return m.open(name, true) }
func (m *Mem) Open(name string) (store.File, error)       { return m.open(name, false) }

func (m *Mem) open(name string, writable bool) (store.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(name)]
	switch {
	case node == nil:
		return nil, fail("open", name, fs.ErrNotExist)
	case node.dir && writable:
		return nil, fail("open", name, fmt.Errorf("is a directory"))
	case writable && node.mode&0o200 == 0:
		return nil, fail("open", name, fs.ErrPermission)
	}
	return &memFile{fs: m, node: node, name: clean(name), writable: writable}, nil
}

func (m *Mem) Create(name string) (store.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	if m.names[path] != nil {
		return nil, fail("create", name, fs.ErrExist)
	}
	if parent := m.names[filepath.Dir(path)]; parent == nil || !parent.dir {
		return nil, fail("create", name, fs.ErrNotExist)
	}
	node := m.file(nil)
	m.rename(nameOp{set: path, node: node})
	return &memFile{fs: m, node: node, name: path, writable: true}, nil
}

// rename performs a change of names and notes it as not durable.
func (m *Mem) rename(op nameOp) {
	if op.remove != "" {
		op.removed = m.names[op.remove]
		delete(m.names, op.remove)
	}
	if op.set != "" {
		op.replaced = m.names[op.set]
		m.names[op.set] = op.node
	}
	m.ops = append(m.ops, op)
}

// undo takes a change of names back.
func (m *Mem) undo(op nameOp) {
	if op.set != "" {
		delete(m.names, op.set)
		if op.replaced != nil {
			m.names[op.set] = op.replaced
		}
	}
	if op.remove != "" {
		m.names[op.remove] = op.removed
	}
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(name)]
	if node == nil {
		return nil, fail("stat", name, fs.ErrNotExist)
	}
	return node.info(clean(name)), nil
}

func (m *Mem) Stamp(name string) (store.Stamp, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(name)]
	if node == nil {
		return store.Stamp{}, fail("stat", name, fs.ErrNotExist)
	}
	return node.stamp(), nil
}

func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := clean(name)
	if node := m.names[dir]; node == nil || !node.dir {
		return nil, fail("readdir", name, fs.ErrNotExist)
	}
	var entries []fs.DirEntry
	for _, path := range slices.Sorted(maps.Keys(m.names)) {
		if path != dir && filepath.Dir(path) == dir {
			entries = append(entries, fs.FileInfoToDirEntry(m.names[path].info(path)))
		}
	}
	return entries, nil
}

func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(from)]
	if node == nil {
		return fail("rename", from, fs.ErrNotExist)
	}
	m.rename(nameOp{set: clean(to), remove: clean(from), node: node})
	node.changed = m.tick()
	return nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[clean(name)] == nil {
		return fail("remove", name, fs.ErrNotExist)
	}
	m.rename(nameOp{remove: clean(name)})
	return nil
}

func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(clean(name), "/"), "/") {
		path += "/" + part
		if node := m.names[clean(path)]; node == nil {
			m.rename(nameOp{set: clean(path), node: &inode{dir: true, mtime: m.tick(), mode: 0o700 | fs.ModeDir}})
		} else if !node.dir {
			return fail("mkdir", name, fmt.Errorf("not a directory"))
		}
	}
	return nil
}

// SyncDir makes the changes of names in the directory durable, and no others:
// the directory's own name is its parent's.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := clean(name)
	if node := m.names[dir]; node == nil || !node.dir {
		return fail("syncdir", name, fs.ErrNotExist)
	}
	m.ops = slices.DeleteFunc(m.ops, func(op nameOp) bool { return filepath.Dir(cmp.Or(op.set, op.remove)) == dir })
	return nil
}

// LockDir does not wait.
func (m *Mem) LockDir(name string) (unlock func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(name)]
	switch {
	case node == nil || !node.dir:
		return nil, fail("lock", name, fs.ErrNotExist)
	case node.locked:
		return nil, fail("lock", name, store.ErrInUse)
	}
	node.locked = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		node.locked = false
	}, nil
}

// WriteFile puts a file there, durable, with its directories.
func (m *Mem) WriteFile(name string, content []byte) {
	if err := m.MkdirAll(filepath.Dir(name)); err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[clean(name)] = m.file(slices.Clone(content))
	m.ops = nil
}

// ReadFile is a file's content, nil if there is no such file.
func (m *Mem) ReadFile(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if node := m.names[clean(name)]; node != nil {
		return append([]byte{}, node.data...)
	}
	return nil
}

// SetReadOnly takes the right to write a file.
func (m *Mem) SetReadOnly(name string, readOnly bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[clean(name)]
	node.changed = m.tick()
	node.mode |= 0o200
	if readOnly {
		node.mode &^= 0o200
	}
}

// Files lists the paths of all files, sorted.
func (m *Mem) Files() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(m.names)) {
		if !m.names[path].dir {
			paths = append(paths, path)
		}
	}
	return paths
}

// Kill is the file system as the death of the process leaves it: whole, but
// without open files and locks. The original goes on unaffected.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := &Mem{names: map[string]*inode{}, clock: m.clock, nodes: m.nodes}
	copies := map[*inode]*inode{}
	copyNode := func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if copies[n] == nil {
			c := *n
			c.holder, c.locked = nil, false
			c.data, c.durable, c.ops = slices.Clone(n.data), slices.Clone(n.durable), slices.Clone(n.ops)
			copies[n] = &c
		}
		return copies[n]
	}
	for path, node := range m.names {
		after.names[path] = copyNode(node)
	}
	for _, op := range m.ops {
		after.ops = append(after.ops, nameOp{op.set, op.remove, copyNode(op.node), copyNode(op.replaced), copyNode(op.removed)})
	}
	return after
}

// Crash is the file system as a power cut leaves it. The seed chooses how much
// of what was not synced survived: a prefix of the changes of names, and of
// every file a prefix of its changes, the last of them perhaps only in part,
// and perhaps with zeros for data that did not make it to the disk in time.
func (m *Mem) Crash(seed uint64) *Mem {
	after := m.Kill()
	rng := rand.New(rand.NewPCG(seed, 1))
	lost := after.ops[rng.IntN(len(after.ops)+1):]
	for _, op := range slices.Backward(lost) {
		after.undo(op)
	}
	after.ops = nil
	for _, path := range slices.Sorted(maps.Keys(after.names)) {
		if after.names[filepath.Dir(path)] == nil { // parents come first
			delete(after.names, path)
			continue
		}
		after.names[path].crash(rng)
	}
	return after
}

func (n *inode) crash(rng *rand.Rand) {
	if n.dir {
		return
	}
	data := n.durable
	keep := rng.IntN(len(n.ops) + 1)
	for i, op := range n.ops[:keep] {
		if op.cut >= 0 {
			data = resize(data, op.cut)
			continue
		}
		part := op.data
		if i == keep-1 {
			part = tear(part, rng)
		}
		data = append(slices.Clip(data), part...)
	}
	n.data, n.durable, n.ops = slices.Clone(data), slices.Clone(data), nil
}

// tear keeps a prefix of what was written last, sometimes with zeros at its
// end.
func tear(data []byte, rng *rand.Rand) []byte {
	part := slices.Clone(data[:rng.IntN(len(data)+1)])
	if rng.IntN(4) == 0 && len(part) > 0 {
		clear(part[rng.IntN(len(part)):])
	}
	return part
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return slices.Clone(data[:size])
	}
	return append(slices.Clone(data), make([]byte, size-int64(len(data)))...)
}

type memFile struct {
	fs       *Mem
	node     *inode
	name     string
	writable bool
	closed   bool
}

func (f *memFile) check(op string, writing bool) error {
	if f.closed {
		return fail(op, f.name, fs.ErrClosed)
	}
	if writing && !f.writable {
		return fail(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	f.node.data = append(f.node.data, p...)
	f.node.ops = append(f.node.ops, dataOp{slices.Clone(p), -1})
	f.fs.written(f.node)
	return len(p), nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if f.node.dir {
		return 0, fail("read", f.name, fmt.Errorf("is a directory"))
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.node.data = resize(f.node.data, size)
	f.node.ops = append(f.node.ops, dataOp{cut: size})
	f.fs.written(f.node)
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.node.durable, f.node.ops = slices.Clone(f.node.data), nil
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return nil, err
	}
	return f.node.info(f.name), nil
}

func (f *memFile) Stamp() (store.Stamp, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return store.Stamp{}, err
	}
	for _, node := range f.fs.names {
		if node == f.node {
			return node.stamp(), nil
		}
	}
	return store.Stamp{}, fail("stat", f.name, fs.ErrNotExist)
}

func (f *memFile) Lock() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.node.holder != nil && f.node.holder != f {
		return fail("lock", f.name, store.ErrInUse)
	}
	f.node.holder = f
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	if f.node.holder == f {
		f.node.holder = nil
	}
	return nil
}

type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
	node  *inode
}

func (n *inode) info(path string) memInfo {
	return memInfo{filepath.Base(path), int64(len(n.data)), n.mode, n.mtime, n}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
