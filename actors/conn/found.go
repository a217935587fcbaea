package conn

import (
	"cmp"
	"encoding/json"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// A session that the client names by its id, by a path of its copy, or by a handle to which it has not attached is looked for on
// other nodes if it is not open here. What it wants of it is kept until a node says by which handle it has the session, and is
// then led there as what was said by that.

// elsewhere is how other nodes are asked for a session by its id; nil where that is not to be.
func (r *router) elsewhere(to *route, id string) *relay.Find {
	if !r.seesNodes() || r.server.Cluster.Held == nil {
		return nil
	}
	return &relay.Find{Key: to.key, ID: id}
}

// findElsewhere looks on other nodes for a session that is not open here.
func (r *router) findElsewhere(c actor.Context, to *route) {
	r.routes.opening[to.key] = to
	c.Send(r.routes.relay, *to.elsewhere)
	r.stopFinding(c)
}

// openUnlessElsewhere opens a session of the cluster by its file here, unless another node has it open.
func (r *router) openUnlessElsewhere(c actor.Context, spec link.OpenSpec, id string) *route {
	to := r.newRoute()
	to.tag, to.opens = "pending", &spec
	if to.elsewhere = r.elsewhere(to, id); to.elsewhere == nil {
		r.spawn(c, to, spec)
		return to
	}
	r.findElsewhere(c, to)
	return to
}

// openDefault opens the default session. One of the cluster is what it is where it is open, here or on another node; where it is
// not it is opened here, or else where it can be.
func (r *router) openDefault(c actor.Context, spec link.OpenSpec) *route {
	id := relay.CopyOf(spec.Path)
	if r.routes.relay == nil || id == "" {
		return r.open(c, spec, true)
	}
	spec.Follows = true
	to := r.newRoute()
	if to.elsewhere = r.elsewhere(to, id); to.elsewhere == nil {
		r.spawn(c, to, spec)
		return to
	}
	to.opens = &spec
	c.Send(r.server.Sessions, link.FindSession{Client: r.client(c, to), Key: to.key, DurableID: id, Hears: true})
	return to
}

// mayBeKnown says whether a command for a session to which the client has not attached may have been carried out: its client
// has named itself, and may have given it by another connection, to whichever node.
func (r *router) mayBeKnown(req protocol.Request) bool {
	return r.routes.relay != nil && r.out.Ledger() != nil && actsOnce(req)
}

// findKnown leads such a command to its session, which answers it if it has been carried out. The client hears nothing of the session.
func (r *router) findKnown(c actor.Context, handle string) *route {
	r.current.known = true
	if to := r.routes.to(handle); to != nil {
		return to
	}
	to := r.find(c, protocol.AttachSession{SessionID: handle})
	if to.elsewhere = r.elsewhere(to, handle); to.elsewhere != nil {
		to.elsewhere.ByHandle = true
	}
	to.detached = true
	return to
}

// found goes on with a session that other nodes were asked for.
func (r *router) found(c actor.Context, m relay.Found) {
	to := r.routes.opening[m.Key]
	if to == nil || to.elsewhere == nil {
		return
	}
	delete(r.routes.opening, m.Key)
	of := *to.elsewhere
	to.elsewhere = nil
	switch {
	case m.Err != nil:
		r.refuseBacklog(c, to, m.Err)
	case r.goes():
		r.refuseBacklog(c, to, protocol.CodeSessionClosing.Errorf("The connection is closing"))
	case to == r.routes.main && m.Handle+m.Node != "":
		to.handle = cmp.Or(m.Handle, of.ID)
		c.Send(r.routes.relay, relay.Follow{Session: to.handle, Default: true, Hears: true, New: true})
		r.askRelay(c, to)
	case to.opens != nil && m.Node != "":
		r.refuseBacklog(c, to, protocol.CodeSessionInUse.Errorf("Session file is in use: %s (by node %s)", to.opens.Path, m.Node))
	case to.opens != nil:
		r.spawn(c, to, *to.opens)
	case of.ByHandle && (m.Handle != "" || !to.detached): // the client may have attached meanwhile, which takes a session that is open nowhere
		r.askRelay(c, to)
	case m.Handle != "":
		r.nameRoute(c, to, m.Handle)
	case to.path != "":
		r.openFile(c, to)
	default:
		r.refuseBacklog(c, to, protocol.CodeUnknownSession.Errorf("Unknown session: %s", of.ID))
	}
}

// nameRoute goes on with a session by its handle.
func (r *router) nameRoute(c actor.Context, to *route, handle string) {
	for i, b := range to.backlog {
		if req, is := b.(link.Request); is {
			to.backlog[i] = byHandle(req, handle)
		}
	}
	if known := r.routes.to(handle); known != nil {
		r.join(c, to, known)
		return
	}
	to.handle = handle
	r.askRelay(c, to)
}

// byHandle is an attach by the handle of its session, in the place of another name that not every node knows.
func byHandle(m link.Request, handle string) link.Request {
	cmd, is := m.Cmd.(protocol.AttachSession)
	if !is {
		return m
	}
	var line map[string]json.RawMessage
	name, err := json.Marshal(handle)
	if err == nil {
		err = json.Unmarshal(m.Line, &line)
	}
	if err == nil {
		delete(line, "durableId")
		delete(line, "sessionPath")
		line["sessionId"] = name
		m.Line, err = json.Marshal(line)
	}
	if err != nil { // it was read before
		panic(err)
	}
	cmd.SessionID, cmd.DurableID, cmd.SessionPath = handle, "", ""
	m.Cmd, m.Tag = cmd, handle
	return m
}

// goes says whether the client is left at once.
func (r *router) goes() bool { return r.leaving != nil && (r.leaving.Abort || r.leaving.Gone) }

// stopFinding answers what waits for a session of another node when its client has gone.
func (r *router) stopFinding(c actor.Context) {
	if !r.goes() {
		return
	}
	for key, to := range r.routes.opening {
		if to.elsewhere != nil {
			r.found(c, relay.Found{Key: key})
		}
	}
}
