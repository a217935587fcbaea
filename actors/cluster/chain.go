package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"time"
)

// sumAfter is the sum of a log whose sum was before, with lines behind it.
func sumAfter(before uint64, lines []byte) uint64 {
	return crc64.Update(before, crc64.MakeTable(crc64.ECMA), lines)
}

// Mark is a place in a log and all that is needed to go on from there: what is known
// of a log that was read or written before. The zero Mark is before the first record.
type Mark struct {
	Seq   Seq    `json:"seq"` // of the last record
	Sum   uint64 `json:"sum"`
	Epoch Seq    `json:"epoch"`
	N     uint64 `json:"n"`
	Node  string `json:"node"` // of the last claim
	Boot  string `json:"boot"`
	Owned bool   `json:"owned"` // the last claim was not released
}

// Add checks that a record is the next of one log: it follows the one before it, and belongs to the
// last claim. It fails with ErrDamaged, and says where.
func (m *Mark) Add(r Record) error {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("%w: record %d behind %d %s", ErrDamaged, r.Seq, m.Seq, fmt.Sprintf(format, args...))
	}
	switch sum := sumAfter(m.Sum, r.Lines); {
	case m.Seq == 0 && r.Kind == Trimmed: // what was before it is in an archive
	case r.Prev != m.Seq:
		return broken("follows %d", r.Prev)
	case r.Seq <= m.Seq:
		return broken("does not grow")
	case r.Sum != sum:
		return broken("has sum %x, not %x", r.Sum, sum)
	case r.Kind == Claim && (r.Epoch != 0 || r.N != 0):
		return broken("is a claim with epoch %d, number %d", r.Epoch, r.N)
	case r.Kind != Claim && (!m.Owned || r.Epoch != m.Epoch || r.Node != m.Node || r.Boot != m.Boot || r.N != m.N+1):
		return broken("of %s/%s, epoch %d, number %d, is not the next of %s/%s, epoch %d, number %d",
			r.Node, r.Boot, r.Epoch, r.N, m.Node, m.Boot, m.Epoch, m.N)
	}
	*m = r.Mark()
	return nil
}

// Mark is behind a record that is known to be good.
func (r Record) Mark() Mark {
	m := Mark{Seq: r.Seq, Sum: r.Sum, Epoch: r.Epoch, N: r.N, Node: r.Node, Boot: r.Boot, Owned: r.Kind != Release}
	if r.Kind == Claim {
		m.Epoch = r.Seq
	}
	return m
}

// RecordAt reads one record of a log, whose sum is not checked. It fails with ErrUnavailable where no source has it.
func RecordAt(ctx context.Context, log Log, id SessionID, seq Seq) (found Record, err error) {
	for _, source := range log.Sources() {
		err = source.Read(ctx, id, seq-1, seq, func(r Record) error {
			found = r
			return nil
		})
		if found.Seq == seq {
			return found, nil
		}
	}
	return Record{}, cmp.Or(err, ErrUnavailable)
}

// Load reads the log of a session behind a mark, up to a place, and checks that it is one. f gets each record once;
// what was appended at once and is in several records comes with the last of them, and parts that
// nothing has ended before the next claim never were. Load returns the mark of what f has got. Where the log was trimmed
// behind the mark f gets the record that says so, and no mark from before is of use. While the engine is away it
// waits for it, as long as ctx lasts.
//
// Sources may be behind, or have holes that they do not mend (nats-server#7549): where one does not go on the
// next is asked. What none of them gives for a while is lost.
func Load(ctx context.Context, log Log, id SessionID, from Mark, to Seq, f func(Record) error) (Mark, error) {
	at, got, sources, since := from, from, log.Sources(), time.Now()
	var parts []byte
	var own, damage error // of f, which may be any; of the log
	for i, wait := 0, firstPause; at.Seq < to; i = (i + 1) % len(sources) {
		was, first := at.Seq, true
		err := sources[i].Read(ctx, id, at.Seq, to, func(r Record) error {
			if first && r.Kind == Trimmed {
				at = Mark{}
			}
			first = false
			if err := at.Add(r); err != nil {
				return err
			}
			switch {
			case r.Kind == Part:
				parts = append(parts, r.Lines...)
				return nil
			case r.Kind == Lines && parts != nil:
				r.Lines = append(parts, r.Lines...)
				parts = nil
			case r.Kind == Claim:
				parts = nil
			}
			if own = f(r); own == nil {
				got = at
			}
			return own
		})
		broken := errors.Is(err, ErrDamaged)
		switch {
		case own != nil:
			return got, own
		case errors.Is(err, ErrNewer) || errors.Is(err, ErrSettings):
			return got, err
		case broken:
			damage = err
			log.Damaged(id, sources[i].Name, err)
		case err != nil && i == 0: // the engine is away
			i, since = -1, time.Now()
		}
		switch {
		case at.Seq > was: // on from there, with the first again
			since, wait = time.Now(), firstPause
			if !broken {
				i = -1
			}
			continue
		case i == len(sources)-1 && time.Since(since) > oldTail:
			return got, cmp.Or(damage, fmt.Errorf("%w: it ends at %d, before %d", ErrDamaged, at.Seq, to))
		case i > 0:
			continue
		}
		if pause(ctx, wait) != nil { // what was appended a moment ago is there a moment later
			return got, cmp.Or(err, ctx.Err())
		}
		wait = min(2*wait, longestWait)
	}
	return got, nil
}
