package core

import (
	"fmt"
	"strings"

	"troupe/protocol"
)

// Describe prints an effect on one line: what the stories compare.
func Describe(e Effect) string {
	switch e := e.(type) {
	case Append:
		return "Append " + DescribeEntry(e.Entry)
	case Reply:
		return describeReply(e)
	case Query:
		return fmt.Sprintf("Query %d %T", e.Seq, e.Cmd)
	case SlowQuery:
		return fmt.Sprintf("SlowQuery %d %T", e.Seq, e.Cmd)
	case NoReply:
		return fmt.Sprintf("NoReply %d", e.Seq)
	case Emit:
		return "Emit " + DescribeEvent(e.Event)
	case StartStream:
		text := fmt.Sprintf("StartStream attempt=%d model=%s/%s level=%s", e.Attempt, e.Model.Provider, e.Model.ID, e.Level)
		if e.Again {
			text += fmt.Sprintf(" repeats=%d", e.Repeats)
		}
		if e.SystemPrompt != nil {
			text += fmt.Sprintf(" system=%q", *e.SystemPrompt)
		}
		if e.Must != "" {
			text += " must=" + e.Must
		}
		return text
	case StartTool:
		return fmt.Sprintf("StartTool attempt=%d %s %s %s", e.Attempt, e.Call.ID, e.Call.Name, e.Call.Arguments)
	case Summarise:
		redo := ""
		if e.Redo {
			redo = " without the answer"
		}
		return fmt.Sprintf("Summarise attempt=%d branch=%d %q%s", e.Attempt, e.Branch, e.Instructions, redo)
	case StartChild:
		return fmt.Sprintf("StartChild attempt=%d %s %s agent=%s depth=%d tools=%v", e.Attempt, e.Call, e.Spec.Entry.ID, e.Spec.Agent.Name, e.Spec.Entry.Depth, e.Spec.Entry.Tools)
	case TellChild:
		return fmt.Sprintf("TellChild attempt=%d %s %s %s", e.Attempt, e.ID, nameOf(e.Cmd), protocol.AppendValue(nil, e.Cmd))
	case AskGrant:
		return fmt.Sprintf("AskGrant %+v %+v", e.Ticket, e.Need)
	case ReportSpent:
		return fmt.Sprintf("ReportSpent %+v all=%t %+v", e.Ticket, e.All, e.Used)
	case AnswerGrant:
		return fmt.Sprintf("AnswerGrant attempt=%d %s %+v", e.Attempt, e.ID, e.Grant)
	case LimitChild:
		return fmt.Sprintf("LimitChild attempt=%d %s %d", e.Attempt, e.ID, e.Draws)
	case CloseChild:
		return fmt.Sprintf("CloseChild attempt=%d %s", e.Attempt, e.ID)
	case Cancel:
		return fmt.Sprintf("Cancel attempt=%d", e.Attempt)
	case StartBash:
		return fmt.Sprintf("StartBash job=%d %q", e.Job, e.Command)
	case CancelBash:
		return fmt.Sprintf("CancelBash job=%d", e.Job)
	case ScheduleRetry:
		return fmt.Sprintf("ScheduleRetry attempt=%d number=%d after=%s", e.Attempt, e.Number, e.After)
	case Judge:
		return fmt.Sprintf("Judge %d %s %s mode=%s grants=%q", e.ID, e.Call.Name, e.Call.Arguments, e.Mode, e.Grants)
	case AskUI:
		return fmt.Sprintf("AskUI %s %s %q", e.Request.ID, e.Request.Method, *e.Request.Title)
	case ResolveUI:
		return fmt.Sprintf("ResolveUI %d %s", e.Seq, e.Answer.ID)
	case CancelUI:
		return "CancelUI " + e.ID
	case LoadSession:
		return fmt.Sprintf("LoadSession %d %s", e.Seq, e.Name)
	case ActivateSession:
		return fmt.Sprintf("ActivateSession %d", e.Seq)
	case LookUp:
		return fmt.Sprintf("LookUp %d %s", e.Command.Seq, e.Command.Name)
	case DropLoaded:
		return fmt.Sprintf("DropLoaded %d", e.Seq)
	case Reconfigure:
		return fmt.Sprintf("Reconfigure %d", e.Seq)
	case CallHook:
		return fmt.Sprintf("CallHook %d %s", e.ID, describeHook(e.Hook))
	case CancelHook:
		return fmt.Sprintf("CancelHook %d", e.ID)
	case RunCommand:
		return fmt.Sprintf("RunCommand %s %q", e.Name, e.Args)
	case InnerProgress:
		return fmt.Sprintf("InnerProgress %d %s", e.Op, describeContent(e.Partial.Content))
	case InnerDone:
		return fmt.Sprintf("InnerDone %d %s %s error=%t after=%d %s", e.Op, e.Call.ID, describeContent(e.Result.Content), e.IsError, e.TookMs, e.Err)
	case CancelCall:
		return fmt.Sprintf("CancelCall %d %s", e.Attempt, e.CallID)
	case SetTimer:
		return fmt.Sprintf("SetTimer %s %d", e.Name, e.AfterMs)
	case CancelTimer:
		return "CancelTimer " + e.Name
	case Closed:
		return "Closed"
	}
	panic("core: unknown effect")
}

func describeHook(h Hook) string {
	switch h := h.(type) {
	case InputHook:
		return fmt.Sprintf("input %q", said(h.Command).Text)
	case BeforeAgentStartHook:
		if note := h.Command.Note; note != nil {
			return fmt.Sprintf("before_agent_start custom %q", note.Message.Content.Text(""))
		}
		return fmt.Sprintf("before_agent_start %q", said(h.Command).Text)
	case ToolCallHook:
		return fmt.Sprintf("tool_call %s %s %s", h.Call.ID, h.Call.Name, h.Call.Arguments)
	case MessageEndHook:
		return "message_end " + DescribeMessage(h.Message)
	case TurnEndHook:
		return fmt.Sprintf("turn_end %d %s of %d results, continue=%t", h.Turn, h.MessageID, len(h.ResultIDs), h.Continue)
	case AgentEndHook:
		return fmt.Sprintf("agent_end of %d messages", len(h.Messages))
	case BeforeSettleHook:
		return "agent_before_settle " + h.Outcome
	case PrepareHook:
		return fmt.Sprintf("prepare %s %s %s", h.Call.ID, h.Call.Name, h.Call.Arguments)
	case ToolResultHook:
		return fmt.Sprintf("tool_result %s %s error=%t", h.Call.ID, describeContent(h.Result.Content), h.IsError)
	}
	panic("core: unknown hook")
}

func describeReply(r Reply) string {
	if r.Err != nil {
		return fmt.Sprintf("Reply %d error %s: %s", r.Seq, r.Err.Code, strings.ReplaceAll(r.Err.Message, "\n", "⏎"))
	}
	if r.Data == nil {
		return fmt.Sprintf("Reply %d ok", r.Seq)
	}
	return fmt.Sprintf("Reply %d ok %s", r.Seq, protocol.AppendValue(nil, r.Data))
}

// DescribeEntry prints an entry's type and what matters of its body.
func DescribeEntry(e protocol.Entry) string {
	switch e := e.(type) {
	case protocol.MessageEntry:
		text := DescribeMessage(e.Message)
		if e.QueueID != "" {
			text += " from=" + e.QueueID
		}
		return text
	case protocol.ModelChange:
		return "model_change " + e.Provider + "/" + e.ModelID
	case protocol.ThinkingLevelChange:
		return "thinking_level_change " + string(e.ThinkingLevel)
	case protocol.Custom:
		return "custom " + e.CustomType + " " + string(e.Data)
	case protocol.SessionInfo:
		return fmt.Sprintf("session_info %q", e.Name)
	case protocol.Label:
		return fmt.Sprintf("label %s %q", e.TargetID, e.Label)
	case protocol.Compaction:
		return fmt.Sprintf("compaction kept=%s %q", e.FirstKeptEntryID, e.Summary)
	case protocol.BranchSummary:
		return fmt.Sprintf("branch_summary from=%s %q", e.FromID, e.Summary)
	case protocol.CustomMessageEntry:
		return fmt.Sprintf("custom_message %s %q", e.CustomType, e.Content.Text(" "))
	case protocol.ContextEdit:
		return "context_edit " + e.TargetID
	case protocol.UnknownEntry:
		return e.Type
	}
	panic("core: unknown entry")
}

// DescribeMessage prints a message's role and content.
func DescribeMessage(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.UserMessage:
		return "user " + describeContent(m.Content)
	case *protocol.AssistantMessage:
		text := "assistant " + describeContent(m.Content) + " " + string(m.StopReason)
		if m.ErrorMessage != "" {
			text += fmt.Sprintf(" %q", m.ErrorMessage)
		}
		return text
	case *protocol.ToolResultMessage:
		text := "toolResult " + m.ToolCallID + " " + describeContent(m.Content)
		if m.IsError {
			text += " error"
		}
		return text
	case *protocol.BashExecutionMessage:
		return fmt.Sprintf("bashExecution %q %q", m.Command, m.Output)
	case *protocol.CustomMessage:
		return "custom " + m.CustomType + " " + describeContent(m.Content)
	case *protocol.BranchSummaryMessage:
		return fmt.Sprintf("branchSummary %q", m.Summary)
	case *protocol.CompactionSummaryMessage:
		return fmt.Sprintf("compactionSummary %q", m.Summary)
	case *protocol.UnknownMessage:
		return m.RoleName
	}
	panic("core: unknown message")
}

func describeContent(c protocol.Content) string {
	parts := make([]string, 0, len(c))
	for _, b := range c {
		switch b := b.(type) {
		case protocol.Text:
			parts = append(parts, fmt.Sprintf("%q", b.Text))
		case protocol.Thinking:
			parts = append(parts, fmt.Sprintf("thinking(%q sig=%q)", b.Thinking, b.Signature))
		case protocol.ToolCall:
			parts = append(parts, fmt.Sprintf("%s(%s %s)", b.Name, b.ID, b.Arguments))
		case protocol.Image:
			parts = append(parts, "image("+b.MimeType+")")
		case protocol.UnknownBlock:
			parts = append(parts, b.Type)
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// DescribeEvent prints an event's type and what matters of its body.
func DescribeEvent(ev protocol.Event) string {
	kind := eventName(ev)
	switch ev := ev.(type) {
	case protocol.AgentStart:
		return fmt.Sprintf("%s %s", kind, ev.RunID)
	case protocol.AgentEnd:
		roles := make([]string, 0, len(ev.Messages))
		for _, m := range ev.Messages {
			roles = append(roles, m.Role())
		}
		return fmt.Sprintf("%s %s [%s] willRetry=%t error=%q", kind, ev.RunID, strings.Join(roles, " "), ev.WillRetry, ev.Error)
	case protocol.TurnEnd:
		ids := make([]string, 0, len(ev.ToolResults))
		for _, r := range ev.ToolResults {
			ids = append(ids, r.ToolCallID)
		}
		return fmt.Sprintf("%s [%s]", kind, strings.Join(ids, " "))
	case protocol.MessageStart:
		return kind + " " + DescribeMessage(ev.Message)
	case protocol.MessageEnd:
		return kind + " " + DescribeMessage(ev.Message)
	case *protocol.MessageUpdate:
		return describeUpdate(ev)
	case protocol.AgentSettled:
		return kind + " " + ev.Outcome
	case protocol.ToolExecutionStart:
		return kind + " " + ev.ToolCallID + " " + ev.ToolName
	case protocol.ToolExecutionUpdate:
		return kind + " " + ev.ToolCallID + " " + describeContent(ev.PartialResult.Content)
	case protocol.ToolExecutionEnd:
		return fmt.Sprintf("%s %s %s error=%t", kind, ev.ToolCallID, describeContent(ev.Result.Content), ev.IsError)
	case protocol.QueueChanged:
		return fmt.Sprintf("%s steering=%q followUp=%q", kind, ev.Steering, ev.FollowUp)
	case protocol.TurnStart:
		return kind
	default:
		return kind + " " + string(protocol.AppendValue(nil, ev))
	}
}

// eventName is the name that an event has without features, if there is one.
func eventName(ev protocol.Event) string {
	rows := protocol.RowsOf(ev)
	for _, row := range rows {
		if row.Needs == "" {
			return row.Name
		}
	}
	return rows[0].Name
}

func describeUpdate(u *protocol.MessageUpdate) string {
	step := [...]string{"start", "delta", "end"}[u.Step]
	text := fmt.Sprintf("%s %d %s_%s", eventName(u), u.Index, u.Kind, step)
	switch {
	case u.Step == protocol.UpdateDelta:
		text += fmt.Sprintf(" %q", u.Delta)
	case u.Block != nil:
		text += " " + describeContent(protocol.Content{u.Block})
	}
	return text
}
