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
	state, by := s.m.State(), s.whatWasSaid()
	now := indexText{Node: k.cluster.Member.Self(), Runs: s.m.Phase() != core.PhaseIdle}
	now.Path, now.ID, now.Cwd, now.Created = k.cluster.file(k.id), k.id, s.work.cwd, s.file.Header().Timestamp
	now.Root, now.Dir, now.On = k.owned.Wants.Root, k.owned.Wants.Dir, k.owned.Wants.Node
	now.Name, now.FirstMessage, now.MessageCount = s.m.Name(), by.first, int(state.MessageCount)
	if s.known() && s.handle != k.id {
		now.Handle = s.handle
	}
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

// say tells the index, and does not wait for it.
func (k *kept) say(c actor.Context, text indexText) {
	engine, id, log := k.cluster.Engine, cluster.SessionID(k.id), k.log
	text.Seq, text.Sum = k.owned.Mark().Seq, k.owned.Mark().Sum
	kernel.Go(c.ActorSystem().Root, c.Self(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), engineTime)
		defer cancel()
		b, err := json.Marshal(text)
		if err == nil {
			err = engine.SetIndex(ctx, id, b)
		}
		if err != nil {
			log.Debug().Err(err).Msg("the index of the cluster does not know the session as it is")
		}
	})
}

// left tells the index that no node has the session open.
func (s *Session) leftIndex(c actor.Context) {
	if k, said := s.kept(), s.reported.index.said; k != nil && said.ID == k.id {
		said.Node, said.Runs = "", false
		s.reported.index.said = said
		k.say(c, said)
	}
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

// listed are the sessions of the cluster that the index knows.
func (cl *Cluster) listed(ctx context.Context) (list []indexText, err error) {
	for page := ""; ; {
		ids, next, err := cl.Engine.List(ctx, page, 1000)
		if err != nil {
			return nil, err
		}
		texts, err := cl.Engine.Indexed(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			var text indexText
			if json.Unmarshal(texts[id], &text) == nil && text.ID == string(id) {
				text.Path = cl.file(text.ID) // as this node names it
				list = append(list, text)
			}
		}
		if page = next; next == "" {
			return list, nil
		}
	}
}

// summaries is the cluster's list of sessions, those of a directory if it is not "".
func (cl *Cluster) summaries(cwd string) ([]protocol.SessionSummary, error) {
	all, err := cl.newestFirst()
	if err != nil {
		return nil, err
	}
	list := []protocol.SessionSummary{}
	for _, s := range all {
		if cwd == "" || s.Cwd == cwd {
			list = append(list, s.SessionSummary)
		}
	}
	return list, nil
}

// Newest is the file of the session of the cluster that was used last of those in a directory of this node; "" if there is none.
func (cl *Cluster) Newest(cwd string) (path string, err error) {
	all, err := cl.newestFirst()
	here := slices.IndexFunc(all, func(s indexText) bool { return cl.in(cwd, s) })
	if err != nil || here < 0 {
		return "", err
	}
	return all[here].Path, nil
}

// Resolve finds a session of the cluster by its id or the beginning of it, as [store.Lister.Resolve] does: first among those of a
// directory of this node. ok is false if there is none; elsewhere says where one works that is not of that directory, and is none
// of a directory of another node, of which this one has no other.
func (cl *Cluster) Resolve(cwd, id string) (path, elsewhere string, ok bool, err error) {
	all, err := cl.newestFirst()
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
	return "", "", false, nil
}

func (cl *Cluster) newestFirst() ([]indexText, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	all, err := cl.listed(ctx)
	if err != nil {
		return nil, protocol.CodeSessionUnavailable.Errorf("The sessions of the cluster cannot be listed at the moment: %s", err).NotRun(protocol.RetryAfter)
	}
	slices.SortStableFunc(all, func(a, b indexText) int { return strings.Compare(b.Modified, a.Modified) })
	return all, nil
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
		if told := cl.died.Load(); told != nil {
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
		all, err := cl.listed(ctx)
		if err != nil {
			log.Warn().Err(err).Str("node", name).Msg("sessions of a lost node wait for their next command")
		}
		found := orphans{}
		for _, of := range all {
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
