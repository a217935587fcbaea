package extension

import (
	"encoding/json"
	"slices"
	"time"

	"troupe/actors/core"
	"troupe/protocol"
)

// Events makes of the events of a session's wire those that its extensions are
// told. The zero value begins with the first run.
type Events struct {
	turn  int                    // of the run, from 0
	cycle bool                   // the model is chosen by cycle_model
	level protocol.ThinkingLevel // before the change that comes next
	leaf  string                 // before the navigation that comes next
	why   string                 // the compaction that goes on was begun
	asked core.HookSet           // about events that come next: whoever was asked is not told
}

// Asked notes that extensions are asked about an event, or, taken back, are not after
// all. Who was asked is not told of it again.
func (e *Events) Asked(h core.Hook, back bool) {
	of := core.KindOf(h) & (core.HookMessageEnd | core.HookTurnEnd | core.HookAgentEnd) // others have no event
	switch {
	case !back:
		e.asked |= of
	case of != core.HookAgentEnd: // behind which they have begun to do what they do at the end
		e.asked &^= of
	}
}

// Begin notes what there was before the first event.
func (e *Events) Begin(level protocol.ThinkingLevel, leaf string) { e.level, e.leaf = level, leaf }

// Cycles notes whether a model that is chosen now is chosen by cycle_model.
func (e *Events) Cycles(does bool) { e.cycle = does }

// wasAsked says whether extensions were asked about the event that comes now.
func (e *Events) wasAsked(of core.HookSet) bool {
	was := e.asked.Has(of)
	e.asked &^= of
	return was
}

// Of is an event as extensions are told of it, if somebody listens: most have the
// names of the wire. "" is one that they are not told of.
func (e *Events) Of(ev protocol.Event, listens func(string) bool) (string, json.RawMessage) {
	switch ev := ev.(type) {
	case protocol.AgentStart:
		e.turn = -1
		return told("agent_start", listens, func() any { return struct{}{} })
	case protocol.TurnStart:
		e.turn++
		return told("turn_start", listens, func() any {
			return map[string]any{"turnIndex": e.turn, "timestamp": time.Now().UnixMilli()}
		})
	case protocol.MessageEnd:
		if _, answer := ev.Message.(*protocol.AssistantMessage); answer && e.wasAsked(core.HookMessageEnd) {
			return "", nil
		}
		if !listens("message_end") {
			return "", nil
		}
		return "message_end", typed("message_end", protocol.AppendValue(nil, ev))
	case protocol.TurnEnd:
		if e.wasAsked(core.HookTurnEnd) {
			return "", nil
		}
		return told("turn_end", listens, func() any {
			return map[string]any{
				"turnIndex": e.turn, "message": json.RawMessage(protocol.AppendValue(nil, ev.Message)),
				"toolResults": json.RawMessage(protocol.AppendValue(nil, ev.ToolResults)),
			}
		})
	case protocol.AgentEnd:
		if e.wasAsked(core.HookAgentEnd) {
			return "", nil
		}
		return ofWire(ev, listens)
	case *protocol.MessageUpdate:
		return told("message_update", listens, func() any { return updateEvent(ev) })
	case protocol.ThinkingLevelChanged:
		was := e.level
		e.level = ev.Level
		return told("thinking_level_select", listens, func() any { return map[string]any{"level": ev.Level, "previousLevel": was} })
	case protocol.AgentSettled:
		return told("agent_settled", listens, func() any { return map[string]any{"aborted": ev.Aborted} })
	case protocol.SessionInfoChanged:
		return told("session_info_changed", listens, func() any { return map[string]any{"name": ev.Name} })
	case protocol.SessionChanged:
		was := e.leaf
		e.leaf = ev.LeafID
		if ev.Reason == "tree" {
			return told("session_tree", listens, func() any { return map[string]any{"newLeafId": ev.LeafID, "oldLeafId": was} })
		}
		return "", nil
	case protocol.AutoCompactionStart:
		e.why = ev.Reason
		return ofWire(ev, listens)
	case protocol.AutoCompactionEnd:
		if ev.Result == nil && listens("session_compact_failed") {
			return told("session_compact_failed", listens, func() any {
				return map[string]any{"reason": ev.Reason, "errorMessage": ev.ErrorMessage, "aborted": ev.Aborted, "willRetry": ev.WillRetry, "fromExtension": false}
			})
		}
		return ofWire(ev, listens)
	case protocol.ExtensionError: // they have made it
		return "", nil
	default:
		if row := protocol.RowOf(ev); row.Dialog || row.To != protocol.Everybody {
			return "", nil
		}
		return ofWire(ev, listens)
	}
}

// ofWire is an event under its name on the wire.
func ofWire(ev protocol.Event, listens func(string) bool) (string, json.RawMessage) {
	for _, row := range protocol.RowsOf(ev) {
		if row.Needs == "" && listens(row.Name) {
			return row.Name, typed(row.Name, protocol.AppendValue(nil, ev))
		}
	}
	return "", nil
}

func told(name string, listens func(string) bool, payload func() any) (string, json.RawMessage) {
	if !listens(name) {
		return "", nil
	}
	raw := protocol.JSON(payload())
	return name, typed(name, raw)
}

// typed puts a type in front of the members of an object.
func typed(name string, object []byte) json.RawMessage {
	out := slices.Concat([]byte(`{"type":`), protocol.AppendString(nil, name))
	if string(object) != "{}" {
		out = append(out, ',')
	}
	return append(out, object[1:]...)
}

// updateEvent is a step of a growing message. The message itself grows in the
// virtual machine.
func updateEvent(u *protocol.MessageUpdate) any {
	step := [...]string{"start", "delta", "end"}[u.Step]
	ev := map[string]any{"type": u.Kind.String() + "_" + step, "contentIndex": u.Index}
	if u.Step == protocol.UpdateDelta {
		ev["delta"] = u.Delta
	}
	if u.Block != nil {
		ev["block"] = json.RawMessage(protocol.AppendValue(nil, u.Block))
	}
	return map[string]any{"assistantMessageEvent": ev}
}

// OfEntry is an event about an entry that was added, if somebody listens. was is
// the model before it.
func (e *Events) OfEntry(r protocol.Record, was, now *protocol.Model, listens func(string) bool) (string, json.RawMessage) {
	if _, summary := r.Entry.(protocol.BranchSummary); !summary { // that is where one goes
		e.leaf = r.ID
	}
	switch entry := r.Entry.(type) {
	case protocol.ModelChange:
		return told("model_select", listens, func() any {
			source := "set"
			if e.cycle {
				source = "cycle"
			}
			ev := map[string]any{"source": source, "model": json.RawMessage(protocol.AppendValue(nil, now))}
			if was != nil {
				ev["previousModel"] = json.RawMessage(protocol.AppendValue(nil, was))
			}
			return ev
		})
	case protocol.Compaction:
		return told("session_compact", listens, func() any {
			return map[string]any{"compactionEntry": json.RawMessage(r.AppendJSON(nil)), "fromExtension": entry.FromHook, "reason": e.why, "willRetry": e.why == "overflow"}
		})
	default:
		return "", nil
	}
}
