package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// adopt has a session go on on this node whose directory is on another one, in a directory that is here. Nobody
// has it open behind that: who asks for it next is led here.
func (h *Shared) adopt(cmd protocol.AdoptSession) (protocol.Result, error) {
	if st, err := os.Stat(cmd.Cwd); !filepath.IsAbs(cmd.Cwd) || err != nil || !st.IsDir() {
		return nil, protocol.CodeInvalidParams.Errorf("Not a directory on this node: %s", cmd.Cwd)
	}
	k, o := h.keep(h.Cluster.led(cmd.SessionID), cluster.Wants{}), h.logOptions()
	k.how.adopts, o.Commit = true, k
	log, err := k.open(o)
	if err != nil || log == nil {
		k.Close(false)
		return nil, adoptError(cmd.SessionID, err)
	}
	defer closeFile(log, h.complaints.log)
	st, err := log.View().State()
	if err != nil {
		return nil, openError(log.Path(), err)
	}
	now := time.Now().UnixMilli()
	_, err = log.Append(protocol.AdoptedEntry(k.owned.From, cmd.Cwd), now, true)
	if err == nil && !st.Interrupted { // else a result comes first, with what it has to say
		_, err = log.Append(protocol.CustomMessageEntry{
			CustomType: "failover", Display: true,
			Content: protocol.TextContent("The session goes on on another machine. The directory is now " + cmd.Cwd + ". What was in the one before may not be there."),
		}, now, true)
	}
	if err != nil {
		return nil, keptError(cmd.SessionID, err)
	}
	return protocol.AdoptedSession{SessionID: cmd.SessionID, Cwd: cmd.Cwd, From: k.owned.From}, nil
}

// adoptError says why a session is not adopted. Without an error there is nothing in it.
func adoptError(id string, err error) *protocol.Error {
	var elsewhere *cluster.ElsewhereError
	var parked *cluster.ParkedError
	switch {
	case errors.As(err, &parked):
		return protocol.CodeSessionInUse.Errorf("Session %s is open on node %s, which lives", id, parked.Node)
	case err == nil, errors.Is(err, cluster.ErrNoSession):
		return protocol.CodeUnknownSession.Errorf("Unknown session: %s", id)
	case errors.As(err, &elsewhere):
		return protocol.CodeSessionInUse.Errorf("Session %s is open on node %s, which lives", id, elsewhere.Node)
	case errors.Is(err, cluster.ErrAnywhere):
		return protocol.CodeInvalidParams.Errorf("Session %s needs no adoption: %s", id, err)
	}
	return keptError(id, err)
}

// clusterInfo is how the cluster is, as far as this node and the engine know.
func (h *Shared) clusterInfo() (protocol.Result, error) {
	cl := h.Cluster
	if cl == nil || cl.Engine == nil {
		return nil, protocol.CodeUnsupported.Errorf("There are no other nodes: this daemon is alone")
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	info := protocol.ClusterInfo{Node: cl.Member.Self(), Groups: []protocol.ClusterGroup{}, Nodes: []protocol.ClusterNode{}, Sessions: []protocol.ClusterSession{}}
	_, info.Lease = cl.Member.Lease()
	for _, n := range cl.Member.Seen() {
		info.Nodes = append(info.Nodes, clusterNode(n))
	}
	st, err := cl.Engine.Status(ctx)
	info.Engine = st.Engine
	for _, g := range st.Groups {
		of := protocol.ClusterGroup{Name: g.Name, Leader: g.Leader, Records: g.Records, Bytes: g.Bytes, Others: []protocol.ClusterServer{}}
		for _, s := range g.Others {
			of.Others = append(of.Others, protocol.ClusterServer(s))
		}
		info.Groups = append(info.Groups, of)
	}
	ids, all, unlisted := cl.indexed(ctx)
	for _, id := range ids {
		if s := all[id]; s.Node != "" {
			info.Sessions = append(info.Sessions, protocol.ClusterSession{SessionID: s.ID, Node: s.Node, Runs: s.Runs})
		}
	}
	if err = errors.Join(err, unlisted); err != nil {
		info.Problem = err.Error()
	}
	return info, nil
}

func clusterNode(n cluster.Seen) protocol.ClusterNode {
	of := protocol.ClusterNode{
		Name: n.Name, Addr: n.Addr, Version: n.Version, State: "lives", HeardMs: time.Since(n.When).Milliseconds(), Sessions: n.Sessions,
		Labels: n.Labels, Roots: map[string]string{},
	}
	if of.Labels == nil {
		of.Labels = map[string]string{}
	}
	for name, root := range n.Roots {
		of.Roots[name] = string(root.Mode)
	}
	switch {
	case n.Lives && n.Draining:
		of.State = "draining"
	case n.Draining:
		of.State = "ended"
	case !n.Lives:
		of.State = "silent"
	}
	return of
}
