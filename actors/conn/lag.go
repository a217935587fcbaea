package conn

import (
	"troupe/actors/link"
	"troupe/protocol"
)

// lag is what is done about a client that does not read and for which no session waits:
// above a limit the events that wait for it are dropped, those of the session that has
// most first. In their place it reads resync, and nothing more of the session but
// answers and questions until it attaches again.
type lag struct {
	limit  int             // bytes of events that may wait; 0 for no limit: sessions wait
	behind map[string]bool // tags of which events were dropped
}

// drops says whether a record may be left out: whoever attaches again is told what it
// said, or sees it in a snapshot. A question stays, and what has no number, too.
func (l *lag) drops(it *link.Item) bool {
	switch it.Event.(type) {
	case nil, protocol.ExtensionUIRequest, protocol.ApprovalRequest, protocol.ApprovalResolved, protocol.DialogResolved:
		return false
	default:
		return it.Seq > 0 || it.Known
	}
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

// catchUp drops events until no more wait than may. The largest of them does not count:
// one record always fits, however long it is, or who reads as fast as they come would
// never read it.
func (w *writer) catchUp() {
	for {
		waiting := map[string]int{}
		sum, largest, loudest := 0, 0, ""
		for i := range w.waiting {
			p := &w.waiting[i]
			if !w.lag.drops(&p.item) {
				continue
			}
			waiting[p.tag] += p.item.Size
			sum += p.item.Size
			largest = max(largest, p.item.Size)
		}
		if sum-largest <= w.lag.limit {
			return
		}
		for tag, bytes := range waiting {
			if bytes > waiting[loudest] || bytes == waiting[loudest] && tag < loudest {
				loudest = tag
			}
		}
		w.dropEvents(loudest)
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
