// Package extension is the words between a session and what runs its extensions
// (pi's TypeScript extensions): neither imports the other. Payloads are JSON as
// extensions see it.
//
// A session has one VM, a realm of JavaScript with all its extensions in it. The
// daemon says things to it and never waits; what the VM has to say comes to a sink, in
// order. What JavaScript does on its own (files, processes, timers) it does there. What
// concerns the session is an [Act], which tells the daemon, or an [Op], which asks it.
package extension

import "encoding/json"

// Host runs the extensions of any number of sessions.
type Host interface {
	// Open begins a VM. It does not block; everything that the VM says comes to
	// sink, in order and one after another. Sink must not block for long.
	Open(spec Spec, sink func(Said)) VM
	// Close ends the host; every VM says Gone.
	Close() error
}

// Kind says how an extension is written.
type Kind string

// Hooks and custom tools are what extensions were until pi 0.34.
const (
	Extension Kind = ""
	Hook      Kind = "hook"
	Tool      Kind = "tool"
)

// Entry is an extension to be loaded.
type Entry struct {
	Path string `json:"path"` // as it is reported
	Kind Kind   `json:"kind,omitempty"`
}

// Spec is what a VM begins with.
type Spec struct {
	Entries     []Entry           `json:"entries"` // in load order
	Cwd         string            `json:"cwd"`
	Flags       map[string]string `json:"flags,omitempty"` // of extensions, as given; "" is presence
	Snapshot    json.RawMessage   `json:"snapshot,omitempty"`
	SessionFile string            `json:"sessionFile,omitempty"`
	Reason      string            `json:"reason,omitempty"` // of session_start: startup, resume, new, fork, reload
	Previous    string            `json:"previous,omitempty"`
	Again       bool              `json:"again,omitempty"` // by itself, since it ended: not at once if that happens often
	Argv        []string          `json:"argv,omitempty"`
	AgentDir    string            `json:"agentDir,omitempty"`
	Mode        string            `json:"mode,omitempty"`    // of the program, as ctx.mode has it; "" is rpc, the one in which somebody can be asked
	Sandbox     string            `json:"sandbox,omitempty"` // workspace or readonly: where extensions and what they start may write; "" is everywhere
	NoNetwork   bool              `json:"noNetwork,omitempty"`
	Places      string            `json:"places,omitempty"` // the identities of the directories that the sandbox lets them write
}

// VM is the extensions of one session. Say does not block, and the order of words is kept.
// After Gone nothing more is said, and words have no effect.
type VM interface{ Say(w Word) }

// Word is something that is said to a VM.
//
//sumtype:decl
type Word interface{ word() }

// What is said to a VM.
type (
	// Start calls the handlers of session_start in the VM that sent Ready{N}. Snapshot includes what the
	// extensions registered, as the session accepted it. All other calls wait for Start.
	Start struct {
		N        uint64
		Snapshot json.RawMessage
	}
	// Tell shows an event that nobody may change. The VM says Told{N} when its
	// handlers are through.
	Tell struct {
		N     uint64
		Event json.RawMessage
	}
	// Call asks the handlers of an event. The VM says Done{ID} with what they say
	// together.
	Call struct {
		ID    uint64
		Event json.RawMessage
	}
	CancelCall struct{ ID uint64 }
	// Prepare says Prepared{ID}: the arguments of a call as its tool wants them.
	Prepare struct {
		ID   uint64
		Call ToolCall
	}
	// RunTool runs a call. The VM says ToolUpdate{ID} and ToolDone{ID}.
	RunTool struct {
		ID   uint64
		Call ToolCall
	}
	CancelTool struct{ ID uint64 } // aborts its signal
	// RunCommand runs a command that an extension registered. The VM says CommandDone{ID}.
	RunCommand struct {
		ID         uint64
		Name, Args string
	}
	// Invoke calls a function of a provider that an extension registered. The VM
	// says Done{ID}.
	Invoke struct {
		ID          uint64
		Key, Member string
		Args        []json.RawMessage
	}
	// Answer is that to an Op.
	Answer struct {
		Op     uint64
		Result json.RawMessage `json:",omitempty"`
		Err    string
	}
	// Part is an event of the stream that the Op complete asks for, before its Answer.
	Part struct {
		Op    uint64
		Event json.RawMessage
	}
	Update   struct{ Snapshot json.RawMessage } // changed members; before the next Tell or Call
	Appended struct{ Entry json.RawMessage }    // to the session
	AbortRun struct{}                           // ctx.signal of the run in progress
	// Rebind begins another session with the same modules: factories run again,
	// what the old session captured is stale. The VM says Ready.
	Rebind struct{ Spec Spec }
	// Close tells session_shutdown, gives it five seconds, and says Gone.
	Close struct{ Reason string }
)

func (Start) word()      {}
func (Tell) word()       {}
func (Call) word()       {}
func (CancelCall) word() {}
func (Prepare) word()    {}
func (RunTool) word()    {}
func (CancelTool) word() {}
func (RunCommand) word() {}
func (Invoke) word()     {}
func (Answer) word()     {}
func (Part) word()       {}
func (Update) word()     {}
func (Appended) word()   {}
func (AbortRun) word()   {}
func (Rebind) word()     {}
func (Close) word()      {}

// ToolCall is a call of a tool that an extension registered.
type ToolCall struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"args"`
	Prepared bool            `json:"prepared,omitempty"` // Args come from Prepared
}

// Said is something that a VM says.
//
//sumtype:decl
type Said interface{ said() }

// What a VM says.
type (
	// Ready is the end of loading. N grows each time: extensions are loaded again for another session.
	Ready struct {
		N             uint64        `json:"n"`
		Registrations Registrations `json:"registrations"`
		Errors        []LoadError   `json:"errors,omitempty"`
	}
	// Changed are registrations that came or went after loading.
	Changed struct {
		Registrations Registrations `json:"registrations"`
	}
	Told struct {
		N uint64 `json:"n"`
	}
	// Done is what the handlers of a Call say together; no result changes nothing. A
	// gate whose result has an Err or TimedOut has not said yes.
	Done struct {
		ID       uint64          `json:"id"`
		Result   json.RawMessage `json:"result,omitempty"`
		Path     string          `json:"path,omitempty"` // of the extension that spoke last
		Err      string          `json:"err,omitempty"`
		TimedOut bool            `json:"timedOut,omitempty"`
	}
	Prepared struct {
		ID   uint64          `json:"id"`
		Args json.RawMessage `json:"args,omitempty"`
		Err  string          `json:"err,omitempty"`
	}
	ToolUpdate struct {
		ID      uint64          `json:"id"`
		Partial json.RawMessage `json:"partial,omitempty"`
	}
	// ToolDone is {content, details?, structuredContent?, terminate?, usage?}.
	ToolDone struct {
		ID      uint64          `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		IsError bool            `json:"isError,omitempty"`
	}
	CommandDone struct {
		ID  uint64 `json:"id"`
		Err string `json:"err,omitempty"`
	}
	// Act tells the daemon to do something. An act precedes the end of the call
	// that caused it.
	Act struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	// Op asks the daemon; Answer ends it.
	Op struct {
		ID   uint64          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	// OpCancel takes an Op back. No answer is wanted.
	OpCancel struct {
		ID uint64 `json:"id"`
	}
	// Failure is an extension_error.
	Failure struct {
		Path    string `json:"path"`
		Event   string `json:"event"`
		Message string `json:"message"`
		Stack   string `json:"stack,omitempty"` // of sources
	}
	// Log is a line for people, of console and the like.
	Log struct {
		Level string `json:"level"`
		Text  string `json:"text"`
	}
	// Quiet says whether anything would go on by itself: timers, processes, calls.
	Quiet struct {
		Quiet bool `json:"quiet"`
	}
	// Gone is the end. Why is "" after Close.
	Gone struct {
		Why string `json:"why,omitempty"`
	}
)

func (Ready) said()       {}
func (Changed) said()     {}
func (Told) said()        {}
func (Done) said()        {}
func (Prepared) said()    {}
func (ToolUpdate) said()  {}
func (ToolDone) said()    {}
func (CommandDone) said() {}
func (Act) said()         {}
func (Op) said()          {}
func (OpCancel) said()    {}
func (Failure) said()     {}
func (Log) said()         {}
func (Quiet) said()       {}
func (Gone) said()        {}

// Registrations is what extensions have registered.
type Registrations struct {
	Listens      []string          `json:"listens"` // events that have handlers
	Tools        []ToolDef         `json:"tools"`
	Commands     []CommandDef      `json:"commands"`
	Flags        []FlagDef         `json:"flags"`
	Providers    []json.RawMessage `json:"providers"` // {name, config, path}; functions of config by name, for Invoke
	MessageKinds []string          `json:"messageKinds"`
}

// ToolDef is a tool of an extension.
type ToolDef struct {
	Name          string          `json:"name"`
	Label         string          `json:"label"`
	Description   string          `json:"description"`
	Parameters    json.RawMessage `json:"parameters"`
	Path          string          `json:"path"`
	Snippet       string          `json:"promptSnippet,omitempty"`
	Guidelines    []string        `json:"promptGuidelines,omitempty"`
	ExecutionMode string          `json:"executionMode,omitempty"`
	DefaultActive *bool           `json:"defaultActive,omitempty"`
	Prepares      bool            `json:"prepares,omitempty"` // it has prepareArguments
	Exposure      string          `json:"exposure,omitempty"`
}

// CommandDef is a command of an extension, by the name that it can be called by.
type CommandDef struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Path        string `json:"path"`
}

// FlagDef is a flag of the command line.
type FlagDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type"`
	Default     json.RawMessage `json:"default,omitempty"`
	Path        string          `json:"path"`
}

// LoadError is an extension that is not there.
type LoadError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	// Gates are events that it guarded, or that its source names: what it would
	// have had to see must not happen unseen.
	Gates []string `json:"gates,omitempty"`
}
