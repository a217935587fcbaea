package registry

import (
	"context"
	"fmt"
	"maps"

	"troupe/protocol"
	"troupe/providers"
)

// extra is a provider that models.json does not have.
type extra struct {
	entry  providerEntry
	stream providers.Provider // nil for whoever speaks the API
	login  providers.Login    // nil for the store of logins
}

// With returns a registry that knows other providers as well, and what they change
// about those that r knows. Keys set in r are copied. One that is wrong is left
// out; the errors name each.
func (r *Registry) With(list []providers.Registration) (*Registry, []error) {
	out := New(r.config)
	r.mu.Lock()
	out.keys = maps.Clone(r.keys)
	out.found, out.around = answered(r.found), answered(r.around)
	out.plan = plan{models: r.plan.models, asked: r.plan.asked}
	r.mu.Unlock()
	out.extra, out.virtual = map[string]extra{}, map[string][]*providers.Virtual{}
	var problems []error
	for _, reg := range list {
		if v := reg.Virtual; v != nil {
			out.virtual[reg.Name] = append(out.virtual[reg.Name], v)
			out.added = append(out.added, reg.Name)
			continue
		}
		config, errs := parseProvider(reg.Config)
		if len(errs) == 0 {
			if reg.Stream != nil && config.API == "" {
				config.API = "extension"
			}
			errs = config.check(out.isBuiltin(reg.Name) || reg.Stream != nil)
		}
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("provider %q: %w", reg.Name, err))
		}
		if len(errs) > 0 {
			continue
		}
		config.whole = len(config.models) > 0
		out.extra[reg.Name] = extra{config, reg.Stream, reg.Login}
		out.added = append(out.added, reg.Name)
	}
	return out, problems
}

// over is what a provider of models.json becomes with what somebody else says of it.
func (x *extra) over(file *providerEntry) *providerEntry {
	if file == nil {
		return &x.entry
	}
	e := *file
	set(&e.Name, x.entry.Name)
	set(&e.BaseURL, x.entry.BaseURL)
	set(&e.API, x.entry.API)
	set(&e.APIKey, x.entry.APIKey)
	e.AuthHeader = e.AuthHeader || x.entry.AuthHeader
	e.Headers = mergeHeaders(e.Headers, x.entry.Headers)
	e.Compat = mergeCompat(e.Compat, x.entry.Compat)
	if x.entry.whole {
		e.models, e.whole = x.entry.models, true // overrides of the file stay
	}
	return &e
}

// extraLogin is who makes keys of the login that is stored for a provider; nil for nobody, or
// where a key goes before it. The lock is held.
func (r *Registry) extraLogin(provider string) providers.Login {
	if r.keys[provider] != "" || !r.auth.Entries[provider].IsLogin() {
		return nil
	}
	return r.extra[provider].login
}

// Credentials are what a model's requests authenticate with.
func (r *Registry) Credentials(ctx context.Context, model *protocol.Model) (providers.Credentials, *protocol.StreamError) {
	r.mu.Lock()
	r.refresh()
	sources, own := r.sources(model.Provider), r.auth.Entries[model.Provider].Env
	login := r.extraLogin(model.Provider)
	r.mu.Unlock()
	cred, err := r.resolve(ctx, model, sources, own)
	if err == nil && login != nil && cred.Key == "" {
		cred.Key, err = r.config.Logins.KeyBy(ctx, model.Provider, login)
	}
	return cred, err
}
