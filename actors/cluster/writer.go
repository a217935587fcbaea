package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
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
	log      Log
	id       SessionID
	at       Mark
	keys     Keys                  // of the log, as far as it was read or written
	since    time.Time             // when it claimed the session
	final    error                 // why nothing can be appended any more
	doubt    func(since time.Time) // see Doubted; may be nil
	doubtful atomic.Bool           // what is appended is in doubt
}

// toldAfter is how long an append is in doubt before somebody is told.
const toldAfter = time.Second

// about is what a claim or a release says beside its head, which is no entry.
type about struct {
	Wants Wants  `json:"wants,omitzero"`  // of the session; in its first claim
	Claim string `json:"claim,omitempty"` // tells two claims of one life behind one record apart
	To    string `json:"to,omitempty"`    // who is to have the session that is released
	Back  bool   `json:"back,omitempty"`  // it was given to who releases it, and goes back
	Lead  *Lead  `json:"lead,omitempty"`  // of a claim or a release
	Rests string `json:"rests,omitempty"` // of a release: see [Owned.Rests]
	Done  Keys   `json:"done,omitzero"`   // of a note: what was done in other sessions while the handle led to these
}

// Lead says in the log of a session that who looks for it by its id, which is its handle, is to have another one, that has taken
// its place there. It counts as long as its record is the last.
type Lead struct {
	To   SessionID `json:"to"`
	Node string    `json:"node"` // that had the session itself last
	Done Keys      `json:"done"` // of commands, in the sessions to which the handle led before
	Text []byte    `json:"text,omitempty"`
}

// about is what a record says that has no entries; of kinds and versions that are not known nothing.
func (r Record) about() (of about) {
	if r.Kind != Lines && r.Kind != Part {
		_ = json.Unmarshal(r.Lines, &of)
	}
	return of
}

// Lead is where the handle of a session leads if this is the last record of its log; nil for the session itself.
func (r Record) Lead() *Lead { return r.about().Lead }

// Own claims the session behind its tail for one life of a node. The tail was read before somebody asked
// whether the owner is dead, see [Beats]. It fails with ErrFenced if anything was appended since, or the tail that was
// seen was old: who still wants the session asks again. wants is what a new session wants of its node. Where its
// handle leads elsewhere it goes on to: who claims it only wants to know where.
func Own(ctx context.Context, log Log, id SessionID, node, boot string, tail Record, wants Wants) (*Writer, error) {
	w := &Writer{log: log, id: id, at: tail.Mark()}
	w.at.Node, w.at.Boot = node, boot
	text, _ := json.Marshal(about{Wants: wants, Claim: rand.Text(), Lead: tail.Lead()})
	if _, err := w.put(ctx, Record{Kind: Claim, Lines: text}, false); err != nil {
		return nil, err
	}
	w.since = time.Now()
	return w, nil
}

// TailBehind is the tail of a log of which something is known; only place and sum of that matter. It may have been
// answered by who is behind: then it is asked again for a while. It fails with ErrDamaged if the log is shorter than
// what is known of it, or another one.
func TailBehind(ctx context.Context, log Log, id SessionID, known Mark) (Record, error) {
	for begin, wait := time.Now(), firstPause; ; wait = min(2*wait, longestWait) {
		tail, err := log.Tail(ctx, id)
		switch {
		case err == nil && tail.Seq == known.Seq && tail.Sum != known.Sum:
			return tail, fmt.Errorf("%w: its last record %d has sum %x, and %x is known", ErrDamaged, tail.Seq, tail.Sum, known.Sum)
		case err != nil || tail.Seq >= known.Seq:
			return tail, err
		case time.Since(begin) > oldTail:
			return tail, fmt.Errorf("%w: its last record is %d, and %d is known", ErrDamaged, tail.Seq, known.Seq)
		}
		if err := pause(ctx, wait); err != nil {
			return Record{}, err
		}
	}
}

// Epoch is the sequence of the writer's claim.
func (w *Writer) Epoch() Seq { return w.at.Epoch }

// Since is when the session was claimed.
func (w *Writer) Since() time.Time { return w.since }

// Mark is behind the last record that is known to be in.
func (w *Writer) Mark() Mark { return w.at }

// Keys are those of what is before the mark.
func (w *Writer) Keys() Keys { return w.keys }

// Done is the record that has the effect of a command; 0 for none.
func (w *Writer) Done(key string) Seq { return w.keys.Find(key) }

// Fenced says whether somebody else was found to own the session.
func (w *Writer) Fenced() bool { return errors.Is(w.final, ErrFenced) }

// Doubted has f called, by whoever appends and while it does, when that has been in doubt for a second.
func (w *Writer) Doubted(f func(since time.Time)) { w.doubt = f }

// Append puts lines, the effect of the commands with these keys, behind the
// last record, and returns when a majority has them. It repeats the same record
// until its fate is known. It fails with ErrTooLarge or ErrFull, and nothing
// was written; with ErrFenced, for good; and if ctx ends in doubt with
// ErrUnknown, for good, because nothing may follow a record that may be there.
// What is above MostLines goes in parts, see [Load].
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
// behind it. text is a text of the release, which is no entry. Errors are those of Append.
func (w *Writer) Release(ctx context.Context, text []byte) error {
	if _, err := w.put(ctx, Record{Kind: Release, Lines: text}, false); err != nil {
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
	defer w.doubtful.Store(false)
	unsure, since := begun, time.Now()
	for wait := firstPause; ; wait = min(2*wait, longestWait) {
		seq, err := w.try(ctx, r)
		switch {
		case err == nil:
			r.Seq = seq
			w.at = r.Mark()
			w.keys.Add(seq, r.Keys)
			return seq, nil
		case errors.Is(err, ErrFenced):
			w.final = ErrFenced
			return 0, w.final
		case !unsure && (errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge)):
			return 0, err
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull):
			// A conflict, too, may be the answer to this record's own double.
			unsure = true
		}
		if time.Since(since) >= toldAfter && !w.doubtful.Swap(true) && w.doubt != nil {
			w.doubt(since)
		}
		if ended := pause(ctx, wait); ended != nil && unsure {
			w.final = fmt.Errorf("%w: %w", ErrUnknown, ended)
			return 0, w.final
		} else if ended != nil {
			return 0, ended
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
	}
	return 0, ErrFenced
}

// same: the record of the log is the one that was to be written, and not only one in its place: where tails
// are old, another writer of this life may have been there.
func same(a, b Record) bool {
	return a.Kind == b.Kind && a.Boot == b.Boot && a.Node == b.Node && a.Epoch == b.Epoch && a.N == b.N && a.Prev == b.Prev && a.Sum == b.Sum
}
