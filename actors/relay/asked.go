package relay

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// asked is what extensions and children of a session have asked the client, and the commands of extensions that it has begun, with the
// events that end them. They end with the life of the node, which cannot say so then; what the session itself asks about calls is
// asked again under its id, unless runs do not go on elsewhere.
type asked struct {
	from string // the life of the node that has said so
	list []over
}

// over is the end of one of them.
type over struct {
	id    string // "" for what is over
	ev    protocol.Event
	again bool // the next owner asks it again under its id, so that it does not end with its node
}

func (a *asked) add(id string, ev protocol.Event) { a.list = append(a.list, over{id: id, ev: ev}) }

func (a *asked) drop(id string) {
	if i := slices.IndexFunc(a.list, func(o over) bool { return o.id == id }); i >= 0 {
		a.list = slices.Delete(a.list, i, i+1)
	}
}

// endMissed ends the dialogs and approvals that are not open any more, and returns the events that do.
func (a *asked) endMissed(open map[string]bool) (list []protocol.Event) {
	a.list = slices.DeleteFunc(a.list, func(o over) bool {
		gone := o.id != "" && !strings.HasPrefix(o.id, ofCommand) && !open[o.id]
		if gone {
			list = append(list, o.ev)
		}
		return gone
	})
	return list
}

// end ends all that end with their node, and returns the events that do.
func (a *asked) end() (list []protocol.Event) {
	a.list = slices.DeleteFunc(a.list, func(o over) bool {
		if !o.again {
			list = append(list, o.ev)
		}
		return !o.again
	})
	return list
}

// seen is what a client has been shown of a session whose end it has not been told.
type seen struct {
	spans // of a client that is not told to attach again
	asked asked
}

const ofCommand = "command " // begins the ids of commands

// asks follows what a client is asked, where it wants to be told that it is over.
func (r *relay) asks(n *node, kind string, line []byte) {
	s := r.sessions[gjson.GetBytes(line, "sessionId").Str]
	if s == nil {
		return
	}
	s.seen.asked.from = n.lifeOf()
	switch id := gjson.GetBytes(line, "id").Str; kind {
	case "dialog_resolved", "approval_resolved":
		s.seen.asked.drop(id)
	case "extension_command_end":
		s.seen.asked.drop(ofCommand + gjson.GetBytes(line, "name").Str)
	default:
		r.shows(s, kind == "approval_request", gjson.ParseBytes(line))
	}
}

// shows notes a dialog that the client is shown.
func (r *relay) shows(s *session, approval bool, v gjson.Result) {
	id, wire := v.Get("id").Str, r.side.out.Wire
	asks := approval || protocol.ExtensionUIRequest{Method: v.Get("method").Str}.Asks() && wire.Has(protocol.FeatureDialogEvents)
	if !asks {
		return
	}
	s.seen.asked.drop(id) // it may be shown again
	o := over{id: id, ev: protocol.DialogResolved{ID: id, Outcome: protocol.DialogLost}, again: !protocol.AsksOnce(id) && !s.looking.child && !r.shared.Stops}
	if approval {
		o.ev = protocol.ApprovalResolved{ID: id, ToolCallID: v.Get("toolCallId").Str, Outcome: "cancelled"}
	}
	s.seen.asked.list = append(s.seen.asked.list, o)
}

// listed notes the dialogs that an attach has found open.
func (r *relay) listed(n *node, s *session, answer []byte) {
	s.seen.asked.from = n.lifeOf()
	open := gjson.GetManyBytes(answer, "data.dialogs", "data.approvals")
	for i, list := range open {
		for _, v := range list.Array() {
			r.shows(s, i == 1, v)
		}
	}
}

// runsCommand notes that a command of an extension runs, where the client wants to be told its end.
func (r *relay) runsCommand(n *node, s *session, a *ask, answer []byte) {
	cmd, is := a.cmd().(protocol.Expandable)
	if !is || gjson.GetBytes(answer, "data.disposition").Str != protocol.Handled.Disposition || !r.side.out.Wire.Has(protocol.FeatureStateEvents) {
		return
	}
	if rest, is := strings.CutPrefix(cmd.Text(), "/"); is {
		name, _, _ := strings.Cut(rest, " ")
		s.seen.asked.from = n.lifeOf()
		s.seen.asked.add(ofCommand+name, protocol.ExtensionCommandEnd{Name: name})
	}
}
