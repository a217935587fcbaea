package conn

import (
	"encoding/json"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// lists are the commands that wait for a list of open sessions, or of files, oldest first.
// They are answered one at a time, since an answer grows with the number of sessions.
type lists struct {
	waiting []listing
	asked   uint64         // the number under which the parent of sessions was asked for the first, 0 if it was not
	here    *link.OpenList // its answer, while other nodes are asked
}

type listing struct {
	id     json.RawMessage
	name   string
	credit link.Credit
	cmd    protocol.Command
	unhad  string // the session that it is about, which no node has; "" for none
	tag    string // as the client has named that
}

// list answers with the open sessions, behind those who have asked before.
func (r *router) list(c actor.Context, req protocol.Request) {
	r.current.owed = false
	r.listNext(c, listing{req.ID, req.Name, r.current.credit, req.Cmd, "", ""})
}

func (r *router) listNext(c actor.Context, l listing) {
	r.lists.waiting = append(r.lists.waiting, l)
	r.nextList(c)
}

// nextList asks for the open sessions, if a command waits for them.
func (r *router) nextList(c actor.Context) {
	switch {
	case len(r.lists.waiting) == 0 || r.lists.asked != 0:
	case r.out.Window.Full():
		r.out.Window.Tell(c.Self())
	default:
		r.lists.asked = r.server.Seq.Next()
		if first := r.lists.waiting[0]; first.unhad != "" || protocol.TraitsOf(first.cmd).Is(protocol.AboutFiles) {
			c.Send(r.server.Sessions, link.AskFiles{Seq: r.lists.asked, From: c.Self(), Session: first.unhad, Cmd: first.cmd, Spec: r.cfg.Default, Rules: r.rules, Allowed: r.cfg.Allowed})
			return
		}
		c.Send(r.server.Sessions, link.ListOpen{Seq: r.lists.asked, From: c.Self()})
	}
}

// filesAnswer answers the oldest command that waits, which was about files.
func (r *router) filesAnswer(c actor.Context, m link.FilesAnswer) {
	if m.Seq != r.lists.asked {
		return
	}
	r.answerList(c, m.Data, m.Err)
}

// openList answers the oldest list_open_sessions that waits, and asks for the next.
func (r *router) openList(c actor.Context, m link.OpenList) {
	if m.Seq != r.lists.asked {
		return
	}
	if r.seesNodes() && r.lists.here == nil {
		r.listElsewhere(c, m)
		return
	}
	list := []protocol.OpenSessionInfo{}
	for _, s := range m.Sessions {
		s.IsDefault = r.isDefault(s)
		list = append(list, s)
	}
	r.answerList(c, protocol.OpenSessions{Sessions: list}, nil)
}

// answerList answers the oldest command that waits, and goes on with the next.
func (r *router) answerList(c actor.Context, data protocol.Result, err *protocol.Error) {
	first := r.lists.waiting[0]
	r.lists = lists{waiting: r.lists.waiting[1:]}
	first.credit.GiveBack()
	to := r.out
	to.Tag = first.tag
	to.Send(c.ActorSystem().Root, link.Item{Response: &protocol.Response{ID: first.id, Command: first.name, Data: data, Err: err}})
	r.nextList(c)
	r.maybeDrained(c)
}

// listElsewhere asks the other nodes what is open there.
func (r *router) listElsewhere(c actor.Context, m link.OpenList) {
	m.Sessions = slices.Clone(m.Sessions)
	for i := range m.Sessions {
		m.Sessions[i].Node = r.server.Cluster.Members.Self()
	}
	r.lists.here = &m
	c.Send(r.routes.relay, relay.List{Seq: m.Seq})
}

// listed answers with what is open everywhere.
func (r *router) listed(c actor.Context, m relay.Listed) {
	if r.lists.here == nil || m.Seq != r.lists.asked {
		return
	}
	all := *r.lists.here
	all.Sessions = append(all.Sessions, m.Sessions...)
	if r.watch.known != nil {
		for i := range all.Sessions {
			r.isWhere(&all.Sessions[i])
		}
	}
	r.openList(c, all)
	late := r.watch.late
	r.watch.late = nil
	for _, now := range late {
		r.sessionChanged(c, now)
	}
}
