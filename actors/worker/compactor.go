package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
)

// The compactor asks a model for a summary: of older history, which a
// compaction puts in its place, or of the branch that navigate_tree leaves.

const (
	noHistory      = "No prior history." // stands where a summary of earlier turns would
	branchPreamble = "The user explored another branch of the conversation and came back from it. Its summary:\n\n"
	emptyBranch    = "The branch had no content."
)

// Compactor makes one summary.
type Compactor struct {
	Models        Streamer
	Base          providers.Request
	Ask           core.Summarise
	Reserve, Keep int64 // tokens
	View          store.View
	Files         func(tool string) protocol.FileUse
	Items         []store.Item // of the context, for a compaction
	Cut           store.Cut    // where they are cut
	Tokens        int64        // what the context takes
	Target        string       // the new leaf, for a branch
	// Before is asked before a model is, about a compaction. It may give one, or say
	// why there is to be none. Nil asks nobody.
	Before func(context.Context, *Compactor) (*protocol.Compaction, *protocol.Error)
}

// Job asks for the summary.
func (k *Compactor) Job(ctx context.Context, tell func(any)) {
	ctx = withLoginWait(ctx, k.Ask.Attempt, tell)
	out := core.Summarised{Attempt: k.Ask.Attempt}
	var err error
	switch {
	case k.Ask.Branch != 0:
		out.Branch, err = k.branch(ctx)
	case k.Before != nil:
		if out.Compaction, out.Refused = k.Before(ctx, k); out.Compaction == nil && out.Refused == nil {
			err = k.compact(ctx, &out)
		} else if out.Compaction != nil {
			err = k.take(&out)
		}
	default:
		err = k.compact(ctx, &out)
	}
	if err != nil {
		out = k.Refused(err)
	}
	if ctx.Err() == nil {
		tell(out)
	}
}

// Refused says why there is no summary.
func (k *Compactor) Refused(err error) core.Summarised {
	out := core.Summarised{Attempt: k.Ask.Attempt}
	switch {
	case errors.Is(err, store.ErrCompacted):
		out.Refused = protocol.CodeNothingToDo.Errorf("Already compacted")
	case errors.Is(err, store.ErrTooSmall):
		out.Refused = protocol.CodeNothingToDo.Errorf("Nothing to compact (session too small)")
	default:
		out.Err = streamError(err)
	}
	return out
}

// CutPoint says where the history ends that is to be summarised, or that there
// is none.
func (k *Compactor) CutPoint() (store.Cut, error) {
	for last := range k.View.Back() {
		if last.Type == "compaction" {
			return store.Cut{}, store.ErrCompacted
		}
		break
	}
	return store.NewCut(k.Items, k.Keep)
}

// WithoutAnswer leaves out the newest answer of a model.
func WithoutAnswer(items []store.Item) []store.Item {
	for i := len(items) - 1; i >= 0; i-- {
		if _, ok := items[i].Message.(*protocol.AssistantMessage); ok {
			return slices.Concat(items[:i], items[i+1:])
		}
	}
	return items
}

func (k *Compactor) compact(ctx context.Context, out *core.Summarised) error {
	earlier, err := k.earlierDetails()
	if err != nil {
		return err
	}
	c := &protocol.Compaction{FirstKeptEntryID: k.Cut.FirstKept, TokensBefore: k.Tokens}
	if c.Summary, c.Usage, err = k.summaryOf(ctx, k.Cut); err != nil {
		return err
	}
	if c.Details, err = k.addFiles(&c.Summary, slices.Concat(k.Cut.History, k.Cut.Prefix), earlier); err != nil {
		return err
	}
	out.Compaction = c
	out.Size.Keep(&protocol.CompactionSummaryMessage{Summary: c.Summary})
	for _, m := range k.Cut.Kept {
		out.Size.Keep(m)
	}
	if k.Ask.Redo {
		out.Size.Messages++
	}
	return nil
}

// take counts what a compaction leaves that somebody else has made.
func (k *Compactor) take(out *core.Summarised) error {
	first := slices.IndexFunc(k.Items, func(i store.Item) bool { return i.EntryID == out.Compaction.FirstKeptEntryID })
	if first < 0 {
		return protocol.ErrorInvalid.Errorf("firstKeptEntryId %s is not in the context", out.Compaction.FirstKeptEntryID)
	}
	out.Size.Keep(&protocol.CompactionSummaryMessage{Summary: out.Compaction.Summary})
	for _, i := range k.Items[first:] {
		out.Size.Keep(i.Message)
	}
	if k.Ask.Redo {
		out.Size.Messages++
	}
	return nil
}

// FilesOf are the files that messages have read and changed.
func (k *Compactor) FilesOf(messages []protocol.Message) store.FileLists {
	return store.FilesOf(messages, k.Files)
}

// earlierDetails are the file lists of the compaction with which the context
// begins, if it does.
func (k *Compactor) earlierDetails() ([]json.RawMessage, error) {
	if len(k.Items) == 0 {
		return nil, nil
	}
	r, err := k.View.Record(k.Items[0].EntryID)
	if err != nil {
		return nil, err
	}
	if e, ok := r.Entry.(protocol.Compaction); ok && !e.FromHook && len(e.Details) > 0 {
		return []json.RawMessage{e.Details}, nil
	}
	return nil, nil
}

// summaryOf asks for the history's summary and, where the cut splits a turn,
// for one of the turn's beginning.
func (k *Compactor) summaryOf(ctx context.Context, cut store.Cut) (string, *protocol.Usage, error) {
	var total protocol.Usage
	history, instruction := noHistory, summaryInstruction
	if cut.Previous != "" {
		history, instruction = cut.Previous, updateInstruction
	}
	if len(cut.History) > 0 {
		text, usage, err := k.request(ctx, cut.History, cut.Previous, k.focus(instruction), k.Reserve*8/10)
		if err != nil {
			return "", nil, err
		}
		history, total = text, usage
	}
	if len(cut.Prefix) == 0 {
		return history, &total, nil
	}
	text, usage, err := k.request(ctx, cut.Prefix, "", prefixInstruction, k.Reserve/2)
	if err != nil {
		return "", nil, err
	}
	total = total.Add(usage)
	return history + "\n\n---\n\n**Turn Context (split turn):**\n\n" + text, &total, nil
}

// focus adds the client's wishes to an instruction, or puts them in its place.
func (k *Compactor) focus(instruction string) string {
	switch {
	case k.Ask.Instructions == "":
		return instruction
	case k.Ask.Replace:
		return k.Ask.Instructions
	}
	return instruction + "\n\nAdditional focus: " + k.Ask.Instructions
}

// branch summarises what is left by going to the target.
func (k *Compactor) branch(ctx context.Context) (*protocol.BranchSummary, error) {
	left, err := k.View.Left(k.Target)
	if err != nil {
		return nil, err
	}
	var messages []protocol.Message
	var nested []json.RawMessage
	for _, r := range left {
		switch e := r.Entry.(type) {
		case protocol.MessageEntry:
			messages = append(messages, e.Message)
		case protocol.BranchSummary:
			messages = append(messages, &protocol.BranchSummaryMessage{Summary: e.Summary})
			if !e.FromHook && len(e.Details) > 0 {
				nested = append(nested, e.Details)
			}
		case protocol.Compaction:
			messages = append(messages, &protocol.CompactionSummaryMessage{Summary: e.Summary})
		case protocol.CustomMessageEntry:
			messages = append(messages, &protocol.CustomMessage{CustomType: e.CustomType, Content: e.Content})
		default: // says nothing
		}
	}
	b := &protocol.BranchSummary{FromID: k.View.Leaf(), Summary: branchPreamble + emptyBranch}
	if len(messages) == 0 {
		return b, nil
	}
	text, usage, err := k.request(ctx, messages, "", k.focus(branchInstruction), branchSummaryTokens)
	if err != nil {
		return nil, err
	}
	b.Summary, b.Usage = branchPreamble+text, &usage
	b.Details, err = k.addFiles(&b.Summary, messages, nested)
	return b, err
}

// branchSummaryTokens is how long the summary of a branch may be.
const branchSummaryTokens = 2048

// request asks the model once. An answer that is empty or was cut off is no
// summary.
func (k *Compactor) request(ctx context.Context, messages []protocol.Message, previous, instruction string, limit int64) (string, protocol.Usage, error) {
	req := k.Base
	req.System = summariserRole
	req.MaxTokens = limit
	if most := k.Base.Model.MaxTokens; most > 0 {
		req.MaxTokens = min(limit, most)
	}
	room := int64(0) // for the transcript, in tokens; 0 for no limit
	if window := k.Base.Model.ContextWindow; window > 0 {
		room = max(window-req.MaxTokens-protocol.EstimateText(previous+instruction)-1000, window/4)
	}
	var prompt strings.Builder
	fmt.Fprintf(&prompt, "<conversation>\n%s\n</conversation>\n\n", transcript(messages, room))
	if previous != "" {
		fmt.Fprintf(&prompt, "<previous-summary>\n%s\n</previous-summary>\n\n", previous)
	}
	prompt.WriteString(instruction)
	req.Messages = []protocol.Message{protocol.Seal(&protocol.UserMessage{Content: protocol.TextContent(prompt.String())})}
	var text strings.Builder
	var usage protocol.Usage
	model := k.Base.Model
	thinking := map[int]bool{}
	size, blocks := 0, 0
	for part, err := range k.Models.Stream(ctx, req) {
		if err != nil {
			return "", usage, err
		}
		switch p := part.(type) {
		case protocol.PartBlockStart:
			if blocks++; blocks > protocol.MaxBlocks {
				return "", usage, protocol.ErrorInvalid.Errorf("the summary was stopped: it has more than %d blocks", protocol.MaxBlocks)
			}
			thinking[p.Index] = p.Kind != protocol.BlockText
		case protocol.PartDelta:
			if size += len(p.Delta); size > protocol.MaxAnswer {
				return "", usage, protocol.ErrorInvalid.Errorf("the summary was stopped: it is longer than %d MiB", protocol.MaxAnswer>>20)
			}
			if !thinking[p.Index] {
				text.WriteString(p.Delta)
			}
		case protocol.PartUsage:
			usage = model.Price(p.Usage)
		case protocol.PartDone:
			if p.StopReason == protocol.StopLength {
				return "", usage, protocol.ErrorInvalid.Errorf("the summary was cut off by the output limit")
			}
		case protocol.PartStart:
			if p.Model != nil {
				model = p.Model
			}
		case protocol.PartBlockEnd:
		}
	}
	summary := strings.TrimSpace(text.String())
	if summary == "" {
		return "", usage, protocol.ErrorInvalid.Errorf("the model gave an empty summary")
	}
	return summary, usage, nil
}

// addFiles appends to a summary which files its messages have touched, so that the
// model sees them, and returns the lists as the entry keeps them.
func (k *Compactor) addFiles(summary *string, messages []protocol.Message, earlier []json.RawMessage) (json.RawMessage, error) {
	lists := store.FilesOf(messages, k.Files, earlier...)
	for _, list := range []struct {
		tag   string
		paths []string
	}{{"read-files", lists.ReadFiles}, {"modified-files", lists.ModifiedFiles}} {
		if len(list.paths) > 0 {
			*summary += fmt.Sprintf("\n\n<%s>\n%s\n</%s>", list.tag, strings.Join(list.paths, "\n"), list.tag)
		}
	}
	details, err := json.Marshal(lists)
	if err != nil {
		return nil, fmt.Errorf("file lists: %w", err)
	}
	return details, nil
}
