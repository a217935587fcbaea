package providers

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"troupe/protocol"
)

// Choice is a model that was asked for, perhaps with a thinking level.
type Choice struct {
	Model   *protocol.Model
	Level   protocol.ThinkingLevel // "" if nobody said
	Warning string                 // what the person should know, "" for nothing
}

// ResolveModel finds the model that --provider and --model mean. provider may
// be "". pattern is an exact id, PROVIDER/ID, or a part of an id or a name, any
// of them with :LEVEL behind. A known provider in front of the slash wins over
// ids that contain slashes. Models that there is a key for win over those that
// an identity in a cloud opens, and these over the others; then
// ids without a date over ids with one, and then the highest.
//
// An unknown id of a known provider becomes a model of that id, like the
// provider's usual one, with a warning. Anything else is an error.
func ResolveModel(c *protocol.Catalog, provider, pattern string) (Choice, error) {
	r := resolver{c}
	pattern = strings.TrimSpace(pattern)
	if provider != "" {
		known := r.provider(provider)
		if known == "" {
			return Choice{}, fmt.Errorf("unknown provider %q", provider)
		}
		if pattern == "" {
			return Choice{Model: r.usual(known)}, nil
		}
		if head, rest, found := strings.Cut(pattern, "/"); found && strings.EqualFold(head, known) && rest != "" {
			pattern = rest
		}
		return r.within(known, pattern), nil
	}
	if pattern == "" {
		return Choice{}, fmt.Errorf("no model given")
	}
	return r.anywhere(pattern)
}

// Foreign says that pattern names a model of a provider that the catalogue does not have,
// PROVIDER/ID, and that no id is the whole of it: whatever else it is a part of is a guess.
func Foreign(c *protocol.Catalog, pattern string) bool {
	pattern = strings.TrimSpace(pattern)
	short, _ := SplitLevel(pattern)
	provider, id, _ := strings.Cut(short, "/")
	return provider != "" && id != "" && resolver{c}.provider(provider) == "" && !slices.ContainsFunc(c.Models, func(m *protocol.Model) bool {
		return strings.EqualFold(m.ID, pattern) || strings.EqualFold(m.ID, short)
	})
}

type resolver struct{ c *protocol.Catalog }

// provider returns the right spelling of a provider's name, "" if unknown.
func (r resolver) provider(name string) string {
	for _, m := range r.c.Models {
		if strings.EqualFold(m.Provider, name) {
			return m.Provider
		}
	}
	for _, s := range r.c.Unlisted {
		if strings.EqualFold(s.Provider, name) {
			return s.Provider
		}
	}
	return ""
}

// usual is the model of a provider to begin with.
func (r resolver) usual(provider string) *protocol.Model {
	if m := r.c.Find(provider, VendorOf(provider).Model); m != nil {
		return m
	}
	if models := r.c.Of(provider); len(models) > 0 {
		return models[0]
	}
	return nil
}

// within resolves a pattern among the models of one provider.
func (r resolver) within(provider, pattern string) Choice {
	if choice, ok := r.match(r.c.Of(provider), pattern); ok {
		return choice
	}
	id, level := SplitLevel(pattern)
	made := *r.usual(provider)
	made.ID, made.Name = id, id
	return Choice{&made, level, fmt.Sprintf("model %q of %s is not known; using it as it is", id, provider)}
}

func (r resolver) anywhere(pattern string) (Choice, error) {
	head, rest, found := strings.Cut(pattern, "/")
	provider := ""
	if found && rest != "" {
		provider = r.provider(head)
	}
	if provider == "" {
		if choice, ok := r.match(r.c.All(), pattern); ok {
			return choice, nil
		}
		return Choice{}, fmt.Errorf("no model matches %q", pattern)
	}
	choice := r.within(provider, rest)
	if choice.Warning == "" {
		return choice, nil
	}
	if exact, ok := r.exact(r.c.All(), pattern); ok { // an id with a slash that begins like a provider
		return exact, nil
	}
	return choice, nil
}

// match finds the best model for a pattern, with or without a level behind.
func (r resolver) match(models []*protocol.Model, pattern string) (Choice, bool) {
	if choice, ok := r.exact(models, pattern); ok {
		return choice, true
	}
	if m := r.part(models, pattern); m != nil {
		return Choice{Model: m}, true
	}
	if head, level := SplitLevel(pattern); level != "" {
		if m := r.part(models, head); m != nil {
			return Choice{Model: m, Level: level}, true
		}
	}
	return Choice{}, false
}

// exact finds a model by its id. Of providers that share it, the first with the
// best credential counts.
func (r resolver) exact(models []*protocol.Model, pattern string) (Choice, bool) {
	find := func(id string) *protocol.Model {
		same := slices.DeleteFunc(slices.Clone(models), func(m *protocol.Model) bool { return !strings.EqualFold(m.ID, id) })
		if len(same) == 0 {
			return nil
		}
		return slices.MinFunc(same, func(a, b *protocol.Model) int { return cmp.Compare(r.rank(a), r.rank(b)) })
	}
	if m := find(pattern); m != nil {
		return Choice{Model: m}, true
	}
	if id, level := SplitLevel(pattern); level != "" {
		if m := find(id); m != nil {
			return Choice{Model: m, Level: level}, true
		}
	}
	return Choice{}, false
}

// part finds the best model that has pattern in its id or its name.
func (r resolver) part(models []*protocol.Model, pattern string) *protocol.Model {
	pattern = strings.ToLower(pattern)
	var hits []*protocol.Model
	for _, m := range models {
		if strings.Contains(strings.ToLower(m.ID), pattern) || strings.Contains(strings.ToLower(m.Name), pattern) {
			hits = append(hits, m)
		}
	}
	if len(hits) == 0 {
		return nil
	}
	isDated := func(m *protocol.Model) int {
		if dated().MatchString(m.ID) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(hits, func(a, b *protocol.Model) int {
		return cmp.Or(cmp.Compare(r.rank(a), r.rank(b)), cmp.Compare(isDated(a), isDated(b)), compareIDs(b.ID, a.ID))
	})
	return hits[0]
}

// rank orders models by the authentication of their providers, the smallest first. One that needs no key counts like one
// that there is a key for.
func (r resolver) rank(m *protocol.Model) protocol.Credential {
	if by := r.c.Credential(m.Provider); by != protocol.CredentialNone {
		return by
	}
	return protocol.CredentialKey
}

var dated = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[-@](20\d{6}|20\d\d-\d\d-\d\d|\d{4})(-v\d+)?(:\d+)?$`)
})

// compareIDs orders ids with numbers in them by the numbers: 4-10 after 4-9.
func compareIDs(a, b string) int {
	for a != "" && b != "" {
		na, nb := leadingDigits(a), leadingDigits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if d := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); d != 0 {
				return d
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// SplitLevel cuts a thinking level off the end. level is "" if there is none.
func SplitLevel(pattern string) (rest string, level protocol.ThinkingLevel) {
	i := strings.LastIndexByte(pattern, ':')
	if i <= 0 {
		return pattern, ""
	}
	level = protocol.ThinkingLevel(strings.ToLower(pattern[i+1:]))
	if !level.Valid() {
		return pattern, ""
	}
	return pattern[:i], level
}

// ResolveScope finds the models that --models or enabledModels mean, in the
// order of the patterns, each once: names as in [ResolveModel], or globs over
// PROVIDER/ID and ID that ignore case, all with or without :LEVEL. Only models
// there is a key for count. What matches nothing becomes a warning.
func ResolveScope(c *protocol.Catalog, patterns []string) (scope []Choice, warnings []string) {
	available := c.Available()
	r := resolver{c}
	add := func(choice Choice) {
		if !slices.ContainsFunc(scope, func(have Choice) bool { return have.Model == choice.Model }) {
			scope = append(scope, choice)
		}
	}
	for _, pattern := range patterns {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" {
			continue
		}
		hits := r.scoped(available, pattern)
		if len(hits) == 0 {
			warnings = append(warnings, fmt.Sprintf("no model matches %q", pattern))
		}
		for _, hit := range hits {
			add(hit)
		}
	}
	return scope, warnings
}

func (r resolver) scoped(available []*protocol.Model, pattern string) (hits []Choice) {
	if strings.ContainsAny(pattern, "*?[") {
		glob, level := SplitLevel(pattern)
		matches := compileGlob(glob)
		for _, m := range available {
			if matches(m.Provider+"/"+m.ID) || matches(m.ID) {
				hits = append(hits, Choice{Model: m, Level: level})
			}
		}
		return hits
	}
	models := available
	if head, rest, found := strings.Cut(pattern, "/"); found {
		if provider := r.provider(head); provider != "" && rest != "" {
			own := slices.DeleteFunc(slices.Clone(available), func(m *protocol.Model) bool { return m.Provider != provider })
			if choice, ok := r.match(own, rest); ok {
				return []Choice{choice}
			}
		}
	}
	if choice, ok := r.match(models, pattern); ok {
		return []Choice{choice}
	}
	return nil
}

// globText has what only doublestar reads as a wildcard stand for itself, and slashes be
// no borders: names of models have them.
var globText = strings.NewReplacer("/", "\x00", `\`, `\\`, "{", `\{`, "}", `\}`)

// compileGlob makes a matcher that ignores case: * is any text, slashes too, ?
// any character, [a-z] a class. A class that is not closed stands for itself.
func compileGlob(glob string) func(string) bool {
	glob = globText.Replace(strings.ToLower(glob))
	if !doublestar.ValidatePattern(glob) {
		glob = strings.ReplaceAll(glob, "[", `\[`)
	}
	return func(name string) bool {
		return doublestar.MatchUnvalidated(glob, strings.ReplaceAll(strings.ToLower(name), "/", "\x00"))
	}
}

// IsDemo says whether a provider is the scripted one, which answers where
// nobody is configured.
func IsDemo(provider string) bool { return provider == ScriptedAPI }

// Wishes are what may decide the model of a session, the strongest first.
type Wishes struct {
	Flag       *Choice  // --model and --provider
	Scope      []Choice // --models or enabledModels
	Continuing bool     // an old session goes on: its model comes before the scope

	SessionProvider, SessionModel string // of the session that goes on
	DefaultProvider, DefaultModel string // of the settings
}

// ChooseModel decides with which model a session begins: the flag, else the
// scope (the default of the settings if it is in there, else its first), else
// the session's own, else the default, else the usual model of the first
// provider with a key, else the first model with a key, else the same of
// providers that need no key or that an identity in a cloud opens. The choice has no model
// if there is none at all. Without any key the default counts all the same, so
// that the first request can say whose key is missing.
func ChooseModel(c *protocol.Catalog, w Wishes) Choice {
	if w.Flag != nil {
		return *w.Flag
	}
	if len(w.Scope) > 0 && !w.Continuing {
		for _, choice := range w.Scope {
			if choice.Model.Provider == w.DefaultProvider && choice.Model.ID == w.DefaultModel {
				return choice
			}
		}
		return w.Scope[0]
	}
	warning := ""
	if w.SessionModel != "" {
		m := c.Find(w.SessionProvider, w.SessionModel)
		if m != nil && c.HasKey(m.Provider) {
			return Choice{Model: m}
		}
		why := "is not known any more"
		if m != nil {
			why = "has no API key"
		}
		warning = fmt.Sprintf("the session's model %s/%s %s", w.SessionProvider, w.SessionModel, why)
	}
	m := fallback(c, w)
	switch {
	case m == nil:
	case warning != "":
		warning += fmt.Sprintf("; using %s/%s", m.Provider, m.ID)
	case m.Provider == ScriptedAPI && w.DefaultProvider != ScriptedAPI:
		warning = fmt.Sprintf("no provider has an API key; %s/%s answers, offline", m.Provider, m.ID)
	}
	return Choice{Model: m, Warning: warning}
}

func fallback(c *protocol.Catalog, w Wishes) *protocol.Model {
	wanted := c.Find(w.DefaultProvider, w.DefaultModel)
	if wanted != nil && c.HasKey(wanted.Provider) {
		return wanted
	}
	if wanted != nil && len(c.Keys) == 1 && c.HasKey(ScriptedAPI) {
		return wanted // a demo must not answer in the name of a model
	}
	keyed := func(provider string) bool { return c.Credential(provider) == protocol.CredentialKey }
	for _, opened := range []func(provider string) bool{keyed, c.HasKey} {
		for _, v := range Vendors {
			if !opened(v.ID) {
				continue // and its models need not be described
			}
			if m := c.Find(v.ID, v.Model); m != nil {
				return m
			}
		}
		available := c.Available()
		if i := slices.IndexFunc(available, func(m *protocol.Model) bool { return opened(m.Provider) }); i >= 0 {
			return available[i]
		}
	}
	return wanted
}
