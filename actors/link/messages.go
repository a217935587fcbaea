package link

import (
	"github.com/asynkron/protoactor-go/actor"
	"slices"

	"troupe/actors/cluster"
	"troupe/actors/core"
	"troupe/protocol"
	"troupe/store"
)

// Request is a command on its way from a router to a session, with the client to
// answer.
type Request struct {
	core.Command
	Client  Client
	Tag     string                 // the sessionId that the client wrote, repeated in the answer
	Credit  Credit                 // to give back when the command reaches its handler
	Allowed func(path string) bool // which files the client may name, by absolute paths; nil is all
	Line    []byte                 // as the client wrote it, for another node; nil without a cluster
	Known   bool                   // its client has not attached: it is answered if it was carried out before, and refused else
	Begun   bool                   // a forwarded command may already have run on the node that it comes from
}

// Held is what the log of a session says of where it is, by its own id and not by its handle.
type Held struct {
	At     cluster.Seq // of the last record
	Node   string      // that has written it, and may have the session open; or that it was given to
	Owned  bool        // it is that node's, and was not released
	Given  bool        // it is on its way to that node
	Handle string      // that leads to it on every node, as far as is known
}

// What a router and the parent of sessions say to each other.
type (
	// SpawnSession asks for a session. The answer is a SessionSpawned.
	SpawnSession struct {
		Spec   OpenSpec
		Client Client
		Key    string         // chosen by the router, to tell its requests apart
		Rules  protocol.Rules // of a new session
		Hears  bool           // as of Join
		Owed   bool           // as of Join
	}
	// SessionSpawned names the session that was asked for, or says why there is
	// none.
	SessionSpawned struct {
		Key    string
		Handle string
		PID    *actor.PID
		Err    *protocol.Error
	}
	// ListOpen asks which sessions are open. The answer is an OpenList.
	ListOpen struct {
		Seq  uint64 // chosen by the router, to tell its questions apart
		From *actor.PID
	}
	// OpenList is the open sessions, in the order of their making.
	OpenList struct {
		Seq      uint64
		Sessions []protocol.OpenSessionInfo
	}
	// AskFiles asks about files of sessions and directories, or about a session of the cluster that no
	// node has. The answer is a FilesAnswer.
	AskFiles struct {
		Seq     uint64 // as in ListOpen
		From    *actor.PID
		Session string // its id; "" for none
		Cmd     protocol.Command
		Spec    OpenSpec // what a session of the client would begin with
		Rules   protocol.Rules
		Allowed func(path string) bool // where the client may look; nil is everywhere
	}
	FilesAnswer struct {
		Seq  uint64
		Data protocol.Result
		Err  *protocol.Error
	}
	// EndAll asks for the end of all sessions, each with its last client. The
	// answer is a NoneOpen when there is none. GoesOn is that of [Leave].
	EndAll   struct{ Abort, GoesOn bool }
	NoneOpen struct{}
)

// How a router hears of all sessions.
type (
	// WatchSessions asks to be told of every change, or no more.
	WatchSessions struct {
		Router *actor.PID
		Off    bool
	}
	// SessionChanged is what a router is told that watches: how a session is now.
	SessionChanged struct{ Info protocol.OpenSessionInfo }
)

// How a router finds a session that another one has opened: it asks the parent of
// sessions with FindSession, is answered with SessionSpawned, and the session
// expects it from then on.
type (
	// FindSession asks for an open session, by its handle unless it is named in another way. The handle
	// becomes the tag of the client, unless that is to have none.
	FindSession struct {
		Client    Client
		Key       string // as of SpawnSession
		Handle    string
		DurableID string
		Path      string
		Hears     bool // as of Join
		Owed      bool // as of Join
	}
	// Join tells a session that a router may send it commands of a client, which
	// hears of nothing before it attaches. It may come twice, or behind the first
	// command. Hears is of one that has heard of the session on another node: it hears on, and may ask for nothing. Owed is of
	// one that has heard of a run there and not that all is settled: where it is, nobody else tells it so.
	Join struct {
		Client Client
		Hears  bool
		Owed   bool
	}
)

// How a client leaves a session: the last that its router sends is Leave, and the
// last that it hears is Left, or Closed if the session ends before that or with
// it. For a router that ends without a word, the parent of sessions sends Leave.
type (
	// Leave says that a client sends nothing more. A session that was not to be
	// retained ends with its last client.
	Leave struct {
		Router *actor.PID // of the client; nil to tell a session that nobody will come who is not there
		Abort  bool       // if it ends the session, do not let the run end first
		Gone   bool       // the client cannot be told anything: it wants no answers
		Final  bool       // the process ends: also what was to be retained
		GoesOn bool       // it was told to, and another one goes on with what was to be retained: until then the client is there, and answers
	}
	// Left says that a session has let a client go.
	Left struct{ Handle string }
)

// And is how a client leaves who leaves once more: as strictly as either wants. A
// nil receiver has not left yet.
func (m *Leave) And(next Leave) *Leave {
	if m != nil {
		next.Abort, next.Gone, next.Final = next.Abort || m.Abort, next.Gone || m.Gone, next.Final || m.Final
		next.GoesOn = next.GoesOn && m.GoesOn
	}
	return &next
}

// How a session ends: it sends Closed to its parent, which passes it on to the
// routers; each of them, and the parent, answers the session with RouteClosed, and it
// answers a router with Quiet.
type (
	// Closed says that a session has ended.
	Closed struct {
		Handle  string
		Quit    bool         // a connection that has no other session ends, too
		Routers []*actor.PID // to be told
		Replies []CloseReply
		Moved   *Moved          // it goes on, on another node; nil if it has ended
		Refused *protocol.Error // why it could not be opened, or was given up; nil for neither
	}
	// Moved is what of a session goes on elsewhere.
	Moved struct {
		Why        string           // as of [protocol.SessionMoved]
		Asked      []protocol.Event // the ends of what extensions and children have asked and begun
		Unanswered []Request        // that have had no effect, or may come again: they go where the session is
		Ends       []protocol.Event // of what clients were told has begun, for those that are led there
		Owed       bool             // that it is settled is none of them: the work goes on there
		Unopened   bool             // it could not be opened here: clients have heard nothing of it
		New        bool             // the client has heard nothing of it here: it has come behind the move
	}
	// Late is a command that has come to a session behind its move: it goes where that is.
	Late struct {
		Handle  string
		Request Request
	}
	// CloseReply is the answer to a close_session, or to the open_session of a
	// session that could not be opened. The router of the
	// client sends it, when it routes nothing to the session any more: what a
	// client writes after it has read the answer finds no session.
	CloseReply struct {
		To       Client
		Response *protocol.Response
	}
	// RouteClosed says that a router sends a session nothing more; a nil router
	// stands for the parent of sessions: no router will be sent to it.
	RouteClosed struct{ Router *actor.PID }
	// Quiet says that a session that has ended tells a router's client nothing more: what
	// was on its way to it is answered.
	Quiet struct{}
)

// SetDialect says that a client has chosen another dialect or other features. A
// session takes the rules on if it has no other client and this one may do so.
type SetDialect struct {
	Client Client
	Rules  protocol.Rules
	Looks  bool // the client may only watch: its rules are nobody's
}

// OpenSpec says what session to open.
type OpenSpec struct {
	Path   string     // an existing session file, "" for a new session
	Log    *store.Log // Path, opened already
	Cwd    string
	CwdSet bool // Cwd was asked for: it counts more than the one in the session file
	Leaves bool // the command for which it is opened leaves it: if its directory is gone, a new one does
	Memory bool // keep nothing on disk
	Name   string
	ID     string // of a new session, "" for a fresh one
	Claim  bool   // ID is that of a session of the cluster, which is to be claimed
	Parent string // path of the session file a new one comes from

	Provider, Model    string // "" leaves the choice to the configuration
	Level              protocol.ThinkingLevel
	Inherited          Inherited
	Tools              []string // nil is the default set
	FreeTools          bool     // tools of extensions are active beside them; else, unless Tools is nil, only those named
	WithoutTools       []string // not active at the start
	SystemPrompt       string
	AppendSystemPrompt string
	PermissionMode     string // "" is the daemon\'s
	Sandbox            string // off, workspace, readonly: it makes the daemon's stricter; "" is the daemon's
	SandboxNetwork     string // off, likewise
	Settings           []byte // members of settings.json for this session only
	Follows            bool   // where it cannot be had here, its client is led to where it can
	Retain             bool   // do not end when nobody hears of it any more

	Wants cluster.Wants // of its node, in a cluster
	// Places are the identities of directories that commands of its sandbox may write, as another
	// session has opened them; "" to look for them by their names.
	Places string
	// Allowed reports whether its client may name a path, which is how it is held to directories;
	// nil is every path. It follows symbolic links.
	Allowed func(path string) bool

	Child *ChildSpec // what it is for as the child of another session; nil for one of a client
}

// Inherited lists the values of an [OpenSpec] that are defaults of the daemon. A stored session keeps
// its own value instead of a default, and takes a value that was requested for it.
type Inherited struct {
	Model bool // Provider and Model
	Level bool
}

// LeavesOut says whether a tool is not to be active, and no child's.
func (s OpenSpec) LeavesOut(name string) bool { return slices.Contains(s.WithoutTools, name) }

// ChildSpec says what the child of a session is for.
type ChildSpec struct {
	Entry   protocol.SubagentEntry
	Agent   protocol.Agent
	Ceiling []string              // the tools that its own children may have
	Draws   core.Drawing          // whose budget it draws on
	Counts  core.TokenCounts      // the parent's
	File    string                // where it begins; "" in memory
	Minder  *actor.PID            // its client on behalf of its parent
	Parent  string                // the parent's handle
	Above   []string              // working directories of the sessions above it, the nearest last
	Trust   protocol.ProjectTrust // whether the session above it trusts the project
}

// Fresh is the same without what is said of one session: its file, id and name.
func (s OpenSpec) Fresh() OpenSpec {
	s.Path, s.Log, s.Name, s.ID, s.Parent, s.Child, s.Allowed = "", nil, "", "", "", nil, nil
	return s
}

// OwnID begins the ids of a relay's own commands: no client writes such.
const OwnID = "\u00b7relay\u00b7"

// AttachedLate answers a relay that attaches again for its client, which may have seen work begin and not end.
type AttachedLate struct {
	protocol.AttachedSession
	Outcome string     `json:"outcome"` // of the last work, as in agent_settled
	Open    []OpenSpan `json:"open"`    // has begun and not ended
}

// OpenSpan names a span that has begun and not ended, by members of the event that began it.
type OpenSpan struct {
	Span protocol.Span     `json:"span"`
	Is   map[string]string `json:"is"` // by path in the event; a dialect may lack some
}
