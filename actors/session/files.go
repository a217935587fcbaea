package session

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/kernel"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
	"troupe/tools/git"
)

// askFiles answers what a connection asks about files and no session, off the actor's
// goroutine.
func (s *sessions) askFiles(c actor.Context, m link.AskFiles) {
	answer := link.FilesAnswer{Seq: m.Seq}
	if cmd, deletes := m.Cmd.(protocol.DeleteSession); deletes && s.hasOpen(cmd.SessionPath) {
		answer.Err = protocol.CodeSessionInUse.Errorf("Session file is in use: %s", cmd.SessionPath)
		c.Send(m.From, answer)
		return
	}
	shared, root := s.shared, c.ActorSystem().Root
	kernel.Go(root, c.Self(), func() {
		defer func() {
			if reason := recover(); reason != nil {
				answer.Data, answer.Err = nil, protocol.CodeInternal.Errorf("Internal error").CutOff(protocol.SpecOf(m.Cmd), true)
			}
			root.Send(m.From, answer)
		}()
		data, err := shared.answerFiles(m)
		answer.Data, answer.Err = found(data, err)
	})
}

// hasOpen says whether a session file, or that of one of its children, is open here.
func (s *sessions) hasOpen(path string) bool {
	below := strings.TrimSuffix(path, ".jsonl") + string(filepath.Separator)
	for _, e := range s.table {
		if file := e.info.SessionFile; file != nil && (*file == path || strings.HasPrefix(*file, below)) {
			return true
		}
	}
	return false
}

func (h *Shared) answerFiles(m link.AskFiles) (protocol.Result, error) {
	if m.Session != "" {
		return h.readKept(m.Session, m.Cmd, m.Rules)
	}
	switch cmd := m.Cmd.(type) {
	case protocol.ListSessions:
		q := h.filesQuery(m, cmd)
		return h.listPage(q, cmd, m.Allowed)
	case protocol.DeleteSession:
		return h.deleteSession(cmd.SessionPath)
	case protocol.ListDirectories:
		return listDirectories(cmp.Or(cmd.Path, m.Spec.Cwd), cmd, m.Allowed)
	case protocol.GetCluster:
		return h.clusterInfo()
	case protocol.AdoptSession:
		return h.adopt(cmd)
	}
	return nil, protocol.CodeUnsupported.Errorf("no such question about files: %T", m.Cmd)
}

// filesQuery is what list_sessions means where it is about no session: the sessions of every
// project, or those of the directory in which the client's own would begin.
func (h *Shared) filesQuery(m link.AskFiles, cmd protocol.ListSessions) store.Query {
	if cmd.Under != "" {
		return store.Query{Dir: strings.TrimSuffix(cmd.Under, ".jsonl")}
	}
	dir, common := SessionDir(h, m.Rules, m.Spec.Cwd)
	switch {
	case cmd.Scope == "cwd" && cmd.SessionDir != "":
		return store.Query{Dir: cmd.SessionDir, Cwd: m.Spec.Cwd}
	case cmd.Scope == "cwd":
		return store.Query{Dir: dir, Cwd: m.Spec.Cwd}
	case cmd.SessionDir != "":
		return store.Query{Dir: cmd.SessionDir}
	case common:
		return store.Query{Dir: dir}
	}
	return store.Query{Dir: store.Root(h.AgentDir), All: true}
}

// listPage lists the sessions of a query as far as a client wants them. allowed says where the client may look.
func (h *Shared) listPage(q store.Query, cmd protocol.ListSessions, allowed func(string) bool) (protocol.Result, error) {
	if cmd.Under != "" && cmd.Scope+cmd.SessionDir != "" {
		return nil, protocol.CodeInvalidParams.Errorf("under excludes scope and sessionDir")
	}
	var all []protocol.SessionSummary
	var err error
	if h.Cluster != nil && h.Cluster.Engine != nil && cmd.Under+cmd.SessionDir == "" {
		var unread error
		if all, unread, err = h.Cluster.summaries(q.Cwd); unread != nil {
			h.complaints.log.Warn().Err(unread).Msg("logs of sessions were not read: a list may lack their newest entries")
		}
	} else if allowed != nil && cmd.Under+cmd.SessionDir != "" {
		all, err = store.NewLister(store.HeldTo(h.fs(), allowed)).List(q)
	} else {
		all, err = h.onDisk.lister().List(q)
	}
	if err != nil {
		return nil, err
	}
	page := store.Page{Words: cmd.Query, Limit: cmd.Limit, Cursor: cmd.Cursor, Textless: cmd.WithText != nil && !*cmd.WithText}
	list, next, ok := page.Of(all)
	if !ok {
		return nil, protocol.CodeInvalidParams.Errorf("The cursor is not from list_sessions")
	}
	return protocol.SessionList{Sessions: list, NextCursor: next}.Long(), nil
}

// deleteSession moves a file to the trash. What is a session of nobody's directory of
// sessions is somebody's file.
func (h *Shared) deleteSession(path string) (protocol.Result, error) {
	path = filepath.Clean(path)
	if h.Cluster.idOf(path) != "" {
		return nil, protocol.CodeUnsupported.Errorf("A session of a cluster cannot be deleted: its log is in the engine, and %s is a copy", path)
	}
	roots := []string{store.Root(h.AgentDir)}
	if h.SessionDir != "" {
		roots = append(roots, h.SessionDir)
	}
	i := slices.IndexFunc(roots, func(root string) bool { return strings.HasPrefix(path, root+string(filepath.Separator)) })
	if i < 0 || !filepath.IsAbs(path) {
		return nil, protocol.CodeInvalidParams.Errorf("Not a session in a directory of sessions: %s", path)
	}
	to, err := store.Trash(h.fs(), roots[i], path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, protocol.CodeNotFound.Errorf("Session file not found: %s", path)
	case errors.Is(err, store.ErrInUse):
		return nil, protocol.CodeSessionInUse.Errorf("Session file is in use: %s%s", path, holder(path))
	case errors.Is(err, store.ErrNotSession):
		return nil, protocol.CodeInvalidFile.Errorf("Session file is not a valid pi session: %s", path)
	case err != nil:
		return nil, protocol.CodeIO.Errorf("Session file cannot be moved: %s", err)
	}
	return protocol.DeletedSession{TrashPath: to}, nil
}

// maxDirectories is how many names list_directories shows.
const maxDirectories = 1000

// listDirectories shows the directories in a directory, and its files if they are wanted.
// allowed says where the client may look; nil is everywhere.
func listDirectories(path string, cmd protocol.ListDirectories, allowed func(string) bool) (protocol.Result, error) {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) {
		return nil, protocol.CodeInvalidParams.Errorf("Not an absolute path: %s", path)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, protocol.CodeNotFound.Errorf("Directory not found: %s", path)
	}
	if err != nil {
		return nil, protocol.CodeIO.Errorf("Directory cannot be read: %s", err)
	}
	list := protocol.DirectoryList{Path: path, Directories: []string{}, Branch: git.Branch(path, allowed)}
	if up := filepath.Dir(path); up != path && (allowed == nil || allowed(up)) {
		list.Parent = &up
	}
	query := strings.ToLower(cmd.Query)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(query, ".") || !strings.Contains(strings.ToLower(name), query) {
			continue
		}
		to := &list.Directories
		switch kind := kindOf(path, e, allowed); {
		case kind.IsRegular() && cmd.Files:
			to = &list.Files
		case !kind.IsDir():
			continue
		}
		if len(list.Directories)+len(list.Files) == maxDirectories {
			list.HasMore = true
			break
		}
		*to = append(*to, name)
	}
	return list, nil
}

// kindOf is what an entry is, or leads to where the client may look.
func kindOf(path string, e fs.DirEntry, allowed func(string) bool) fs.FileMode {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type()
	}
	name := filepath.Join(path, e.Name())
	if st, err := os.Stat(name); err == nil && (allowed == nil || allowed(name)) {
		return st.Mode().Type()
	}
	return e.Type()
}
