package protocol

import (
	"reflect"
	"strings"
	"sync"
)

// Owner says which actor answers a command.
type Owner uint8

const (
	// OwnerSession commands take effect in the session they are addressed to, in
	// order with everything else sent to it.
	OwnerSession Owner = iota
	// OwnerRouter commands concern the connection and are answered without a
	// session.
	OwnerRouter
)

// Spec is one row of the command table. Decoding, dispatch, the reference and
// the schema are all derived from it.
type Spec struct {
	Name     string
	Owner    Owner
	Params   reflect.Type // the Command
	Result   reflect.Type // data of a success; nil for none
	Nullable bool         // data may be null
	Silent   bool         // not answered (unless the dialect's features say so)
	Since    string       // which dialects have it: seeds by number, P for pi 1.x, O for oh-my-pi 18, T for troupe's own
	Doc      string

	fields func() []field
}

type row struct {
	owner    Owner
	result   any
	nullable bool
	silent   bool
	since    string
}

func spec[C Command](name string, r row, doc string) Spec {
	s := Spec{
		Name: name, Owner: r.owner, Params: reflect.TypeFor[C](), Nullable: r.nullable,
		Silent: r.silent, Since: r.since, Doc: doc,
	}
	if r.result != nil {
		s.Result = reflect.TypeOf(r.result)
	}
	s.fields = sync.OnceValue(func() []field { return fieldsOf(s.Params) })
	return s
}

// Commands is the table: every command a client may send.
var Commands = []Spec{
	// Prompting
	spec[Prompt]("prompt", row{result: Disposition{}, since: "S0 S1 S2 S3 S4 P O"},
		"Start a run with a user message, or queue it while one is active. Accepted means queued or started, not done: agent_end and agent_settled say when."),
	spec[Steer]("steer", row{result: Disposition{}, since: "S0 S1 S2 S4 P O"},
		"Interrupt: deliver a message after the current tool call, skipping the rest. While idle it starts a run."),
	spec[FollowUp]("follow_up", row{result: Disposition{}, since: "S0 S1 S2 S4 P O"},
		"Deliver a message when the agent would otherwise stop. While idle it starts a run."),
	spec[QueueMessage]("queue_message", row{since: "S3"},
		"Inject a message at the next turn. Never starts a run."),
	spec[Abort]("abort", row{since: "S0 S1 S2 S3 S4 P O"},
		"Stop the run, a retry wait or a compaction. Answered after the run's closing events; queued messages stay queued."),
	spec[AbortAndPrompt]("abort_and_prompt", row{result: Disposition{}, since: "S1 O"},
		"Stop the run, then start another with this message."),
	spec[ClearQueue]("clear_queue", row{result: QueueContent{}, since: "P"},
		"Empty both queues and return what was in them."),

	// State, model, modes
	spec[GetState]("get_state", row{result: &SessionState{}, since: "S0 S1 S2 S3 S4 P O"},
		"The session's state. Answered at once, also during a run."),
	spec[GetMessages]("get_messages", row{result: MessageList{}, since: "S0 S1 S2 S3 S4 P O"},
		"The messages of the current context, oldest first; not those still streaming."),
	spec[SetModel]("set_model", row{result: &Model{}, since: "S0 S1 S2 S3 S4 P O"},
		"Select a model for the next request to a provider."),
	spec[CycleModel]("cycle_model", row{result: ModelChoice{}, nullable: true, since: "S0 S1 S2 S3 S4 P O"},
		"Select the next model of the scope (--models), or of all available ones. null with no choice."),
	spec[GetAvailableModels]("get_available_models", row{result: ModelList{}, since: "S0 S1 S2 S3 S4 P O"},
		"The models there are credentials for."),
	spec[SetThinkingLevel]("set_thinking_level", row{since: "S0 S1 S2 S3 S4 P O"},
		"Set the thinking level, clamped to what the model supports."),
	spec[CycleThinkingLevel]("cycle_thinking_level", row{result: LevelChoice{}, nullable: true, since: "S0 S1 S2 S3 S4 P O"},
		"Set the next thinking level of the model. null if it cannot think."),
	spec[GetAvailableThinkingLevels]("get_available_thinking_levels", row{result: LevelList{}, since: "P"},
		"The thinking levels of the model."),
	spec[SetSteeringMode]("set_steering_mode", row{since: "S0 S1 S2 S4 P O"},
		"How many steering messages one delivery takes."),
	spec[SetFollowUpMode]("set_follow_up_mode", row{since: "S0 S1 S2 S4 P O"},
		"How many follow-up messages one delivery takes."),
	spec[SetQueueMode]("set_queue_mode", row{since: "S3"},
		"The steering mode, under its name in oh-my-pi 1.337."),
	spec[SetInterruptMode]("set_interrupt_mode", row{since: "S1 O"},
		"Whether steering is looked for between tool calls."),

	// Compaction, retry, bash
	spec[Compact]("compact", row{result: CompactionResult{}, since: "S0 S1 S2 S3 S4 P O"},
		"Stop the run and put a summary in the place of older history. Answered when it is there."),
	spec[SetAutoCompaction]("set_auto_compaction", row{since: "S0 S1 S2 S3 S4 P O"},
		"Whether a nearly full context is compacted by itself."),
	spec[SetAutoRetry]("set_auto_retry", row{since: "S0 S1 S2 S3 S4 P O"},
		"Whether transient provider errors are retried by themselves."),
	spec[AbortRetry]("abort_retry", row{since: "S0 S1 S2 S3 S4 P O"},
		"Stop waiting for a retry. Succeeds also when none is waiting."),
	spec[Bash]("bash", row{result: BashResult{}, since: "S0 S1 S2 S3 S4 P O"},
		"Run a shell command, answer when it ended, and show the model its output with the next prompt. Several run at once, and end in any order; dialect s4 has one at a time."),
	spec[AbortBash]("abort_bash", row{since: "S0 S1 S2 S3 S4 P O"},
		"Kill the running bash commands, all of them. Answered before their own responses."),

	// Sessions
	spec[NewSession]("new_session", row{result: Cancelled{}, since: "S0 S1 S2 S3 S4 P O"},
		"Stop the run, clear the queues and begin an empty session."),
	spec[SwitchSession]("switch_session", row{result: Cancelled{}, since: "S0 S1 S2 S3 S4 P O"},
		"Stop the run, clear the queues and load another session file."),
	spec[Fork]("fork", row{result: ForkResult{}, since: "S0 S2 S4 P"},
		"Begin a session with what came before a user message, and return that message's text. The old session stays as it is."),
	spec[Fork]("branch", row{result: ForkResult{}, since: "S1 S3 O"},
		"fork, under its name in pisces and oh-my-pi."),
	spec[Clone]("clone", row{result: Cancelled{}, since: "P"},
		"Begin a session with a copy of the current branch."),
	spec[GetForkMessages]("get_fork_messages", row{result: ForkMessages{}, since: "S0 S2 S4 P"},
		"The user messages of every branch of the session, oldest first: each can be forked before."),
	spec[GetForkMessages]("get_branch_messages", row{result: ForkMessages{}, since: "S1 S3 O"},
		"get_fork_messages, under its name in pisces and oh-my-pi."),
	spec[ListSessions]("list_sessions", row{result: SessionList{}, since: "S2"},
		"Sessions on disk, those with the latest activity first."),
	spec[GetSessionTree]("get_session_tree", row{result: SessionTree{}, since: "S2"},
		"Every branch of the session, with labels and previews. The entries in which troupe keeps its own notes are left out here, in get_tree and in get_entries: what follows one of them follows the entry before. Nested as deep as the session is long: many JSON parsers stop at 1,000 or 10,000; get_entries is flat."),
	spec[GetTree]("get_tree", row{result: WholeTree{}, since: "P"},
		"Every branch of the session, with whole entries. Nested as deep as the session is long, see get_session_tree."),
	spec[GetEntries]("get_entries", row{result: EntryList{}, since: "P"},
		"The entries of the session file, in its order."),
	spec[NavigateTree]("navigate_tree", row{result: NavigateResult{}, since: "S2"},
		"Stop the run and go on from another entry of the same session, if wanted with a summary of the branch that is left."),
	spec[SetEntryLabel]("set_entry_label", row{since: "S2"},
		"Give an entry a label, or take it away."),
	spec[ExportHTML]("export_html", row{result: PathResult{}, since: "S0 S1 S2 S3 S4 P O"},
		"Write the session as one HTML file."),
	spec[SetSessionName]("set_session_name", row{since: "S1 S2 S4 P O"},
		"Name the session."),
	spec[GetSessionStats]("get_session_stats", row{result: SessionStats{}, since: "S0 S1 S2 S3 S4 P O"},
		"Counts, tokens and cost of the current branch, compacted history included, and how full the model's window is."),
	spec[GetLastAssistantText]("get_last_assistant_text", row{result: TextResult{}, since: "S0 S1 S2 S3 S4 P O"},
		"The text of the newest assistant message."),

	spec[GetContextUsage]("get_context_usage", row{result: ContextUsageResult{}, since: "S2"},
		"How full the model's window is."),

	// Tools and resources
	spec[GetTools]("get_tools", row{result: ToolList{}, since: "S2"},
		"The tools there are, and which of them a model may call."),
	spec[SetActiveTools]("set_active_tools", row{result: ActiveTools{}, since: "S2"},
		"Choose the tools a model may call, from its next request on. A call of a tool that the request did not offer does not run, whoever would run it: the model reads Tool NAME not found."),
	spec[GetCommands]("get_commands", row{result: CommandList{}, since: "S2 S4 P"},
		"The prompt templates and skills that a message may begin with. This version has no commands of extensions."),
	spec[ReloadResources]("reload_resources", row{result: CommandList{}, since: "S2"},
		"Read settings, prompt templates, skills and context files again. Not during a run."),

	spec[SetTodos]("set_todos", row{result: TodoResult{}, since: "O"},
		"Replace the todo list, and let the model use the tool todo_write to keep it. Open items remind it."),
	spec[SetHostTools]("set_host_tools", row{result: ToolNames{}, since: "O"},
		"Declare the tools that the client runs itself, replacing those of an earlier call. They are active at once."),
	spec[HostToolUpdate]("host_tool_update", row{silent: true, since: "O"},
		"The output so far of a host_tool_call. Not answered."),
	spec[HostToolResult]("host_tool_result", row{silent: true, since: "O"},
		"The result of a host_tool_call. Not answered."),

	// Dialogs
	spec[ExtensionUIResponse]("extension_ui_response", row{silent: true, since: "S1 S2 S4 P O"},
		"Answer an extension_ui_request. Not answered itself, except with the feature uiAck."),
	spec[ExtensionUIResponse]("hook_ui_response", row{silent: true, since: "T"},
		"Another name for extension_ui_response: what clients of oh-my-pi's ancestor of 0.31 send."),

	// Connection
	spec[GetProtocolInfo]("get_protocol_info", row{owner: OwnerRouter, result: ProtocolInfo{}, since: "T"},
		"Version, dialect, features, limits. No side effect, at any time."),
	spec[Hello]("hello", row{owner: OwnerRouter, result: ProtocolInfo{}, since: "T"},
		"Choose a dialect and switch features on. Best sent first; it applies to everything after it."),
	spec[OpenSession]("open_session", row{owner: OwnerRouter, result: OpenedSession{}, since: "T"},
		"Open a further session in this process. Its commands carry the returned sessionId, and so does everything it writes."),
	spec[CloseSession]("close_session", row{owner: OwnerRouter, since: "T"},
		"Close an open session: stop or finish its run, write everything down, let go of its file."),
	spec[AttachSession]("attach", row{owner: OwnerRouter, result: OpenedSession{}, since: "T"},
		"Hear of an open session again after detach."),
	spec[DetachSession]("detach", row{owner: OwnerRouter, since: "T"},
		"Hear no more of a session. It goes on; without retain it ends when its run does."),
	spec[ListOpenSessions]("list_open_sessions", row{owner: OwnerRouter, result: OpenSessions{}, since: "T"},
		"The live sessions of this process, what each does and what it waits for."),
}

var byName = sync.OnceValue(func() map[string]*Spec {
	m := make(map[string]*Spec, len(Commands))
	for i := range Commands {
		m[Commands[i].Name] = &Commands[i]
	}
	return m
})

// Lookup finds the row of a command; nil if there is none.
func Lookup(name string) *Spec { return byName()[name] }

// field is one parameter of a command, read off its struct.
type field struct {
	name     string
	index    int
	required bool
	enum     []string
	min, max int
	doc      string
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fd := field{name: name, index: i, required: f.Tag.Get("req") == "true", doc: f.Tag.Get("doc")}
		if enum := f.Tag.Get("enum"); enum != "" {
			fd.enum = strings.Split(enum, ",")
		}
		fd.min, fd.max = tagInt(f.Tag.Get("min")), tagInt(f.Tag.Get("max"))
		fields = append(fields, fd)
	}
	return fields
}

func tagInt(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}
