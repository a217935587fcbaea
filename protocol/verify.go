package protocol

// VerifySettings are the user's rules for checking what isolated tasks have done.
type VerifySettings struct {
	Enabled            bool                     // the model is shown the parameter, and RequireForIsolated counts
	DefaultProfile     string                   // "" for none
	RequireForIsolated bool                     // every isolated task is checked by the default profile
	MaxRetries         int64                    // repairs where a profile says retry_once and no number; 0 switches all repairs off
	ContextLines       int64                    // of a failed command's output that a repair is shown
	CaptureAfter       bool                     // what the commands change is part of the work
	Baseline           bool                     // a command that failed is run on the untouched tree, too
	Profiles           map[string]VerifyProfile // by name
}

// VerifyProfile is a set of commands that work has to pass.
type VerifyProfile struct {
	Mode       string          `json:"mode,omitempty"` // command, or none
	Commands   []VerifyCommand `json:"commands"`
	OnFailure  string          `json:"onFailure,omitempty"`  // one of those below; "" is return_failure
	MaxRetries *int64          `json:"maxRetries,omitempty"` // repairs; nil is what OnFailure and the settings say
}

// What becomes of work that does not pass.
const (
	ReturnFailure = "return_failure" // it is kept and not merged
	RetryOnce     = "retry_once"     // the agent may repair it; then as above
	DiscardPatch  = "discard_patch"  // it is thrown away
)

// VerifyCommand is a command of the shell that must end with 0.
type VerifyCommand struct {
	Name      string `json:"name"`
	Command   string `json:"command"`
	TimeoutMs int64  `json:"timeoutMs,omitempty"` // 0 is the runner's own
	Optional  bool   `json:"optional,omitempty"`  // it may fail
}

// MaxRepairs is how many repairs a profile or a call may ask for.
const MaxRepairs = 10

// Wrong says what cannot be obeyed in a profile, "" for nothing.
func (p VerifyProfile) Wrong() string {
	switch {
	case p.Mode != "" && p.Mode != "command" && p.Mode != "none":
		return "verification mode " + p.Mode + " is not implemented"
	case p.OnFailure != "" && p.OnFailure != ReturnFailure && p.OnFailure != RetryOnce && p.OnFailure != DiscardPatch:
		return "onFailure: want return_failure, retry_once or discard_patch"
	case p.MaxRetries != nil && (*p.MaxRetries < 0 || *p.MaxRetries > MaxRepairs):
		return "maxRetries: want a whole number from 0 to 10"
	}
	for _, c := range p.Commands {
		if c.Command == "" {
			return "a verification command is empty"
		}
		if c.TimeoutMs < 0 {
			return "timeoutMs: want a whole number of at least 0"
		}
	}
	return ""
}

// VerificationResult says what has come of the verification of a task.
type VerificationResult struct {
	Requested   bool                  `json:"requested"`
	Profile     string                `json:"profile,omitempty"`
	Mode        string                `json:"mode,omitempty" enum:"none,command"`
	Status      string                `json:"status" enum:"not_requested,passed,failed,skipped"`
	Attempts    []VerificationAttempt `json:"attempts"`
	RetriesUsed int                   `json:"retriesUsed"`
	OnFailure   string                `json:"onFailure,omitempty" enum:"return_failure,retry_once,discard_patch"`
}

// VerificationAttempt is one run of all commands.
type VerificationAttempt struct {
	Attempt        int                         `json:"attempt"` // from 1
	Status         string                      `json:"status" enum:"passed,failed,skipped"`
	StartedAt      int64                       `json:"startedAt"` // epoch milliseconds
	EndedAt        int64                       `json:"endedAt"`
	CommandResults []VerificationCommandResult `json:"commandResults"`
	Error          string                      `json:"error,omitempty"`
}

// VerificationCommandResult is one command of an attempt.
type VerificationCommandResult struct {
	Name          string `json:"name"`
	Command       string `json:"command"`
	ExitCode      int    `json:"exitCode"`
	DurationMs    int64  `json:"durationMs"`
	Optional      bool   `json:"optional,omitempty"`
	TimedOut      bool   `json:"timedOut"`
	ArtifactPath  string `json:"artifactPath,omitempty"`  // of its output
	OutputPreview string `json:"outputPreview,omitempty"` // the end of that

	// BaselineExitCode is how the command ended on the tree that the child began with;
	// nil if that was not tried (task.verification.baseline).
	BaselineExitCode *int `json:"baselineExitCode,omitempty"`
}

// How an attempt or a verification ended.
const (
	VerifyPassed  = "passed"
	VerifyFailed  = "failed"
	VerifySkipped = "skipped"
)
