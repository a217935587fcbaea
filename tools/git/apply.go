package git

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"troupe/tools"
)

// ErrMoved says that the user changed what a plan was about to write. Nothing was
// written; a new plan sees what he did.
var ErrMoved = errors.New("the files have changed since the merge was planned")

const (
	journalFile = "journal.json"
	readyFile   = "ready" // from here on the user's files may have been touched
)

// merge is a plan that is being carried out. Its directory has the files as they
// were and as they will be, byte for byte, so that what was begun can be finished
// or undone without git.
type merge struct {
	dir   string // of the journal
	trees []Tree
	step  func(string) // for tests: what comes next

	Plan  Plan         `json:"plan"`
	Token string       `json:"token"` // in the names of temporary files
	Temps []string     `json:"temps"` // of the changes
	Index *indexUpdate `json:"index,omitempty"`
}

// Apply carries out a plan: every file of it, and in branch mode the index and the
// branch, or nothing. The caller's log has the plan. [ErrMoved] wants a new one.
// Once the first file has been touched, the end of ctx does not stop it.
func (w *Workspaces) Apply(ctx context.Context, env *tools.Env, ws Workspace, p Plan) error {
	switch {
	case len(p.Conflicts) > 0:
		return errors.New("a plan with conflicts is not carried out")
	case len(p.Changes) == 0 && p.Ref == nil:
		return nil
	}
	if _, err := w.probe(ctx, env); err != nil {
		return err
	}
	unlock, err := w.lockMerge(ctx, env, ws, p)
	if err != nil {
		return err
	}
	defer unlock()
	m := &merge{dir: filepath.Join(ws.Dir, "merge"), trees: ws.Trees, step: w.step, Plan: p, Token: token()}
	if exists(filepath.Join(m.dir, readyFile)) {
		return errors.New("a merge of this workspace was cut: recover it first")
	}
	if err := w.prepare(ctx, env, ws, m); err != nil {
		return errors.Join(w.wordFull(err), m.forget())
	}
	return m.carryOut(env)
}

func token() string {
	b := make([]byte, 4)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (m *merge) next(step string) {
	if m.step != nil {
		m.step(step)
	}
}

// lockMerge takes the repository against other merges and the files against tools.
func (w *Workspaces) lockMerge(ctx context.Context, env *tools.Env, ws Workspace, p Plan) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(ws.Dir), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	free := []func(){func() { f.Close() }}
	unlock = func() {
		for _, f := range slices.Backward(free) {
			f()
		}
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			unlock()
			return nil, err
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	var paths []string
	for _, c := range p.Changes { // a link and the file it leads to are one lock
		paths = append(paths, tools.RealPath(filepath.Join(ws.Trees[c.Tree].Top, c.Path)))
	}
	for _, path := range unique(paths) {
		u, err := env.Files.Lock(ctx, path)
		if err != nil {
			unlock()
			return nil, err
		}
		free = append(free, u)
	}
	return unlock, nil
}

// prepare does everything that can fail for want of room, and touches no file of
// the user. What it leaves behind, forget removes.
func (w *Workspaces) prepare(ctx context.Context, env *tools.Env, ws Workspace, m *merge) error {
	if err := os.RemoveAll(m.dir); err != nil {
		return err
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return err
	}
	for i, t := range ws.Trees {
		if err := m.stage(ctx, env, t, i); err != nil {
			return err
		}
	}
	for _, c := range m.Plan.Changes {
		if err := m.keepOld(c); err != nil {
			return err
		}
	}
	if err := w.unmoved(ctx, env, m); err != nil {
		return err
	}
	if err := m.prepareRef(ctx, env, ws); err != nil {
		return err
	}
	m.place()
	data, err := json.Marshal(m)
	if err == nil {
		err = writeDurably(filepath.Join(m.dir, journalFile), data)
	}
	if err != nil {
		return err
	}
	m.next("temporary files")
	for _, c := range m.Plan.Changes {
		if err := m.writeTemp(c); err != nil {
			return err
		}
		m.next("temporary " + c.Path)
	}
	return ctx.Err()
}

// unmoved checks that the user's trees are what the plan came from, where it matters.
func (w *Workspaces) unmoved(ctx context.Context, env *tools.Env, m *merge) error {
	for i, t := range m.trees {
		now, err := w.snapshot(ctx, env, t)
		if err != nil {
			return err
		}
		if now == m.Plan.From[i] {
			continue
		}
		out, err := t.git(env).run(ctx, "diff-tree", "-r", "-z", "--no-abbrev", "--no-renames", m.Plan.From[i], now)
		if err != nil {
			return err
		}
		moved, err := parseChanges(out)
		if err != nil {
			return err
		}
		for _, c := range m.Plan.Changes {
			if c.Tree == i && slices.ContainsFunc(moved, func(o Change) bool { return overlap(c.Path, o.Path) }) {
				return ErrMoved
			}
		}
	}
	return nil
}

// overlap says that one path is the other or a directory above it.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func (m *merge) oldFile(c Change) string {
	return filepath.Join(m.dir, "old", fmt.Sprint(c.Tree), c.Path)
}

func (m *merge) newFile(c Change) string {
	return filepath.Join(m.dir, "new", fmt.Sprint(c.Tree), c.Path)
}

func (m *merge) target(c Change) string { return filepath.Join(m.trees[c.Tree].Top, c.Path) }

// stage writes the new files, as a checkout would, into the journal.
func (m *merge) stage(ctx context.Context, env *tools.Env, t Tree, number int) error {
	var paths strings.Builder
	for _, c := range m.Plan.Changes {
		if c.Tree == number && c.NewMode != "" {
			paths.WriteString(c.Path + "\x00")
		}
	}
	dir := filepath.Join(m.dir, "new", fmt.Sprint(number))
	if err := os.MkdirAll(dir, 0o700); err != nil || paths.Len() == 0 {
		return err
	}
	g := t.at(env, dir).with("GIT_INDEX_FILE=" + filepath.Join(m.dir, fmt.Sprintf("index-%d", number)))
	g.limit = checkoutTime
	if _, err := g.run(ctx, "read-tree", m.Plan.To[number]); err != nil {
		return err
	}
	_, err := g.feed(ctx, strings.NewReader(paths.String()), "checkout-index", "-f", "-z", "--stdin")
	return err
}

// keepOld copies a file of the user into the journal.
func (m *merge) keepOld(c Change) error {
	if c.OldMode == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.oldFile(c)), 0o700); err != nil {
		return err
	}
	err := duplicate(m.target(c), m.oldFile(c), nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return ErrMoved
	}
	return err
}

// duplicate copies a file or a link, durably, to a name that is not taken. Mode,
// if not nil, is the file's; else it has that of the original.
func duplicate(from, to string, mode *fs.FileMode) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file: %w", from, ErrMoved)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	perm := info.Mode().Perm()
	if mode != nil {
		perm = *mode
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(perm), out.Sync(), out.Close())
}

// place chooses the names that new files have until they take their places: in the
// same directory, or above it as long as that is not there.
func (m *merge) place() {
	for i, c := range m.Plan.Changes {
		dir := filepath.Dir(c.Path)
		for dir != "." {
			if info, err := lstat(m.trees[c.Tree].Top, dir); err == nil && info.IsDir() {
				break
			}
			dir = filepath.Dir(dir)
		}
		m.Temps = append(m.Temps, filepath.Join(m.trees[c.Tree].Top, dir, m.tempName(c, i)))
	}
}

func (m *merge) tempName(c Change, number int) string {
	base := filepath.Base(c.Path)
	for len(base) > 200 {
		base = base[:len(base)-1]
	}
	return fmt.Sprintf(".%s.%s-%d.tmp", base, m.Token, number)
}

// index is the number of a change.
func (m *merge) index(c Change) int {
	return slices.IndexFunc(m.Plan.Changes, func(o Change) bool { return o.Tree == c.Tree && o.Path == c.Path })
}

func (m *merge) temp(c Change) string { return m.Temps[m.index(c)] }

// oldTemp is the name that an old file has until it is back in its place.
func (m *merge) oldTemp(c Change) string {
	return filepath.Join(filepath.Dir(m.target(c)), m.tempName(c, m.index(c)))
}

func (m *merge) writeTemp(c Change) error {
	if c.NewMode == "" {
		return nil
	}
	mode, err := m.mode(c)
	if err != nil {
		return err
	}
	return duplicate(m.newFile(c), m.temp(c), mode)
}

// mode is that of a file that is replaced, but for the right to run it; nil is
// what a checkout gives it.
func (m *merge) mode(c Change) (*fs.FileMode, error) {
	if c.OldMode == "" || strings.HasPrefix(c.OldMode, "12") || strings.HasPrefix(c.NewMode, "12") {
		return nil, nil
	}
	info, err := os.Lstat(m.oldFile(c))
	if err != nil {
		return nil, err
	}
	perm := info.Mode().Perm()
	switch {
	case c.NewMode == c.OldMode:
	case c.NewMode == "100755":
		perm |= perm & 0o444 >> 2
	default:
		perm &^= 0o111
	}
	return &perm, nil
}

// forget removes what prepare has made, temporary files first.
func (m *merge) forget() error { return errors.Join(m.forgetTemps(), removeAll(m.dir)) }

// forgetTemps removes what would be in the user's way.
func (m *merge) forgetTemps() error {
	var all error
	for i := range m.Temps {
		for _, name := range []string{m.Temps[i], m.oldTemp(m.Plan.Changes[i])} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// carryOut touches the user's files. If it cannot finish, it undoes what it did.
func (m *merge) carryOut(env *tools.Env) error {
	m.next("ready")
	if err := writeDurably(filepath.Join(m.dir, readyFile), nil); err != nil {
		return errors.Join(err, m.forget())
	}
	err := m.replaceAll()
	if err == nil {
		err = m.moveRef(env)
	}
	if err != nil {
		return errors.Join(err, m.giveUp())
	}
	m.tidy()
	m.next("done")
	return nil
}

// giveUp undoes what was done. A journal that is still needed stays.
func (m *merge) giveUp() error {
	if err := m.undo(); err != nil {
		return err
	}
	return m.forget()
}

// replaceAll removes, then puts in place.
func (m *merge) replaceAll() error {
	for _, c := range m.ordered() {
		if !m.has(c, m.oldFile(c), c.OldMode) {
			return ErrMoved
		}
		if err := m.replace(c); err != nil {
			return err
		}
		m.next("replaced " + c.Path)
	}
	return nil
}

// ordered has removals first, so that a directory can take the place of a file,
// and the other way round.
func (m *merge) ordered() []Change {
	var removed, written []Change
	for _, c := range m.Plan.Changes {
		if c.NewMode == "" {
			removed = append(removed, c)
		} else {
			written = append(written, c)
		}
	}
	return append(removed, written...)
}

func (m *merge) replace(c Change) error {
	target := m.target(c)
	if c.NewMode == "" {
		return os.Remove(target)
	}
	temp := m.temp(c)
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	m.removeEmpty(target)
	if info, err := os.Lstat(target); err == nil && info.IsDir() { // something has come into it that git ignores
		return ErrMoved
	}
	return os.Rename(temp, target)
}

// removeEmpty removes a directory that holds nothing but such.
func (m *merge) removeEmpty(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if e.IsDir() {
			m.removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	syscall.Rmdir(dir) // fails if something is left
}

// has says whether the place of a change looks like a file of the journal, or is
// free if mode is "".
func (m *merge) has(c Change, file, mode string) bool {
	info, err := lstat(m.trees[c.Tree].Top, c.Path)
	if mode == "" {
		return err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) || err == nil && info.IsDir()
	}
	if err != nil {
		return false
	}
	want, err := os.Lstat(file)
	if err != nil || want.Mode().Type() != info.Mode().Type() {
		return false
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		a, err1 := os.Readlink(m.target(c))
		b, err2 := os.Readlink(file)
		return err1 == nil && err2 == nil && a == b
	}
	return info.Mode().IsRegular() && info.Size() == want.Size() && (info.Mode()^want.Mode())&0o100 == 0 && sameBytes(m.target(c), file)
}

func sameBytes(a, b string) bool {
	f, err := os.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	var x, y [64 << 10]byte
	for {
		n, err1 := io.ReadFull(f, x[:])
		k, err2 := io.ReadFull(g, y[:])
		if n != k || !bytes.Equal(x[:n], y[:k]) {
			return false
		}
		if err1 != nil || err2 != nil {
			return (err1 == io.EOF || err1 == io.ErrUnexpectedEOF) && (err2 == io.EOF || err2 == io.ErrUnexpectedEOF)
		}
	}
}

// undo puts back what is still as we wrote it.
func (m *merge) undo() error {
	var all error
	for _, c := range slices.Backward(m.ordered()) {
		if !m.has(c, m.newFile(c), c.NewMode) || m.has(c, m.oldFile(c), c.OldMode) {
			continue
		}
		if err := m.restore(c); err != nil {
			all = errors.Join(all, fmt.Errorf("restore %s: %w", m.target(c), err))
		}
		m.next("restored " + c.Path)
	}
	m.tidy()
	return all
}

func (m *merge) restore(c Change) error {
	target := m.target(c)
	if c.OldMode == "" {
		return os.Remove(target)
	}
	if c.NewMode == "" {
		m.removeEmpty(target)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	temp := m.oldTemp(c)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := duplicate(m.oldFile(c), temp, nil); err != nil {
		return err
	}
	return os.Rename(temp, target)
}

// tidy removes directories that have become empty, as a checkout does.
func (m *merge) tidy() {
	for _, c := range m.Plan.Changes {
		top := m.trees[c.Tree].Top
		for dir := filepath.Dir(m.target(c)); dir != top && len(dir) > len(top); dir = filepath.Dir(dir) {
			if syscall.Rmdir(dir) != nil { // os.Remove would remove a file that is there by now
				break
			}
		}
	}
}

// Recovered says how a merge ended that was cut.
type Recovered struct {
	// Merged says that all of it is in the user's tree. Else his files are as they
	// were before, or Foreign names those that he has changed since.
	Merged  bool
	Foreign []string
}

// Recover ends a merge that was cut by the end of the process: one whose files
// are all in place is finished, another is undone. If the user has changed one
// of its files since, nothing is touched. A workspace without a merge is not
// merged.
func (w *Workspaces) Recover(ctx context.Context, env *tools.Env, ws Workspace) (Recovered, error) {
	m := &merge{dir: filepath.Join(ws.Dir, "merge"), trees: ws.Trees, step: w.step}
	data, err := os.ReadFile(filepath.Join(m.dir, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Recovered{}, removeAll(m.dir)
	}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err != nil {
		return Recovered{}, fmt.Errorf("journal of a merge: %w", err)
	}
	unlock, err := w.lockMerge(ctx, env, ws, m.Plan)
	if err != nil {
		return Recovered{}, err
	}
	defer unlock()
	if !exists(filepath.Join(m.dir, readyFile)) {
		return Recovered{}, m.forget()
	}
	return m.recover(env)
}

// recover looks at every file. M is ready.
func (m *merge) recover(env *tools.Env) (r Recovered, err error) {
	touched := 0
	for _, c := range m.Plan.Changes {
		switch {
		case m.has(c, m.newFile(c), c.NewMode):
			touched++
		case !m.has(c, m.oldFile(c), c.OldMode):
			r.Foreign = append(r.Foreign, filepath.Join(m.trees[c.Tree].Path, c.Path))
		}
	}
	switch {
	case len(r.Foreign) > 0 && touched > 0:
		return r, m.forgetTemps()
	case touched < len(m.Plan.Changes):
		r.Foreign = nil // they are the user's own affair: nothing of ours is there
		return r, m.giveUp()
	}
	if err := m.moveRef(env); err != nil {
		return r, m.giveUp()
	}
	m.tidy()
	r.Merged = true
	return r, nil
}
