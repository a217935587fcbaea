package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/store"
)

// loadedSession is another session made ready to take this one's place.
type loadedSession struct {
	seq  uint64
	log  *store.Log // nil to load the current one again
	work *workspace // nil if the current one serves it, too
	to   core.Loaded
	text string
	// copied: the branch may end anywhere, but nothing was interrupted there.
	copied   bool
	stays    bool   // navigate_tree: the leaf is there already
	moves    bool   // navigate_tree: the leaf goes to navigate
	navigate string // "" for before the first entry
	err      *protocol.Error
}

// loadSession makes the session that a command asks for, off the actor's goroutine.
func (s *Session) loadSession(c actor.Context, e core.LoadSession) {
	from := s.loader()
	kernel.Background(c, func() any {
		p := from.loadSession(e)
		p.seq = e.Seq
		return p
	})
}

func (l *loader) loadSession(e core.LoadSession) (p loadedSession) {
	switch cmd := e.Cmd.(type) {
	case protocol.NewSession:
		p.log = l.work.logs.fresh("", l.work.cwd, cmd.ParentSession)
	case protocol.SwitchSession:
		l.loadSwitch(&p, l.work.resolve(cmd.SessionPath))
	case protocol.Fork:
		l.loadFork(&p, e.Name, cmd)
	case protocol.Clone:
		l.loadClone(&p)
	case protocol.NavigateTree:
		l.loadNavigation(&p, cmd)
		return p
	default:
		p.err = protocol.CodeUnsupported.Errorf("%s is not supported by this version", e.Name)
	}
	if p.err != nil {
		return p
	}
	work, log := p.work, p.log
	if work == nil {
		work = l.work
	}
	if log == nil {
		log = l.file.Log
	}
	if p.to, p.err = l.load(log, work); p.err != nil && p.log != nil {
		closeFile(p.log, l.log)
	}
	if p.copied {
		p.to.Interrupted = false
	}
	return p
}

func (l *loader) loadSwitch(p *loadedSession, path string) {
	if path == l.file.Path() {
		return
	}
	header := store.NewHeader("", l.work.cwd, "", time.Now().UnixMilli())
	if p.log, p.err = openPath(l.shared.fs(), path, l.shared.logOptions(), header, l.rules.CreateOnSwitch); p.err != nil {
		return
	}
	cwd := p.log.Header().Cwd
	if cwd == "" || cwd == store.ValidCwd(l.work.cwd) || l.spec.CwdSet {
		return
	}
	spec := l.spec
	spec.Cwd = cwd
	if p.work, p.err = newWorkspace(l.shared, spec, l.rules, l.work.env.Procs); p.err != nil {
		closeFile(p.log, l.log)
	}
}

// loadFork copies what came before a user message.
func (l *loader) loadFork(p *loadedSession, name string, cmd protocol.Fork) {
	view := l.file.View()
	leaf, text, err := view.ForkPoint(cmd.EntryID)
	switch {
	case errors.Is(err, store.ErrNoEntry), errors.Is(err, store.ErrNotUserMessage):
		verb := "forking"
		if name == "branch" {
			verb = "branching"
		}
		p.err = protocol.CodeInvalidParams.Errorf("Invalid entry ID for %s", verb)
		return
	case err != nil:
		p.err = openError(l.file.Path(), err)
		return
	}
	if view, err = view.At(leaf); err != nil {
		p.err = openError(l.file.Path(), err)
		return
	}
	p.text = text
	l.copyBranch(p, view)
}

// loadClone copies the whole branch.
func (l *loader) loadClone(p *loadedSession) {
	view := l.file.View()
	if l.file.Path() != "" && !hasMessage(view) {
		p.err = protocol.CodeNothingToDo.Errorf("This session has not been saved yet. Send a message before cloning or forking it.")
		return
	}
	if view.Leaf() == "" {
		p.err = protocol.CodeInvalidParams.Errorf("Cannot clone session: no current entry selected")
		return
	}
	l.copyBranch(p, view)
}

// loadNavigation finds where the leaf goes: to the target, or before it if
// it is something that was said, which goes back to the client's editor.
func (l *loader) loadNavigation(p *loadedSession, cmd protocol.NavigateTree) {
	view := l.file.View()
	r, err := view.Record(cmd.TargetID)
	switch {
	case errors.Is(err, store.ErrNoEntry):
		p.err = protocol.CodeNotFound.Errorf("Entry %s not found", cmd.TargetID)
		return
	case err != nil:
		p.err = openError(l.file.Path(), err)
		return
	}
	p.moves, p.navigate = true, cmd.TargetID
	p.stays = view.ShownLeaf() == cmd.TargetID
	switch e := r.Entry.(type) {
	case protocol.MessageEntry:
		switch m := e.Message.(type) {
		case *protocol.UserMessage:
			p.navigate, p.text = r.ParentID, m.Content.Text("")
		case *protocol.CustomMessage:
			p.navigate, p.text = r.ParentID, m.Content.Text("")
		default: // something that happened
		}
	case protocol.CustomMessageEntry:
		p.navigate, p.text = r.ParentID, e.Content.Text("")
	default: // likewise
	}
}

// copyBranch makes a session of a view's branch, beside the file it comes from.
func (l *loader) copyBranch(p *loadedSession, view store.View) {
	h := store.NewHeader("", l.work.cwd, view.Path(), time.Now().UnixMilli())
	path := ""
	if view.Path() != "" {
		path = filepath.Join(filepath.Dir(view.Path()), store.FileName(h))
	}
	log, err := store.Fork(l.shared.fs(), view, path, h, l.work.logs.options)
	if err != nil {
		p.err = protocol.CodeIO.Errorf("Session could not be copied: %s", err)
		return
	}
	p.log, p.copied = log, true
}

func (l *loader) close(log *store.Log) {
	if err := log.Close(); err != nil {
		l.log.Warn().Err(err).Msg("closing a session file")
	}
}

func (s *Session) onLoaded(c actor.Context, p loadedSession) {
	if p.err != nil {
		s.step(c, core.SessionLoaded{Seq: p.seq, Err: p.err})
		return
	}
	s.loaded[p.seq] = &p
	s.step(c, core.SessionLoaded{Seq: p.seq, To: p.to, Text: p.text, Stay: p.stays})
}

// activate makes a loaded session the current one.
func (s *Session) activate(c actor.Context, seq uint64) {
	p := s.loaded[seq]
	delete(s.loaded, seq)
	s.dropContext()
	if p.moves {
		if err := s.file.SetLeaf(p.navigate); err != nil {
			panic(fmt.Sprintf("actors: the target of navigate_tree is gone: %s", err))
		}
	}
	if p.log == nil {
		s.reload(c, seq, p.moves)
		return
	}
	left, log := s.file.Log, s.log
	s.output.closeLater(func() { closeFile(left, log) })
	s.file.is(p.log)
	if p.work != nil {
		s.work = p.work
		s.inputs.cause(core.Reconfigured{Settings: p.work.settings})
	}
	s.inputs.cause(core.SessionActivated{Seq: seq})
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

func (s *Session) dropLoaded(seq uint64) {
	if p := s.loaded[seq]; p != nil {
		delete(s.loaded, seq)
		if p.log != nil {
			closeFile(p.log, s.log)
		}
	}
}
