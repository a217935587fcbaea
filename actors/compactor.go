package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/providers"
	"troupe/store"
)

// The compactor asks a model for a summary: of older history, which a
// compaction puts in its place, or of the branch that navigate_tree leaves.

// noHistory stands where a summary of earlier turns would.
const noHistory = "No prior history."

// branchPreamble begins the summary of a branch.
const branchPreamble = "The user explored another branch of the conversation and came back from it. Its summary:\n\n"

// emptyBranch is the summary of a branch without content.
const emptyBranch = "The branch had no content."

// startSummary hands a summary to a worker.
func (s *Session) startSummary(c actor.Context, e session.Summarise) {
	base := s.work.newRequest()
	base.Model, base.Thinking, base.Cache = e.Model, e.Level, providers.CacheNone
	reserve, keep := s.work.files.Compaction.For(e.Model.Provider + "/" + e.Model.ID)
	var err error
	k := compactor{models: s.cfg.Models, base: base, reserve: reserve, keep: keep, ask: e, view: s.file.View()}
	if e.Branch != 0 {
		k.target = s.prepared[e.Branch].navigate
		k.reserve = s.work.files.BranchSummary.ReserveTokens
	} else if err = s.buildContext(); err != nil {
		s.next = append(s.next, session.Summarised{Run: e.Run, Err: protocol.ErrorInternal.Errorf("session cannot be read: %s", err)})
		return
	} else {
		k.items, k.tokens = s.context.Items(), s.context.Tokens()
		if e.Redo {
			k.items = withoutAnswer(k.items)
		}
		if k.cut, err = k.cutPoint(); err != nil {
			s.next = append(s.next, k.refused(err))
			return
		}
		s.next = append(s.next, session.SummaryBegun{Run: e.Run})
	}
	root, self := c.ActorSystem().Root, c.Self()
	pid := s.spawn(c, fmt.Sprintf("compactor/%d", e.Run), func() actor.Actor {
		return s.worker(func(ctx context.Context) {
			if out := k.work(ctx); ctx.Err() == nil {
				root.Send(self, out)
			}
		})
	})
	s.track(pid, job{kind: session.WorkerSummary, run: e.Run})
}

// compactor is what a summary is made of.
type compactor struct {
	models        Models
	base          providers.Request
	ask           session.Summarise
	reserve, keep int64 // tokens
	view          store.View
	items         []store.Item // of the context, for a compaction
	cut           store.Cut    // where they are cut
	tokens        int64        // what the context takes
	target        string       // the new leaf, for a branch
}

func (k *compactor) work(ctx context.Context) session.Summarised {
	out := session.Summarised{Run: k.ask.Run}
	var err error
	if k.ask.Branch != 0 {
		out.Branch, err = k.branch(ctx)
	} else {
		err = k.compact(ctx, &out)
	}
	if err == nil {
		return out
	}
	return k.refused(err)
}

// refused says why there is no summary.
func (k *compactor) refused(err error) session.Summarised {
	out := session.Summarised{Run: k.ask.Run}
	var streamErr *protocol.StreamError
	switch {
	case errors.Is(err, store.ErrCompacted):
		out.Refused = protocol.CodeNothingToDo.Errorf("Already compacted")
	case errors.Is(err, store.ErrTooSmall):
		out.Refused = protocol.CodeNothingToDo.Errorf("Nothing to compact (session too small)")
	case errors.As(err, &streamErr):
		out.Err = streamErr
	default:
		out.Err = protocol.ErrorInternal.Errorf("%s", err)
	}
	return out
}

// cutPoint says where the history ends that is to be summarised, or that there
// is none.
func (k *compactor) cutPoint() (store.Cut, error) {
	for last := range k.view.Back() {
		if last.Type == "compaction" {
			return store.Cut{}, store.ErrCompacted
		}
		break
	}
	return store.NewCut(k.items, k.keep)
}

// withoutAnswer leaves out the newest answer of a model.
func withoutAnswer(items []store.Item) []store.Item {
	for i := len(items) - 1; i >= 0; i-- {
		if _, ok := items[i].Message.(*protocol.AssistantMessage); ok {
			return slices.Concat(items[:i], items[i+1:])
		}
	}
	return items
}

func (k *compactor) compact(ctx context.Context, out *session.Summarised) error {
	cut := k.cut
	earlier, err := k.earlierDetails()
	if err != nil {
		return err
	}
	summary, usage, err := k.summaryOf(ctx, cut)
	if err != nil {
		return err
	}
	files := store.FilesOf(append(cut.History, cut.Prefix...), earlier...)
	details, err := json.Marshal(files)
	if err != nil {
		return fmt.Errorf("file lists: %w", err)
	}
	out.Compaction = &protocol.Compaction{
		Summary: summary + fileBlocks(files), FirstKeptEntryID: cut.FirstKept, TokensBefore: k.tokens, Details: details, Usage: usage,
	}
	out.MessageCount = 1 + len(cut.Kept)
	if k.ask.Redo {
		out.MessageCount++
	}
	out.Tokens = protocol.EstimateText(out.Compaction.Summary)
	for _, m := range cut.Kept {
		out.Tokens += protocol.EstimateTokens(m)
	}
	return nil
}

// earlierDetails are the file lists of the compaction that the context begins
// with.
func (k *compactor) earlierDetails() ([]json.RawMessage, error) {
	if len(k.items) == 0 {
		return nil, nil
	}
	if _, ok := k.items[0].Message.(*protocol.CompactionSummaryMessage); !ok {
		return nil, nil
	}
	r, err := k.view.Record(k.items[0].EntryID)
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
func (k *compactor) summaryOf(ctx context.Context, cut store.Cut) (string, *protocol.Usage, error) {
	var total protocol.Usage
	history := noHistory
	if cut.Previous != "" {
		history = cut.Previous
	}
	if len(cut.History) > 0 {
		instruction := summaryInstruction
		if cut.Previous != "" {
			instruction = updateInstruction
		}
		text, usage, err := k.request(ctx, cut.History, cut.Previous, k.focus(instruction), k.reserve*8/10)
		if err != nil {
			return "", nil, err
		}
		history = text
		total = total.Add(usage)
	}
	if len(cut.Prefix) == 0 {
		return history, &total, nil
	}
	text, usage, err := k.request(ctx, cut.Prefix, "", prefixInstruction, k.reserve/2)
	if err != nil {
		return "", nil, err
	}
	total = total.Add(usage)
	return history + "\n\n---\n\n**Turn Context (split turn):**\n\n" + text, &total, nil
}

// focus adds the client's wishes to an instruction, or puts them in its place.
func (k *compactor) focus(instruction string) string {
	switch {
	case k.ask.Instructions == "":
		return instruction
	case k.ask.Replace:
		return k.ask.Instructions
	}
	return instruction + "\n\nAdditional focus: " + k.ask.Instructions
}

// branch summarises what is left by going to the target.
func (k *compactor) branch(ctx context.Context) (*protocol.BranchSummary, error) {
	left, err := k.view.Left(k.target)
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
	b := &protocol.BranchSummary{FromID: k.view.Leaf(), Summary: branchPreamble + emptyBranch}
	if len(messages) == 0 {
		return b, nil
	}
	text, usage, err := k.request(ctx, messages, "", k.focus(branchInstruction), branchSummaryTokens)
	if err != nil {
		return nil, err
	}
	files := store.FilesOf(messages, nested...)
	if b.Details, err = json.Marshal(files); err != nil {
		return nil, fmt.Errorf("file lists: %w", err)
	}
	b.Summary, b.Usage = branchPreamble+text+fileBlocks(files), &usage
	return b, nil
}

// branchSummaryTokens is how long the summary of a branch may be.
const branchSummaryTokens = 2048

// request asks the model once. An answer that is empty or was cut off is no
// summary.
func (k *compactor) request(ctx context.Context, messages []protocol.Message, previous, instruction string, limit int64) (string, protocol.Usage, error) {
	req := k.base
	req.System = summariserRole
	req.MaxTokens = limit
	if most := k.base.Model.MaxTokens; most > 0 {
		req.MaxTokens = min(limit, most)
	}
	room := int64(0)
	if window := k.base.Model.ContextWindow; window > 0 {
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
	thinking := map[int]bool{}
	size, blocks := 0, 0
	for part, err := range k.models.Stream(ctx, req) {
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
			usage = k.base.Model.Price(p.Usage)
		case protocol.PartDone:
			if p.StopReason == protocol.StopLength {
				return "", usage, protocol.ErrorInvalid.Errorf("the summary was cut off by the output limit")
			}
		case protocol.PartStart, protocol.PartBlockEnd:
		}
	}
	summary := strings.TrimSpace(text.String())
	if summary == "" {
		return "", usage, protocol.ErrorInvalid.Errorf("the model gave an empty summary")
	}
	return summary, usage, nil
}

// fileBlocks appends the file lists to a summary, so that the model sees them.
func fileBlocks(f store.FileLists) string {
	var b strings.Builder
	block := func(tag string, paths []string) {
		if len(paths) > 0 {
			fmt.Fprintf(&b, "\n\n<%s>\n%s\n</%s>", tag, strings.Join(paths, "\n"), tag)
		}
	}
	block("read-files", f.ReadFiles)
	block("modified-files", f.ModifiedFiles)
	return b.String()
}
