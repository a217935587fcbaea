package store

import (
	"encoding/json"
	"errors"
	"slices"

	"troupe/protocol"
)

// Refusals of [NewCut].
var (
	// ErrCompacted: nothing came since the last compaction.
	ErrCompacted = errors.New("already compacted")
	// ErrTooSmall: everything there is has to stay.
	ErrTooSmall = errors.New("nothing to compact")
)

// Cut says what a compaction summarises and what it keeps.
type Cut struct {
	// History are the messages to summarise, oldest first, whole turns only.
	History []protocol.Message
	// Prefix is the beginning of a turn whose end is kept; it is summarised for
	// itself. Empty if the cut falls between two turns.
	Prefix []protocol.Message
	// Previous is the summary of the last compaction, to be brought up to date.
	Previous string
	// FirstKept is the entry that the kept part begins with, and Kept its
	// messages.
	FirstKept string
	Kept      []protocol.Message
}

// NewCut finds where to cut a context: its end keeps about keepRecent tokens.
// The cut falls before a message that may begin a context: never before a tool
// result, which would lose its call.
func NewCut(items []Item, keepRecent int64) (Cut, error) {
	var c Cut
	if len(items) == 0 {
		return c, ErrTooSmall
	}
	if s, ok := items[0].Message.(*protocol.CompactionSummaryMessage); ok {
		c.Previous = s.Summary
		if items = items[1:]; len(items) == 0 {
			return c, ErrCompacted
		}
	}
	at := cutPoint(items, keepRecent)
	start := at
	if !beginsTurn(items[at].Message) {
		for start > 0 && !beginsTurn(items[start].Message) {
			start--
		}
		if !beginsTurn(items[start].Message) {
			start = at
		}
	}
	c.History, c.Prefix = messagesOf(items[:start]), messagesOf(items[start:at])
	c.FirstKept, c.Kept = items[at].EntryID, messagesOf(items[at:])
	if len(c.History) == 0 && len(c.Prefix) == 0 {
		return c, ErrTooSmall
	}
	return c, nil
}

// cutPoint walks back until enough is kept and takes the first possible cut
// from there on; where there is none, the last one before.
func cutPoint(items []Item, keepRecent int64) int {
	var kept int64
	for i, item := range slices.Backward(items) {
		kept += protocol.EstimateTokens(item.Message)
		if kept < keepRecent {
			continue
		}
		for at := i; at < len(items); at++ {
			if mayBegin(items[at].Message) {
				return at
			}
		}
		for at := i; at > 0; at-- {
			if mayBegin(items[at].Message) {
				return at
			}
		}
		break
	}
	return 0
}

// mayBegin says whether the kept part may begin with a message.
func mayBegin(m protocol.Message) bool {
	switch m.(type) {
	case *protocol.ToolResultMessage, *protocol.UnknownMessage, *protocol.CompactionSummaryMessage:
		return false
	case *protocol.UserMessage, *protocol.AssistantMessage, *protocol.BashExecutionMessage, *protocol.CustomMessage,
		*protocol.BranchSummaryMessage:
	}
	return true
}

// beginsTurn says whether a message asks for an answer.
func beginsTurn(m protocol.Message) bool {
	switch m.(type) {
	case *protocol.UserMessage, *protocol.BashExecutionMessage, *protocol.CustomMessage, *protocol.BranchSummaryMessage:
		return true
	case *protocol.AssistantMessage, *protocol.ToolResultMessage, *protocol.CompactionSummaryMessage, *protocol.UnknownMessage:
	}
	return false
}

func messagesOf(items []Item) []protocol.Message {
	var list []protocol.Message
	for _, item := range items {
		list = append(list, item.Message)
	}
	return list
}

// FileLists are the files that a part of a conversation has touched, as the
// model wrote their paths: the details of a compaction and of a branch summary.
type FileLists struct {
	ReadFiles     []string `json:"readFiles"`
	ModifiedFiles []string `json:"modifiedFiles"`
}

// FilesOf collects the files of messages' tool calls, by what each tool does with
// files, and those of earlier summaries: details that FileLists made. What was
// written is not listed as read.
func FilesOf(messages []protocol.Message, use func(tool string) protocol.FileUse, earlier ...json.RawMessage) FileLists {
	read, modified := map[string]bool{}, map[string]bool{}
	for _, details := range earlier {
		var old FileLists
		if json.Unmarshal(details, &old) != nil {
			continue
		}
		add(read, old.ReadFiles...)
		add(modified, old.ModifiedFiles...)
	}
	for _, m := range messages {
		a, ok := m.(*protocol.AssistantMessage)
		if !ok {
			continue
		}
		for _, call := range a.Content.ToolCalls() {
			var args struct {
				Path string `json:"path"`
			}
			if json.Unmarshal(call.Arguments, &args) != nil || args.Path == "" {
				continue
			}
			switch use(call.Name) {
			case protocol.ReadsFile:
				add(read, args.Path)
			case protocol.WritesFile:
				add(modified, args.Path)
			case protocol.NoFile:
			}
		}
	}
	lists := FileLists{ReadFiles: []string{}, ModifiedFiles: []string{}}
	for path := range modified {
		delete(read, path)
		lists.ModifiedFiles = append(lists.ModifiedFiles, path)
	}
	for path := range read {
		lists.ReadFiles = append(lists.ReadFiles, path)
	}
	slices.Sort(lists.ReadFiles)
	slices.Sort(lists.ModifiedFiles)
	return lists
}

func add(set map[string]bool, paths ...string) {
	for _, p := range paths {
		set[p] = true
	}
}

// Left is what navigation from one leaf to another leaves behind: the records
// from the old leaf back to the common ancestor, oldest first.
func (v View) Left(target string) ([]protocol.Record, error) {
	to, err := v.At(target)
	if err != nil {
		return nil, err
	}
	shared := map[string]bool{}
	for _, ref := range to.Branch() {
		shared[ref.ID] = true
	}
	var left []protocol.Record
	for _, ref := range v.Branch() {
		if shared[ref.ID] {
			continue
		}
		r, err := v.Record(ref.ID)
		if err != nil {
			return nil, err
		}
		left = append(left, r)
	}
	return left, nil
}
