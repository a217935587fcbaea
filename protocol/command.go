package protocol

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Command is the decoded form of one command: its parameters. The envelope
// (type and id) is in [Request]. Tags: json names the member, req makes it
// required, path says that it names a place in the file system, see [PathKind], doc explains it in
// the reference.
type Command interface{ command() }

// isCommand makes a struct a [Command].
type isCommand struct{}

func (isCommand) command() {}

// Checker is a command of which the types of its parameters do not say all. Check
// brings parameters into their usual form and refuses what cannot be. It is
// called on the way in, before anybody sees the command.
type Checker interface{ Check() *Error }

// Expandable is a command whose text may begin with the name of a template or a
// skill, which is replaced by what it stands for.
type Expandable interface {
	Text() string
	WithText(text string) Command
}

// Request is a command with its envelope.
type Request struct {
	ID        json.RawMessage // verbatim, nil if absent
	Name      string          // the command's name as written
	SessionID string          // the routing handle, "" for the connection's default session
	Spec      *Spec
	Cmd       Command
}

// QueueMode says how many queued messages one delivery takes.
type QueueMode string

const (
	QueueAll        QueueMode = "all"
	QueueOneAtATime QueueMode = "one-at-a-time"
)

// InterruptMode says whether steering is looked for between tool calls.
type InterruptMode string

const (
	InterruptImmediate InterruptMode = "immediate"
	InterruptWait      InterruptMode = "wait"
)

// StreamingBehavior says what becomes of a prompt while a run is active.
type StreamingBehavior string

const (
	BehaviorNone     StreamingBehavior = ""
	BehaviorSteer    StreamingBehavior = "steer"
	BehaviorFollowUp StreamingBehavior = "followUp"
)

// SessionWants is what a session needs of a node of a cluster.
type SessionWants struct {
	Labels   map[string]string `json:"labels,omitempty" doc:"Labels that the node has."`
	Root     string            `json:"root,omitempty" doc:"The name of a root; without it the one that cwd is in."`
	Provider string            `json:"provider,omitempty" doc:"A provider for which the node has credentials."`
}

// DrainNode has a node of a cluster give its sessions up, and end.
type DrainNode struct{ isCommand }

// Prompting.
type (
	Prompt struct {
		isCommand
		Message           string            `json:"message" req:"true" doc:"The user's text. /NAME of a prompt template or a skill is expanded. Another text that starts with / is sent to the model unchanged."`
		Images            []Image           `json:"images" doc:"Images, as {type:image,data,mimeType} or {type:image,source:{type:base64,mediaType,data}}; also {type:image,source:{type:url,url}} and {type:image,url} with a data: URL."`
		StreamingBehavior StreamingBehavior `json:"streamingBehavior" since:"s0 s1 s2 s4 pi1 omp18" enum:"steer,followUp,follow-up" doc:"How to queue the message while a run is active: steer or followUp (also follow-up). Ignored when idle."`
		IdempotencyKey    string            `json:"idempotencyKey" since:"troupe" doc:"A repeated command with the same key gets the first response and does nothing."`
	}
	Steer struct {
		isCommand
		Message        string  `json:"message" req:"true" doc:"The user's text. Templates and skills are expanded as in prompt. Another text that starts with / is an ordinary message; s4 refuses it."`
		Images         []Image `json:"images" since:"s1 pi1 omp18" doc:"Images, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"troupe" doc:"As in prompt."`
	}
	FollowUp struct {
		isCommand
		Message        string  `json:"message" req:"true" doc:"As in steer."`
		Images         []Image `json:"images" since:"s1 pi1 omp18" doc:"Images, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"troupe" doc:"As in prompt."`
	}
	QueueMessage struct {
		isCommand
		Message        string  `json:"message" req:"true" doc:"The text to add at the next turn, unchanged."`
		Images         []Image `json:"images" since:"troupe" doc:"Images, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"troupe" doc:"As in prompt."`
	}
	Abort          struct{ isCommand }
	AbortAndPrompt struct {
		isCommand
		Message        string  `json:"message" req:"true" doc:"The text of the new prompt; templates and skills are expanded."`
		Images         []Image `json:"images" doc:"Images, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"troupe" doc:"As in prompt. A repeated command aborts nothing."`
	}
	ClearQueue struct{ isCommand }
)

// State, model and modes.
type (
	GetState    struct{ isCommand }
	GetMessages struct{ isCommand }
	SetModel    struct {
		isCommand
		Provider string `json:"provider" req:"true" doc:"The model's provider."`
		ModelID  string `json:"modelId" req:"true" doc:"The model's id."`
	}
	CycleModel         struct{ isCommand }
	GetAvailableModels struct{ isCommand }
	SetThinkingLevel   struct {
		isCommand
		Level ThinkingLevel `json:"level" req:"true" enum:"off,minimal,low,medium,high,xhigh,max" doc:"The level. It is limited to the levels of the model. max needs the feature maxLevel, otherwise it means xhigh."`
	}
	CycleThinkingLevel         struct{ isCommand }
	GetAvailableThinkingLevels struct{ isCommand }
	SetSteeringMode            struct {
		isCommand
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"How many steering messages one delivery takes."`
	}
	SetFollowUpMode struct {
		isCommand
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"How many follow-up messages one delivery takes."`
	}
	SetQueueMode struct {
		isCommand
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"The steering mode under its name in oh-my-pi 1.337."`
	}
	SetInterruptMode struct {
		isCommand
		Mode InterruptMode `json:"mode" req:"true" enum:"immediate,wait" doc:"immediate delivers steering messages between tool calls, wait only after the turn."`
	}
	SetPermissionMode struct {
		isCommand
		Mode PermissionMode `json:"mode" req:"true" enum:"auto,edits,ask,readonly" doc:"The mode for tool calls without a matching rule in permissions.json. auto: all run. edits: reading, and editing in the working directory, run; others need an approval. ask: reading in the working directory runs; others need an approval. readonly: reading in the working directory runs; others are denied. A project may be stricter."`
	}
	ApprovalResponse struct {
		isCommand
		ApprovalID string `json:"approvalId" req:"true" doc:"The id of the approval_request."`
		OptionID   string `json:"optionId" req:"true" doc:"The id of the chosen option."`
		Feedback   string `json:"feedback" doc:"With a rejection: a message for the model."`

		Args json.RawMessage `json:"args" doc:"With an option of the kind allow_once: other arguments for the call. They are validated, and the rules are evaluated again. A call that a rule denies does not run. details of the result has them as approvedArgs."`
	}
	GetPermissions   struct{ isCommand }
	RevokePermission struct {
		isCommand
		Rule  string `json:"rule" req:"true" doc:"A rule from grants of get_permissions."`
		Scope string `json:"scope" req:"true" enum:"session,project" doc:"Where it was allowed."`
	}
)

// Compaction, retry and bash.
type (
	Compact struct {
		isCommand
		CustomInstructions string `json:"customInstructions" doc:"Additional instructions for the summary."`
	}
	SetAutoCompaction struct {
		isCommand
		Enabled bool `json:"enabled" req:"true" doc:"Whether a nearly full context is compacted automatically."`
	}
	SetAutoRetry struct {
		isCommand
		Enabled bool `json:"enabled" req:"true" doc:"Whether transient provider errors are retried automatically."`
	}
	AbortRetry struct{ isCommand }
	Bash       struct {
		isCommand
		Command            string `json:"command" req:"true" doc:"The shell command."`
		ExcludeFromContext bool   `json:"excludeFromContext" since:"pi1" doc:"Store it, but do not send it to a model."`
		IdempotencyKey     string `json:"idempotencyKey" since:"troupe" doc:"A repeated command with the same key gets the first response and runs nothing, also after a restart. If the first command was interrupted, the repeated one is refused (cancelled), since its effect is unknown."`
	}
	AbortBash struct{ isCommand }
)

// Sessions and trees.
type (
	NewSession struct {
		isCommand
		ParentSession  string `json:"parentSession" path:"file" doc:"Path of the session file this one comes from."`
		IdempotencyKey string `json:"idempotencyKey" since:"troupe" doc:"A repeated command with the same key does not create another session. It switches to the one that the first command created, also after a restart, if that session has a file."`
	}
	SwitchSession struct {
		isCommand
		SessionPath string `json:"sessionPath" path:"file" req:"true" doc:"The session file to load."`
	}
	Fork struct {
		isCommand
		EntryID        string `json:"entryId" req:"true" doc:"The user message to fork before."`
		IdempotencyKey string `json:"idempotencyKey" since:"troupe" doc:"As in new_session."`
	}
	Clone struct {
		isCommand
		IdempotencyKey string `json:"idempotencyKey" since:"troupe" doc:"As in new_session."`
	}
	GetForkMessages struct{ isCommand }
	SetSessionName  struct {
		isCommand
		Name string `json:"name" req:"true" doc:"The session's display name."`
	}
	GetSessionStats      struct{ isCommand }
	GetLastAssistantText struct{ isCommand }
	GetContextUsage      struct{ isCommand }
	ExportHTML           struct {
		isCommand
		OutputPath string `json:"outputPath" path:"file" doc:"The file to write; by default a new name in the working directory. A session file, or something that is no regular file, is not overwritten (io_error)."`
	}
	ListSessions struct {
		isCommand
		Scope      string `json:"scope" enum:"cwd,all" doc:"cwd (default): sessions of this working directory; all: every project."`
		SessionDir string `json:"sessionDir" path:"file" doc:"The directory to list, with scope cwd."`
		Under      string `json:"under" path:"file" since:"troupe" doc:"A session file: list its children instead, in any directory. Not with scope and sessionDir."`

		Query    string `json:"query" since:"troupe" doc:"Words that all occur in the name, directory or text of a session, ignoring case."`
		Limit    int    `json:"limit" since:"troupe" min:"1" max:"10000" doc:"The maximum number of sessions. If there are more, the response has a nextCursor."`
		Cursor   string `json:"cursor" since:"troupe" doc:"The nextCursor of a response: return the sessions after it. Sessions that changed meanwhile may be listed twice or not at all."`
		WithText *bool  `json:"withText" since:"troupe" doc:"false leaves allMessagesText out."`
	}
	GetSessionTree struct{ isCommand }
	GetTree        struct{ isCommand }
	GetEntries     struct {
		isCommand
		Since string `json:"since" doc:"Only entries after this one."`
		Limit int    `json:"limit" since:"troupe" min:"1" max:"10000" doc:"The maximum number of entries. hasMore of the response says whether there are more."`

		Before   string `json:"before" since:"troupe" doc:"Return the newest entries before this one, in the order of the file. end returns the newest of all. Not with since."`
		MaxBytes int    `json:"maxBytes" since:"troupe" min:"1" max:"16777216" doc:"With before: the maximum size of the entries, 1 MiB by default. At least one entry is returned."`
	}
	GetImage struct {
		isCommand
		EntryID string `json:"entryId" req:"true" doc:"The entry that has the picture."`
		Index   int    `json:"index" min:"0" max:"10000" doc:"Which of its pictures, from 0."`
	}
	NavigateTree struct {
		isCommand
		TargetID            string `json:"targetId" req:"true" doc:"The entry to go to."`
		Summarize           bool   `json:"summarize" doc:"Summarise the branch that is left."`
		CustomInstructions  string `json:"customInstructions" doc:"Additional instructions for the summary."`
		ReplaceInstructions bool   `json:"replaceInstructions" doc:"Use customInstructions instead of the built-in ones."`
		Label               string `json:"label" doc:"A label for the summary, or for the target without one."`
	}
	SetEntryLabel struct {
		isCommand
		TargetID string `json:"targetId" req:"true" doc:"The entry to name."`
		Label    string `json:"label" doc:"The label. Empty or absent removes it."`
	}
)

// Tools and resources.
type (
	GetCommands     struct{ isCommand }
	ReloadResources struct{ isCommand }
	GetTools        struct{ isCommand }
	SetActiveTools  struct {
		isCommand
		ToolNames []string `json:"toolNames" req:"true" doc:"The tools a model may call; unknown names are dropped."`
	}
	SetTodos struct {
		isCommand
		Phases []TodoPhase `json:"phases" req:"true" doc:"The whole list, replacing the old one."`
	}
	SetHostTools struct {
		isCommand
		Tools []HostTool `json:"tools" req:"true" doc:"The tools the host runs itself, replacing the earlier list."`
	}
	HostToolUpdate struct {
		isCommand
		ID            string          `json:"id" req:"true" doc:"The id of the host_tool_call."`
		PartialResult json.RawMessage `json:"partialResult" doc:"The output so far, replacing earlier updates."`
	}
	HostToolResult struct {
		isCommand
		ID      string          `json:"id" req:"true" doc:"The id of the host_tool_call."`
		Result  json.RawMessage `json:"result" doc:"{content, details?}, or a string."`
		IsError bool            `json:"isError" doc:"The tool failed."`
	}
)

// Dialogs.
type ExtensionUIResponse struct {
	isCommand
	ID        string  `json:"id" doc:"The id of the extension_ui_request (also requestId)."`
	RequestID string  `json:"requestId" since:"s4" doc:"The id under its name in pi_agent_rust."`
	Value     *string `json:"value" doc:"The answer to select, input and editor."`
	Confirmed *bool   `json:"confirmed" doc:"The answer to confirm."`
	Cancelled bool    `json:"cancelled" doc:"The user has closed the dialog."`
}

// Connection: these concern no session and are answered by the router.
type (
	Hello struct {
		isCommand
		Dialect  string   `json:"dialect" doc:"union, s0, s1, s2, s3, s4 or pi1."`
		Features []string `json:"features" doc:"Features to switch on; unknown ones are dropped."`

		ClientID string      `json:"clientId" doc:"Names the client across its connections: 8 to 64 letters, digits, - and _. Other clients read it in the outcome of dialogs. Ids of its commands are strings, each used once. A command that is repeated byte for byte gets the same response (replayed) and takes effect once, until ten minutes after its connection has ended. Read-only commands are executed again."`
		Client   *ClientName `json:"client" doc:"Name and version of the client, for people."`
		UI       []string    `json:"ui" doc:"The dialogs that the client can show: select, confirm, input, editor, notify, approval. Without it, all. The client does not receive other dialogs; list_open_sessions reports that they wait. With select but without approval, approvals are sent as select. If no attached client can show a dialog, and the session is not retained, the dialog ends at once with the outcome lost."`
	}
	GetProtocolInfo struct{ isCommand }
	Ping            struct{ isCommand }
	GetDialogs      struct{ isCommand }
	OpenSession     struct {
		isCommand
		SessionPath        string          `json:"sessionPath" path:"file" doc:"An existing session file to open; a new session without it. provider, modelId, thinkingLevel and name replace its own."`
		Cwd                string          `json:"cwd" path:"directory" doc:"Working directory; the daemon's own by default."`
		Provider           string          `json:"provider" doc:"The model's provider."`
		ModelID            string          `json:"modelId" doc:"The model's id."`
		ThinkingLevel      ThinkingLevel   `json:"thinkingLevel" enum:"off,minimal,low,medium,high,xhigh,max" doc:"The thinking level; see set_thinking_level."`
		Tools              []string        `json:"tools" doc:"The active tools; the default set without it."`
		SystemPrompt       string          `json:"systemPrompt" doc:"Replaces the built-in system prompt."`
		AppendSystemPrompt string          `json:"appendSystemPrompt" doc:"Is added to the system prompt."`
		Name               string          `json:"name" doc:"The session's display name."`
		NoSession          bool            `json:"noSession" doc:"Keep the session in memory only."`
		Retain             *bool           `json:"retain" doc:"Keep the session open when its last client disconnects. The default is true for clients of troupe serve, and false for troupe connect and --mode rpc."`
		PermissionMode     PermissionMode  `json:"permissionMode" enum:"auto,edits,ask,readonly" doc:"See set_permission_mode; by default what the daemon was started with."`
		Sandbox            string          `json:"sandbox" enum:"off,workspace,readonly" doc:"Where commands of the session may write. off: everywhere. workspace: in the working directory and in directories for temporary files. readonly: nowhere. The value can only be stricter than the command line and permissions.json."`
		SandboxNetwork     string          `json:"sandboxNetwork" enum:"on,off" doc:"off: commands of the session have no network. The value can only be stricter, as for sandbox."`
		Settings           json.RawMessage `json:"settings" doc:"Members of settings.json that count for this session only."`
		Wants              *SessionWants   `json:"wants" doc:"In a cluster: requirements for the node of the session, now and whenever it moves."`
	}
	CloseSession struct {
		isCommand
		SessionID string `json:"sessionId" req:"true" doc:"The handle that open_session returned."`
		Mode      string `json:"mode" enum:"abort,drain" doc:"abort (default) stops an active run, drain lets it finish."`
	}
	GetCluster   struct{ isCommand }
	AdoptSession struct {
		isCommand
		SessionID string `json:"sessionId" req:"true" doc:"Its handle, which is its id."`
		Cwd       string `json:"cwd" path:"directory" req:"true" doc:"The directory on this node for the session, as a path or as ROOT:PATH."`
	}
	MoveSession struct {
		isCommand
		SessionID string `json:"sessionId" req:"true" doc:"Its handle."`
		Node      string `json:"node" req:"true" doc:"The name of the node."`
	}
	AttachSession struct {
		isCommand
		SessionID   string          `json:"sessionId" doc:"The handle of an open session. One of sessionId, durableId and sessionPath is needed."`
		DurableID   string          `json:"durableId" doc:"The id in the file of an open session."`
		SessionPath string          `json:"sessionPath" path:"file" doc:"The session file. One that is not open is opened, as by open_session."`
		Since       *StreamPosition `json:"since" doc:"With the feature seq: the last event that the client has read. The missed events follow the response, or the response has a snapshot."`
		Role        string          `json:"role" enum:"interactive,viewer" doc:"interactive (default) or viewer. A viewer cannot change the session and receives no dialogs."`
		Snapshot    *SnapshotLimits `json:"snapshot" doc:"With the feature seq: request a snapshot, with these limits."`
	}
	DetachSession struct {
		isCommand
		SessionID string `json:"sessionId" req:"true" doc:"The handle of an attached session."`
	}
	ListOpenSessions struct{ isCommand }
	WatchSessions    struct{ isCommand }
	DeleteSession    struct {
		isCommand
		SessionPath string `json:"sessionPath" path:"file" req:"true" doc:"A session file that is not open."`
	}
	ListDirectories struct {
		isCommand
		Path  string `json:"path" path:"absolute" doc:"The directory to list; by default that of the daemon. Network clients may list only directories below a --root."`
		Query string `json:"query" doc:"Only names that contain this text, ignoring case. Names that start with a dot are listed only if the text starts with a dot."`
		Files bool   `json:"files" doc:"The files there as well."`
	}
	UnwatchSessions struct{ isCommand }
)

// ClientName is what a client says of itself.
type ClientName struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// maxClientName bounds the name of a client, which others are shown.
const maxClientName = 200

// isClientID says whether a text may be the id of a client.
func isClientID(id string) bool {
	return len(id) >= 8 && len(id) <= 64 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// Who is the client as others are told of it; nil for one that does not say. It refuses
// an id that cannot be one.
func (h Hello) Who() (*ClientRef, *Error) {
	who := ClientRef{ClientID: h.ClientID}
	if h.Client != nil {
		who.Name = h.Client.Name
	}
	switch {
	case h.ClientID != "" && !isClientID(h.ClientID):
		return nil, CodeInvalidParams.Errorf("Invalid clientId: want 8 to 64 letters, digits, - and _")
	case len(who.Name) > maxClientName:
		return nil, CodeInvalidParams.Errorf("Invalid client: the name is longer than %d bytes", maxClientName)
	case who == ClientRef{}:
		return nil, nil
	}
	return &who, nil
}

// Credentials.
type (
	GetAuth struct {
		isCommand
		Provider string `json:"provider" doc:"Only this one."`
	}
	GetLoginProviders struct{ isCommand }
	Login             struct {
		isCommand
		Provider   string `json:"provider" doc:"The provider. This or providerId is needed."`
		ProviderID string `json:"providerId" doc:"The same, by oh-my-pi's name."`
		Method     string `json:"method" enum:"browser,paste,device,api_key" doc:"browser: the vendor's page redirects to this machine. paste: the user pastes the address at which the browser ended. device: the user types a code on a page. api_key: a key is stored. The default is the first method that get_auth lists."`
		TimeoutMs  int    `json:"timeoutMs" min:"1" max:"900000" doc:"The time limit for the user; 5 minutes by default."`
		Key        string `json:"key" doc:"With api_key: the key. Without it, a dialog requests the key."`
	}
	CancelLogin struct {
		isCommand
		Provider string `json:"provider" req:"true" doc:"Of the login."`
	}
	Logout struct {
		isCommand
		Provider string `json:"provider" req:"true" doc:"The provider whose entry is removed."`
		Revoke   *bool  `json:"revoke" doc:"Revoke the login at the vendor, if that is possible; true by default."`
	}
)

// Check takes the provider under its other name.
func (c *Login) Check() *Error {
	if c.Provider = cmp.Or(c.Provider, c.ProviderID); c.Provider == "" {
		return CodeInvalidParams.Errorf("Missing provider")
	}
	return nil
}

// Named says what is wrong with how the command names its session; nil for nothing.
func (c AttachSession) Named() *Error {
	n := 0
	for _, name := range []string{c.SessionID, c.DurableID, c.SessionPath} {
		if name != "" {
			n++
		}
	}
	if n == 0 {
		return CodeInvalidParams.Errorf("Missing sessionId")
	}
	if n > 1 {
		return CodeInvalidParams.Errorf("One of sessionId, durableId and sessionPath is needed")
	}
	return nil
}

// StreamPosition is a place among the events of a session.
type StreamPosition struct {
	Epoch string `json:"epoch"` // of the process that gave the number
	Seq   int64  `json:"seq"`   // 0 for before the first
}

// SnapshotLimits says how large a snapshot may be; 0 for the usual.
type SnapshotLimits struct {
	Limit    int `json:"limit,omitempty"`    // entries
	MaxBytes int `json:"maxBytes,omitempty"` // of entries
}

// Children.
type (
	GetSubagents        struct{ isCommand }
	GetSubagentMessages struct {
		isCommand
		SubagentID  string `json:"subagentId" doc:"The id of the child. This or sessionFile is needed."`
		SessionFile string `json:"sessionFile" path:"file" doc:"Its session file."`
		FromByte    int    `json:"fromByte" doc:"The position to start at: 0, or the nextByte of an earlier response."`
	}
	SetSubagentSubscription struct {
		isCommand
		Level SubagentLevel `json:"level" req:"true" enum:"off,progress,events" doc:"off: nothing. progress: subagent_lifecycle and subagent_progress. events: subagent_event as well, with every event of every child."`
	}
)

// Budgets.
type (
	SetBudget struct {
		isCommand
		Limits json.RawMessage `json:"limits" req:"true" doc:"An object of maxWallTimeMs, maxInputTokens, maxOutputTokens, maxTotalTokens, maxCostUsd, maxToolCalls and maxSubagents: numbers of at least 0, or null for no limit. With 0, no request to a model is made."`
	}
	GetBudget struct{ isCommand }
)

// HostTool is a tool that the host process runs for the model.
type HostTool struct {
	Name        string          `json:"name"`
	Label       string          `json:"label,omitempty"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
	Hidden      bool            `json:"hidden,omitempty"`
}

// TodoPhase is a named group of todo items.
type TodoPhase struct {
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name"`
	Tasks []TodoItem `json:"tasks"`
}

// TodoItem is one thing to do.
type TodoItem struct {
	ID         string `json:"id"`
	Content    string `json:"content"`
	ActiveForm string `json:"activeForm,omitempty"`
	Status     string `json:"status"` // pending, in_progress, completed
}

func (c Prompt) Text() string         { return c.Message }
func (c Steer) Text() string          { return c.Message }
func (c FollowUp) Text() string       { return c.Message }
func (c AbortAndPrompt) Text() string { return c.Message }

func (c Prompt) WithText(text string) Command         { c.Message = text; return c }
func (c Steer) WithText(text string) Command          { c.Message = text; return c }
func (c FollowUp) WithText(text string) Command       { c.Message = text; return c }
func (c AbortAndPrompt) WithText(text string) Command { c.Message = text; return c }

// Check takes the other spelling of followUp.
func (c *Prompt) Check() *Error {
	if c.StreamingBehavior == "follow-up" {
		c.StreamingBehavior = BehaviorFollowUp
	}
	return nil
}

// Check drops white space around the label.
func (c *SetEntryLabel) Check() *Error {
	c.Label = strings.TrimSpace(c.Label)
	return nil
}

// Check makes the name one line.
func (c *SetSessionName) Check() *Error {
	if c.Name = oneLine(c.Name); c.Name == "" {
		return CodeInvalidParams.Errorf("Session name cannot be empty")
	}
	return nil
}

// Check takes the id under its other name.
func (c *ExtensionUIResponse) Check() *Error {
	if c.ID = cmp.Or(c.ID, c.RequestID); c.ID == "" {
		return CodeInvalidParams.Errorf("Missing id")
	}
	return nil
}

// oneLine is s with one space in the place of all white space.
func oneLine(s string) string {
	before, plain := byte(' '), true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] > ' ' && s[i] < utf8.RuneSelf || s[i] == ' ' && before != ' '
		before = s[i]
	}
	if plain && before != ' ' {
		return s // as most are
	}
	return strings.Join(strings.Fields(strings.Map(lineBreakToSpace, s)), " ")
}

func lineBreakToSpace(r rune) rune {
	switch r {
	case '\n', '\r', '\u2028', '\u2029', '\u0085':
		return ' '
	}
	return r
}
