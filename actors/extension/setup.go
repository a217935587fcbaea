package extension

import (
	"encoding/json"
	"fmt"

	"troupe/protocol"
)

// Replacing is what an extension says about the session that is to take the place of
// its own, beside the command.
type Replacing struct {
	Setup []Setup // entries that a new session begins with
	At    bool    // a fork keeps the entry itself, too
}

// Setup is an entry of a session that does not exist yet. Others of it may name it by
// Ref.
type Setup struct {
	Ref   string
	Entry protocol.Entry
}

// replacing reads the arguments of newSession and fork.
func replacing(name string, raw json.RawMessage) (r Replacing, err error) {
	a, err := read[struct {
		Position string
		Setup    []struct {
			Method string
			Args   []json.RawMessage
		}
	}](raw)
	if err != nil {
		return r, err
	}
	switch a.Position {
	case "", "before":
	case "at":
		r.At = true
	default:
		return r, fmt.Errorf("%s: unknown position %q", name, a.Position)
	}
	for i, w := range a.Setup {
		e, err := setupEntry(w.Method, w.Args)
		if err != nil {
			return r, fmt.Errorf("%s: setup: %s: %w", name, w.Method, err)
		}
		r.Setup = append(r.Setup, Setup{fmt.Sprintf("setup-%d", i+1), e})
	}
	return r, nil
}

// setupEntry is what a method of the session manager of setup appends.
func setupEntry(method string, args []json.RawMessage) (protocol.Entry, error) {
	var err error
	arg := func(into ...any) { // in their order
		for i, v := range into {
			if i < len(args) && err == nil && string(args[i]) != "null" {
				err = json.Unmarshal(args[i], v)
			}
		}
	}
	raw := func(i int) json.RawMessage {
		if i < len(args) && string(args[i]) != "null" {
			return args[i]
		}
		return nil
	}
	switch method {
	case "appendMessage":
		if raw(0) == nil {
			return nil, fmt.Errorf("no message")
		}
		m, err := protocol.DecodeExactMessage(raw(0))
		return protocol.MessageEntry{Message: m}, err
	case "appendCustomEntry":
		e := protocol.Custom{Data: raw(1)}
		arg(&e.CustomType)
		return e, err
	case "appendCustomMessageEntry":
		e := protocol.CustomMessageEntry{Content: protocol.Content{}, Display: true, Details: raw(3)}
		arg(&e.CustomType, &e.Content, &e.Display)
		return e, err
	case "appendThinkingLevelChange":
		var e protocol.ThinkingLevelChange
		arg(&e.ThinkingLevel)
		return e, err
	case "appendModelChange":
		var e protocol.ModelChange
		arg(&e.Provider, &e.ModelID)
		return e, err
	case "appendSessionInfo":
		var e protocol.SessionInfo
		arg(&e.Name)
		return e, err
	case "appendLabelChange":
		var e protocol.Label
		arg(&e.TargetID, &e.Label)
		return e, err
	case "appendCompaction":
		e := protocol.Compaction{Details: raw(3), FromHook: true}
		arg(&e.Summary, &e.FirstKeptEntryID, &e.TokensBefore)
		return e, err
	default:
		return nil, fmt.Errorf("not available in this host")
	}
}
