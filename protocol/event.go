package protocol

import (
	"encoding/json"
	"slices"
)

// Event is something a client is told without having asked. One event becomes
// one line, or none or two where dialects differ: see [Events].
type Event interface{ event() }

// isEvent makes a struct an [Event].
type isEvent struct{}

func (isEvent) event() {}

// MessageUpdate is an event by reference only: there are many, and they are
// shared.
func (*MessageUpdate) event() {}

// RunID names a run on the wire: the same in every event between agent_start
// and agent_end, unique within the process for one session. It is additive;
// no seed has it.
type RunID string

// Runs, turns and messages.
type (
	AgentStart struct {
		isEvent
		RunID RunID `json:"runId,omitempty" since:"troupe" doc:"Names the run in every event until its agent_end."`
	}
	AgentEnd struct {
		isEvent
		Messages    []Message `json:"messages" doc:"The messages of this run, in order."`
		Error       string    `json:"error,omitempty" since:"s4" doc:"Why the run failed or that it was aborted; absent on success."`
		SessionID   string    `json:"sessionId,omitempty" since:"s1" not:"union s0 s2 s3 s4 pi1" doc:"The durable id, in the connection's default session: elsewhere sessionId is the routing handle."`
		SessionFile string    `json:"sessionFile,omitempty" since:"s1" not:"union s0 s2 s3 s4 pi1"`
		WillRetry   bool      `json:"willRetry" since:"pi1" doc:"The run will be repeated by itself: after a failed request, or because of a stream rule. False if the context overflowed: then auto_compaction_end.willRetry says it."`
		RunID       RunID     `json:"runId,omitempty" since:"troupe"`
	}
	TurnStart struct {
		isEvent
		TurnIndex int   `json:"turnIndex" since:"s1" not:"union s0 s2 s3 s4 pi1" doc:"In its run, from 0."`
		Timestamp int64 `json:"timestamp" since:"s1" not:"union s0 s2 s3 s4 pi1"`
		RunID     RunID `json:"runId,omitempty" since:"troupe"`
	}
	TurnEnd struct {
		isEvent
		TurnIndex   int                  `json:"turnIndex" since:"s1" not:"union s0 s2 s3 s4 pi1" doc:"The same as in turn_start."`
		Message     Message              `json:"message" doc:"The assistant message of the turn."`
		ToolResults []*ToolResultMessage `json:"toolResults" doc:"One for each of its tool calls, in call order."`
		RunID       RunID                `json:"runId,omitempty" since:"troupe"`
	}
	MessageStart struct {
		isEvent
		Message Message `json:"message" doc:"An assistant message has no content yet; it follows in updates."`
		RunID   RunID   `json:"runId,omitempty" since:"troupe"`
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
		isEvent
		Message Message `json:"message" doc:"The message as it stands in the session; earlier updates were previews."`
		RunID   RunID   `json:"runId,omitempty" since:"troupe"`
	}
	AgentSettled struct {
		isEvent
		Aborted bool   `json:"aborted" doc:"The last run was aborted."`
		Outcome string `json:"outcome" enum:"completed,aborted,failed,interrupted" doc:"How the last run ended."`
		RunID   RunID  `json:"runId,omitempty" since:"troupe" doc:"The last run."`

		Submission *Submission `json:"-"` // what a child has handed over; nil for nothing
	}
)

// Children of a session, each an item of a call of the tool task.
type (
	SubagentStart struct {
		isEvent
		ID         string `json:"id" doc:"Unique in this session. A child of A is called A.B."`
		Agent      string `json:"agent"`
		Isolated   bool   `json:"isolated" doc:"It works in an isolated copy."`
		SessionID  string `json:"childSessionId,omitempty" since:"troupe" not:"s1" doc:"The handle of its session, for attach. list_open_sessions has it, too."`
		ToolCallID string `json:"toolCallId,omitempty" since:"troupe" not:"s1"`
		ParentID   string `json:"parentId,omitempty" since:"troupe" not:"s1" doc:"For a child of a child: the id of its parent."`
	}
	SubagentVerificationStart struct {
		isEvent
		ID      string `json:"id"`
		Attempt int    `json:"attempt" doc:"From 1."`
		Profile string `json:"profile,omitempty"`
	}
	SubagentVerificationCommandStart struct {
		isEvent
		ID          string `json:"id"`
		Attempt     int    `json:"attempt"`
		CommandName string `json:"commandName"`
		Command     string `json:"command,omitempty" since:"troupe" not:"s1"`
	}
	SubagentVerificationCommandEnd struct {
		isEvent
		ID          string `json:"id"`
		Attempt     int    `json:"attempt"`
		CommandName string `json:"commandName"`
		ExitCode    int    `json:"exitCode"`
		DurationMs  int64  `json:"durationMs"`
		ArtifactID  string `json:"artifactId,omitempty" doc:"The path of its output."`
	}
	SubagentVerificationEnd struct {
		isEvent
		ID      string `json:"id"`
		Attempt int    `json:"attempt"`
		Status  string `json:"status" enum:"passed,failed,skipped,budget_exceeded"`
	}
	SubagentEnd struct {
		isEvent
		ID       string `json:"id"`
		Agent    string `json:"agent"`
		ExitCode int    `json:"exitCode" doc:"0 if the child succeeded."`
		Aborted  bool   `json:"aborted,omitempty" since:"troupe" not:"s1"`
		Error    string `json:"error,omitempty" since:"troupe" not:"s1"`

		Verification *VerificationResult `json:"verification,omitempty" doc:"Absent if no verification was requested."`
	}
)

// Events that a client has asked for with set_subagent_subscription.
type (
	SubagentLifecycle struct {
		isEvent
		Payload SubagentStage `json:"payload"`
	}
	SubagentProgress struct {
		isEvent
		Payload SubagentReport `json:"payload"`
	}
	SubagentEvent struct {
		isEvent
		Payload ChildEvent `json:"payload"`
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
		isEvent
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Args       json.RawMessage `json:"args"`
		// ParentToolCallID is the call that has made it, where no model did.
		ParentToolCallID string `json:"parentToolCallId,omitempty" doc:"The call of an extension's tool that has made this one."`
		RunID            RunID  `json:"runId,omitempty" since:"troupe"`
	}
	ToolExecutionUpdate struct {
		isEvent
		ToolCallID       string          `json:"toolCallId"`
		ToolName         string          `json:"toolName"`
		Args             json.RawMessage `json:"args"`
		PartialResult    ToolResult      `json:"partialResult" doc:"The output so far, replacing earlier updates."`
		ParentToolCallID string          `json:"parentToolCallId,omitempty"`
		RunID            RunID           `json:"runId,omitempty" since:"troupe"`
	}
	ToolExecutionEnd struct {
		isEvent
		ToolCallID       string     `json:"toolCallId"`
		ToolName         string     `json:"toolName"`
		Result           ToolResult `json:"result"`
		IsError          bool       `json:"isError"`
		DurationMs       *int64     `json:"durationMs,omitempty" doc:"In pi1: how long the tool ran, in milliseconds."`
		ParentToolCallID string     `json:"parentToolCallId,omitempty"`
		RunID            RunID      `json:"runId,omitempty" since:"troupe"`
	}
)

// ToolResult is what a tool gives back, also while it runs.
type ToolResult struct {
	Content Content         `json:"content"`
	Details json.RawMessage `json:"details,omitempty"` // tool-specific, opaque to the protocol
	// StructuredContent and Usage are what tools of extensions say beside it, as they
	// wrote it. Terminate says that the model need not see the result: a run ends
	// when all results of an answer say so.
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	Usage             json.RawMessage `json:"usage,omitempty"`
	Terminate         bool            `json:"terminate,omitempty"`
	// IsError and Structured are of built-in tools. tool_execution_end of pi1 has them, the message of the result
	// does not: Structured returns its structuredContent, nil for none.
	IsError    bool                   `json:"isError,omitempty"`
	Structured func() json.RawMessage `json:"-"`
}

// Compaction and retry.
type (
	AutoCompactionStart struct {
		isEvent
		Reason string `json:"reason" enum:"threshold,overflow,manual" doc:"manual with compaction_start only."`
	}
	AutoCompactionEnd struct {
		isEvent
		Reason       string            `json:"-"`
		Result       *CompactionResult `json:"result" doc:"null when aborted or failed."`
		Aborted      bool              `json:"aborted"`
		WillRetry    bool              `json:"willRetry" doc:"The prompt is repeated: after every successful compaction with the reason overflow. In pi1, not if the prompt was answered."`
		ErrorMessage string            `json:"errorMessage,omitempty" doc:"Why it failed or was refused."`
	}
	AutoRetryStart struct {
		isEvent
		Attempt      int    `json:"attempt" doc:"The number of the next retry, from 1."`
		MaxAttempts  int    `json:"maxAttempts"`
		DelayMs      int64  `json:"delayMs" doc:"The actual delay."`
		ErrorMessage string `json:"errorMessage"`
		ErrorKind    string `json:"errorKind,omitempty" since:"troupe" doc:"overloaded, rate_limit, server_error, network, cut_stream or stream_stalled."`
	}
	AutoRetryEnd struct {
		isEvent
		Success    bool   `json:"success"`
		Attempt    int    `json:"attempt" doc:"The number of the last retry."`
		FinalError string `json:"finalError,omitempty"`
	}
	SummarizationRetryScheduled struct {
		isEvent
		Attempt      int    `json:"attempt"`
		MaxAttempts  int    `json:"maxAttempts"`
		DelayMs      int64  `json:"delayMs,omitempty"`
		ErrorMessage string `json:"errorMessage,omitempty"`
		Source       string `json:"source,omitempty"`
		Reason       string `json:"reason,omitempty"`
	}
	SummarizationRetryAttempt struct {
		isEvent
		Attempt     int `json:"attempt"`
		MaxAttempts int `json:"maxAttempts"`
	}
	SummarizationRetryFinished struct{ isEvent }
)

// Sessions and queues.
type (
	SessionChanged struct {
		isEvent
		Reason       string `json:"reason" enum:"new,switch,fork,tree,reload"`
		SessionID    string `json:"sessionId,omitempty" doc:"The durable id, in the connection's default session: elsewhere sessionId is the routing handle."`
		DurableID    string `json:"durableId,omitempty" since:"troupe" doc:"The durable id, in the other sessions."`
		SessionFile  string `json:"sessionFile,omitempty"`
		SessionName  string `json:"sessionName,omitempty"`
		MessageCount int    `json:"messageCount" doc:"Messages of the new context."`
		LeafID       string `json:"leafId" null:"always" doc:"null in an empty session."`
	}
	// QueueChanged is queue_changed, and queue_update with that feature.
	QueueChanged struct {
		isEvent
		PendingMessageCount int      `json:"pendingMessageCount"`
		Steering            []string `json:"-"`
		FollowUp            []string `json:"-"`
	}
	SessionInfoChanged struct {
		isEvent
		Name string `json:"name,omitempty"`
	}
	ThinkingLevelChanged struct {
		isEvent
		Level ThinkingLevel `json:"level"`
	}
	EntryAppended struct {
		isEvent
		Entry Record `json:"entry"`
	}
	BashExecutionUpdate struct {
		isEvent
		ID    json.RawMessage `json:"id,omitempty" doc:"The id of the bash command."`
		Delta string          `json:"delta" doc:"New output."`
	}
	// StateChanged has what has changed of the choices of a session; what is nil or
	// empty has not.
	StateChanged struct {
		isEvent
		Model                 *Model         `json:"model,omitempty"`
		ThinkingLevel         ThinkingLevel  `json:"thinkingLevel,omitempty"`
		PermissionMode        PermissionMode `json:"permissionMode,omitempty"`
		SteeringMode          QueueMode      `json:"steeringMode,omitempty"`
		FollowUpMode          QueueMode      `json:"followUpMode,omitempty"`
		AutoCompactionEnabled *bool          `json:"autoCompactionEnabled,omitempty"`
		SessionName           *string        `json:"sessionName,omitempty"`
		ActiveToolNames       []string       `json:"activeToolNames,omitzero"`
		By                    *ClientRef     `json:"by,omitempty" doc:"The client that sent the command, if it has a clientId."`
	}
	// ClientsChanged says who hears of a session.
	ClientsChanged struct {
		isEvent
		Clients []ClientRef `json:"clients" doc:"The attached clients in the order of their attach, with their clientId and name from hello."`
	}
	// ExtensionCommandEnd says that a command of an extension has ended.
	ExtensionCommandEnd struct {
		isEvent
		Name string `json:"name" doc:"As in get_commands."`
	}
	// Resync says that the client has not read fast enough.
	Resync struct {
		isEvent
		Reason string `json:"reason" enum:"lagged,moved" doc:"lagged: the client has read too slowly. moved: the session is on another node."`
		Seq    int64  `json:"seq,omitempty" doc:"The number of the last event before the gap, for since of attach."`
	}
	// SessionMoved says that another node of the cluster has the session.
	SessionMoved struct {
		isEvent
		To  string `json:"to,omitempty" doc:"The new node. Absent while no node has the session."`
		Why string `json:"why" enum:"failover,released,fenced" doc:"failover: its node was lost. released: its node has released it. fenced: another node took it over from a disconnected one."`
	}
	// SessionWaiting says that the session goes on when it can be written again.
	SessionWaiting struct {
		isEvent
		Since int64 `json:"since" doc:"Epoch milliseconds."`
	}
	SessionFailed struct {
		isEvent
		Error string `json:"error" doc:"The error. All further commands of the session fail."`
	}
)

// Extensions, dialogs and hosts.
type (
	ExtensionError struct {
		isEvent
		ExtensionPath string `json:"extensionPath"`
		Event         string `json:"event"`
		Error         string `json:"error"`
	}
	// ExtensionUIRequest has the members that its method has: one that is nil is
	// absent, an empty text or list is there.
	ExtensionUIRequest struct {
		isEvent
		ID              string   `json:"id" doc:"The id for extension_ui_response."`
		Method          string   `json:"method" enum:"select,confirm,input,editor,notify,setStatus,setWidget,setTitle,set_editor_text,open_url"`
		Title           *string  `json:"title,omitempty"`
		Message         *string  `json:"message,omitempty"`
		Options         []string `json:"options,omitzero"`
		Placeholder     *string  `json:"placeholder,omitempty"`
		Prefill         *string  `json:"prefill,omitempty"`
		Timeout         int64    `json:"timeout,omitempty" doc:"Milliseconds until the default counts as the answer."`
		NotifyType      string   `json:"notifyType,omitempty"`
		StatusKey       string   `json:"statusKey,omitempty"`
		StatusText      *string  `json:"statusText,omitempty"`
		WidgetKey       string   `json:"widgetKey,omitempty"`
		WidgetLines     []string `json:"widgetLines,omitzero"`
		WidgetPlacement string   `json:"widgetPlacement,omitempty"`
		Text            *string  `json:"text,omitempty"`
		URL             string   `json:"url,omitempty" since:"omp18" doc:"With open_url: the address to show, and to open in a browser if the user agrees. The answer may be the address at which the browser ended. The dialog ends with the login."`
		Code            string   `json:"code,omitempty" since:"troupe" doc:"With open_url: the code to type on the page. The title has it, too."`
		LaunchURL       string   `json:"launchUrl,omitempty" since:"troupe" doc:"With open_url: the page with the code filled in, to be opened in place of url."`
		ExpiresAt       int64    `json:"expiresAt,omitempty" since:"troupe" doc:"With code: when it expires, in milliseconds since 1970."`
		Secret          bool     `json:"secret,omitempty" since:"troupe" doc:"The answer is secret: do not show or store it."`
		ToolCallID      string   `json:"toolCallId,omitempty" since:"troupe" doc:"The tool call that waits for the answer."`
	}
	// AuthChanged says that a provider's credentials stand otherwise than before.
	AuthChanged struct {
		isEvent
		Provider string    `json:"provider"`
		State    AuthState `json:"state" enum:"ready,expiring,expired,invalid,none,unsupported"`
		Reason   string    `json:"reason,omitempty" doc:"Why it cannot be used, or renewed."`
	}
	// AuthRefreshStart and AuthRefreshEnd are around a renewal.
	AuthRefreshStart struct {
		isEvent
		Provider string `json:"provider"`
	}
	AuthRefreshEnd struct {
		isEvent
		Provider string    `json:"provider"`
		State    AuthState `json:"state" enum:"ready,expiring,expired,invalid,none,unsupported"`
		Reason   string    `json:"reason,omitempty" doc:"Why it could not be renewed."`
	}
	// ApprovalRequest asks whether a tool call may run.
	ApprovalRequest struct {
		isEvent
		ID         string           `json:"id" doc:"The approvalId of approval_response."`
		ToolCallID string           `json:"toolCallId"`
		ToolName   string           `json:"toolName"`
		Args       json.RawMessage  `json:"args" doc:"The arguments of the call."`
		Kind       string           `json:"kind" enum:"read,edit,execute,other" doc:"The kind of the action."`
		Title      string           `json:"title"`
		Why        ApprovalWhy      `json:"why"`
		Preview    ApprovalPreview  `json:"preview"`
		Options    []ApprovalOption `json:"options"`
		Unbound    bool             `json:"unsandboxed,omitempty" doc:"The command would run without the session's sandbox."`
		AskedAt    int64            `json:"askedAt" doc:"Epoch milliseconds."`
		ExpiresAt  int64            `json:"expiresAt,omitempty" doc:"When the request expires (--approval-timeout). Then the call does not run. Absent if it does not expire."`
	}
	// ApprovalResolved says that an approval_request is over.
	ApprovalResolved struct {
		isEvent
		ID         string `json:"id"`
		ToolCallID string `json:"toolCallId"`
		Outcome    string `json:"outcome" enum:"allowed,denied,cancelled,timeout" doc:"timeout: no answer in time. cancelled: the request was withdrawn. In both cases the call does not run."`
		OptionID   string `json:"optionId,omitempty"`

		By *ClientRef `json:"by,omitempty" doc:"The client that has answered, if it has a clientId."`
	}
	// DialogResolved says that a dialog is over.
	DialogResolved struct {
		isEvent
		ID      string        `json:"id" doc:"Of the extension_ui_request."`
		Outcome DialogOutcome `json:"outcome" enum:"answered,cancelled,timeout,aborted,lost" doc:"cancelled: a user has closed it. aborted: the request was withdrawn. lost: no client can answer it any more."`
		By      *ClientRef    `json:"by,omitempty" doc:"The client that has answered or closed it, if it has a clientId."`
	}
	HostToolCall struct {
		isEvent
		ID         string          `json:"id" doc:"The id for host_tool_result."`
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	HostToolCancel struct {
		isEvent
		ID       string `json:"id"`
		TargetID string `json:"targetId" doc:"The id of the host_tool_call that is no longer wanted."`
	}
	TTSRTriggered struct {
		isEvent
		Rules []StreamRule `json:"rules"`
	}
	Heartbeat struct {
		isEvent
		T int64 `json:"t" doc:"The daemon's clock, epoch milliseconds."`
	}
	Draining struct {
		isEvent
		DeadlineMs int64 `json:"deadlineMs" doc:"The time for active runs to finish. Then they are aborted."`
	}
	BudgetWarning struct {
		isEvent
		Scope      string         `json:"scope" enum:"session,task,subagent"`
		Snapshot   BudgetSnapshot `json:"snapshot"`
		ID         string         `json:"id,omitempty" since:"troupe" not:"s1" doc:"With the scope subagent: the id of the child that has reached a limit of its agent."`
		ToolCallID string         `json:"toolCallId,omitempty" since:"troupe" not:"s1" doc:"With the scope task."`
	}
	BudgetExceeded struct {
		isEvent
		Scope      string         `json:"scope" enum:"session,task,subagent"`
		Snapshot   BudgetSnapshot `json:"snapshot"`
		ID         string         `json:"id,omitempty" since:"troupe" not:"s1" doc:"With the scope subagent: the id of the child that has reached a limit of its agent."`
		ToolCallID string         `json:"toolCallId,omitempty" since:"troupe" not:"s1" doc:"With the scope task."`
	}
	TodoReminder struct {
		isEvent
		Todos       []TodoItem `json:"todos" doc:"The open items."`
		Attempt     int        `json:"attempt"`
		MaxAttempts int        `json:"maxAttempts"`
	}
)

// Since is what of it has changed since an earlier one; false if nothing has. Both have
// every member.
func (s StateChanged) Since(was StateChanged) (changed StateChanged, any bool) {
	if s.Model != was.Model && s.Model != nil {
		changed.Model, any = s.Model, true
	}
	if s.ThinkingLevel != was.ThinkingLevel {
		changed.ThinkingLevel, any = s.ThinkingLevel, true
	}
	if s.PermissionMode != was.PermissionMode {
		changed.PermissionMode, any = s.PermissionMode, true
	}
	if s.SteeringMode != was.SteeringMode {
		changed.SteeringMode, any = s.SteeringMode, true
	}
	if s.FollowUpMode != was.FollowUpMode {
		changed.FollowUpMode, any = s.FollowUpMode, true
	}
	if *s.AutoCompactionEnabled != *was.AutoCompactionEnabled {
		changed.AutoCompactionEnabled, any = s.AutoCompactionEnabled, true
	}
	if *s.SessionName != *was.SessionName {
		changed.SessionName, any = s.SessionName, true
	}
	if !slices.Equal(s.ActiveToolNames, was.ActiveToolNames) {
		if changed.ActiveToolNames, any = s.ActiveToolNames, true; s.ActiveToolNames == nil {
			changed.ActiveToolNames = []string{}
		}
	}
	return changed, any
}

// DialogOutcome is how a dialog ended.
type DialogOutcome string

const (
	DialogAnswered  DialogOutcome = "answered"
	DialogCancelled DialogOutcome = "cancelled"
	DialogTimeout   DialogOutcome = "timeout"
	DialogAborted   DialogOutcome = "aborted"
	DialogLost      DialogOutcome = "lost"
)

// ClientRef names a client to others.
type ClientRef struct {
	ClientID string `json:"clientId,omitempty"`
	Name     string `json:"name,omitempty"`
	Role     string `json:"role,omitempty"` // viewer, in the list of clients; else it is left out
}

// RoleViewer is the role of a client that watches a session and changes nothing of it.
const RoleViewer = "viewer"

// StreamRule is a rule that is shown to the model only when its output trips
// the rule's trigger.
type StreamRule struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	Content     string `json:"content"`
	Description string `json:"description,omitempty"`
	TTSRTrigger string `json:"ttsrTrigger,omitempty"`

	Globs         []string   `json:"globs,omitempty" doc:"It applies to tool calls with a matching path."`
	AlwaysApply   bool       `json:"alwaysApply"`
	InterruptMode string     `json:"interruptMode,omitempty" enum:"always,prose-only,tool-only,never" doc:"Instead of the setting."`
	Condition     []string   `json:"condition" doc:"The parts of ttsrTrigger, one for each expression of the file."`
	Scope         []string   `json:"scope,omitempty" doc:"The scope, as written in its file."`
	Source        RuleSource `json:"_source"`
}

// RuleSource says where a stream rule comes from.
type RuleSource struct {
	Provider     string `json:"provider" enum:"native"`
	ProviderName string `json:"providerName"`
	Path         string `json:"path"`
	Level        string `json:"level" enum:"user,project"`
}
