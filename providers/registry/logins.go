package registry

import (
	"cmp"
	"context"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/auth"
)

// loginOf authenticates a provider's requests by the login in auth.json, nil where there
// is none that is used, or a key goes before it.
func (r *Registry) loginOf(provider string) providers.Signer {
	if r.keys[provider] != "" || r.config.Logins.Use(provider, r.auth.Entries[provider]) != auth.UseLogin {
		return nil
	}
	return r.config.Logins.Signer(provider)
}

// Auth implements [providers.Logins].
func (r *Registry) Auth(provider string) protocol.AuthReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	report := protocol.AuthReport{Providers: []protocol.ProviderAuth{}}
	for _, id := range r.withEntries() {
		if id == providers.ScriptedAPI || provider != "" && id != provider {
			continue
		}
		one := r.authOf(id)
		if provider != "" || one.State != protocol.AuthNone || auth.CanLogin(id) {
			report.Providers = append(report.Providers, one)
		}
	}
	return report
}

// withEntries lists the providers, and behind them those that have no models here, but
// an entry in auth.json.
func (r *Registry) withEntries() []string {
	list := r.providers()
	known := map[string]bool{}
	for _, id := range list {
		known[id] = true
	}
	for _, id := range r.auth.Names() {
		if !known[id] {
			list = append(list, id)
		}
	}
	return list
}

// authOf reports on one provider. The lock is held.
func (r *Registry) authOf(provider string) protocol.ProviderAuth {
	out := protocol.ProviderAuth{ID: provider, Name: r.nameOf(provider), State: protocol.AuthNone, Methods: auth.Methods(provider)}
	entry := r.auth.Entries[provider]
	for _, s := range r.sources(provider) {
		if s.value != "" && (s.literal || r.secrets.has(s.value, s.own)) {
			out.State, out.Source, out.Variable = protocol.AuthReady, s.from, s.variable
			break
		}
	}
	why := r.config.Logins.Why(provider, entry)
	switch {
	case out.State == protocol.AuthReady:
	case r.loginOf(provider) != nil:
		r.config.Logins.Report(provider, entry, &out)
	case r.cloudOf(provider) != nil:
		out.State, out.Source = protocol.AuthReady, "ambient"
	case why != "":
		out.State = protocol.AuthUnsupported
	}
	if why != "" {
		out.Reason = "the login in auth.json is not used: " + why
	}
	if out.State == protocol.AuthReady || out.State == protocol.AuthNone {
		out.Account = cmp.Or(out.Account, r.config.Logins.Account(provider, entry))
	}
	return out
}

// nameOf is what a provider is called.
func (r *Registry) nameOf(provider string) string {
	if custom := r.custom(provider); custom != nil && custom.Name != "" {
		return custom.Name
	}
	return cmp.Or(r.builtin(provider).config.Name, provider)
}

// Login implements [providers.Logins].
func (r *Registry) Login(ctx context.Context, how protocol.Login, person providers.Dialog) (protocol.LoginResult, *protocol.Error) {
	r.mu.Lock()
	known := r.isBuiltin(how.Provider) || r.custom(how.Provider) != nil
	r.mu.Unlock()
	if !known && auth.Never(how.Provider) == "" {
		return protocol.LoginResult{}, protocol.CodeInvalidParams.Errorf("Unknown provider: %s", how.Provider)
	}
	return r.config.Logins.Login(ctx, how, person)
}

// CancelLogin implements [providers.Logins].
func (r *Registry) CancelLogin(provider string) bool { return r.config.Logins.CancelLogin(provider) }

// Logout implements [providers.Logins].
func (r *Registry) Logout(ctx context.Context, provider string, revoke bool) (protocol.LogoutResult, *protocol.Error) {
	out, err := r.config.Logins.Logout(ctx, provider, revoke)
	if err != nil {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	if left := r.authOf(provider); left.State == protocol.AuthReady {
		out.Remaining = cmp.Or(left.Variable, left.Source)
	}
	return out, nil
}

// Watch implements [providers.Logins].
func (r *Registry) Watch(tell func(protocol.AuthChanged)) { r.config.Logins.Watch(tell) }

// Close implements [providers.Logins].
func (r *Registry) Close() { r.config.Logins.Close() }

var _ providers.Logins = (*Registry)(nil)

// Renew has the login of a provider renewed that is about to end, or every one for "".
// What comes of it is in the next report.
func (r *Registry) Renew(ctx context.Context, provider string) {
	r.mu.Lock()
	r.refresh()
	var list []string
	for _, id := range r.auth.Names() {
		if (provider == "" || id == provider) && r.loginOf(id) != nil {
			list = append(list, id)
		}
	}
	r.mu.Unlock()
	for _, id := range list {
		r.config.Logins.Renew(ctx, id)
	}
}
