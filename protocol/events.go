package protocol

import "reflect"

// EventSpec is one row of the event table, from which the reference and the
// schema are derived.
type EventSpec struct {
	Name    string
	Event   reflect.Type // the struct whose members it has; nil for message_update, which has a form of its own
	Since   string       // which dialects have it, as in Spec
	Feature Feature      // the feature it needs, "" for always
	Doc     string
}

func event[E any](name, since string, f Feature, doc string) EventSpec {
	return EventSpec{name, reflect.TypeFor[E](), since, f, doc}
}

// Events is every event a client may see, under its wire name.
var Events = []EventSpec{
	event[AgentStart]("agent_start", "S0 S1 S2 S3 S4 P O", "", "A run begins."),
	event[AgentEnd]("agent_end", "S0 S1 S2 S3 S4 P O", "", "A run is over. More may follow by itself: see willRetry and agent_settled."),
	event[TurnStart]("turn_start", "S0 S1 S2 S3 S4 P O", "", "A turn begins: user messages, one assistant message, its tool calls."),
	event[TurnEnd]("turn_end", "S0 S1 S2 S3 S4 P O", "", "The turn is over."),
	event[MessageStart]("message_start", "S0 S1 S2 S3 S4 P O", "", "A message begins."),
	{Name: "message_update", Since: "S0 S1 S2 S3 S4 P O", Doc: "The assistant message has grown by one step. message and partial are the message so far; with deltaUpdates there is the step only, and usage."},
	event[MessageEnd]("message_end", "S0 S1 S2 S3 S4 P O", "", "A message is whole."),
	event[AgentSettled]("agent_settled", "P", FeatureSettled, "Nothing more follows by itself: retries, compaction and queued messages are done. The last record of the work that an accepted message caused."),
	event[ToolExecutionStart]("tool_execution_start", "S0 S1 S2 S3 S4 P O", "", "A tool call begins, also one that will be refused or skipped. edit and write change nothing before 10 ms after this was written, so that a client can read the file as it was; nor do they wait for more than 5 s where nobody reads."),
	event[ToolExecutionUpdate]("tool_execution_update", "S0 S1 S2 S3 S4 P O", "", "A tool's output so far."),
	event[ToolExecutionEnd]("tool_execution_end", "S0 S1 S2 S3 S4 P O", "", "A tool call is over."),
	event[AutoCompactionStart]("auto_compaction_start", "S0 S1 S2 S3 S4", "", "Older history is being summarised, by itself. Not in pi1."),
	event[AutoCompactionEnd]("auto_compaction_end", "S0 S1 S2 S3 S4", "", "The summary is in its place, or why not."),
	event[AutoCompactionStart]("compaction_start", "P", FeatureCompactionEvents, "Older history is being summarised, by itself or for the command compact. A compaction that begins by itself and finds nothing to compact is not announced."),
	event[compactionEnd]("compaction_end", "P", FeatureCompactionEvents, "The summary is in its place, or why not."),
	event[SummarizationRetry]("summarization_retry_scheduled", "P", FeatureEntryEvents, "A summary failed and is asked for again after a wait."),
	event[SummarizationRetry]("summarization_retry_attempt_start", "P", FeatureEntryEvents, "The wait is over."),
	event[SummarizationRetry]("summarization_retry_finished", "P", FeatureEntryEvents, "The summary is there after all."),
	event[AutoRetryStart]("auto_retry_start", "S0 S1 S2 S3 S4 P O", "", "A transient failure: the same request is made again after a wait."),
	event[AutoRetryEnd]("auto_retry_end", "S0 S1 S2 S3 S4 P O", "", "The retries are over: answered, used up or cancelled."),
	event[SessionChanged]("session_changed", "S2", "", "Another session has taken this one's place, or the same one another branch. Written before the answer to the command that did it."),
	event[QueueChanged]("queue_changed", "S2", "", "Messages were queued, delivered or dropped. Not with queueUpdate."),
	event[queueUpdate]("queue_update", "P", FeatureQueueUpdate, "The whole content of both queues, whenever it changes."),
	event[EntryAppended]("entry_appended", "P", FeatureEntryEvents, "An entry was added that no other event shows: a label, a context edit, a branch summary."),
	event[SessionInfoChanged]("session_info_changed", "P", FeatureSettingEvents, "The session has a new name."),
	event[ThinkingLevelChanged]("thinking_level_changed", "P O", FeatureSettingEvents, "The thinking level changed."),
	event[BashExecutionUpdate]("bash_execution_update", "P", FeatureBashUpdates, "New output of a bash command."),
	event[SessionFailed]("session_failed", "T", "", "The session crashed too often and was given up."),
	event[TodoReminder]("todo_reminder", "S1 O", "", "The run ended while items of the todo list are open; the model is reminded and goes on. The list is kept by the tool todo_write, which s1 has from the beginning; elsewhere set_todos or `--tools` switches it on."),
	event[TTSRTriggered]("ttsr_triggered", "S1 O", "", "What the model was writing tripped stream rules: it is stopped, shown the rules, and goes on."),
	event[HostToolCall]("host_tool_call", "O", "", "The model calls a tool of the host: answer with host_tool_result."),
	event[HostToolCancel]("host_tool_cancel", "O", "", "The result of a host_tool_call is no longer wanted."),
	event[ExtensionUIRequest]("extension_ui_request", "S1 S2 P O", "", "A dialog, to be answered with extension_ui_response, or a notice. This version sends `confirm` only, without a timeout, for the tools that `--confirm` names; the other methods come with extensions."),
}

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

// EventTypes lists the events by their wire names.
func EventTypes() []string {
	names := make([]string, 0, len(Events))
	for _, e := range Events {
		names = append(names, e.Name)
	}
	return names
}
