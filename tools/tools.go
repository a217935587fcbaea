// Package tools is the hands of an agent: what a model may do on the machine.
// One file per tool; the text a model reads about a tool is in a file of the
// same name ending in .md. Tools know nothing of sessions, actors or models:
// they get a call and an environment, and give back a result.
package tools

import (
	"context"
	"encoding/json"
	"time"

	"troupe/protocol"
)

// Tool is one kind of tool call. Implementations must be safe for concurrent
// use and keep no state between calls.
type Tool interface {
	// Info describes the tool to models and clients.
	Info() protocol.ToolInfo

	// Run does the call. It returns soon after ctx is cancelled, with every
	// child process gone or on its way out. An error becomes the text of an
	// error result that the model reads: write it so that the model can act on
	// it. Of a result next to an error only the Details count. Memory stays
	// bounded whatever the size of files or output.
	Run(ctx context.Context, call Call) (protocol.ToolResult, error)
}

// Call is one call of a tool.
type Call struct {
	ID   string
	Args json.RawMessage // a JSON object that fits Info().Parameters: Registry.Run has seen to it
	Env  *Env
	// Progress, if not nil, shows output so far: cumulative, at most every
	// 100 ms, never after Run returned. It may block.
	Progress func(protocol.ToolResult)
}

// Env is where a call runs. It is shared by calls and never changed.
type Env struct {
	Cwd         string        // absolute
	Home        string        // for ~
	Environ     []string      // of child processes, KEY=value
	Shell       string        // path of the shell; "" looks for /bin/bash, bash, sh
	ShellPrefix string        // put before every command, with a line break between
	TempDir     string        // for full outputs; "" is the system's
	AutoResize  bool          // shrink large images before a model sees them
	TextOnly    string        // id of the model if it takes no images, else ""
	Files       *Files        // serialises writers of one path; shared by every session of the process
	Procs       *Procs        // remembers what commands started; nil forgets it
	Grace       time.Duration // from SIGTERM to SIGKILL; 0 is 2 s
	Interrupt   *Interrupt    // of one call; nil leaves it to the context
	Sandbox     Sandbox       // of what a call starts, and of what it writes itself
	Judged      bool          // permission rules have a say in the calls

	after func(time.Duration) <-chan time.Time // in tests, instead of time.After
}
