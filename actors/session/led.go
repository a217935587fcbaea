package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/protocol"
	"troupe/store"
)

// The handle of a session of a cluster is the id with which it began. Once new_session, fork, clone or switch_session has put another
// session in its place, the log of the first one says in its last record where its handle leads: see [cluster.Lead]. That record is
// the end of such a command. Before it the handle is what it was, and the command, which comes again with its client's name, makes the
// session that it has made already, since the id of that is made of the name. Behind it every node is led to the new session, and knows
// the command. Who opens a session by its handle claims the first log, so that no old end of it can lead astray, and gives it back.

// led is where a handle leads, as a record of its own log says.
type led struct {
	done  cluster.Keys // of what was carried out under the handle in sessions that it does not lead to any more
	texts []ledText    // that commands were answered with, oldest first
}

// ledText is what a fork has given back to its client's editor.
type ledText struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// mostLedTexts and mostLedKeys bound what is said again: a client waits for few answers at a time.
const (
	mostLedTexts = 8
	mostLedKeys  = 256
)

// newLed is what a lead says.
func newLed(of *cluster.Lead) led {
	l := led{done: of.Done}
	_ = json.Unmarshal(of.Text, &l.texts) // of another version: the command is known all the same
	return l
}

// add notes what was done in a session that is left, and the command that leaves it.
func (l *led) add(left cluster.Keys, key, text string) {
	all := cluster.Keys{Of: slices.Concat(l.done.Of, left.Of), Seqs: slices.Concat(l.done.Seqs, left.Seqs)}
	if key != "" {
		all.Add(1, []string{key})
	}
	if key != "" && text != "" {
		l.texts = append(slices.Clone(l.texts), ledText{key, text})
	}
	over := max(0, len(all.Of)-mostLedKeys)
	l.done = cluster.Keys{Of: all.Of[over:], Seqs: all.Seqs[over:]}
	l.texts = l.texts[max(0, len(l.texts)-mostLedTexts):]
}

// result is the answer to a command that has come again.
func (l *led) result(cmd protocol.Command, key string) protocol.Result {
	switch cmd.(type) {
	case protocol.NewSession, protocol.SwitchSession, protocol.Clone, protocol.Fork:
		i := slices.IndexFunc(l.texts, func(t ledText) bool { return t.Key == key })
		if i < 0 {
			return core.Arrived(cmd, "")
		}
		return core.Arrived(cmd, l.texts[i].Text)
	}
	return nil
}

// claimant returns a handle as all nodes know it. One that only this node knows is prefixed with the name of the node.
func (cl *Cluster) claimant(handle string, known bool) string {
	if cl == nil || known {
		return handle
	}
	return cl.Member.Self() + "/" + handle
}

// known says whether other nodes know the session by its handle.
func (d *durable) known() bool { return d.shared.Cluster.knows(d.handle, d.spec.ID, d.spec.Path) }

func (cl *Cluster) knows(handle, id, path string) bool {
	return cl != nil && (id == handle || cl.idOf(path) == handle)
}

// lead has the handle lead to a session that takes the place of the current one. If it fails, nobody knows whether it does: the
// session has to be opened again.
func (s *Session) lead(c actor.Context, seq uint64, p *loadedSession) error {
	to := keptBy(p.log)
	if to == nil || !s.known() {
		return nil
	}
	led, key := s.file.led, s.clients.replies.keyOf(seq)
	var done cluster.Keys
	left := s.kept()
	if left != nil {
		done = left.owned.Keys()
	}
	led.add(done, key, p.text)
	err := s.life.turn.wait(c, func(ctx context.Context) error { return s.leads(ctx, to, left, led) })
	switch {
	case err == nil:
		s.file.led = led
	case !errors.Is(err, cluster.ErrFenced):
		err = fmt.Errorf("%w: %w", cluster.ErrReleased, err)
	}
	return err
}

// leads has the log of the handle say where that leads.
func (s *Session) leads(ctx context.Context, to, left *kept, led led) error {
	if to.id == s.handle {
		text, _ := json.Marshal(map[string]any{"done": led.done})
		err := to.owned.Note(ctx, text, nil)
		if err == nil {
			to.owned.Lead = nil
		}
		return err
	}
	text, _ := json.Marshal(led.texts)
	lead := &cluster.Lead{To: cluster.SessionID(to.id), Node: s.shared.Cluster.Member.Self(), Done: led.done, Text: text}
	if left != nil && left.id == s.handle {
		left.how.given, left.owned.Lead = true, lead
		return left.owned.Release(ctx)
	}
	first := s.shared.keep(s.handle, s.shared.Cluster.wants(s.spec.Wants, s.work.cwd))
	first.how.handle = s.handle
	owned, err := first.claim(ctx)
	if err != nil {
		return err
	}
	if owned.Lead != nil {
		lead.Node = owned.Lead.Node
	}
	owned.Lead = lead
	return owned.Release(ctx)
}

// tellOther sends clients that the handle leads to another session. They have not received this yet, because the
// session was on another node then, or crashed before it could send it.
func (s *Session) tellOther() {
	now := protocol.SessionChanged{
		Reason: "switch", SessionID: s.file.id, SessionFile: s.file.path, SessionName: s.m.Name(),
		MessageCount: int(s.m.State().MessageCount), LeafID: s.file.View().ShownLeaf(),
	}
	s.emit(now)
}

// claimAgain is how soon a log is claimed again that another node has for a moment, to see where its handle leads.
const claimAgain = 20 * time.Millisecond

// claim makes this node the owner of a handle's log, which has no session of its own any more.
func (k *kept) claim(ctx context.Context) (*cluster.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	for {
		owned, err := k.cluster.Member.ClaimFor(ctx, cluster.SessionID(k.id), k.how.handle, k.wants, cluster.Mark{})
		if elsewhere := new(cluster.ElsewhereError); !errors.As(err, &elsewhere) && !errors.Is(err, cluster.ErrInUse) {
			return owned, err
		}
		select {
		case <-time.After(claimAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// way is how a session is opened by its id.
type way uint8

const (
	bySelf   way = iota // whatever its handle leads to; nobody may have that open
	byHandle            // as the one that its handle leads to
	back                // to take the place of the one that its handle leads to
)

// errLed: what a handle leads to is open.
var errLed = errors.New("its handle leads to another session, which is open")

// end has the handle lead to its own session again, if nobody has the one open that it leads to now.
func (k *kept) end(ctx context.Context) error {
	other, err := k.cluster.Member.Claim(ctx, k.owned.Lead.To, cluster.Wants{}, cluster.Mark{})
	switch {
	case err == nil:
		err = other.Release(ctx)
	case errors.As(err, new(*cluster.ElsewhereError)), errors.As(err, new(*cluster.ParkedError)), errors.Is(err, cluster.ErrInUse):
		return errLed
	case errors.Is(err, cluster.ErrNowhere): // and nobody has it
		err = nil
	}
	if err == nil {
		err = k.owned.Note(ctx, nil, nil)
	}
	if err == nil {
		k.owned.Lead = nil
	}
	return err
}

// led is the session to which the handle of one leads now, as far as is known: it itself if it leads nowhere.
func (cl *Cluster) led(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	tail, err := cl.Engine.Tail(ctx, cluster.SessionID(id))
	if lead := tail.Lead(); err == nil && lead != nil {
		return string(lead.To)
	}
	return id
}

// newID is the id of a session that a command makes: of its client's name and its own, if it has them; "" for any.
func (l *loader) newID() string {
	if l.key == "" || l.shared.Cluster == nil {
		return ""
	}
	client, command, _ := strings.Cut(l.key, "/")
	return string(cluster.NewSessionID(client, command))
}

// begunBefore claims the session that is about to be made, if the cluster keeps it. The log is that of the same command when it came
// before, and did not come to its end; nil if there is nothing in it. The session wants of its node what the one did that it takes the
// place of, which may not be kept.
func (k *kept) begunBefore(l *loader, options store.Options) (*store.Log, *protocol.Error) {
	if k == nil {
		return nil, nil
	}
	k.how.handle = l.claimant()
	if left := keptBy(l.file.Log); left != nil && left.owned != nil { // root and directory are those of the directory
		labels := map[string]string{}
		maps.Copy(labels, left.owned.Wants.Labels)
		maps.Copy(labels, k.wants.Labels)
		k.wants.Labels = labels
	}
	options.Commit, k.how.begins = k, true
	log, err := k.open(options)
	if err != nil {
		k.Close(false)
		return nil, keptError(k.id, err)
	}
	return log, nil
}

// empty says whether nothing was said yet in a session that another command than open_session has made.
func (k *kept) empty(log *store.Log) bool {
	return k != nil && k.how.begins && log != nil && !hasMessage(log.View())
}
