package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"troupe/tools"
)

// source is a working tree of the user.
type source struct {
	top     string // its top, without symlinks
	gitDir  string // of this working tree; "" for a directory that is not under git
	common  string // what all working trees of the repository share
	index   string
	objects string
	head    string // commit; "" as long as there is none
	tree    string // of that commit
	format  string // of object names
	prefix  string // of the directory that was asked for, below top; "" or with a slash at its end
	most    int64  // bytes of files that git does not track, 0 for the usual limits

	*asked // nil until a snapshot is taken of it
}

// asked is what git has said of a working tree, each to a question of its own.
type asked struct {
	config  []string // key and value, with a line break between them
	refs    []byte   // branches and tags, as in packed-refs
	ignored []string // directories
}

// Version is that of a git binary.
type version struct{ major, minor int }

func (v version) atLeast(o version) bool {
	return v.major > o.major || v.major == o.major && v.minor >= o.minor
}

var (
	oldest       = version{2, 32} // apply --cached --3way
	sparseAdd    = version{2, 34} // add --sparse
	hasMergeTree = version{2, 38} // merge-tree --write-tree
)

// parseVersion reads "git version 2.39.5 (Apple Git-154)".
func parseVersion(line string) (v version, err error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return v, fmt.Errorf("git has an unknown version: %.100q", line)
	}
	numbers := strings.SplitN(words[2], ".", 3)
	if len(numbers) >= 2 {
		v.major, err = strconv.Atoi(numbers[0])
		if err == nil {
			v.minor, err = strconv.Atoi(numbers[1])
		}
	}
	if err != nil || v.major == 0 {
		return v, fmt.Errorf("git has an unknown version: %.100q", line)
	}
	return v, nil
}

// probe asks git for its version, once.
func (w *Workspaces) probe(ctx context.Context, env *tools.Env) (version, error) {
	w.mu.Lock()
	v := w.version
	w.mu.Unlock()
	if v.major != 0 {
		return v, nil
	}
	line, err := command{env: env}.line(ctx, "version")
	if err != nil {
		return v, err
	}
	if v, err = parseVersion(line); err != nil {
		return v, err
	}
	if !v.atLeast(oldest) {
		return v, fmt.Errorf("git %d.%d is too old (%d.%d)", v.major, v.minor, oldest.major, oldest.minor)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = v
	return v, nil
}

// find says what a directory is part of.
func find(ctx context.Context, env *tools.Env, dir string) (source, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return source{}, err
	}
	g := command{env: env, dir: dir}
	if s, ok := whole(ctx, g); ok {
		return s.ofOpened(ctx, g, dir)
	}
	kind, err := g.line(ctx, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")
	var f *failure
	switch {
	case errors.As(err, &f) && strings.Contains(f.stderr, "not a git repository"):
		return source{top: dir}, nil
	case err != nil:
		return source{}, err
	case strings.HasPrefix(kind, "true"):
		return source{}, errors.New("the repository is bare")
	case strings.HasSuffix(kind, "false"):
		return source{}, errors.New("the directory belongs to the inside of a repository")
	}
	out, err := g.line(ctx, append([]string{"rev-parse"}, ofWork...)...)
	if err != nil {
		return source{}, err
	}
	lines := strings.Split(out, "\n")
	if len(lines) != 7 {
		return source{}, errors.New("the path of the repository has a line break in it")
	}
	s, err := sourceOf(lines).ofOpened(ctx, g, dir)
	if err != nil || !s.isRepository() {
		return s, err
	}
	s.head, err = g.line(ctx, "rev-parse", "-q", "--verify", "HEAD^{commit}")
	if failedWith(err, 1) {
		return s, nil // no commit yet
	}
	if err == nil {
		s.tree, err = g.line(ctx, "rev-parse", s.head+"^{tree}")
	}
	return s, err
}

// ofWork are questions about a working tree, one line each.
var ofWork = []string{"--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir",
	"--git-path", "index", "--git-path", "objects", "--show-object-format", "--show-prefix"}

// whole asks all at once, which is enough in the ordinary case: a process of git takes longer
// than what it has to say.
func whole(ctx context.Context, g command) (s source, ok bool) {
	args := append([]string{"rev-parse", "--is-bare-repository", "--is-inside-work-tree"}, ofWork...)
	out, err := g.line(ctx, append(args, "HEAD^{commit}", "HEAD^{tree}")...)
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != 11 || lines[0] != "false" || lines[1] != "true" {
		return s, false
	}
	s = sourceOf(lines[2:9])
	s.head, s.tree = lines[9], lines[10]
	return s, true
}

// sourceOf is what the answers say.
func sourceOf(lines []string) source {
	return source{
		top: lines[0], gitDir: lines[1], common: lines[2], index: lines[3], objects: lines[4], format: lines[5], prefix: lines[6],
	}
}

// ofOpened returns the source of the directory that was opened, in which g runs. A directory of which
// the repository above has no file is not part of that repository, whether it is ignored or not: it
// may be somebody else's, such as one of all dotfiles of the user.
func (s source) ofOpened(ctx context.Context, g command, dir string) (source, error) {
	if s.prefix == "" {
		return s, nil
	}
	tracked, err := g.run(ctx, "ls-files", "-z", "--", ".")
	switch {
	case err != nil:
		return source{}, err
	case len(tracked) == 0:
		return source{top: dir}, nil
	default:
		return s, nil
	}
}

// isRepository says that the directory is under git.
func (s source) isRepository() bool { return s.gitDir != "" }

// listing is what a working tree consists of, as far as git would take it.
type listing struct {
	files, bytes int64 // without nested repositories
	nested       []string
	unmerged     bool   // a merge of the user's is unfinished
	only         string // below which untracked files are taken; "" for all of them
	marked       bool   // git was told to overlook some of the files
}

const (
	maxUntracked     = 1 << 30  // bytes of all untracked files
	maxUntrackedFile = 50 << 20 // and of one
	plainFiles       = 20_000   // of a directory that is not under git
	plainBytes       = 256 << 20
)

// list measures a working tree, and refuses one that is too large to be copied
// into a snapshot. G runs in it.
func (s source) list(ctx context.Context, g command) (l listing, err error) {
	out, err := g.run(ctx, "ls-files", "-v", "-s", "-o", "--exclude-standard", "-z")
	if err != nil {
		return l, err
	}
	var untracked []string
	for _, line := range fields(out) {
		if path, ok := strings.CutPrefix(line, "? "); ok {
			untracked = append(untracked, path)
			continue
		}
		about, path, _ := strings.Cut(line, "\t") // tag, mode, object, stage
		words := strings.Fields(about)
		if len(words) != 4 {
			return l, fmt.Errorf("git ls-files: unknown record %q", line)
		}
		l.unmerged = l.unmerged || words[3] != "0"
		l.marked = l.marked || isMarked(words[0])
		if words[1] == gitlink {
			if _, err := os.Lstat(filepath.Join(s.top, path, ".git")); err == nil {
				l.nested = append(l.nested, path)
			}
			continue
		}
		l.add(s.top, path)
	}
	return l, s.listUntracked(&l, untracked)
}

// look finds what else a workspace needs to know of a working tree, at the same time: its
// files; of a repository the refs and, if they are wanted, the directories that it ignores.
// G runs in it.
func (s source) look(ctx context.Context, g command, ignored bool) (l listing, err error) {
	ask := []func() error{func() (err error) { l, err = s.list(ctx, g); return err }}
	if s.isRepository() {
		ask = append(ask, func() error { return s.findRefs(ctx, g) })
	}
	if ignored {
		ask = append(ask, func() error { return s.findIgnored(ctx, g) })
	}
	return l, together(ask...)
}

// together does several things at once.
func together(do ...func() error) error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i, f := range do {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// findRefs finds the branches and tags that a clone gets, of its own.
func (s source) findRefs(ctx context.Context, g command) error {
	out, err := g.run(ctx, "for-each-ref", "--format=%(objectname) %(refname)")
	for line := range bytes.Lines(out) {
		if !bytes.HasSuffix(line, []byte(" refs/stash\n")) {
			s.refs = append(s.refs, line...)
		}
	}
	return err
}

func (s source) findIgnored(ctx context.Context, g command) error {
	out, err := g.run(ctx, "ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
	for _, name := range fields(out) {
		if dir, isDir := strings.CutSuffix(name, "/"); isDir {
			s.ignored = append(s.ignored, dir)
		}
	}
	return err
}

// listUntracked measures files that git does not track. Where those outside of the opened directory
// are too large, they stay out of the snapshot.
func (s source) listUntracked(l *listing, paths []string) error {
	var inside, outside untrackedFiles
	for _, path := range paths {
		if strings.HasPrefix(path, s.prefix) {
			inside.add(s, l, path)
		}
	}
	within := *l
	for _, path := range paths {
		if !strings.HasPrefix(path, s.prefix) {
			outside.add(s, l, path)
		}
	}
	plain, most, each := int64(plainBytes), int64(maxUntracked), int64(maxUntrackedFile)
	if s.most > 0 {
		plain, most, each = s.most, s.most, s.most
	}
	if s.prefix != "" && (inside.all+outside.all > most || outside.largest > each) {
		*l, outside = within, untrackedFiles{}
		l.only = s.prefix
	}
	all, largest, name := inside.all+outside.all, inside.largest, inside.name
	switch {
	case !s.isRepository() && (l.files > plainFiles || l.bytes > plain):
		return refusal{fmt.Errorf("%s is no repository and too large for one of its own: %d files, %s; at most %d files, %s",
			s.top, l.files, size(l.bytes), plainFiles, size(plain))}
	case s.isRepository() && (all > most || largest > each):
		return fmt.Errorf("untracked files are too large for a snapshot: %s in all, at most %s, and %s each; the largest is %s (%s). Ignore it or commit it, or raise task.isolation.maxBytes",
			size(all), size(most), size(each), name, size(largest))
	}
	return nil
}

// untrackedFiles sums the sizes of files that git does not track.
type untrackedFiles struct {
	all, largest int64  // bytes
	name         string // of the largest
}

func (u *untrackedFiles) add(s source, l *listing, path string) {
	if dir, ok := strings.CutSuffix(path, "/"); ok {
		l.nested = append(l.nested, dir)
		return
	}
	n := l.add(s.top, path)
	if u.all += n; n > u.largest {
		u.largest, u.name = n, path
	}
}

func (l *listing) add(top, path string) int64 {
	l.files++
	info, err := os.Lstat(filepath.Join(top, path))
	if err != nil || info.IsDir() || info.Mode()&fs.ModeType&^fs.ModeSymlink != 0 {
		return 0
	}
	l.bytes += info.Size()
	return info.Size()
}

func size(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// tooHigh says that a directory without git is the root, the home directory or
// above it.
func (s source) tooHigh(home string) bool {
	if s.isRepository() {
		return false
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	rel, err := filepath.Rel(s.top, home)
	return s.top == "/" || home != "" && err == nil && !strings.HasPrefix(rel, "..")
}
