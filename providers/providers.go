// Package providers is the contract with models: what a session asks of a
// provider and what it gets back, which model a name means, and what is known
// about the services there are. The rooms below it do the work:
//
//	registry     which models there are, and their keys: auth.json, models.json, environment
//	auth         the owner of auth.json: logins, and how they are renewed
//	cloud        credentials that are no key: of AWS, Google, Microsoft Entra
//	wire         what all wires over HTTP share: conversion, connections, events, errors
//	anthropic, openai, responses, google, bedrock   one wire each
//	scripted     a model that plays a script, without a network
//	catalog      the models that are built in, as data
//	providertest what every wire must pass
//
// A request goes through these hands, in order: the registry fills in address
// and credentials and passes it to the provider of the model's API; that is a
// format of package wire, which converts, encodes, sends, and reads the answer.
//
// # Adding a wire
//
// A wire over HTTP and server-sent events is a wire.Format: Encode, which begins
// with wire.Convert and a wire.Shape, and a wire.Decoder that puts what it reads
// into wire.Parts. Everything between the two is in wire.Client. Its test is a
// providertest.Fixture, which writes the server's side of the wire, a checker of
// the service's rules beside the others in providertest, and the recorded
// streams in its testdata. The tests of hand-overs between models take it up as
// one more side.
package providers

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"troupe/protocol"
)

// Provider speaks one model wire. Implementations are safe for concurrent use.
type Provider interface {
	// Stream asks the model and yields its answer part by part, in the order
	// protocol.Part prescribes. The sequence ends in exactly one of two ways:
	// with a protocol.PartDone, or with a *protocol.StreamError (yielded with a
	// nil part, and nothing after it). A stream that ends without the wire's
	// closing event is an error, never a success.
	//
	// Cancelling ctx, or breaking out of the loop, closes the connection; after
	// a cancel the error has kind ErrorAborted. What is made again here, before a
	// part has been yielded, is in Request.Repeats, but that the registry renews
	// credentials; and no goroutine outlives the sequence.
	Stream(ctx context.Context, req Request) iter.Seq2[protocol.Part, error]
}

// Request is one question to a model.
type Request struct {
	Model       *protocol.Model
	Deployment  string             // what the model is called on the wire; "" is Model.ID
	System      string             // the system prompt
	Messages    []protocol.Message // the context as the session has it; see wire.Convert
	Tools       []protocol.ToolInfo
	Must        string                           // which of Tools has to be called, where the wire has a word for it; "" for none
	Thinking    protocol.ThinkingLevel           // already clamped to the model
	Budgets     map[protocol.ThinkingLevel]int64 // thinking tokens per level, nil for defaults
	MaxTokens   int64                            // of the answer; 0 is the model's maximum
	SessionID   string                           // key of the provider's prompt cache; "" for none
	Cache       CacheRetention
	BlockImages bool   // replace every image by a line of text
	UserID      string // an opaque name of the person, for wires that take one; "" for none
	FullErrors  bool   // name failures in the words of pi 1.x, the whole error object; else in those of pi up to 0.74
	Repeats     Repeats
	Taps        *Taps // nil for none
	Why         Why   // it is made

	Credentials Credentials
	Network     Network
}

// Why says what a request is for.
type Why string

const (
	ForItself Why = ""      // a summary, or what an extension asks
	ForRun    Why = "run"   // the next answer of a session
	ForRetry  Why = "retry" // the same, after a request that failed
)

// CacheRetention says how long a provider should keep the prompt.
type CacheRetention string

const (
	CacheShort CacheRetention = ""     // the provider's usual time
	CacheLong  CacheRetention = "long" // an hour or a day, where offered
	CacheNone  CacheRetention = "none" // do not write the cache
)

// WireModel is the model's name on the wire.
func (r *Request) WireModel() string {
	if r.Deployment != "" {
		return r.Deployment
	}
	return r.Model.ID
}

// Budget is how many tokens the request's thinking level is worth where a wire
// counts them, 0 for no thinking.
func (r *Request) Budget() int64 {
	if n := r.Budgets[r.Thinking]; n > 0 {
		return n
	}
	return defaultBudgets[r.Thinking]
}

// defaultBudgets are in tokens.
var defaultBudgets = map[protocol.ThinkingLevel]int64{
	protocol.ThinkingMinimal: 1024,
	protocol.ThinkingLow:     2048,
	protocol.ThinkingMedium:  8192,
	protocol.ThinkingHigh:    16384,
	protocol.ThinkingXHigh:   16384,
	protocol.ThinkingMax:     32768,
}

// Effort is the provider's word for the request's thinking level: that of the
// endpoint, by level, else the model's own, else the level itself. It is "" for
// off, unless one of them has a word for that, too.
func (r *Request) Effort(words map[string]string) string {
	if word, ok := words[string(r.level())]; ok {
		return word
	}
	if word, ok := r.OwnWord(); ok || r.level() == protocol.ThinkingOff {
		return word
	}
	return string(r.level())
}

// OwnWord is the model's own word for the request's thinking level; ok is false
// if it has none.
func (r *Request) OwnWord() (word string, ok bool) {
	if s := r.Model.ProviderConfig; s != nil {
		if word := s.ThinkingValues[string(r.level())]; word != nil {
			return *word, true
		}
	}
	return "", false
}

// CanBeOff says whether the model takes being told not to think.
func (r *Request) CanBeOff() bool { return r.Model.Clamp(protocol.ThinkingOff) == protocol.ThinkingOff }

// Thinks says whether the model is asked to think.
func (r *Request) Thinks() bool { return r.Model.Reasoning && r.level() != protocol.ThinkingOff }

// Forces is the tool that has to be called, "" for none: models that think refuse to be
// forced on most wires.
func (r *Request) Forces() string {
	if r.Thinks() {
		return ""
	}
	return r.Must
}

func (r *Request) level() protocol.ThinkingLevel {
	if r.Thinking == "" {
		return protocol.ThinkingOff
	}
	return r.Thinking
}

// Compat reads into dst how the model's endpoint departs from its wire. What
// the description does not mention stays as it is in dst; a description that
// does not fit leaves dst alone, the registry has reported it.
func (r *Request) Compat(dst any) {
	if s := r.Model.ProviderConfig; s != nil && len(s.Compat) > 0 {
		_ = json.Unmarshal(s.Compat, dst)
	}
}

// Network is how a session wants its requests to travel. The zero value is the
// environment's proxies and the default limits.
type Network struct {
	Proxy string               // URL of a proxy for every request, as [ProxyBy] takes it
	Stall protocol.StallLimits // replaces [DefaultStall] field by field
}

// Repeats says how a request that failed before its answer began is repeated. Only the log shows these
// repeats, which the official clients of these services make as well. The zero value allows no repeat.
// Failures carry the number of repeats made, so that a session can count them among its own retries,
// which its clients see.
type Repeats struct {
	Max      int           // how often at most
	MaxWait  time.Duration // the request fails if the server asks for a longer wait; 0 is no limit
	MaxQuiet time.Duration // as MaxWait, for a caller that announces longer waits and makes them itself
}
