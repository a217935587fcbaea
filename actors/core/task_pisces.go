package core

import (
	"cmp"
	"fmt"
	"strings"

	"troupe/protocol"
)

// inPisces gives the result of an item what those of pisces have and ours have otherwise.
func (it *item) inPisces(r *protocol.TaskResult) {
	if it.opened.ID == "" {
		r.ModelOverride = nil
		return
	}
	r.Stderr, r.Extracted = r.Error, it.extracted()
	if r.NestedPatches == nil && it.work.captured != nil && r.PatchPath == it.work.patch {
		r.NestedPatches = []string{}
	}
}

// extracted is what the calls of a child have come to that pisces keeps; nil for nothing.
func (it *item) extracted() *protocol.ToolData {
	d := protocol.ToolData{Tasks: it.activity.Tasks}
	if s := it.handed; s != nil && s.Unfit == "" {
		one := protocol.SubmittedData{Data: s.Data, Status: "success"}
		if s.Error != "" {
			one = protocol.SubmittedData{Status: "aborted", Error: s.Error}
		}
		d.Submitted = append(d.Submitted, one)
	}
	if d.Submitted == nil && d.Tasks == nil {
		return nil
	}
	return &d
}

// progressInPisces is the same for what clients are shown of an item. On which model it will
// run is shown before it begins.
func (m *Machine) progressInPisces(it *item, p *protocol.TaskProgress) {
	p.Extracted = it.extracted()
	if it.override != nil {
		return
	}
	switch model := cmp.Or(m.set.Tasks.Models[it.agent.Name], it.want.Model); {
	case model != "":
		p.ModelOverride = []string{model}
	case len(it.agent.Models) > 0:
		p.ModelOverride = it.agent.Models
	default:
		p.ModelOverride = []string{m.model.Provider + "/" + m.model.ID}
	}
}

// maxShown is how many bytes an update has of what may be left out of it.
const maxShown = 96 << 10

// fitUpdate leaves out of an update what makes it too long: what tools have come to, then the
// output of what has ended, then of what is older.
func fitUpdate(list []protocol.TaskProgress) {
	over := -maxShown
	output := func(p *protocol.TaskProgress) (n int) {
		for _, line := range p.RecentOutput {
			n += protocol.EscapedSize(line)
		}
		return n
	}
	extracted := func(p *protocol.TaskProgress) int {
		if p.Extracted == nil {
			return 0
		}
		return protocol.SizeOf(p.Extracted)
	}
	for i := range list {
		over += extracted(&list[i]) + output(&list[i])
	}
	for _, leaveOut := range []func(p *protocol.TaskProgress){
		func(p *protocol.TaskProgress) { over -= extracted(p); p.Extracted = nil },
		func(p *protocol.TaskProgress) {
			if p.Status != protocol.TaskPending && p.Status != protocol.TaskRunning {
				over -= output(p)
				p.RecentOutput = []string{}
			}
		},
		func(p *protocol.TaskProgress) { over -= output(p); p.RecentOutput = []string{} },
	} {
		for i := 0; i < len(list) && over > 0; i++ {
			leaveOut(&list[i])
		}
	}
}

// mergeSummary says what has become of what isolated items changed; "" if there was
// none.
func mergeSummary(results []protocol.TaskResult) string {
	isolated, whole := false, true
	var merged, branches, patches []string
	for i := range results {
		r := &results[i]
		if r.Merged == nil {
			continue
		}
		isolated = true
		switch {
		case *r.Merged && r.BranchName != "":
			merged = append(merged, r.BranchName)
		case *r.Merged, r.ExitCode == 0 && r.PatchPath == "":
		case r.BranchName != "":
			branches = append(branches, "- "+r.BranchName+"\n")
		default:
			whole = false
			if r.PatchPath != "" {
				patches = append(patches, "- "+r.PatchPath+"\n")
			}
		}
	}
	text := ""
	switch {
	case !isolated:
		return ""
	case len(merged) == 1:
		text = "Merged 1 branch: " + merged[0] + "\n"
	case len(merged) > 1:
		text = fmt.Sprintf("Merged %d branches: %s\n", len(merged), strings.Join(merged, ", "))
	case whole && len(branches) == 0:
		text = "Applied patches: yes\n"
	}
	if len(branches) > 0 {
		text += "<system-notification>Branches were not merged and must be handled manually.</system-notification>\n\nBranches:\n" + strings.Join(branches, "")
	}
	if !whole {
		text += "<system-notification>Patches were not applied and must be handled manually.</system-notification>\n"
	}
	if len(patches) > 0 {
		text += "\nPatch artifacts:\n" + strings.Join(patches, "")
	}
	return "\n<merge-summary>\n" + text + "</merge-summary>\n"
}
