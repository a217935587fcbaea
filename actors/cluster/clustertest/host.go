package clustertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"troupe/actors/cluster"
)

// Host is a node as small as can be: its sessions are lists of commands. What it does with the
// log is what a node does, so the laws are judged of it, in fake time and with real engines.
type Host struct {
	cfg    HostConfig
	member *cluster.Member
	ctx    context.Context // of its life

	mu       sync.Mutex
	sessions map[cluster.SessionID]*hosted
}

// HostConfig is what a host is told.
type HostConfig struct {
	Node   cluster.Node
	Engine cluster.Engine
	Timing cluster.Timing
	Greedy bool // it claims whatever it is asked for, and believes in no lease: safety needs none
	// Relay gives a command to another node.
	Relay func(ctx context.Context, to cluster.Node, c Command) (Answer, error)
	// Effect is done once for each command, after its record is in the log.
	Effect func(Effect)
	Said   func(what string, values ...any) // claims and fences; nil for nobody
}

// Command is what a client asks for.
type Command struct {
	Op      string            `json:"op"` // put or get
	Session cluster.SessionID `json:"session"`
	Key     string            `json:"key"` // client/number; of a get the client with a slash
	Relayed bool              `json:"relayed,omitempty"`
}

// client of a key.
func client(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// Answer is what comes of it.
type Answer struct {
	Err      string      `json:"err,omitempty"` // it is to be asked again
	Seq      cluster.Seq `json:"seq,omitempty"` // of the record that has the effect
	Replayed bool        `json:"replayed,omitempty"`
	Last     string      `json:"last,omitempty"`  // of a get: the last key of the client in the session
	Hidden   bool        `json:"-"`               // no get shows the effect
	Final    bool        `json:"-"`               // of an Err: asking again gets the same, what became of it stays unknown
	Count    int         `json:"count,omitempty"` // of a get: how many commands the session has
}

// Effect is what happened outside.
type Effect struct {
	Session cluster.SessionID `json:"session"`
	Key     string            `json:"key"`
	Epoch   cluster.Seq       `json:"epoch"`
}

// log is how a host writes: cluster.Owned, or what does without any lease.
type log interface {
	Append(ctx context.Context, lines []byte, keys []string) error
	Current(ctx context.Context) error
	Done(key string) cluster.Seq
	Mark() cluster.Mark
	Epoch() cluster.Seq
	Drop()
}

// hosted is a session; its turn is held by who works on it.
type hosted struct {
	turn chan struct{}
	log  log // nil while the session is not ours
	keys []string
}

// NewHost is a node that has not begun: see Run.
func NewHost(ctx context.Context, cfg HostConfig) *Host {
	h := &Host{cfg: cfg, ctx: ctx, sessions: map[cluster.SessionID]*hosted{}}
	h.member = cluster.Join(cluster.MemberConfig{Self: cfg.Node, Log: cfg.Engine, Registry: cfg.Engine, Timing: cfg.Timing, Said: cfg.Said})
	return h
}

// Run gives signs of life until the host's life ends, or another of its name begins.
func (h *Host) Run() error { return h.member.Run(h.ctx) }

var errNotHere = errors.New("the session is not here any more")

// Do does what a client asks for, here or where the session is.
func (h *Host) Do(ctx context.Context, c Command) Answer {
	for {
		a, err := h.try(ctx, c)
		if err == nil {
			return a
		}
		if !errors.Is(err, errNotHere) || c.Relayed || ctx.Err() != nil {
			return Answer{Err: err.Error()}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		case <-h.ctx.Done():
			return Answer{Err: "over"}
		}
	}
}

func (h *Host) try(ctx context.Context, c Command) (Answer, error) {
	h.mu.Lock()
	s := h.sessions[c.Session]
	if s == nil {
		s = &hosted{turn: make(chan struct{}, 1)}
		h.sessions[c.Session] = s
	}
	h.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	if s.log == nil {
		there, err := h.find(ctx, c.Session)
		switch {
		case err != nil:
			<-s.turn
			return Answer{}, err
		case there.Name != h.cfg.Node.Name && !h.cfg.Greedy:
			<-s.turn
			if c.Relayed {
				return Answer{}, errNotHere
			}
			c.Relayed = true
			a, err := h.cfg.Relay(ctx, there, c)
			if err == nil && a.Err == errNotHere.Error() {
				err = errNotHere
			}
			return a, err
		}
		if err := h.claim(ctx, c.Session, s); err != nil {
			<-s.turn
			var elsewhere *cluster.ElsewhereError
			if errors.As(err, &elsewhere) {
				err = errNotHere
			}
			return Answer{}, err
		}
	}
	// What has begun goes on though its client may be gone.
	done := make(chan struct{})
	var a Answer
	var err error
	go func() {
		defer close(done)
		defer func() { <-s.turn }()
		a, err = h.work(s, c)
	}()
	select {
	case <-done:
		return a, err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// find is where a session is, or belongs.
func (h *Host) find(ctx context.Context, id cluster.SessionID) (cluster.Node, error) {
	if h.cfg.Greedy {
		return h.cfg.Node, nil
	}
	n, err := h.member.Where(ctx, id)
	if errors.Is(err, cluster.ErrNoSession) {
		return h.member.Place(id, cluster.Wants{})
	}
	return n, err
}

func (h *Host) claim(ctx context.Context, id cluster.SessionID, s *hosted) error {
	s.keys = nil
	note := func(lines []byte) error {
		for line := range bytes.Lines(lines) {
			s.keys = append(s.keys, strings.TrimSuffix(string(line), "\n"))
		}
		return nil
	}
	if h.cfg.Greedy {
		g, err := own(ctx, h.cfg, id, note)
		if err == nil {
			s.log = g
		}
		return err
	}
	o, err := h.member.Claim(ctx, id, cluster.Wants{}, cluster.Mark{})
	if err != nil {
		return err
	}
	if _, err := o.Load(ctx, cluster.Mark{}, cluster.Keys{}, note); err != nil {
		o.Drop()
		return err
	}
	s.log = o
	return nil
}

// work is a command on a session that is ours.
func (h *Host) work(s *hosted, c Command) (Answer, error) {
	l := s.log
	lost := func(err error) (Answer, error) {
		l.Drop()
		s.log = nil
		if errors.Is(err, cluster.ErrFenced) {
			err = errNotHere
		}
		return Answer{}, err
	}
	if c.Op == "get" {
		if err := l.Current(context.Background()); err != nil {
			return lost(err)
		}
		a := Answer{Count: len(s.keys)}
		for _, key := range s.keys {
			if strings.HasPrefix(key, c.Key) {
				a.Last = key
			}
		}
		return a, nil
	}
	if seq := l.Done(c.Key); seq > 0 {
		return Answer{Seq: seq, Replayed: true}, nil
	}
	if err := l.Append(context.Background(), []byte(c.Key+"\n"), []string{c.Key}); err != nil {
		return lost(err)
	}
	s.keys = append(s.keys, c.Key)
	if h.ctx.Err() != nil {
		return Answer{}, h.ctx.Err()
	}
	h.cfg.Effect(Effect{c.Session, c.Key, l.Epoch()})
	return Answer{Seq: l.Mark().Seq}, nil
}

// greedy writes behind a claim that it made without asking who lives.
type greedy struct {
	*cluster.Writer
	before cluster.Keys // of what was there when it claimed
}

func own(ctx context.Context, cfg HostConfig, id cluster.SessionID, f func([]byte) error) (*greedy, error) {
	w, err := Own(ctx, cfg.Engine, id, cfg.Node.Name, cfg.Node.Boot, cluster.Mark{})
	if err != nil {
		if errors.Is(err, cluster.ErrFenced) {
			err = errNotHere
		}
		return nil, err
	}
	g := &greedy{Writer: w}
	_, err = cluster.Follow(ctx, cfg.Engine, id, cluster.Mark{}, &g.before, w.Epoch(), f)
	return g, err
}

func (g *greedy) Append(ctx context.Context, lines []byte, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.DefaultPatience)
	defer cancel()
	_, err := g.Writer.Append(ctx, lines, keys)
	return err
}
func (g *greedy) Current(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.DefaultPatience)
	defer cancel()
	_, err := g.Note(ctx, nil, nil)
	return err
}
func (g *greedy) Done(key string) cluster.Seq {
	if seq := g.Writer.Done(key); seq > 0 {
		return seq
	}
	return g.before.Find(key)
}
func (g *greedy) Drop() {}

// ReadEffects is what a file of effects holds, one a line. The last may be cut: its host was killed.
func ReadEffects(text []byte) (effects []Effect) {
	for line := range bytes.Lines(text) {
		var e Effect
		if json.Unmarshal(line, &e) == nil {
			effects = append(effects, e)
		}
	}
	return effects
}
