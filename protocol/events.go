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
	event[AgentStart]("agent_start", told{opens: SpanRun}, "A run begins."),
	event[AgentEnd]("agent_end", told{closes: SpanRun}, "A run is over. More may follow by itself: see willRetry and agent_settled."),
	event[TurnStart]("turn_start", told{opens: SpanTurn}, "A turn begins: user messages, one assistant message, its tool calls."),
	event[TurnEnd]("turn_end", told{closes: SpanTurn}, "The turn is over."),
	event[MessageStart]("message_start", told{opens: SpanMessage}, "A message begins."),
	event[*MessageUpdate]("message_update", told{merges: true}, "The assistant message has grown by one step. message and partial are the message so far, and neighbouring deltas that come within 8 ms are one update. With deltaUpdates there is only the step, and usage."),
	event[MessageEnd]("message_end", told{closes: SpanMessage}, "A message is whole."),
	event[AgentSettled]("agent_settled", told{since: "pi1", closes: SpanWork}, "Nothing more follows by itself: retries, compaction and queued messages are done. The last record of the work that an accepted message caused."),
	event[ToolExecutionStart]("tool_execution_start", told{opens: SpanTool}, "A tool call begins, also one that will be refused or skipped. edit and write change nothing before 10 ms after this was written, so that a client can read the file as it was; nor do they wait for more than 5 s where nobody reads."),
	event[ToolExecutionUpdate]("tool_execution_update", told{merges: true}, "A tool's output so far."),
	event[ToolExecutionEnd]("tool_execution_end", told{closes: SpanTool}, "A tool call is over."),
	event[SubagentStart]("subagent_start", told{since: "s1", only: withTasks, opens: SpanChild}, "A child begins: an item of a call of the tool task. Its session is open, and nothing was said to it yet. In s1 and the union, as the next five."),
	event[SubagentVerificationStart]("subagent_verification_start", told{since: "s1", only: withTasks, opens: SpanAttempt}, "What a child has done is about to be verified."),
	event[SubagentVerificationCommandStart]("subagent_verification_command_start", told{since: "s1", only: withTasks, opens: SpanCheck}, "A command of the verification begins."),
	event[SubagentVerificationCommandEnd]("subagent_verification_command_end", told{since: "s1", only: withTasks, closes: SpanCheck}, "It is over, and its output is on disk."),
	event[SubagentVerificationEnd]("subagent_verification_end", told{since: "s1", only: withTasks, closes: SpanAttempt}, "All commands of the attempt are over."),
	event[SubagentEnd]("subagent_end", told{since: "s1", only: withTasks, closes: SpanChild}, "The child is over, before the end of the call. What it has done is in the result of the call."),
	event[SubagentLifecycle]("subagent_lifecycle", told{since: "omp18", to: Subscribers}, "A child begins or has ended. After set_subagent_subscription, like the next two: to the client that has asked, without a number."),
	event[SubagentProgress]("subagent_progress", told{since: "omp18", to: Subscribers}, "What a child does: when it begins and ends, and between that several times a second at most."),
	event[SubagentEvent]("subagent_event", told{since: "omp18", to: Subscribers}, "An event of a child's session. Of a message that was open when the client subscribed there is the end only. The children wait for a client that does not read."),
	variant("auto_compaction_start", told{since: "s0 s1 s2 s3 s4", unless: FeatureCompactionEventsOnly, opens: SpanCompaction}, func(ev AutoCompactionStart) (AutoCompactionStart, bool) { return ev, ev.Reason != "manual" },
		"Older history is being summarised, by itself. Not in pi1."),
	event[AutoCompactionStart]("compaction_start", told{since: "pi1", needs: FeatureCompactionEvents, opens: SpanCompaction}, "Older history is being summarised, by itself or for the command compact. A compaction that begins by itself and finds nothing to compact is not announced."),
	variant("compaction_end", told{since: "pi1", needs: FeatureCompactionEvents, closes: SpanCompaction}, func(ev AutoCompactionEnd) (compactionEnd, bool) {
		return compactionEnd{ev.Reason, ev.Result, ev.Aborted, ev.WillRetry, ev.ErrorMessage}, true
	}, "The summary is in its place, or why not."),
	variant("auto_compaction_end", told{since: "s0 s1 s2 s3 s4", unless: FeatureCompactionEventsOnly, closes: SpanCompaction}, func(ev AutoCompactionEnd) (AutoCompactionEnd, bool) { return ev, ev.Reason != "manual" },
		"The summary is in its place, or why not."),
	event[SummarizationRetryScheduled]("summarization_retry_scheduled", told{since: "pi1", needs: FeatureEntryEvents}, "A summary failed and is asked for again after a wait."),
	event[SummarizationRetryAttempt]("summarization_retry_attempt_start", told{since: "pi1", needs: FeatureEntryEvents}, "The wait is over."),
	event[SummarizationRetryFinished]("summarization_retry_finished", told{since: "pi1", needs: FeatureEntryEvents}, "The summary is there after all."),
	event[AutoRetryStart]("auto_retry_start", told{opens: SpanRetry}, "A transient failure: the same request is made again after a wait."),
	event[AutoRetryEnd]("auto_retry_end", told{closes: SpanRetry}, "The retries are over: answered, used up or cancelled."),
	event[SessionChanged]("session_changed", told{since: "s2"}, "Another session has taken this one's place, or the same one another branch. Written before the answer to the command that did it."),
	event[QueueChanged]("queue_changed", told{since: "s2", unless: FeatureQueueUpdate, merges: true}, "Messages were queued, delivered or dropped. Not with queueUpdate."),
	variant("queue_update", told{since: "pi1", needs: FeatureQueueUpdate, merges: true}, func(ev QueueChanged) (queueUpdate, bool) { return queueUpdate{ev.Steering, ev.FollowUp}, true },
		"The whole content of both queues, whenever it changes."),
	event[EntryAppended]("entry_appended", told{since: "pi1", needs: FeatureEntryEvents}, "An entry was added that no other event shows: a label, a context edit, a branch summary."),
	event[SessionInfoChanged]("session_info_changed", told{since: "pi1", needs: FeatureSettingEvents}, "The session has a new name."),
	event[ThinkingLevelChanged]("thinking_level_changed", told{since: "pi1 omp18", needs: FeatureSettingEvents}, "The thinking level changed."),
	event[BashExecutionUpdate]("bash_execution_update", told{since: "pi1", needs: FeatureBashUpdates}, "New output of a bash command."),
	event[SessionFailed]("session_failed", told{since: "troupe"}, "The session crashed too often and was given up; or its node was lost, and with it all there was of the session, as of a child task. attach finds none any more then."),
	event[SessionStatus]("session_status", told{since: "troupe", needs: FeatureSessionEvents}, "For a connection that watches sessions: one of the process has begun, does something else, waits for somebody, or has ended (status closed). sessionId is its handle; the record belongs to no session of the connection. Of several changes while the client does not read it is told the last."),
	event[StateChanged]("state_changed", told{since: "troupe", needs: FeatureStateEvents}, "Somebody has chosen another model, mode, name or other tools; only what has changed."),
	event[ClientsChanged]("clients_changed", told{since: "troupe", needs: FeatureStateEvents}, "Other clients hear of the session than before."),
	event[ExtensionCommandEnd]("extension_command_end", told{since: "troupe", needs: FeatureStateEvents}, "A command of an extension has ended, and nothing goes on in the session any more: a run that it began is settled."),
	event[SessionMoved]("session_moved", told{since: "troupe"}, "In a cluster: another node has the session from now on. Commands find it, under the same handle. A client with the feature seq reads resync behind it; others are told the end of all that they saw begin, and hear on."),
	event[SessionWaiting]("session_waiting", told{since: "troupe"}, "In a cluster: the session cannot be written, or no node has it, for more than a second. It goes on by itself."),
	event[Resync]("resync", told{since: "troupe"}, "Events of the session are missing: the client has not read, and those that waited for it were dropped, which happens on connections over a network only; or the session has moved to another node of a cluster. The client is told nothing more of the session but answers and dialogs until it attaches again: with since, if it has the feature seq."),
	event[Heartbeat]("heartbeat", told{since: "troupe", needs: FeatureHeartbeat}, "Nothing was written for 15 seconds, and the connection lives. It belongs to no session."),
	event[Draining]("draining", told{since: "troupe"}, "The daemon comes to its end and takes no commands any more. Written on connections over a network only; it belongs to no session."),
	event[TodoReminder]("todo_reminder", told{since: "s1 omp18"}, "The run ended while items of the todo list are open; the model is reminded and goes on. The list is kept by the tool todo_write, which s1 has from the beginning; elsewhere set_todos or `--tools` switches it on."),
	event[TTSRTriggered]("ttsr_triggered", told{since: "s1 omp18"}, "What the model was writing tripped stream rules: it is stopped, shown the rules, and goes on."),
	event[BudgetWarning]("budget_warning", told{since: "s1", only: withTasks}, "A limit of the session is nearly reached: once for each, also over a restart. Only where something is limited; in s1 and the union."),
	event[BudgetExceeded]("budget_exceeded", told{since: "s1", only: withTasks}, "A limit of the session is reached: nothing is sent to a model any more, and prompt, steer, follow_up, abort_and_prompt and compact are refused, until set_budget or the settings raise it. What waits in the queues stays there."),
	event[HostToolCall]("host_tool_call", told{since: "omp18", to: Host}, "The model calls a tool of the host: answer with host_tool_result."),
	event[HostToolCancel]("host_tool_cancel", told{since: "omp18", to: Host}, "The result of a host_tool_call is no longer wanted."),
	event[ExtensionUIRequest]("extension_ui_request", told{since: "s1 s2 pi1 omp18", unless: FeatureHookUI, dialog: true}, "A dialog (select, confirm, input, editor), to be answered with extension_ui_response, or a notice. Extensions send them, and `--confirm` for the tools that it names."),
	variant("hook_ui_request", told{since: "s3", needs: FeatureHookUI, dialog: true}, func(ev ExtensionUIRequest) (ExtensionUIRequest, bool) {
		return ev, true
	}, "`extension_ui_request` by the name of pi 0.31; the answer may be called `hook_ui_response`."),
	event[AuthChanged]("auth_changed", told{since: "troupe", needs: FeatureAuth}, "A provider's credentials stand otherwise than before: a login was made, removed, cannot be renewed or can again. Once for each change, to every client, of no session. What another program has changed is noticed with the next request."),
	event[AuthRefreshStart]("auth_refresh_start", told{since: "troupe", needs: FeatureAuth}, "A login is renewed; requests with it wait, 20 seconds at most. To every client, of no session."),
	event[AuthRefreshEnd]("auth_refresh_end", told{since: "troupe", needs: FeatureAuth}, "It was renewed, or could not be: then reason says why."),
	event[ApprovalRequest]("approval_request", told{since: "troupe", needs: FeatureApprovals, dialog: true}, "A tool call waits for approval: answer with approval_response. Written behind its tool_execution_start. See permissions.json and set_permission_mode."),
	variant("extension_ui_request", told{since: "s1 s2 pi1 omp18", unless: FeatureApprovals, dialog: true}, func(ev ApprovalRequest) (ExtensionUIRequest, bool) { return ev.Select(), true },
		"approval_request as a dialog with the method select, its options with what they allow as texts."),
	event[ApprovalResolved]("approval_resolved", told{since: "troupe", needs: FeatureApprovals, dialog: true}, "An approval_request has been answered, or is over without an answer."),
	event[DialogResolved]("dialog_resolved", told{since: "troupe", needs: FeatureDialogEvents, dialog: true}, "A dialog is over: whoever shows it takes it away."),
	variant("dialog_resolved", told{since: "troupe", needs: FeatureDialogEvents, unless: FeatureApprovals, dialog: true}, func(ev ApprovalResolved) (DialogResolved, bool) {
		return ev.Dialog(), true
	}, "approval_resolved for clients to which the question was a dialog."),
	event[ExtensionError]("extension_error", told{since: "s1 s2 s4 pi1 omp18", unless: FeatureHookErrorOnly}, "An extension failed: at load, in a handler, or in what it asked for."),
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
	WillRetry    bool              `json:"willRetry" doc:"The prompt that overflowed runs again: see auto_compaction_end."`
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
