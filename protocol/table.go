package protocol

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Scope says how far a command reaches: what it depends on and may change.
type Scope uint8

const (
	// ScopeConnection commands concern the connection: its router answers them, or
	// sees to it that the session they name does.
	ScopeConnection Scope = iota + 1
	// ScopeQuery commands only ask. They are answered at any time, also while the
	// session waits for something.
	ScopeQuery
	// ScopeSession commands change queues, modes and jobs, which are the session's
	// whatever branch is current.
	ScopeSession
	// ScopeBranch commands depend on the current branch, or change it.
	ScopeBranch
	// ScopeReplace commands put another session, or another branch, in the place of
	// this one. Commands behind them wait until that is done.
	ScopeReplace
)

// Trait is something that has to be known of a command without looking into it.
type Trait uint16

const (
	// EndsWork: a session that closes when its run ends still takes the command,
	// for the run may wait for it.
	EndsWork Trait = 1 << iota
	// EndsNavigation: a navigate_tree that waits for its summary gives up.
	EndsNavigation
	// Large: the answer can grow with a session, or with their number. It waits
	// while the client does not read.
	Large
	// NeedsModels: the machine is shown the models that can be selected.
	NeedsModels
	// NeedsExtensions: it waits until the extensions of its session are loaded.
	NeedsExtensions
	// TakesInput: its message goes past the extensions that change input.
	TakesInput
	// Groups: neighbours share an fsync, where each answer stands for one.
	Groups
	// Answers: it is about a question of the session, for which a command before it may
	// be waiting.
	Answers
	// ActsOnce: from a client that has named itself the same line does nothing again.
	ActsOnce
	// Looks: it changes nothing, for nobody, and reads nothing but what sessions say. A
	// viewer may give it, and no other.
	Looks
	// AboutFiles: it is about session files, also those that are not open.
	AboutFiles
	// ParentsOnly: it makes something else of a session that is a task of another, and
	// only the other may give it.
	ParentsOnly
	// InLog: the log of its session answers it, also where no node can have that session.
	InLog
	// Repeatable: a command of the connection that has no further effect when it is repeated.
	Repeatable
	// Outside: a command of a session that has an effect outside the log, see [EffectOutside].
	Outside
)

// Effect classifies commands by the state that they change. It decides what is known about a command that
// was interrupted.
type Effect uint8

const (
	// EffectNone: the command changes nothing, or is idempotent. It may be repeated.
	EffectNone Effect = iota + 1
	// EffectLog: the command appends entries to the log of its session, and changes only state that is
	// derived from them. The log shows whether it ran.
	EffectLog
	// EffectOutside: the command changes files, processes or services. In a cluster, a record in the log
	// precedes it, so that a later owner of the session knows that it may have run.
	EffectOutside
)

// Traits are how far a command reaches, and what else it is.
type Traits struct {
	Scope Scope
	is    Trait
}

// Is says whether the command has a trait.
func (t Traits) Is(trait Trait) bool { return t.is&trait != 0 }

// Effect returns the class of state that the command changes.
func (t Traits) Effect() Effect {
	switch {
	case t.Scope == ScopeQuery, t.Is(Looks), t.Is(Repeatable):
		return EffectNone
	case t.Scope == ScopeConnection, t.Is(Outside):
		return EffectOutside
	}
	return EffectLog
}

// KeepsBranch says that it makes no difference to the command which branch is
// the current one.
func (t Traits) KeepsBranch() bool { return t.Scope == ScopeQuery || t.Scope == ScopeSession }

// Replaces says that the command puts another session in the place of this one.
func (t Traits) Replaces() bool { return t.Scope == ScopeReplace }

// Spec is one row of the command table. Decoding, dispatch, the reference and
// the schema are all derived from it.
type Spec struct {
	Name     string
	Params   reflect.Type // the Command
	Result   reflect.Type // data of a success; nil for none
	Nullable bool         // data may be null
	Silent   bool         // not answered (unless the dialect's features say so)
	Since    string       // the dialects that have it, omp18 for oh-my-pi 18, troupe for its own; "" for all but those two
	Doc      string
	Traits

	read *parameters
}

// parameters are read off the struct of a command when somebody asks for them.
type parameters struct {
	once       sync.Once
	all, paths []Param
}

type row struct {
	result   any
	nullable bool
	silent   bool
	since    string
	is       Trait
}

func spec[C Command](name string, scope Scope, r row, doc string) Spec {
	s := Spec{
		Name: name, Params: reflect.TypeFor[C](), Nullable: r.nullable, Silent: r.silent, Since: r.since, Doc: doc,
		Traits: Traits{scope, r.is}, read: new(parameters),
	}
	if scope == ScopeReplace {
		s.is |= EndsNavigation | NeedsExtensions | ParentsOnly
	}
	if scope != ScopeConnection && scope != ScopeQuery && !r.silent {
		s.is |= ActsOnce
	}
	if r.result != nil {
		s.Result = reflect.TypeOf(r.result)
	}
	return s
}

// Commands is the table: every command a client may send.
var Commands = []Spec{
	// Prompting
	spec[Prompt]("prompt", ScopeSession, row{result: Disposition{}, is: NeedsModels | Groups | NeedsExtensions | TakesInput | ParentsOnly},
		"Send a user message. It starts a run; while a run is active, it is queued as streamingBehavior says, or refused. The response says that the message was accepted. The answer of the model follows as events, and agent_settled ends them."),
	spec[Steer]("steer", ScopeSession, row{result: Disposition{}, since: "s0 s1 s2 s4 pi1 omp18", is: NeedsModels | Groups | NeedsExtensions | TakesInput},
		"Deliver a message after the current tool call, and skip the other calls of the turn. When the session is idle, it starts a run."),
	spec[FollowUp]("follow_up", ScopeSession, row{result: Disposition{}, since: "s0 s1 s2 s4 pi1 omp18", is: NeedsModels | Groups | NeedsExtensions | TakesInput},
		"Deliver a message when the agent would otherwise stop. When the session is idle, it starts a run."),
	spec[QueueMessage]("queue_message", ScopeSession, row{since: "s3", is: Groups},
		"Add a message at the next turn. It never starts a run."),
	spec[Abort]("abort", ScopeBranch, row{is: EndsWork | EndsNavigation},
		"Stop the run, a retry wait or a compaction. The response follows the closing events of the run. Queued messages stay in the queue."),
	spec[AbortAndPrompt]("abort_and_prompt", ScopeBranch, row{result: Disposition{}, since: "s1 omp18", is: EndsNavigation | NeedsModels | NeedsExtensions | TakesInput | ParentsOnly},
		"Stop the run, then start a new one with this message."),
	spec[ClearQueue]("clear_queue", ScopeSession, row{result: QueueContent{}, since: "pi1"},
		"Empty both queues and return what was in them."),

	// State, model, modes
	spec[GetState]("get_state", ScopeQuery, row{result: &SessionState{}, is: Looks},
		"The session's state. Answered at once, also during a run."),
	spec[GetMessages]("get_messages", ScopeQuery, row{result: MessageList{}, is: Large | Looks | InLog},
		"The messages of the current context, oldest first; not those still streaming."),
	spec[SetModel]("set_model", ScopeBranch, row{result: &Model{}, is: NeedsModels | NeedsExtensions | ParentsOnly},
		"Select a model for the next request to a provider."),
	spec[CycleModel]("cycle_model", ScopeBranch, row{result: ModelChoice{}, nullable: true, is: NeedsModels | NeedsExtensions | ParentsOnly},
		"Select the next model of the scope (--models), or of all available ones. null if there is no other."),
	spec[GetAvailableModels]("get_available_models", ScopeQuery, row{result: ModelList{}, is: NeedsModels | NeedsExtensions | Looks},
		"The models with credentials."),
	spec[SetThinkingLevel]("set_thinking_level", ScopeBranch, row{is: NeedsExtensions | ParentsOnly},
		"Set the thinking level, clamped to what the model supports."),
	spec[CycleThinkingLevel]("cycle_thinking_level", ScopeBranch, row{result: LevelChoice{}, nullable: true, is: NeedsExtensions | ParentsOnly},
		"Set the next thinking level of the model. null if it cannot think."),
	spec[GetAvailableThinkingLevels]("get_available_thinking_levels", ScopeQuery, row{result: LevelList{}, since: "pi1", is: Looks},
		"The thinking levels of the model."),
	spec[SetSteeringMode]("set_steering_mode", ScopeSession, row{since: "s0 s1 s2 s4 pi1 omp18"},
		"How many steering messages one delivery takes."),
	spec[SetFollowUpMode]("set_follow_up_mode", ScopeSession, row{since: "s0 s1 s2 s4 pi1 omp18"},
		"How many follow-up messages one delivery takes."),
	spec[SetQueueMode]("set_queue_mode", ScopeSession, row{since: "s3"},
		"The steering mode, under its name in oh-my-pi 1.337."),
	spec[SetInterruptMode]("set_interrupt_mode", ScopeSession, row{since: "s1 omp18"},
		"When steering messages are delivered: between tool calls, or only after the turn."),

	spec[SetPermissionMode]("set_permission_mode", ScopeSession, row{since: "troupe", is: ParentsOnly},
		"Choose the mode for tool calls without a matching permission rule."),

	spec[GetPermissions]("get_permissions", ScopeQuery, row{result: Permissions{}, since: "troupe", is: Looks},
		"The permissions of the session: the mode, the rules of permissions.json in the order in which they are evaluated, and the rules that were granted by answers to approvals."),
	spec[RevokePermission]("revoke_permission", ScopeSession, row{since: "troupe"},
		"Revoke a rule that an answer to an approval has granted. Running calls continue."),

	// Compaction, retry, bash
	spec[Compact]("compact", ScopeBranch, row{result: CompactionResult{}, is: NeedsModels | NeedsExtensions | ParentsOnly},
		"Stop the run and replace older messages by a summary. The response follows when the summary is stored."),
	spec[SetAutoCompaction]("set_auto_compaction", ScopeSession, row{},
		"Whether a nearly full context is compacted automatically."),
	spec[SetAutoRetry]("set_auto_retry", ScopeSession, row{},
		"Whether transient provider errors are retried automatically."),
	spec[AbortRetry]("abort_retry", ScopeSession, row{is: EndsWork},
		"Cancel a pending retry. Succeeds also if there is none."),
	spec[Bash]("bash", ScopeBranch, row{result: BashResult{}, is: NeedsExtensions | ParentsOnly | Outside},
		"Run a shell command. The response follows when it has ended, and the model reads its output with the next prompt. Several commands may run at once; in s4 only one."),
	spec[AbortBash]("abort_bash", ScopeSession, row{is: EndsWork},
		"Kill the running bash commands, all of them. Answered before their own responses."),

	// Sessions
	spec[NewSession]("new_session", ScopeReplace, row{result: Cancelled{}},
		"Stop the run, clear the queues and start an empty session."),
	spec[SwitchSession]("switch_session", ScopeReplace, row{result: Cancelled{}},
		"Stop the run, clear the queues and load another session file."),
	spec[Fork]("fork", ScopeReplace, row{result: ForkResult{}, since: "s0 s2 s4 pi1"},
		"Start a new session with the messages before a user message, and return the text of that message. The old session is unchanged."),
	spec[Fork]("branch", ScopeReplace, row{result: ForkResult{}, since: "s1 s3 omp18"},
		"fork, under its name in pisces and oh-my-pi."),
	spec[Clone]("clone", ScopeReplace, row{result: Cancelled{}, since: "pi1"},
		"Start a new session with a copy of the current branch."),
	spec[GetForkMessages]("get_fork_messages", ScopeQuery, row{result: ForkMessages{}, since: "s0 s2 s4 pi1", is: Large | Looks | InLog},
		"The user messages of every branch of the session, oldest first, for fork."),
	spec[GetForkMessages]("get_branch_messages", ScopeQuery, row{result: ForkMessages{}, since: "s1 s3 omp18", is: Large | Looks | InLog},
		"get_fork_messages, under its name in pisces and oh-my-pi."),
	spec[ListSessions]("list_sessions", ScopeQuery, row{result: SessionList{}, since: "s2", is: Large | Looks | AboutFiles},
		"Sessions on disk, those with the latest activity first."),
	spec[GetSessionTree]("get_session_tree", ScopeQuery, row{result: SessionTree{}, since: "s2", is: Large | Looks | InLog},
		"Every branch of the session, with labels and previews. The entries in which troupe keeps its own notes are left out here, in get_tree and in get_entries: what follows one of them follows the entry before. Nested as deep as the session is long: many JSON parsers stop at 1,000 or 10,000; get_entries is flat."),
	spec[GetTree]("get_tree", ScopeQuery, row{result: WholeTree{}, since: "pi1", is: Large | Looks | InLog},
		"Every branch of the session, with whole entries. Nested as deep as the session is long, see get_session_tree."),
	spec[GetEntries]("get_entries", ScopeQuery, row{result: EntryList{}, since: "pi1", is: Large | Looks | InLog},
		"The entries of the session file, in its order."),
	spec[GetImage]("get_image", ScopeQuery, row{result: ImageData{}, since: "troupe", is: Large | Looks | InLog},
		"The data of an image that was left out of an entry because of the feature imageRefs."),
	spec[NavigateTree]("navigate_tree", ScopeReplace, row{result: NavigateResult{}, since: "s2"},
		"Stop the run and continue from another entry of the same session, optionally with a summary of the abandoned branch."),
	spec[SetEntryLabel]("set_entry_label", ScopeBranch, row{since: "s2"},
		"Set or remove the label of an entry."),
	spec[ExportHTML]("export_html", ScopeBranch, row{result: PathResult{}, is: Large | Outside},
		"Write the session as one HTML file."),
	spec[SetSessionName]("set_session_name", ScopeBranch, row{since: "s1 s2 s4 pi1 omp18", is: NeedsExtensions | ParentsOnly},
		"Name the session."),
	spec[GetSessionStats]("get_session_stats", ScopeQuery, row{result: SessionStats{}, is: Looks | InLog},
		"Message counts, tokens and cost of the current branch, including compacted messages, and the use of the context window."),
	spec[GetLastAssistantText]("get_last_assistant_text", ScopeQuery, row{result: TextResult{}, is: Large | Looks | InLog},
		"The text of the newest assistant message."),

	spec[GetContextUsage]("get_context_usage", ScopeQuery, row{result: ContextUsageResult{}, since: "s2", is: Looks},
		"How full the model's window is."),

	// Tools and resources
	spec[GetTools]("get_tools", ScopeQuery, row{result: ToolList{}, since: "s2", is: NeedsExtensions | Looks},
		"All tools, and the active ones, which the model may call."),
	spec[SetActiveTools]("set_active_tools", ScopeBranch, row{result: ActiveTools{}, since: "s2", is: NeedsExtensions | ParentsOnly},
		"Choose the active tools, from the next request to the model on. A call of another tool does not run; the model reads \"Tool NAME not found\"."),
	spec[GetCommands]("get_commands", ScopeQuery, row{result: CommandList{}, since: "s2 s4 pi1", is: NeedsExtensions | Looks},
		"Names that a message may start with, after /: commands of extensions, prompt templates and skills."),
	spec[ReloadResources]("reload_resources", ScopeBranch, row{result: CommandList{}, since: "s2"},
		"Reload settings, prompt templates, skills, context files and extensions. Not during a run."),

	spec[SetBudget]("set_budget", ScopeSession, row{result: BudgetReport{}, since: "troupe"},
		"Set limits of the session. Raising a limit clears budget_exceeded, but starts nothing. Limits that are not named are unchanged, null removes one."),
	spec[GetBudget]("get_budget", ScopeQuery, row{result: BudgetReport{}, since: "troupe", is: Looks},
		"The limits and the usage of the session. Without a limit, usage is not counted and the snapshot is empty."),
	spec[SetTodos]("set_todos", ScopeBranch, row{result: TodoResult{}, since: "omp18", is: ParentsOnly},
		"Replace the todo list, and activate the tool todo_write with which the model updates it. The model is reminded of open items."),
	spec[SetHostTools]("set_host_tools", ScopeBranch, row{result: ToolNames{}, since: "omp18", is: ParentsOnly},
		"Declare the tools that the client runs itself, replacing those of an earlier call, also of another client. They are active at once. Their calls are sent to this client only. They are removed when it detaches or disconnects."),
	spec[HostToolUpdate]("host_tool_update", ScopeSession, row{silent: true, since: "omp18", is: EndsWork | Answers},
		"The output so far of a host_tool_call. Not answered."),
	spec[HostToolResult]("host_tool_result", ScopeSession, row{silent: true, since: "omp18", is: EndsWork | Answers},
		"The result of a host_tool_call. Not answered."),

	// Children
	spec[GetSubagents]("get_subagents", ScopeQuery, row{result: SubagentList{}, since: "omp18", is: Large | Looks},
		"The children of the session, running and finished, which calls of the tool task have started."),
	spec[GetSubagentMessages]("get_subagent_messages", ScopeQuery, row{result: SubagentMessages{}, since: "omp18", is: Large | Looks},
		"A part of the session file of a child, in whole lines. Continue with nextByte."),
	spec[SetSubagentSubscription]("set_subagent_subscription", ScopeSession, row{result: SubagentSubscription{}, since: "omp18", is: Looks},
		"Choose which events of children this client receives, until it detaches. The initial level is off. Other clients are not affected."),

	// Dialogs
	spec[ExtensionUIResponse]("extension_ui_response", ScopeSession, row{silent: true, since: "s1 s2 s4 pi1 omp18", is: EndsWork | Answers},
		"Answer an extension_ui_request. Not answered itself, except with the feature uiAck."),
	spec[ExtensionUIResponse]("hook_ui_response", ScopeSession, row{silent: true, since: "troupe", is: EndsWork | Answers},
		"extension_ui_response under its name in pi 0.31 and oh-my-pi 1.337."),

	spec[GetDialogs]("get_dialogs", ScopeQuery, row{result: OpenDialogs{}, since: "troupe", is: Looks},
		"The open dialogs and approvals of the session."),
	spec[ApprovalResponse]("approval_response", ScopeSession, row{since: "troupe", is: EndsWork | Answers},
		"Answer an approval_request. The first answer counts."),

	// Credentials
	spec[GetAuth]("get_auth", ScopeConnection, row{result: AuthReport{}, since: "troupe", is: Repeatable},
		"How requests to each provider are authenticated. No request is made to find out. Without a provider: those with credentials, with an unused login, or with a supported login."),
	spec[GetLoginProviders]("get_login_providers", ScopeConnection, row{result: LoginProviders{}, since: "omp18", is: Repeatable},
		"The providers with a login, or for which a key can be stored."),
	spec[Login]("login", ScopeConnection, row{result: LoginResult{}, since: "omp18"},
		"Sign in to a provider, or store a key for it. The response follows when the login has ended. Dialogs are sent to this client as extension_ui_request. The login is cancelled when the client disconnects or cancels a dialog, and by cancel_login. Each provider has one login at a time."),
	spec[CancelLogin]("cancel_login", ScopeConnection, row{since: "troupe", is: Repeatable},
		"Cancel a login in progress, started by any client."),
	spec[Logout]("logout", ScopeConnection, row{result: LogoutResult{}, since: "troupe"},
		"Remove the entry of a provider from auth.json."),

	// Connection
	spec[GetProtocolInfo]("get_protocol_info", ScopeConnection, row{result: ProtocolInfo{}, since: "troupe", is: Looks},
		"Version, dialect, features, limits. No side effect, at any time."),
	spec[Ping]("ping", ScopeConnection, row{result: Pong{}, since: "troupe", is: Looks},
		"Answered at once. For clients that cannot send pings of their transport."),
	spec[DrainNode]("drain_node", ScopeConnection, row{since: "troupe"},
		"Used by troupe cluster drain: the node accepts no new sessions, releases its own, and exits. Refused for other clients."),
	spec[Hello]("hello", ScopeConnection, row{result: ProtocolInfo{}, since: "troupe", is: Looks},
		"Choose a dialect and enable features for this connection. They apply to its records from now on, and to the behaviour of sessions that it opens later or has alone. A session that other connections share keeps its behaviour. Send it first."),
	spec[OpenSession]("open_session", ScopeConnection, row{result: OpenedSession{}, since: "troupe", is: ActsOnce},
		"Open another session in this process. Its commands need the returned sessionId, and its records have it."),
	spec[CloseSession]("close_session", ScopeConnection, row{since: "troupe", is: ParentsOnly | ActsOnce | Repeatable},
		"Close an open session for all its clients: stop or finish its run, store everything, and release its file."),
	spec[MoveSession]("move_session", ScopeConnection, row{since: "troupe", is: ParentsOnly | ActsOnce | Repeatable},
		"In a cluster: move an idle session to another node. The response comes first, then session_moved. Refused while a run, or a command or dialog of an extension, is active (session_busy), and if the node does not meet its requirements (nowhere)."),
	spec[AdoptSession]("adopt_session", ScopeConnection, row{result: AdoptedSession{}, since: "troupe", is: AboutFiles},
		"In a cluster: take over a session whose directory is on a lost node. It continues on this node in the directory cwd, and its model is informed. Files of the old directory are not copied. Use attach afterwards."),
	spec[GetCluster]("get_cluster", ScopeConnection, row{result: ClusterInfo{}, since: "troupe", is: AboutFiles | Repeatable},
		"The nodes of the cluster, their open sessions, and the state of the engine."),
	spec[AttachSession]("attach", ScopeConnection, row{result: AttachedSession{}, since: "troupe", is: Looks},
		"Receive the events of an open session, opened by any connection. The response has its state. Later events follow; with since, missed ones as well."),
	spec[DetachSession]("detach", ScopeConnection, row{since: "troupe", is: Looks},
		"Receive no more events of a session. It stays open for its other clients. Without retain, it is closed when its last client has left and its run has ended."),
	spec[ListOpenSessions]("list_open_sessions", ScopeConnection, row{result: OpenSessions{}, since: "troupe", is: Looks},
		"The open sessions of this process, or of all nodes of its cluster, with their activity."),
	spec[WatchSessions]("watch_sessions", ScopeConnection, row{result: OpenSessions{}, since: "troupe", is: Looks},
		"The same as list_open_sessions, followed by a session_status for every change. Needs the feature sessionEvents."),
	spec[DeleteSession]("delete_session", ScopeConnection, row{result: DeletedSession{}, since: "troupe", is: AboutFiles},
		"Move a session file, with those of its children, to .trash in the directory of all sessions. Refused with session_in_use while the session is open."),
	spec[ListDirectories]("list_directories", ScopeConnection, row{result: DirectoryList{}, since: "troupe", is: AboutFiles | Repeatable},
		"List the directories in a directory, for open_session, and its files, to name one in a message. With the sessionId of a session on another node of the cluster: on that node."),
	spec[UnwatchSessions]("unwatch_sessions", ScopeConnection, row{since: "troupe", is: Looks},
		"No more session_status."),
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

var byType = sync.OnceValue(func() map[reflect.Type]*Spec {
	m := make(map[reflect.Type]*Spec, len(Commands))
	for i := range Commands {
		m[Commands[i].Params] = &Commands[i]
	}
	return m
})

// SpecOf finds a row of a command by its type, nil if there is none. Where a
// command has several names it is any of them.
func SpecOf(cmd Command) *Spec { return byType()[reflect.TypeOf(cmd)] }

// TraitsOf returns the traits of a command. It has the same ones under each of
// its names.
func TraitsOf(cmd Command) Traits { return byType()[reflect.TypeOf(cmd)].Traits }

// Param is one parameter of a command, read off its struct.
type Param struct {
	Name     string
	Index    int // of the field in the struct
	Required bool
	Enum     []string // the values there are; nil for any
	Min, Max int      // of a number; Max 0 for any
	Path     PathKind // "" for what is no path
	Doc      string
}

// PathKind is what a parameter is that names a place in the file system of the daemon. What a
// session is asked is relative to its directory, anything else to that of the connection.
type PathKind string

const (
	PathFile      PathKind = "file"
	PathDirectory PathKind = "directory" // that of the connection, if the command names no path; in a cluster perhaps in a root
	PathAbsolute  PathKind = "absolute"  // a directory, likewise; one that is relative is refused
)

// Parameters lists the parameters of the command, in the order of the reference.
func (s *Spec) Parameters() []Param { return s.parameters().all }

// Paths lists the parameters that are paths.
func (s *Spec) Paths() []Param { return s.parameters().paths }

func (s *Spec) parameters() *parameters {
	s.read.once.Do(func() {
		s.read.all = paramsOf(s.Params)
		s.read.paths = slices.DeleteFunc(slices.Clone(s.read.all), func(p Param) bool { return p.Path == "" })
	})
	return s.read
}

// Check says what is wrong with a command that was not decoded.
func (s *Spec) Check(cmd Command) *Error {
	params := reflect.ValueOf(cmd)
	for _, f := range s.Parameters() {
		if v := params.Field(f.Index); len(f.Enum) > 0 && !v.IsZero() && !slices.Contains(f.Enum, v.String()) {
			return f.Invalid(s.Name, v.String())
		}
	}
	return nil
}

// Invalid words a value outside a closed set as the seeds do.
func (p Param) Invalid(command, value string) *Error {
	switch {
	case p.Name == "mode" && strings.HasPrefix(command, "set_"):
		kind := strings.TrimSuffix(strings.TrimPrefix(command, "set_"), "_mode")
		return CodeInvalidParams.Errorf("Invalid %s mode", strings.ReplaceAll(kind, "_", "-"))
	case p.Name == "level" && strings.Contains(command, "subagent"):
		return CodeInvalidParams.Errorf("Invalid subagent subscription level: %s", value)
	case p.Name == "level":
		return CodeInvalidParams.Errorf("Invalid thinking level: %s", value)
	}
	return CodeInvalidParams.Errorf("Invalid %s: %s", p.Name, value)
}

func paramsOf(t reflect.Type) []Param {
	var params []Param
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue // what makes it a command
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := Param{Name: name, Index: i, Required: f.Tag.Get("req") == "true", Path: PathKind(f.Tag.Get("path")), Doc: f.Tag.Get("doc")}
		if enum := f.Tag.Get("enum"); enum != "" {
			p.Enum = strings.Split(enum, ",")
		}
		p.Min, p.Max = tagInt(f.Tag.Get("min")), tagInt(f.Tag.Get("max"))
		params = append(params, p)
	}
	return params
}

func tagInt(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}
