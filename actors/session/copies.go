package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// DefaultCache bounds the copies on a node's disk of sessions that are not open there.
const DefaultCache = 1 << 30

// sweepEvery is how long copies are not looked through again.
const sweepEvery = time.Minute

// copies are the files of sessions that the cluster keeps, as this node has them: that of a session which is not open
// here saves reading all of its log again, and may go.
type copies struct {
	mu    sync.Mutex
	busy  map[string]chan struct{} // sessions whose copy is being read or brought up to date; closed at the end of that
	swept time.Time

	disk  sync.Mutex // guards what follows
	stuck bool       // this node has said that it cannot write where copies are
}

// lock has the copy of a session for itself until unlock. It waits for others.
func (c *copies) lock(id string) (unlock func()) {
	for {
		c.mu.Lock()
		over, busy := c.busy[id]
		if !busy {
			over = make(chan struct{})
			if c.busy == nil {
				c.busy = map[string]chan struct{}{}
			}
			c.busy[id] = over
		}
		c.mu.Unlock()
		if busy {
			<-over
			continue
		}
		return func() {
			c.mu.Lock()
			delete(c.busy, id)
			c.mu.Unlock()
			close(over)
		}
	}
}

// due says whether copies are to be looked through, once each while.
func (c *copies) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.swept) < sweepEvery {
		return false
	}
	c.swept = now
	return true
}

// room is how much a disk has to take that a node may have sessions on: a log of a usual length, and some.
const room = 256 << 10

// TryDisk has this node say whether it can write where the copies of sessions are: one that cannot is given none, and takes none. It is
// called every few seconds, and as soon as something could not be written. What it writes goes again before it is on the disk.
func (h *Shared) TryDisk() (stuck bool) {
	cl := h.Cluster
	cl.copies.disk.Lock()
	defer cl.copies.disk.Unlock()
	err := tryDisk(h.fs(), cl.Dir)
	if stuck = err != nil; stuck != cl.copies.stuck {
		cl.copies.stuck = stuck
		cl.Member.Says(func(n *cluster.Node) { n.Stuck = stuck })
		h.complaints.log.Warn().Err(err).Bool("stuck", stuck).Str("directory", cl.Dir).Msg("disk check changed: a node that cannot write takes no sessions")
	}
	return stuck
}

func tryDisk(fsys store.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	name := filepath.Join(dir, ".room")
	_ = fsys.Remove(name) // of a life that was killed
	file, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, room))
	return errors.Join(err, file.Close(), fsys.Remove(name))
}

// copyOf is a copy on the disk.
type copyOf struct {
	id   string
	size int64
	used time.Time
}

// sweepCopies removes the copies that were used longest ago while all are larger than they may be.
func (h *Shared) sweepCopies() {
	cl, fsys, log := h.Cluster, h.fs(), h.complaints.log
	if !cl.copies.due(time.Now()) {
		return
	}
	list, err := cl.copiesOn(fsys)
	if err != nil {
		log.Warn().Err(err).Str("directory", cl.Dir).Msg("the copies of sessions cannot be looked through")
		return
	}
	sum := int64(0)
	for _, c := range list {
		sum += c.size
	}
	slices.SortFunc(list, func(a, b copyOf) int { return a.used.Compare(b.used) })
	for _, c := range list {
		if sum <= cmp.Or(cl.Cache, DefaultCache) {
			return
		}
		if removed, err := h.forget(c.id); err != nil {
			log.Warn().Err(err).Str("id", c.id).Msg("the copy of a session cannot be removed")
		} else if removed {
			sum -= c.size
		}
	}
}

// copiesOn are the copies on the disk. What was set aside is none.
func (cl *Cluster) copiesOn(fsys store.FS) (list []copyOf, err error) {
	files, err := fsys.ReadDir(cl.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		id, is := strings.CutSuffix(f.Name(), copySuffix)
		if !is || f.IsDir() {
			continue
		}
		c := copyOf{id: id}
		for _, suffix := range []string{"", store.MarkSuffix} { // the mark is as old as its last opening
			if st, err := fsys.Stat(cl.file(id) + suffix); err == nil {
				c.size += st.Size()
				if st.ModTime().After(c.used) {
					c.used = st.ModTime()
				}
			}
		}
		list = append(list, c)
	}
	return list, err
}

// forget removes the copy of a session that is not open here, and its working tree.
func (h *Shared) forget(id string) (removed bool, err error) {
	cl, fsys := h.Cluster, h.fs()
	defer cl.copies.lock(id)()
	if cl.Member.Has(cluster.SessionID(id)) {
		return false, nil
	}
	if err := h.forgetTree(id); err != nil {
		return false, err
	}
	if err := fsys.Remove(cl.file(id)); err != nil {
		return false, err
	}
	err = fsys.Remove(cl.file(id) + store.MarkSuffix) // behind the file: a mark alone is that of a new copy
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return true, err
}

// readKept answers a question about a session that no node can have at the moment, from its log: where its
// directory is on a node that was lost, it can be read all the same. The copy is brought up to date for that, or is read as it
// is while the engine is away.
func (h *Shared) readKept(id string, cmd protocol.Command, rules protocol.Rules) (protocol.Result, error) {
	id = h.Cluster.led(id)
	k := h.keep(id, cluster.Wants{})
	defer h.Cluster.copies.lock(id)()
	log, err := k.read()
	if err != nil {
		return nil, keptError(id, err)
	}
	if log == nil {
		return nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", id)
	}
	defer closeFile(log, h.complaints.log)
	return inLog(log.View(), cmd, rules)
}

// Held says where a session is, by its own id, whatever its handle leads to by now, or by its handle. It fails with
// [cluster.ErrNoSession] where there is none, or it has no handle any more.
func (cl *Cluster) Held(ctx context.Context, id string, byHandle bool) (link.Held, error) {
	if !cluster.Valid(id) {
		return link.Held{}, cluster.ErrNoSession
	}
	is := cluster.SessionID(id)
	tail, err := cl.Engine.Tail(ctx, is)
	if lead := tail.Lead(); err == nil && lead != nil {
		if is = lead.To; !byHandle {
			return link.Held{}, cluster.ErrNoSession
		}
		tail, err = cl.Engine.Tail(ctx, is)
	}
	switch {
	case err != nil:
		return link.Held{}, err
	case tail.Seq == 0:
		return link.Held{}, cluster.ErrNoSession
	}
	h := link.Held{At: tail.Seq, Node: tail.Node, Owned: tail.Kind != cluster.Release, Handle: id}
	var given struct{ To string }
	if !h.Owned && json.Unmarshal(tail.Lines, &given) == nil && given.To != "" {
		h.Node, h.Given = given.To, true
	}
	if !byHandle {
		h.Handle = cl.handleOf(ctx, is)
	}
	return h, nil
}

// handleOf is the handle that leads to a session, as far as the index knows: what that says may be out of date.
func (cl *Cluster) handleOf(ctx context.Context, id cluster.SessionID) string {
	texts, err := cl.Engine.Indexed(ctx, []cluster.SessionID{id})
	var text indexText
	if err != nil || json.Unmarshal(texts[id], &text) != nil || text.Handle == "" {
		return string(id)
	}
	tail, err := cl.Engine.Tail(ctx, cluster.SessionID(text.Handle))
	if lead := tail.Lead(); err != nil || lead == nil || lead.To != id {
		return string(id)
	}
	return text.Handle
}

// freshTime is how long who reads a copy waits for an engine that says nothing: longer than one that is well takes.
const freshTime = time.Second

// asItIs opens the copy to be looked at without a word of the engine, which is why it cannot be brought up to date. It has
// what was acknowledged at this node, which may not be all.
func (k *kept) asItIs(why error) (*store.Log, error) {
	if !errors.Is(why, cluster.ErrUnavailable) && !errors.Is(why, cluster.ErrUnknown) && !errors.Is(why, context.DeadlineExceeded) {
		return nil, why
	}
	file, at, err := k.openCopy()
	if err != nil {
		return nil, err
	}
	_, _, lost := file.Lost()
	exists, err := file.Close()
	if err = errors.Join(lost, err); err != nil || !exists || at.Seq == 0 {
		return nil, cmp.Or(err, why)
	}
	return store.OpenLog(k.fs, k.cluster.file(k.id), store.Options{})
}

// read opens a session that is not open here to be looked at: it is nobody's behind that who did not have it. The log is
// nil if nothing is in it.
func (k *kept) read() (*store.Log, error) {
	id := cluster.SessionID(k.id)
	if k.cluster.Member.Has(id) {
		return nil, cluster.ErrInUse
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	fresh, soon := context.WithTimeout(ctx, freshTime)
	tail, err := k.cluster.Engine.Tail(fresh, id)
	if soon(); err != nil {
		return k.asItIs(err)
	}
	if tail.Seq == 0 {
		return nil, nil
	}
	file, at, err := k.openCopy()
	if err != nil {
		return nil, err
	}
	ahead := file.Ahead()
	err = k.follow(ctx, file, &at, tail.Seq)
	exists, closed := file.Close()
	damaged := errors.Is(err, cluster.ErrDamaged)
	if err != nil && (!damaged || !exists) || closed != nil || !exists {
		return nil, errors.Join(err, closed)
	}
	if !damaged || !ahead {
		k.mark(copyNote{at.Mark, at.Keys, false}) // of a damaged log what is good of it
	}
	return store.OpenLog(k.fs, k.cluster.file(k.id), store.Options{})
}

// goodRead is what is good of a log, as it was asked for, behind which the session goes, since it cannot be
// had, or stays, for who asks later.
type goodRead struct {
	answers []core.Reply
	why     *protocol.Error
	goes    bool
}

// readsGood has questions that wait, and that a log answers, be answered from what is good of that, off the actor's
// goroutine. It says whether there are any.
func (s *Session) readsGood(c actor.Context, why *protocol.Error, goes bool) bool {
	id := cmp.Or(s.file.id, s.shared.Cluster.idOf(s.spec.Path), s.spec.ID)
	codes := []protocol.Code{protocol.CodeSessionDamaged, protocol.CodeCwdMissing, protocol.CodeSessionUnavailable}
	if !slices.Contains(codes, why.Code) || s.shared.Cluster == nil || id == "" {
		return false
	}
	var reads []link.Request
	s.waiting = slices.DeleteFunc(s.waiting, func(m any) bool {
		r, is := m.(link.Request)
		if is = is && protocol.TraitsOf(r.Cmd).Is(protocol.InLog); is {
			reads = append(reads, r)
		}
		return is
	})
	if len(reads) == 0 {
		return false
	}
	shared, rules := s.shared, s.rules
	kernel.Background(c, func() any {
		m := goodRead{why: why, goes: goes}
		for _, r := range reads {
			data, err := found(shared.readKept(id, r.Cmd, rules))
			m.answers = append(m.answers, core.Reply{Seq: r.Seq, Data: data, Err: err})
		}
		return m
	})
	return true
}

func (s *Session) goodRead(c actor.Context, m goodRead) {
	for _, a := range m.answers {
		if s.clients.replies.expects(a.Seq) { // else its client has left
			s.clients.reply(a.Seq, a.Data, a.Err)
		}
	}
	s.clients.flush(c.ActorSystem().Root)
	if m.goes && !s.life.state.over() {
		s.cannotOpen(c, m.why)
	}
}
