package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	oneTry      = 500 * time.Millisecond // how long one append may be without an answer
	firstPause  = 5 * time.Millisecond   // before the first repeat; doubles
	longestWait = 200 * time.Millisecond
)

// Writer appends to the log of one session for the node that claimed it. It is
// not safe for concurrent use.
type Writer struct {
	log        Log
	id         SessionID
	node, boot string
	epoch      Seq
	tail       Seq
	n, sum     uint64
	final      error // why nothing can be appended any more
}

// Own claims the session behind its tail for one life of a node. It fails with
// ErrFenced if somebody else was faster, or if the tail that was seen was old:
// who still wants the session asks again.
func Own(ctx context.Context, log Log, id SessionID, node, boot string) (*Writer, error) {
	tail, err := log.Tail(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &Writer{log: log, id: id, node: node, boot: boot, tail: tail.Seq, sum: tail.Sum}
	if err := w.put(ctx, Record{Kind: Claim}); err != nil {
		return nil, err
	}
	w.epoch = w.tail
	return w, nil
}

// Epoch is the sequence of the writer's claim.
func (w *Writer) Epoch() Seq { return w.epoch }

// Append puts lines, the effect of the commands with these keys, behind the
// last record, and returns when a majority has them. It repeats the same record
// until its fate is known. It fails with ErrTooLarge or ErrFull, and nothing
// was written; with ErrFenced, for good; and if ctx ends in doubt with
// ErrUnknown, for good, because nothing may follow a record that may be there.
func (w *Writer) Append(ctx context.Context, lines []byte, keys []string) (Seq, error) {
	if len(lines) > MostLines {
		return 0, ErrTooLarge
	}
	err := w.put(ctx, Record{Kind: Lines, Epoch: w.epoch, N: w.n + 1, Lines: lines, Keys: keys})
	if err != nil {
		return 0, err
	}
	w.n++
	return w.tail, nil
}

// Release says in the log that nobody owns the session. Nothing can be appended
// behind it. Errors are those of Append.
func (w *Writer) Release(ctx context.Context) error {
	if err := w.put(ctx, Record{Kind: Release, Epoch: w.epoch, N: w.n + 1}); err != nil {
		return err
	}
	w.final = ErrReleased
	return nil
}

// put appends r behind the tail, however often it takes.
func (w *Writer) put(ctx context.Context, r Record) error {
	if w.final != nil {
		return w.final
	}
	r.Node, r.Boot, r.Prev, r.Sum = w.node, w.boot, w.tail, sumAfter(w.sum, r.Lines)
	doubtful := false
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		seq, err := w.try(ctx, r)
		switch {
		case err == nil:
			w.tail, w.sum = seq, r.Sum
			return nil
		case errors.Is(err, ErrFenced):
			w.final = ErrFenced
			return w.final
		case !doubtful && (errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge)):
			return err
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull):
			// A conflict, too, may be the answer to this record's own double.
			doubtful = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if !doubtful {
				return ctx.Err()
			}
			w.final = fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
			return w.final
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

// same: the record of the log is the one that was to be written.
func same(a, b Record) bool {
	return a.Kind == b.Kind && a.Boot == b.Boot && a.Node == b.Node && a.Epoch == b.Epoch && a.N == b.N && a.Prev == b.Prev
}
