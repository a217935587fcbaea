package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/cluster"
	"troupe/actors/kernel"
	"troupe/store"
	"troupe/tools"
	"troupe/tools/git"
)

// Limits of what is done with working trees: nobody waits for ever for a remote.
const (
	checkOutTime  = 10 * time.Minute
	saveTime      = 2 * time.Minute
	lastSaveTime  = 30 * time.Second // at the end of a session
	leastSaveTime = 4 * time.Second  // likewise, where the node has no more time: less than what it aborts may take
	saveAgain     = time.Second      // behind one that failed; doubles
	mostSaveAgain = 15 * time.Second
)

// Trees are the roots of mode git, by name.
type Trees map[string]*git.Root

// Add adds a root: the address of its repository, with a branch behind a # or without, and where its working trees are on
// this node.
func (t Trees) Add(name, remote, dir string) { t[name] = &git.Root{Remote: remote, Dir: dir} }

// rooted is the working tree of a session in a root of mode git, see [git.Root]: it is saved behind each turn, and
// before this node gives the session up.
type rooted struct {
	root  *git.Root
	env   *tools.Env
	id    string
	epoch uint64
	log   zerolog.Logger
	saved cluster.Seq // what the log had when the tree was saved; of the session's goroutine
	busy  bool        // it is being saved; likewise
	found git.Found   // when it was checked out
	place string      // of the log, behind which the tree is now, see [store.View.Worked]; of the session's goroutine

	mu sync.Mutex // one save after the other
}

// gitEnv is how git is run on working trees.
func (h *Shared) gitEnv() *tools.Env {
	return &tools.Env{Home: h.Home, Environ: h.childEnviron(false), Files: h.Files, Procs: tools.NewProcs(h.Guard)}
}

// checkOut has the working tree of a session be here that was claimed, if it is to have one.
func (h *Shared) checkOut(k *kept) error {
	root := h.Cluster.Trees[k.owned.Wants.Root]
	if root == nil {
		return nil
	}
	t := &rooted{root: root, env: h.gitEnv(), id: k.id, epoch: uint64(k.owned.Epoch()), log: k.log}
	k.tree = t
	if _, err := os.Stat(root.Tree(k.id)); err == nil && k.owned.Why == "release" && k.owned.From == h.Cluster.Member.Self() {
		return nil // nobody else has had it
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkOutTime)
	defer cancel()
	found, err := root.CheckOut(ctx, t.env, k.id, t.epoch)
	t.found, t.place = found, found.Behind
	if len(found.Lost) > 0 {
		k.log.Warn().Strs("files", found.Lost).Str("kept", "refs/troupe/lost/"+k.id).
			Msg("files were changed here and not saved before the session went on elsewhere: they are kept in the repository of the root")
	}
	if err != nil { // there is nothing to be saved
		k.tree = nil
		return err
	}
	if k.owned.Why != "new" { // a directory with nothing in it is in no commit
		if err := os.MkdirAll(k.dir(), 0o777); err != nil {
			k.log.Warn().Err(err).Msg("the directory of a session could not be made in its working tree")
		}
	}
	return nil
}

// older says whether the tree that was found here is older than what its log says was done in turns that had settled.
func (t *rooted) older(log store.View, inRun bool) bool {
	return t.found.Put && t.found.Behind != git.Unknown && log.WorkedSince(t.found.Behind, inRun)
}

// worked notes behind which place of the log the tree is.
func (k *kept) worked(log store.View) {
	if k != nil && k.tree != nil {
		k.tree.place = log.Worked()
	}
}

// save brings the tree to the remote as it is behind a place of the log.
func (t *rooted) save(within time.Duration, place string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := t.root.Save(ctx, t.env, t.id, t.epoch, place)
	return err
}

func (t *rooted) complain(err error) {
	if err != nil && !errors.Is(err, git.ErrNewerTree) {
		t.log.Warn().Err(err).Msg("the working tree could not be saved: another node would go on without what was changed")
	}
}

// treeSaved says that a tree was saved as it was behind some place of the log.
type treeSaved struct {
	tree *rooted
	at   cluster.Seq
	err  error
}

// saveTree has the working tree saved once nothing goes on any more that changes it.
func (s *Session) saveTree(c actor.Context) {
	k := s.kept()
	if k == nil || k.tree == nil || k.tree.busy || s.life.state != live || !s.m.AtRest() || s.jobs.busy() {
		return
	}
	t := k.tree
	at := k.owned.Mark()
	if at.Seq == t.saved {
		return
	}
	t.busy = true
	k.worked(s.file.View())
	place := t.place
	kernel.Background(c, func() any { return treeSaved{t, at.Seq, t.save(saveTime, place)} })
}

// treeSaved notes how far the tree is saved. One that could not be is saved behind the next turn.
func (s *Session) treeSaved(c actor.Context, m treeSaved) {
	m.tree.busy, m.tree.saved = false, m.at
	m.tree.complain(m.err)
	if m.err == nil {
		s.saveTree(c)
	}
}

// saveAtEnd saves the tree before the session is given up. A node that comes to its end tries that again and again for as long
// as it has time: until then nobody has lost anything, behind that the next node goes on without what was changed.
func (k *kept) saveAtEnd() {
	t := k.tree
	if t == nil || k.owned.Fenced() {
		return
	}
	t.complain(k.wait(func(ctx context.Context) error {
		for pause := saveAgain; ; pause = min(2*pause, mostSaveAgain) {
			within, ends := k.cluster.timeToSave()
			err := t.save(within, t.place)
			over := err == nil || errors.Is(err, git.ErrNewerTree)
			if ends {
				k.cluster.unsaved(cluster.SessionID(k.id), !over)
			}
			if over {
				return err
			}
			t.complain(err)
			if left := k.cluster.left() - leastSaveTime; !ends || left <= 0 || !goesBy(ctx, min(pause, left)) {
				t.keepHere()
				return nil
			}
		}
	}))
}

// goesBy lets some time pass, unless ctx ends first.
func goesBy(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// EndBy notes when this node has ended its sessions at the latest, which may only come nearer, before any of them ends. Without a
// cluster nothing is to be noted.
func (cl *Cluster) EndBy(t time.Time) {
	if cl == nil {
		return
	}
	if was := cl.life.until.Load(); was == 0 || t.UnixNano() < was {
		cl.life.until.Store(t.UnixNano())
	}
}

// timeToSave is how long a tree may take at the end of its session, and whether that is the end of the node, too.
func (cl *Cluster) timeToSave() (within time.Duration, ends bool) {
	if cl.life.until.Load() == 0 {
		return lastSaveTime, false
	}
	return min(max(cl.left(), leastSaveTime), lastSaveTime), true
}

// left is how long a node that comes to its end has still sessions.
func (cl *Cluster) left() time.Duration { return time.Until(time.Unix(0, cl.life.until.Load())) }

// unsaved has this node say that it cannot save the files of a session, or that it has saved them.
func (cl *Cluster) unsaved(id cluster.SessionID, is bool) {
	cl.Member.Says(func(n *cluster.Node) {
		n.Unsaved = slices.DeleteFunc(slices.Clone(n.Unsaved), func(s cluster.SessionID) bool { return s == id })
		if is {
			n.Unsaved = append(n.Unsaved, id)
		}
	})
}

// keepHere keeps what could not be saved where another tree of the session does not replace it.
func (t *rooted) keepHere() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSaveTime)
	defer cancel()
	files, err := t.root.SetAside(ctx, t.env, t.id)
	switch {
	case err != nil:
		t.log.Warn().Err(err).Msg("unsaved changes of the working tree are in the session's directory only")
	case len(files) > 0:
		t.log.Warn().Strs("files", files).Str("kept", "refs/troupe/lost/"+t.id).
			Msg("files were changed and could not be saved before the session was given up: they are kept in the repository of the root")
	}
}

// forgetTree removes the working tree of a session from this node.
func (h *Shared) forgetTree(id string) error {
	for _, root := range h.Cluster.Trees {
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		err := root.Forget(ctx, h.gitEnv(), id)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
