//go:build !linux

package tools

import (
	"errors"
	"os"
	"path/filepath"
)

// Check says why this machine cannot provide a sandbox; nil if it can.
func (s Sandbox) Check() error {
	if s.On() {
		return &SandboxError{errors.New("there is one on Linux only")}
	}
	return nil
}

// Do runs f if there is nothing to keep it from.
func (s Sandbox) Do(f func() error) error {
	if err := s.Check(); err != nil {
		return err
	}
	return f()
}

// Open returns no sandbox: this system has no support for one.
func (s Sandbox) Open(Sandbox) Sandbox { return s }

// In returns the sandbox for another workspace.
func (s Sandbox) In(workspace string) Sandbox {
	s.Workspace = workspace
	return s
}

// Only returns the sandbox.
func (s Sandbox) Only(...string) Sandbox { return s }

// Same reports whether a path still leads to the directory that the sandbox knows by it.
func (s Sandbox) Same(string) bool { return true }

// Places returns nothing: there are no identities.
func (s Sandbox) Places() string { return "" }

// With returns the sandbox.
func (s Sandbox) With(string) Sandbox { return s }

func (s Sandbox) createLog(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
