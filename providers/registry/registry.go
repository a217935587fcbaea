// Package registry knows the models there are and how to reach them: it joins
// the built-in catalogue, models.json, auth.json and the environment, and passes
// each request, with its credentials, to whoever speaks the model's wire.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
	"troupe/providers/auth"
)

// Config is what a [Registry] works from.
type Config struct {
	AgentDir string                        // where models.json and auth.json are; "" for nowhere
	Builtin  fs.FS                         // PROVIDER.json files, see package catalog; nil for none
	APIs     map[string]providers.Provider // who speaks which wire, by Model.API
	Clouds   map[string]providers.Cloud    // whose credentials can stand for a key, by name; nil for none
	Logins   *auth.Store                   // the owner of auth.json; nil is one of AgentDir that runs no program
	Offline  string                        // provider to offer when no other has a key, "" for none

	// Discover asks a server of models what it has; nil asks nobody.
	Discover func(ctx context.Context, baseURL, key string) (providers.LocalServer, error)
	// Local are addresses at which it looks for such servers besides; nil for nowhere.
	Local func() []string

	Env func(name string) string // nil is os.Getenv
	// Command runs a shell command of the configuration and returns what it
	// prints; it ends it when ctx is done. nil refuses commands.
	Command func(ctx context.Context, command string) (stdout string, err error)
}

// Registry knows the models there are and how to reach them. It implements
// [providers.Provider] for all of them.
//
// Models come from the built-in catalogue, models.json changes them and adds
// others. A key comes from SetKey, else auth.json, else models.json, else the
// environment. Nothing is read before it is needed; files are read again when
// they change. A Registry is safe for concurrent use.
type Registry struct {
	config  Config
	secrets secretRefs

	mu       sync.Mutex
	keys     map[string]string // from SetKey
	builtins map[string]*builtin
	extra    map[string]extra                // by provider; see With
	added    []string                        // their names, in order
	virtual  map[string][]*providers.Virtual // by provider; see With
	found    map[string]*discovery
	around   map[string]*discovery // at the addresses of Local, by address
	local    []namedEntry          // the servers there
	plan     plan
	models   bounded.Watched[[]namedEntry]
	auth     *auth.File
	catalog  *protocol.Catalog // nil when it has to be made anew
	problems error             // that the catalogue came with
}

// builtin is one provider of the built-in catalogue.
type builtin struct {
	config providerEntry
	models []*protocol.Model
	err    error
}

// New makes a registry. It reads nothing yet.
func New(config Config) *Registry {
	if config.Env == nil {
		config.Env = os.Getenv
	}
	r := &Registry{
		found: map[string]*discovery{}, around: map[string]*discovery{},
		config:   config,
		secrets:  secretRefs{env: config.Env, run: config.Command},
		keys:     map[string]string{},
		builtins: map[string]*builtin{},
	}
	r.models = bounded.Watched[[]namedEntry]{Limit: protocol.MaxModelsFile, Parse: func(text []byte) ([]namedEntry, error) { return parseModels(text, r.isBuiltin) }}
	if config.AgentDir != "" {
		r.models.Path = filepath.Join(config.AgentDir, "models.json")
	}
	if r.config.Logins == nil {
		r.config.Logins = auth.Open(auth.Config{Dir: config.AgentDir})
	}
	r.auth = nothingRead
	return r
}

// SetKey sets a provider's key for the life of the registry, before every other
// source. "" takes it back.
func (r *Registry) SetKey(provider, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key == "" {
		delete(r.keys, provider)
	} else {
		r.keys[provider] = key
	}
	r.catalog = nil
}

// Catalog returns the models there are now; the same snapshot until something
// changes. The error names everything that is wrong with the configuration
// files; the catalogue is usable all the same, without what they would have
// added.
func (r *Registry) Catalog() (*protocol.Catalog, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	if r.catalog == nil {
		r.catalog, r.problems = r.build()
	}
	return r.catalog, r.problems
}

// refresh reads files that have changed.
func (r *Registry) refresh() {
	file := r.config.Logins.File()
	changed := r.models.Refresh()
	if changed {
		r.config.Logins.SetDevices(r.devices())
	}
	if changed || file != r.auth {
		r.catalog = nil
	}
	before := r.auth
	if r.auth = file; file != before {
		r.tellChanges(before)
		r.plan.asked = time.Time{} // it may be another's
	}
	r.discover()
	r.askPlan()
}

func (r *Registry) build() (*protocol.Catalog, error) {
	catalog := &protocol.Catalog{Keys: map[string]bool{}, Opened: map[string]protocol.Credential{}, Advice: advice, Unavailable: map[string]string{}}
	problems := []error{r.models.Err, r.auth.Err, r.auth.Unused}
	for _, provider := range r.providers() {
		former := r.isFormer(provider)
		if former {
			models, _ := r.modelsOf(provider)
			r.open(catalog, provider, models)
		}
		if former || r.lazy(provider) {
			catalog.Unlisted = append(catalog.Unlisted, protocol.LazyProvider{Provider: provider, Former: former, Load: sync.OnceValue(func() []*protocol.Model {
				r.mu.Lock()
				defer r.mu.Unlock()
				models, _ := r.modelsOf(provider) // what is built in has no problems
				return models
			})})
			continue
		}
		models, err := r.modelsOf(provider)
		problems = append(problems, err, r.complaints(provider))
		if why := r.unavailable(provider); why != "" && len(models) == 0 {
			catalog.Unavailable[provider] = why
		}
		catalog.Models = append(catalog.Models, models...)
		r.open(catalog, provider, models)
	}
	for _, provider := range r.auth.Names() {
		if why := r.config.Logins.Why(provider, r.auth.Entries[provider]); why != "" {
			if catalog.NotUsed == nil {
				catalog.NotUsed = map[string]string{}
			}
			catalog.NotUsed[provider] = why
			r.config.Logins.Notice(fmt.Sprintf("the login of %s in auth.json is not used: %s", provider, why))
		}
	}
	if why := r.unavailableLocal(); why != "" {
		catalog.Unavailable["discover.local"] = why
	}
	if r.config.Offline != "" && !r.hasKeys(catalog) && len(catalog.Unavailable) == 0 {
		catalog.Keys[r.config.Offline] = true
		problems = append(problems, r.unusedHost())
	}
	for provider, list := range r.virtual { // others answer
		if models, _ := r.physical(provider); len(models) == 0 && len(list) > 0 {
			catalog.Keys[provider] = true
		}
	}
	return catalog, errors.Join(problems...)
}

// hasKeys says whether the person has a key for a provider. Those that extensions bring do not
// count: a session that began without one goes on with the model that it began with.
func (r *Registry) hasKeys(catalog *protocol.Catalog) bool {
	for provider := range catalog.Keys {
		if _, added := r.extra[provider]; !added {
			return true
		}
	}
	return false
}

// lazy says whether a provider's models can wait until somebody asks for them:
// it is built in, nobody has configured it, and there is no key for it.
func (r *Registry) lazy(provider string) bool {
	if !r.isBuiltin(provider) || r.custom(provider) != nil || provider == r.config.Offline || r.virtual[provider] != nil {
		return false
	}
	if r.cloudOf(provider) != nil || r.loginOf(provider) != nil {
		return false
	}
	return !slices.ContainsFunc(r.sources(provider), func(s keySource) bool { return s.value != "" })
}

// isFormer says whether a provider is known by its present id only: nothing that the person
// has configured names this one. Its models are not offered a second time, but sessions and
// settings that name it still find them.
func (r *Registry) isFormer(provider string) bool {
	_, entered := r.auth.Entries[provider]
	return providers.VendorOf(provider).Now != "" && !entered && r.custom(provider) == nil && r.keys[provider] == ""
}

// providers lists the built-in ones in their fixed order, then the others of
// models.json in the order of the file.
func (r *Registry) providers() []string {
	var list []string
	add := func(id string) {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	for _, v := range providers.Vendors {
		if r.isBuiltin(v.ID) {
			add(v.ID)
		}
	}
	if r.config.Builtin != nil {
		entries, _ := fs.ReadDir(r.config.Builtin, ".")
		for _, entry := range entries {
			if id, found := strings.CutSuffix(entry.Name(), ".json"); found {
				add(id)
			}
		}
	}
	for _, c := range slices.Concat(r.models.Value, r.local) {
		add(c.id)
	}
	for _, name := range r.added {
		add(name)
	}
	return list
}

func (r *Registry) isBuiltin(provider string) bool {
	file := providers.VendorOf(provider).File()
	if r.config.Builtin == nil || !fs.ValidPath(file) {
		return false
	}
	_, err := fs.Stat(r.config.Builtin, file)
	return err == nil
}

// builtin decodes a built-in provider when it is first needed.
func (r *Registry) builtin(provider string) *builtin {
	if b := r.builtins[provider]; b != nil {
		return b
	}
	b := &builtin{}
	r.builtins[provider] = b
	if !r.isBuiltin(provider) {
		return b
	}
	text, err := fs.ReadFile(r.config.Builtin, providers.VendorOf(provider).File())
	if err != nil {
		b.err = fmt.Errorf("catalogue of %s: %w", provider, err)
		return b
	}
	config, problems := parseProvider(text)
	if len(problems) > 0 {
		b.err = fmt.Errorf("catalogue of %s: %w", provider, errors.Join(problems...))
		return b
	}
	b.config = config
	for i := range config.models {
		b.models = append(b.models, config.build(provider, &config.models[i]))
	}
	return b
}

// custom is what models.json, and who has added providers, say about one; nil for
// nothing.
func (r *Registry) custom(provider string) *providerEntry {
	if x, ok := r.extra[provider]; ok {
		return x.over(r.inFile(provider))
	}
	return r.inFile(provider)
}

// inFile is what models.json says about a provider, or what it would say of a server that
// was found; nil for nothing.
func (r *Registry) inFile(provider string) *providerEntry {
	for _, list := range [][]namedEntry{r.models.Value, r.local} {
		for i := range list {
			if list[i].id == provider {
				return &list[i].providerEntry
			}
		}
	}
	return nil
}

// modelsOf are a provider's models, those among them that are none.
func (r *Registry) modelsOf(provider string) ([]*protocol.Model, error) {
	list, err := r.physical(provider)
	for _, v := range r.virtual[provider] {
		if i := slices.IndexFunc(list, func(m *protocol.Model) bool { return m.ID == v.Model.ID }); i >= 0 {
			list = slices.Delete(slices.Clone(list), i, i+1)
		}
		list = append(slices.Clip(list), v.Model)
	}
	return list, err
}

// physical puts a provider's models together: the built-in ones as models.json
// changes them, and its own, which replace those of the same id.
func (r *Registry) physical(provider string) ([]*protocol.Model, error) {
	b, custom := r.builtin(provider), r.custom(provider)
	if custom == nil {
		return r.withPlan(provider, &b.config, b.models), b.err
	}
	var list []*protocol.Model
	everywhere := modelEntry{BaseURL: custom.BaseURL, Headers: custom.Headers, Compat: custom.Compat, Stall: &custom.Stall}
	for _, model := range b.models {
		if custom.whole {
			break
		}
		model = everywhere.change(model)
		if over, ok := custom.overrides[model.ID]; ok {
			model = over.change(model)
		}
		list = append(list, model)
	}
	base := *custom
	set(&base.API, b.config.API)
	set(&base.BaseURL, b.config.BaseURL)
	set(&base.API, custom.API)
	set(&base.BaseURL, custom.BaseURL)
	base.Headers = mergeHeaders(b.config.Headers, custom.Headers)
	base.Compat = mergeCompat(b.config.Compat, custom.Compat)
	for _, m := range slices.Concat(r.foundAt(provider, custom), custom.models) {
		model := base.build(provider, &m)
		if over, ok := custom.overrides[model.ID]; ok {
			model = over.change(model)
		}
		if at := slices.IndexFunc(list, func(m *protocol.Model) bool { return m.ID == model.ID }); at >= 0 {
			list[at] = model
		} else {
			list = append(list, model)
		}
	}
	return r.withPlan(provider, &base, list), b.err
}

// open notes in the catalogue that a provider can be asked, and by which credential.
func (r *Registry) open(catalog *protocol.Catalog, provider string, models []*protocol.Model) {
	by := r.credential(provider, models)
	if by == protocol.NoCredential {
		return
	}
	catalog.Keys[provider] = true
	if by != protocol.CredentialKey {
		catalog.Opened[provider] = by
	}
}

// credential returns the kind of authentication of a provider, without running commands to find out.
func (r *Registry) credential(provider string, models []*protocol.Model) protocol.Credential {
	models = slices.DeleteFunc(slices.Clone(models), func(m *protocol.Model) bool { return m.API == protocol.VirtualAPI })
	env := r.secrets.lookup(r.auth.Entries[provider].Env)
	reachable := slices.ContainsFunc(models, func(m *protocol.Model) bool {
		_, missing := fillURL(m.BaseURL, withRegion(env))
		return missing == ""
	})
	named := false // a key that has no value: whoever names one needs it, also on a server nearby
	if custom := r.custom(provider); custom != nil {
		named = custom.APIKey != ""
	}
	switch {
	case !reachable:
		return protocol.NoCredential
	case r.loginOf(provider) != nil, slices.ContainsFunc(r.sources(provider), func(s keySource) bool {
		return s.value != "" && (s.literal || r.secrets.has(s.value, s.own))
	}):
		return protocol.CredentialKey
	case r.cloudOf(provider) != nil:
		return protocol.CredentialCloud
	case provider == providers.ScriptedAPI && r.custom(provider) == nil:
		return protocol.NoCredential // the demo is offered only to those who ask for it
	case slices.ContainsFunc(models, func(m *protocol.Model) bool { return r.keyless(m, named) }):
		return protocol.CredentialNone
	}
	return protocol.NoCredential
}

// keySource is one place where a key may be.
type keySource struct {
	value   string
	own     map[string]string // variables that go with it
	literal bool              // value is the key itself
	bearer  bool

	from, variable string // as get_auth names it
}

// sources lists where a provider's key may be, the first that has one counts.
func (r *Registry) sources(provider string) []keySource {
	entry := r.auth.Entries[provider]
	list := []keySource{{value: r.keys[provider], literal: true, from: "command_line"}}
	switch r.config.Logins.Use(provider, entry) {
	case auth.UseKey:
		list = append(list, keySource{value: entry.Key, own: entry.Env, from: "stored_key"})
		if entry.Key == "" {
			list = append(list, keySource{value: entry.Access, literal: true, from: "stored_oauth"})
		}
	case auth.UseLogin:
		return list // what is stored owns its provider: nothing takes its place in silence
	default:
	}
	custom := r.custom(provider)
	if custom != nil && custom.Auth != "" {
		return list // a key that was there for something else is not what was asked for
	}
	if custom != nil {
		list = append(list, keySource{value: custom.APIKey, own: entry.Env, from: "models_json"})
	}
	lookup := r.secrets.lookup(entry.Env)
	for _, name := range providers.VendorOf(provider).Env {
		list = append(list, keySource{value: lookup(name), literal: true, bearer: slices.Contains(bearerVariables, name), from: "environment", variable: name})
	}
	return list
}

// keyless reports whether a model can be asked without a key: scripts, local servers and streams of extensions whose
// configuration names no key, and endpoints that are given a header instead.
func (r *Registry) keyless(m *protocol.Model, keyNamed bool) bool {
	if m.API == providers.ScriptedAPI || !keyNamed && (providers.IsLocal(m.BaseURL) || r.extra[m.Provider].stream != nil) {
		return true
	}
	if m.ProviderConfig == nil {
		return false
	}
	for name, value := range m.ProviderConfig.Headers {
		if isKeyHeader(name) {
			return r.secrets.has(value, r.auth.Entries[m.Provider].Env)
		}
	}
	return false
}

// isKeyHeader says whether a header is one of those that wires put keys into.
func isKeyHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "x-api-key", "api-key", "x-goog-api-key":
		return true
	}
	return false
}

// Secrets are the environment variables that hold keys of providers in use:
// those in which these look for theirs, and those that models.json and auth.json
// name, in keys and in headers, whatever these are called. In use is who is used, says the
// caller, or has an entry in one of the files, or was given a key.
func (r *Registry) Secrets(used func(provider string) bool) map[string]bool {
	names := map[string]bool{}
	note := func(list []string) {
		for _, name := range list {
			if !isOrdinary(name) {
				names[name] = true
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	for _, v := range providers.Vendors {
		_, entered := r.auth.Entries[v.ID]
		if v.ID != providers.ScriptedAPI && (used(v.ID) || entered || r.keys[v.ID] != "" || r.custom(v.ID) != nil) {
			note(v.Env)
			note(providers.CloudSecrets[v.Cloud])
		}
	}
	for _, c := range r.models.Value {
		note(variablesOf(c.APIKey))
		note(providers.CloudSecrets[c.Auth])
		for _, value := range c.headerValues() {
			note(variablesOf(value))
		}
	}
	for _, entry := range r.auth.Entries {
		note(variablesOf(entry.Key))
	}
	return names
}

// Refresh makes the next request of a provider run the commands again that
// print its key and headers. Stream does it by itself after a failure of kind
// auth.
func (r *Registry) Refresh(provider string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sources(provider) {
		r.secrets.forget(s.value)
	}
	if custom := r.custom(provider); custom != nil {
		for _, value := range custom.headerValues() {
			r.secrets.forget(value)
		}
	}
}

// bearerVariables hold tokens of providers whose keys go elsewhere.
var bearerVariables = []string{"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}
