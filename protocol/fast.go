package protocol

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// The three kinds of messages that sessions consist of are read without
// reflection. Whatever is not just as troupe or pi writes it makes the fast
// reader give up, and the ordinary one decides: the two never disagree.

// fastMessage reads a message; false means that it is for the ordinary reader.
// The texts of the message are parts of raw.
func fastMessage(role, raw string) (Message, bool) {
	if strings.Contains(raw, `\u`) { // lone surrogates and the like
		return nil, false
	}
	r := fastReader{ok: true}
	v := gjson.Parse(raw)
	var m Message
	switch role {
	case RoleUser:
		m = r.user(v)
	case RoleAssistant:
		m = r.assistant(v)
	case RoleToolResult:
		m = r.toolResult(v)
	default:
		return nil, false
	}
	return m, r.ok
}

// fastReader remembers that something was not as expected.
type fastReader struct{ ok bool }

func (r *fastReader) str(v gjson.Result) string {
	r.ok = r.ok && v.Type == gjson.String
	return v.Str
}

func (r *fastReader) int(v gjson.Result) int64 {
	n := int64(0)
	digits := v.Raw
	r.ok = r.ok && v.Type == gjson.Number && digits != "" && len(digits) < 18
	for i := 0; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' {
			r.ok = false
			return 0
		}
		n = n*10 + int64(digits[i]-'0')
	}
	return n
}

func (r *fastReader) float(v gjson.Result) float64 {
	r.ok = r.ok && v.Type == gjson.Number
	return v.Num
}

func (r *fastReader) bool(v gjson.Result) bool {
	r.ok = r.ok && v.IsBool()
	return v.Type == gjson.True
}

// each reads the members of an object. A name that differs from a known one
// only in case counts for the ordinary reader, so it is not for this one.
func (r *fastReader) each(v gjson.Result, known []string, member func(name string, v gjson.Result)) {
	if !v.IsObject() {
		r.ok = false
		return
	}
	v.ForEach(func(key, value gjson.Result) bool {
		for _, k := range known {
			if k != key.Str && strings.EqualFold(k, key.Str) {
				r.ok = false
			}
		}
		member(key.Str, value)
		return r.ok
	})
}

var (
	userMembers      = []string{"content", "timestamp", "attachments"}
	assistantMembers = []string{
		"content", "api", "provider", "model", "usage", "stopReason", "timestamp", "errorMessage", "responseId",
	}
	toolResultMembers = []string{"toolCallId", "toolName", "content", "details", "isError", "timestamp"}
	usageMembers      = []string{"input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"}
	costMembers       = []string{"input", "output", "cacheRead", "cacheWrite", "total"}
)

func (r *fastReader) user(v gjson.Result) *UserMessage {
	m := new(UserMessage)
	r.each(v, userMembers, func(name string, v gjson.Result) {
		switch name {
		case "content":
			m.Content = r.content(v)
		case "attachments":
			m.Attachments = json.RawMessage(v.Raw)
		case "timestamp":
			m.Timestamp = r.int(v)
		}
	})
	return m
}

func (r *fastReader) assistant(v gjson.Result) *AssistantMessage {
	m := new(AssistantMessage)
	r.each(v, assistantMembers, func(name string, v gjson.Result) {
		switch name {
		case "content":
			m.Content = r.content(v)
		case "api":
			m.API = r.str(v)
		case "provider":
			m.Provider = r.str(v)
		case "model":
			m.Model = r.str(v)
		case "usage":
			m.Usage = r.usage(v)
		case "stopReason":
			m.StopReason = StopReason(r.str(v))
		case "timestamp":
			m.Timestamp = r.int(v)
		case "errorMessage":
			m.ErrorMessage = r.str(v)
		case "responseId":
			m.ResponseID = r.str(v)
		}
	})
	return m
}

func (r *fastReader) toolResult(v gjson.Result) *ToolResultMessage {
	m := new(ToolResultMessage)
	r.each(v, toolResultMembers, func(name string, v gjson.Result) {
		switch name {
		case "toolCallId":
			m.ToolCallID = r.str(v)
		case "toolName":
			m.ToolName = r.str(v)
		case "content":
			m.Content = r.content(v)
		case "details":
			m.Details = json.RawMessage(v.Raw)
		case "isError":
			m.IsError = r.bool(v)
		case "timestamp":
			m.Timestamp = r.int(v)
		}
	})
	return m
}

func (r *fastReader) usage(v gjson.Result) (u Usage) {
	r.each(v, usageMembers, func(name string, v gjson.Result) {
		switch name {
		case "input":
			u.Input = r.int(v)
		case "output":
			u.Output = r.int(v)
		case "cacheRead":
			u.CacheRead = r.int(v)
		case "cacheWrite":
			u.CacheWrite = r.int(v)
		case "totalTokens":
			u.TotalTokens = r.int(v)
		case "cost":
			u.Cost = r.cost(v)
		}
	})
	return u
}

func (r *fastReader) cost(v gjson.Result) (c Cost) {
	r.each(v, costMembers, func(name string, v gjson.Result) {
		switch name {
		case "input":
			c.Input = r.float(v)
		case "output":
			c.Output = r.float(v)
		case "cacheRead":
			c.CacheRead = r.float(v)
		case "cacheWrite":
			c.CacheWrite = r.float(v)
		case "total":
			c.Total = r.float(v)
		}
	})
	return c
}

// content reads blocks; those that are rare go to the ordinary reader.
func (r *fastReader) content(v gjson.Result) Content {
	if v.Type == gjson.String {
		return Content{Text{Text: v.Str}}
	}
	if !v.IsArray() {
		r.ok = false
		return nil
	}
	list := Content{}
	v.ForEach(func(_, item gjson.Result) bool {
		b, ok := r.block(item)
		if !ok && r.ok {
			var err error
			if b, err = decodeBlock(item); err != nil {
				r.ok = false
			}
		}
		list = append(list, b)
		return r.ok
	})
	return list
}

var (
	textMembers     = []string{"text", "textSignature"}
	thinkingMembers = []string{"thinking", "thinkingSignature", "redacted"}
)

func (r *fastReader) block(v gjson.Result) (Block, bool) {
	if !v.IsObject() {
		r.ok = false
		return nil, false
	}
	switch v.Get("type").Str {
	case "text":
		var b Text
		r.each(v, textMembers, func(name string, v gjson.Result) {
			switch name {
			case "text":
				b.Text = r.str(v)
			case "textSignature":
				b.Signature = r.str(v)
			}
		})
		return b, true
	case "thinking":
		var b Thinking
		r.each(v, thinkingMembers, func(name string, v gjson.Result) {
			switch name {
			case "thinking":
				b.Thinking = r.str(v)
			case "thinkingSignature":
				b.Signature = r.str(v)
			case "redacted":
				b.Redacted = r.bool(v)
			}
		})
		return b, true
	}
	return nil, false
}
