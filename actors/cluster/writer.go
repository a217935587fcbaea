package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	oneTry      = 500 * time.Millisecond // how long one append may be without an answer
	firstPause  = 5 * time.Millisecond   // before the first repeat; doubles
	longestWait = 200 * time.Millisecond
)

// oldTail is how long a tail may be behind what is known before the log is damaged.
const oldTail = 2 * time.Second

// Writer appends to the log of one session for the node that claimed it. It is
// not safe for concurrent use.
type Writer struct {
	log   Log
	id    SessionID
	at    Mark
	since time.Time             // when it claimed the session
	final error                 // why nothing can be appended any more
	doubt func(since time.Time) // see [Owned.Doubted]
}

// toldAfter is how long an append is in doubt before somebody is told.
const toldAfter = time.Second

// Own claims the session behind its tail for one life of a node. It fails with
// ErrFenced if somebody else was faster, or if the tail that was seen was old:
// who still wants the session asks again. It fails with ErrDamaged if the log is
// shorter than what is known of it, or another one; of known only place and sum matter.
func Own(ctx context.Context, log Log, id SessionID, node, boot string, known Mark) (*Writer, error) {
	tail, err := tailBehind(ctx, log, id, known)
	if err != nil {
		return nil, err
	}
	return OwnBehind(ctx, log, id, node, boot, tail, nil)
}

// claimText is what a claim says beside its head, which is no entry. Two claims of one life behind one
// record are told apart by it.
type claimText struct {
	Wants *Wants `json:"wants,omitempty"` // of the session; in its first claim
	Claim string `json:"claim"`
}

// OwnBehind is [Own] behind a tail that was read before somebody asked whether the owner is
// dead, see [Beats]. It fails with ErrFenced if anything was appended since. wants is what a new session wants
// of its node.
func OwnBehind(ctx context.Context, log Log, id SessionID, node, boot string, tail Record, wants *Wants) (*Writer, error) {
	w := &Writer{log: log, id: id, at: tail.Mark()}
	w.at.Node, w.at.Boot = node, boot
	about, err := json.Marshal(claimText{wants, rand.Text()})
	if err != nil {
		return nil, err
	}
	if _, err := w.put(ctx, Record{Kind: Claim, Lines: about}, false); err != nil {
		return nil, err
	}
	w.since = time.Now()
	return w, nil
}

// tailBehind is the tail of a log of which something is known. It may have been answered by who is
// behind: then it is asked again for a while.
func tailBehind(ctx context.Context, log Log, id SessionID, known Mark) (Record, error) {
	for begin, pause := time.Now(), firstPause; ; pause = min(2*pause, longestWait) {
		tail, err := log.Tail(ctx, id)
		if err == nil {
			err = tail.behind(known)
		}
		if err == nil || !errors.Is(err, ErrDamaged) || tail.Seq >= known.Seq || time.Since(begin) > oldTail {
			return tail, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Record{}, ctx.Err()
		}
	}
}

// Epoch is the sequence of the writer's claim.
func (w *Writer) Epoch() Seq { return w.at.Epoch }

// Mark is behind the last record that is known to be in.
func (w *Writer) Mark() Mark { return w.at }

// Append puts lines, the effect of the commands with these keys, behind the
// last record, and returns when a majority has them. It repeats the same record
// until its fate is known. It fails with ErrTooLarge or ErrFull, and nothing
// was written; with ErrFenced, for good; and if ctx ends in doubt with
// ErrUnknown, for good, because nothing may follow a record that may be there.
// What is above MostLines goes in parts, see [Joiner].
func (w *Writer) Append(ctx context.Context, lines []byte, keys []string) (Seq, error) {
	if len(lines) > MostEntries {
		return 0, ErrTooLarge
	}
	begun := false
	for ; len(lines) > MostLines; lines = lines[MostLines:] {
		if _, err := w.put(ctx, Record{Kind: Part, Lines: lines[:MostLines]}, begun); err != nil {
			return 0, err
		}
		begun = true
	}
	return w.put(ctx, Record{Kind: Lines, Lines: lines, Keys: keys}, begun)
}

// Note puts a text that is no entry behind the last record; an empty one says that the
// session is still this writer's. Errors are those of Append.
func (w *Writer) Note(ctx context.Context, text []byte, keys []string) (Seq, error) {
	if len(text) > MostLines {
		return 0, ErrTooLarge
	}
	return w.put(ctx, Record{Kind: Note, Lines: text, Keys: keys}, false)
}

// Trim removes what is before now, of which text says where it is. Errors are those of
// Append, and those of [Log.Trim], which leave the log as it was but for one record.
func (w *Writer) Trim(ctx context.Context, text []byte) error {
	seq, err := w.put(ctx, Record{Kind: Trimmed, Lines: text}, false)
	if err != nil {
		return err
	}
	return w.log.Trim(ctx, w.id, seq)
}

// Release says in the log that nobody owns the session. Nothing can be appended
// behind it. about is a text of the release, which is no entry. Errors are those of Append.
func (w *Writer) Release(ctx context.Context, about []byte) error {
	if _, err := w.put(ctx, Record{Kind: Release, Lines: about}, false); err != nil {
		return err
	}
	w.final = ErrReleased
	return nil
}

// put appends r behind the tail, however often it takes. One that has begun cannot be given
// up with nothing written.
func (w *Writer) put(ctx context.Context, r Record, begun bool) (Seq, error) {
	if w.final != nil {
		return 0, w.final
	}
	r.Node, r.Boot, r.Prev, r.Sum = w.at.Node, w.at.Boot, w.at.Seq, sumAfter(w.at.Sum, r.Lines)
	if r.Kind != Claim {
		r.Epoch, r.N = w.at.Epoch, w.at.N+1
	}
	doubtful, since, told := begun, time.Now(), w.doubt == nil
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		seq, err := w.try(ctx, r)
		switch {
		case err == nil:
			r.Seq = seq
			w.at = r.Mark()
			return seq, nil
		case errors.Is(err, ErrFenced):
			w.final = ErrFenced
			return 0, w.final
		case !doubtful && (errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge)):
			return 0, err
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull):
			// A conflict, too, may be the answer to this record's own double.
			doubtful = true
		}
		if !told && time.Since(since) >= toldAfter {
			told = true
			w.doubt(since)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if !doubtful {
				return 0, ctx.Err()
			}
			w.final = fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
			return 0, w.final
		}
	}
}

// try appends once. A conflict is not yet a fence: the record may be in from an
// earlier try, and engines refuse now and then what they could take.
func (w *Writer) try(ctx context.Context, r Record) (Seq, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	seq, err := w.log.Append(ctx, w.id, r.Prev, r)
	if !errors.Is(err, ErrConflict) {
		return seq, err
	}
	tail, lookErr := w.log.Tail(ctx, w.id)
	switch {
	case lookErr != nil || tail.Seq <= r.Prev:
		return 0, err
	case same(tail, r):
		return tail.Seq, nil
	default:
		return 0, ErrFenced
	}
}

// same: the record of the log is the one that was to be written, and not only one in its place: where tails
// are old, another writer of this life may have been there.
func same(a, b Record) bool {
	return a.Kind == b.Kind && a.Boot == b.Boot && a.Node == b.Node && a.Epoch == b.Epoch && a.N == b.N && a.Prev == b.Prev && a.Sum == b.Sum
}
