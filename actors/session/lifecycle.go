package session

// state is where a session is in its life:
//
//	opening ──→ live ⇄ stale          a crash leads back to opening,
//	   ↑  │       ↓      │            one too many to failed
//	   │  └──→ parked ←──┘
//	   └─────────┘                    failed, or the end of each: closed
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

// ending is how a session is to end.
type ending struct {
	abort bool // the run does not end first
	deaf  bool // no client can answer a dialog any more
}

// and is how a session ends that is to end once more: as strictly as either wants.
// A nil receiver has not been told to yet.
func (e *ending) and(next ending) *ending {
	if e != nil {
		next.abort, next.deaf = next.abort || e.abort, next.deaf || e.deaf
	}
	return &next
}
