package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/cluster"
	"troupe/protocol"
	"troupe/store"
)

// Cluster is what sessions have of the cluster that they live in.
type Cluster struct {
	Member *cluster.Member
	Engine cluster.Engine                 // for lists of sessions, and to read those that are not open here
	Dir    string                         // of the sessions' files, which are copies
	Wants  func(cwd string) cluster.Wants // what a session in a directory of this node needs of its node
	Stop   bool                           // a run that was cut off with its node does not go on
	Export string                         // where sessions that are closed are written as pi has them; "" for nowhere
	Cache  int64                          // how many bytes copies of sessions that are not open here may have, 0 for [DefaultCache]
	Trees  Trees
	Grace  time.Duration // how long the first tool waits in a directory that a lost node has, too; 0 for not at all

	copies copies
	lists  lists
	life   nodeLife
}

// nodeLife is how the nodes are, this one and the others. It is safe for concurrent use.
type nodeLife struct {
	died  atomic.Pointer[func(node string)] // is called for nodes that are lost
	until atomic.Int64                      // when this node has ended its sessions at the latest, in nanoseconds; 0 while it does not end
}

// OnDeath has f told of nodes that are lost, beside sessions; it does not wait for anything.
func (cl *Cluster) OnDeath(f func(node string)) { cl.life.died.Store(&f) }

const copySuffix = ".jsonl"

// file is where the copy of a session is.
func (cl *Cluster) file(id string) string { return filepath.Join(cl.Dir, id+copySuffix) }

// idOf is the session of which a file is the copy; "" for none, as for every file without a cluster.
func (cl *Cluster) idOf(path string) string {
	if cl == nil || path == "" || filepath.Dir(path) != cl.Dir {
		return ""
	}
	id, _ := strings.CutSuffix(filepath.Base(path), copySuffix)
	return id
}

// wants is what a new session in a directory wants of its node, if that is not known.
func (cl *Cluster) wants(w cluster.Wants, cwd string) cluster.Wants {
	if w.None() && cl.Wants != nil {
		w = cl.Wants(cwd)
	}
	if root := cl.Member.Root(w.Root); root.Path != "" && w.Dir == "" {
		if dir, err := filepath.Rel(root.Path, cwd); err == nil && filepath.IsLocal(dir) {
			w.Dir = dir
		}
	}
	return w
}

// noFiles says whether sessions in a directory of this node have no files: it is that of a root of mode none, which each node
// has for itself.
func (cl *Cluster) noFiles(cwd string) bool {
	return cl != nil && cl.Wants != nil && cl.Member.Root(cl.Wants(cwd).Root).Mode == cluster.None
}

// dir is where the session works on this node; "" if that is what its header says.
func (k *kept) dir() string {
	switch {
	case k == nil || k.owned == nil:
		return ""
	case k.tree != nil:
		return filepath.Join(k.tree.root.Tree(k.id), k.owned.Wants.Dir)
	case k.owned.Wants.Dir == "":
		return ""
	}
	root := k.cluster.Member.Root(k.owned.Wants.Root)
	if root.Path == "" {
		return ""
	}
	return filepath.Join(root.Path, k.owned.Wants.Dir)
}

// claimTime is how long a claim may take: longer than it takes to notice that an owner is
// lost, or an engine needs for another leader.
const claimTime = 10 * time.Second

// kept is a session that the cluster keeps, while its log is open here. It is used where
// the log is.
type kept struct {
	cluster *Cluster
	fs      store.FS
	log     zerolog.Logger
	id      string
	wants   cluster.Wants                           // of a new one
	how     howKept                                 // it is opened
	owned   *cluster.Owned                          // nil before it is claimed
	tree    *rooted                                 // nil for a session that is in no root of mode git
	wake    func()                                  // of the session; see [cluster.Owned.Woken]
	doubt   func(time.Time)                         // likewise; see [cluster.Writer.Doubted]
	sign    []string                                // keys of the commands whose effect is appended next
	wait    func(func(context.Context) error) error // how it waits for an engine: see [turn.wait]
}

// howKept is how a session is opened, and what its handle has to do with that.
type howKept struct {
	adopts bool // its directory was on another node, and is here from now on
	way    way
	exists bool   // only if there is one
	begins bool   // it is claimed before its first line, which is written at once
	given  bool   // it was released before it is closed
	handle string // for which it is claimed, see [Cluster.claimant]; "" for none
	led    led    // of the session whose handle leads here
}

// keptBy is how the cluster has a session; nil for one that it does not keep.
func keptBy(log *store.Log) *kept {
	if log == nil {
		return nil
	}
	k, _ := log.Keeper().(*kept)
	return k
}

// keep is a session that begins to be kept with its first line.
func (h *Shared) keep(id string, wants cluster.Wants) *kept {
	return &kept{cluster: h.Cluster, fs: h.fs(), log: h.complaints.log.With().Str("id", id).Logger(), id: id, wants: wants, wait: atOnce}
}

// atOnce waits in place, for who opens or looks through a log and is no actor.
func atOnce(do func(context.Context) error) error { return do(context.Background()) }

// copyNote is what stands in the mark of a copy.
type copyNote struct {
	cluster.Mark
	Keys cluster.Keys `json:"keys"`
	Open bool         `json:"open,omitempty"` // the session goes on behind it; lines that follow one that was closed are a stranger's
}

// open claims the session and brings its copy up to date. The log is nil if there is nothing in it
// yet.
func (k *kept) open(options store.Options) (*store.Log, error) {
	defer k.cluster.copies.lock(k.id)()
	file, at, err := k.openCopy()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), claimTime)
	defer cancel()
	if k.how.exists && at.Seq == 0 { // a claim would begin a log that nothing ends
		var tail cluster.Record
		if tail, err = k.cluster.Engine.Tail(ctx, cluster.SessionID(k.id)); err == nil && tail.Seq == 0 {
			_, err = file.Close()
			return nil, cmp.Or(err, cluster.ErrNoSession)
		}
	}
	if file.Ahead() { // this node was killed: its copy has what no mark says
		tail, err := k.cluster.Engine.Tail(ctx, cluster.SessionID(k.id))
		if err == nil {
			err = k.follow(ctx, file, &at, tail.Seq)
		}
		if err != nil {
			_, closed := file.Close()
			return nil, errors.Join(err, closed)
		}
	}
	if k.how.adopts {
		k.owned, err = k.cluster.Member.Adopt(ctx, cluster.SessionID(k.id), k.known(at.Mark))
	} else {
		k.owned, err = k.cluster.Member.ClaimFor(ctx, cluster.SessionID(k.id), k.how.handle, k.wants, k.known(at.Mark))
	}
	if err == nil && k.owned.Lead != nil && k.how.way == bySelf {
		err = k.end(ctx)
	}
	if err == nil && k.owned.Lead != nil && k.how.way == byHandle {
		_, err = file.Close()
		return nil, err
	}
	if err == nil {
		err = k.update(file, at, func(from copyNote) (err error) {
			at.Mark, err = k.owned.Load(ctx, from.Mark, from.Keys, file.Write)
			return err
		})
	}
	exists, closed := file.Close()
	switch err = errors.Join(err, closed); {
	case err == nil:
		k.mark(copyNote{k.owned.Mark(), k.owned.Keys(), true})
	case k.owned != nil && closed == nil && errors.Is(err, cluster.ErrDamaged): // the copy has what is good
		k.mark(copyNote{at.Mark, k.owned.Keys(), false})
		return nil, err
	default:
		return nil, err
	}
	if !exists {
		return nil, nil
	}
	return store.OpenLog(k.fs, k.cluster.file(k.id), options)
}

// openCopy opens the copy of the session, with what it has of the log.
func (k *kept) openCopy() (file *store.Copy, at copyNote, err error) {
	if err := k.fs.MkdirAll(k.cluster.Dir); err != nil {
		return nil, at, err
	}
	file, note, aside, err := store.OpenCopy(k.fs, k.cluster.file(k.id))
	if err != nil {
		return nil, at, err
	}
	k.setAside(aside)
	if note != nil && json.Unmarshal(note, &at) != nil {
		at, err = copyNote{}, k.reset(file)
	}
	if !at.Open {
		file.Forget()
	}
	return file, at, err
}

// reset begins the copy anew.
func (k *kept) reset(file *store.Copy) error {
	aside, err := file.Reset()
	k.setAside(aside)
	return err
}

// update has a copy brought up to date, from its mark, or from the beginning where it is that of another history.
func (k *kept) update(file *store.Copy, at copyNote, load func(copyNote) error) error {
	err := load(at)
	if errors.Is(err, cluster.ErrDamaged) && at.Seq > 0 && !k.begins(at.Mark) {
		if err = k.reset(file); err == nil {
			err = load(copyNote{})
		}
	}
	return err
}

// follow brings a copy up to date for who does not have the session. What the copy has had and the log does not have, was acknowledged,
// and is lost: the log has lost its end.
func (k *kept) follow(ctx context.Context, file *store.Copy, at *copyNote, to cluster.Seq) error {
	err := k.update(file, *at, func(from copyNote) (err error) {
		at.Keys = from.Keys
		at.Mark, err = cluster.Follow(ctx, k.cluster.Engine, cluster.SessionID(k.id), from.Mark, &at.Keys, max(to, from.Seq), file.Write)
		return err
	})
	if err != nil {
		return err
	}
	lost, aside, err := file.Lost()
	k.setAside(aside)
	if lost > 0 && err == nil {
		err = fmt.Errorf("%w: its last record is %d, and the copy of this node, %s, has %d lines behind it", cluster.ErrDamaged, at.Seq, k.cluster.file(k.id), lost)
	}
	return err
}

// begins says whether the log begins with what a mark is behind: if it is damaged, then behind that.
func (k *kept) begins(with cluster.Mark) (is bool) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	_, _ = cluster.Load(ctx, k.cluster.Engine, cluster.SessionID(k.id), cluster.Mark{}, math.MaxInt64, func(r cluster.Record) error {
		if is = r.Seq == with.Seq && r.Sum == with.Sum; r.Seq >= with.Seq {
			return fs.SkipAll
		}
		return nil
	})
	return is
}

func (k *kept) setAside(file string) {
	if file != "" {
		k.log.Warn().Str("file", file).Msg("a file that is not the copy of this session was set aside")
	}
}

// mark notes how far the copy goes.
func (k *kept) mark(at copyNote) {
	note, err := json.Marshal(at)
	if err == nil {
		err = store.MarkCopy(k.fs, k.cluster.file(k.id), note)
	}
	if err != nil { // it will be read again as a whole
		k.log.Warn().Err(err).Msg("the copy of a session could not be marked")
	}
}

// Commit is that of [store.Keeper].
func (k *kept) Commit(lines []byte) error {
	return k.wait(func(ctx context.Context) error { return k.commit(ctx, lines) })
}

func (k *kept) commit(ctx context.Context, lines []byte) error {
	if k.owned == nil {
		ctx, cancel := context.WithTimeout(ctx, claimTime)
		defer cancel()
		owned, err := k.cluster.Member.Claim(ctx, cluster.SessionID(k.id), k.wants, cluster.Mark{})
		if err != nil {
			return err
		}
		owned.Woken(k.wake)
		owned.Doubted(k.doubt)
		if k.owned = owned; owned.Why != "new" { // it was to begin here
			return cluster.ErrFenced
		}
	}
	keys := k.sign
	k.sign = nil
	return k.owned.Append(ctx, lines, keys)
}

// Close is that of [store.Keeper]: this node gives the session up.
func (k *kept) Close(whole bool) {
	if k.owned == nil {
		return
	}
	k.saveAtEnd()
	if whole {
		k.mark(copyNote{k.owned.Mark(), k.owned.Keys(), false})
	}
	if k.how.given {
		return
	}
	if err := k.wait(k.owned.Release); err != nil {
		k.log.Info().Err(err).Msg("session was not released: another node has to wait before it can open it")
	}
}

// giveBack has a session that was given to this node, and cannot be opened here after all, go to the one that had it, once.
func (k *kept) giveBack() (gives bool) {
	if k == nil || k.owned == nil || !k.owned.Given {
		return false
	}
	k.owned.Heir = k.owned.From
	return true
}

// final says whether an error means that this node cannot go on with the session before it has
// claimed it again.
func final(err error) bool {
	return errors.Is(err, cluster.ErrUnknown) || errors.Is(err, cluster.ErrReleased)
}

// keptError says why a session of the cluster cannot be had here.
func keptError(id string, err error) *protocol.Error {
	var elsewhere *cluster.ElsewhereError
	var parked *cluster.ParkedError
	switch {
	case errors.As(err, &elsewhere):
		return protocol.CodeNotHere.Errorf("Session %s is on node %s", id, elsewhere.Node)
	case errors.Is(err, cluster.ErrFenced), errors.Is(err, cluster.ErrReleased):
		return protocol.CodeNotHere.Errorf("Session %s is on another node", id)
	case errors.Is(err, cluster.ErrNowhere):
		return protocol.CodeNowhere.Errorf("Session %s cannot be opened here: %s", id, err)
	case errors.Is(err, cluster.ErrNoSession):
		return protocol.CodeUnknownSession.Errorf("Unknown session: %s", id)
	case errors.As(err, &parked):
		return protocol.CodeSessionInUse.Errorf("Session %s is open: %s", id, parked)
	case errors.Is(err, errLed):
		return protocol.CodeSessionInUse.Errorf("Session %s cannot be opened by itself: %s", id, err)
	case errors.Is(err, cluster.ErrNewer):
		return protocol.CodeUpgradeNeeded.Errorf("Session %s: %s", id, err)
	case errors.Is(err, cluster.ErrDamaged):
		return protocol.CodeSessionDamaged.Errorf("Session %s: %s", id, err)
	case errors.Is(err, cluster.ErrInUse), errors.Is(err, store.ErrInUse):
		return protocol.CodeSessionInUse.Errorf("Session %s is open here", id)
	}
	return protocol.CodeSessionUnavailable.Errorf("Session %s cannot be had at the moment: %s", id, err).NotRun(protocol.RetryAfter)
}
