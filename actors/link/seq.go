package link

import "sync/atomic"

// Seq numbers the commands of a process, whichever connection they come from:
// sessions tell them apart by it. The zero value begins with 1.
type Seq struct{ last atomic.Uint64 }

// Next is a number that was not used before.
func (s *Seq) Next() uint64 { return s.last.Add(1) }
