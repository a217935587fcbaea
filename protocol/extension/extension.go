// Package extension is the words between a session and the virtual machine that
// runs its extensions (pi's TypeScript extensions). Payloads are JSON as extensions
// see it; what they mean is docs/extensions.md.
package extension

import "encoding/json"

// Host runs the extensions of any number of sessions.
type Host interface {
	// Open begins a VM and does not block. What the VM says comes to sink, in
	// order, from one goroutine at a time; sink must not block.
	Open(spec Spec, sink func(Said)) VM
	// Close ends the host. Every VM says [Gone].
	Close() error
}

// VM runs the extensions of one session. No method blocks, and what is said to it
// is heard in order. After [Gone] it hears nothing.
type VM interface {
	// Update changes members of the snapshot, before what is said next.
	Update(snapshot json.RawMessage)
	// Entry shows an entry that was appended to the session.
	Entry(entry json.RawMessage)
	// Tell tells an event that nobody may change. n grows by one with each.
	Tell(n uint64, event json.RawMessage)
	// Call asks about an event whose handlers may change what follows. The answer
	// is a [Done] with the same id, which is chosen by the caller.
	Call(id uint64, event json.RawMessage)
	// Cancel ends a Call, Tool or Command of which nobody wants to hear any more:
	// what is said of it later counts for nothing. The signal of a tool is aborted.
	Cancel(id uint64)
	// Tool runs a tool that was registered: [ToolUpdate]s, then [ToolDone].
	Tool(id uint64, call ToolCall)
	// Command runs a command that was registered, then [CommandDone].
	Command(id uint64, name, args string)
	// Answer answers an [Op]. An error rejects its promise.
	Answer(op uint64, result json.RawMessage, err string)
	// Close tells session_shutdown, waits for its handlers a bounded time, and ends
	// with [Gone].
	Close(reason string)
}

// Spec is what a VM is opened with.
type Spec struct {
	Session     string            // the routing handle, for logs
	Entries     []Entry           // in load order
	Cwd         string            // working directory
	Flags       map[string]string // of the command line, for extensions to claim; "" for a flag without a value
	Snapshot    json.RawMessage   // what handlers may ask for at any time: see docs/extensions.md
	SessionFile string            // whose entries are the session's; "" for one in memory
	Reason      string            // of session_start: startup, new, resume, fork or reload
}

// Entry is an extension as it was found.
type Entry struct {
	Path    string // as errors name it
	Real    string // real path
	BaseDir string // of the package or folder it came with, "" for none
	Source  string // cli, local, auto, npm:… or git:…
	Scope   string // user, project or temporary
	Origin  string // top-level or package
}

// ToolCall is a call of a registered tool.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Said is what a VM says.
//
//sumtype:decl
type Said interface{ said() }

type (
	// Ready says that every extension was loaded, or could not be.
	Ready struct {
		Registrations Registrations
		Failed        []Failure // event is load
	}
	// Changed says that something was registered since.
	Changed struct{ Registrations Registrations }
	// Told says that the handlers of a Tell are through.
	Told struct{ N uint64 }
	// Done answers a Call: what all handlers together came to, by the rules of the
	// event. Err is why there is no answer: a gate is closed then.
	Done struct {
		ID     uint64
		Result json.RawMessage
		Err    string
	}
	// ToolUpdate is the progress of a tool: {content, details?}.
	ToolUpdate struct {
		ID      uint64
		Partial json.RawMessage
	}
	// ToolDone is the result of a tool: {content, details?, isError?, terminate?}.
	ToolDone struct {
		ID     uint64
		Result json.RawMessage
		Err    string // what it threw
	}
	// CommandDone says that the handler of a command is through.
	CommandDone struct {
		ID  uint64
		Err string
	}
	// Act is something that an extension does and does not wait for: sendMessage,
	// sendUserMessage, appendEntry, setSessionName, setLabel, setActiveTools,
	// setThinkingLevel, abort, shutdown, compact, ui (a record of extension_ui_request
	// that nobody answers).
	Act struct {
		Path string // of the extension
		Name string
		Args json.RawMessage
	}
	// Op is something whose result an extension waits for: ui (select, confirm,
	// input, editor), setModel, newSession, switchSession, fork, navigateTree, reload,
	// waitForIdle, complete, executeTool. It is owed an Answer.
	Op struct {
		ID   uint64
		Path string
		Name string
		Args json.RawMessage
	}
	// OpCancel says that nobody waits for an Op any more.
	OpCancel struct{ ID uint64 }
	// Failed says that a handler threw, or was ended.
	Failed struct{ Failure }
	// Gone is the last word: the VM was closed, or has died.
	Gone struct{ Why string }
)

func (Ready) said()       {}
func (Changed) said()     {}
func (Told) said()        {}
func (Done) said()        {}
func (ToolUpdate) said()  {}
func (ToolDone) said()    {}
func (CommandDone) said() {}
func (Act) said()         {}
func (Op) said()          {}
func (OpCancel) said()    {}
func (Failed) said()      {}
func (Gone) said()        {}

// Failure is an error of an extension.
type Failure struct {
	Path  string `json:"extensionPath"`
	Event string `json:"event"` // load, an event, command, tool:NAME, timer, unhandledRejection …
	Error string `json:"error"`
	// Gates says that it may be what has to see tool calls or commands of the
	// user, and is not there.
	Gates []string `json:"gates,omitempty"` // of tool_call and user_bash
}

// Registrations is everything that the extensions of a session have registered.
type Registrations struct {
	Listens   []string          `json:"listens"` // events with a handler
	Tools     []Tool            `json:"tools"`
	Commands  []Command         `json:"commands"`
	Flags     []Flag            `json:"flags"`
	Providers []json.RawMessage `json:"providers"`
}

// Tool is a tool as it was registered.
type Tool struct {
	Name        string          `json:"name"`
	Label       string          `json:"label,omitempty"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of an object
	Snippet     string          `json:"promptSnippet,omitempty"`
	Guidelines  []string        `json:"promptGuidelines,omitempty"`
	Sequential  bool            `json:"sequential,omitempty"` // nothing of its batch runs beside it
	Inactive    bool            `json:"inactive,omitempty"`   // registered, and not active
	Path        string          `json:"path"`                 // of the extension
}

// Command is a command as it was registered, without the slash.
type Command struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"`
}

// Flag is a flag of the command line.
type Flag struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"` // boolean or string
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Path        string          `json:"path"`
}
