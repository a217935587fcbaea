// Package cluster is the log of a session that several machines may own, one
// after the other. The log is the fence: who owns a session has written the
// last claim into its log, and every append names the record that it follows,
// so whoever writes behind somebody else's claim is refused by the engine. No
// clock and no lease is needed for that. The package knows no engine.
package cluster

import (
	"context"
	"errors"
	"io"
	"strings"
)

// Seq is a place in a log, given by the engine. It grows along a session, with
// gaps. 0 is before the first record.
type Seq uint64

// SessionID is the durable id of a session.
type SessionID string

// Format is the format of records that this version writes, and the highest that it reads.
const Format = 1

// Valid says whether a session's id, or a node's name, is one: engines put them into
// subjects and keys.
func Valid(name string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return name != "" && len(name) <= 64 && strings.TrimLeft(name, letters) == ""
}

// Kind says what a record is. A reader keeps and skips kinds it does not know.
type Kind string

const (
	Claim   Kind = "claim"   // its node owns the session from here on
	Lines   Kind = "lines"   // entries of the session
	Part    Kind = "part"    // the beginning of entries that the next Lines ends, see [Load]
	Note    Kind = "note"    // what the machine keeps beside the entries
	Release Kind = "release" // nobody owns the session
	Trimmed Kind = "trim"    // what was before it may be gone, and is where it says
)

// MostLines is how many bytes of lines a record holds at most, MostEntries how many may be
// appended at once: what is above a record goes in several, see [Load].
const (
	MostLines   = 1 << 20
	MostEntries = 64 << 20
)

// Record is one record of a session's log.
type Record struct {
	Seq   Seq      `json:"-"`     // given by the engine
	Prev  Seq      `json:"prev"`  // the record before it in this session
	Epoch Seq      `json:"epoch"` // the claim it belongs to; 0 in a claim, which has its own Seq for that
	N     uint64   `json:"n"`     // its number in the epoch, from 1; 0 in a claim
	Kind  Kind     `json:"kind"`
	Node  string   `json:"node"`           // who wrote it
	Boot  string   `json:"boot"`           // random id of one life of that node's process
	Keys  []string `json:"keys,omitempty"` // clientId/id of the commands whose effect it is
	Lines []byte   `json:"-"`              // entries as they are in the file, LF between; at most MostLines bytes. Of a Note: its text
	Sum   uint64   `json:"sum"`            // CRC-64 (ECMA) of all Lines from the beginning of the log
}

var (
	// ErrConflict: the record that was to be followed is not the last, or not yet.
	ErrConflict = errors.New("another record is the last of this session")
	// ErrUnknown: the append may have happened, or may happen still.
	ErrUnknown = errors.New("whether the record was taken is not known")
	// ErrUnavailable: the engine did not take the record, and never will from this try.
	ErrUnavailable = errors.New("the log cannot be reached")
	// ErrTooLarge: the record has more than MostLines bytes.
	ErrTooLarge = errors.New("the record is too large")
	// ErrFull: the engine has no room.
	ErrFull = errors.New("the log is full")
	// ErrDamaged: the records do not follow each other.
	ErrDamaged = errors.New("the log is damaged")
	// ErrFenced: somebody else claimed the session. It is final.
	ErrFenced = errors.New("another node owns the session")
	// ErrNewer: the log has a format that only a newer version reads.
	ErrNewer = errors.New("the log was written by a newer version: upgrade this node")
	// ErrSettings: the engine is not set up as troupe needs it.
	ErrSettings = errors.New("the engine is not set up for a cluster")
	// ErrReleased: the writer gave its session up. It is final.
	ErrReleased = errors.New("the session was released")
)

// Log is the log of all sessions. It is safe for concurrent use. Each error is one of
// ErrConflict, ErrUnknown, ErrUnavailable, ErrTooLarge, ErrFull, ErrDamaged or that of the
// context, which means ErrUnknown once Append has begun.
type Log interface {
	// Append puts r behind after if after is the last record of the session.
	// ErrConflict: it is not, or not yet (see [Writer]). ErrUnknown: it may happen still.
	// Without an error a majority of the engine's servers has it on disk.
	Append(ctx context.Context, id SessionID, after Seq, r Record) (Seq, error)
	// Tail is the last record, the zero Record if there is none. It may be an
	// old one, never one of the future.
	Tail(ctx context.Context, id SessionID) (Record, error)
	// Sources are whom a log can be read from, the nearest first: see [Load].
	Sources() []Source
	// Damaged is told of a source that has given what is no log.
	Damaged(id SessionID, source string, err error)
	// List is up to n sessions, in any order, those behind a page; next is "" behind the last.
	List(ctx context.Context, page string, n int) (ids []SessionID, next string, err error)
	// Trim removes the records before a place, where a record of kind Trimmed is. Nodes do
	// not have the right to unless they were given it.
	Trim(ctx context.Context, id SessionID, before Seq) error
}

// Source has a copy of all logs: a server, or who leads.
type Source struct {
	Name   string
	Server bool // it is one server and no other
	Read   Reader
}

// Reader calls f for the records of a session in (after, to], in order, as many as it likes. What it
// has may be old, and have holes. It fails with ErrDamaged for what is no record, with ErrUnavailable where
// nothing can be read, and stops at an error of f, which it returns.
type Reader func(ctx context.Context, id SessionID, after, to Seq, f func(Record) error) error

// Node is what a node says of itself: one life of one daemon. It is for liveness and
// placement only; who owns a session is in the session's log.
type Node struct {
	Name    string            `json:"name"`
	Boot    string            `json:"boot"`
	Addr    string            `json:"addr"`             // where peers reach it; "" of one that has ended
	Labels  map[string]string `json:"labels,omitempty"` // see [Place]
	Roots   map[string]Root   `json:"roots,omitempty"`  // by name
	Version string            `json:"version,omitempty"`
	CA      []string          `json:"ca,omitempty"` // whose certificates it takes; nil of a node that does not say so
	Reads   [2]int            `json:"reads"`        // formats of records, the lowest and the highest
	Writes  [2]int            `json:"writes"`       // likewise
	Beat    uint64            `json:"beat"`         // counts the beats of this life
	Doing
}

// Doing is what a node does at the moment.
type Doing struct {
	Draining bool        `json:"draining,omitempty"`
	Stuck    bool        `json:"stuck,omitempty"`   // it cannot write to its disk: it takes no sessions
	Sessions int         `json:"sessions"`          // that it owns
	Unsaved  []SessionID `json:"unsaved,omitempty"` // sessions whose files it could not save while it drained, until now or at all
}

// Registry is who is there. Its data is for liveness only. It is safe for concurrent use,
// but for Beat, which one goroutine calls.
type Registry interface {
	// Beat says that n lives. Without an error a majority has stored it. ErrFenced: another
	// life of a node of this name has begun behind it.
	Beat(ctx context.Context, n Node) error
	// Node is what is stored of a node now.
	Node(ctx context.Context, name string) (Node, bool, error)
	// Nodes is what was heard of all nodes, by name. It may be late.
	Nodes() []Node
}

// Index has one small text a session, the newest, for lists. It is a hint: the truth is in
// the log.
type Index interface {
	SetIndex(ctx context.Context, id SessionID, text []byte) error
	// Indexed is the texts of those of the sessions that have one.
	Indexed(ctx context.Context, ids []SessionID) (map[SessionID][]byte, error)
}

// Engine is what keeps the logs of a cluster, and knows its nodes.
type Engine interface {
	Log
	Registry
	Index
	io.Closer
	// Status is how the engine is, as far as it can be asked.
	Status(ctx context.Context) (Status, error)
	// Spread asks for the leaders of groups to be on different servers, for who runs it.
	Spread(ctx context.Context) error
}

// Status is how an engine is.
type Status struct {
	Engine string // name and version
	Groups []Group
}

// Group is what is replicated together.
type Group struct {
	Name    string
	Leader  string // "" while there is none
	Others  []Server
	Records uint64
	Bytes   uint64
}

// Server is a member of a group that does not lead it.
type Server struct {
	Name    string
	Current bool
	Lag     uint64 // records; bytes, where the engine counts these
}
