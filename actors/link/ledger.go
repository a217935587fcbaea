package link

import (
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
)

// Bounds of what is remembered of the commands of a client.
const (
	ledgerAnswers = 512
	ledgerBytes   = 1 << 20
	ledgerOne     = 64 << 10         // the data of larger answers are not kept
	ledgerAfter   = 10 * time.Minute // past the end of the client's last connection
	ledgerClients = 1024
)

// Ledgers has one [Ledger] for each client of the process that has named itself.
type Ledgers struct {
	mu   sync.Mutex // guards what follows
	byID map[string]*Ledger
}

// Ledger is what is known of the commands of one client, over its connections: which are
// under way and what others were answered. A command that comes again, because the client
// has not read the answer before its connection broke, does nothing twice.
//
// It is shared by the client's connections and the sessions that answer, each on its own
// goroutine: mu guards it.
type Ledger struct {
	mu      sync.Mutex
	newest  Client // of the connections
	conns   int
	single  *actor.PID // the one that is the only one of its kind; nil for none
	left    time.Time  // when the last of them went
	entries map[string]*ledgerEntry
	order   []string // ids of entries that were answered, oldest first
	bytes   int      // of answers
}

type ledgerEntry struct {
	sum    uint64 // of the line
	answer *protocol.Response
	tag    string
	bytes  int
}

// Of is the ledger of a client that has come by a connection. Of those that are single there
// is one: older is whose place it takes, nil for nobody's.
func (l *Ledgers) Of(id string, by Client, single *actor.PID) (of *Ledger, older *actor.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*Ledger{}
	}
	l.expire()
	of = l.byID[id]
	if of == nil {
		l.makeRoom()
		of = &Ledger{entries: map[string]*ledgerEntry{}}
		l.byID[id] = of
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.conns++
	of.newest = by
	of.newest.Who = nil // what is sent there has been noted
	if single != nil && !single.Equal(of.single) {
		older, of.single = of.single, single
	}
	return of, older
}

// expire forgets clients that have been disconnected for longer than ledgerAfter.
func (l *Ledgers) expire() {
	for id, of := range l.byID {
		if left, away := of.away(); away && time.Since(left) > ledgerAfter {
			delete(l.byID, id)
		}
	}
}

// makeRoom forgets the client that has been disconnected longest if there is no room for another one.
// It is not called for a client that reconnects, which needs no room.
func (l *Ledgers) makeRoom() {
	if len(l.byID) < ledgerClients {
		return
	}
	longest, since := "", time.Time{}
	for id, of := range l.byID {
		if left, away := of.away(); away && (longest == "" || left.Before(since)) {
			longest, since = id, left
		}
	}
	delete(l.byID, longest)
}

// away reports whether a client is disconnected, and since when.
func (l *Ledger) away() (since time.Time, away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left, l.conns == 0
}

// Leave says that a connection of the client has ended.
func (l *Ledger) Leave(router, single *actor.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns--
	l.left = time.Now()
	if r := l.newest.Router; r != nil && r.Equal(router) { // nil: the newest has left before this one
		l.newest = Client{}
	}
	if l.single != nil && l.single.Equal(single) {
		l.single = nil
	}
}

// What a ledger says of a command.
type Seen uint8

const (
	Fresh    Seen = iota // it is to be carried out
	UnderWay             // it is being carried out: the answer goes to the newest connection
	Answered             // it was
	Reused               // another command had its id
)

// Begin notes a command: its id, and a fingerprint of its line. With Answered comes the
// answer, and the tag it had.
func (l *Ledger) Begin(id string, sum uint64) (seen Seen, answer *protocol.Response, tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	switch {
	case e == nil:
		l.entries[id] = &ledgerEntry{sum: sum}
		return Fresh, nil, ""
	case e.sum != sum:
		return Reused, nil, ""
	case e.answer == nil:
		return UnderWay, nil, ""
	}
	again := *e.answer
	again.Replayed, again.At, again.Rewinds = true, 0, false
	return Answered, &again, e.tag
}

// Drop forgets a command that is under way: another node answers it.
func (l *Ledger) Drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[id]; e != nil && e.answer == nil {
		delete(l.entries, id)
	}
}

// decides reports whether a repeated command gets this answer. If not, the repeated command is executed.
func decides(r *protocol.Response) bool {
	switch {
	case r.Err == nil:
		return true
	case r.Err.OutcomeIsUnknown():
		return !r.Err.Undecided
	}
	return !undone[r.Err.Code]
}

// undone are the codes of answers to commands that did nothing, and may do it later.
var undone = map[protocol.Code]bool{
	protocol.CodeUnknownSession: true, protocol.CodeMissingSessionID: true, protocol.CodeSessionClosing: true,
	protocol.CodeOverloaded: true, protocol.CodeInternal: true,
	// Of a cluster: what the log has of the command is not done twice.
	protocol.CodeSessionUnavailable: true, protocol.CodeNotHere: true, protocol.CodeNodeLost: true, protocol.CodeNowhere: true,
	protocol.CodeUpgradeNeeded: true, protocol.CodeSessionDamaged: true,
}

// done notes an answer that goes to a client, and returns who is to have it instead; the
// zero value for nobody else.
func (l *Ledger) done(r *protocol.Response, to Client) Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[string(r.ID)]
	if e == nil || e.answer != nil {
		return Client{}
	}
	size := responseSize(r)
	if !decides(r) {
		delete(l.entries, string(r.ID))
	} else {
		if size > ledgerOne { // a repeated command is confirmed without data
			r = &protocol.Response{ID: r.ID, Command: r.Command, SessionID: r.SessionID}
			size = responseSize(r)
		}
		e.answer, e.tag, e.bytes = r, to.Tag, size
		l.order = append(l.order, string(r.ID))
		l.bytes += e.bytes
		l.trim()
	}
	if !l.newest.Known() || l.newest.Writer.Equal(to.Writer) {
		return Client{}
	}
	instead := l.newest
	instead.Tag = to.Tag
	return instead
}

// trim forgets the oldest answers that are too many. What is under way stays.
func (l *Ledger) trim() {
	drop := 0
	for ; len(l.order)-drop > ledgerAnswers || l.bytes > ledgerBytes; drop++ {
		id := l.order[drop]
		l.bytes -= l.entries[id].bytes
		delete(l.entries, id)
	}
	l.order = slices.Delete(l.order, 0, drop)
}
