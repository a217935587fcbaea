package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/tools"
)

const gitlink = "160000" // mode of a nested repository in a tree

// Tree is one working tree of a workspace: that of the repository, or of one
// nested in it. It has a store: a git directory of ours that borrows the objects
// of the user's repository and takes up all that we add, so that nothing of it
// is in his.
type Tree struct {
	Path   string `json:"path"`   // below the top of the workspace, "" for itself
	Top    string `json:"top"`    // of the user's working tree
	Index  string `json:"index"`  // his; "" if the directory is not under git
	Store  string `json:"store"`  // git directory
	Base   string `json:"base"`   // commit of what was there at the beginning
	Before string `json:"before"` // what it was made on; "" is nothing
	// Nested are the repositories in it that are trees of their own, or that
	// could not be copied.
	Nested []string `json:"nested,omitempty"`

	// Only is the directory, with a slash at its end, below which untracked files of the user are taken, where those
	// outside of it are too large; "" for all of them.
	Only string `json:"only,omitempty"`

	from     source // of the user's, as long as the call goes on
	unmarked bool   // it is known that git was told to overlook none of its files
}

// base is the snapshot that the tasks of one call share.
type base struct {
	Trees      []Tree // the outermost first
	Notes      []string
	Bytes      int64  // of all files
	Prefix     string // the user's directory below the top
	Repository bool   // the directory is under git

	dir     string // where it is
	most    int64  // see source
	ignored bool   // directories that are ignored are of interest
}

const (
	maxNested = 20
	maxDepth  = 3
)

// makeBase takes the snapshot in dir, which is locked in this process.
func (w *Workspaces) makeBase(ctx context.Context, env *tools.Env, src source, dir string, ignored bool) (b base, err error) {
	repo := filepath.Dir(dir)
	if err := os.MkdirAll(repo, 0o700); err != nil {
		return b, err
	}
	spread(repo)
	b = base{dir: dir, Prefix: src.prefix, Repository: src.isRepository(), most: src.most, ignored: ignored}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return b, err
	}
	if err := w.lock(b.dir); err != nil { // against a sweep of another process
		return b, err
	}
	if err = w.addTree(ctx, env, &b, src, "", 0); err != nil {
		w.removeBase(b.dir)
	}
	return b, err
}

func (w *Workspaces) removeBase(dir string) {
	os.RemoveAll(dir)
	w.unlock(dir)
}

// addTree takes the snapshot of one working tree, and of those in it.
func (w *Workspaces) addTree(ctx context.Context, env *tools.Env, b *base, src source, path string, depth int) error {
	t := Tree{
		Path: path, Top: src.top, Index: src.index, Before: src.head,
		Store: filepath.Join(b.dir, fmt.Sprint(len(b.Trees))),
	}
	src.most, src.asked = b.most, new(asked)
	l, err := t.begin(ctx, env, src, b.ignored)
	if err != nil {
		return err
	}
	t.Nested, t.Only, t.from = l.nested, l.only, src
	if t.Only != "" {
		b.Notes = append(b.Notes, "untracked files outside of "+t.Only+" were left out: they are too large for a snapshot")
	}
	b.Bytes += l.bytes
	if err := w.checkSpace(b.Bytes); err != nil {
		return err
	}
	if l.unmerged {
		b.Notes = append(b.Notes, "a merge is unfinished: files with conflicts were taken as they stand, with their markers")
	}
	listed := t
	listed.unmarked = !l.marked
	tree, err := w.snapshot(ctx, env, listed)
	if err != nil {
		return err
	}
	if t.Base = t.Before; tree != src.tree {
		if t.Base, err = t.commit(ctx, env, tree, "Work that is not committed"); err != nil {
			return err
		}
	}
	b.Trees = append(b.Trees, t)
	return w.addNested(ctx, env, b, t, depth)
}

// begin makes the store of a tree, and looks at what is to come into it. It looks where it
// can in the user's own git directory, which it only reads.
func (t Tree) begin(ctx context.Context, env *tools.Env, src source, ignored bool) (l listing, err error) {
	if !src.isRepository() {
		if err := src.makeGitDir(t.Store, true, nil); err != nil {
			return l, err
		}
		return src.look(ctx, t.git(env), ignored)
	}
	g := command{env: env, dir: src.top}
	err = together(
		func() error { return src.findConfig(ctx, g) },
		func() (err error) { l, err = src.look(ctx, g, ignored); return err },
	)
	if err != nil {
		return l, err
	}
	return l, src.makeGitDir(t.Store, true, nil)
}

func (w *Workspaces) addNested(ctx context.Context, env *tools.Env, b *base, t Tree, depth int) error {
	for _, name := range t.Nested {
		path := filepath.Join(t.Path, name)
		inner, err := find(ctx, env, filepath.Join(t.Top, name))
		switch {
		case err != nil:
		case !inner.isRepository() || inner.top == t.Top:
			err = errors.New("it is no repository")
		case depth+1 > maxDepth || len(b.Trees) > maxNested:
			err = fmt.Errorf("at most %d nested repositories, %d deep", maxNested, maxDepth)
		default:
			if err := w.addTree(ctx, env, b, inner, path, depth+1); err != nil {
				return fmt.Errorf("nested repository %s: %w", path, err)
			}
		}
		if err != nil {
			b.Notes = append(b.Notes, fmt.Sprintf("nested repository %s was left out: %v", path, err))
		}
	}
	return nil
}

// git runs in the user's working tree, with the store as its git directory.
func (t Tree) git(env *tools.Env) command { return t.at(env, t.Top) }

// at runs in another working tree.
func (t Tree) at(env *tools.Env, work string) command {
	g := command{env: env, dir: work, vars: []string{"GIT_DIR=" + t.Store, "GIT_WORK_TREE=" + work}}
	if work != t.Top {
		g = g.writing(work)
	}
	return g.writing(filepath.Dir(t.Store))
}

// users runs in the user's repository, and may write there.
func (t Tree) users(ctx context.Context, env *tools.Env) command {
	g := command{env: env, dir: t.Top}
	if !env.Sandbox.On() {
		return g
	}
	out, err := g.line(ctx, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
	if err != nil { // so will be the command
		return g
	}
	return g.writing(strings.Split(out, "\n")...)
}

// snapshot makes a tree of what is in the user's working tree now.
func (w *Workspaces) snapshot(ctx context.Context, env *tools.Env, t Tree) (tree string, err error) {
	index := t.Index
	if index == "" {
		index = filepath.Join(t.Store, "snapshot")
	}
	tmp, err := t.copyIndex(index)
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	if tree, err = w.addAll(ctx, t.git(env).with("GIT_INDEX_FILE="+tmp), t); err != nil {
		return "", err
	}
	if t.Index == "" {
		err = os.Rename(tmp, index) // saves reading everything again
	}
	return tree, err
}

// addAll makes a tree of all files of a working tree that are not ignored.
func (w *Workspaces) addAll(ctx context.Context, g command, t Tree) (tree string, err error) {
	args := []string{"add", "-A"}
	if v, err := w.probe(ctx, g.env); err == nil && v.atLeast(sparseAdd) {
		args = append(args, "--sparse")
	}
	adds := [][]string{append(slices.Clip(args), "--", ":(top)")}
	if t.Only != "" {
		adds = [][]string{{"add", "-u", "--", ":(top)"}, append(args, "--", ":(top,literal)"+t.Only)}
	}
	for i := range adds {
		for _, path := range t.Nested {
			adds[i] = append(adds[i], ":(top,exclude,literal)"+path)
		}
	}
	if !t.unmarked {
		if err := overlookNothing(ctx, g); err != nil {
			return "", err
		}
	}
	g.limit = checkoutTime
	for _, args := range adds {
		if err := persist(ctx, g, args); err != nil {
			return "", err
		}
	}
	return g.line(ctx, "write-tree", "--missing-ok")
}

// persist runs a command again as long as files vanish before it reads them.
func persist(ctx context.Context, g command, args []string) error {
	for try := 1; ; try++ {
		_, err := g.run(ctx, args...)
		if err == nil || !hasVanished(err) || try == maxAdds {
			return err
		}
	}
}

// maxAdds is how often a working tree is added in which files vanish meanwhile.
const maxAdds = 10

// hasVanished reports whether git failed because a file that it had found was gone, or shorter, when it
// came to read it.
func hasVanished(err error) bool {
	var f *failure
	if !errors.As(err, &f) {
		return false
	}
	return slices.ContainsFunc([]string{"No such file or directory", "Not a directory", "short read", "file changed before"}, func(s string) bool {
		return strings.Contains(f.stderr, s)
	})
}

// overlookNothing makes an index of ours forget which files the user, or a task, has told git to believe unchanged: what
// is in them is work like any other. One that a sparse checkout has left out stays so.
func overlookNothing(ctx context.Context, g command) error {
	out, err := g.run(ctx, "ls-files", "-v", "-z")
	if err != nil {
		return err
	}
	marked := make(map[string][]string)
	for _, line := range fields(out) {
		tag, path, _ := strings.Cut(line, " ")
		if !isMarked(tag) {
			continue
		}
		if tag != strings.ToUpper(tag) {
			marked["--no-assume-unchanged"] = append(marked["--no-assume-unchanged"], path)
		}
		if strings.EqualFold(tag, "S") && exists(filepath.Join(g.dir, path)) {
			marked["--no-skip-worktree"] = append(marked["--no-skip-worktree"], path)
		}
	}
	for forget, paths := range marked {
		if _, err := g.feed(ctx, strings.NewReader(strings.Join(paths, "\x00")), "update-index", forget, "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// isMarked says of a tag of ls-files -v that git believes the file unchanged: one in small letters is assumed to be, and S
// is skipped.
func isMarked(tag string) bool { return tag == "S" || tag != strings.ToUpper(tag) }

// copyIndex copies an index into the store. The copy is as old as the original:
// git compares the times of files with it to find those that were changed right
// after they had been added.
func (t Tree) copyIndex(index string) (string, error) {
	f, err := os.CreateTemp(t.Store, "index-")
	if err != nil {
		return "", err
	}
	tmp := f.Name()
	err = f.Close()
	if err == nil {
		err = copyTimed(index, tmp)
	}
	if errors.Is(err, fs.ErrNotExist) { // git wants none rather than an empty one
		return tmp, os.Remove(tmp)
	}
	if err == nil {
		err = t.copyShared(filepath.Dir(index))
	}
	if err != nil {
		os.Remove(tmp)
	}
	return tmp, err
}

// copyShared copies what a split index refers to.
func (t Tree) copyShared(dir string) error {
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "sharedindex.*"))
	for _, name := range names {
		if err = copyTimed(name, filepath.Join(t.Store, filepath.Base(name))); err != nil {
			return err
		}
	}
	return err
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func copyTimed(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return err
}

// identity is whose commits are that nobody made.
var identity = []string{
	"GIT_AUTHOR_NAME=troupe", "GIT_AUTHOR_EMAIL=troupe@localhost", "GIT_COMMITTER_NAME=troupe", "GIT_COMMITTER_EMAIL=troupe@localhost",
}

// commit makes a commit of a tree on what was there before.
func (t Tree) commit(ctx context.Context, env *tools.Env, tree, message string) (string, error) {
	args := []string{"commit-tree", tree, "-m", message}
	if t.Before != "" {
		args = append(args, "-p", t.Before)
	}
	return t.git(env).with(identity...).line(ctx, args...)
}

// makeGitDir makes a git directory that borrows the objects of the source and is
// configured like it.
func (s source) makeGitDir(dir string, bare bool, borrow []string) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	if s.isRepository() {
		borrow = append(borrow, s.objects)
	}
	files := map[string][]byte{"HEAD": []byte("ref: refs/heads/main\n"), "config": s.writeConfig(bare, filepath.Dir(dir))}
	if len(borrow) > 0 {
		files["objects/info/alternates"] = []byte(strings.Join(borrow, "\n") + "\n")
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return s.copyInfo(dir)
}

// copyInfo copies what else decides what files mean.
func (s source) copyInfo(dir string) error {
	if !s.isRepository() {
		return nil
	}
	for name, from := range map[string]string{
		"info/exclude": s.common, "info/attributes": s.common, "info/sparse-checkout": s.gitDir, "shallow": s.common,
	} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ours are the keys of a configuration that we decide.
var ours = []string{
	"core.bare", "core.worktree", "core.repositoryformatversion", "core.fsmonitor", "core.splitindex",
	"extensions.worktreeconfig", "extensions.refstorage", "extensions.relativeworktrees", "extensions.compatobjectformat",
}

// findConfig finds the repository's configuration, with all that it includes.
func (s source) findConfig(ctx context.Context, g command) error {
	out, err := g.run(ctx, "config", "--local", "--includes", "--list", "-z")
	s.config = fields(out)
	if err == nil && slices.ContainsFunc(s.config, func(e string) bool { return strings.EqualFold(e, "extensions.worktreeconfig\ntrue") }) {
		out, err = g.run(ctx, "config", "--worktree", "--list", "-z")
		s.config = append(s.config, fields(out)...)
	}
	return err
}

// writeConfig returns the configuration of a git directory whose files are in dir, if it has any.
func (s source) writeConfig(bare bool, dir string) []byte {
	var b bytes.Buffer
	format, storage := 0, false
	for _, entry := range s.config {
		key, value, hasValue := strings.Cut(entry, "\n")
		switch {
		case isOurs(key):
			continue
		case strings.HasPrefix(key, "extensions."):
			format = 1
		case key == "lfs.storage":
			storage = true
		}
		writeSetting(&b, key, value, hasValue)
	}
	if lfs := filepath.Join(s.common, "lfs"); s.isRepository() && !storage && exists(lfs) {
		writeSetting(&b, "lfs.storage", lfs, true)
	}
	for _, setting := range fileSystemSettings(dir) { // for the task's own git; the last one counts
		key, value, _ := strings.Cut(setting, "=")
		writeSetting(&b, key, value, true)
	}
	writeSetting(&b, "core.bare", fmt.Sprint(bare), true)
	writeSetting(&b, "core.repositoryformatversion", fmt.Sprint(format), true)
	return b.Bytes()
}

func isOurs(key string) bool {
	if slices.Contains(ours, key) {
		return true
	}
	return strings.HasPrefix(key, "include.") || strings.HasPrefix(key, "includeif.")
}

var quoteConfig = strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n", "\t", "\\t")

// writeSetting writes section.name = value or section.subsection.name = value. A
// key without a value means true.
func writeSetting(b *bytes.Buffer, key, value string, hasValue bool) {
	section, rest, _ := strings.Cut(key, ".")
	name := rest
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		name = rest[i+1:]
		section += ` "` + strings.NewReplacer("\\", "\\\\", "\"", "\\\"").Replace(rest[:i]) + `"`
	}
	fmt.Fprintf(b, "[%s]\n\t%s", section, name)
	if hasValue {
		fmt.Fprintf(b, " = \"%s\"", quoteConfig.Replace(value))
	}
	b.WriteByte('\n')
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writeDurably writes a file that is there whole after a crash of the machine, or not at all.
func writeDurably(path string, data []byte) error { return write(path, data, true) }

// writeWhole writes one that is so after a crash of the process.
func writeWhole(path string, data []byte) error { return write(path, data, false) }

func write(path string, data []byte, durably bool) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durably {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		os.Remove(path + ".tmp")
	}
	if err != nil || !durably {
		return err
	}
	return tools.SyncDir(filepath.Dir(path))
}
