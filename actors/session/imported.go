package session

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// movedFrom refuses a file whose session is in a cluster: what it has is a copy of the beginning.
func movedFrom(log *store.Log) *protocol.Error {
	op, ok := log.View().Moved()
	if !ok {
		return nil
	}
	err := protocol.CodeSessionMoved.Errorf("Session file belongs to a cluster, as session %s: --fork copies it", op.ID)
	err.Data = map[string]any{"id": op.ID}
	return err
}

// takeIn copies the session of a file into the cluster, notes that in the file, and opens it there. The file
// is one that pi has written, or troupe without the cluster.
func (h *Shared) takeIn(path string, header protocol.Header, how asFile) (*store.Log, *protocol.Error) {
	old, err := store.OpenLog(store.HeldTo(h.fs(), how.allowed), path, h.logOptions())
	if errors.Is(err, store.ErrEmpty) || how.create && errors.Is(err, fs.ErrNotExist) {
		h.warnEmpty(path, err)
		return h.openKept(link.OpenSpec{ID: header.ID, Cwd: header.Cwd, Parent: header.ParentSession}, asKept{bySelf, how.handle})
	}
	if err != nil {
		return nil, openError(path, err)
	}
	defer closeFile(old, h.complaints.log)
	if err := movedFrom(old); err != nil {
		return nil, err
	}
	st, err := old.View().State()
	if err != nil {
		return nil, openError(path, err)
	}
	if len(st.Queue) > 0 && !h.ownFile(path) { // whoever has queued it, the cluster would deliver it
		return nil, protocol.CodeInvalidFile.Errorf("Session file has queued input, and is in none of the user's session directories: %s", path)
	}
	wants := h.Cluster.wants(link.OpenSpec{}.Wants, old.Header().Cwd)
	if cwd := cwdOf(old); !how.elsewhere && wants.Dir == "" { // a refused client must not have moved the session
		if err := outsideRoots(how.allowed, cwd); err != nil {
			return nil, err
		}
	}
	if cwd := old.Header().Cwd; !how.elsewhere && filepath.IsAbs(cwd) {
		if err := checkCwd(cwd); err != nil { // nobody could open it, and the file would be the cluster's
			return nil, err
		}
	}
	id := old.Header().ID
	if store.CheckSessionID(id) != nil {
		id = header.ID
	}
	k := h.keep(id, wants)
	err = old.View().Text(k.Commit)
	k.Close(false)
	if err != nil {
		return nil, keptError(id, err)
	}
	if _, err := old.Append(protocol.MovedEntry(id), time.Now().UnixMilli(), true); err != nil {
		h.complaints.log.Warn().Err(err).Str("file", path).Msg("session file could not be marked as a copy")
	}
	return h.openKept(link.OpenSpec{ID: id, Claim: true}, asKept{bySelf, how.handle})
}

// ownFile says whether a session file is where the user's own are.
func (h *Shared) ownFile(path string) bool {
	own := []string{store.Root(h.AgentDir)}
	if h.SessionDir != "" {
		own = append(own, h.SessionDir)
	}
	return store.Holds(own, path)
}
