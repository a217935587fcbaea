package history

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
)

// Work is what there was beside the sessions: what the user has, and where tasks worked for it.
type Work struct {
	// Before and After are the user's files by path relative to his directory, his repository without
	// what a merge into a branch changes among them, before the first life and behind the last one. He
	// himself has changed nothing meanwhile, and no task was at work there.
	Before, After map[string]string
	// There says whether a path exists at the end.
	There func(path string) bool
}

// works are T13 to T15: of the user's files only those are changed that a merge has announced, of a
// merge all or nothing, and what a task has done in a workspace is not thrown away.
func works(w *Work, files map[string][]byte) (found []string) {
	announced := map[string]bool{}
	for path, content := range files {
		list, _, _ := entries(content)
		for _, m := range mergesOf(list) {
			for _, p := range m.paths {
				announced[p] = announced[p] || m.done
			}
			found = append(found, w.whole(path, m)...)
		}
		found = append(found, w.kept(files, list)...)
	}
	paths := maps.Clone(w.Before)
	maps.Copy(paths, w.After)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if w.changed(p) && !announced[p] {
			found = append(found, "T13: no merge has announced a change of "+p)
		}
	}
	return found
}

func (w *Work) changed(path string) bool {
	was, had := w.Before[path]
	is, has := w.After[path]
	return had != has || was != is
}

// merge is one that a log has announced.
type merge struct {
	id    string
	paths []string
	done  bool
}

// mergesOf are the merges of a log. One that was cut is done if the result of its call says so.
func mergesOf(list []gjson.Result) (all []*merge) {
	open := map[string]*merge{} // by call and id
	for _, e := range list {
		data := e.Get("data")
		switch key := data.Get("call").Str + " " + data.Get("id").Str; data.Get("op").Str {
		case "merge":
			open[key] = &merge{id: data.Get("id").Str}
			for _, p := range data.Get("paths").Array() {
				open[key].paths = append(open[key].paths, p.Str)
			}
			all = append(all, open[key])
		case "merged":
			if m := open[key]; m != nil {
				m.done = true
			}
		}
		for _, r := range e.Get("message.details.results").Array() {
			if m := open[e.Get("message.toolCallId").Str+" "+r.Get("id").Str]; m != nil {
				m.done = m.done || r.Get("merged").Bool()
			}
		}
	}
	return all
}

// whole is T14. Each path of a merge differs from what was there before.
func (w *Work) whole(path string, m *merge) (found []string) {
	for _, p := range m.paths {
		if w.changed(p) != m.done {
			found = append(found, fmt.Sprintf("T14: %s: the merge of %s is done: %t, and %s is changed: %t", path, m.id, m.done, p, w.changed(p)))
		}
	}
	return found
}

// kept is T15, for children that have changed something if they have called a tool.
func (w *Work) kept(files map[string][]byte, list []gjson.Result) (found []string) {
	safe := map[string]bool{}
	for _, m := range mergesOf(list) {
		safe[m.id] = m.done
	}
	for _, e := range list {
		for _, r := range e.Get("message.details.results").Array() {
			id := r.Get("id").Str
			safe[id] = safe[id] || r.Get("verification.onFailure").Str == "discard_patch" || w.There(r.Get("patchPath").Str)
		}
	}
	for _, e := range list {
		data := e.Get("data")
		id, file := data.Get("id").Str, data.Get("file").Str
		if data.Get("op").Str != "start" || data.Get("workspace").Str == "" || safe[id] || !bytes.Contains(files[file], []byte(`"role":"toolResult"`)) {
			continue
		}
		if patch := file[:max(0, len(file)-len(".jsonl"))] + ".patch"; !w.There(data.Get("workspace").Str) && !w.There(patch) {
			found = append(found, fmt.Sprintf("T15: nothing is left of what child %s has done", id))
		}
	}
	return found
}
