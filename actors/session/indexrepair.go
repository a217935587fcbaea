package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"troupe/actors/cluster"
	"troupe/actors/kernel"
	"troupe/store"
)

// textQueue holds the texts that this node still has to write to the index. Those of one session are written one after
// the other, so that an earlier one does not replace a later one. The zero value is empty. It is safe for concurrent use.
type textQueue struct {
	mu     sync.Mutex
	latest map[string]*indexText // by session; present while its texts are written, nil if the latest one is
}

// enqueue replaces the text of a session that is written next. It reports whether the caller has to write it;
// otherwise another goroutine is writing texts of this session.
func (q *textQueue) enqueue(text indexText) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.latest == nil {
		q.latest = map[string]*indexText{}
	}
	_, writes := q.latest[text.ID]
	q.latest[text.ID] = &text
	return !writes
}

// next returns the text to write. Without one, the caller stops writing.
func (q *textQueue) next(id string) (text indexText, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	latest := q.latest[id]
	if latest == nil {
		delete(q.latest, id)
		return indexText{}, false
	}
	q.latest[id] = nil
	return *latest, true
}

// lists is the state of a node for lists of sessions: index texts that it still has to write, and texts that it
// read from logs.
type lists struct {
	texts  textQueue
	logged logTextCache
}

// logTextCache holds the texts that this node has read from logs. Each text describes its log up to Seq. A text without
// ID belongs to a log without messages. It is safe for concurrent use.
type logTextCache struct {
	mu sync.Mutex
	of map[cluster.SessionID]indexText
}

func (t *logTextCache) get(id cluster.SessionID) indexText {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[id]
}

func (t *logTextCache) set(id cluster.SessionID, text indexText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[cluster.SessionID]indexText{}
	}
	t.of[id] = text
}

// keepOnly forgets texts of other sessions.
func (t *logTextCache) keepOnly(ids []cluster.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := make(map[cluster.SessionID]indexText, len(ids))
	for _, id := range ids {
		if text, is := t.of[id]; is {
			of[id] = text
		}
	}
	t.of = of
}

const (
	// repairTime is how long a list waits for logs that have to be read. What was read by then is in the list.
	repairTime = 3 * time.Second
	// maxRepairs is the number of logs that a list reads at once.
	maxRepairs = 8
)

// repair adds the texts that the index lacks, and replaces those that may be older than their logs. A node writes a text
// after the log, and may be killed in between. unread says why logs could not be read: the next list tries again.
func (cl *Cluster) repair(ctx context.Context, ids []cluster.SessionID, texts map[cluster.SessionID]indexText) (unread error) {
	boots := map[string]string{} // of nodes that live
	for _, n := range cl.Member.Seen() {
		if n.Lives {
			boots[n.Name] = n.Boot
		}
	}
	var doubtful []cluster.SessionID
	for _, id := range ids {
		text, has := texts[id]
		boot, lives := boots[text.Node]
		if !has || text.Node != "" && (!lives || text.Boot != "" && text.Boot != boot) {
			doubtful = append(doubtful, id)
		}
	}
	cl.lists.logged.keepOnly(doubtful)
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	repaired, errs := make([]indexText, len(doubtful)), make([]error, len(doubtful))
	free, done := make(chan struct{}, maxRepairs), make(chan struct{}, len(doubtful))
	for i, id := range doubtful {
		free <- struct{}{}
		over := func(err error) {
			if errs[i] = err; err != nil {
				errs[i] = fmt.Errorf("session %s: %w", id, err)
			}
			<-free
			done <- struct{}{}
		}
		kernel.Beside(func() {
			text, err := cl.textOfLog(ctx, id, texts[id])
			repaired[i] = text
			over(err)
		}, func(reason any) { over(fmt.Errorf("panic: %v", reason)) })
	}
	for range doubtful {
		<-done
	}
	for i, id := range doubtful {
		if repaired[i].ID != "" {
			texts[id] = repaired[i]
		}
	}
	return errors.Join(errs...)
}

// textOfLog brings the text of a session up to date with its log. The result has no ID if the log has no message.
func (cl *Cluster) textOfLog(ctx context.Context, id cluster.SessionID, text indexText) (indexText, error) {
	tail, err := cl.Engine.Tail(ctx, id)
	if err != nil || tail.Seq <= text.Seq { // it may be an old one
		return text, err
	}
	read := cl.lists.logged.get(id)
	if read.Seq < tail.Seq {
		if read, err = cl.readText(ctx, id, tail); err != nil {
			return text, err
		}
		cl.lists.logged.set(id, read)
	}
	if read.ID == "" {
		return text, nil
	}
	read.Node, read.Runs, read.Handle, read.Boot = text.Node, text.Runs, text.Handle, text.Boot
	if text.ID != "" {
		read.Cwd = text.Cwd
	}
	return read, nil
}

// readText reads a log for its text. Of a damaged log it reads the intact part.
func (cl *Cluster) readText(ctx context.Context, id cluster.SessionID, tail cluster.Record) (text indexText, err error) {
	var summary store.SummaryReader
	at, err := cluster.Load(ctx, cl.Engine, id, cluster.Mark{}, tail.Seq, func(r cluster.Record) error {
		if r.Kind == cluster.Lines {
			summary.Add(r.Lines)
		}
		return nil
	})
	if err != nil && !errors.Is(err, cluster.ErrDamaged) {
		return text, err
	}
	text.Seq, text.Sum = max(at.Seq, tail.Seq), at.Sum
	is, ok := summary.Summary()
	if !ok || is.MessageCount == 0 && is.Name == "" {
		return text, nil
	}
	wants, err := cl.Member.Wanted(ctx, id, tail)
	if err != nil {
		return text, err
	}
	is.ID, is.Path = string(id), cl.file(string(id))
	is.FirstMessage, is.AllMessagesText, is.ParentSessionPath = beginningOf(is.FirstMessage), nil, ""
	text.SessionSummary = is
	text.Root, text.Dir, text.On = wants.Root, wants.Dir, wants.Node
	return text, nil
}
