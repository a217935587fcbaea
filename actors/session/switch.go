package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// loadedSession is another session made ready to take this one's place.
type loadedSession struct {
	seq  uint64
	log  *store.Log // nil for the one that is open
	work *workspace // nil if the current one serves it, too
	to   core.Loaded
	text string  // what goes back to the client's editor
	leaf *string // navigate_tree: where the leaf goes to, "" for before the first entry; nil otherwise
	stay bool    // it is there already
	said         // by extensions
	told bool    // they know that their session is left
	// reason is why it takes the place of another: new, resume or fork.
	reason string
	err    *protocol.Error
}

// loadSession makes the session that a command asks for, off the actor's goroutine.
func (s *Session) loadSession(c actor.Context, e core.LoadSession) {
	more := s.ext.asks.more[e.Seq]
	delete(s.ext.asks.more, e.Seq)
	from, ask := s.loader(), s.beforeSwitch(e, more)
	from.key, from.allowed = s.clients.replies.keyOf(e.Seq), s.clients.replies.pending[e.Seq].allowed
	kernel.Background(c, func() any {
		says := ask()
		if says.veto {
			return loadedSession{seq: e.Seq, said: says}
		}
		p := from.loadSession(e, more)
		p.seq, p.said = e.Seq, says
		p.reason = cmp.Or(p.reason, switchReason(e.Cmd))
		return p
	})
}

// switchReason is why a session takes the place of another, as extensions are told.
func switchReason(cmd protocol.Command) string {
	switch cmd.(type) {
	case protocol.NewSession:
		return "new"
	case protocol.Fork, protocol.Clone:
		return "fork"
	default:
		return "resume"
	}
}

func (l *loader) loadSession(e core.LoadSession, more extension.Replacing) (p loadedSession) {
	switch made, err := l.made(e.Again); {
	case err != nil:
		return notLoaded(err)
	case made != "":
		p = l.switchTo(made)
		p.reason = "resume"
		return p
	}
	switch cmd := e.Cmd.(type) {
	case protocol.NewSession:
		return l.begin(cmd, more.Setup)
	case protocol.SwitchSession:
		return l.switchTo(l.work.resolve(cmd.SessionPath))
	case protocol.Fork:
		return l.fork(e.Name, cmd, more.At)
	case protocol.Clone:
		return l.clone()
	case protocol.NavigateTree:
		return l.navigate(cmd)
	default:
		return notLoaded(protocol.CodeUnsupported.Errorf("%s is not supported by this version", e.Name))
	}
}

// made is the file of the session that a command has made when it came before, on whichever node; "" if there is none, as where
// nothing was said in it.
func (l *loader) made(file string) (string, *protocol.Error) {
	if cl := l.shared.Cluster; cl != nil && cl.Engine != nil && file != "" && keptBy(l.file.Log) != nil {
		id := strings.TrimSuffix(filepath.Base(file), copySuffix)
		ctx, cancel := context.WithTimeout(context.Background(), engineTime)
		defer cancel()
		switch tail, err := cl.Engine.Tail(ctx, cluster.SessionID(id)); {
		case err != nil: // it may be there
			return "", keptError(id, err)
		case tail.Seq > 0:
			return cl.file(id), nil
		}
	}
	if file == "" {
		return "", nil
	}
	if _, err := l.shared.fs().Stat(file); err != nil {
		return "", nil
	}
	return file, nil
}

func notLoaded(err *protocol.Error) loadedSession { return loadedSession{err: err} }

// loaded reads what the machine needs to know of a session that can be had.
func (l *loader) loaded(p loadedSession) loadedSession {
	log, work := p.log, p.work
	if log == nil {
		log = l.file.Log
	}
	if work == nil {
		work = l.work
	}
	if p.to, p.err = l.load(log, work); p.err != nil {
		l.discard(p.log)
	}
	return p
}

func (l *loader) switchTo(path string) (p loadedSession) {
	if path == l.file.Path() {
		return l.loaded(p)
	}
	header := store.NewHeader("", l.work.cwd, "", time.Now().UnixMilli())
	if id := l.shared.Cluster.idOf(path); id == l.handle && l.known {
		p.log, p.err = l.shared.openKept(link.OpenSpec{ID: id, Claim: true}, asKept{back, l.claimant()})
	} else {
		p.log, p.err = l.shared.openPath(path, header, asFile{create: l.rules.CreateOnSwitch, elsewhere: l.spec.CwdSet, handle: l.claimant(), allowed: l.allowed})
	}
	if p.err != nil {
		return p
	}
	if cwd := cwdOf(p.log); filepath.IsAbs(cwd) && cwd != store.ValidCwd(l.work.cwd) && !l.spec.CwdSet {
		spec := l.spec
		spec.Cwd, spec.Places = cwd, l.work.env.Sandbox.Places()
		if keptBy(p.log).dir() == "" {
			p.err = outsideRoots(l.allowed, cwd)
		}
		if p.err != nil {
			l.discard(p.log)
			return p
		}
		if p.work, p.err = newWorkspace(l.shared, spec, l.rules, l.work.env.Procs); p.err != nil {
			l.discard(p.log)
			return p
		}
	}
	return l.loaded(p)
}

// begin makes a new session, with the entries that an extension wants in it.
func (l *loader) begin(cmd protocol.NewSession, setup []extension.Setup) loadedSession {
	log := l.work.logs.fresh(l.newID(), l.work.cwd, cmd.ParentSession)
	if made, err := keptBy(log).begunBefore(l, l.work.logs.options); err != nil || made != nil {
		return l.loadedBefore(made, err)
	}
	ids := map[string]string{}
	for i, e := range setup {
		meta, err := log.Append(named(e.Entry, ids), time.Now().UnixMilli(), i == len(setup)-1)
		if err != nil {
			l.discard(log)
			return notLoaded(protocol.CodeIO.Errorf("Session could not be set up: %s", err))
		}
		ids[e.Ref] = meta.ID
	}
	return l.loaded(loadedSession{log: log})
}

// named is an entry that names others by the ids that they have got.
func named(e protocol.Entry, ids map[string]string) protocol.Entry {
	switch e := e.(type) {
	case protocol.Label:
		e.TargetID = cmp.Or(ids[e.TargetID], e.TargetID)
		return e
	case protocol.Compaction:
		e.FirstKeptEntryID = cmp.Or(ids[e.FirstKeptEntryID], e.FirstKeptEntryID)
		return e
	default:
		return e
	}
}

// fork copies what came before a user message, or, at an entry, up to it.
func (l *loader) fork(name string, cmd protocol.Fork, at bool) loadedSession {
	view := l.file.View()
	if at {
		view, err := view.At(cmd.EntryID)
		if err != nil {
			return notLoaded(protocol.CodeInvalidParams.Errorf("Invalid entry ID for forking"))
		}
		return l.copyBranch(view)
	}
	leaf, text, err := view.ForkPoint(cmd.EntryID)
	switch {
	case errors.Is(err, store.ErrNoEntry), errors.Is(err, store.ErrNotUserMessage):
		verb := "forking"
		if name == "branch" {
			verb = "branching"
		}
		return notLoaded(protocol.CodeInvalidParams.Errorf("Invalid entry ID for %s", verb))
	case err == nil:
		view, err = view.At(leaf)
	}
	if err != nil {
		return notLoaded(openError(l.file.Path(), err))
	}
	p := l.copyBranch(view)
	p.text = text
	return p
}

// clone copies the whole branch.
func (l *loader) clone() loadedSession {
	view := l.file.View()
	switch {
	case l.file.Path() != "" && !hasMessage(view):
		return notLoaded(protocol.CodeNothingToDo.Errorf("This session has not been saved yet. Send a message before cloning or forking it."))
	case view.Leaf() == "":
		return notLoaded(protocol.CodeInvalidParams.Errorf("Cannot clone session: no current entry selected"))
	}
	return l.copyBranch(view)
}

// copyBranch makes a session of a view's branch, beside the file it comes from.
// The branch may end anywhere, but nothing was interrupted there.
func (l *loader) copyBranch(view store.View) loadedSession {
	h := store.NewHeader(l.newID(), l.work.cwd, view.Path(), time.Now().UnixMilli())
	path, options := "", l.work.logs.options
	if view.Path() != "" {
		path, options = l.work.logs.place(h, filepath.Dir(view.Path()))
	}
	k, _ := options.Commit.(*kept)
	if made, err := k.begunBefore(l, options); err != nil || made != nil {
		return l.loadedBefore(made, err)
	}
	log, err := store.Fork(l.shared.fs(), view, path, h, options)
	if err != nil {
		if k != nil {
			k.Close(false)
		}
		return notLoaded(protocol.CodeIO.Errorf("Session could not be copied: %s", err))
	}
	p := l.loaded(loadedSession{log: log})
	p.to.Interrupted = false
	return p
}

// loadedBefore is a session that the same command has made before, or why that is not known.
func (l *loader) loadedBefore(log *store.Log, err *protocol.Error) loadedSession {
	if err != nil {
		return notLoaded(err)
	}
	p := l.loaded(loadedSession{log: log})
	p.to.Interrupted = false
	return p
}

// navigate finds where the leaf goes: to the target, or before it if it is
// something that was said, which goes back to the client's editor.
func (l *loader) navigate(cmd protocol.NavigateTree) loadedSession {
	view := l.file.View()
	r, err := view.Record(cmd.TargetID)
	switch {
	case errors.Is(err, store.ErrNoEntry):
		return notLoaded(protocol.CodeNotFound.Errorf("Entry %s not found", cmd.TargetID))
	case err != nil:
		return notLoaded(openError(l.file.Path(), err))
	}
	p := loadedSession{leaf: &cmd.TargetID, stay: view.ShownLeaf() == cmd.TargetID}
	if said, ok := saidIn(r.Entry); ok {
		p.leaf, p.text = &r.ParentID, said.Text("")
	}
	return p
}

// saidIn is what somebody has said in an entry, false if it is something that
// happened.
func saidIn(e protocol.Entry) (protocol.Content, bool) {
	switch e := e.(type) {
	case protocol.MessageEntry:
		switch m := e.Message.(type) {
		case *protocol.UserMessage:
			return m.Content, true
		case *protocol.CustomMessage:
			return m.Content, true
		default:
			return nil, false
		}
	case protocol.CustomMessageEntry:
		return e.Content, true
	default:
		return nil, false
	}
}

func (s *Session) onLoaded(c actor.Context, p loadedSession) {
	s.partingOver(p.seq)
	if p.err != nil || p.veto {
		s.step(c, core.SessionLoaded{Seq: p.seq, Err: p.err, Veto: p.veto})
		return
	}
	s.loaded[p.seq] = &p
	s.step(c, core.SessionLoaded{Seq: p.seq, To: p.to, Text: p.text, Stay: p.stay, Nav: p.nav, Summary: p.summary})
}

// leftBehind says that extensions are through with the end of their session.
type leftBehind struct{ seq uint64 }

func (s *Session) onLeftBehind(c actor.Context, m leftBehind) {
	switch err := s.activate(c, m.seq); {
	case errors.Is(err, cluster.ErrFenced):
		s.moveAway(c, "fenced")
		return
	case err != nil:
		s.log.Error().Err(err).Msg("the session cannot be changed for another one")
		lost := s.reloaded(0, err)
		lost.Err = nil // the step that has asked for it is over
		s.inputs.cause(lost)
	}
	if in := s.inputs.first(); in != nil {
		s.step(c, in...)
	}
}

// tellLeave tells extensions that their session is about to be left, off the actor's
// goroutine; false if there is nobody to tell.
func (s *Session) tellLeave(c actor.Context, seq uint64, p *loadedSession) bool {
	if p.log == nil || p.told || s.ext.pid == nil || !s.ext.load.over() || !s.ext.listens["session_shutdown"] {
		return false
	}
	p.told = true
	s.update()
	box, reason, target := s.ext.tools, p.reason, p.log.Path()
	kernel.Background(c, func() any {
		box.Leave(context.Background(), reason, target)
		return leftBehind{seq}
	})
	return true
}

// activate makes a loaded session the current one, when extensions have had their last
// word in the one before. It fails if the cluster cannot be told.
func (s *Session) activate(c actor.Context, seq uint64) error {
	p := s.loaded[seq]
	if p == nil || s.tellLeave(c, seq, p) {
		return nil
	}
	if err := s.lead(c, seq, p); err != nil {
		return err
	}
	delete(s.loaded, seq)
	if p.log != nil {
		s.leftIndex(c)
	}
	s.context, s.reported.said = nil, gist{}
	if p.leaf != nil {
		if err := s.file.SetLeaf(*p.leaf); err != nil {
			panic(fmt.Sprintf("actors: the target of navigate_tree is gone: %s", err))
		}
	}
	if p.log == nil {
		s.reload(c, seq, p.leaf != nil)
		return nil
	}
	s.inputs.step.arrival = s.m.Arrival()
	left, log, leftPath := s.file.Log, s.log, s.file.path
	s.output.closeLater(func() { closeFile(left, log) })
	s.file.is(p.log)
	s.shared.onDisk.holders.hold(s.handle, s.file.path)
	s.watchOver(c)
	before := s.work
	if p.work != nil {
		s.work = p.work
	}
	s.dismissDialogs(c) // nobody waits for an answer who belongs to another session
	s.moveExtensions(p.reason, leftPath, before)
	if p.work != nil {
		s.inputs.cause(core.Reconfigured{Settings: p.work.settings})
	}
	s.inputs.cause(core.SessionActivated{Seq: seq})
	return nil
}

// reload finds out what the current session has become since it was prepared
// to replace itself.
func (s *Session) reload(c actor.Context, seq uint64, moved bool) {
	from := s.loader()
	kernel.Background(c, func() any {
		to, err := from.quietly()
		if err != nil {
			return kernel.Crashed{Reason: err}
		}
		if moved { // the branch may end anywhere, but nothing was interrupted there
			to.Interrupted = false
		}
		return core.SessionActivated{Seq: seq, To: &to}
	})
}

// quietly loads the open log once more. What there is to say of it was said when it
// was opened.
func (l *loader) quietly() (core.Loaded, *protocol.Error) {
	l.log = zerolog.Nop()
	return l.load(l.file.Log, l.work)
}

// dropAllLoaded lets go of what was to take the place of a session that is over here.
func (s *Session) dropAllLoaded() {
	for seq := range s.loaded {
		s.dropLoaded(seq)
	}
}

func (s *Session) dropLoaded(seq uint64) {
	s.partingOver(seq)
	if p := s.loaded[seq]; p != nil {
		delete(s.loaded, seq)
		if p.log != nil {
			closeFile(p.log, s.log)
		}
	}
}
