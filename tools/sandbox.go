package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// Sandbox is what the kernel keeps programs from, whatever they try. The zero value keeps
// them from nothing. What may be read is not limited.
type Sandbox struct {
	Files     SandboxFiles
	NoNetwork bool   // no sockets of any kind, those in the file system included
	Workspace string // an absolute directory, for SandboxWorkspace

	// places identifies the directories that may be written, see [Sandbox.Open]; "" until then. It is
	// a string so that sandboxes can be compared.
	places string
}

// SandboxFiles is where programs may write.
type SandboxFiles string

// From the loosest to the strictest.
const (
	SandboxOff       SandboxFiles = ""          // everywhere
	SandboxWorkspace SandboxFiles = "workspace" // in the workspace, and in directories for temporary files
	SandboxReadOnly  SandboxFiles = "readonly"  // nowhere
)

var sandboxOrder = []SandboxFiles{SandboxOff, SandboxWorkspace, SandboxReadOnly}

// ParseSandbox reads what people write: off, workspace or readonly.
func ParseSandbox(word string) (SandboxFiles, error) {
	if word == "off" {
		return SandboxOff, nil
	}
	if f := SandboxFiles(word); f != SandboxOff && slices.Contains(sandboxOrder, f) {
		return f, nil
	}
	return "", fmt.Errorf("want off, workspace or readonly, not %q", word)
}

// StricterSandbox is the stricter of two.
func StricterSandbox(a, b SandboxFiles) SandboxFiles {
	if slices.Index(sandboxOrder, b) > slices.Index(sandboxOrder, a) {
		return b
	}
	return a
}

// On says whether it keeps programs from anything.
func (s Sandbox) On() bool { return s.Files != SandboxOff || s.NoNetwork }

// sandboxWords describe it as details of a result.
type sandboxWords struct {
	Files   string `json:"files"`
	Network string `json:"network"`
}

func (s Sandbox) words() *sandboxWords {
	if !s.On() {
		return nil
	}
	w := &sandboxWords{Files: cmp.Or(string(s.Files), "off"), Network: "on"}
	if s.NoNetwork {
		w.Network = "off"
	}
	return w
}

// notice is what a model is told where something failed in a sandbox, which may be why.
func (s Sandbox) notice() string {
	var limits []string
	switch s.Files {
	case SandboxOff:
	case SandboxWorkspace:
		limits = append(limits, "writes are possible only in "+s.Workspace+" and in directories for temporary files")
	case SandboxReadOnly:
		limits = append(limits, "nothing can be written")
	}
	if s.NoNetwork {
		limits = append(limits, "there is no network")
	}
	return "This runs in a sandbox: " + strings.Join(limits, "; ") + "."
}

// SandboxError says why a sandbox cannot be had. Nothing was started.
type SandboxError struct{ cause error }

func (e *SandboxError) Error() string { return "the sandbox cannot be had: " + e.cause.Error() }

func (e *SandboxError) Unwrap() error { return e.cause }

// SandboxedError is the error of a call that the sandbox may have made fail. It says so
// to the model, and in details of the result to clients.
type SandboxedError struct {
	cause   error
	sandbox Sandbox
}

func (e *SandboxedError) Error() string { return e.cause.Error() + "\n\n" + e.sandbox.notice() }

func (e *SandboxedError) Unwrap() error { return e.cause }

// Details are those of the result.
func (e *SandboxedError) Details() json.RawMessage {
	return details(struct {
		Sandbox *sandboxWords `json:"sandbox"`
	}{e.sandbox.words()})
}

// explain is the error of a write that failed, where the sandbox may be why.
func (s Sandbox) explain(err error) error {
	var none *SandboxError
	if !s.On() || errors.As(err, &none) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	return &SandboxedError{err, s}
}
