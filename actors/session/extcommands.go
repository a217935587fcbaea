package session

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/extension"
	"troupe/protocol"
	words "troupe/protocol/extension"
)

// extensionCommands are the commands that extensions have registered, with where
// they come from.
func (s *Session) extensionCommands() []protocol.SlashCommand {
	list := []protocol.SlashCommand{}
	for _, c := range s.ext.commands {
		list = append(list, protocol.SlashCommand{Name: c.Name, Description: c.Description, Source: "extension", Path: c.Path, SourceInfo: s.sourceOf(c.Path)})
	}
	return list
}

// extensionCommand finds the command of an extension that a message names.
func (s *Session) extensionCommand(cmd protocol.Command) *core.ExtensionCommand {
	text, ok := cmd.(protocol.Expandable)
	if !ok || len(s.ext.commands) == 0 {
		return nil
	}
	name, args, ok := slashCommand(text.Text())
	if !ok || !slices.ContainsFunc(s.ext.commands, func(x words.CommandDef) bool { return x.Name == name }) {
		return nil
	}
	return &core.ExtensionCommand{Name: name, Args: args}
}

// slashCommand takes /name args apart.
func slashCommand(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	name, args, _ = strings.Cut(rest, " ")
	return name, args, ok && name != ""
}

func (s *Session) runExtensionCommand(e core.RunCommand) {
	s.update()
	s.reported.commands.running = append(s.reported.commands.running, e.Name)
	s.ext.send(extension.RunCommand{RunCommand: e, Snapshot: protocol.JSON(map[string]json.RawMessage{"systemPromptOptions": s.promptOptions()})})
}

// commandsOf are the commands of extensions whose end clients have not been told.
type commandsOf struct {
	running []string
	over    []string // while something goes on in the session
}

// commandsRun says whether a command of an extension has not ended.
func (s *Session) commandsRun() bool { return len(s.reported.commands.running) > 0 }

func (s *Session) commandOver(name string) {
	of := &s.reported.commands
	if i := slices.Index(of.running, name); i >= 0 {
		of.running = slices.Delete(of.running, i, i+1)
		of.over = append(of.over, name)
	}
	s.tellCommands()
}

// tellCommands tells clients of the commands that have ended, when what they have begun has, too.
func (s *Session) tellCommands() {
	of := &s.reported.commands
	if len(of.over) == 0 || !s.m.AtRest() {
		return
	}
	for _, name := range of.over {
		s.emit(protocol.ExtensionCommandEnd{Name: name})
	}
	of.over = nil
}

// runFor carries out a command of an extension.
func (s *Session) runFor(c actor.Context, m extension.Run) {
	s.ext.asks.seq++
	cmd := core.Command{Seq: s.ext.asks.seq, Name: m.Act, Cmd: m.Cmd, FromExtension: true}
	s.ext.asks.commands[cmd.Seq] = ask{m.Op, m.Act}
	if len(m.Replacing.Setup) > 0 || m.Replacing.At {
		s.ext.asks.more[cmd.Seq] = m.Replacing
	}
	s.step(c, s.complete(cmd))
}

// replied gives an extension the answer to its command; false if it is not its own.
func (s *Session) replied(seq uint64, data protocol.Result, err *protocol.Error) bool {
	a, ok := s.ext.asks.commands[seq]
	if !ok {
		return seq >= firstSeq // of those that have been replaced: nobody waits any more
	}
	delete(s.ext.asks.commands, seq)
	switch {
	case a.op != 0 && a.act == "setModel" && err != nil && err.Code == protocol.CodeNoKey:
		s.answerOp(a.op, json.RawMessage(`{"noKey":true}`), "")
	case a.op != 0 && err != nil:
		s.answerOp(a.op, nil, err.Message)
	case a.op != 0:
		raw := json.RawMessage("null")
		if data != nil {
			raw = protocol.AppendValue(nil, data)
		}
		if s.ext.load.rebind != "" { // they belong to another session from now on
			s.ext.asks.later = append(s.ext.asks.later, words.Answer{Op: a.op, Result: raw})
			break
		}
		s.answerOp(a.op, raw, "")
	case err != nil:
		s.extensionFailed(runtimeFailure(a.act, err.Message))
	}
	return true
}

// innerDone gives an extension the result of a call that its tool has made.
func (s *Session) innerDone(e core.InnerDone) {
	if !s.ext.asks.inner[e.Op] {
		return // nobody waits any more
	}
	delete(s.ext.asks.inner, e.Op)
	if e.Err != "" {
		s.answerOp(e.Op, nil, e.Err)
		return
	}
	s.answerOp(e.Op, extension.Executed(e), "")
}

// answerIdle tells extensions that have waited that nothing goes on any more.
func (s *Session) answerIdle() {
	if len(s.ext.asks.idle) == 0 || s.m.Phase() != core.PhaseIdle {
		return
	}
	for _, op := range s.ext.asks.idle {
		s.answerOp(op, json.RawMessage("null"), "")
	}
	s.ext.asks.idle = nil
}

func (s *Session) answerOp(op uint64, result json.RawMessage, err string) {
	s.ext.send(words.Answer{Op: op, Result: result, Err: err})
}
