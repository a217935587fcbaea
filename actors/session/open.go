package session

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
	"troupe/tools"
)

// logFile is the log of a session, and the way back to it.
type logFile struct {
	*store.Log        // that is open, nil for none; a memory log is the session itself and outlives crashes
	opening    bool   // a job opens it; an opened follows, whatever happens
	opened     bool   // there was one: a crash opens it again, and not what the session was asked for
	path, id   string // then, of the last one
	told       string // id of the session that clients know as the current one; "" before the first
	foreign    *foreign
	led        led // what is known of the sessions that the handle has led to before, in a cluster
}

// opened is the end of opening a session: what it works with, its log and what
// the log says, or why there is none.
type opened struct {
	work  *workspace
	spec  link.OpenSpec // as the log completes it
	log   *store.Log
	to    core.Loaded
	err   *protocol.Error
	crash any // what the job panicked with; nil if it did not
}

// is makes a log the session's.
func (f *logFile) is(log *store.Log) {
	f.Log, f.opened, f.path, f.id = log, true, log.Path(), log.Header().ID
}

// closeLog closes the log. The memory of a session without a file, or without one
// yet, is kept until its end: it is all there is of it, but where the cluster may have more.
func (d *durable) closeLog() {
	if d.file.Log == nil {
		return
	}
	begins := !d.file.Materialised() && (d.life.state != stale || keptBy(d.file.Log) == nil)
	if d.life.state != closed && (d.spec.Memory || begins) {
		return
	}
	keptBy(d.file.Log).worked(d.file.View())
	if k := keptBy(d.file.Log); k != nil && k.owned != nil && !d.life.state.over() {
		k.owned.Rests = d.shared.Cluster.claimant(d.handle, d.known())
	}
	closeFile(d.file.Log, d.log)
	d.file.Log = nil
}

func closeFile(log *store.Log, warn zerolog.Logger) {
	if err := log.Close(); err != nil {
		warn.Warn().Err(err).Msg("closing a session file")
	}
}

// start begins with the log, the first time and after a crash.
func (s *Session) start(c actor.Context) {
	switch s.life.state {
	case failed:
		return
	case closed: // and nobody may have been told
		s.sayClosed(c)
		return
	default:
	}
	if s.clients.replies.opening != nil { // the session has crashed over it
		s.waiting = append(s.waiting, *s.clients.replies.opening)
	}
	if s.life.end != nil { // it had begun
		s.waiting = append(s.waiting, link.Leave{})
	}
	s.openLog(c)
}

// openLog has the log opened, off the actor's goroutine; what clients send
// meanwhile waits. A job that the session had begun before it crashed goes on: a
// file cannot be opened twice.
func (s *Session) openLog(c actor.Context) {
	s.life.state = opening
	if s.file.opening {
		return
	}
	s.file.opening = true
	from := s.loader()
	from.leaving = s.leaves()
	kernel.Background(c, func() (m any) {
		defer func() {
			if reason := recover(); reason != nil {
				m = opened{crash: reason}
			}
		}()
		return from.open()
	})
}

// leaves reports whether the first waiting command replaces the session without its entries. Such a command succeeds
// although the session's file is gone: an unwritten session takes its place in between.
func (s *Session) leaves() bool {
	if len(s.waiting) == 0 {
		return false
	}
	r, _ := s.waiting[0].(link.Request)
	switch r.Cmd.(type) {
	case protocol.NewSession, protocol.SwitchSession:
		return true
	}
	return false
}

// noteOpened notes the log that was opened before the session hears of it: a crash over
// the message must not lose it. A session that is over does not want it.
func (d *durable) noteOpened(c actor.Context, m opened) {
	d.file.opening = false
	if k := keptBy(m.log); k != nil && k.owned != nil {
		k.owned.Rests = "" // it is not parked any more
	}
	switch {
	case m.log == nil:
	case d.life.state.over():
		d.loader().discard(m.log)
	default:
		m.spec.Retain = d.spec.Retain // which may have changed since
		d.work, d.spec = m.work, m.spec
		d.file.is(m.log)
		d.shared.onDisk.holders.hold(d.handle, d.file.path)
		d.file.told = cmp.Or(d.file.told, d.file.id)
		if k := keptBy(m.log); k != nil {
			d.file.led = k.how.led
		}
	}
	d.maybeStop(c)
}

// onOpened starts the machine, or gives up. A session that has run before, and
// that a client knows, is parked without its file: who asks next may have more
// luck.
func (s *Session) onOpened(c actor.Context, m opened) {
	switch {
	case m.crash != nil:
		panic(m.crash)
	case m.err == nil:
		s.life.state = live
		s.begin(c, m.to)
		if s.life.state.over() { // another node was faster
			return
		}
		if s.file.told != s.file.id {
			s.tellOther()
		}
		s.beginExtensions(c, s.beginning(m.to))
	case m.err.Code == protocol.CodeNotHere && (s.clients.replies.anyMayGo() || len(s.clients.replies.pending) == 0): // who only hears is led there, too
		s.moveAway(c, "released")
		return
	case s.spec.Follows && !s.last.ran() && (m.err.Code == protocol.CodeNotHere || m.err.Code == protocol.CodeNowhere):
		s.clients.replies.untouched = true
		s.moveAway(c, "released")
		return
	case !s.last.ran() || s.clients.replies.opening != nil:
		if !s.beginElsewhere(c, m.err) {
			s.cannotOpen(c, m.err)
		}
		return
	default:
		s.log.Warn().Str("error", m.err.Message).Msg("the session cannot be opened again")
		if s.m == nil {
			s.begin(c, s.last.nameplate)
		}
		s.becomeParked(c)
		s.readsGood(c, m.err, false)
	}
	s.hostLeft(c)
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		if s.life.state.over() {
			return
		}
		r, isRequest := w.(link.Request)
		_, ofExtensions := w.(extension.Message)
		switch {
		case isRequest && m.err != nil && wakes(r):
			s.reply(r.Seq, nil, m.err)
		case ofExtensions && m.err == nil: // of those that others have replaced
		default:
			s.tell(c, w)
		}
	}
	s.askAgain(c)
	s.clients.flush(c.ActorSystem().Root)
	s.rest(c)
}

// askAgain has clients asked again about calls that a restart has left open, when what they
// have sent meanwhile is handled and the extensions are there that have a say in it.
func (s *Session) askAgain(c actor.Context) {
	if s.life.state == live && !s.ext.loading() && s.m.AsksAgain() {
		s.step(c, core.AskAgain{})
	}
	s.takeEarly(c)
}

// begin starts a machine with what the log says.
func (s *Session) begin(c actor.Context, to core.Loaded) {
	s.m, s.reported.said = core.New(), gist{}
	s.watchOver(c)
	s.step(c, s.restored(to, s.work.settings))
	s.sendLateReplies()
}

// beginElsewhere begins a session of the daemon's own directory in the place of one whose
// directory is gone, for a client whose first command leaves that one.
func (s *Session) beginElsewhere(c actor.Context, err *protocol.Error) bool {
	if err.Code != protocol.CodeCwdMissing || !s.spec.Leaves || s.spec.Path == "" {
		return false
	}
	s.spec.Path, s.spec.Log = "", nil
	s.openLog(c)
	return true
}

// cannotOpen lets the session go, and answers everything that waits behind that; what its log answers, from there.
func (s *Session) cannotOpen(c actor.Context, err *protocol.Error) {
	if s.readsGood(c, err, true) { // and is here again behind that
		return
	}
	s.life.refusal = err
	var refused []uint64
	for _, m := range s.waiting {
		if r, ok := m.(link.Request); ok && endsSession(m) {
			s.life.endAs(ending{asked: []uint64{r.Seq}})
		} else if ok {
			refused = append(refused, r.Seq)
		}
	}
	s.finish(c, s.clients.replies.closing(err, refused...)...)
}

// loader opens and reads logs, off the actor's goroutine: it knows what the session
// knew when that began.
type loader struct {
	shared *Shared
	log    zerolog.Logger
	spec   link.OpenSpec
	rules  protocol.Rules
	work   *workspace // nil before the first log is open
	file   logFile
	ran    bool // the session has had a machine
	limits bool // a client has limited what it may use up
	handle string
	known  bool // to other nodes, by its handle
	loadedFor
}

// loadedFor is the command that a log is opened for.
type loadedFor struct {
	// allowed is the [link.Request.Allowed] of the command that makes another session.
	allowed func(path string) bool
	leaving bool   // it replaces the session, see [Session.leaves]
	key     string // of the command that makes another session, see [pendingReply.key]
}

func (d *durable) loader() *loader {
	return &loader{shared: d.shared, log: d.log, spec: d.spec, rules: d.rules, work: d.work, file: d.file, ran: d.last.ran(), limits: d.last.limited(), handle: d.handle, known: d.known()}
}

// claimant is the handle of the session, see [Cluster.claimant].
func (l *loader) claimant() string { return l.shared.Cluster.claimant(l.handle, l.known) }

// open makes a session's workspace and opens or begins its log.
func (l *loader) open() (o opened) {
	if o.log, o.err = l.existing(); o.err != nil {
		return o
	}
	if keptBy(o.log) != nil && l.spec.Child == nil && l.work == nil {
		l.spec = l.shared.reopened(l.spec, o.log.View().Choices())
	}
	o.spec = l.spec
	if o.work, o.err = l.workspace(o.log); o.err == nil {
		if o.log == nil {
			o.log = l.begun(o.work)
		}
		o.to, o.err = l.load(o.log, o.work)
	}
	if o.err != nil {
		if keptBy(o.log).giveBack() {
			o.err = keptError(o.log.Header().ID, cluster.ErrReleased)
		}
		l.discard(o.log)
		return opened{err: o.err}
	}
	if !l.ran && l.spec.Name != "" && o.to.LeafID == "" {
		o.to.Name = l.spec.Name
	}
	return o
}

// begun is the log of a new session.
func (l *loader) begun(w *workspace) *store.Log {
	if child := l.spec.Child; child != nil && child.File != "" {
		h := store.NewHeader(l.spec.ID, w.cwd, l.spec.Parent, time.Now().UnixMilli())
		return store.NewLog(w.logs.fs, l.freeFile(w.logs.fs, child.File), h, w.logs.options)
	}
	id := l.spec.ID
	if l.leaving && l.file.opened {
		id = ""
	}
	return w.logs.fresh(id, w.cwd, l.spec.Parent)
}

// freeFile returns a child's file, or, if that exists, another name beside it. A call that was aborted before its child
// had begun is not in the log of the parent, so the id of the child is free again. Its file may be there, or be about to be
// written by a session that is closing.
func (l *loader) freeFile(fsys store.FS, path string) string {
	base := strings.TrimSuffix(path, ".jsonl")
	for n := 2; ; n++ {
		if l.shared.onDisk.holders.reserve(l.handle, path) {
			if _, err := fsys.Stat(path); err != nil { // errors other than that there is none are those of its creation
				return path
			}
		}
		path = base + "." + strconv.Itoa(n) + ".jsonl" // no child has such an id
	}
}

// discard closes a log that was opened in vain.
func (l *loader) discard(log *store.Log) {
	if log != nil && log != l.file.Log {
		closeFile(log, l.log)
	}
}

// existing opens the log that the session was asked for or had before a crash;
// nil if it is to begin one.
func (l *loader) existing() (*store.Log, *protocol.Error) {
	switch {
	case l.file.Log != nil: // in memory, and it survived
		return l.file.Log, nil
	case l.file.opened:
		return l.again()
	case l.spec.Log != nil && !l.spec.Log.Closed():
		return l.spec.Log, nil
	case l.spec.Path != "":
		header := store.NewHeader(l.spec.ID, l.spec.Cwd, l.spec.Parent, time.Now().UnixMilli())
		return l.shared.openPath(l.spec.Path, header, asFile{elsewhere: l.spec.CwdSet, handle: l.claimant(), allowed: l.spec.Allowed})
	case l.shared.Cluster != nil && l.spec.ID != "" && !l.spec.Memory && l.spec.Child == nil:
		return l.shared.openKept(l.spec, asKept{byHandle, l.claimant()})
	}
	return nil, nil
}

// asKept is how a session is opened that the cluster keeps, and for which handle.
type asKept struct {
	way    way
	handle string // see [Cluster.claimant]
}

// openKept opens a session that the cluster keeps, or begins it.
func (h *Shared) openKept(spec link.OpenSpec, as asKept) (*store.Log, *protocol.Error) {
	h.sweepCopies()
	k, o := h.keep(spec.ID, h.Cluster.wants(spec.Wants, spec.Cwd)), h.logOptions()
	o.Commit, k.how.way, k.how.handle, k.how.exists = k, as.way, as.handle, spec.Claim
	log, err := k.open(o)
	if err == nil && as.way == byHandle && k.owned.Lead != nil {
		return h.openLed(k, spec)
	}
	if errors.As(err, new(*fs.PathError)) && h.TryDisk() && k.owned != nil && k.owned.Wants.Node == "" {
		err = cluster.ErrReleased // others can have it
	}
	if err == nil {
		err = h.checkOut(k)
	}
	switch {
	case err != nil && log != nil:
		back := k.giveBack()
		closeFile(log, h.complaints.log)
		if back {
			err = cluster.ErrReleased
		}
		return nil, keptError(spec.ID, err)
	case err != nil:
		k.Close(false)
		return nil, keptError(spec.ID, err)
	case log == nil && spec.Claim && k.owned.Why == "new":
		k.Close(false)
		return nil, protocol.CodeUnknownSession.Errorf("Unknown session: %s", spec.ID)
	case log == nil:
		if dir := k.dir(); dir != "" && (k.tree != nil || spec.Claim) {
			spec.Cwd = dir
		}
		header := store.NewHeader(spec.ID, spec.Cwd, spec.Parent, time.Now().UnixMilli())
		return store.NewLog(k.fs, h.Cluster.file(spec.ID), header, o), nil
	}
	return log, nil
}

// openLed opens the session to which the handle of another one leads, which was claimed for that.
func (h *Shared) openLed(k *kept, spec link.OpenSpec) (*store.Log, *protocol.Error) {
	defer k.Close(false)
	spec.ID, spec.Claim, spec.Wants = string(k.owned.Lead.To), true, cluster.Wants{}
	log, err := h.openKept(spec, asKept{bySelf, k.how.handle})
	if err == nil {
		keptBy(log).how.led = newLed(k.owned.Lead)
	}
	return log, err
}

// again opens the file that the session has had open before. It was written, so
// it has to be there: a new one in its place would be another session under the
// same name.
func (l *loader) again() (*store.Log, *protocol.Error) {
	if l.shared.Cluster.idOf(l.file.path) != "" {
		if l.known { // it may lead to another one by now
			return l.shared.openKept(link.OpenSpec{ID: l.handle, Claim: true, Cwd: l.cwd()}, asKept{byHandle, l.claimant()})
		}
		return l.shared.openKept(link.OpenSpec{ID: l.file.id, Claim: true, Cwd: l.cwd()}, asKept{bySelf, l.claimant()})
	}
	log, err := store.OpenLog(l.shared.fs(), l.file.path, l.shared.logOptions())
	if err == nil && log.Header().ID != l.file.id && l.leaving {
		closeFile(log, l.log)
		return nil, nil
	}
	switch {
	case l.leaving && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty)):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, protocol.CodeNotDurable.Errorf("Session file is gone: %s", l.file.path)
	case errors.Is(err, store.ErrEmpty):
		return nil, protocol.CodeNotDurable.Errorf("Session file was emptied by another program: %s", l.file.path)
	case err != nil:
		return nil, openError(l.file.path, err)
	case log.Header().ID != l.file.id:
		closeFile(log, l.log)
		return nil, protocol.CodeNotDurable.Errorf("Session file is another session's now: %s", l.file.path)
	}
	return log, nil
}

// cwd is where the session has worked, or is to.
func (l *loader) cwd() string {
	if l.work != nil {
		return l.work.cwd
	}
	return l.spec.Cwd
}

// workspace makes the session's workspace, unless a crashed predecessor left
// one. A session's file says where it works; who asked for another directory
// gets that.
func (l *loader) workspace(log *store.Log) (*workspace, *protocol.Error) {
	if l.work != nil {
		return l.work, nil
	}
	spec := l.spec
	if log != nil && !spec.CwdSet && filepath.IsAbs(log.Header().Cwd) && log.Header().Cwd != store.ValidCwd(spec.Cwd) {
		spec.Cwd = log.Header().Cwd
	}
	if dir := keptBy(log).dir(); dir != "" {
		spec.Cwd = dir
	}
	if log != nil && !l.spec.CwdSet {
		if op, adopted := log.View().Adopted(); adopted {
			spec.Cwd = op.Cwd
		}
	}
	if keptBy(log).dir() == "" && spec.Child == nil {
		if err := outsideRoots(spec.Allowed, spec.Cwd); err != nil {
			return nil, err
		}
	}
	return newWorkspace(l.shared, spec, l.rules, tools.NewProcs(l.shared.Guard))
}

// outsideRoots refuses a working directory that the client may not name, whoever has written it into the session's log.
func outsideRoots(allowed func(path string) bool, cwd string) *protocol.Error {
	if allowed == nil || allowed(cwd) {
		return nil
	}
	return protocol.CodeForbidden.Errorf("The session works in a directory below none of the daemon's --root directories: %s", cwd)
}

// cwdOf is where a session works on this node, as its log says.
func cwdOf(log *store.Log) string {
	if dir := keptBy(log).dir(); dir != "" {
		return dir
	}
	if op, adopted := log.View().Adopted(); adopted {
		return op.Cwd
	}
	return log.Header().Cwd
}

// OpenSession opens a session file that was named on the command line, so that
// one that cannot be opened is a failure to start.
func OpenSession(shared *Shared, path string) (*store.Log, error) {
	header := store.NewHeader(shared.Default.ID, shared.Default.Cwd, shared.Default.Parent, time.Now().UnixMilli())
	log, err := shared.openPath(path, header, asFile{create: true, elsewhere: shared.Default.CwdSet})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// asFile is how a session file is opened.
type asFile struct {
	create    bool   // one that is not there becomes a new session
	elsewhere bool   // the session is to work in another directory than it says
	handle    string // that is to have it, see [Cluster.claimant]; "" if that is not known yet
	// allowed are the directories that the client may name, see [link.OpenSpec]; nil for all.
	allowed func(path string) bool
}

// openPath opens a session file. An empty file, and with create a missing one,
// becomes a new session with the given header.
func (h *Shared) openPath(path string, header protocol.Header, how asFile) (*store.Log, *protocol.Error) {
	if id := h.Cluster.idOf(path); id != "" {
		return h.openKept(link.OpenSpec{ID: id, Claim: true}, asKept{bySelf, how.handle})
	}
	if h.Cluster != nil {
		return h.takeIn(path, header, how)
	}
	fsys, options := store.HeldTo(h.fs(), how.allowed), h.logOptions()
	if h.onDisk.holders.heldByOther(how.handle, path) {
		return nil, protocol.CodeSessionInUse.Errorf("Session file is in use: %s (by another session of this process)", path)
	}
	log, err := store.OpenLog(fsys, path, options)
	switch {
	case err == nil:
		if err := movedFrom(log); err != nil {
			closeFile(log, h.complaints.log)
			return nil, err
		}
		return log, nil
	case errors.Is(err, store.ErrEmpty) || how.create && errors.Is(err, fs.ErrNotExist):
		h.warnEmpty(path, err)
		return store.NewLog(fsys, path, header, options), nil
	}
	return nil, openError(path, err)
}

// warnEmpty reports a session file that exists and holds no session, for example because another program has emptied it.
func (h *Shared) warnEmpty(path string, err error) {
	if errors.Is(err, store.ErrEmpty) {
		h.complaints.log.Warn().Str("file", path).Msg("the session file is empty: what it held is lost, and a new session starts in it")
	}
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
			SessionID: log.Header().ID, File: log.Path(), Durability: w.logs.durability(log), LeafID: view.Leaf(), ShownLeaf: view.ShownLeaf(),
			Foreign: l.file.foreign.takeOut(&st.Resume, log.Path(), w),
		},
		Resume: st.Resume,
	}
	l.readCutChildren(to.Tasks)
	if l.limits || st.Limits != nil || st.Working || !w.settings.Budget.Limits.None() {
		if to.Spent, err = view.Spent(); err != nil {
			return core.Loaded{}, openError(log.Path(), err)
		}
		for _, op := range to.Tasks {
			if op.Left != nil {
				to.Spent.Used.Spend(*op.Left)
			}
		}
	}
	l.recoverMerges(to.Tasks, w)
	if st.ModelID != "" {
		to.Model = w.modelOf(st.Provider, st.ModelID, l.shared.Models, l.log.With().Str("session", log.Header().ID).Logger())
	}
	if lines := log.Damage().Skipped; lines > 0 {
		l.log.Warn().Str("file", log.Path()).Int("lines", lines).Msg("the session file is damaged: lines that are no entries are left out")
	}
	if torn := log.Damage().TornBytes; torn > 0 {
		l.log.Warn().Str("file", log.Path()).Int64("bytes", torn).
			Msg("the session file ends in the middle of an entry: that entry is lost, and later ones if the file was truncated")
	}
	if to.Foreign {
		l.log.Warn().Str("file", log.Path()).Msg("the session file is in none of the user's session directories: its queued input is left out")
	}
	return to, nil
}

// readCutChildren notes what children have cost that have no end in the log, and so
// were cut off with it.
func (l *loader) readCutChildren(ops []protocol.TaskOp) {
	for i := range ops {
		if op := &ops[i]; cutOff(ops, i) && op.File != "" {
			op.Left = l.spentIn(op.File, 0)
		}
	}
}

// cutOff says whether a child begins with an entry that has no end.
func cutOff(ops []protocol.TaskOp, i int) bool {
	return ops[i].Op == protocol.TaskStart &&
		!slices.ContainsFunc(ops[i:], func(o protocol.TaskOp) bool { return o.Op == protocol.TaskEnd && o.ID == ops[i].ID })
}

// maxChildDepth is how many levels of children are read for what they have cost.
const maxChildDepth = 8

// spentIn is what a file of a child says that it has cost, with its own children that
// were cut off; nil if it cannot be read.
func (l *loader) spentIn(path string, depth int) *protocol.Usage {
	log, err := store.OpenLog(l.shared.fs(), path, store.Options{})
	if err != nil {
		return nil
	}
	defer closeFile(log, l.log)
	stats, err := log.View().Stats(true)
	if err != nil {
		return nil
	}
	spent := usageOf(stats)
	st, err := log.View().State()
	if err != nil || depth == maxChildDepth {
		return &spent
	}
	for i, op := range st.Tasks {
		if !cutOff(st.Tasks, i) {
			continue
		}
		if own := l.spentIn(op.File, depth+1); own != nil {
			spent = spent.Add(*own)
		}
	}
	return &spent
}

// modelOf is the model that a session was led with. One that is not known or has
// no key is the session's all the same: a conversation goes to nobody it was not
// meant for because a file is broken for a moment. Whoever asks for another model
// gets that, and so does a session that the demo model answered. In dialects with ModelFallback
// the default model takes over, unless the configuration cannot be read or an
// extension may still bring the model.
func (w *workspace) modelOf(provider, id string, models Models, warn zerolog.Logger) *protocol.Model {
	catalog, problem := models.Catalog() // which was named when the daemon started
	m := catalog.Find(provider, id)
	if m != nil && catalog.HasKey(provider) {
		return m
	}
	chosen := w.settings.Model
	if chosen != nil && chosen.Provider == provider && chosen.ID == id {
		return nil
	}
	warn = warn.With().Str("model", provider+"/"+id).Logger()
	switch {
	case w.settings.Rules.ModelFallback && problem == nil && len(w.extensions) == 0 && chosen != nil && !chosen.Missing:
		warn.Warn().Str("using", chosen.Provider+"/"+chosen.ID).Msg("the session's model could not be restored: another model is used")
		return nil
	case w.modelAsked || providers.IsDemo(provider):
		warn.Warn().Msg("the session's model is unknown or has no key: another model is used")
		return nil
	case m == nil:
		warn.Warn().Msg("the session's model is unknown: prompts are refused until another model is selected")
		return protocol.MissingModel(provider, id)
	}
	warn.Warn().Msg("the session's model has no key: prompts are refused until it has one or another model is selected")
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
	if path == "" || store.Holds(w.logs.own, path) {
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

// reloaded reads the log again, since the effect at an index of the last step
// could not be written. Where the file is no longer what was read from it, or
// cannot be read, the machine is left with nothing but the session's name, until
// the file is opened again.
func (s *Session) reloaded(undone int, err error) core.Reloaded {
	in := core.Reloaded{Open: s.clients.spans.OpenSpans, Err: err, Undone: undone, Changed: errors.Is(err, store.ErrChanged) || final(err), Unsure: errors.Is(err, cluster.ErrUnknown)}
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
