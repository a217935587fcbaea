package extension

import (
	"encoding/json"
	"fmt"
	"time"
	"troupe/protocol"
	words "troupe/protocol/extension"
)

func (v *vm) rebind(spec words.Spec) {
	spec.Entries, spec.Argv, spec.AgentDir = v.spec.Entries, v.spec.Argv, v.spec.AgentDir
	v.spec = spec
	switch {
	case !v.ready: // what is being loaded is for this session already
	case v.ended, !v.started: // there is nothing to end
		v.left()
	default:
		v.shutdown(leaving, spec.Reason, spec.SessionFile)
	}
}

// shutdown tells the end of a session, as a call: its end is gone on with.
func (v *vm) shutdown(id uint64, reason, target string) {
	event := map[string]string{"type": "session_shutdown", "reason": reason}
	if target != "" {
		event["targetSessionFile"] = target
	}
	v.open(callKey{"call", id}, "session_shutdown")
	v.dispatch("hook", float64(id), string(protocol.JSON(event)))
}

// left goes on when the handlers of the session that is left are through.
func (v *vm) left() {
	r := v.realm
	v.ready, v.started, v.ended, r.loading, r.again = false, false, false, 0, true
	v.dispatch("rebind", v.spec.Cwd)
	v.loadNext()
}

func (v *vm) shut(reason string) {
	if !v.started || v.ended {
		v.end("")
		return
	}
	v.shutdown(closing, reason, "")
}

// snapshot is what handlers read, with what the VM knows itself.
func (v *vm) snapshot() string {
	own := protocol.JSON(struct {
		Cwd         string            `json:"cwd"`
		Flags       map[string]string `json:"flags,omitempty"`
		SessionFile string            `json:"sessionFile,omitempty"`
	}{v.spec.Cwd, v.spec.Flags, v.spec.SessionFile})
	return string(merged(own, v.spec.Snapshot))
}

// loadNext loads one extension after another.
func (v *vm) loadNext() {
	r := v.realm
	if r.loading >= len(v.spec.Entries) {
		v.bound()
		return
	}
	e, index := v.spec.Entries[r.loading], r.loading
	if r.again {
		v.limitLoad(e, index)
		v.dispatch("again", float64(index), e.Path)
		return
	}
	code := r.codes[index]
	if code.err != nil {
		v.loaded(index, code.err.Error(), "")
		return
	}
	r.maps[code.entry.Path] = code.entry.Map
	v.limitLoad(e, index)
	r.engine.load(index, e, code.entry)
}

// limitLoad bounds the time in which an entry is loaded.
func (v *vm) limitLoad(e words.Entry, index int) {
	r := v.realm
	r.loads = time.AfterFunc(v.host.o.Limits.Load, func() {
		v.post(r, func() {
			if r.loading == index && !v.ready {
				v.dispatch("drop", e.Path)
				v.loaded(index, fmt.Sprintf("not loaded within %v", v.host.o.Limits.Load), "")
			}
		})
	})
}

// loaded is the end of one extension's loading.
func (v *vm) loaded(index int, message, stack string) {
	r := v.realm
	if index != r.loading || v.ready {
		return
	}
	if r.loads != nil {
		r.loads.Stop()
	}
	if message != "" {
		path := v.spec.Entries[index].Path
		r.errors = append(r.errors, words.LoadError{Path: path, Message: message, Stack: v.stack(stack), Gates: v.host.gates(path)})
	}
	r.loading++
	v.post(r, v.loadNext)
}

// bound is the end of loading.
func (v *vm) bound() {
	v.dispatch("bound", v.snapshot())
}

// update replaces the parts of the snapshot that have changed, which extensions may read at any time.
func (v *vm) update(snapshot json.RawMessage) {
	v.spec.Snapshot = merged(v.spec.Snapshot, snapshot)
	v.dispatch("snap", string(snapshot))
}

// sessionStart tells session_start, and makes the calls that have waited for it. A word that is about an
// earlier loading has no effect.
func (v *vm) sessionStart(w words.Start) {
	if !v.ready || v.started || w.N != v.loadings {
		return
	}
	v.started = true
	if len(w.Snapshot) > 0 {
		v.update(w.Snapshot)
	}
	event := protocol.JSON(struct {
		Type     string `json:"type"`
		Reason   string `json:"reason"`
		Previous string `json:"previousSessionFile,omitempty"`
	}{"session_start", v.spec.Reason, v.spec.Previous})
	v.open(callKey{"tell", 0}, "session_start")
	v.dispatch("tell", float64(0), string(event))
	v.release()
}
