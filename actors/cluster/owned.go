package cluster

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"time"
)

// Owned is a session that this node owns. It is not safe for concurrent use, but for what its
// member does.
type Owned struct {
	Why  string // it could be claimed: new, release, boot, dead
	From string // the node that had it before, which may be this one; "" for none

	Wants Wants  // of its node
	Heir  string // the node that is to have it once it is released; "" for the one where it belongs
	Given bool   // From has given it to this node
	Lead  *Lead  // where its handle leads; nil for the session itself. It is said in the release: with one nothing else is appended

	// Rests is the handle under which this node keeps the session open, parked, after Release; "" if it does not. As long
	// as this life of the node lives, the session can be claimed for that handle only. A claim takes it over from the
	// release before it, if that is of this node.
	Rests string

	*Writer
	member *Member
	lease  uint64 // under which something was appended
	wake   func()
}

// Load reads what is in the log behind a mark, which is in a copy already, with the keys that
// were known there: f gets entries, as they stand in the file. It returns the mark that the copy has then.
func (o *Owned) Load(ctx context.Context, from Mark, keys Keys, f func(lines []byte) error) (Mark, error) {
	o.keys = keys
	begun := time.Now()
	at, err := Follow(ctx, o.log, o.id, from, &o.keys, o.Epoch(), f)
	o.member.cfg.Metrics.Took("troupe_cluster_load_seconds", time.Since(begun))
	return at, err
}

// Follow brings a copy of a log, which goes to a mark and knows these keys, up to a place: f gets entries, as
// they stand in the file. It returns the mark that the copy has then, see [Load].
func Follow(ctx context.Context, log Log, id SessionID, from Mark, keys *Keys, to Seq, f func(lines []byte) error) (Mark, error) {
	return Load(ctx, log, id, from, to, func(r Record) error {
		keys.Add(r.Seq, r.Keys)
		if r.Kind == Lines {
			return f(r.Lines)
		}
		keys.join(r.about().Done)
		return nil
	})
}

// Woken has f called when the session should make sure that it is still this node's: see
// [Owned.Current].
func (o *Owned) Woken(f func()) {
	o.member.mu.Lock()
	defer o.member.mu.Unlock()
	o.wake = f
}

// Append puts lines, the effect of the commands with these keys, behind the last record. It fails with
// ErrFenced, or ErrUnknown when that lasts too long, for good; with any other error nothing was written.
func (o *Owned) Append(ctx context.Context, lines []byte, keys []string) error {
	return o.put(ctx, func(ctx context.Context) (Seq, error) { return o.Writer.Append(ctx, lines, keys) })
}

// Note puts a text that is no entry behind the last record. Errors are those of Append.
func (o *Owned) Note(ctx context.Context, text []byte, keys []string) error {
	return o.put(ctx, func(ctx context.Context) (Seq, error) { return o.Writer.Note(ctx, text, keys) })
}

func (o *Owned) put(ctx context.Context, do func(context.Context) (Seq, error)) error {
	defer o.noted(o.Fenced())
	ctx, cancel := context.WithTimeout(ctx, o.member.cfg.Patience)
	defer cancel()
	lease, leased := o.member.Lease()
	begun := time.Now()
	_, err := do(ctx)
	if took := time.Since(begun); took > toldAfter {
		o.member.cfg.Metrics.Took("troupe_cluster_doubtful_seconds", took)
		o.member.said("session was in doubt", "session", o.id, "epoch", o.Epoch(), "for", took)
	}
	if err == nil && leased {
		o.lease = lease
	}
	return err
}

// noted tells that somebody else was found to own the session, unless that was known before.
func (o *Owned) noted(before bool) {
	if !before && o.Fenced() {
		o.member.cfg.Metrics.Count("troupe_cluster_fenced_total", 1)
		o.member.said("session fenced", "session", o.id, "epoch", o.Epoch())
	}
}

// Current says that what was appended is all there is: what is in memory may be shown. Under
// the lease of the last append that is so; else an empty note is appended. Errors are those of
// Append.
func (o *Owned) Current(ctx context.Context) error {
	if lease, ok := o.member.Lease(); ok && lease == o.lease {
		return nil
	}
	return o.Note(ctx, nil, nil)
}

// Release says in the log that nobody owns the session. Whatever the error is, this node does
// not own it any more.
func (o *Owned) Release(ctx context.Context) error {
	defer o.Drop()
	defer o.noted(o.Fenced())
	ctx, cancel := context.WithTimeout(ctx, 4*oneTry)
	defer cancel()
	text, _ := json.Marshal(about{To: o.Heir, Back: o.Given && o.Heir == o.From, Lead: o.Lead, Rests: o.Rests})
	err := o.Writer.Release(ctx, text)
	if err == nil {
		o.member.cfg.Metrics.Count("troupe_cluster_released_total", 1)
		o.member.said("session released", "session", o.id, "epoch", o.Epoch())
	}
	return err
}

// Drop forgets the session without a word in the log.
func (o *Owned) Drop() {
	o.member.mu.Lock()
	defer o.member.mu.Unlock()
	if o.member.owned[o.id] == o {
		delete(o.member.owned, o.id)
	}
}

// mostKeys is how many commands of a session are known, the newest.
const mostKeys = 1024

// Keys are the commands whose effect is in a log: clientId/id of each, as a fingerprint, and
// the record.
type Keys struct {
	Of   [][16]byte `json:"of"` // oldest first
	Seqs []Seq      `json:"seqs"`
}

// Add notes the keys of a record.
func (k *Keys) Add(seq Seq, keys []string) {
	for _, key := range keys {
		k.Of, k.Seqs = append(k.Of, fingerprint(key)), append(k.Seqs, seq)
	}
	if over := len(k.Of) - mostKeys; over > mostKeys/4 {
		k.Of, k.Seqs = append([][16]byte(nil), k.Of[over:]...), append([]Seq(nil), k.Seqs[over:]...)
	}
}

// join adds what was known elsewhere.
func (k *Keys) join(o Keys) { k.Of, k.Seqs = append(k.Of, o.Of...), append(k.Seqs, o.Seqs...) }

// Find is the record of a key, 0 for none.
func (k *Keys) Find(key string) Seq {
	sum := fingerprint(key)
	for i := len(k.Of) - 1; i >= 0; i-- {
		if k.Of[i] == sum {
			return k.Seqs[i]
		}
	}
	return 0
}

func fingerprint(key string) (sum [16]byte) {
	h := fnv.New128a()
	_, _ = h.Write([]byte(key))
	h.Sum(sum[:0])
	return sum
}
