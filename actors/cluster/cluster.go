// Package cluster is the log of a session that several machines may own, one
// after the other. The log is the fence: who owns a session has written the
// last claim into its log, and every append names the record that it follows,
// so whoever writes behind somebody else's claim is refused by the engine. No
// clock and no lease is needed for that. The package knows no engine.
package cluster

import (
	"context"
	"errors"
)

// Seq is a place in a log, given by the engine. It grows along a session, with
// gaps. 0 is before the first record.
type Seq uint64

// SessionID is the durable id of a session.
type SessionID string

// Kind says what a record is. A reader keeps and skips kinds it does not know.
type Kind string

const (
	Claim   Kind = "claim"   // its node owns the session from here on
	Lines   Kind = "lines"   // entries of the session
	Release Kind = "release" // nobody owns the session
)

// MostLines is how many bytes of lines a record holds at most.
const MostLines = 1 << 20

// Record is one record of a session's log.
type Record struct {
	Seq   Seq    // given by the engine
	Prev  Seq    // the record before it in this session
	Epoch Seq    // the claim it belongs to; 0 in a claim, which has its own Seq for that
	N     uint64 // its number in the epoch, from 1; 0 in a claim
	Kind  Kind
	Node  string   // who wrote it
	Boot  string   // random id of one life of that node's process
	Keys  []string // clientId/id of the commands whose effect it is
	Lines []byte   // entries as they are in the file, LF between; at most MostLines bytes
	Sum   uint64   // CRC-64 (ECMA) of all Lines from the beginning of the log
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
	// ErrReleased: the writer gave its session up. It is final.
	ErrReleased = errors.New("the session was released")
)

// Log is the log of all sessions. It is safe for concurrent use. An error of a
// context means ErrUnknown once Append has begun.
type Log interface {
	// Append puts r behind after if after is the last record of the session.
	// Without an error a majority of the engine's servers has it on disk.
	Append(ctx context.Context, id SessionID, after Seq, r Record) (Seq, error)
	// Tail is the last record, the zero Record if there is none. It may be an
	// old one.
	Tail(ctx context.Context, id SessionID) (Record, error)
	// Read calls f for the records in (after, to], in order. It fails with
	// ErrDamaged where one does not follow the one before.
	Read(ctx context.Context, id SessionID, after, to Seq, f func(Record) error) error
}
