package session

import (
	"cmp"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/link"
	"troupe/actors/worker"
	"troupe/protocol"
	"troupe/protocol/extension"
	"troupe/providers"
	"troupe/store"
	"troupe/store/config"
	"troupe/tools"
)

// printMode is the Mode in which nobody follows the events while they come.
const printMode = "print"

// Config is what sessions are told at the start. It does not change.
type Config struct {
	Version     string        // named in exported pages
	Epoch       string        // names this process's life to clients
	Default     link.OpenSpec // the default session, and what open_session starts from
	MaxSessions int           // open at once, 0 for protocol.DefaultMaxSessions

	Mode      string        // print or json: nobody answers, or sends more than the command line has; "" is rpc
	ParkAfter time.Duration // of idleness, 0 for never

	// RingBytes bounds the events of a session that are kept for clients that come back,
	// 0 for [DefaultRing].
	RingBytes  int
	RingsBytes int // of all sessions, 0 for [ringsBytes]: the session that was idle longest forgets first

	// GiveBack returns memory to the system that is not needed any more, since
	// the runtime is in no hurry to. It is called, on a goroutine of its own,
	// a moment after sessions were parked, and, with always false, a moment after a session became idle: then
	// only if it is worth the collection. Nil is for tests.
	GiveBack func(always bool)

	Cluster    *Cluster       // that keeps sessions; nil for none
	AgentDir   string         // pi's agent directory: sessions, settings, resources
	SessionDir string         // --session-dir
	Home       string         // for ~
	Consent    config.Consent // --approve, --no-approve
	Budget     []byte         // --budget, as settings; nil for nothing
	NoContext  bool           // read no AGENTS.md
	Prompts    []string
	Skills     []string
	NoPrompts  bool
	NoSkills   bool
	Extensions config.ExtensionFlags

	ExtensionHost    extension.Host    // runs extensions; nil for nothing
	ExtensionOptions map[string]string // of the command line, which extensions may claim
	// SimilarOption returns the option of troupe that resembles an unknown one, "" for none. nil: none does.
	SimilarOption         func(name string) string
	IgnoreExtensionErrors bool          // a gate that cannot be loaded refuses nothing
	Argv                  []string      // as extensions see the command line
	ModelPatterns         []string      // --models
	Confirm               []string      // tools that run only after the client confirmed
	Durability            string        // process or sync
	PermissionMode        string        // "" for the mode in permissions.json
	ApprovalTimeout       time.Duration // 0 for none
	DenyUnattended        bool          // requests that no attached client can answer are denied, also in a retained session
	AskTrust              bool          // clients are asked whether they trust a project
	Sandbox               tools.Sandbox // of programs that sessions start, unless a session asks for a stricter one

	Env     func(name string) string
	Environ []string // of child processes, before secrets are taken out
	Tools   *tools.Registry
	Files   *tools.Files
	Guard   *tools.Guard
	Models  Models
	Logins  providers.Logins // nil for none
	// Extend adds providers that extensions have registered to Models.
	Extend func([]providers.Registration) (Models, []error)
	Exec   worker.Exec // runs the client's bash commands; tools.Exec if nil
	FS     store.FS    // where session files are; store.OS if nil

	// Spawned is called for every session, unless it is nil. Tests learn from inMemory whether
	// anything still refers to the state of the session, after a garbage collection.
	Spawned func(inMemory func() bool)
}

// Models is what sessions need of the providers.
type Models interface {
	worker.Streamer
	// Catalog is what can be selected at this moment. Problems with the
	// configuration of models are reported beside a catalogue that leaves out
	// what is broken.
	Catalog() (*protocol.Catalog, error)
	// Secrets are the environment variables that hold keys: of providers that
	// are used, and what the files of the user name.
	Secrets(used func(provider string) bool) map[string]bool
}

// Shared is what the sessions of a process have in common: what they were told,
// and what they have found out for each other.
type Shared struct {
	Config
	Seq        link.Seq
	complaints complaints
	isolated   *workspaces
	onDisk     sessionFiles
	used       usedProviders
	grants     projectGrants
	ringBytes  atomic.Int64 // of the rings of all sessions
	lastTools  atomic.Pointer[toolSet]
	trust      projectTrust
	// records numbers what extensions show to clients. None has the number of another, not
	// even after a reload or a crash: a late yes must not be one to another question.
	records atomic.Int64
}

// projectTrust is what clients have said of projects in this run.
type projectTrust struct {
	said  sync.Map // by working directory: who trusts it, "" for somebody who does not
	asked sync.Map // directories, without symbolic links, about which clients were asked
}

// NewShared completes a configuration with the defaults.
func NewShared(cfg Config, log zerolog.Logger) *Shared {
	cfg.MaxSessions = cmp.Or(cfg.MaxSessions, protocol.DefaultMaxSessions)
	if cfg.Exec == nil {
		cfg.Exec = tools.Exec
	}
	h := &Shared{Config: cfg, complaints: complaints{log: log}, isolated: newWorkspaces()}
	h.complaints.copied = h.isolated.copied
	h.onDisk.lister = sync.OnceValue(func() *store.Lister { return store.NewLister(h.fs()) })
	return h
}

// recordID is a new id of something that clients are shown in a life of a session.
func (h *Shared) recordID(kind, life string) string {
	return kind + "_" + life + strconv.FormatInt(h.records.Add(1), 10)
}

// lifeSize is enough for two lives of a session never to have the same.
const lifeSize = 16

// newLife is what the ids have that clients are given in a life of a session, from one start of its machine to the next: in a
// cluster another node, which has numbered nothing yet, may go on with it. Alone it is "": the process counts on.
func (h *Shared) newLife() string {
	if h.Cluster == nil {
		return ""
	}
	return rand.Text()[:lifeSize] + "_"
}

// ofAnotherLife says whether an id was given in another life than this one.
func ofAnotherLife(id, life string) bool {
	_, number, _ := strings.Cut(id, "_")
	return life != "" && strings.Contains(number, "_") && !strings.HasPrefix(number, life)
}

// leaveLimit is how long the end of the process waits for workspaces to be left in order;
// what is still there then, a sweep finds.
const leaveLimit = 10 * time.Second

// Close returns when nothing of the sessions, which have all ended, is under way.
func (h *Shared) Close() {
	if !h.isolated.settle(leaveLimit) {
		h.complaints.log.Warn().Msg("workspaces of tasks were not cleaned up in time")
	}
}

// fs is where session files are.
func (h *Shared) fs() store.FS {
	if h.FS == nil {
		return store.OS{}
	}
	return h.FS
}

// complaints names problems with files on stderr, each once.
type complaints struct {
	log    zerolog.Logger
	copied func(path string) bool // of files whose originals have been complained of
	said   sync.Map               // by text
	count  atomic.Int32
}

// maxSaid bounds the problems that are remembered as named.
const maxSaid = 1000

// about names a problem, the first time.
func (c *complaints) about(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if c.count.Load() > maxSaid { // of so many projects that the list is larger than what it saves
		c.forget()
	}
	if _, said := c.said.LoadOrStore(text, true); !said {
		c.count.Add(1)
		c.log.Warn().Msg(text)
	}
}

func (c *complaints) all(problems []config.Problem) {
	for _, p := range problems {
		if !c.copied(p.Path) {
			c.about(p)
		}
	}
}

// forget makes problems that are still there be named again.
func (c *complaints) forget() {
	c.said.Clear()
	c.count.Store(0)
}
