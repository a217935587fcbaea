package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/tools"
)

// opened is the end of opening a session: what it works with, its log and what
// the log says, or why there is none.
type opened struct {
	work  *workspace
	log   *store.Log
	to    core.Loaded
	err   *protocol.Error
	crash any // what the job panicked with; nil if it did not
}

// start begins with the log, the first time and after a crash.
func (s *Session) start(c actor.Context) {
	switch s.state {
	case failed:
		return
	case closed: // and nobody may have been told
		s.sayClosed(c)
		return
	default:
	}
	s.jobs, s.loaded = newJobs(), map[uint64]*loadedSession{}
	if s.ledger.opening != nil { // the session has crashed over it
		s.waiting = append(s.waiting, *s.ledger.opening)
	}
	if s.end != nil { // it had begun
		s.waiting = append(s.waiting, link.Leave{})
	}
	s.openLog(c)
}

// openLog has the log opened, off the actor's goroutine; what clients send
// meanwhile waits. A job that the session had begun before it crashed goes on: a
// file cannot be opened twice.
func (s *Session) openLog(c actor.Context) {
	s.life.state = opening
	if s.opens {
		return
	}
	s.opens = true
	from := s.loader()
	kernel.Background(c, func() (m any) {
		defer func() {
			if reason := recover(); reason != nil {
				m = opened{crash: reason}
			}
		}()
		return from.open()
	})
}

// took notes the log that was opened before the session hears of it: a crash over
// the message must not lose it. Nobody wants that of a session that was given up.
func (l *life) took(c actor.Context, m opened) {
	l.opens = false
	switch {
	case m.log == nil:
	case l.state.over():
		l.loader().discard(m.log)
	default:
		l.work, l.file, l.opened = m.work, m.log, true
		l.path, l.id = m.log.Path(), m.log.Header().ID
	}
	l.maybeStop(c)
}

// onOpened starts the machine, or gives up. A session that has run before stays
// without its file: see [Session.park].
func (s *Session) onOpened(c actor.Context, m opened) {
	switch {
	case m.crash != nil:
		panic(m.crash)
	case m.err == nil:
		s.life.state = live
		s.begin(c, m.to)
	case s.carryover == nil || s.ledger.opening != nil:
		s.cannotOpen(c, m.err)
		return
	default:
		s.log.Warn().Str("error", m.err.Message).Msg("the session cannot be opened again")
		if s.m == nil {
			s.begin(c, s.plate)
		}
		s.becomeParked(c)
	}
	s.hostLeft(c)
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		if r, ok := w.(link.Request); ok && m.err != nil && wakes(r) {
			s.reply(r.Seq, nil, m.err)
		} else {
			s.tell(c, w)
		}
	}
	s.flush(c.ActorSystem().Root)
	s.rest(c)
}

// begin starts a machine with what the log says.
func (s *Session) begin(c actor.Context, to core.Loaded) {
	s.m = core.New()
	s.step(c, s.restored(to, s.work.settings))
}

// cannotOpen answers everything that waits and lets the session go.
func (s *Session) cannotOpen(c actor.Context, err *protocol.Error) {
	var refused []link.CloseReply // behind the end, like the answer to close_session: who has read it finds no session
	for _, m := range s.waiting {
		r, ok := m.(link.Request)
		if !ok {
			continue
		}
		if endsSession(r) {
			s.answers = append(s.answers, r.Seq)
		} else if to, resp, ok := s.ledger.answer(r.Seq, nil, err); ok {
			refused = append(refused, link.CloseReply{To: to, Response: resp})
		}
	}
	s.refusal = err
	s.finish(c, refused...)
}

// loader opens and reads logs, off the actor's goroutine: it knows what the session
// knew when that began.
type loader struct {
	shared   *Shared
	log      zerolog.Logger
	spec     link.OpenSpec
	rules    protocol.Rules
	work     *workspace // nil before the first log is open
	file     *store.Log // that is open; nil for none
	opened   bool       // there was one before
	path, id string     // then
	lived    bool       // a machine has run
	foreign  *foreign
}

func (l *life) loader() *loader {
	return &loader{
		shared: l.shared, log: l.log, spec: l.spec, rules: l.rules, work: l.work, file: l.file,
		opened: l.opened, path: l.path, id: l.id, lived: l.carryover != nil, foreign: l.foreign,
	}
}

// open makes a session's workspace and opens or begins its log.
func (l *loader) open() (o opened) {
	if o.log, o.err = l.existing(); o.err != nil {
		return o
	}
	if o.work, o.err = l.workspace(o.log); o.err == nil {
		if o.log == nil {
			o.log = o.work.fresh(l.spec.ID, l.spec.Parent)
		}
		o.to, o.err = l.load(o.log, o.work)
	}
	if o.err != nil {
		l.discard(o.log)
		return opened{err: o.err}
	}
	if !l.lived && l.spec.Name != "" && o.to.LeafID == "" {
		o.to.Name = l.spec.Name
	}
	return o
}

// discard closes a log that was opened in vain.
func (l *loader) discard(log *store.Log) {
	if log != nil && log != l.file && log != l.spec.Log {
		l.close(log)
	}
}

// existing opens the log that the session was asked for or had before a crash;
// nil if it is to begin one.
func (l *loader) existing() (*store.Log, *protocol.Error) {
	switch {
	case l.file != nil: // in memory, and it survived
		return l.file, nil
	case l.opened:
		return l.again()
	case l.spec.Log != nil:
		return l.spec.Log, nil
	case l.spec.Path != "":
		header := store.NewHeader(l.spec.ID, l.spec.Cwd, l.spec.Parent, time.Now().UnixMilli())
		return openPath(l.shared.fs(), l.spec.Path, l.shared.logOptions(), header, false)
	}
	return nil, nil
}

// again opens the file that the session has had open before. It was written, so
// it has to be there: a new one in its place would be another session under the
// same name.
func (l *loader) again() (*store.Log, *protocol.Error) {
	log, err := store.OpenLog(l.shared.fs(), l.path, l.shared.logOptions())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, protocol.CodeNotDurable.Errorf("Session file is gone: %s", l.path)
	case errors.Is(err, store.ErrEmpty):
		return nil, protocol.CodeNotDurable.Errorf("Session file was emptied by another program: %s", l.path)
	case err != nil:
		return nil, openError(l.path, err)
	case log.Header().ID != l.id:
		l.close(log)
		return nil, protocol.CodeNotDurable.Errorf("Session file is another session's now: %s", l.path)
	}
	return log, nil
}

// workspace makes the session's workspace, unless a crashed predecessor left
// one. A session's file says where it works; who asked for another directory
// gets that.
func (l *loader) workspace(log *store.Log) (*workspace, *protocol.Error) {
	if l.work != nil {
		return l.work, nil
	}
	spec := l.spec
	if log != nil && !spec.CwdSet && log.Header().Cwd != "" && log.Header().Cwd != store.ValidCwd(spec.Cwd) {
		spec.Cwd = log.Header().Cwd
	}
	return assemble(l.shared, spec, l.rules, tools.NewProcs(l.shared.Guard))
}

// OpenSession opens a session file that was named on the command line, so that
// one that cannot be opened is a failure to start.
func OpenSession(shared *Shared, path string) (*store.Log, error) {
	header := store.NewHeader(shared.Default.ID, shared.Default.Cwd, shared.Default.Parent, time.Now().UnixMilli())
	log, err := openPath(shared.fs(), path, shared.logOptions(), header, true)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// openPath opens a session file. An empty file, and with create a missing one,
// becomes a new session with the given header.
func openPath(fsys store.FS, path string, options store.Options, header protocol.Header, create bool) (*store.Log, *protocol.Error) {
	log, err := store.OpenLog(fsys, path, options)
	switch {
	case err == nil:
		return log, nil
	case errors.Is(err, store.ErrEmpty) || create && errors.Is(err, fs.ErrNotExist):
		return store.NewLog(fsys, path, header, options), nil
	}
	return nil, openError(path, err)
}

// openError says in the seeds' words why a session file cannot be opened.
func openError(path string, err error) *protocol.Error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return protocol.CodeNotFound.Errorf("Session file not found: %s", path)
	case errors.Is(err, store.ErrNotSession):
		return protocol.CodeInvalidFile.Errorf("Session file is not a valid pi session: %s", path)
	case errors.Is(err, store.ErrTooLarge):
		return protocol.CodeInvalidFile.Errorf("Session file cannot be read: %s", err)
	case errors.Is(err, store.ErrInUse):
		return protocol.CodeSessionInUse.Errorf("Session file is in use: %s%s", path, holder(path))
	case errors.Is(err, store.ErrInvalidPath):
		return protocol.CodeInvalidParams.Errorf("Invalid session path: %s", path)
	}
	return protocol.CodeIO.Errorf("Session file cannot be opened: %s", err)
}

// holder names the process that has a session file, where the system tells.
func holder(path string) string {
	pid := store.Holder(path)
	if pid == 0 {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	return fmt.Sprintf(" (by process %d on %s)", pid, host)
}

// load reads from a log what the machine needs to know.
func (l *loader) load(log *store.Log, w *workspace) (core.Loaded, *protocol.Error) {
	view := log.View()
	st, err := view.State()
	if err != nil {
		return core.Loaded{}, openError(log.Path(), err)
	}
	to := core.Loaded{
		Identity: core.Identity{
			SessionID: log.Header().ID, File: log.Path(), Durability: w.durability(log), LeafID: view.Leaf(), ShownLeaf: view.ShownLeaf(),
			Foreign: l.foreign.takeOut(&st.Resume, log.Path(), w),
		},
		Resume: st.Resume,
	}
	if st.ModelID != "" {
		to.Model = w.modelOf(st.Provider, st.ModelID, l.shared.Models, l.log.With().Str("session", log.Header().ID).Logger())
	}
	if to.Foreign {
		l.log.Warn().Str("file", log.Path()).Msg("the session file is in none of the user's session directories: its queued input is left out")
	}
	return to, nil
}

// modelOf is the model that a session was led with. One that is not known or has
// no key is the session's all the same: a conversation goes to nobody it was not
// meant for because a file is broken for a moment. Whoever asks for another model
// gets that, and so does who was led by the demo.
func (w *workspace) modelOf(provider, id string, models Models, warn zerolog.Logger) *protocol.Model {
	catalog, _ := models.Catalog() // its problems were named when the daemon started
	m := catalog.Find(provider, id)
	if m != nil && catalog.HasKey(provider) {
		return m
	}
	if chosen := w.settings.Model; chosen != nil && chosen.Provider == provider && chosen.ID == id {
		return nil
	}
	warn = warn.With().Str("model", provider+"/"+id).Logger()
	switch {
	case w.modelAsked || providers.IsDemo(provider):
		warn.Warn().Msg("the session's model is not known or has no key: another one is used")
		return nil
	case m == nil:
		warn.Warn().Msg("the session's model is not known: prompts are refused until it is, or another one is chosen")
		return protocol.MissingModel(provider, id)
	}
	warn.Warn().Msg("the session's model has no key: prompts are refused until it has, or another one is chosen")
	return m
}

// foreign remembers how far the queued input goes that files which are not the
// user's own came with. Somebody else may have written it, and delivered it
// would be the user's word. What is queued in them later is the client's.
type foreign struct {
	mu   sync.Mutex
	upTo map[string]int // number of the last queued input, by file
}

// takeOut takes foreign input out of what a file has queued, and says whether
// there was any.
func (f *foreign) takeOut(r *protocol.Resume, path string, w *workspace) bool {
	if path == "" || store.Holds(w.own, path) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	upTo, known := f.upTo[path]
	if !known {
		upTo = r.LastQueueID
		if f.upTo == nil {
			f.upTo = map[string]int{}
		}
		f.upTo[path] = upTo
	}
	before := len(r.Queue)
	r.LastQueueID = max(r.LastQueueID, upTo)
	r.Queue = slices.DeleteFunc(r.Queue, func(q protocol.QueuedInput) bool { return q.Number() <= upTo })
	return len(r.Queue) < before
}

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
		p.log = l.work.fresh("", cmd.ParentSession)
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
		log = l.file
	}
	if p.to, p.err = l.load(log, work); p.err != nil && p.log != nil {
		l.close(p.log)
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
	if p.work, p.err = assemble(l.shared, spec, l.rules, l.work.procs); p.err != nil {
		l.close(p.log)
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
	log, err := store.Fork(l.shared.fs(), view, path, h, l.work.options)
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
	left := s.file
	s.closeLater(func() { s.loader().close(left) })
	s.file = p.log
	s.life.path, s.life.id = p.log.Path(), p.log.Header().ID
	if p.work != nil {
		s.life.work = p.work
		s.next = append(s.next, core.Reconfigured{Settings: p.work.settings})
	}
	s.next = append(s.next, core.SessionActivated{Seq: seq})
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
	return l.load(l.file, l.work)
}

func (s *Session) dropLoaded(seq uint64) {
	if p := s.loaded[seq]; p != nil {
		delete(s.loaded, seq)
		if p.log != nil {
			s.loader().close(p.log)
		}
	}
}

// reloaded reads the log again, since the effect at an index of the last step
// could not be written. Where the file is no longer what was read from it, or
// cannot be read, the machine is left with nothing but the session's name, until
// the file is opened again.
func (s *Session) reloaded(undone int, err error) core.Reloaded {
	in := core.Reloaded{Open: s.spans, Err: err, Undone: undone, Changed: errors.Is(err, store.ErrChanged)}
	if !in.Changed {
		var unread *protocol.Error
		in.Session, unread = s.loader().quietly()
		in.Changed = unread != nil
	}
	if in.Changed {
		s.life.state = stale
		in.Session = s.m.Nameplate()
	}
	return in
}

// absolute makes a client's path absolute against the working directory.
func absolute(path, cwd, home string) string {
	path = store.ExpandHome(path, home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	return filepath.Clean(path)
}
