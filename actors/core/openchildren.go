package core

import (
	"slices"
	"strings"

	"troupe/protocol"
)

// OpenChild is a child that clients have seen begin and not end.
type OpenChild struct {
	ID      string
	Agent   string
	Attempt int    // to verify what it has done that has begun and not ended, 0 for none
	Command string // of that attempt, likewise, "" for none
}

// OpenChildren are children that clients have seen begin and not end, in the order in
// which they have begun.
type OpenChildren []OpenChild

// observe follows an event that went out.
func (l *OpenChildren) observe(ev protocol.Event) {
	switch ev := ev.(type) {
	case protocol.SubagentStart:
		*l = append(slices.Clip(*l), OpenChild{ID: ev.ID, Agent: ev.Agent})
	case protocol.SubagentVerificationStart:
		l.change(ev.ID, func(c *OpenChild) { c.Attempt = ev.Attempt })
	case protocol.SubagentVerificationCommandStart:
		l.change(ev.ID, func(c *OpenChild) { c.Command = ev.CommandName })
	case protocol.SubagentVerificationCommandEnd:
		l.change(ev.ID, func(c *OpenChild) { c.Command = "" })
	case protocol.SubagentVerificationEnd:
		l.change(ev.ID, func(c *OpenChild) { c.Attempt = 0 })
	case protocol.SubagentEnd:
		switch list := *l; { // copies of the list stay what they are
		case len(list) == 1 && list[0].ID == ev.ID:
			*l = nil
		case len(list) > 1 && list[0].ID == ev.ID: // as of a call that is cut
			*l = list[1:]
		default:
			*l = slices.DeleteFunc(slices.Clone(list), func(c OpenChild) bool { return c.ID == ev.ID })
		}
	default: // is about no child
	}
}

func (l *OpenChildren) change(id string, change func(*OpenChild)) {
	for i := range *l {
		if (*l)[i].ID == id {
			*l = slices.Clone(*l)
			change(&(*l)[i])
			return
		}
	}
}

// closing are the events that end all that is open: the children of a child before it,
// and else in the order in which they have begun. An attempt to verify ends with a status.
func (l OpenChildren) closing(why, status string) (list []protocol.Event) {
	inside := func(id, of string) bool { return strings.HasPrefix(id, of+".") }
	end := func(c OpenChild) {
		if c.Command != "" {
			list = append(list, protocol.SubagentVerificationCommandEnd{ID: c.ID, Attempt: c.Attempt, CommandName: c.Command, ExitCode: cutShort})
		}
		if c.Attempt != 0 {
			list = append(list, protocol.SubagentVerificationEnd{ID: c.ID, Attempt: c.Attempt, Status: status})
		}
		list = append(list, protocol.SubagentEnd{ID: c.ID, Agent: c.Agent, ExitCode: 1, Aborted: true, Error: why})
	}
	for _, c := range l {
		if slices.ContainsFunc(l, func(o OpenChild) bool { return inside(c.ID, o.ID) }) {
			continue
		}
		for _, o := range slices.Backward(l) {
			if inside(o.ID, c.ID) {
				end(o)
			}
		}
		end(c)
	}
	return list
}
