package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
)

// answer answers a command from the log, the resources or the tools.
func (s *Session) answer(c actor.Context, e session.Answer) {
	data, err := s.lookUp(e.Cmd)
	if err != nil {
		s.reply(e.Seq, nil, err)
		return
	}
	s.reply(e.Seq, data, nil)
}

func (s *Session) lookUp(cmd protocol.Command) (protocol.Result, *protocol.Error) {
	view := s.file.View()
	switch cmd.(type) {
	case protocol.GetMessages:
		return result(s.messages())
	case protocol.GetSessionStats:
		return result(view.Stats())
	case protocol.GetLastAssistantText:
		text, err := view.LastAssistantText()
		return result(protocol.TextResult{Text: text}, err)
	case protocol.GetCommands:
		return s.commands(), nil
	default:
		return nil, protocol.CodeUnsupported.Errorf("This command is not supported by this version")
	}
}

// result wraps what a look-up found, or the failure to read the session.
func result[T any](v T, err error) (protocol.Result, *protocol.Error) {
	if err != nil {
		return nil, protocol.CodeIO.Errorf("Session cannot be read: %s", err)
	}
	return protocol.JSON(v), nil
}

// messages is the context, as clients see it.
func (s *Session) messages() (messageList, error) {
	if err := s.buildContext(); err != nil {
		return messageList{}, err
	}
	return messageList{s.context.Messages()}, nil
}

// messageList is MessageList with messages that write themselves.
type messageList struct{ messages []protocol.Message }

func (l messageList) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil), nil }

func (l messageList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"messages":[`...)
	for i, m := range l.messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.AppendJSON(dst)
	}
	return append(dst, "]}"...)
}

// buildContext reads the branch as a model sees it, unless it is at hand.
func (s *Session) buildContext() error {
	if s.context != nil {
		return nil
	}
	ctx, err := s.file.View().Context()
	if err != nil {
		return err
	}
	s.context = ctx
	return nil
}
