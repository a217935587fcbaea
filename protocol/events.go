package protocol

import (
	"cmp"
	"reflect"
	"sync"
)

// Span is something that one event begins and another ends. Every span that was
// begun is ended, also after an abort, an error or a crash.
type Span string

const (
	SpanWork       Span = "work" // begins with its first run
	SpanRun        Span = "run"
	SpanTurn       Span = "turn"
	SpanMessage    Span = "message"
	SpanTool       Span = "tool call"
	SpanCompaction Span = "compaction"
	SpanRetry      Span = "retry" // between runs

	SpanChild   Span = "child"   // within a call of the tool task
	SpanAttempt Span = "attempt" // to verify what a child has done
	SpanCheck   Span = "command" // of an attempt
)

// Audience are the clients of a session that an event is told.
type Audience uint8

const (
	Everybody   Audience = iota
	Subscribers          // to what its children do
	Host                 // whose tool is called
)

// EventSpec is one row of the event table: an event under one of its names.
// Encoding, the reference and the schema are derived from it.
type EventSpec struct {
	Name    string
	Event   reflect.Type // the [Event]
	Members reflect.Type // the struct that says what members the record has
	Since   string       // which dialects have it, as in Spec
	Needs   Feature      // it is told with this feature only; "" for always
	Unless  Feature      // it is not told with this feature; "" for none
	Opens   Span         // what it begins; "" for nothing
	Closes  Span         // what it ends
	Only    []Dialect    // it is told in these dialects; nil for all
	Merges  bool         // of neighbours that wait to be written some are one record
	To      Audience
	Dialog  bool // it is about a question to a person: it is not left out, and a child's is asked by its parent
	Doc     string

	form func(Event) (any, bool)
}

// OfChild says that the event is about a child, or the verification of what one has done.
func (s *EventSpec) OfChild() bool {
	switch cmp.Or(s.Opens, s.Closes) {
	case SpanChild, SpanAttempt, SpanCheck:
		return true
	default:
		return false
	}
}

// Form is what is written of an event: a struct. false says that it has another
// name.
func (s *EventSpec) Form(ev Event) (members any, ok bool) {
	if s.form == nil {
		return ev, true
	}
	return s.form(ev)
}

// told is the part of a row that says when the event is told, and what it means
// to those before and behind it.
type told struct {
	since         string
	needs, unless Feature
	only          []Dialect
	opens, closes Span
	merges        bool
	to            Audience
	dialog        bool
}

func event[E Event](name string, t told, doc string) EventSpec {
	of := reflect.TypeFor[E]()
	return EventSpec{
		Name: name, Event: of, Members: of, Since: t.since, Needs: t.needs, Unless: t.unless,
		Only: t.only, Opens: t.opens, Closes: t.closes, Merges: t.merges, To: t.to, Dialog: t.dialog, Doc: doc,
	}
}

// variant is an event in the form that it has under another name, or under which
// it is not always told.
func variant[E Event, F any](name string, t told, form func(E) (F, bool), doc string) EventSpec {
	s := event[E](name, t, doc)
	s.Members = reflect.TypeFor[F]()
	s.form = func(ev Event) (any, bool) { return form(ev.(E)) }
	return s
}

// Events is every event a client may see, under its wire name. Where dialects
// know an event by two names it is told under both, in the order of the table.
var Events = []EventSpec{
	event[AgentStart]("agent_start", told{opens: SpanRun}, "A run starts."),
	event[AgentEnd]("agent_end", told{closes: SpanRun}, "A run has ended. Another may follow by itself: see willRetry and agent_settled."),
	event[TurnStart]("turn_start", told{opens: SpanTurn}, "A turn starts: user messages, one assistant message, its tool calls."),
	event[TurnEnd]("turn_end", told{closes: SpanTurn}, "The turn has ended."),
	event[MessageStart]("message_start", told{opens: SpanMessage}, "A message starts."),
	event[*MessageUpdate]("message_update", told{merges: true}, "The assistant message has a new part, in assistantMessageEvent. message and partial are the message so far. Adjacent deltas that arrive within 8 ms may be merged into one update. With deltaUpdates, there is only the new part, and usage."),
	event[MessageEnd]("message_end", told{closes: SpanMessage}, "A message is complete."),
	event[AgentSettled]("agent_settled", told{since: "pi1", closes: SpanWork}, "The session is idle: retries, compaction and queued messages are done. It is the last event that an accepted message causes."),
	event[ToolExecutionStart]("tool_execution_start", told{opens: SpanTool}, "A tool call starts, also one that will be refused or skipped. edit and write wait 10 ms after this event was written, so that a client can read the old file. If the client does not read, they wait 5 s at most."),
	event[ToolExecutionUpdate]("tool_execution_update", told{merges: true}, "The output of a tool so far."),
	event[ToolExecutionEnd]("tool_execution_end", told{closes: SpanTool}, "A tool call has ended."),
	event[SubagentStart]("subagent_start", told{since: "s1", only: withTasks, opens: SpanChild}, "A child of the tool task starts. Its session is open and has no messages yet. In s1 and the union, like the next five."),
	event[SubagentVerificationStart]("subagent_verification_start", told{since: "s1", only: withTasks, opens: SpanAttempt}, "The verification of a child's work starts."),
	event[SubagentVerificationCommandStart]("subagent_verification_command_start", told{since: "s1", only: withTasks, opens: SpanCheck}, "A command of the verification starts."),
	event[SubagentVerificationCommandEnd]("subagent_verification_command_end", told{since: "s1", only: withTasks, closes: SpanCheck}, "A command of the verification has ended. Its output is in a file."),
	event[SubagentVerificationEnd]("subagent_verification_end", told{since: "s1", only: withTasks, closes: SpanAttempt}, "All commands of the attempt have ended."),
	event[SubagentEnd]("subagent_end", told{since: "s1", only: withTasks, closes: SpanChild}, "A child has ended, before the end of the call. The result of the call has its output."),
	event[SubagentLifecycle]("subagent_lifecycle", told{since: "omp18", to: Subscribers}, "A child starts or has ended. Only for clients that have sent set_subagent_subscription, and without seq, like the next two."),
	event[SubagentProgress]("subagent_progress", told{since: "omp18", to: Subscribers}, "The progress of a child: at its start and end, and between them a few times per second at most."),
	event[SubagentEvent]("subagent_event", told{since: "omp18", to: Subscribers}, "An event of a child's session. For a message that was incomplete when the client subscribed, only its end is sent. Children wait for a client that does not read."),
	variant("auto_compaction_start", told{since: "s0 s1 s2 s3 s4", unless: FeatureCompactionEventsOnly, opens: SpanCompaction}, func(ev AutoCompactionStart) (AutoCompactionStart, bool) { return ev, ev.Reason != "manual" },
		"Older history is being summarised, by itself. Not in pi1."),
	event[AutoCompactionStart]("compaction_start", told{since: "pi1", needs: FeatureCompactionEvents, opens: SpanCompaction}, "A compaction starts, automatically or by the command compact. An automatic one that finds nothing to compact has no event."),
	variant("compaction_end", told{since: "pi1", needs: FeatureCompactionEvents, closes: SpanCompaction}, func(ev AutoCompactionEnd) (compactionEnd, bool) {
		return compactionEnd{ev.Reason, ev.Result, ev.Aborted, ev.WillRetry, ev.ErrorMessage}, true
	}, "The summary is in its place, or why not."),
	variant("auto_compaction_end", told{since: "s0 s1 s2 s3 s4", unless: FeatureCompactionEventsOnly, closes: SpanCompaction}, func(ev AutoCompactionEnd) (AutoCompactionEnd, bool) { return ev, ev.Reason != "manual" },
		"The summary is in its place, or why not."),
	event[SummarizationRetryScheduled]("summarization_retry_scheduled", told{since: "pi1", needs: FeatureEntryEvents}, "The request for a summary failed, and is repeated after a delay."),
	event[SummarizationRetryAttempt]("summarization_retry_attempt_start", told{since: "pi1", needs: FeatureEntryEvents}, "The request for a summary is repeated now."),
	event[SummarizationRetryFinished]("summarization_retry_finished", told{since: "pi1", needs: FeatureEntryEvents}, "The summary was written after a retry."),
	event[AutoRetryStart]("auto_retry_start", told{opens: SpanRetry}, "A request failed with a transient error, and is repeated after a delay."),
	event[AutoRetryEnd]("auto_retry_end", told{closes: SpanRetry}, "The retries have ended: with success, after the last one, or cancelled."),
	event[SessionChanged]("session_changed", told{since: "s2"}, "The session was replaced by another one, or has switched to another branch. Written before the response of the command."),
	event[QueueChanged]("queue_changed", told{since: "s2", unless: FeatureQueueUpdate, merges: true}, "Messages were queued, delivered or dropped. Not with queueUpdate."),
	variant("queue_update", told{since: "pi1", needs: FeatureQueueUpdate, merges: true}, func(ev QueueChanged) (queueUpdate, bool) { return queueUpdate{ev.Steering, ev.FollowUp}, true },
		"The whole content of both queues, whenever it changes."),
	event[EntryAppended]("entry_appended", told{since: "pi1", needs: FeatureEntryEvents}, "An entry was added to the session that has no other event: a label, a context edit, a branch summary."),
	event[SessionInfoChanged]("session_info_changed", told{since: "pi1", needs: FeatureSettingEvents}, "The session has a new name."),
	event[ThinkingLevelChanged]("thinking_level_changed", told{since: "pi1 omp18", needs: FeatureSettingEvents}, "The thinking level changed."),
	event[BashExecutionUpdate]("bash_execution_update", told{since: "pi1", needs: FeatureBashUpdates}, "New output of a bash command."),
	event[SessionFailed]("session_failed", told{since: "troupe"}, "The session crashed too often and was closed. Or its node was lost together with the session, as for a child of the tool task; attach does not find it any more."),
	event[SessionStatus]("session_status", told{since: "troupe", needs: FeatureSessionEvents}, "After watch_sessions: a session was opened, has changed its activity, needs an answer, or was closed (status closed). sessionId is its handle. If the client reads slowly, only the last of several changes is sent."),
	event[StateChanged]("state_changed", told{since: "troupe", needs: FeatureStateEvents}, "A client or the session has changed the model, a mode, the name or the tools. It has only the changed members."),
	event[ClientsChanged]("clients_changed", told{since: "troupe", needs: FeatureStateEvents}, "A client has attached or detached."),
	event[ExtensionCommandEnd]("extension_command_end", told{since: "troupe", needs: FeatureStateEvents}, "A command of an extension has ended. A run that it started has settled."),
	event[SessionMoved]("session_moved", told{since: "troupe"}, "In a cluster: the session is on another node now, under the same handle. Commands reach it as before. A client with the feature seq receives resync next. Other clients receive the end of everything that has started, and then new events."),
	event[SessionWaiting]("session_waiting", told{since: "troupe"}, "In a cluster: for more than a second, the session cannot be stored, or no node has it. It continues by itself."),
	event[Resync]("resync", told{since: "troupe"}, "Events of the session were dropped, because a network client has read too slowly, or because the session has moved to another node. Until the client attaches again (with since, if it has the feature seq), it receives only responses and dialogs of the session."),
	event[Heartbeat]("heartbeat", told{since: "troupe", needs: FeatureHeartbeat}, "Nothing was written for 15 seconds, and the connection is alive. It belongs to no session."),
	event[Draining]("draining", told{since: "troupe"}, "The daemon is shutting down and accepts no more commands. Only for network clients. It belongs to no session."),
	event[TodoReminder]("todo_reminder", told{since: "s1 omp18"}, "The run ended with open items in the todo list. The model is reminded, and the run continues. The model updates the list with the tool todo_write, which is active in s1; elsewhere set_todos or `--tools` activates it."),
	event[TTSRTriggered]("ttsr_triggered", told{since: "s1 omp18"}, "The model's text has matched stream rules. It is stopped, receives the rules, and continues."),
	event[BudgetWarning]("budget_warning", told{since: "s1", only: withTasks}, "A limit of the session is nearly reached. Once for each limit, also after a restart. In s1 and the union."),
	event[BudgetExceeded]("budget_exceeded", told{since: "s1", only: withTasks}, "A limit of the session is reached. No more requests to a model are made. prompt, steer, follow_up, abort_and_prompt and compact are refused until set_budget or the settings raise the limit. Queued messages stay in the queue."),
	event[HostToolCall]("host_tool_call", told{since: "omp18", to: Host}, "The model calls a tool of this client. Answer with host_tool_result."),
	event[HostToolCancel]("host_tool_cancel", told{since: "omp18", to: Host}, "The call was cancelled. Its result is ignored."),
	event[ExtensionUIRequest]("extension_ui_request", told{since: "s1 s2 pi1 omp18", unless: FeatureHookUI, dialog: true}, "A dialog (select, confirm, input, editor), to be answered with extension_ui_response, or a notification. Extensions send them, and tools named by `--confirm`."),
	variant("hook_ui_request", told{since: "s3", needs: FeatureHookUI, dialog: true}, func(ev ExtensionUIRequest) (ExtensionUIRequest, bool) {
		return ev, true
	}, "`extension_ui_request` by the name of pi 0.31; the answer may be called `hook_ui_response`."),
	event[AuthChanged]("auth_changed", told{since: "troupe", needs: FeatureAuth}, "The credentials of a provider have changed: a login was added, removed, cannot be renewed, or works again. Sent to every client; it belongs to no session. Changes by other programs are noticed with the next request."),
	event[AuthRefreshStart]("auth_refresh_start", told{since: "troupe", needs: FeatureAuth}, "A login is being renewed. Requests with it wait, 20 seconds at most. Sent to every client; it belongs to no session."),
	event[AuthRefreshEnd]("auth_refresh_end", told{since: "troupe", needs: FeatureAuth}, "The renewal of a login has ended. If it failed, reason has the error."),
	event[ApprovalRequest]("approval_request", told{since: "troupe", needs: FeatureApprovals, dialog: true}, "A tool call waits for approval: answer with approval_response. It follows tool_execution_start. See permissions.json and set_permission_mode."),
	variant("extension_ui_request", told{since: "s1 s2 pi1 omp18", unless: FeatureApprovals, dialog: true}, func(ev ApprovalRequest) (ExtensionUIRequest, bool) { return ev.Select(), true },
		"Without the feature approvals, an approval is requested by a dialog of the method select. Its options are texts, and value of the answer is one of them."),
	event[ApprovalResolved]("approval_resolved", told{since: "troupe", needs: FeatureApprovals, dialog: true}, "An approval_request was answered or withdrawn."),
	event[DialogResolved]("dialog_resolved", told{since: "troupe", needs: FeatureDialogEvents, dialog: true}, "A dialog has ended. Clients that show it close it."),
	variant("dialog_resolved", told{since: "troupe", needs: FeatureDialogEvents, unless: FeatureApprovals, dialog: true}, func(ev ApprovalResolved) (DialogResolved, bool) {
		return ev.Dialog(), true
	}, "Without the feature approvals, the end of an approval that was sent as a dialog."),
	event[ExtensionError]("extension_error", told{since: "s1 s2 s4 pi1 omp18", unless: FeatureHookErrorOnly}, "An extension failed: while loading, in a handler, or in a request."),
	variant("hook_error", told{since: "s0 s3", unless: FeatureExtensionErrorOnly}, func(ev ExtensionError) (hookError, bool) {
		return hookError{ev.ExtensionPath, ev.Event, ev.Error}, true
	},
		"extension_error, under its older name."),
}

// withTasks are the dialects whose clients know of children and budgets.
var withTasks = []Dialect{DialectS1, DialectUnion}

// compactionEnd is the wire form of AutoCompactionEnd with the feature
// compactionEvents.
type compactionEnd struct {
	Reason       string            `json:"reason"`
	Result       *CompactionResult `json:"result,omitempty" null:"s4" doc:"Absent when aborted or failed."`
	Aborted      bool              `json:"aborted"`
	WillRetry    bool              `json:"willRetry" doc:"The prompt is repeated: see auto_compaction_end."`
	ErrorMessage string            `json:"errorMessage,omitempty" doc:"Why it failed or was refused."`
}

// queueUpdate is the wire form of QueueChanged with the feature queueUpdate.
type queueUpdate struct {
	Steering []string `json:"steering"`
	FollowUp []string `json:"followUp"`
}

// hookError is the wire form of ExtensionError in pi of January 2026.
type hookError struct {
	HookPath string `json:"hookPath"`
	Event    string `json:"event"`
	Error    string `json:"error"`
}

var byEvent = sync.OnceValue(func() map[reflect.Type][]*EventSpec {
	m := make(map[reflect.Type][]*EventSpec, len(Events))
	for i := range Events {
		m[Events[i].Event] = append(m[Events[i].Event], &Events[i])
	}
	return m
})

// RowsOf lists the rows of an event, one for each of its names.
func RowsOf(ev Event) []*EventSpec { return byEvent()[reflect.TypeOf(ev)] }

// RowOf is a row of an event: what the table says of its spans, of whom it is told and of
// dialogs is the same under each of its names.
func RowOf(ev Event) *EventSpec { return RowsOf(ev)[0] }

// EventTypes lists the events by their wire names.
func EventTypes() []string {
	names := make([]string, 0, len(Events))
	for _, e := range Events {
		names = append(names, e.Name)
	}
	return names
}
