//go:build !linux

package tools

import "errors"

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
