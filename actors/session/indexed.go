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
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// indexEvery is how often a session says at most what it is about.
const indexEvery = time.Second

// engineTime is how long a question to the engine may take that no session waits for.
const engineTime = 5 * time.Second

// indexText is what the index of a cluster has of a session.
type indexText struct {
	protocol.SessionSummary
	Node string `json:"node,omitempty"` // that has it open; "" for none
	Runs bool   `json:"runs,omitempty"` // a run is on, or a dialog is open

	Root string `json:"root,omitempty"` // in which it works; "" for none
	Dir  string `json:"dir,omitempty"`  // below it
	On   string `json:"on,omitempty"`   // the only node that has its directory

	Handle string `json:"handle,omitempty"` // that leads to it on all nodes, if it is another one than its own

	Boot string `json:"boot,omitempty"` // the life of the node that wrote this text

	// How far its log went when that was said: one that ends before that has lost its end.
	Seq cluster.Seq `json:"seq,omitempty"`
	Sum uint64      `json:"sum,omitempty"`
}

// indexing is what a session has said last.
type indexing struct {
	said indexText
	at   time.Time
	due  bool // it looks again
}

// indexDue says that a session may say again what it is about.
type indexDue struct{}

// index tells the cluster what the session is about, if that has changed.
func (s *Session) index(c actor.Context) {
	k := s.kept()
	if k == nil || k.cluster.Engine == nil || !s.file.Materialised() || s.reported.index.due {
		return
	}
	now := s.indexText(k)
	if now.MessageCount == 0 && now.Name == "" && !now.Runs { // as where it is not written before something is said
		return
	}
	was := &s.reported.index
	if now.Modified = was.said.Modified; now == was.said {
		return
	}
	if left := indexEvery - time.Since(was.at); left > 0 && now.Runs == was.said.Runs {
		was.due = true
		kernel.After(c, left, c.Self(), indexDue{})
		return
	}
	was.at = time.Now()
	now.Modified = protocol.FormatTime(was.at.UnixMilli())
	was.said = now
	k.say(c, now)
}

// indexText describes the session as it is now. Modified is empty.
func (s *Session) indexText(k *kept) indexText {
	state, by := s.m.State(), s.whatWasSaid()
	now := indexText{Node: k.cluster.Member.Self(), Runs: s.m.Phase() != core.PhaseIdle}
	now.Path, now.ID, now.Cwd, now.Created = k.cluster.file(k.id), k.id, s.work.cwd, s.file.Header().Timestamp
	now.Root, now.Dir, now.On = k.owned.Wants.Root, k.owned.Wants.Dir, k.owned.Wants.Node
	now.Name, now.FirstMessage, now.MessageCount = s.m.Name(), by.first, int(state.MessageCount)
	if s.known() && s.handle != k.id {
		now.Handle = s.handle
	}
	return now
}

// say tells the index, and does not wait for it.
func (k *kept) say(c actor.Context, text indexText) {
	if k.owned.Fenced() { // the text is that of the next owner
		return
	}
	at := k.owned.Mark()
	text.Seq, text.Sum, text.Boot = at.Seq, at.Sum, at.Boot
	if !k.cluster.lists.texts.enqueue(text) {
		return
	}
	engine, texts, log := k.cluster.Engine, &k.cluster.lists.texts, k.log
	kernel.Go(c.ActorSystem().Root, c.Self(), func() {
		for next, more := texts.next(text.ID); more; next, more = texts.next(text.ID) {
			ctx, cancel := context.WithTimeout(context.Background(), engineTime)
			b, err := json.Marshal(next)
			if err == nil {
				err = engine.SetIndex(ctx, cluster.SessionID(next.ID), b)
			}
			cancel()
			if err != nil {
				log.Debug().Err(err).Msg("the index of the cluster does not know the session as it is")
			}
		}
	})
}

// leftIndex records in the index that no node has the session open, and how it was left: changes of the last moment are
// not in the text written last.
func (s *Session) leftIndex(c actor.Context) {
	k, was := s.kept(), &s.reported.index
	if k == nil || k.owned == nil || was.said.ID != k.id && !was.due {
		return
	}
	left, now := was.said, s.indexText(k)
	left.Node, left.Runs, now.Node, now.Runs, now.Modified = "", false, "", false, left.Modified
	switch {
	case now.MessageCount == 0 && now.Name == "":
		if left.ID != k.id { // it was never listed
			return
		}
	case now != left:
		now.Modified = protocol.FormatTime(time.Now().UnixMilli())
		left = now
	}
	was.said = left
	k.say(c, left)
}

// indexTime is how long who opens a session waits for the index, which is a hint.
const indexTime = time.Second

// known is what is known of the log beside the engine's word: what the copy has, or the index, whichever goes further.
func (k *kept) known(copied cluster.Mark) cluster.Mark {
	ctx, cancel := context.WithTimeout(context.Background(), indexTime)
	defer cancel()
	at, err := LogIndexed(ctx, k.cluster.Engine, cluster.SessionID(k.id))
	if err != nil {
		k.log.Info().Err(err).Msg("the index of the cluster cannot say how far the log of a session went")
	}
	if at.Seq > copied.Seq {
		return at
	}
	return copied
}

// LogIndexed is how far the index says that the log of a session went, place and sum only; the zero Mark if it does not.
func LogIndexed(ctx context.Context, index cluster.Index, id cluster.SessionID) (cluster.Mark, error) {
	texts, err := index.Indexed(ctx, []cluster.SessionID{id})
	var text indexText
	if err != nil || texts[id] == nil || json.Unmarshal(texts[id], &text) != nil { // it is a hint
		return cluster.Mark{}, err
	}
	return cluster.Mark{Seq: text.Seq, Sum: text.Sum}, nil
}

// indexed returns the ids of all sessions that have a log, and the texts that the index has of them.
func (cl *Cluster) indexed(ctx context.Context) (ids []cluster.SessionID, texts map[cluster.SessionID]indexText, err error) {
	texts = map[cluster.SessionID]indexText{}
	for page := ""; ; {
		some, next, err := cl.Engine.List(ctx, page, 1000)
		if err != nil {
			return nil, nil, err
		}
		lines, err := cl.Engine.Indexed(ctx, some)
		if err != nil {
			return nil, nil, err
		}
		for _, id := range some {
			var text indexText
			if json.Unmarshal(lines[id], &text) == nil && text.ID == string(id) {
				text.Path = cl.file(text.ID) // as this node names it
				texts[id] = text
			}
		}
		ids = append(ids, some...)
		if page = next; next == "" {
			return ids, texts, nil
		}
	}
}

// listed describes the sessions of the cluster. Texts that the index lacks, or that a lost node could not bring up to
// date, are read from the logs. unread says why some of those could not be read.
func (cl *Cluster) listed(ctx context.Context) (list []indexText, unread, err error) {
	ids, texts, err := cl.indexed(ctx)
	if err != nil {
		return nil, nil, err
	}
	unread = cl.repair(ctx, ids, texts)
	for _, id := range ids {
		if text, is := texts[id]; is {
			list = append(list, text)
		}
	}
	return list, unread, nil
}

// summaries is the cluster's list of sessions, those of a directory if it is not "". unread is that of [Cluster.listed].
func (cl *Cluster) summaries(cwd string) (list []protocol.SessionSummary, unread, err error) {
	all, unread, err := cl.newestFirst()
	if err != nil {
		return nil, nil, err
	}
	list = []protocol.SessionSummary{}
	for _, s := range all {
		if cwd == "" || s.Cwd == cwd {
			list = append(list, s.SessionSummary)
		}
	}
	return list, unread, nil
}

// Newest is the file of the session of the cluster that was used last of those in a directory of this node; "" if there is none.
func (cl *Cluster) Newest(cwd string) (path string, err error) {
	all, unread, err := cl.newestFirst()
	here := slices.IndexFunc(all, func(s indexText) bool { return cl.in(cwd, s) })
	if err != nil || here < 0 {
		return "", cmp.Or(err, notListed(unread))
	}
	return all[here].Path, nil
}

// Resolve finds a session of the cluster by its id or the beginning of it, as [store.Lister.Resolve] does: first among those of a
// directory of this node. ok is false if there is none; elsewhere says where one works that is not of that directory, and is none
// of a directory of another node, of which this one has no other.
func (cl *Cluster) Resolve(cwd, id string) (path, elsewhere string, ok bool, err error) {
	all, unread, err := cl.newestFirst()
	if err != nil {
		return "", "", false, err
	}
	for _, here := range []bool{true, false} {
		for _, whole := range []bool{true, false} {
			for _, s := range all {
				if cl.in(cwd, s) != here || !strings.HasPrefix(s.ID, id) || whole && s.ID != id {
					continue
				}
				if here || s.On != "" && s.On != cl.Member.Self() {
					return s.Path, "", true, nil
				}
				return s.Path, s.Cwd, true, nil
			}
		}
	}
	return "", "", false, notListed(unread)
}

// notListed says that a session is not found because of an error; nil without one.
func notListed(why error) error {
	if why == nil {
		return nil
	}
	return protocol.CodeSessionUnavailable.Errorf("The sessions of the cluster cannot be listed at the moment: %s", why).NotRun(protocol.RetryAfter)
}

func (cl *Cluster) newestFirst() (all []indexText, unread, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	all, unread, err = cl.listed(ctx)
	if err != nil {
		return nil, nil, notListed(err)
	}
	slices.SortStableFunc(all, func(a, b indexText) int { return strings.Compare(b.Modified, a.Modified) })
	return all, unread, nil
}

// in says whether a session works in a directory of this node: the same of a root, or one of this node that is in none.
func (cl *Cluster) in(cwd string, s indexText) bool {
	is := s.Cwd
	if root := cl.Member.Root(s.Root); root.Path != "" && root.Mode != cluster.Git { // whose sessions have directories of their own
		is = filepath.Join(root.Path, s.Dir)
	}
	return is == cwd && (s.On == "" || s.On == cl.Member.Self())
}

// What the parent of sessions is told of nodes.
type (
	// nodeDied says that a node was lost.
	nodeDied struct{ name string }
	// orphans are sessions of a lost node that had something under way, and belong here now.
	orphans struct{ ids []string }
)

// watchNodes has the parent told of nodes that are lost.
func (s *sessions) watchNodes(c actor.Context) {
	if s.shared.Cluster == nil {
		return
	}
	root, self, cl := c.ActorSystem().Root, c.Self(), s.shared.Cluster
	cl.Member.OnDeath(func(name string) {
		root.Send(self, nodeDied{name})
		if told := cl.life.died.Load(); told != nil {
			(*told)(name)
		}
	})
}

// nodeDied looks for sessions of a lost node that had something under way, off the actor's goroutine.
func (s *sessions) nodeDied(c actor.Context, name string) {
	cl, log := s.shared.Cluster, s.kernel.Log
	if cl.Engine == nil {
		return
	}
	kernel.Background(c, func() any {
		ctx, cancel := context.WithTimeout(context.Background(), claimTime)
		defer cancel()
		ids, all, err := cl.indexed(ctx) // without reading logs, for which runs would have to wait
		if err != nil {
			log.Warn().Err(err).Str("node", name).Msg("sessions of a lost node wait for their next command")
		}
		found := orphans{}
		for _, id := range ids {
			of := all[id]
			if of.Node != name || !of.Runs {
				continue
			}
			handle := cmp.Or(of.Handle, of.ID)
			if at, err := cl.Member.Where(ctx, cluster.SessionID(handle)); err == nil && at.Name == cl.Member.Self() {
				found.ids = append(found.ids, handle)
			}
		}
		return found
	})
}

// adopt opens sessions that had something under way when their node was lost. Nobody listens to them
// yet.
func (s *sessions) adopt(c actor.Context, m orphans) {
	_, rules, _ := protocol.DialectUnion.Open()
	for _, id := range m.ids {
		spec := s.shared.Default.Fresh()
		spec.ID, spec.Claim, spec.Retain = id, true, true
		if s.table[id] == nil {
			s.spawn(c, link.SpawnSession{Spec: spec, Rules: rules, Key: "lost " + id})
		}
	}
}

// Export writes a session as the log of the cluster has it to a file, as pi has it.
func Export(ctx context.Context, log cluster.Log, fsys store.FS, id, path string) error {
	tail, err := log.Tail(ctx, cluster.SessionID(id))
	if err != nil {
		return err
	}
	if tail.Seq == 0 {
		return cluster.ErrNoSession
	}
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	size := 0
	_, err = cluster.Load(ctx, log, cluster.SessionID(id), cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		if r.Kind != cluster.Lines {
			return nil
		}
		n, err := f.Write(r.Lines)
		size += n
		return err
	})
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && size == 0 { // it was claimed, and nothing was said
		err = cluster.ErrNoSession
	}
	return err
}

// exportAtEnd writes a session that is closed where pi looks for it, if that is wanted.
func (s *Session) exportAtEnd() func() {
	cl, end := s.shared.Cluster, s.life.end
	id := cl.idOf(s.file.path)
	if id == "" || cl.Export == "" || end == nil || end.final || end.moves || keptBy(s.file.Log).empty(s.file.Log) {
		return func() {}
	}
	fsys, log := s.shared.fs(), s.log
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), claimTime)
		defer cancel()
		if err := exportInto(ctx, cl.Engine, fsys, id, cl.Export); err != nil && !errors.Is(err, cluster.ErrNoSession) {
			log.Warn().Err(err).Str("directory", cl.Export).Msg("the session was closed, and not exported")
		}
	}
}

func exportInto(ctx context.Context, log cluster.Log, fsys store.FS, id, dir string) error {
	part := filepath.Join(dir, id+".part")
	if err := fsys.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	err := Export(ctx, log, fsys, id, part)
	if err == nil {
		_, err = store.PlaceExport(fsys, part, dir)
	}
	if err != nil {
		_ = fsys.Remove(part)
	}
	return err
}
