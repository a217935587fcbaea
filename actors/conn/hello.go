package conn

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/link"
	"troupe/actors/relay"
	"troupe/protocol"
)

// hello chooses how the client is written to from now on, and by which rules the
// sessions behave that it opens. Of those that are open already it changes the
// ones that nobody else hears, unless this client may only look.
func (r *router) hello(c actor.Context, req protocol.Request, h protocol.Hello) {
	wire, rules, ok := cmp.Or(protocol.Dialect(h.Dialect), r.out.Wire.Dialect).Open(h.Features...)
	if !ok {
		r.answer(c, req, nil, protocol.CodeInvalidParams.Errorf("Unknown dialect: %s", h.Dialect))
		return
	}
	who, err := h.Who()
	if err != nil {
		r.answer(c, req, nil, err)
		return
	}
	wire.ShowOnly(h.UI)
	r.out.Wire, r.rules = &wire, rules
	r.nameClient(c, who)
	c.Send(r.out.Writer, setWire{wire})
	for _, to := range r.routes.byHandle {
		c.Send(to.pid, link.SetDialect{Client: r.client(c, to), Rules: rules, Looks: r.cfg.ViewOnly})
	}
	for _, to := range r.routes.opening {
		to.backlog = append(to.backlog, link.SetDialect{Client: r.client(c, to), Rules: rules, Looks: r.cfg.ViewOnly})
	}
	if r.routes.relay != nil {
		c.Send(r.routes.relay, relay.Hello{Client: r.out})
	}
	r.answer(c, req, r.info(), nil)
}

func (r *router) info() protocol.ProtocolInfo {
	info := protocol.ProtocolInfo{
		Protocol: "pi-rpc", Dialect: string(r.out.Wire.Dialect), Features: r.out.Wire.On(), Epoch: r.server.Epoch,
		Events: protocol.EventTypes(),
		Limits: protocol.ProtocolLimits{MaxLineBytes: r.cfg.MaxLine, MaxSessions: r.server.MaxSessions, MaxOutputBytes: r.cfg.MaxOutput},
		Server: protocol.ServerInfo{Name: "troupe", Version: r.server.Version}, Scope: r.scope(),
	}
	info.Limits.RingBytes = r.server.RingBytes
	if name := r.out.Name(); name != nil {
		info.ClientID = name.ClientID
	}
	if r.out.Wire.Has(protocol.FeatureHeartbeat) {
		info.HeartbeatMs = protocol.HeartbeatMs
	}
	for _, s := range protocol.Commands {
		if !r.cfg.ViewOnly || s.Is(protocol.Looks) {
			info.Commands = append(info.Commands, s.Name)
		}
	}
	slices.Sort(info.Commands)
	return info
}

// scope is what a client that may not do everything may do.
func (r *router) scope() string {
	if r.cfg.ViewOnly {
		return "view"
	}
	return ""
}
