package session

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/store"
	"troupe/store/export"
	"troupe/tools"
)

// search captures what a slow query needs at this moment. allowed is that of [link.Request].
func (s *Session) search(cmd protocol.Command, allowed func(path string) bool) func() (protocol.Result, error) {
	switch cmd := cmd.(type) {
	case protocol.ListSessions:
		shared, q := s.shared, s.listQuery(cmd)
		return func() (protocol.Result, error) {
			return shared.listPage(q, cmd, allowed)
		}
	case protocol.GetSubagentMessages:
		fs := s.shared.fs()
		file, err := s.m.SubagentFile(cmd.SubagentID, cmd.SessionFile)
		if err == nil && !slices.ContainsFunc(s.subagents().Subagents, func(a protocol.Subagent) bool { return a.SessionFile == file }) {
			err = protocol.CodeNotFound.Errorf("Session file is not on this node: %s", file)
		}
		return func() (protocol.Result, error) {
			if err != nil {
				return nil, err
			}
			part, err := store.ReadPart(fs, file, int64(max(0, cmd.FromByte)), protocol.MaxSubagentPart)
			if err != nil {
				return nil, err
			}
			return part.Long(), nil
		}
	case protocol.ExportHTML:
		x := exporter{
			shared: s.shared, work: s.work, view: s.file.View(), name: s.m.Name(), tools: s.box().Select(s.m.ActiveTools()), output: cmd.OutputPath,
			allowed: s.mayWrite(allowed),
		}
		return x.export
	default:
		return func() (protocol.Result, error) {
			return nil, protocol.CodeUnsupported.Errorf("no slow query for %T", cmd)
		}
	}
}

// listQuery: children of a session, or sessions of the working directory, in its directory or in the one
// that the client names, or those of every project.
func (s *Session) listQuery(cmd protocol.ListSessions) store.Query {
	if cmd.Under != "" {
		return store.Query{Dir: strings.TrimSuffix(s.work.resolve(cmd.Under), ".jsonl")}
	}
	if cmd.Scope == "all" {
		if s.work.logs.shared {
			return store.Query{Dir: s.work.logs.path}
		}
		return store.Query{Dir: store.Root(s.shared.AgentDir), All: true}
	}
	if cmd.SessionDir != "" {
		return store.Query{Dir: s.work.resolve(cmd.SessionDir), Cwd: s.work.cwd}
	}
	return store.Query{Dir: s.work.logs.path, Cwd: s.work.cwd}
}

// exporter writes a session as one HTML file.
type exporter struct {
	shared *Shared
	work   *workspace
	view   store.View
	name   string
	tools  []protocol.ToolInfo
	output string // as the client wrote it; "" for a name in the working directory

	allowed func(path string) bool // which files the client may write; nil for all
}

func (x *exporter) export() (protocol.Result, error) {
	switch {
	case x.view.Path() == "":
		return nil, protocol.CodeInvalidParams.Errorf("Cannot export in-memory session to HTML")
	case !hasMessage(x.view):
		return nil, protocol.CodeInvalidParams.Errorf("Nothing to export yet - start a conversation first")
	}
	name := x.output
	if name == "" {
		name = "pi-session-" + strings.TrimSuffix(filepath.Base(x.view.Path()), ".jsonl") + ".html"
	}
	page, err := Page(x.view, export.Document{
		Name: x.name, SystemPrompt: x.work.prompts.get().system(x.tools), Tools: x.tools, Generator: "troupe " + x.shared.Version,
	})
	if err == nil {
		err = x.write(x.work.resolve(name), page)
	}
	if err != nil {
		return nil, protocol.CodeIO.Errorf("%s", err)
	}
	return protocol.PathResult{Path: name}, nil
}

// write writes the page. A client that is held to directories cannot have a link lead it elsewhere, whenever
// that is put in the way. A name that the client has not chosen is in the working directory.
func (x *exporter) write(path string, page []byte) error {
	if x.allowed == nil {
		return WriteOutput(path, page)
	}
	allowed := x.allowed
	if x.output == "" {
		cwd, err := filepath.EvalSymlinks(x.work.cwd)
		if err != nil {
			return outputError(path, err)
		}
		allowed = func(path string) bool { return filepath.Dir(path) == cwd }
	}
	dir, name, err := bounded.Within(path, allowed)
	if err != nil {
		return outputError(path, err)
	}
	defer dir.Close()
	if err = checkOutput(store.HeldTo(store.OS{}, allowed), path); err == nil {
		err = tools.ReplaceIn(dir, name, page, 0o600)
	}
	return outputError(path, err)
}

// mayWrite limits what a client may name to what it may write: keys, tokens and settings are in the agent directory.
func (s *Session) mayWrite(allowed func(path string) bool) func(path string) bool {
	if allowed == nil {
		return nil
	}
	agent := []string{s.shared.AgentDir}
	return func(path string) bool {
		return allowed(path) && !store.Holds(agent, path) && !store.Holds(agent, filepath.Dir(path))
	}
}

// hasMessage says whether anything was said in a session.
func hasMessage(view store.View) bool {
	return slices.ContainsFunc(view.Refs(), func(ref store.Ref) bool { return ref.Type == "message" })
}

// WriteOutput writes a file that somebody has named, or leaves what is there as
// it is: what is no regular file, and what is a session, which is the only copy
// of a conversation.
func WriteOutput(path string, content []byte) error {
	err := checkOutput(store.OS{}, path)
	if err == nil {
		err = tools.ReplaceFile(path, content, 0o600)
	}
	return outputError(path, err)
}

// checkOutput refuses to overwrite a session.
func checkOutput(fsys store.FS, path string) error {
	is, err := store.IsSession(fsys, path)
	if err == nil && is {
		err = errors.New("a session file is not overwritten")
	}
	return err
}

func outputError(path string, err error) error {
	if cause, is := errors.AsType[*fs.PathError](err); is { // its path may be that of a file beside
		err = cause.Err
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// Page renders a session as one HTML document; doc gives what the session file
// does not say.
func Page(view store.View, doc export.Document) ([]byte, error) {
	entries, _, err := view.Entries("", 0)
	if err != nil {
		return nil, err
	}
	doc.Header, doc.Entries, doc.Leaf, doc.Exported = view.Header(), entries, view.Leaf(), time.Now()
	var page bytes.Buffer
	if err := export.Write(&page, doc); err != nil {
		return nil, err
	}
	return page.Bytes(), nil
}
