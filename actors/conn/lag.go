package conn

import (
	"sync/atomic"

	"troupe/actors/link"
	"troupe/protocol"
)

// lag is what is done about a client that does not read and for which no session waits:
// above a limit the events that wait for it are dropped, those of the session that has
// most first. In their place it reads resync, and nothing more of the session but
// answers and questions until it attaches again.
type lag struct {
	most   int             // bytes of events that may wait; 0 for no limit: sessions wait
	others *atomic.Int64   // how many such clients there are, which share maxLagging; nil for nobody else
	behind map[string]bool // tags of which events were dropped
}

// maxLagging is how many bytes of events may wait for all clients together for which no
// session waits.
const maxLagging = 256 << 20

// limit is how much may wait for this client: its own limit, or its share of what may wait
// for all.
func (l *lag) limit() int {
	if l.others == nil {
		return l.most
	}
	return min(l.most, maxLagging/int(max(1, l.others.Load())))
}

// drops says whether a record may be left out: whoever attaches again is told what it
// said, or sees it in a snapshot. A question stays, and what has no number, too.
func (l *lag) drops(it *link.Item) bool {
	if it.Event == nil || it.Owed { // of what is owed there is no more than the ring has
		return false
	}
	row := protocol.RowOf(it.Event)
	return !row.Dialog && (it.Seq > 0 || it.Known || row.To == protocol.Subscribers) // get_subagents says where they stand
}

// refuses looks at a record on its way to the client: true if it is left out. The answer
// to an attach ends that.
func (l *lag) refuses(tag string, it *link.Item) bool {
	if !l.behind[tag] {
		return false
	}
	if r := it.Response; r != nil {
		if r.Command == "attach" && r.Err == nil {
			delete(l.behind, tag)
		} else if r.At > 0 { // the client has not read up to there
			unplaced := *r
			unplaced.At = 0
			it.Response = &unplaced
		}
	}
	return l.drops(it)
}

// catchUp drops the events of the sessions that have most waiting until no more wait than may.
// The largest record does not count, nor against its session: one may always wait, however
// large it was made.
func (w *writer) catchUp() {
	waiting := map[string]int{}
	sum, largest, of := 0, 0, ""
	for i := range w.waiting {
		if p := &w.waiting[i]; w.lag.drops(&p.item) {
			waiting[p.tag] += p.item.Size
			sum += p.item.Size
			if !grows(p.item.Event) && p.item.Size > largest {
				largest, of = p.item.Size, p.tag
			}
		}
	}
	waiting[of] -= largest
	for sum -= largest; sum > w.lag.limit(); {
		loudest := ""
		for tag, bytes := range waiting {
			if bytes > waiting[loudest] || bytes == waiting[loudest] && tag < loudest {
				loudest = tag
			}
		}
		w.dropEvents(loudest)
		sum -= waiting[loudest]
		delete(waiting, loudest)
	}
}

// grows says whether a record that waits takes in what comes behind it.
func grows(ev protocol.Event) bool {
	switch ev.(type) {
	case *protocol.MessageUpdate, protocol.ToolExecutionUpdate:
		return true
	default:
		return false
	}
}

// dropEvents leaves out the events of a session that wait, for one resync where the first
// of them was.
func (w *writer) dropEvents(tag string) {
	kept, told := w.waiting[:0], w.lag.behind[tag]
	for _, p := range w.waiting {
		if p.tag != tag || !w.lag.drops(&p.item) {
			if told && p.tag == tag {
				w.lag.refuses(tag, &p.item)
			}
			kept = append(kept, p)
			continue
		}
		p.item.Receipt.Written()
		w.window.Give(p.item.Size)
		if !told {
			told = true
			w.lag.behind[tag] = true
			kept = append(kept, pending{tag: tag, item: link.Item{Event: protocol.Resync{Reason: "lagged"}}})
		}
	}
	clear(w.waiting[len(kept):])
	w.waiting = kept
}
