package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"troupe/tools"
)

// Workspaces are those of a process. The methods may be called at the same time;
// each takes the environment of the session that it works for: its directory, its
// variables, its processes.
type Workspaces struct {
	dir     string // where all of them are; the base directory of the package comment
	minFree int64  // bytes that stay free on the disk

	files tools.Files  // locks calls while their snapshots are taken, and snapshots
	claim sync.Mutex   // a directory that is nobody's yet is no rubbish
	step  func(string) // for tests: the next step of a merge

	mu      sync.Mutex
	version version             // of git; zero until it was asked
	held    map[string]*os.File // locked owner files, by directory
	calls   map[string]base     // snapshots of calls that go on, by where and for whom they were taken
}

const gib = 1 << 30

// New returns the workspaces below a directory, which need not exist.
func New(dir string) *Workspaces {
	return &Workspaces{dir: dir, minFree: gib, held: make(map[string]*os.File), calls: make(map[string]base)}
}

// DefaultDir is where workspaces are unless it is configured otherwise.
func DefaultDir(getenv func(string) string) string {
	if dir := getenv("TROUPE_WORKTREE_DIR"); dir != "" {
		return dir
	}
	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "troupe", "wt")
}

// Spec says what a workspace is for.
type Spec struct {
	Session string // of the parent, its id
	Call    string // tasks of one call share a snapshot of the user's tree
	ID      string // of the task, unique in the session
	File    string // the task's session file; "" is none
	Branch  bool   // the task works on a branch instead of a detached HEAD

	// Carry names ignored directories that are brought along (node_modules): by
	// sharing their blocks if CarryBy is "" and the file system can, else by
	// "symlink" or "copy".
	Carry   []string
	CarryBy string

	// MaxUntracked is how many bytes files may have that git does not track, in all
	// and each; 0 for 1 GiB and 50 MiB, and 256 MiB of a directory without git.
	MaxUntracked int64
}

// Workspace is where one task works. It is a plain value, to be kept in a log.
type Workspace struct {
	Dir      string `json:"dir"`  // all that belongs to it
	Path     string `json:"path"` // where the task works: what the user's directory is to his tree
	Baseline string `json:"baseline"`
	Branch   string `json:"branch,omitempty"` // it works on; "" is a detached HEAD
	// Notes are for the result: what was left out or is not as usual.
	Notes []string `json:"notes,omitempty"`

	Session string `json:"session"`
	ID      string `json:"id"`
	File    string `json:"file,omitempty"`
	Shared  string `json:"shared"` // directory of the snapshot
	Trees   []Tree `json:"trees"`
	// Repository says that the user's directory is under git. Else the task's is
	// not either.
	Repository bool  `json:"repository"`
	Bytes      int64 `json:"bytes"`
}

// root is the top of the workspace's own tree.
func (ws Workspace) root() string { return filepath.Join(ws.Dir, "tree") }

// WithCeiling returns an environment for the commands of a directory. In a workspace, git does not look
// for a repository above it: one of a directory that is not under git has no repository, and lies in the
// home of the user, which may be one.
func WithCeiling(dir string, environ []string) []string {
	const name = "GIT_CEILING_DIRECTORIES="
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) != "tree" || !exists(filepath.Join(filepath.Dir(dir), ownerFile)) {
			continue
		}
		list := filepath.Dir(dir)
		var all []string
		for _, v := range environ {
			if others, is := strings.CutPrefix(v, name); !is {
				all = append(all, v)
			} else if others != "" {
				list += string(filepath.ListSeparator) + others
			}
		}
		return append(all, name+list)
	}
	return environ
}

// work is the working tree of one of its trees.
func (ws Workspace) work(t Tree) string { return filepath.Join(ws.root(), t.Path) }

// Check says why the directory of a session cannot be isolated, in the words
// that a model reads; nil if it can. It changes nothing.
func (w *Workspaces) Check(ctx context.Context, env *tools.Env) error {
	_, err := w.source(ctx, env)
	return err
}

// refusal is why a directory cannot be isolated.
type refusal struct{ why error }

func (e refusal) Error() string {
	return fmt.Sprintf("Isolated task execution requires a git repository (%v)", e.why)
}

func (e refusal) Unwrap() error { return e.why }

// Refused says whether an error is that no directory like the session's can be
// isolated, whichever task asks.
func Refused(err error) bool { return errors.As(err, new(refusal)) }

func (w *Workspaces) source(ctx context.Context, env *tools.Env) (source, error) {
	refuse := func(err error) (source, error) {
		if ctx.Err() != nil {
			return source{}, ctx.Err()
		}
		return source{}, refusal{err}
	}
	if _, err := w.probe(ctx, env); err != nil {
		return refuse(err)
	}
	src, err := find(ctx, env, env.Cwd)
	switch {
	case err != nil:
		return refuse(err)
	case src.tooHigh(env.Home):
		return refuse(fmt.Errorf("%s is not one, and too high up for a copy", src.top))
	}
	return src, nil
}

// Prepare makes a workspace of the session's directory as it is now, or, for
// tasks of a call that has one, as it was then. What it could not finish is gone.
func (w *Workspaces) Prepare(ctx context.Context, env *tools.Env, spec Spec) (Workspace, error) {
	call := filepath.Join(env.Cwd, spec.name(spec.Call))
	unlock, err := w.files.Lock(ctx, call)
	if err != nil {
		return Workspace{}, err
	}
	ws := Workspace{Session: spec.Session, ID: spec.ID, File: spec.File}
	b, err := w.openBase(ctx, env, call, spec)
	if err == nil {
		repo := filepath.Dir(b.dir)
		ws.Dir, ws.Shared = filepath.Join(repo, spec.name(spec.ID)), b.dir
		err = w.take(&ws, b, repo)
	}
	unlock()
	if err != nil {
		return Workspace{}, w.wordFull(err)
	}
	if spec.Branch && b.Repository {
		ws.Branch = "troupe/task/" + spec.session() + "/" + safe(spec.ID)
	}
	err = w.fill(ctx, env, &ws, b, spec)
	if err != nil {
		return Workspace{}, errors.Join(w.wordFull(err), w.discard(ws))
	}
	return ws, nil
}

// openBase finds or makes the snapshot of a call, which then goes on until EndCall. An
// earlier call may have had the same name: some models begin anew with each answer.
func (w *Workspaces) openBase(ctx context.Context, env *tools.Env, call string, spec Spec) (base, error) {
	w.mu.Lock()
	b, ok := w.calls[call]
	w.mu.Unlock()
	if ok {
		return b, nil
	}
	src, err := w.source(ctx, env)
	if err != nil {
		return b, err
	}
	src.most = spec.MaxUntracked
	dir := filepath.Join(w.repository(src), filepath.Base(call)+"-"+token()+".base")
	unlock, err := w.files.Lock(ctx, dir) // against a sweep
	if err != nil {
		return b, err
	}
	defer unlock()
	if b, err = w.makeBase(ctx, env, src, dir, len(spec.Carry) > 0); err != nil {
		return b, err
	}
	w.mu.Lock()
	over := ctx.Err() != nil // EndCall may have been here
	if !over {
		w.calls[call] = b
	}
	w.mu.Unlock()
	if over {
		w.removeBase(b.dir)
	}
	return b, ctx.Err()
}

// fill puts files into a workspace that has been claimed.
func (w *Workspaces) fill(ctx context.Context, env *tools.Env, ws *Workspace, b base, spec Spec) error {
	for _, t := range ws.Trees {
		if err := checkOut(ctx, env, *ws, t); err != nil {
			return err
		}
	}
	ws.Path = filepath.Join(ws.root(), b.Prefix)
	if err := os.MkdirAll(ws.Path, 0o777); err != nil {
		return err
	}
	notes, err := ws.carry(ctx, spec)
	if err != nil {
		return err
	}
	ws.Notes = append(ws.Notes, notes...)
	return w.note(*ws, running)
}

// checkOut makes one tree of a workspace: a clone for a repository, files for a
// directory.
func checkOut(ctx context.Context, env *tools.Env, ws Workspace, t Tree) error {
	work := ws.work(t)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	if t.Index == "" {
		g := t.at(env, work).with("GIT_INDEX_FILE=" + ws.index(t))
		g.limit = checkoutTime
		_, err := g.run(ctx, "read-tree", "-u", "--reset", t.Base)
		return err
	}
	dir := filepath.Join(work, ".git")
	if err := t.from.makeGitDir(dir, false, []string{filepath.Join(t.Store, "objects")}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "packed-refs"), t.from.refs, 0o600); err != nil {
		return err
	}
	if err := t.from.copyHooks(dir); err != nil {
		return err
	}
	g := command{env: env, dir: work, limit: checkoutTime}.writing(work)
	args := []string{"checkout", "-q", "--detach", t.Base}
	if ws.Branch != "" && t.Path == "" {
		args = []string{"checkout", "-q", "-b", ws.Branch, t.Base}
	}
	_, err := g.run(ctx, args...)
	return err
}

// index is that of a tree of the workspace.
func (ws Workspace) index(t Tree) string {
	if t.Index == "" {
		return filepath.Join(ws.Dir, "index")
	}
	return filepath.Join(ws.work(t), ".git", "index")
}

// copyHooks gives it the hooks, for the task's own commits.
func (s source) copyHooks(dir string) error {
	list, err := os.ReadDir(filepath.Join(s.common, "hooks"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".sample") || e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.common, "hooks", e.Name()))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "hooks", e.Name()), data, 0o700); err != nil {
			return err
		}
	}
	return err
}

// repository is the directory of all workspaces of a repository.
func (w *Workspaces) repository(s source) string {
	key := s.common
	if !s.isRepository() {
		key = s.top
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(w.dir, hex.EncodeToString(sum[:8]))
}

// session is a short name of the parent's session. Its id itself begins with the
// time, and so is not told apart by its beginning.
func (s Spec) session() string {
	sum := sha256.Sum256([]byte(s.Session))
	return hex.EncodeToString(sum[:4])
}

// name is a directory's for something of the session.
func (s Spec) name(of string) string { return s.session() + "-" + safe(of) }

// safe makes a file name of an id. Ids that are too long, or that are no names,
// are told apart by a hash.
func safe(id string) string {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-.", r) || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, id)
	if plain == id && len(id) <= 64 && !strings.HasPrefix(id, ".") && !strings.HasSuffix(id, ".") && !strings.Contains(id, "..") && !strings.HasSuffix(id, ".lock") {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "x" + strings.Trim(plain[:min(len(plain), 40)], ".") + "_" + hex.EncodeToString(sum[:4])
}

// checkSpace refuses what needs more of the disk than may be used: twice the size
// of the tree, and not less than minFree.
func (w *Workspaces) checkSpace(tree int64) error {
	free, err := w.free()
	if err != nil {
		return err
	}
	if needed := max(w.minFree, 2*tree); free < needed {
		return noSpace{free, needed}
	}
	return nil
}

func (w *Workspaces) free() (int64, error) {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(w.dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", w.dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// noSpace is a disk that is full, or would be.
type noSpace struct{ free, needed int64 }

func (e noSpace) Error() string {
	return fmt.Sprintf("No space left for the workspace (free %s, needed %s)", size(e.free), size(e.needed))
}

// wordFull says it in one way, whoever found the disk full.
func (w *Workspaces) wordFull(err error) error {
	var f *failure
	if errors.Is(err, syscall.ENOSPC) || errors.As(err, &f) && strings.Contains(f.stderr, "No space left on device") {
		if free, ferr := w.free(); ferr == nil {
			return noSpace{free, max(w.minFree, free+1)}
		}
	}
	return err
}
