package session

import (
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/core"
	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
)

// durable is what a session keeps when its actor crashes and is restarted. It
// belongs to the actor's props and is touched on the actor's goroutine only.
type durable struct {
	kernel  *kernel.Kernel
	shared  *Shared
	log     zerolog.Logger
	handle  string
	spec    link.OpenSpec
	rules   protocol.Rules
	life    lifecycle
	clients clients
	file    logFile
	last    lastMachine
	work    *workspace       // settings, resources, tools; nil before the log is open
	shrunk  *worker.Shrinker // images made fit for models
}

// state is where a session is in its life. A crash leads back to opening, one too
// many to failed, and the end from anywhere to closed.
//
//	opening ──→ live ──→ stale
//	 ↑   │      ↑  ↓       │
//	 │   └──→  parked ←────┘
//	 └───────────┘
type state uint8

const (
	opening state = iota // its log is being opened: what comes waits
	live                 // its machine runs
	stale                // likewise, but its file is no longer what was read from it: it is parked as soon as nothing goes on
	parked               // nothing goes on, and what can be made again was given back; the next command has its file looked at
	failed               // it was given up
	closed               // it has ended
)

// over says that nothing reaches the actor any more.
func (s state) over() bool { return s >= failed }

// lifecycle is where a session is in its life, and how that goes on.
type lifecycle struct {
	state   state
	end     *ending         // how the session is to end; nil while nobody wants it to
	crashes []time.Time     // those that count
	refusal *protocol.Error // why it was given up or could not be opened; nil for neither
	turn    turn            // of the message that is handled; used in a cluster only
	moved   bool            // it has ended here, and goes on on another node
	ids     string          // what the ids of its dialogs have, as of [Shared.newLife]
	goesOn  bool            // it was to be retained, the process ends, and another one takes it up: see [link.Leave]
}

// moves says that the session is being given to another node, which is to have what comes now.
func (l *lifecycle) moves() bool {
	return l.end != nil && l.end.moves && len(l.end.asked) == 0
}

// ending is how a session is to end.
type ending struct {
	abort  bool     // the run does not end first
	deaf   bool     // no client can answer a dialog any more
	final  bool     // the process ends
	goesOn bool     // another one may go on with the session
	moves  bool     // another node is to have it
	quit   bool     // an extension wants it: a connection that has no other session ends with it
	asked  []uint64 // the close_session commands to answer then
}

// endAs notes how the session is to end; if it is to end already, as strictly as
// either wants.
func (l *lifecycle) endAs(e ending) {
	if was := l.end; was != nil {
		e = ending{
			abort: e.abort || was.abort, deaf: e.deaf || was.deaf, final: e.final || was.final, goesOn: e.goesOn || was.goesOn, moves: e.moves || was.moves, quit: e.quit || was.quit, asked: append(was.asked, e.asked...),
		}
	}
	l.end = &e
}

// crashed notes a crash, and says whether the session is restarted once more.
func (l *lifecycle) crashed(now time.Time) bool {
	l.crashes = append(l.crashes, now)
	for now.Sub(l.crashes[0]) > RestartWindow {
		l.crashes = l.crashes[1:]
	}
	return len(l.crashes) <= MaxRestarts
}

// lastMachine is what the next machine takes over from the last one, beside the
// log.
type lastMachine struct {
	carryover *core.Carryover // nil before the first machine
	nameplate core.Loaded     // of the machine that crashed
}

// ran says that the session has had a machine.
func (l *lastMachine) ran() bool { return l.carryover != nil }

// limited says that a client has limited what the session may use up.
func (l *lastMachine) limited() bool { return l.carryover != nil && l.carryover.Limited() }

func (l *lastMachine) keep(m *core.Machine) {
	if l.carryover == nil {
		l.carryover = new(core.Carryover)
	}
	*l.carryover = m.Carryover()
}
