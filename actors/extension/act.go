package extension

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/protocol/extension"
)

// hookName is what a hook is called in an error of whoever answers it.
func hookName(h core.Hook) string { return cmp.Or(hookNames[core.KindOf(h)], prepareArguments) }

// read is the arguments of an act or op.
func read[T any](raw json.RawMessage) (args T, err error) {
	if len(raw) == 0 {
		return args, nil
	}
	err = json.Unmarshal(raw, &args)
	return args, err
}

// act does what an extension wants, without an answer. The error is for its author.
func (v *VM) act(c actor.Context, m extension.Act) error {
	tell := func(msg any) { c.Send(c.Parent(), msg) }
	switch m.Name {
	case "sendMessage":
		in, err := readSend(m.Args)
		if err != nil {
			return err
		}
		tell(in)
	case "appendEntry":
		e, err := read[struct {
			EntryID    string          `json:"entryId"`
			CustomType string          `json:"customType"`
			Data       json.RawMessage `json:"data"`
		}](m.Args)
		if err != nil {
			return err
		}
		tell(core.EntryMade{ID: e.EntryID, Entry: protocol.Custom{CustomType: e.CustomType, Data: e.Data}})
	case "ui":
		req, err := readUI(m.Args)
		if err != nil {
			return err
		}
		tell(UI{Request: req})
	case "shutdown":
		tell(Shutdown{})
	case "streamPart":
		return v.tools.streamPart(m.Args)
	default:
		cmd, err := command(m.Name, m.Args)
		if err != nil {
			return err
		}
		tell(Run{Act: m.Name, Cmd: cmd})
	}
	return nil
}

// op does what an extension waits for. The error rejects its promise.
func (v *VM) op(c actor.Context, m extension.Op) error {
	leaves := v.life.rebound && !v.life.ready         // the session that it asks about has been left
	if (v.life.closing || leaves) && m.Name == "ui" { // nobody is there to answer
		v.say(extension.Answer{Op: m.ID, Result: json.RawMessage(`{"cancelled":true}`)})
		return nil
	}
	if v.life.closing {
		return fmt.Errorf("%s: the session has ended", m.Name)
	}
	op := v.opOf(m.ID)
	switch m.Name {
	case "ui":
		req, err := readUI(m.Args)
		if err != nil {
			return err
		}
		c.Send(c.Parent(), UI{Op: op, Session: v.life.session, Request: req})
	case "waitForIdle":
		c.Send(c.Parent(), WaitIdle{op})
	case "complete":
		c.Send(c.Parent(), Complete{op, m.Args})
	case "executeTool":
		a, err := read[struct {
			Parent, Name string
			Args         json.RawMessage
		}](m.Args)
		if err != nil {
			return err
		}
		c.Send(c.Parent(), ExecuteTool{Op: op, Parent: a.Parent, Name: a.Name, Args: a.Args})
	case "apiKey":
		a, err := read[struct{ Provider, ModelID string }](m.Args)
		if err != nil {
			return err
		}
		c.Send(c.Parent(), Key{op, a.Provider, a.ModelID})
	default:
		cmd, err := command(m.Name, m.Args)
		if err != nil {
			return err
		}
		run := Run{Op: op, Act: m.Name, Cmd: cmd}
		if m.Name == "newSession" || m.Name == "fork" {
			if run.Replacing, err = replacing(m.Name, m.Args); err != nil {
				return err
			}
		}
		c.Send(c.Parent(), run)
	}
	return nil
}

// readSend reads pi.sendMessage(message, options).
func readSend(raw json.RawMessage) (in core.CustomSent, err error) {
	args, err := read[struct {
		Message json.RawMessage `json:"message"`
		Options struct {
			TriggerTurn *bool  `json:"triggerTurn"`
			DeliverAs   string `json:"deliverAs"`
		} `json:"options"`
	}](raw)
	if err != nil {
		return in, err
	}
	if in.Message, err = CustomMessage(args.Message); err != nil {
		return in, err
	}
	trigger := args.Options.TriggerTurn
	in.Trigger = trigger != nil && *trigger
	switch args.Options.DeliverAs {
	case "", "steer":
		if trigger != nil && !*trigger && args.Options.DeliverAs == "" {
			in.Deliver = core.DeliverAfterTurn
		}
	case "followUp":
		in.Deliver = core.DeliverFollowUp
	case "nextTurn":
		in.Deliver = core.DeliverNextTurn
	default:
		return in, fmt.Errorf("unknown deliverAs: %q", args.Options.DeliverAs)
	}
	return in, nil
}

// readUI reads a record of extension_ui_request. Its id is the session's to give.
func readUI(raw json.RawMessage) (protocol.ExtensionUIRequest, error) {
	if len(raw) > maxRecord {
		return protocol.ExtensionUIRequest{}, fmt.Errorf("the record has %d bytes, more than %d", len(raw), maxRecord)
	}
	return read[protocol.ExtensionUIRequest](raw)
}

// maxRecord bounds a record of extension_ui_request, in bytes.
const maxRecord = 1 << 20

// command is an act or op that is a command of the wire, too.
func command(name string, raw json.RawMessage) (protocol.Command, error) {
	switch name {
	case "sendUserMessage":
		return sendUserMessage(raw)
	case "setSessionName":
		return read[protocol.SetSessionName](raw)
	case "setLabel":
		a, err := read[struct{ EntryID, Label string }](raw)
		return protocol.SetEntryLabel{TargetID: a.EntryID, Label: a.Label}, err
	case "setActiveTools":
		a, err := read[struct{ Names []string }](raw)
		return protocol.SetActiveTools{ToolNames: a.Names}, err
	case "setThinkingLevel":
		return read[protocol.SetThinkingLevel](raw)
	case "abort":
		return protocol.Abort{}, nil
	case "compact":
		return read[protocol.Compact](raw)
	case "setModel":
		return read[protocol.SetModel](raw)
	case "newSession":
		return read[protocol.NewSession](raw)
	case "switchSession":
		return read[protocol.SwitchSession](raw)
	case "fork":
		return read[protocol.Fork](raw)
	case "navigateTree":
		return read[protocol.NavigateTree](raw)
	case "reload":
		return protocol.ReloadResources{}, nil
	default:
		return nil, fmt.Errorf("%s is not available in this host", name)
	}
}

// sendUserMessage is a prompt of an extension. Text parts are joined by newlines.
func sendUserMessage(raw json.RawMessage) (protocol.Command, error) {
	a, err := read[struct {
		Content protocol.Content
		Options struct {
			DeliverAs protocol.StreamingBehavior
		}
	}](raw)
	if err != nil {
		return nil, err
	}
	switch a.Options.DeliverAs {
	case "", protocol.BehaviorSteer, protocol.BehaviorFollowUp:
	default:
		return nil, fmt.Errorf("unknown deliverAs: %q", a.Options.DeliverAs)
	}
	return protocol.Prompt{Message: a.Content.Text("\n"), Images: a.Content.Images(), StreamingBehavior: a.Options.DeliverAs}, nil
}
