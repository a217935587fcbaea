package session

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/core"
	"troupe/actors/link"
	"troupe/protocol"
	"troupe/store"
)

// answer answers a command from the log, the resources or the tools. What it
// shows is true now, also if the answer has to wait.
func (s *Session) answer(c actor.Context, e core.Query) {
	view := s.file.View()
	find := func() (protocol.Result, *protocol.Error) {
		data, err := found(s.find(view, e))
		s.suspect(err)
		return data, err
	}
	if !protocol.TraitsOf(e.Cmd).Is(protocol.Large) {
		data, err := find()
		s.replyInTurn(c, e.Seq, data, err)
		return
	}
	s.inTurn(c, s.clients.replies.asker(e.Seq), func(c actor.Context) {
		data, err := find()
		s.reply(e.Seq, data, err)
		c.Send(c.Parent(), largeAnswer{})
	})
}

// found is what a query found, or why it did not: an error that says nothing else
// is a failure to read the session.
func found(data protocol.Result, err error) (protocol.Result, *protocol.Error) {
	var known *protocol.Error
	switch {
	case err == nil:
		return data, nil
	case errors.As(err, &known):
		return nil, known
	}
	return nil, protocol.CodeIO.Errorf("Session cannot be read: %s", err)
}

func (s *Session) find(view store.View, e core.Query) (protocol.Result, error) {
	switch cmd := e.Cmd.(type) {
	case protocol.GetSessionStats:
		return s.stats(view)
	case protocol.GetEntries:
		list, err := entries(view, cmd)
		return s.withRefs(s.clients.replies.asker(e.Seq), list).Long(), err
	case protocol.Bash: // again: its record has the answer
		b, err := view.Bash(cmd.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		return b.Result(), nil
	case protocol.GetContextUsage:
		usage, _, err := s.contextUsage(view)
		return usage, err
	case protocol.GetCommands:
		return s.commands(), nil
	case protocol.GetSubagents:
		return s.subagents().Long(), nil
	case protocol.GetTools:
		return s.toolList(), nil
	default:
		return inLog(view, e.Cmd, s.rules)
	}
}

// inLog answers what the log of a session knows by itself.
func inLog(view store.View, cmd protocol.Command, rules protocol.Rules) (protocol.Result, error) {
	switch cmd := cmd.(type) {
	case protocol.GetMessages:
		return messages(view)
	case protocol.GetSessionStats:
		return view.Stats(rules.CountRetried)
	case protocol.GetLastAssistantText:
		text, err := view.LastAssistantText(rules.LastWithText)
		return protocol.TextResult{Text: text}, err
	case protocol.GetForkMessages:
		list, err := view.ForkMessages(!rules.ForkFromBranch)
		return protocol.ForkMessages{Messages: list}, err
	case protocol.GetSessionTree:
		tree, err := view.Tree()
		return tree.Long(), err
	case protocol.GetTree:
		return view.WholeTree()
	case protocol.GetEntries:
		list, err := entries(view, cmd)
		return list.Long(), err
	case protocol.GetImage:
		return image(view, cmd)
	}
	return nil, protocol.CodeUnsupported.Errorf("%T is not supported by this version", cmd)
}

// pageOf are the entries that are asked for, from the beginning or from the end.
func pageOf(view store.View, cmd protocol.GetEntries) (list []json.RawMessage, more bool, err error) {
	limit, bytes := cmp.Or(cmd.Limit, snapshotEntries), cmp.Or(cmd.MaxBytes, snapshotBytes)
	switch {
	case cmd.Before != "" && cmd.Since != "":
		return nil, false, protocol.CodeInvalidParams.Errorf("since and before exclude each other")
	case cmd.Before == "" && cmd.MaxBytes > 0:
		return nil, false, protocol.CodeInvalidParams.Errorf("maxBytes needs before")
	case cmd.Before == "":
		return view.Entries(cmd.Since, cmd.Limit)
	case cmd.Before == "end":
		return view.Newest(limit, bytes)
	}
	return view.Before(cmd.Before, limit, bytes)
}

func entries(view store.View, cmd protocol.GetEntries) (protocol.EntryList, error) {
	list, more, err := pageOf(view, cmd)
	if errors.Is(err, store.ErrNoEntry) {
		return protocol.EntryList{}, protocol.CodeNotFound.Errorf("Entry not found: %s", cmp.Or(cmd.Before, cmd.Since))
	}
	return protocol.EntryList{Entries: list, LeafID: view.LeafID(), HasMore: more}, err
}

// withRefs is the list as a client wants its pictures.
func (s *Session) withRefs(to link.Client, list protocol.EntryList) protocol.EntryList {
	if to.Wire != nil && to.Wire.Has(protocol.FeatureImageRefs) {
		for i, entry := range list.Entries {
			list.Entries[i] = store.ImageRefs(entry, s.handle+"/")
		}
	}
	return list
}

func image(view store.View, cmd protocol.GetImage) (protocol.Result, error) {
	mimeType, data, err := view.Image(cmd.EntryID, cmd.Index)
	if errors.Is(err, store.ErrNoEntry) {
		return nil, protocol.CodeNotFound.Errorf("Image not found: %s, %d", cmd.EntryID, cmd.Index)
	}
	return protocol.ImageData{MimeType: mimeType, Data: data}, err
}

// stats are the counts of the session and how full the model's window is.
func (s *Session) stats(view store.View) (protocol.SessionStats, error) {
	stats, err := view.Stats(s.rules.CountRetried)
	if err != nil {
		return stats, err
	}
	s.addChildren(&stats)
	usage, known, err := s.contextUsage(view)
	if err != nil || usage.Usage == nil {
		return stats, err
	}
	stats.ContextUsage = &protocol.WindowUsage{ContextWindow: usage.Usage.ContextWindow}
	if known {
		stats.ContextUsage.Tokens, stats.ContextUsage.Percent = &usage.Usage.Tokens, &usage.Usage.Percent
	}
	return stats, nil
}

// contextUsage returns how full the window is, and whether that is more than an estimate of what a compaction has left.
// It returns nothing without a model that has a window. The context is not loaded for it: only requests need that.
func (s *Session) contextUsage(view store.View) (of protocol.ContextUsageResult, known bool, err error) {
	m := s.m.Model()
	switch {
	case m == nil || m.ContextWindow <= 0:
		return of, false, nil
	case s.context != nil:
		of.Usage, known = new(s.context.Usage(m.ContextWindow)), s.context.Known()
		return of, known, nil
	}
	usage, known, err := view.Usage(m.ContextWindow)
	if err != nil {
		return of, false, err
	}
	of.Usage = &usage
	return of, known, nil
}

func (s *Session) toolList() protocol.ToolList {
	list := protocol.ToolList{ActiveToolNames: s.m.ActiveTools(), AllTools: s.box().Infos()}
	if list.ActiveToolNames == nil {
		list.ActiveToolNames = []string{}
	}
	return list
}

// messages is the context, as clients see it: a long conversation is never one
// piece of text in memory.
func messages(view store.View) (protocol.Result, error) {
	list, err := view.Messages()
	if err != nil {
		return nil, err
	}
	return protocol.NewMessages(list), nil
}

// buildContext reads the branch as a model sees it, unless it is at hand.
func (s *Session) buildContext() (err error) {
	if s.context == nil {
		s.context, err = s.file.View().Context()
	}
	return err
}
