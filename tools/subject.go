package tools

import (
	"encoding/json"
	"path/filepath"

	"github.com/aymanbagabas/go-udiff"

	"troupe/tools/policy"
)

// Subject is a call as permission rules judge it.
func (r *Registry) Subject(name string, args json.RawMessage, env *Env) policy.Call {
	call := policy.Call{Tool: name}
	t, fit, err := r.Accept(name, args)
	if err != nil {
		return call // it will be refused
	}
	var a struct {
		Path, Command string
		Unsandboxed   bool
	}
	if json.Unmarshal(fit, &a) != nil {
		return call
	}
	switch t.(type) {
	case bash:
		call.Kind, call.Command, call.Shell = policy.Command, a.Command, env.Shell
		call.Unbound = a.Unsandboxed && env.Sandbox.On()
		if path, err := env.findShell(); err == nil {
			call.Shell = filepath.Base(path)
		}
	case edit:
		call.Kind, call.Paths = policy.Edit, []string{env.resolveExisting(a.Path)}
	case write:
		call.Kind, call.Paths = policy.Edit, []string{env.ResolvePath(a.Path)}
	case read:
		call.Kind, call.Paths = policy.Read, []string{env.resolveExisting(a.Path)}
	case grep, find, ls:
		call.Kind, call.Paths = policy.Read, []string{env.resolveExisting(a.Path)}
	}
	return call
}

// maxPreview bounds a diff that is shown before a call.
const maxPreview = 64 << 10

// Preview is what a call would change in a file as it is, as a unified diff; "" if it
// changes none, would fail, or the diff is too long. Nothing is written.
func (r *Registry) Preview(name string, args json.RawMessage, env *Env) string {
	t, fit, err := r.Accept(name, args)
	if err != nil {
		return ""
	}
	var path, old, changed string
	switch t.(type) {
	case edit:
		a, err := decodeArgs[editArgs](fit)
		if err != nil {
			return ""
		}
		path = a.Path
		file, err := readTextFile(env.resolveExisting(a.Path))
		if err != nil {
			return ""
		}
		edited, err := file.apply(a.Edits)
		if err != nil {
			return ""
		}
		old, changed = file.text, edited.text
	case write:
		a, err := decodeArgs[writeArgs](fit)
		if err != nil {
			return ""
		}
		path, changed = a.Path, a.Content
		if file, err := readTextFile(env.ResolvePath(a.Path)); err == nil {
			old = file.text
		}
	default:
		return ""
	}
	diff := udiff.Unified(path, path, old, changed)
	if len(diff) > maxPreview {
		return ""
	}
	return diff
}
