package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/auth"
)

// Stream implements [providers.Provider]: it finds the credentials of the request's
// model, unless the request brings some, and passes it on to whoever speaks the
// model's wire. If the server refuses the credentials and looking for them again
// brings others, as commands do whose output expires, it asks once more.
func (r *Registry) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		if v := r.virtualOf(req.Model); v != nil {
			r.route(ctx, v, req, yield)
			return
		}
		provider := r.extra[req.Model.Provider].stream
		if provider == nil {
			provider = r.config.APIs[req.Model.API]
		}
		if provider == nil {
			yield(nil, protocol.ErrorInvalid.Errorf("Model %s/%s: the API %q is not supported", req.Model.Provider, req.Model.ID, req.Model.API))
			return
		}
		asked := req
		if err := r.prepare(ctx, &req); err != nil {
			yield(nil, err)
			return
		}
		untouched := true
		for part, err := range provider.Stream(ctx, req) {
			if isAuth(err) && untouched && r.renew(ctx, asked, &req, err) {
				r.again(ctx, provider, req, yield)
				return
			}
			untouched = false
			if !yield(part, err) {
				return
			}
		}
	}
}

func isAuth(err error) bool {
	var failed *protocol.StreamError
	return errors.As(err, &failed) && failed.Kind == protocol.ErrorAuth
}

// renew looks for credentials again after those of req were refused. It is true
// if req has others now. Those that are the same are not kept: somebody may be
// logging in at this moment.
func (r *Registry) renew(ctx context.Context, asked providers.Request, req *providers.Request, refusal error) bool {
	r.Refresh(asked.Model.Provider)
	if signer := req.Credentials.Signer; signer != nil && !asked.Credentials.IsSet() {
		signer.Forget()
		var failed *protocol.StreamError // without a status nobody was asked: there were no credentials
		return errors.As(refusal, &failed) && failed.Status != 0 && ctx.Err() == nil
	}
	if asked.Credentials.IsSet() || r.prepare(ctx, &asked) != nil {
		return false
	}
	if asked.Credentials.Equal(&req.Credentials) {
		r.Refresh(asked.Model.Provider)
		return false
	}
	*req = asked
	return true
}

// again is the second attempt, after which there is none.
func (r *Registry) again(ctx context.Context, provider providers.Provider, req providers.Request, yield func(protocol.Part, error) bool) {
	for part, err := range provider.Stream(ctx, req) {
		if isAuth(err) {
			r.Refresh(req.Model.Provider)
		}
		if !yield(part, err) {
			return
		}
	}
}

// prepare fills in what a request needs besides what the session says.
func (r *Registry) prepare(ctx context.Context, req *providers.Request) *protocol.StreamError {
	model := req.Model
	r.mu.Lock()
	r.refresh()
	sources, custom, keyless := r.sources(model.Provider), r.custom(model.Provider), r.keyless(model, false)
	own := r.auth.Entries[model.Provider].Env
	cloud, signing, login := r.cloudNamed(model.Provider), r.cloudOf(model.Provider), r.loginOf(model.Provider)
	extra := r.extraLogin(model.Provider)
	why := r.config.Logins.Why(model.Provider, r.auth.Entries[model.Provider])
	r.mu.Unlock()

	env, cred, given := r.secrets.lookup(own), req.Credentials, req.Credentials.IsSet()
	if !given {
		var err *protocol.StreamError
		if cred, err = r.resolve(ctx, model, sources, own); err != nil {
			return err
		}
		if extra != nil {
			if cred.Key, err = r.config.Logins.KeyBy(ctx, model.Provider, extra); err != nil {
				return err
			}
		}
	}
	place, err := placeOf(model, cloud, isKeyed(&cred), env)
	if err != nil {
		return err
	}
	req.Model = place
	req.Deployment = deployment(model.Provider, model.ID, env)
	if req.Cache == providers.CacheShort && r.config.Env("PI_CACHE_RETENTION") == "long" {
		req.Cache = providers.CacheLong
	}
	if given {
		return nil
	}
	switch {
	case isKeyed(&cred):
	case login != nil:
		cred.Signer = login
		req.Model = withCompat(req.Model, auth.Compat(model.Provider))
	case signing != nil:
		cred.Signer = signing.Signer(env)
	}
	if cred.Key == "" && cred.Signer == nil && !keyless {
		return r.noKey(model.Provider, why)
	}
	header := keyHeader(req.Model)
	switch bearer := custom != nil && custom.AuthHeader; {
	case cred.Key == "":
	case bearer:
		cred.Headers = mergeHeaders(map[string]string{"Authorization": "Bearer " + cred.Key}, cred.Headers)
		if header != "" {
			cred.Key = ""
		}
	case header != "":
		value := cred.Key
		if providers.VendorOf(model.Provider).Bearer {
			value = "Bearer " + value
		}
		cred.Headers = mergeHeaders(map[string]string{header: value}, cred.Headers)
		cred.Key = ""
	}
	req.Credentials = cred
	return nil
}

// isKeyed says whether there is a key, in whatever header.
func isKeyed(c *providers.Credentials) bool {
	for name := range c.Headers {
		if isKeyHeader(name) {
			return true
		}
	}
	return c.Key != "" || c.Signer != nil
}

// resolve gets the key and the headers of a model.
func (r *Registry) resolve(ctx context.Context, model *protocol.Model, sources []keySource, own map[string]string) (providers.Credentials, *protocol.StreamError) {
	var cred providers.Credentials
	for _, s := range sources {
		key, err := strings.TrimSpace(s.value), error(nil)
		if !s.literal {
			key, err = r.secrets.resolve(ctx, s.value, s.own)
		}
		if err != nil {
			return cred, commandFailed(ctx, "the API key", model.Provider, err)
		}
		if key != "" {
			cred.Key, cred.Bearer = key, s.bearer || providers.VendorOf(model.Provider).Bearer
			break
		}
	}
	if model.ProviderConfig == nil {
		return cred, nil
	}
	for _, name := range slices.Sorted(maps.Keys(model.ProviderConfig.Headers)) {
		value, err := r.secrets.resolve(ctx, model.ProviderConfig.Headers[name], own)
		if err != nil {
			return cred, commandFailed(ctx, "the header "+name, model.Provider, err)
		}
		if value != "" {
			cred.Headers = mergeHeaders(cred.Headers, map[string]string{name: value})
		}
	}
	return cred, nil
}

// commandFailed does not repeat the command, which may have secrets in it.
func commandFailed(ctx context.Context, what, provider string, err error) *protocol.StreamError {
	if ctx.Err() != nil {
		return protocol.Aborted()
	}
	return protocol.ErrorAuth.Errorf("The command for %s of %s failed: %s", what, provider, providers.MaskKeys(err.Error()))
}

// noKey says how to get on.
// why is why a login that is there is not used, "" for none.
func (r *Registry) noKey(provider, why string) *protocol.StreamError {
	if why != "" {
		return protocol.ErrorAuth.Errorf("No API key found for %s. The login in auth.json is not used: %s.", provider, why)
	}
	how := advice(provider)
	if cloud := providers.VendorOf(provider).Cloud; cloud != "" && cloud != providers.CloudAnthropic {
		how += fmt.Sprintf(` For an identity of the machine put {"providers": {"%s": {"auth": "%s"}}} into %s.`, provider, cloud, filepath.Join(r.config.AgentDir, "models.json"))
	} else {
		how += fmt.Sprintf(` The entry of %s is {"%s": {"type": "api_key", "key": "..."}}.`, filepath.Join(r.config.AgentDir, "auth.json"), provider)
	}
	return protocol.ErrorAuth.Errorf("No API key found for %s.\n\n%s", provider, how)
}

// advice says how a provider is given credentials.
func advice(provider string) string { return providers.VendorOf(provider).Advice() }
