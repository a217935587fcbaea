package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrInUse: the session is owned by this life of this node already.
var ErrInUse = errors.New("the session is open on this node")

// ElsewhereError says that another node owns the session, and lives.
type ElsewhereError struct{ Node string }

func (e *ElsewhereError) Error() string { return "the session is on node " + e.Node }

// ParkedError says that the session is parked on a node that lives, which may be this one, under another handle than
// the one it is claimed for.
type ParkedError struct{ Node, Handle string }

func (e *ParkedError) Error() string {
	return fmt.Sprintf("the session is parked on node %s as %s", e.Node, e.Handle)
}

// MemberConfig is what a member is told at the start.
type MemberConfig struct {
	Self     Node // Name, Boot, and what others are to know of it
	Log      Log
	Registry Registry
	Timing   Timing                      // the zero value is [Stock]
	Patience time.Duration               // how long an append may be in doubt, 0 for [DefaultPatience]
	Said     func(what string, e ...any) // claims, fences, releases: keys and values for a log; may be nil
	Metrics  *Metrics                    // counts them, too; may be nil
}

// DefaultPatience is longer than an engine takes to find another leader.
const DefaultPatience = 20 * time.Second

// Member is one life of this node in its cluster: it gives signs of life, knows who else does,
// finds the owners of sessions and claims those that nobody has. It is safe for concurrent use.
type Member struct {
	cfg   MemberConfig
	begun time.Time

	onDeath atomic.Pointer[func(name string)]

	mu    sync.Mutex // guards what follows, and whether this node is draining
	beats *Beats
	owned map[SessionID]*Owned // nil while it is being claimed
	wants map[SessionID]Wants
}

// mostWants is for how many sessions a member remembers what they want.
const mostWants = 10_000

// Join is a member that has not given a sign of life yet: see [Member.Run].
func Join(cfg MemberConfig) *Member {
	cfg.Timing = cmp.Or(cfg.Timing, Stock)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	return &Member{
		cfg: cfg, begun: time.Now(), beats: NewBeats(cfg.Timing),
		owned: map[SessionID]*Owned{}, wants: map[SessionID]Wants{},
	}
}

// Self is the name of this node.
func (m *Member) Self() string { return m.cfg.Self.Name }

// Has says whether this node has a session, or claims it.
func (m *Member) Has(id SessionID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, has := m.owned[id]
	return has
}

// Root is a root of this node; the zero value if it has none of that name.
func (m *Member) Root(name string) Root { return m.cfg.Self.Roots[name] }

// Run gives signs of life until ctx ends. It fails with ErrFenced when another life of this
// node has begun: nothing of this one may go on.
func (m *Member) Run(ctx context.Context) error {
	for {
		for _, e := range append(m.listen(), Tick{}) {
			if err := m.handle(ctx, e); err != nil {
				return err
			}
		}
		m.mu.Lock()
		wait := min(m.beats.Next()-m.now(), m.cfg.Timing.Every/5)
		m.mu.Unlock()
		if pause(ctx, wait) != nil {
			return nil
		}
	}
}

// wake has sessions make sure that they are still this node's: its lease has lapsed.
func (m *Member) wake() {
	m.mu.Lock()
	var all []func()
	for _, o := range m.owned {
		if o != nil && o.wake != nil {
			all = append(all, o.wake)
		}
	}
	m.mu.Unlock()
	for _, wake := range all {
		wake()
	}
}

func (m *Member) now() time.Duration { return time.Since(m.begun) }

// handle does what an event asks for, and what that brings.
func (m *Member) handle(ctx context.Context, event any) error {
	for events := []any{event}; len(events) > 0; events = events[1:] {
		m.mu.Lock()
		effects := m.beats.Step(events[0], m.now())
		m.mu.Unlock()
		for _, e := range effects {
			next, err := m.perform(ctx, e)
			if err != nil {
				return err
			}
			events = append(events, next)
		}
	}
	return nil
}

// perform does what beats want, and returns what comes of it; nil for nothing.
func (m *Member) perform(ctx context.Context, effect any) (event any, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	switch e := effect.(type) {
	case Store:
		begun := time.Now()
		err := m.cfg.Registry.Beat(ctx, m.self(e.Beat))
		switch {
		case errors.Is(err, ErrFenced):
			return nil, err
		case err != nil:
			return Failed(e), nil
		}
		m.cfg.Metrics.Took("troupe_cluster_beat_seconds", time.Since(begun))
		return Stored(e), nil
	case Look:
		n, _, err := m.cfg.Registry.Node(ctx, e.Name) // one that has never given a sign of life has no lease either
		return Looked{e, n, err == nil}, nil
	case Regained:
		m.wake()
	case Dead:
		m.tell(e.Name)
	}
	return nil, nil
}

// self is what this node says of itself.
func (m *Member) self(beat uint64) Node {
	n := m.seen(m.cfg.Self.Name).Node
	n.Beat = beat
	return n
}

// listen is what was heard of others since it was asked last.
func (m *Member) listen() (events []any) {
	nodes := m.cfg.Registry.Nodes()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range nodes {
		if n.Name == m.cfg.Self.Name || !m.beats.news(n) {
			continue
		}
		events = append(events, Heard{n})
		if !m.beats.lives(n.Name) { // from now on its silence is noticed
			events = append(events, Watch{n.Name})
		}
	}
	return events
}

// tell tells the rest of this node that another is dead, once for each time it falls silent.
func (m *Member) tell(name string) {
	m.mu.Lock()
	o := m.beats.of(name)
	again := o.dead
	o.dead = true
	m.mu.Unlock()
	if told := m.onDeath.Load(); told != nil && !again {
		(*told)(name)
	}
}

// OnDeath has f told when a node is found to be dead.
func (m *Member) OnDeath(f func(name string)) { m.onDeath.Store(&f) }

// Lease is the number of the lease that this node has; false without one.
func (m *Member) Lease() (number uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.beats.Lease(m.now())
}

// Drain says that this node takes no session any more: others know when it returns, if the engine has
// taken that. Of its signs of life this is none.
func (m *Member) Drain() {
	m.Says(func(n *Node) { n.Draining = true })
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	_ = m.cfg.Registry.Beat(ctx, m.self(m.sent())) // else the next beat says so
}

// Says changes what this node says of itself from its next sign of life on. What others have been given of it may not be
// changed in place.
func (m *Member) Says(change func(*Node)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.cfg.Self)
}

// Drains notes that a node has said that it takes no sessions any more.
func (m *Member) Drains(n Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.beats.of(n.Name)
	o.Draining = o.Draining || o.Boot == n.Boot
}

// Place is the node that a session belongs to which nobody owns.
func (m *Member) Place(id SessionID, w Wants) (Node, error) { return Place(id, w, m.Seen()) }

// Where is the node that lines for a session go to now, or for the one to which its handle leads: its owner, or if that is
// dead or there is none the node that it belongs to, which claims it.
func (m *Member) Where(ctx context.Context, id SessionID) (Node, error) {
	tail, err := m.cfg.Log.Tail(ctx, id)
	if lead := tail.Lead(); lead != nil && err == nil {
		id = lead.To
		tail, err = m.cfg.Log.Tail(ctx, id)
	}
	switch {
	case err != nil:
		return Node{}, err
	case tail.Seq == 0:
		return Node{}, fmt.Errorf("%w: %s", ErrNoSession, id)
	case tail.Kind != Release && (tail.Node == m.cfg.Self.Name || !m.dead(ctx, tail.Node)):
		return m.seen(tail.Node).Node, nil
	}
	w, err := m.Wanted(ctx, id, tail)
	if err != nil {
		return Node{}, err
	}
	if heir, _ := m.heir(tail, w); heir != "" {
		return m.seen(heir).Node, nil
	}
	if m.rests(tail) != "" && m.Take(tail.Node, w) == nil { // its clients are there
		return m.seen(tail.Node).Node, nil
	}
	n, err := m.Place(id, w)
	if last := m.seen(w.Node); err != nil && w.Node != "" && !last.Lives {
		err = &LostError{w.Node, last.When}
	}
	return n, err
}

// LostError says that a session's directory is on a node that does not answer, and on no other.
type LostError struct {
	Node  string
	Since time.Time // zero if it was never heard of
}

func (e *LostError) Error() string {
	return "the directory of the session is on " + e.Node + ", which does not answer"
}

// Unwrap: no node can take the session.
func (e *LostError) Unwrap() error { return ErrNowhere }

// Seen is all nodes of which anything was heard, and this one, by name.
func (m *Member) Seen() []Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	self := m.cfg.Self
	self.Sessions = len(m.owned)
	all := []Seen{{self, time.Now(), true, false}}
	for name, o := range m.beats.others {
		if o.Name != "" {
			all = append(all, Seen{o.Node, m.begun.Add(o.when), m.beats.lives(name), m.beats.late(name)})
		}
	}
	slices.SortFunc(all, func(a, b Seen) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// seen is one of them, with its name alone if nothing was heard of it.
func (m *Member) seen(name string) Seen {
	all := m.Seen()
	if i := slices.IndexFunc(all, func(n Seen) bool { return n.Name == name }); i >= 0 {
		return all[i]
	}
	return Seen{Node: Node{Name: name}, Late: true}
}

// States is how many sessions this node has, by what it may do with them: owner, doubtful (something that is
// appended is in doubt), claiming.
func (m *Member) States() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]int{"owner": 0, "doubtful": 0, "claiming": 0}
	for _, o := range m.owned {
		switch {
		case o == nil:
			states["claiming"]++
		case o.doubtful.Load():
			states["doubtful"]++
		default:
			states["owner"]++
		}
	}
	return states
}

// heir is the node that a session was given to, or given back to, and that can have it; "" if it belongs where its wants say.
func (m *Member) heir(tail Record, w Wants) (name string, back bool) {
	if of := tail.about(); of.To != "" && m.Take(of.To, w) == nil {
		return of.To, of.Back
	}
	return "", false
}

// rests returns the handle under which the session of a tail is parked on a node that lives; "" for none.
func (m *Member) rests(tail Record) string {
	if tail.Kind != Release {
		return ""
	}
	if n := m.seen(tail.Node); n.Boot != tail.Boot || !n.Lives || n.Draining {
		return ""
	}
	return tail.about().Rests
}

// Leave says in the log that a session that this node keeps parked under a handle is closed. It does nothing if another
// node has claimed the session since.
func (m *Member) Leave(ctx context.Context, id SessionID, handle string) error {
	tail, err := m.cfg.Log.Tail(ctx, id)
	if err != nil || tail.Kind != Release || tail.Node != m.cfg.Self.Name || tail.Boot != m.cfg.Self.Boot || tail.about().Rests != handle {
		return err
	}
	o, err := m.ClaimFor(ctx, id, handle, Wants{}, Mark{})
	if err != nil {
		return err
	}
	o.Rests = ""
	return o.Release(ctx)
}

// Take says why a node cannot have a session that wants something, nil if it can.
func (m *Member) Take(node string, w Wants) error {
	if lacks := w.lacks(m.seen(node)); lacks != "" {
		return fmt.Errorf("%w: %s", ErrNowhere, lacks)
	}
	return nil
}

// dead says whether a node may be taken for dead by who has read a tail before.
func (m *Member) dead(ctx context.Context, name string) bool {
	m.mu.Lock()
	wanted := m.beats.Wanted(name) + 1 // whoever says so as the next does it behind that tail
	m.mu.Unlock()
	if m.handle(ctx, Watch{name}) != nil {
		return false
	}
	for begun := time.Now(); ; { // the look that answers may be somebody else's
		m.mu.Lock()
		told, late := m.beats.of(name).told >= wanted, m.beats.late(name)
		m.mu.Unlock()
		if told || !late || time.Since(begun) > m.cfg.Timing.Every || pause(ctx, firstPause) != nil {
			return told
		}
	}
}

var errEnough = errors.New("enough was read")

// Wanted returns the requirements of a session on its node, which are in its first record. A directory that
// exists on one node only is on the last node that had the session: see [Member.Adopt].
func (m *Member) Wanted(ctx context.Context, id SessionID, tail Record) (w Wants, err error) {
	m.mu.Lock()
	w, known := m.wants[id]
	m.mu.Unlock()
	if !known {
		var first about
		_, err = Load(ctx, m.cfg.Log, id, Mark{}, tail.Seq, func(r Record) error {
			if r.Kind == Claim && len(r.Lines) > 0 {
				err = json.Unmarshal(r.Lines, &first)
			}
			return cmp.Or(err, errEnough)
		})
		if !errors.Is(err, errEnough) {
			return w, err
		}
		w = first.Wants
		m.mu.Lock()
		if len(m.wants) >= mostWants {
			clear(m.wants)
		}
		m.wants[id] = w
		m.mu.Unlock()
	}
	if w.Node != "" {
		w.Node = tail.Node
		if lead := tail.Lead(); lead != nil {
			w.Node = lead.Node
		}
	}
	return w, nil
}

// Claim makes this node the owner of a session. known is what a copy of the log says of it,
// w what the session wants if it is new. It fails with [ElsewhereError] if the owner lives,
// with ErrInUse if it is this life of this node, with ErrNowhere if the session cannot be
// on this node, with [ParkedError], with ErrDamaged, and with the error of the engine or of ctx.
func (m *Member) Claim(ctx context.Context, id SessionID, w Wants, known Mark) (*Owned, error) {
	return m.ClaimFor(ctx, id, "", w, known)
}

// ClaimFor is Claim for a handle. A session that is parked under that handle, on whichever node, can be claimed.
func (m *Member) ClaimFor(ctx context.Context, id SessionID, handle string, w Wants, known Mark) (*Owned, error) {
	return m.take(ctx, id, claimant{wants: w, known: known, handle: handle})
}

// claimant is on whose behalf a session is claimed.
type claimant struct {
	wants  Wants  // of a new session
	known  Mark   // see [Member.Claim]
	handle string // see [Member.ClaimFor]
	adopts bool   // see [Member.Adopt]
}

// ErrAnywhere: the session needs no adoption.
var ErrAnywhere = errors.New("its directory is not on one node only")

// Adopt makes this node the owner of a session whose directory is on another one, that does not have it open.
// From then on its directory is here. It fails as [Member.Claim] does, with ErrNoSession if there is none, and with
// ErrAnywhere if other nodes can have the session without that.
func (m *Member) Adopt(ctx context.Context, id SessionID, known Mark) (*Owned, error) {
	return m.take(ctx, id, claimant{known: known, adopts: true})
}

func (m *Member) take(ctx context.Context, id SessionID, by claimant) (*Owned, error) {
	m.mu.Lock()
	if _, taken := m.owned[id]; taken {
		m.mu.Unlock()
		return nil, ErrInUse
	}
	m.owned[id] = nil
	m.mu.Unlock()
	o, err := m.claim(ctx, id, by)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.owned, id)
		return nil, err
	}
	m.owned[id] = o
	return o, nil
}

func (m *Member) claim(ctx context.Context, id SessionID, by claimant) (*Owned, error) {
	w := by.wants
	seen, sent := Seq(0), uint64(0) // a tail, and how many beats this node had sent when it was seen first
	for {
		tail, err := TailBehind(ctx, m.cfg.Log, id, by.known)
		if err != nil {
			return nil, err
		}
		wants, why := Wants{}, "new"
		if handle := m.rests(tail); handle != "" && handle != by.handle {
			return nil, &ParkedError{tail.Node, handle}
		}
		if tail.Seq == 0 && by.adopts {
			err = fmt.Errorf("%w: %s", ErrNoSession, id)
		} else if tail.Seq == 0 {
			if m.Root(w.Root).Mode == Pinned { // it has its directory here from now on
				w.Node = m.cfg.Self.Name
			}
			wants = w
		} else if w, err = m.Wanted(ctx, id, tail); err == nil {
			if tail.Seq != seen {
				seen, sent = tail.Seq, m.sent()
			}
			why, err = m.mayClaim(ctx, tail, sent)
		}
		if err != nil {
			return nil, err
		}
		if why == "" { // its owner is silent, and not dead yet
			if pause(ctx, m.cfg.Timing.Every/4) == nil {
				continue
			}
			if tail.Node == m.cfg.Self.Name {
				return nil, ctx.Err()
			}
			return nil, &ElsewhereError{tail.Node}
		}
		if by.adopts && w.Node == "" {
			return nil, ErrAnywhere
		} else if by.adopts {
			w.Node = m.cfg.Self.Name
		}
		self := Seen{Node: m.self(0), Lives: true}
		self.Draining, self.Stuck = false, false // who is asked to take it knows that
		heir, back := m.heir(tail, w)
		if heir != "" && heir != m.cfg.Self.Name {
			return nil, &ElsewhereError{heir}
		}
		if lacks := w.lacks(self); lacks != "" && tail.Lead() == nil { // else it is another one that is to be here
			return nil, fmt.Errorf("%w: %s", ErrNowhere, lacks)
		}
		lease, _ := m.Lease()
		writer, err := Own(ctx, m.cfg.Log, id, m.cfg.Self.Name, m.cfg.Self.Boot, tail, wants)
		if errors.Is(err, ErrFenced) { // somebody was faster, or the tail was an old one
			continue
		} else if err != nil {
			return nil, err
		}
		o := &Owned{Writer: writer, member: m, lease: lease, Why: why, From: tail.Node, Given: heir != "" && !back, Wants: w, Lead: tail.Lead()}
		if tail.Node == m.cfg.Self.Name { // if it cannot be opened after all it stays parked
			o.Rests = m.rests(tail)
		}
		m.cfg.Metrics.Count(fmt.Sprintf("troupe_cluster_claims_total{why=%q}", why), 1)
		m.said("session claimed", "session", id, "epoch", writer.Epoch(), "why", why, "from", o.From)
		return o, nil
	}
}

// sent is how many beats this node has sent.
func (m *Member) sent() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.beats.tries
}

// mayClaim says why this node may claim behind a tail; "" if it has to wait for that.
func (m *Member) mayClaim(ctx context.Context, tail Record, sent uint64) (why string, err error) {
	switch {
	case tail.Kind == Release:
		return "release", nil
	case tail.Node == m.cfg.Self.Name && (tail.Boot == m.cfg.Self.Boot || m.youngest(sent)):
		return "boot", nil // of this life nothing goes on: see Claim
	case tail.Node != m.cfg.Self.Name && m.dead(ctx, tail.Node):
		return "dead", nil
	case tail.Node == m.cfg.Self.Name, m.seen(tail.Node).Late:
		return "", nil
	}
	return "", &ElsewhereError{tail.Node}
}

// youngest says whether this life of the node has begun behind the one that had a session, and no lease of that one
// lasts. Of two lives the younger stores the last beat, and no beat of the elder is taken behind its first. So a
// beat of this one that was sent behind the tail says that it is the younger, and Miss of them last as long
// as any lease.
func (m *Member) youngest(sent uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.beats.last > sent && m.beats.stored >= uint64(m.cfg.Timing.Miss)
}

func (m *Member) said(what string, values ...any) {
	if m.cfg.Said != nil {
		m.cfg.Said(what, values...)
	}
}
