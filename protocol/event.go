package protocol

import "encoding/json"

// Event is something a client is told without having asked. One event becomes
// one line, or none or two where a dialect differs: see [Encoder].
//
//sumtype:decl
type Event interface {
	// EventType is the wire's discriminator in the default dialect.
	EventType() string
	event()
}

// RunID names a run on the wire: the same in every event between agent_start
// and agent_end, unique within the process for one session. It is additive;
// no seed has it.
type RunID string

// Runs, turns and messages.
type (
	AgentStart struct {
		RunID RunID `json:"runId" doc:"Names the run in every event until its agent_end."`
	}
	AgentEnd struct {
		Messages  []Message `json:"messages" doc:"What this run added, in order."`
		Error     string    `json:"error,omitempty" since:"S4" doc:"Why the run failed or that it was aborted; absent on success."`
		WillRetry bool      `json:"willRetry" since:"P" doc:"The same work goes on by itself: a retry follows, or what a stream rule asks for. False before the recovery from an overflow, of which auto_compaction_end.willRetry tells."`
		RunID     RunID     `json:"runId"`
	}
	TurnStart struct {
		RunID RunID `json:"runId"`
	}
	TurnEnd struct {
		Message     Message              `json:"message" doc:"The assistant message of the turn."`
		ToolResults []*ToolResultMessage `json:"toolResults" doc:"One for each of its tool calls, in call order."`
		RunID       RunID                `json:"runId"`
	}
	MessageStart struct {
		Message Message `json:"message" doc:"Of an assistant message only the frame: content follows in updates."`
		RunID   RunID   `json:"runId"`
	}
	// MessageUpdate is one step of a growing assistant message. On the wire it
	// carries the whole message so far twice (message and
	// assistantMessageEvent.partial), or only the step with deltaUpdates.
	MessageUpdate struct {
		RunID RunID
		Step  UpdateStep
		Kind  BlockKind
		Index int    // contentIndex
		Delta string // with UpdateDelta
		Block Block  // with UpdateStart of a tool call: id and name; with UpdateEnd: the whole block
		Usage *Usage // the counts so far, when they changed since the last update
	}
	MessageEnd struct {
		Message Message `json:"message" doc:"The message as it stands in the session; earlier updates were previews."`
		RunID   RunID   `json:"runId"`
	}
	AgentSettled struct {
		Aborted bool   `json:"aborted" doc:"The last run was aborted."`
		Outcome string `json:"outcome" enum:"completed,aborted,failed,interrupted" doc:"How the last run ended."`
		RunID   RunID  `json:"runId" doc:"The last run."`
	}
)

// UpdateStep is the place of a MessageUpdate within its block.
type UpdateStep uint8

const (
	UpdateStart UpdateStep = iota
	UpdateDelta
	UpdateEnd
)

// Tools.
type (
	ToolExecutionStart struct {
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Args       json.RawMessage `json:"args"`
		RunID      RunID           `json:"runId"`
	}
	ToolExecutionUpdate struct {
		ToolCallID    string          `json:"toolCallId"`
		ToolName      string          `json:"toolName"`
		Args          json.RawMessage `json:"args"`
		PartialResult ToolResult      `json:"partialResult" doc:"The output so far, replacing earlier updates."`
		RunID         RunID           `json:"runId"`
	}
	ToolExecutionEnd struct {
		ToolCallID string     `json:"toolCallId"`
		ToolName   string     `json:"toolName"`
		Result     ToolResult `json:"result"`
		IsError    bool       `json:"isError"`
		RunID      RunID      `json:"runId"`
	}
)

// ToolResult is what a tool gives back, also while it runs.
type ToolResult struct {
	Content Content         `json:"content"`
	Details json.RawMessage `json:"details,omitempty"` // tool-specific, opaque to the protocol
}

func (r ToolResult) AppendJSON(dst []byte) []byte {
	o := openObject(dst)
	o.app("content", r.Content)
	o.optRaw("details", r.Details)
	return o.close()
}

func (r ToolResult) MarshalJSON() ([]byte, error) { return marshalAppender(r) }

// Compaction and retry.
type (
	AutoCompactionStart struct {
		Reason string `json:"reason" enum:"threshold,overflow,manual" doc:"manual with compaction_start only."`
	}
	AutoCompactionEnd struct {
		Reason       string            `json:"-"`
		Result       *CompactionResult `json:"result" doc:"null when aborted or failed."`
		Aborted      bool              `json:"aborted"`
		WillRetry    bool              `json:"willRetry" doc:"The prompt that overflowed runs again: after every successful compaction with the reason overflow, but in pi1 not for a prompt that was answered all the same."`
		ErrorMessage string            `json:"errorMessage,omitempty" doc:"Why it failed or was refused."`
	}
	AutoRetryStart struct {
		Attempt      int    `json:"attempt" doc:"The retry about to be made, from 1."`
		MaxAttempts  int    `json:"maxAttempts"`
		DelayMs      int64  `json:"delayMs" doc:"How long the wait really is."`
		ErrorMessage string `json:"errorMessage"`
		ErrorKind    string `json:"errorKind,omitempty" since:"T" doc:"overloaded, rate_limit, server_error, network, cut_stream or stream_stalled."`
	}
	AutoRetryEnd struct {
		Success    bool   `json:"success"`
		Attempt    int    `json:"attempt" doc:"The retry made last."`
		FinalError string `json:"finalError,omitempty"`
	}
	SummarizationRetry struct {
		Step         string `json:"-"` // scheduled, attempt_start, finished
		Attempt      int    `json:"attempt,omitempty"`
		MaxAttempts  int    `json:"maxAttempts,omitempty"`
		DelayMs      int64  `json:"delayMs,omitempty"`
		ErrorMessage string `json:"errorMessage,omitempty"`
		Source       string `json:"source,omitempty"`
		Reason       string `json:"reason,omitempty"`
	}
)

// Sessions and queues.
type (
	SessionChanged struct {
		Reason       string `json:"reason" enum:"new,switch,fork,tree,reload"`
		SessionID    string `json:"sessionId" doc:"The durable id."`
		SessionFile  string `json:"sessionFile,omitempty"`
		SessionName  string `json:"sessionName,omitempty"`
		MessageCount int    `json:"messageCount" doc:"Messages of the new context."`
		LeafID       string `json:"leafId" doc:"null in an empty session."`
	}
	// QueueChanged is queue_changed, and queue_update with that feature.
	QueueChanged struct {
		PendingMessageCount int      `json:"pendingMessageCount"`
		Steering            []string `json:"-"`
		FollowUp            []string `json:"-"`
	}
	SessionInfoChanged struct {
		Name string `json:"name,omitempty"`
	}
	ThinkingLevelChanged struct {
		Level ThinkingLevel `json:"level"`
	}
	EntryAppended struct {
		Entry Record `json:"entry"`
	}
	BashExecutionUpdate struct {
		ID    json.RawMessage `json:"id,omitempty" doc:"The id of the bash command."`
		Delta string          `json:"delta" doc:"New output."`
	}
	SessionFailed struct {
		Error string `json:"error" doc:"Why the session was given up; its commands fail from now on."`
	}
)

// Extensions, dialogs and hosts.
type (
	// ExtensionError is extension_error, hook_error, or both: see [Encoder].
	ExtensionError struct {
		ExtensionPath string `json:"extensionPath"`
		Event         string `json:"event"`
		Error         string `json:"error"`
	}
	ExtensionUIRequest struct {
		ID              string   `json:"id" doc:"Repeat it in extension_ui_response."`
		Method          string   `json:"method" enum:"select,confirm,input,editor,notify,setStatus,setWidget,setTitle,set_editor_text"`
		Title           string   `json:"title,omitempty"`
		Message         string   `json:"message,omitempty"`
		Options         []string `json:"options,omitempty"`
		Placeholder     string   `json:"placeholder,omitempty"`
		Prefill         string   `json:"prefill,omitempty"`
		Timeout         int64    `json:"timeout,omitempty" doc:"Milliseconds until the default counts as the answer."`
		NotifyType      string   `json:"notifyType,omitempty"`
		StatusKey       string   `json:"statusKey,omitempty"`
		StatusText      string   `json:"statusText,omitempty"`
		WidgetKey       string   `json:"widgetKey,omitempty"`
		WidgetLines     []string `json:"widgetLines,omitempty"`
		WidgetPlacement string   `json:"widgetPlacement,omitempty"`
		Text            string   `json:"text,omitempty"`
		ToolCallID      string   `json:"toolCallId,omitempty" since:"T" doc:"The tool call that waits for the answer."`
	}
	HostToolCall struct {
		ID         string          `json:"id" doc:"Repeat it in host_tool_result."`
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	HostToolCancel struct {
		ID       string `json:"id"`
		TargetID string `json:"targetId" doc:"The id of the host_tool_call that is no longer wanted."`
	}
	TTSRTriggered struct {
		Rules []StreamRule `json:"rules"`
	}
	TodoReminder struct {
		Todos       []TodoItem `json:"todos" doc:"What is not done."`
		Attempt     int        `json:"attempt"`
		MaxAttempts int        `json:"maxAttempts"`
	}
)

// StreamRule is a rule that is shown to the model only when its output trips
// the rule's trigger.
type StreamRule struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	Content     string `json:"content"`
	Description string `json:"description,omitempty"`
	TTSRTrigger string `json:"ttsrTrigger,omitempty"`
}

func (AgentStart) EventType() string           { return "agent_start" }
func (AgentEnd) EventType() string             { return "agent_end" }
func (TurnStart) EventType() string            { return "turn_start" }
func (TurnEnd) EventType() string              { return "turn_end" }
func (MessageStart) EventType() string         { return "message_start" }
func (*MessageUpdate) EventType() string       { return "message_update" }
func (MessageEnd) EventType() string           { return "message_end" }
func (AgentSettled) EventType() string         { return "agent_settled" }
func (ToolExecutionStart) EventType() string   { return "tool_execution_start" }
func (ToolExecutionUpdate) EventType() string  { return "tool_execution_update" }
func (ToolExecutionEnd) EventType() string     { return "tool_execution_end" }
func (AutoCompactionStart) EventType() string  { return "auto_compaction_start" }
func (AutoCompactionEnd) EventType() string    { return "auto_compaction_end" }
func (AutoRetryStart) EventType() string       { return "auto_retry_start" }
func (AutoRetryEnd) EventType() string         { return "auto_retry_end" }
func (s SummarizationRetry) EventType() string { return "summarization_retry_" + s.Step }
func (SessionChanged) EventType() string       { return "session_changed" }
func (QueueChanged) EventType() string         { return "queue_changed" }
func (SessionInfoChanged) EventType() string   { return "session_info_changed" }
func (ThinkingLevelChanged) EventType() string { return "thinking_level_changed" }
func (EntryAppended) EventType() string        { return "entry_appended" }
func (BashExecutionUpdate) EventType() string  { return "bash_execution_update" }
func (SessionFailed) EventType() string        { return "session_failed" }
func (ExtensionError) EventType() string       { return "extension_error" }
func (ExtensionUIRequest) EventType() string   { return "extension_ui_request" }
func (HostToolCall) EventType() string         { return "host_tool_call" }
func (HostToolCancel) EventType() string       { return "host_tool_cancel" }
func (TTSRTriggered) EventType() string        { return "ttsr_triggered" }
func (TodoReminder) EventType() string         { return "todo_reminder" }

func (AgentStart) event()           {}
func (AgentEnd) event()             {}
func (TurnStart) event()            {}
func (TurnEnd) event()              {}
func (MessageStart) event()         {}
func (*MessageUpdate) event()       {}
func (MessageEnd) event()           {}
func (AgentSettled) event()         {}
func (ToolExecutionStart) event()   {}
func (ToolExecutionUpdate) event()  {}
func (ToolExecutionEnd) event()     {}
func (AutoCompactionStart) event()  {}
func (AutoCompactionEnd) event()    {}
func (AutoRetryStart) event()       {}
func (AutoRetryEnd) event()         {}
func (SummarizationRetry) event()   {}
func (SessionChanged) event()       {}
func (QueueChanged) event()         {}
func (SessionInfoChanged) event()   {}
func (ThinkingLevelChanged) event() {}
func (EntryAppended) event()        {}
func (BashExecutionUpdate) event()  {}
func (SessionFailed) event()        {}
func (ExtensionError) event()       {}
func (ExtensionUIRequest) event()   {}
func (HostToolCall) event()         {}
func (HostToolCancel) event()       {}
func (TTSRTriggered) event()        {}
func (TodoReminder) event()         {}
