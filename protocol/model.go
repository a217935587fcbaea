package protocol

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Model describes a model that can be selected. It never carries credentials.
type Model struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	API            string          `json:"api"`      // the wire it speaks: anthropic-messages, openai-completions, …
	Provider       string          `json:"provider"` // who serves it
	BaseURL        string          `json:"baseUrl"`
	Reasoning      bool            `json:"reasoning"`     // can think
	Input          []string        `json:"input"`         // "text", "image"
	Cost           ModelCost       `json:"cost"`          // US dollars per million tokens
	ContextWindow  int64           `json:"contextWindow"` // tokens
	MaxTokens      int64           `json:"maxTokens"`     // tokens of one answer
	ProviderConfig *ProviderConfig `json:"-"`             // what only a provider needs to know; nil for defaults
	// Missing: nobody knows the model. It has a place because a session was led
	// with it and waits for it, rather than go on with another.
	Missing bool `json:"-"`
}

// VirtualAPI is the wire of models that answer nothing themselves: for each request an
// extension says which model does.
const VirtualAPI = "pi-virtual"

// MissingModel takes the place of a model that nobody knows. It has every
// thinking level, so that the session's is there when the model is.
func MissingModel(provider, id string) *Model {
	return &Model{
		ID: id, Name: id, Provider: provider, Reasoning: true, Input: []string{"text"}, Missing: true,
		ProviderConfig: &ProviderConfig{ThinkingLevels: ThinkingLevels[5:]},
	}
}

// ProviderConfig is the part of a model's description that stays inside the
// daemon: it may hold secrets (headers) and is read by providers only.
type ProviderConfig struct {
	Headers        map[string]string  // already resolved, or $NAME / !command still to be resolved by the provider registry
	Compat         json.RawMessage    // models.json "compat": how the endpoint departs from its wire's reference
	ThinkingLevels []ThinkingLevel    // levels beyond the usual ones, or nil
	ThinkingValues map[string]*string // models.json thinkingLevelMap: level → the provider's own word; nil value = level unsupported
	Tiers          []CostTier         // prices for long requests, by rising threshold
	Stall          StallLimits        // overrides of the stall limits; zero fields keep the defaults
}

// CostTier replaces a model's prices for a request with more input tokens than
// InputAbove (cached ones counted).
type CostTier struct {
	InputAbove int64 `json:"inputTokensAbove"`
	ModelCost
}

// StallLimits bound how long a stream may be silent, in milliseconds. Zero
// keeps the default, a negative value switches a limit off.
type StallLimits struct {
	ConnectMs int64 `json:"connectMs,omitempty"`
	FirstMs   int64 `json:"firstMs,omitempty"`
	ContentMs int64 `json:"contentMs,omitempty"`
}

// With returns the limits with the fields that over sets.
func (l StallLimits) With(over StallLimits) StallLimits {
	return StallLimits{
		ConnectMs: cmp.Or(over.ConnectMs, l.ConnectMs),
		FirstMs:   cmp.Or(over.FirstMs, l.FirstMs),
		ContentMs: cmp.Or(over.ContentMs, l.ContentMs),
	}
}

// ModelCost is a price list in US dollars per million tokens.
type ModelCost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

// Accepts says whether the model takes input of a kind ("text", "image").
func (m *Model) Accepts(kind string) bool { return slices.Contains(m.Input, kind) }

// Price returns u with its total and its cost filled in from the model's
// price list.
func (m *Model) Price(u Usage) Usage {
	u.TotalTokens = cmp.Or(u.TotalTokens, u.Input+u.Output+u.CacheRead+u.CacheWrite)
	price := m.Cost
	if m.ProviderConfig != nil {
		for _, tier := range m.ProviderConfig.Tiers {
			if u.Input+u.CacheRead+u.CacheWrite > tier.InputAbove {
				price = tier.ModelCost
			}
		}
	}
	const perMillion = 1_000_000
	c := &u.Cost
	c.Input = price.Input / perMillion * float64(u.Input)
	c.Output = price.Output / perMillion * float64(u.Output)
	c.CacheRead = price.CacheRead / perMillion * float64(u.CacheRead)
	c.CacheWrite = price.CacheWrite / perMillion * float64(u.CacheWrite)
	c.Total = c.Input + c.Output + c.CacheRead + c.CacheWrite
	return u
}

// ThinkingLevel is how much a model is asked to think.
type ThinkingLevel string

const (
	ThinkingOff     ThinkingLevel = "off"
	ThinkingMinimal ThinkingLevel = "minimal"
	ThinkingLow     ThinkingLevel = "low"
	ThinkingMedium  ThinkingLevel = "medium"
	ThinkingHigh    ThinkingLevel = "high"
	ThinkingXHigh   ThinkingLevel = "xhigh"
	ThinkingMax     ThinkingLevel = "max"
)

// ThinkingLevels lists every level, least first.
var ThinkingLevels = []ThinkingLevel{
	ThinkingOff, ThinkingMinimal, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh, ThinkingMax,
}

// Valid says whether l is one of the known levels.
func (l ThinkingLevel) Valid() bool { return slices.Contains(ThinkingLevels, l) }

// Levels lists the thinking levels the model supports, least first; a model
// that cannot think, and a missing one, supports only off.
func (m *Model) Levels() []ThinkingLevel {
	if m == nil || !m.Reasoning {
		return ThinkingLevels[:1]
	}
	levels := slices.Clone(ThinkingLevels[:5])
	if m.ProviderConfig == nil {
		return levels
	}
	levels = append(levels, m.ProviderConfig.ThinkingLevels...)
	return slices.DeleteFunc(levels, func(l ThinkingLevel) bool {
		word, mapped := m.ProviderConfig.ThinkingValues[string(l)]
		return mapped && word == nil
	})
}

// Clamp returns the supported level nearest to l: l itself, else the next
// higher one, else the next lower one.
func (m *Model) Clamp(l ThinkingLevel) ThinkingLevel { return clamp(m.Levels(), l) }

// Levels lists the thinking levels of a model that the rules have: most end
// with xhigh, as their documents do.
func (r Rules) Levels(m *Model) []ThinkingLevel {
	levels := m.Levels()
	if n := len(levels) - 1; n > 0 && levels[n] == ThinkingMax && !r.MaxLevel {
		return levels[:n]
	}
	return levels
}

// Clamp is Model.Clamp among the levels that the rules have.
func (r Rules) Clamp(m *Model, l ThinkingLevel) ThinkingLevel { return clamp(r.Levels(m), l) }

func clamp(levels []ThinkingLevel, l ThinkingLevel) ThinkingLevel {
	want := slices.Index(ThinkingLevels, l)
	for _, have := range levels {
		if slices.Index(ThinkingLevels, have) >= want {
			return have
		}
	}
	return levels[len(levels)-1]
}

// Catalog is a snapshot of the models that are known and of the providers
// there are credentials for. It is immutable; a change is a new snapshot.
type Catalog struct {
	Models   []*Model                     // in the order they are offered
	Keys     map[string]bool              // by provider
	Opened   map[string]Credential        // by provider of Keys; a missing one is a CredentialKey
	NotUsed  map[string]string            // by provider: why a login in auth.json is not used
	Advice   func(provider string) string // how to give a provider credentials, a sentence; nil for nothing known
	Unlisted []LazyProvider               // providers without credentials whose models nobody has asked for yet

	// Unavailable holds the configured model servers that have reported no models: by provider, the reason. discover.local
	// stands for the servers at the usual ports. With such a
	// server the demo model is not offered.
	Unavailable map[string]string
}

// Credential is the kind of authentication that a provider has. Where several providers have the model that was asked for, the one with
// the smallest counts.
type Credential uint8

// The credentials there are.
const (
	CredentialKey   Credential = iota // an API key or a login of its own
	CredentialNone                    // none is needed, as on this machine
	CredentialCloud                   // an identity in a cloud, which is there for other things on most machines
	NoCredential                      // the provider cannot be asked
)

// LazyProvider is a provider whose models are described when somebody asks for
// them: describing all that are built in takes longer than everything else at
// the start.
type LazyProvider struct {
	Provider string
	Load     func() []*Model // the same list every time; safe for concurrent use
	Former   bool            // an earlier id of a provider that is listed under its present one
}

// Find returns a model by provider and id, nil if there is none.
func (c *Catalog) Find(provider, id string) *Model {
	for _, m := range c.Of(provider) {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// Of lists the models of one provider.
func (c *Catalog) Of(provider string) []*Model {
	if c == nil {
		return nil
	}
	for _, s := range c.Unlisted {
		if s.Provider == provider {
			return s.Load()
		}
	}
	var list []*Model
	for _, m := range c.Models {
		if m.Provider == provider {
			list = append(list, m)
		}
	}
	return list
}

// All lists every model once, those of providers with credentials first.
func (c *Catalog) All() []*Model {
	if c == nil {
		return nil
	}
	list := append([]*Model(nil), c.Models...)
	for _, s := range c.Unlisted {
		if !s.Former {
			list = append(list, s.Load()...)
		}
	}
	return list
}

// HasKey says whether there are credentials for a provider.
func (c *Catalog) HasKey(provider string) bool { return c != nil && c.Keys[provider] }

// Credential returns the kind of authentication that a provider has.
func (c *Catalog) Credential(provider string) Credential {
	if !c.HasKey(provider) {
		return NoCredential
	}
	return c.Opened[provider]
}

// Available lists the models there are credentials for.
func (c *Catalog) Available() []*Model {
	var list []*Model
	if c != nil {
		for _, m := range c.Models {
			if c.Keys[m.Provider] {
				list = append(list, m)
			}
		}
	}
	return list
}
