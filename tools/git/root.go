package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/tools"
)

// Root is a repository of which sessions have working trees that move with them from machine to machine: what is in
// a tree is a commit that no branch has, at refs/troupe/SESSION of the remote, whose parent is the commit that
// was checked out. Of what is ignored nothing moves, and of a repository in the repository nothing but which commit
// it is at. It is safe for concurrent use, but for the same session.
type Root struct {
	Remote string // its address; the branch that sessions begin with behind a #, else that of its HEAD
	Dir    string // where the working trees of this machine are, and their repository

	mu sync.Mutex // of what may not be done for two trees at once
}

// ErrNewerTree says that the remote has a tree of a later owner of the session: this one has nothing to say any more.
var ErrNewerTree = errors.New("a later owner of the session has saved its working tree")

// Tree is where the working tree of a session is.
func (r *Root) Tree(session string) string { return filepath.Join(r.Dir, session) }

// names of what git knows of a session, here and at the remote.
func savedRef(session string) string  { return "refs/troupe/saved/" + session } // as the remote had it
func lastRef(session string) string   { return "refs/troupe/last/" + session }  // as this machine saved it
func remoteRef(session string) string { return "refs/troupe/" + session }

func (r *Root) repository() string { return filepath.Join(r.Dir, ".repository") }

// git is a command about no tree; of a tree it trusts nothing that lies in it to say where its repository is.
func (r *Root) git(env *tools.Env) command {
	return command{env: env, dir: r.Dir}.with("GIT_DIR=" + r.repository())
}

func (r *Root) inTree(env *tools.Env, session string) command {
	tree := r.Tree(session)
	return command{env: env, dir: tree, limit: checkoutTime}.with("GIT_DIR="+filepath.Join(r.repository(), "worktrees", session), "GIT_WORK_TREE="+tree, "GIT_COMMON_DIR="+r.repository())
}

func (r *Root) address() string {
	address, _, _ := strings.Cut(r.Remote, "#")
	return address
}

// Found is what a machine finds that is to have a working tree.
type Found struct {
	Lost   []string // files that it has had changed, and that nobody had saved when the session went elsewhere
	Put    bool     // the tree is as another machine has saved it
	Behind string   // the place behind which that was, see [Root.Save]; [Unknown] of a save that does not say it
}

// Unknown is the place of a save that says none.
const Unknown = "?"

// CheckOut has the working tree of a session be here, for its owner of an epoch, which is larger than that of every
// owner before, and says so at the remote. Where the session is new, so is the tree. Files that were lost
// are kept in a commit below refs/troupe/lost/SESSION of the repository here.
func (r *Root) CheckOut(ctx context.Context, env *tools.Env, session string, epoch uint64) (found Found, err error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return found, err
	}
	if err := r.begin(ctx, env); err != nil {
		return found, err
	}
	from, err := r.fetch(ctx, env, session)
	if err != nil {
		return found, err
	}
	g := r.git(env)
	last, _ := g.line(ctx, "rev-parse", "-q", "--verify", lastRef(session))
	here := exists(filepath.Join(r.Tree(session), ".git"))
	switch {
	case here && from.saved == last: // nobody else has had it
	case here:
		if found.Lost, err = r.SetAside(ctx, env, session); err != nil {
			return found, err
		}
		fallthrough
	default:
		if err := r.put(ctx, env, session, from, here); err != nil {
			return found, err
		}
		if last = from.saved; last != "" {
			found.Put = true
			if _, err := g.run(ctx, "update-ref", lastRef(session), last); err != nil {
				return found, err
			}
		}
	}
	if last != "" {
		body, err := g.line(ctx, "log", "-1", "--format=%b", last)
		if err != nil {
			return found, err
		}
		if place, says := strings.CutPrefix(body, behind); !says {
			found.Behind = Unknown
		} else {
			found.Behind = strings.TrimSpace(place)
		}
	}
	_, err = r.Save(ctx, env, session, epoch, found.Behind)
	return found, err
}

// begin makes the repository.
func (r *Root) begin(ctx context.Context, env *tools.Env) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.git(env)
	if !exists(filepath.Join(r.repository(), "HEAD")) {
		if _, err := g.run(ctx, "init", "-q", "--bare", r.repository()); err != nil {
			return err
		}
	}
	for _, of := range [][2]string{{"remote.origin.url", r.address()}, {"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"}} {
		if is, _ := g.line(ctx, "config", "--get", of[0]); is == of[1] {
			continue
		}
		if _, err := g.run(ctx, "config", of[0], of[1]); err != nil {
			return err
		}
	}
	return nil
}

// origin is what a tree begins with: what was saved of it, or a branch.
type origin struct{ saved, base string }

// commit is what is checked out.
func (o origin) commit() string {
	if o.saved != "" {
		return o.saved + "^1"
	}
	return o.base
}

// fetch brings what the remote has of a session.
func (r *Root) fetch(ctx context.Context, env *tools.Env, session string) (o origin, err error) {
	g := r.git(env)
	out, err := g.line(ctx, "ls-remote", "--symref", r.address(), "HEAD", remoteRef(session))
	if err != nil {
		return o, err
	}
	_, branch, _ := strings.Cut(r.Remote, "#")
	for line := range strings.Lines(out) {
		what, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		head, symbolic := strings.CutPrefix(what, "ref: refs/heads/")
		switch {
		case symbolic && branch == "":
			branch = head
		case name == remoteRef(session):
			o.saved = what
		}
	}
	if branch == "" {
		return o, fmt.Errorf("%s has no branch to begin with", r.address())
	}
	refs := []string{"fetch", "-q", "--no-tags", "--no-recurse-submodules", "origin", "+refs/heads/*:refs/remotes/origin/*"}
	if o.saved != "" {
		refs = append(refs, "+"+remoteRef(session)+":"+savedRef(session))
	}
	g.limit = checkoutTime
	_, err = g.run(ctx, refs...)
	if err != nil && strings.Contains(err.Error(), "worktrees/") { // the tree of another session is just being made, and has no commit yet
		r.mu.Lock()
		_, err = g.run(ctx, refs...)
		r.mu.Unlock()
	}
	if err != nil {
		return o, err
	}
	if o.saved != "" { // it may be a later one than was listed
		o.saved, err = g.line(ctx, "rev-parse", "--verify", savedRef(session))
		return o, err
	}
	o.base = "refs/remotes/origin/" + branch
	if _, err := g.line(ctx, "rev-parse", "-q", "--verify", o.base); err != nil {
		return o, fmt.Errorf("%s has no branch %s", r.address(), branch)
	}
	return o, nil
}

// put makes the working tree what it begins with, on a branch of its own.
func (r *Root) put(ctx context.Context, env *tools.Env, session string, from origin, here bool) error {
	branch, g := "troupe/"+session, r.git(env)
	if !here {
		r.mu.Lock()
		_, err := g.run(ctx, "worktree", "prune")
		if err == nil {
			_, err = g.run(ctx, "worktree", "add", "-q", "--no-checkout", "--no-track", "-f", "-B", branch, r.Tree(session), from.commit())
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	in := r.inTree(env, session)
	var steps [][]string
	if here { // what was checked out there may be another branch
		steps = append(steps, []string{"update-ref", "refs/heads/" + branch, from.commit()}, []string{"symbolic-ref", "HEAD", "refs/heads/" + branch})
	}
	if from.saved == "" {
		steps = append(steps, []string{"reset", "-q", "--hard"})
	} else {
		steps = append(steps, []string{"read-tree", "--reset", "-u", from.saved + "^{tree}"}, []string{"clean", "-q", "-ffd"}, []string{"reset", "-q"})
	}
	for _, step := range steps {
		if _, err := in.run(ctx, step...); err != nil && !(step[0] == "reset" && failedWith(err, 1)) { // "unstaged changes" is no failure
			return err
		}
	}
	return nil
}

// SetAside keeps what a tree has that was not saved, in a commit below refs/troupe/lost/SESSION of the repository here.
func (r *Root) SetAside(ctx context.Context, env *tools.Env, session string) (lost []string, err error) {
	g := r.git(env)
	last, _ := g.line(ctx, "rev-parse", "-q", "--verify", lastRef(session))
	now, changed, err := r.commit(ctx, env, session, last, 0, "")
	if err != nil || !changed {
		return nil, err
	}
	if _, err := g.run(ctx, "update-ref", fmt.Sprintf("refs/troupe/lost/%s/%d", session, time.Now().UnixMilli()), now); err != nil {
		return nil, err
	}
	if last == "" {
		last = now + "^1"
	}
	out, err := g.run(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", last, now)
	return fields(out), err
}

// commit makes a commit of a working tree as it is; changed is false if it is that of another one.
func (r *Root) commit(ctx context.Context, env *tools.Env, session, than string, epoch uint64, place string) (is string, changed bool, err error) {
	g := r.inTree(env, session)
	index := filepath.Join(r.repository(), "worktrees", session, "troupe-index-"+token())
	defer os.Remove(index)
	if err := copyTimed(filepath.Join(r.repository(), "worktrees", session, "index"), index); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", false, err
	}
	private := g.with("GIT_INDEX_FILE=" + index)
	if _, err := private.run(ctx, "add", "-A", "."); err != nil {
		return "", false, err
	}
	tree, err := private.line(ctx, "write-tree")
	if err != nil {
		return "", false, err
	}
	head, err := g.line(ctx, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return "", false, err
	}
	if than != "" {
		was, err := g.line(ctx, "log", "-1", "--format=%T %P %s %b", than)
		if err != nil {
			return "", false, err
		}
		if of := " " + title(session, epoch) + " " + behind + place; strings.TrimSpace(was) == strings.TrimSpace(tree+" "+head+of) || epoch == 0 && strings.HasPrefix(was, tree+" "+head+" ") {
			return than, false, nil
		}
	}
	who := []string{"GIT_AUTHOR_NAME=troupe", "GIT_AUTHOR_EMAIL=troupe@localhost", "GIT_COMMITTER_NAME=troupe", "GIT_COMMITTER_EMAIL=troupe@localhost"}
	is, err = g.with(who...).line(ctx, "commit-tree", tree, "-p", head, "-m", title(session, epoch), "-m", behind+place)
	return is, true, err
}

// behind begins the line of such a message that says behind which place of the session it was made.
const behind = "behind: "

// title is the first line of the message of a commit of a working tree.
func title(session string, epoch uint64) string {
	return "troupe: session " + session + " in epoch " + strconv.FormatUint(epoch, 10)
}

// Save brings the working tree of a session to the remote as it is, for its owner of an epoch, and says behind which place
// of the session that is; changed is false if all of it is there already. It fails with [ErrNewerTree].
func (r *Root) Save(ctx context.Context, env *tools.Env, session string, epoch uint64, place string) (changed bool, err error) {
	g := r.git(env)
	last, _ := g.line(ctx, "rev-parse", "-q", "--verify", lastRef(session))
	now, changed, err := r.commit(ctx, env, session, last, epoch, place)
	if err != nil || !changed {
		return false, err
	}
	for range 3 {
		_, err = g.run(ctx, "push", "-q", "--no-verify", "--force-with-lease="+remoteRef(session)+":"+last, r.address(), now+":"+remoteRef(session))
		if err == nil {
			_, err = g.run(ctx, "update-ref", lastRef(session), now)
			return true, err
		}
		is, there := r.remote(ctx, env, session)
		switch {
		case there != nil || is.commit == last: // it was refused for another reason
			return false, err
		case is.commit == now: // the answer was lost
			_, err = g.run(ctx, "update-ref", lastRef(session), now)
			return true, err
		case is.epoch > epoch:
			return false, ErrNewerTree
		}
		last = is.commit // of an owner that was late: what it has is no part of the session
	}
	return false, err
}

// remoteTree is a tree as the remote has it.
type remoteTree struct {
	commit string
	epoch  uint64
}

func (r *Root) remote(ctx context.Context, env *tools.Env, session string) (is remoteTree, err error) {
	g := r.git(env)
	if _, err := g.run(ctx, "fetch", "-q", "--no-tags", r.address(), "+"+remoteRef(session)+":"+savedRef(session)); err != nil {
		return is, err
	}
	out, err := g.line(ctx, "log", "-1", "--format=%H %s", savedRef(session))
	if err != nil {
		return is, err
	}
	is.commit, _, _ = strings.Cut(out, " ")
	is.epoch, err = strconv.ParseUint(out[strings.LastIndexByte(out, ' ')+1:], 10, 64)
	return is, err
}

// Forget removes the working tree of a session from this machine, if all that is in it is saved.
func (r *Root) Forget(ctx context.Context, env *tools.Env, session string) error {
	if !exists(r.Tree(session)) {
		return nil
	}
	last, _ := r.git(env).line(ctx, "rev-parse", "-q", "--verify", lastRef(session))
	if _, changed, err := r.commit(ctx, env, session, last, 0, ""); err != nil || changed {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.git(env).run(ctx, "worktree", "remove", "-f", "-f", r.Tree(session))
	return err
}
