package cluster

import (
	"fmt"
	"hash/crc64"
)

var sums = crc64.MakeTable(crc64.ECMA)

// sumAfter is the sum of a log whose sum was before, with lines behind it.
func sumAfter(before uint64, lines []byte) uint64 { return crc64.Update(before, sums, lines) }

// Chain checks that records are one log: each follows the one before it and
// belongs to the last claim. The zero Chain is at the beginning of a log.
type Chain struct {
	tail, epoch Seq
	n, sum      uint64
	node, boot  string
	owned       bool
}

// Add checks the next record. It fails with ErrDamaged, and says where.
func (c *Chain) Add(r Record) error {
	switch sum := sumAfter(c.sum, r.Lines); {
	case r.Prev != c.tail:
		return c.broken(r, "follows %d", r.Prev)
	case r.Seq <= c.tail:
		return c.broken(r, "does not grow")
	case r.Sum != sum:
		return c.broken(r, "has sum %x, not %x", r.Sum, sum)
	}
	if r.Kind == Claim {
		if r.Epoch != 0 || r.N != 0 {
			return c.broken(r, "is a claim with epoch %d, number %d", r.Epoch, r.N)
		}
		c.epoch, c.n, c.node, c.boot, c.owned = r.Seq, 0, r.Node, r.Boot, true
	} else {
		if !c.owned || r.Epoch != c.epoch || r.Node != c.node || r.Boot != c.boot || r.N != c.n+1 {
			return c.broken(r, "of %s/%s, epoch %d, number %d, is not the next of %s/%s, epoch %d, number %d",
				r.Node, r.Boot, r.Epoch, r.N, c.node, c.boot, c.epoch, c.n)
		}
		c.n, c.owned = r.N, r.Kind != Release
	}
	c.tail, c.sum = r.Seq, r.Sum
	return nil
}

func (c *Chain) broken(r Record, format string, args ...any) error {
	return fmt.Errorf("%w: record %d behind %d %s", ErrDamaged, r.Seq, c.tail, fmt.Sprintf(format, args...))
}
