package protocol

import (
	"encoding/json"
	"strings"
)

// SessionState answers get_state. Twins carry the same value under the names
// of different dialects.
type SessionState struct {
	Model                 *Model         `json:"model" keep:"" doc:"Null without one."`
	ThinkingLevel         ThinkingLevel  `json:"thinkingLevel"`
	IsStreaming           bool           `json:"isStreaming" doc:"A run is active, waits for a retry, or will continue by itself."`
	IsCompacting          bool           `json:"isCompacting" doc:"Whether a command or a threshold has started it."`
	SteeringMode          QueueMode      `json:"steeringMode" since:"s0 s1 s2 s4 pi1 omp18"`
	FollowUpMode          QueueMode      `json:"followUpMode" since:"s0 s1 s2 s4 pi1 omp18"`
	InterruptMode         InterruptMode  `json:"interruptMode" since:"s1 omp18"`
	QueueMode             QueueMode      `json:"queueMode" since:"s3" doc:"The same as steeringMode."`
	SessionFile           *string        `json:"sessionFile,omitempty" null:"s4" doc:"Absent for a session in memory."`
	SessionID             string         `json:"sessionId"`
	SessionName           *string        `json:"sessionName,omitempty" null:"s4" since:"s1 s2 s4 pi1 omp18" doc:"Absent if unset."`
	AutoCompactionEnabled bool           `json:"autoCompactionEnabled"`
	AutoRetryEnabled      bool           `json:"autoRetryEnabled" since:"troupe"`
	MessageCount          int            `json:"messageCount" doc:"Messages of the current branch that the model sees."`
	PendingMessageCount   int            `json:"pendingMessageCount" since:"s0 s2 s4 pi1"`
	QueuedMessageCount    int            `json:"queuedMessageCount" since:"s1 s3 omp18" doc:"The same as pendingMessageCount."`
	Durability            string         `json:"durability" since:"troupe" doc:"None, process or sync: what an answer to prompt promises."`
	Phase                 string         `json:"phase" since:"troupe" doc:"Idle, streaming, auth (a login is renewed before the model can be asked), tools, retrying, compacting, switching, dialog."`
	PhaseSince            int64          `json:"phaseSince" since:"troupe" doc:"Epoch milliseconds."`
	WaitingFor            []string       `json:"waitingFor" since:"troupe" doc:"What the phase waits for: the name and id of a tool call, the id of a dialog, and so on."`
	PermissionMode        PermissionMode `json:"permissionMode" since:"troupe" enum:"auto,edits,ask,readonly" doc:"The mode for tool calls without a matching rule."`
	Budget                *BudgetState   `json:"budget,omitempty" since:"troupe" doc:"Present if there is a limit; see get_budget."`
	Project               *ProjectTrust  `json:"project,omitempty" since:"troupe" doc:"Present if configuration of the project, or queued input of a session file, was ignored."`
}

// ProjectTrust says how much of what a project brings is obeyed.
type ProjectTrust struct {
	Trusted   bool     `json:"trusted" doc:"Its configuration may run programs, change endpoints and relax limits. Otherwise only text is loaded, and settings without these effects."`
	DecidedBy string   `json:"decidedBy" doc:"A flag, an extension (project_trust), a client that was asked (dialog), the trust.json that has a decision, or defaultProjectTrust."`
	LeftOut   []string `json:"leftOut" doc:"The ignored parts: keys of settings.json, files and directories, queued input."`
}

// Disposition answers prompt, steer and follow_up.
type Disposition struct {
	Disposition string `json:"disposition" since:"pi1" enum:"started,queued,handled" doc:"An addition in the other dialects."`
}

var (
	Started = Disposition{"started"} // a run begins with it
	Queued  = Disposition{"queued"}  // it waits in a queue
	Handled = Disposition{"handled"} // an extension has dealt with it
)

// Cancelled answers commands that an extension may veto.
type Cancelled struct {
	Cancelled bool `json:"cancelled" doc:"An extension has prevented it."`
}

// ForkResult answers fork and branch.
type ForkResult struct {
	Text      string `json:"text"` // the text of the message that was forked before
	Cancelled bool   `json:"cancelled" doc:"An extension has prevented it."`
}

// ModelChoice answers cycle_model.
type ModelChoice struct {
	Model         *Model        `json:"model"`
	ThinkingLevel ThinkingLevel `json:"thinkingLevel"`
	IsScoped      bool          `json:"isScoped"` // chosen from --models
}

// LevelChoice answers cycle_thinking_level.
type LevelChoice struct {
	Level ThinkingLevel `json:"level"`
}

// ModelList answers get_available_models.
type ModelList struct {
	Models []*Model `json:"models"`
}

// LevelList answers get_available_thinking_levels.
type LevelList struct {
	Levels []ThinkingLevel `json:"levels"`
}

// MessageList answers get_messages.
type MessageList struct {
	Messages []Message `json:"messages"`
}

// QueueContent answers clear_queue: the texts that were waiting.
type QueueContent struct {
	Steering []string `json:"steering"`
	FollowUp []string `json:"followUp"`
}

// BashResult answers bash.
type BashResult struct {
	Output         string `json:"output"`
	ExitCode       *int   `json:"exitCode,omitempty" doc:"Absent when the command was killed."`
	Cancelled      bool   `json:"cancelled"`
	Truncated      bool   `json:"truncated"`
	FullOutputPath string `json:"fullOutputPath,omitempty" doc:"The file with the whole output, if it was truncated. It is removed when the session ends; see Limits."`
	TotalLines     int64  `json:"totalLines" since:"s1" not:"union s0 s2 s3 s4 pi1" doc:"Of the whole output. A line break at the end starts another line."`
	TotalBytes     int64  `json:"totalBytes" since:"s1" not:"union s0 s2 s3 s4 pi1"`
	OutputLines    int64  `json:"outputLines" since:"s1" not:"union s0 s2 s3 s4 pi1"`
	OutputBytes    int64  `json:"outputBytes" since:"s1" not:"union s0 s2 s3 s4 pi1"`
	NotRecorded    string `json:"notRecorded,omitempty" since:"troupe" doc:"The command has run, but its entry could not be written to the session file. This is the error."`
}

// Counted is the result with how long its output is.
func (r BashResult) Counted() BashResult {
	if r.Output != "" {
		r.OutputLines, r.OutputBytes = int64(strings.Count(r.Output, "\n"))+1, int64(len(r.Output))
	}
	r.TotalLines, r.TotalBytes = max(r.TotalLines, r.OutputLines), max(r.TotalBytes, r.OutputBytes)
	return r
}

// CompactionResult answers compact and is the result of auto_compaction_end.
type CompactionResult struct {
	Summary          string          `json:"summary"`
	FirstKeptEntryID string          `json:"firstKeptEntryId"`
	TokensBefore     int64           `json:"tokensBefore"`
	Details          json.RawMessage `json:"details"` // {readFiles, modifiedFiles}

	EstimatedTokensAfter int64  `json:"estimatedTokensAfter" since:"pi1" doc:"The current size of the context, in tokens."`
	Usage                *Usage `json:"usage,omitempty" since:"pi1" doc:"The usage of the summary."`
}

// SessionStats answers get_session_stats: the current branch, including what
// was summarised away.
type SessionStats struct {
	SessionFile       *string       `json:"sessionFile,omitempty" null:"s4" doc:"Absent for a session in memory."`
	SessionID         string        `json:"sessionId"`
	UserMessages      int           `json:"userMessages"`
	AssistantMessages int           `json:"assistantMessages" doc:"Answers that failed and were repeated are counted in pi1 only. Their cost is always included."`
	ToolCalls         int           `json:"toolCalls"`
	ToolResults       int           `json:"toolResults"`
	TotalMessages     int           `json:"totalMessages"`
	Tokens            TokenTotals   `json:"tokens"`
	Cost              float64       `json:"cost"` // US dollars
	PremiumRequests   int           `json:"premiumRequests" since:"s1" not:"union s0 s2 s3 s4 pi1" doc:"0 if the provider does not report it."`
	ContextUsage      *WindowUsage  `json:"contextUsage,omitempty" since:"pi1" doc:"The use of the context window. Absent without a model, or if the size of its window is unknown."`
	Session           *TotalsByFile `json:"session,omitempty" since:"troupe" doc:"Over every branch of the file."`
	Subagents         *ChildTotals  `json:"subagents,omitempty" since:"troupe" doc:"The part of the children in these numbers. Absent without children."`
}

// ChildTotals sums over the children of a session.
type ChildTotals struct {
	Count  int         `json:"count"`
	Tokens TokenTotals `json:"tokens"`
	Cost   float64     `json:"cost"`
}

// WindowUsage is how full the model's window is, in get_session_stats.
type WindowUsage struct {
	Tokens        *int64   `json:"tokens" doc:"Null after a compaction, until the next answer of the model."`
	ContextWindow int64    `json:"contextWindow"`
	Percent       *float64 `json:"percent" doc:"In percent of the context window, or null."`
}

// TotalsByFile sums over every branch of the session file.
type TotalsByFile struct {
	Tokens TokenTotals `json:"tokens"`
	Cost   float64     `json:"cost"`
	Costs  Cost        `json:"-"` // the parts of Cost
}

// TokenTotals sums usage.
type TokenTotals struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Total      int64 `json:"total"`
}

// Add adds usage to the sums.
func (t *TokenTotals) Add(u Usage) {
	t.Input, t.Output, t.CacheRead, t.CacheWrite = t.Input+u.Input, t.Output+u.Output, t.CacheRead+u.CacheRead, t.CacheWrite+u.CacheWrite
	t.Total += u.Input + u.Output + u.CacheRead + u.CacheWrite
}

// TextResult answers get_last_assistant_text.
type TextResult struct {
	Text *string `json:"text,omitempty" null:"union s0 s3 s4" doc:"Null if there is none. In some dialects absent instead."`
}

// ForkMessages answers get_fork_messages and get_branch_messages.
type ForkMessages struct {
	Messages []ForkMessage `json:"messages"`
}

// ForkMessage is a user message that can be forked before.
type ForkMessage struct {
	EntryID string `json:"entryId"`
	Text    string `json:"text"`
}

// PathResult answers export_html.
type PathResult struct {
	Path string `json:"path"`
}

// ContextUsageResult answers get_context_usage.
type ContextUsageResult struct {
	Usage *ContextUsage `json:"usage,omitempty"`
}

// ContextUsage says how full the model's window is.
type ContextUsage struct {
	Tokens         int64   `json:"tokens"`
	ContextWindow  int64   `json:"contextWindow"`
	Percent        float64 `json:"percent"`
	UsageTokens    int64   `json:"usageTokens"`    // of the last answer
	TrailingTokens int64   `json:"trailingTokens"` // of what came after it, estimated
	LastUsageIndex *int    `json:"lastUsageIndex"` // of that answer; null if there is none
}

// SessionList answers list_sessions.
type SessionList struct {
	Sessions   []SessionSummary `json:"sessions"`
	NextCursor string           `json:"nextCursor,omitempty" since:"troupe" doc:"There are more."`
}

// SessionSummary describes a session file.
type SessionSummary struct {
	Path              string `json:"path"`
	ID                string `json:"id"`
	Cwd               string `json:"cwd"`
	Name              string `json:"name,omitempty"`
	ParentSessionPath string `json:"parentSessionPath,omitempty"`
	Created           string `json:"created"`
	Modified          string `json:"modified"`
	MessageCount      int    `json:"messageCount"`
	FirstMessage      string `json:"firstMessage"`
	// AllMessagesText is nil where the client does not want it.
	AllMessagesText *string `json:"allMessagesText,omitempty"`
}

// Text is AllMessagesText, "" without it.
func (s *SessionSummary) Text() string {
	if s.AllMessagesText == nil {
		return ""
	}
	return *s.AllMessagesText
}

// DeletedSession answers delete_session.
type DeletedSession struct {
	TrashPath string `json:"trashPath" doc:"Where the file is now."`
}

// AdoptedSession answers adopt_session.
type AdoptedSession struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd" doc:"Absolute, on this node."`
	From      string `json:"from" doc:"The node that had it before."`
}

// ClusterInfo answers get_cluster.
type ClusterInfo struct {
	Node     string           `json:"node" doc:"The dialect of this connection."`
	Lease    bool             `json:"lease" doc:"No other node can take it for dead."`
	Engine   string           `json:"engine" doc:"Its name and version; empty if it does not answer."`
	Problem  string           `json:"problem,omitempty" doc:"The error of the engine. groups or sessions are incomplete."`
	Groups   []ClusterGroup   `json:"groups" doc:"Groups of the engine that are replicated together."`
	Nodes    []ClusterNode    `json:"nodes" doc:"By name."`
	Sessions []ClusterSession `json:"sessions" doc:"The open sessions, as reported by their nodes."`
}

// ClusterGroup is what an engine replicates together.
type ClusterGroup struct {
	Name    string          `json:"name"`
	Leader  string          `json:"leader" doc:"The server that leads it; empty while there is none."`
	Others  []ClusterServer `json:"others"`
	Records uint64          `json:"records"`
	Bytes   uint64          `json:"bytes"`
}

// ClusterServer is a member of a group that does not lead it.
type ClusterServer struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Lag     uint64 `json:"lag" doc:"Records it lacks; bytes, if the engine counts bytes."`
}

// ClusterNode is one of the nodes of a cluster.
type ClusterNode struct {
	Name     string            `json:"name"`
	Addr     string            `json:"addr" doc:"The address for other nodes."`
	Version  string            `json:"version"`
	State    string            `json:"state" enum:"lives,draining,silent,ended" doc:"silent: its heartbeats are missing. ended: the same, after it had released its sessions."`
	HeardMs  int64             `json:"heardMs" doc:"The time since its last heartbeat."`
	Sessions int               `json:"sessions" doc:"The number of its open sessions."`
	Labels   map[string]string `json:"labels"`
	Roots    map[string]string `json:"roots" doc:"The mode of each, by name."`
}

// ClusterSession is a session that a node has open.
type ClusterSession struct {
	SessionID string `json:"sessionId"`
	Node      string `json:"node"`
	Runs      bool   `json:"runs" doc:"A run is active, or a dialog is open."`
}

// DirectoryList answers list_directories.
type DirectoryList struct {
	Path        string   `json:"path" doc:"Absolute."`
	Parent      *string  `json:"parent" doc:"null at the top, or if the client may not list it."`
	Directories []string `json:"directories" doc:"Names, sorted, 1,000 at most, with those of files."`
	Files       []string `json:"files,omitempty" doc:"The same for files, if they were requested."`
	HasMore     bool     `json:"hasMore"`
	Branch      string   `json:"branch,omitempty" doc:"The git branch that is checked out there, or the start of the commit. Absent outside of a working tree."`
}

// Long is the list as a result that is written in pieces.
func (l SessionList) Long() Pieces {
	bytes := 0
	for i := range l.Sessions {
		bytes += SizeOf(&l.Sessions[i])
	}
	end := `]}`
	if l.NextCursor != "" {
		end = `],"nextCursor":` + string(AppendValue(nil, l.NextCursor)) + `}`
	}
	return NewList(`{"sessions":[`, end, len(l.Sessions), bytes, func(dst []byte, i int) []byte { return AppendValue(dst, &l.Sessions[i]) })
}

// EntryList answers get_entries: entries as they stand in the file, in its
// order, but for troupe's own. Elements are session entries.
type EntryList struct {
	Entries []json.RawMessage `json:"entries"`
	LeafID  *string           `json:"leafId"`
	HasMore bool              `json:"hasMore" since:"troupe" doc:"The list is incomplete because of the limit."`
}

// Long is the list as a result that is written in pieces.
func (l EntryList) Long() Pieces {
	tail := Object{B: []byte(`]`)}
	tail.Key("leafId")
	tail.B = AppendValue(tail.B, l.LeafID)
	tail.Bool("hasMore", l.HasMore)
	bytes := 0
	for _, e := range l.Entries {
		bytes += len(e)
	}
	return NewList(`{"entries":[`, string(tail.Close()), len(l.Entries), bytes, func(dst []byte, i int) []byte { return AppendRaw(dst, l.Entries[i]) })
}

// ImageData answers get_image.
type ImageData struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data" doc:"In base64."`
}

// WholeTree answers get_tree.
type WholeTree struct {
	Tree   json.RawMessage `json:"tree"` // [{entry, children, label?, labelTimestamp?}]
	LeafID *string         `json:"leafId"`
}

// SessionTree answers get_session_tree.
type SessionTree struct {
	LeafID *string    `json:"leafId"`
	Nodes  []TreeNode `json:"nodes"`
}

// TreeNode is an entry and what follows it.
type TreeNode struct {
	Entry    TreeEntry  `json:"entry"`
	Children []TreeNode `json:"children"`
}

// TreeEntry is an entry in short.
type TreeEntry struct {
	ID        string  `json:"id"`
	ParentID  *string `json:"parentId"`
	Type      string  `json:"type"`
	Timestamp string  `json:"timestamp"`
	Label     string  `json:"label,omitempty"`
	Preview   string  `json:"preview,omitempty"`
}

// weight returns the length of the entries.
func (t SessionTree) weight() (bytes int) {
	for todo := [][]TreeNode{t.Nodes}; len(todo) > 0; {
		nodes := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for i := range nodes {
			bytes += SizeOf(&nodes[i].Entry)
			if len(nodes[i].Children) > 0 {
				todo = append(todo, nodes[i].Children)
			}
		}
	}
	return bytes
}

// Long is the tree as a result that is written in pieces.
func (t SessionTree) Long() Pieces {
	head := OpenObject(nil)
	head.Key("leafId")
	head.B = AppendValue(head.B, t.LeafID)
	head.Key("nodes")
	return NewTree(string(append(head.B, '[')), `]}`, t.weight(), t.Nodes, func(n *TreeNode) []TreeNode { return n.Children },
		func(dst []byte, n *TreeNode) []byte {
			return append(AppendValue(append(dst, `{"entry":`...), &n.Entry), `,"children":[`...)
		},
		func(dst []byte, n *TreeNode) []byte { return append(dst, "]}"...) })
}

// NavigateResult answers navigate_tree.
type NavigateResult struct {
	Cancelled  bool   `json:"cancelled"`
	EditorText string `json:"editorText,omitempty"`
}

// CommandList answers get_commands and reload_resources.
type CommandList struct {
	Commands []SlashCommand `json:"commands"`
}

// SlashCommand is a prompt template, a skill or an extension's command.
type SlashCommand struct {
	Name        string `json:"name"` // without the slash
	Description string `json:"description,omitempty"`
	Source      string `json:"source"` // extension, prompt, skill
	Location    string `json:"location,omitempty" since:"s2 s4" doc:"user, project or path. path: named by settings or a flag."`
	Path        string `json:"path,omitempty" since:"s2 s4"`
	// SourceInfo stands for Location and Path in pi 1.x.
	SourceInfo *SourceInfo `json:"sourceInfo,omitempty" since:"pi1" doc:"The same in the form of pi 1.x."`
}

// SourceInfo says where a command comes from.
type SourceInfo struct {
	Path    string `json:"path"`
	Source  string `json:"source" doc:"\"auto\": found in a directory of the agent or the project; \"local\": named by settings or a flag; else the package it is part of, as it is named."`
	Scope   string `json:"scope" enum:"user,project,temporary"`
	Origin  string `json:"origin" enum:"top-level,package"`
	BaseDir string `json:"baseDir,omitempty" doc:"The directory in which it was found."`
}

// ToolInfo describes a tool to clients and to models.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
	// Snippet is the tool's line in the system prompt; Guidelines are further
	// lines there.
	Snippet    string   `json:"-"`
	Guidelines []string `json:"-"`
	Files      FileUse  `json:"-"`
	// Sequential keeps the other calls of an answer from running beside this tool's.
	Sequential bool `json:"-"`
	// Aborted is what the result of an aborted call says, "" for the usual words.
	Aborted string `json:"-"`
}

// FileUse says what a tool does with the file that its argument path names.
type FileUse uint8

const (
	NoFile FileUse = iota
	ReadsFile
	WritesFile // and is announced to clients before it does
)

// ToolList answers get_tools.
type ToolList struct {
	ActiveToolNames []string   `json:"activeToolNames"`
	AllTools        []ToolInfo `json:"allTools"`
}

// ActiveTools answers set_active_tools.
type ActiveTools struct {
	ActiveToolNames []string `json:"activeToolNames"`
}

// ToolNames answers set_host_tools.
type ToolNames struct {
	ToolNames []string `json:"toolNames"`
}

// TodoResult answers set_todos.
type TodoResult struct {
	TodoPhases []TodoPhase `json:"todoPhases"`
}

// PiscesTodos are the details of todo_write in s1.
type PiscesTodos struct {
	Phases  []TodoPhase `json:"phases"`
	Storage string      `json:"storage"` // session, or memory where it has no file
}

// Pong answers ping.
type Pong struct {
	T int64 `json:"t" doc:"The daemon's clock, epoch milliseconds."`
}

// ProtocolInfo answers get_protocol_info and hello.
type ProtocolInfo struct {
	Protocol string         `json:"protocol"` // "pi-rpc"
	Dialect  string         `json:"dialect"`
	Features []string       `json:"features"` // switched on for this connection
	Commands []string       `json:"commands"`
	Events   []string       `json:"events"`
	Limits   ProtocolLimits `json:"limits"`
	Epoch    string         `json:"epoch"` // changes with every start of the daemon
	Server   ServerInfo     `json:"server"`
	Scope    string         `json:"scope,omitempty" enum:"view" doc:"The permissions of this client, if they are restricted."`
	ClientID string         `json:"clientId,omitempty" doc:"The clientId of hello."`

	HeartbeatMs int64 `json:"heartbeatMs,omitempty" doc:"With the feature heartbeat: the interval."`
}

// ProtocolLimits are the daemon's bounds.
type ProtocolLimits struct {
	MaxLineBytes   int `json:"maxLineBytes"`
	MaxSessions    int `json:"maxSessions"`
	MaxOutputBytes int `json:"maxOutputBytes"` // queued for a client that does not read
	RingBytes      int `json:"ringBytes" doc:"The size of the buffer with past events of a session, for clients that reconnect."`
}

// ServerInfo names the daemon.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// AttachedSession answers attach. All but the first two are for clients with the
// feature seq.
type AttachedSession struct {
	SessionID string        `json:"sessionId"` // the routing handle; dies with the process
	State     *SessionState `json:"state"`
	Epoch     string        `json:"epoch,omitempty" doc:"Identifies this process. since of attach needs it."`
	Seq       int64         `json:"seq,omitempty" doc:"The number of the last event; absent before the first."`
	Replay    string        `json:"replay,omitempty" enum:"exact,snapshot" doc:"exact: the missed events follow the response. snapshot: the response has a snapshot."`
	Why       string        `json:"why,omitempty" enum:"asked,epoch,gone" doc:"The reason for the snapshot: requested by the client, another process (epoch), or the events are no longer buffered."`
	Replayed  *int          `json:"replayed,omitempty" doc:"The number of missed events that follow the response."`
	Snapshot  *Snapshot     `json:"snapshot,omitempty"`

	Clients   []ClientRef          `json:"clients" doc:"The attached clients, in the form of clients_changed."`
	Dialogs   []ExtensionUIRequest `json:"dialogs" doc:"The open approvals, in the form of get_dialogs."`
	Approvals []ApprovalRequest    `json:"approvals"`
}

// DialogOver says how a dialog or an approval has ended, to who answers it later.
type DialogOver struct {
	Outcome string     `json:"outcome"` // as in dialog_resolved and approval_resolved
	By      *ClientRef `json:"by,omitempty"`
}

// LoginFailure says why a login failed, for programs; the sentence is for people.
type LoginFailure struct {
	Cause string `json:"cause"` // access_denied, unreachable, http_503, or what the login service calls it
}

// OpenDialogs answers get_dialogs: what waits for an answer, oldest first.
type OpenDialogs struct {
	Dialogs   []ExtensionUIRequest `json:"dialogs" doc:"Without the feature approvals, it includes approvals."`
	Approvals []ApprovalRequest    `json:"approvals"`
}

// Snapshot is where a session stands, for a client that goes on from there.
type Snapshot struct {
	Entries  []json.RawMessage    `json:"entries" doc:"The newest entries, in the form of get_entries."`
	HasMore  bool                 `json:"hasMore" doc:"There are older entries."`
	LeafID   *string              `json:"leafId"`
	Partial  *PartialMessage      `json:"partial,omitempty" doc:"The message that is open."`
	Tools    []ToolExecutionState `json:"tools" doc:"The calls that have begun and not ended."`
	Steering []string             `json:"steering"`
	FollowUp []string             `json:"followUp"`

	Dialogs   []ExtensionUIRequest `json:"dialogs" doc:"As beside the snapshot."`
	Approvals []ApprovalRequest    `json:"approvals"`
}

// PartialMessage is an answer as far as it has come.
type PartialMessage struct {
	Message *AssistantMessage `json:"message"`
	RunID   RunID             `json:"runId"`
}

// ToolExecutionState is a call that has begun and not ended.
type ToolExecutionState struct {
	ToolCallID       string          `json:"toolCallId"`
	ToolName         string          `json:"toolName"`
	Args             json.RawMessage `json:"args"`
	PartialResult    *ToolResult     `json:"partialResult,omitempty"`
	ParentToolCallID string          `json:"parentToolCallId,omitempty"`
	RunID            RunID           `json:"runId"`
}

// OpenedSession answers open_session.
type OpenedSession struct {
	SessionID string        `json:"sessionId"` // the routing handle; dies with the process
	State     *SessionState `json:"state"`
}

// OpenSessions answers list_open_sessions.
type OpenSessions struct {
	Sessions []OpenSessionInfo `json:"sessions"`
}

// SessionStatus tells of a session of the process that is not as it was.
type SessionStatus OpenSessionInfo

func (SessionStatus) event() {}

// OpenSessionInfo describes a live session.
type OpenSessionInfo struct {
	SessionID     string   `json:"sessionId"` // the routing handle
	DurableID     string   `json:"durableId"` // the id in the file
	SessionFile   *string  `json:"sessionFile"`
	SessionName   *string  `json:"sessionName"`
	Cwd           string   `json:"cwd"`
	Status        string   `json:"status"` // in session_status also closed; opening, idle, running, parked, closing, failed
	Phase         string   `json:"phase"`
	PhaseSince    int64    `json:"phaseSince"` // epoch milliseconds
	WaitingFor    []string `json:"waitingFor"`
	PendingInputs int      `json:"pendingInputs"`
	Clients       int      `json:"clients"`
	Retain        bool     `json:"retain"`
	Attention     string   `json:"attention" enum:"none,dialog,done,failed" doc:"dialog: a dialog or approval waits for an answer. done, failed: the outcome of the last run, while the session is idle."`
	Title         string   `json:"title,omitempty" doc:"Its name, or the start of its first message."`
	LastText      string   `json:"lastText,omitempty" doc:"The beginning of its last answer."`
	IsDefault     bool     `json:"isDefault"` // the session that untagged commands of this connection go to
	Node          string   `json:"node,omitempty" doc:"The node of the cluster that has it."`

	ParentSessionID string `json:"parentSessionId,omitempty" doc:"For a child of the tool task: the handle of the session that called it."`
	TaskID          string `json:"taskId,omitempty" doc:"The id of the task in that session."`
}
