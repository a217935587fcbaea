package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"troupe/tools"
)

// state says how far a workspace has come, for who finds it.
type state string

const (
	preparing state = "preparing"
	running   state = "running"
	captured  state = "captured" // its patch is durable, or there is none
	kept      state = "kept"     // likewise, and somebody may want it: its merge was a conflict, or a task can go on in it
	merged    state = "merged"
)

// owner is the file that says whose a workspace is. It is locked as long as the
// process lives that works with it.
type owner struct {
	PID       int       `json:"pid"`   // 0 is nobody's
	Start     string    `json:"start"` // when that process started, by the system's count
	Boot      string    `json:"boot"`  // of the system
	State     state     `json:"state"`
	Since     time.Time `json:"since"`
	Workspace Workspace `json:"workspace"`
}

const (
	maxWorkspaces = 200
	maxAllBytes   = 20 << 30 // of all workspaces of a repository
)

// errTaken is a workspace with a live owner.
var errTaken = errors.New("the workspace belongs to a process that lives")

// take makes the directory of a workspace and takes it.
func (w *Workspaces) take(ws *Workspace, b base, repo string) error {
	w.claim.Lock()
	defer w.claim.Unlock()
	ws.Repository, ws.Bytes, ws.Notes = b.Repository, b.Bytes, b.Notes
	ws.Baseline = b.Trees[0].Base
	ws.Trees = b.Trees
	all, count, err := occupied(repo)
	switch {
	case err != nil:
		return err
	case count >= maxWorkspaces || all+ws.Bytes > maxAllBytes:
		return fmt.Errorf("too many workspaces of this repository: %d, %s, at most %d, %s. What was kept is in %s",
			count, size(all), maxWorkspaces, size(maxAllBytes), repo)
	}
	if err := makeFresh(ws); err != nil {
		return err
	}
	if err := w.lock(ws.Dir); err != nil {
		return err
	}
	return w.note(*ws, preparing)
}

// makeFresh makes the directory of a workspace, under another name if that is taken. A task that was aborted, or whose
// process was killed, while its workspace was made may have left one of that name, and a later task may have the same id.
// What is left, a sweep removes.
func makeFresh(ws *Workspace) error {
	name := ws.Dir
	for n := 2; ; n++ {
		err := os.Mkdir(ws.Dir, 0o700)
		if !errors.Is(err, fs.ErrExist) || n > maxWorkspaces {
			return err
		}
		ws.Dir = name + "." + strconv.Itoa(n) // no task has such an id
	}
}

// occupied is what all workspaces of a repository take.
func occupied(repo string) (bytes int64, count int, err error) {
	list, err := listOwners(repo)
	for _, o := range list {
		bytes += o.Workspace.Bytes
		count++
	}
	return bytes, count, err
}

// ownerFile is the file of a workspace that says who it belongs to.
const ownerFile = "owner.json"

// lock takes a workspace for this process.
func (w *Workspaces) lock(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[dir] != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errTaken
		}
		return err
	}
	w.held[dir] = f
	return nil
}

// unlock lets go of it.
func (w *Workspaces) unlock(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.held[dir]; f != nil {
		f.Close()
		delete(w.held, dir)
	}
}

// note writes the owner file.
func (w *Workspaces) note(ws Workspace, s state) error {
	start, boot := processStart(os.Getpid())
	return owner{PID: os.Getpid(), Start: start, Boot: boot, State: s, Since: time.Now(), Workspace: ws}.write(ws.Dir)
}

func (o owner) write(dir string) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, ownerFile)
	if o.State == preparing || o.State == running { // as durable as the files that it speaks of
		return writeWhole(name, data)
	}
	return writeDurably(name, data)
}

func readOwner(dir string) (o owner, err error) {
	data, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("%w: %w", errTorn, err)
	}
	return o, nil
}

// errTorn is an owner file that says nothing: the power was cut while a task was at work.
// Before a merge begins the file is durable.
var errTorn = errors.New("the workspace has no owner any more")

// listOwners reads the owner files of a repository's workspaces.
func listOwners(repo string) ([]owner, error) {
	dirs, err := os.ReadDir(repo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []owner
	for _, d := range dirs {
		if o, err := readOwner(filepath.Join(repo, d.Name())); err == nil {
			list = append(list, o)
		}
	}
	return list, err
}

// alive says whether the process that wrote the file lives. The lock says so,
// too, but not on every file system.
func (o owner) alive() bool {
	start, boot := processStart(o.PID)
	return start != "" && start == o.Start && boot == o.Boot
}

// Open takes a workspace again that a process before us had: after a crash, or
// to go on with its task. One that is gone is fs.ErrNotExist.
func (w *Workspaces) Open(dir string) (Workspace, error) {
	o, err := readOwner(dir)
	if err != nil {
		return Workspace{}, err
	}
	w.mu.Lock()
	ours := w.held[dir] != nil && o.PID == os.Getpid()
	w.mu.Unlock()
	switch {
	case ours:
		return o.Workspace, nil
	case o.PID != os.Getpid() && o.alive():
		return Workspace{}, errTaken
	}
	// The lock of a process that was killed is let go of by the last of its
	// children, which may be about to begin.
	for range 100 {
		if err = w.lock(dir); !errors.Is(err, errTaken) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return Workspace{}, err
	}
	return o.Workspace, w.note(o.Workspace, o.State)
}

// Merged notes that the caller's log says so: the workspace may go.
func (w *Workspaces) Merged(ws Workspace) error { return w.note(ws, merged) }

// Keep lets go of a workspace that stays: for the user to look at, for a later
// task to go on in, in whatever process. A sweep removes it after its time.
func (w *Workspaces) Keep(ws Workspace) error {
	defer w.unlock(ws.Dir)
	o, err := readOwner(ws.Dir)
	if err != nil {
		return err
	}
	o.PID = 0
	if o.State == captured {
		o.State = kept
	}
	return o.write(ws.Dir)
}

// Remove removes a workspace, and the snapshot that it had if nobody else has it.
// The caller knows that nothing in it is wanted any more.
func (w *Workspaces) Remove(ctx context.Context, ws Workspace) error {
	if err := w.discard(ws); err != nil {
		return err
	}
	return w.dropBase(ctx, ws.Shared)
}

// EndCall says that no further task of a call will be prepared. It starts no process:
// the session may be ending, which lets none start.
func (w *Workspaces) EndCall(ctx context.Context, session, call string) error {
	name := Spec{Session: session}.name(call)
	var ended []string
	w.mu.Lock()
	for call, b := range w.calls {
		if filepath.Base(call) == name {
			ended = append(ended, b.dir)
			delete(w.calls, call)
		}
	}
	w.mu.Unlock()
	var errs []error
	for _, dir := range ended {
		errs = append(errs, w.dropBase(ctx, dir))
	}
	return errors.Join(errs...)
}

// discard removes the directory of a workspace. Without its owner file, which
// goes first, it is rubbish that a sweep removes.
func (w *Workspaces) discard(ws Workspace) error {
	err := os.Remove(filepath.Join(ws.Dir, ownerFile))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = removeAll(ws.Dir)
	}
	w.unlock(ws.Dir)
	return err
}

// removeAll removes directories that cannot be written to, as well: module caches
// are like that.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for i := 0; i < 100 && errors.Is(err, syscall.ENOTEMPTY); i++ { // a git of a process that was killed is about to end
		time.Sleep(10 * time.Millisecond)
		err = os.RemoveAll(dir)
	}
	if err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// dropBase removes a snapshot unless its call goes on or a workspace has it.
func (w *Workspaces) dropBase(ctx context.Context, dir string) error {
	unlock, err := w.files.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	if w.goesOn(dir) {
		return nil
	}
	list, err := listOwners(filepath.Dir(dir))
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.Workspace.Shared == dir {
			w.unlock(dir)
			return nil
		}
	}
	if err := w.lock(dir); err != nil { // somebody else is about to use it, or it is gone
		if errors.Is(err, errTaken) || errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	defer w.unlock(dir)
	return os.RemoveAll(dir)
}

// goesOn says whether a snapshot is that of a call that may have further tasks.
func (w *Workspaces) goesOn(dir string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.calls {
		if b.dir == dir {
			return true
		}
	}
	return false
}

// Close lets go of all workspaces of the process. They stay.
func (w *Workspaces) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir, f := range w.held {
		f.Close()
		delete(w.held, dir)
	}
}

// Swept is a workspace that somebody's end left behind.
type Swept struct {
	Workspace Workspace
	Removed   bool
	Patch     string // where what it holds was saved; "" if nowhere
	Err       error  // why it could not be saved
}

// Sweep removes what ended processes left of a repository: what was merged, what
// was captured and what changed nothing at once; of the rest the patch is saved beside the
// task's session, and the workspace stays for keep, or a week if that is 0. What
// a live process has is not touched.
func (w *Workspaces) Sweep(ctx context.Context, env *tools.Env, keep time.Duration) ([]Swept, error) {
	src, err := w.source(ctx, env)
	if err != nil {
		return nil, err
	}
	if keep == 0 {
		keep = 7 * 24 * time.Hour
	}
	repo := w.repository(src)
	dirs, err := os.ReadDir(repo)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var all []Swept
	for _, d := range dirs {
		dir := filepath.Join(repo, d.Name())
		switch {
		case !d.IsDir():
		case strings.HasSuffix(d.Name(), ".base"):
			defer w.dropBase(ctx, dir)
		default:
			if s, ok := w.sweepOne(ctx, env, dir, keep); ok {
				all = append(all, s)
			}
		}
	}
	return all, ctx.Err()
}

// sweepOne looks at one workspace; ok says that it is left over.
func (w *Workspaces) sweepOne(ctx context.Context, env *tools.Env, dir string, keep time.Duration) (s Swept, ok bool) {
	w.mu.Lock()
	ours := w.held[dir] != nil
	w.mu.Unlock()
	if ours {
		return s, false
	}
	o, err := readOwner(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errTorn) && olderThan(dir, keep) {
		w.sweepRubbish(dir)
		return s, false
	}
	if err != nil || o.alive() && o.PID != os.Getpid() || w.lock(dir) != nil {
		return s, false
	}
	defer w.unlock(dir)
	s.Workspace = o.Workspace
	if exists(filepath.Join(dir, "merge", readyFile)) && o.State != merged {
		// A merge was cut: its session undoes it, or we do when nobody came.
		if time.Since(o.Since) < keep {
			return s, true
		}
		if r, err := w.Recover(ctx, env, o.Workspace); err != nil || len(r.Foreign) > 0 {
			s.Err = err
			return s, true
		}
	}
	if o.State == running {
		s.Patch, s.Err = w.save(ctx, env, o.Workspace)
		if s.Err == nil && s.Patch == "" {
			o.State = captured // nothing changed
		}
	}
	unneeded := o.State == merged || o.State == captured || o.State == preparing
	if unneeded || s.Err == nil && time.Since(o.Since) > keep {
		s.Removed = w.discard(o.Workspace) == nil
	}
	return s, true
}

// olderThan says that nothing was made or removed in a directory for so long.
func olderThan(dir string, age time.Duration) bool {
	info, err := os.Stat(dir)
	return err == nil && time.Since(info.ModTime()) > age
}

// sweepRubbish removes a directory without owner file, or with one that says nothing, that is
// nobody's.
func (w *Workspaces) sweepRubbish(dir string) {
	w.claim.Lock()
	defer w.claim.Unlock()
	if _, err := readOwner(dir); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errTorn) || w.lock(dir) != nil {
		return
	}
	removeAll(dir)
	w.unlock(dir)
}

// save writes the patch of an abandoned workspace beside its session.
func (w *Workspaces) save(ctx context.Context, env *tools.Env, ws Workspace) (string, error) {
	if ws.File == "" {
		return "", errors.New("the task had no file")
	}
	c, err := w.Capture(ctx, env, ws, CaptureSpec{Patch: strings.TrimSuffix(ws.File, ".jsonl") + ".patch"})
	return c.Patch, err
}
