package cluster

import (
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

// Chain checks that records are one log: each follows the one before it and
// belongs to the last claim. The zero Chain is at the beginning of a log.
type Chain struct{ at Mark }

// ChainFrom goes on behind a mark.
func ChainFrom(m Mark) Chain { return Chain{m} }

// Mark is behind the last record.
func (c *Chain) Mark() Mark { return c.at }

// Add checks the next record. It fails with ErrDamaged, and says where.
func (c *Chain) Add(r Record) error {
	at := &c.at
	if at.Seq == 0 && r.Kind == Trimmed { // what was before it is in an archive
		c.at = r.Mark()
		return nil
	}
	switch sum := sumAfter(at.Sum, r.Lines); {
	case r.Prev != at.Seq:
		return c.broken(r, "follows %d", r.Prev)
	case r.Seq <= at.Seq:
		return c.broken(r, "does not grow")
	case r.Sum != sum:
		return c.broken(r, "has sum %x, not %x", r.Sum, sum)
	}
	if r.Kind == Claim {
		if r.Epoch != 0 || r.N != 0 {
			return c.broken(r, "is a claim with epoch %d, number %d", r.Epoch, r.N)
		}
	} else if !at.Owned || r.Epoch != at.Epoch || r.Node != at.Node || r.Boot != at.Boot || r.N != at.N+1 {
		return c.broken(r, "of %s/%s, epoch %d, number %d, is not the next of %s/%s, epoch %d, number %d",
			r.Node, r.Boot, r.Epoch, r.N, at.Node, at.Boot, at.Epoch, at.N)
	}
	c.at = r.Mark()
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

func (c *Chain) broken(r Record, format string, args ...any) error {
	return fmt.Errorf("%w: record %d behind %d %s", ErrDamaged, r.Seq, c.at.Seq, fmt.Sprintf(format, args...))
}

// Load reads the log of a session behind a mark, up to a place, and checks the chain. It
// returns the mark of what f has got. Where the log was trimmed behind the mark f gets
// the record that says so, and no mark from before is of use. While the engine is away it waits
// for it, as long as ctx lasts; f gets each record once.
func Load(ctx context.Context, log Log, id SessionID, from Mark, to Seq, f func(Record) error) (Mark, error) {
	chain := ChainFrom(from)
	var own error // of f, which may be any
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		first := true
		err := log.Read(ctx, id, chain.at.Seq, to, func(r Record) error {
			if first && r.Kind == Trimmed {
				chain = Chain{}
			}
			first = false
			if err := chain.Add(r); err != nil {
				return err
			}
			own = f(r)
			return own
		})
		switch {
		case own != nil:
			return chain.at, own
		case err == nil && chain.at.Seq < to:
			return chain.at, fmt.Errorf("%w: it ends at %d, before %d", ErrDamaged, chain.at.Seq, to)
		case err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer):
			return chain.at, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return chain.at, err
		}
	}
}

// Joiner puts together what was appended at once and is in several records.
type Joiner struct{ parts []byte }

// Add takes the next record of a log and returns the entries that it completes; nil for a
// record that has none. Parts that nothing has ended before the next claim never were.
func (j *Joiner) Add(r Record) []byte {
	switch r.Kind {
	case Part:
		j.parts = append(j.parts, r.Lines...)
	case Lines:
		lines := r.Lines
		if j.parts != nil {
			lines = append(j.parts, lines...)
			j.parts = nil
		}
		return lines
	case Claim:
		j.parts = nil
	}
	return nil
}

// behind says whether a tail is what follows a place of the log that is known: not a shorter
// log, and not another one.
func (r Record) behind(known Mark) error {
	switch {
	case r.Seq < known.Seq:
		return fmt.Errorf("%w: its last record is %d, and %d is known", ErrDamaged, r.Seq, known.Seq)
	case r.Seq == known.Seq && known.Seq > 0 && r.Sum != known.Sum:
		return fmt.Errorf("%w: its last record %d has sum %x, and %x is known", ErrDamaged, r.Seq, r.Sum, known.Sum)
	}
	return nil
}
