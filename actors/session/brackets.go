package session

import "troupe/protocol"

// Brackets is what has been begun on the wire and not ended. It follows the
// events that really went out, so that a session that crashed, or whose log
// could not be written, can close exactly what its clients have seen open.
// The zero value is an idle session.
type Brackets struct {
	Run      protocol.RunID // "" outside a run
	Turn     bool
	Message  protocol.Message // begun and not ended
	Tools    []protocol.ToolExecutionStart
	Ended    []string           // calls of the turn whose end went out
	Messages []protocol.Message // ended, of this run
	Last     protocol.Message   // the turn's assistant message
	Results  []*protocol.ToolResultMessage
	Retry    int  // attempt announced by auto_retry_start and not ended
	Compact  bool // auto_compaction_start without its end
	// Compacting is the reason of that.
	Compacting string
	Settle     bool // a run began since the last agent_settled
	Promised   bool // a command was answered with started, and its agent_start did not go out
	LastRun    protocol.RunID
}

// NoteReply follows a successful answer that went out.
func (b *Brackets) NoteReply(data protocol.Result) {
	if d, ok := data.(protocol.Disposition); ok && d == protocol.Started && b.Run == "" {
		b.Promised = true
	}
}

// Note follows an event that went out.
func (b *Brackets) Note(ev protocol.Event) {
	switch ev := ev.(type) {
	case protocol.AgentStart:
		*b = Brackets{Run: ev.RunID, LastRun: ev.RunID, Settle: true, Retry: b.Retry}
	case protocol.AgentEnd:
		*b = Brackets{Settle: b.Settle, Retry: b.Retry, LastRun: b.LastRun}
	case protocol.TurnStart:
		b.Turn, b.Last, b.Results, b.Ended = true, nil, nil, nil
	case protocol.TurnEnd:
		b.Turn = false
	case protocol.MessageStart:
		b.Message = ev.Message
	case protocol.MessageEnd:
		b.noteMessage(ev.Message)
	case protocol.ToolExecutionStart:
		b.Tools = append(b.Tools, ev)
	case protocol.ToolExecutionEnd:
		b.Tools = without(b.Tools, ev.ToolCallID)
		b.Ended = append(b.Ended, ev.ToolCallID)
	case protocol.AutoRetryStart:
		b.Retry = ev.Attempt
	case protocol.AutoRetryEnd:
		b.Retry = 0
	case protocol.AutoCompactionStart:
		b.Compact, b.Compacting = true, ev.Reason
	case protocol.AutoCompactionEnd:
		b.Compact, b.Compacting = false, ""
	case protocol.AgentSettled:
		b.Settle = false
	case *protocol.MessageUpdate, protocol.ToolExecutionUpdate, protocol.SummarizationRetry,
		protocol.SessionChanged, protocol.QueueChanged, protocol.SessionInfoChanged,
		protocol.ThinkingLevelChanged, protocol.EntryAppended, protocol.BashExecutionUpdate,
		protocol.SessionFailed, protocol.ExtensionError, protocol.ExtensionUIRequest,
		protocol.HostToolCall, protocol.HostToolCancel, protocol.TTSRTriggered, protocol.TodoReminder:
		// these begin and end nothing
	}
}

func (b *Brackets) noteMessage(m protocol.Message) {
	b.Message = nil
	b.Messages = append(b.Messages, m)
	switch m := m.(type) {
	case *protocol.AssistantMessage:
		b.Last = m
	case *protocol.ToolResultMessage:
		b.Results = append(b.Results, m)
	case *protocol.UserMessage, *protocol.BashExecutionMessage, *protocol.CustomMessage,
		*protocol.BranchSummaryMessage, *protocol.CompactionSummaryMessage, *protocol.UnknownMessage:
	}
}

func without(tools []protocol.ToolExecutionStart, id string) []protocol.ToolExecutionStart {
	kept := tools[:0:0]
	for _, t := range tools {
		if t.ToolCallID != id {
			kept = append(kept, t)
		}
	}
	return kept
}

// Idle says that nothing is open.
func (b *Brackets) Idle() bool {
	return b.Run == "" && b.Retry == 0 && !b.Compact && !b.Settle && !b.Promised
}
