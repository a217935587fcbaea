package registry

import (
	"cmp"
	"context"
	"net/url"
	"reflect"
	"slices"

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
		if id == providers.ScriptedAPI || provider != "" && id != provider || provider == "" && r.isFormer(id) {
			continue
		}
		one := r.authOf(id)
		if provider != "" || one.State != protocol.AuthNone || r.config.Logins.CanLogin(id) {
			report.Providers = append(report.Providers, one)
		}
	}
	return report
}

// withEntries lists the providers, and behind them those that have no models here, but
// an entry in auth.json.
func (r *Registry) withEntries() []string {
	list := r.providers()
	for _, id := range r.auth.Names() {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// authOf reports on one provider. The lock is held.
func (r *Registry) authOf(provider string) protocol.ProviderAuth {
	out := protocol.ProviderAuth{ID: provider, Name: r.nameOf(provider), State: protocol.AuthNone, Methods: r.config.Logins.Methods(provider)}
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
	if err := r.known(how.Provider); err != nil {
		return protocol.LoginResult{}, err
	}
	return r.config.Logins.Login(ctx, how, person)
}

// StoreCommand keeps a command that prints a provider's key.
func (r *Registry) StoreCommand(ctx context.Context, provider, command string, person providers.Dialog) *protocol.Error {
	if err := r.known(provider); err != nil {
		return err
	}
	return r.config.Logins.StoreCommand(ctx, provider, command, person)
}

// known refuses a provider that nobody has heard of.
func (r *Registry) known(provider string) *protocol.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	if provider == llama && r.custom(provider) == nil {
		return protocol.CodeLoginUnsupported.Errorf("The address of the server of %s is unknown: set LLAMA_BASE_URL, or name it in models.json with \"discover\": true", provider)
	}
	if !r.isBuiltin(provider) && r.custom(provider) == nil && r.config.Logins.Never(provider) == "" {
		return protocol.CodeInvalidParams.Errorf("Unknown provider: %s", provider)
	}
	return nil
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
func (r *Registry) Watch(who providers.LoginWatch) { r.config.Logins.Watch(who) }

// Close implements [providers.Logins].
func (r *Registry) Close() { r.config.Logins.Close() }

var _ providers.Logins = (*Registry)(nil)

// Renew implements [providers.Logins]. What comes of it is in the next report.
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

// devices are the logins by code that models.json has. The lock is held.
func (r *Registry) devices() map[string]auth.Device {
	out := map[string]auth.Device{}
	for i := range r.models.Value {
		c := &r.models.Value[i]
		u, err := url.Parse(c.BaseURL)
		if c.Login == nil || err != nil {
			continue
		}
		d := *c.Login
		d.Origin = u.Scheme + "://" + u.Host
		out[c.id] = d
	}
	return out
}

// nothingRead stands for auth.json before it was read.
var nothingRead = &auth.File{}

// tellChanges tells of the entries of auth.json that are others than before. The lock is
// held.
func (r *Registry) tellChanges(before *auth.File) {
	if before == nothingRead {
		return
	}
	names := map[string]bool{}
	for _, name := range slices.Concat(before.Names(), r.auth.Names()) {
		if !names[name] && !reflect.DeepEqual(before.Entries[name], r.auth.Entries[name]) {
			now := r.authOf(name)
			r.config.Logins.Changed(name, now.State, now.Reason)
		}
		names[name] = true
	}
}
