package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"troupe/providers"
	"troupe/providers/discover"
)

// What servers have said is asked again after freshFor; one that takes longer than
// discoverTime does not answer.
const (
	freshFor     = time.Minute
	discoverTime = 5 * time.Second
	mostWarnings = 5 // about models of one server
)

// discovery is what the server of a provider has said.
type discovery struct {
	address string
	server  providers.LocalServer // the last answer, also of a server that is down
	err     error
	asked   time.Time
	done    chan struct{} // closed when it has answered; nil while nobody asks
}

// discover has servers asked that were not for a while, if models.json says so. Nobody waits
// for them here: what they say is in a later catalogue. The lock is held.
func (r *Registry) discover() {
	for i := range r.models.Value {
		c := &r.models.Value[i]
		if !c.Discover || r.config.Discover == nil {
			continue
		}
		r.askAgain(r.found, c.id, c.BaseURL, c.APIKey, nil)
	}
	before := r.local
	r.local = nil
	r.askLlama()
	r.lookAround()
	if !slices.EqualFunc(before, r.local, func(a, b namedEntry) bool { return a.id == b.id && a.BaseURL == b.BaseURL }) { // what else changes, a server has said
		r.catalog = nil
	}
}

// askAgain has the server asked at an address that is known by a name, if its last word is old.
// own are the variables that go with the key.
func (r *Registry) askAgain(known map[string]*discovery, name, address, key string, own map[string]string) *discovery {
	d := known[name]
	if d == nil || d.address != address {
		d = &discovery{address: address}
		known[name] = d
	}
	if d.done == nil && (d.asked.IsZero() || time.Since(d.asked) > freshFor) {
		d.done = make(chan struct{})
		go r.askServer(d, key, own)
	}
	return d
}

// llama is the provider whose server pi's login names, or LLAMA_BASE_URL.
const llama = "llama.cpp"

// askLlama has the server of llama.cpp asked that somebody has signed in to with pi, or
// has named in the environment: it is a provider as if models.json had it. Where models.json
// has one of that name, that counts. The lock is held.
func (r *Registry) askLlama() {
	entry := r.auth.Entries[llama]
	address := strings.TrimSuffix(strings.TrimRight(r.secrets.lookup(entry.Env)("LLAMA_BASE_URL"), "/"), "/v1")
	if address == "" || r.config.Discover == nil || r.inFile(llama) != nil {
		return
	}
	address += "/v1"
	r.askAgain(r.found, llama, address, cmp.Or(entry.Key, "$LLAMA_API_KEY"), entry.Env)
	r.local = append(r.local, namedEntry{llama, providerEntry{Name: llama, BaseURL: address, API: "openai-completions", Discover: true}})
}

// lookAround has the addresses asked at which servers usually are, if that is wanted. What
// has answered is a provider as if models.json had it, by the name of its program; where
// models.json has the address, or the name, that counts. The lock is held.
func (r *Registry) lookAround() {
	if r.config.Local == nil || r.config.Discover == nil {
		return
	}
	for _, address := range r.config.Local() {
		if slices.ContainsFunc(slices.Concat(r.models.Value, r.local), func(c namedEntry) bool { return samePlace(c.BaseURL, address) }) {
			continue
		}
		d := r.askAgain(r.around, address, address, "", nil)
		if len(d.server.Models) == 0 {
			continue
		}
		id := discover.ProviderName(d.server.Kind)
		if r.isBuiltin(id) || r.inFile(id) != nil {
			u, err := url.Parse(address)
			if err != nil || r.inFile(id+"-"+u.Port()) != nil {
				continue
			}
			id += "-" + u.Port()
		}
		r.found[id] = d
		r.local = append(r.local, namedEntry{id, providerEntry{Name: d.server.Kind, BaseURL: address, API: "openai-completions", Discover: true}})
	}
}

// samePlace says whether two addresses are of one server.
func samePlace(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	if errA != nil || errB != nil {
		return false
	}
	name := func(u *url.URL) string {
		if providers.IsLocal(u.String()) && (u.Hostname() == "localhost" || u.Hostname() == "::1") {
			return "127.0.0.1:" + u.Port()
		}
		return u.Host
	}
	return name(ua) == name(ub)
}

// askServer asks one server.
func (r *Registry) askServer(d *discovery, key string, own map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), discoverTime)
	defer cancel()
	secret, err := r.secrets.resolve(ctx, key, own)
	var server providers.LocalServer
	if err == nil {
		server, err = r.config.Discover(ctx, d.address, secret)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		server = d.server
	}
	if !reflect.DeepEqual(server, d.server) || fmt.Sprint(err) != fmt.Sprint(d.err) {
		r.catalog = nil
	}
	d.server, d.err, d.asked = server, err, time.Now()
	close(d.done)
	d.done = nil
}

// Discover waits until the servers have answered that models.json has asked, so that the
// next catalogue has what they said. Where it asks none nothing is waited for.
func (r *Registry) Discover(ctx context.Context) {
	r.mu.Lock()
	r.refresh()
	var waiting []chan struct{}
	for _, list := range []map[string]*discovery{r.found, r.around} {
		for _, d := range list {
			if d.done != nil {
				waiting = append(waiting, d.done)
			}
		}
	}
	r.mu.Unlock()
	for _, done := range waiting {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// answered is what servers have said so far, for another registry. The lock is held.
func answered(list map[string]*discovery) map[string]*discovery {
	out := map[string]*discovery{}
	for provider, d := range list {
		if !d.asked.IsZero() {
			out[provider] = &discovery{address: d.address, server: d.server, err: d.err, asked: d.asked}
		}
	}
	return out
}

// foundAt are the models that a provider's server has said it has. The lock is held.
func (r *Registry) foundAt(provider string, custom *providerEntry) (list []modelEntry) {
	d := r.found[provider]
	if d == nil || !custom.Discover {
		return nil
	}
	for _, m := range d.server.Models {
		e := modelEntry{ID: m.ID, ContextWindow: m.Context, Reasoning: &m.Thinking, Input: []string{"text"}}
		if m.Vision {
			e.Input = append(e.Input, "image")
		}
		if m.Context > 0 {
			e.MaxTokens = min(defaultMaxTokens, m.Context/2)
		}
		if over, ok := custom.overrides[m.ID]; ok {
			e = e.with(over)
		}
		list = append(list, e)
	}
	return list
}

// with is a model as somebody has changed what its server says of it.
func (m modelEntry) with(over modelEntry) modelEntry {
	over.ID = m.ID
	set(&m.Name, over.Name)
	set(&m.ContextWindow, over.ContextWindow)
	set(&m.MaxTokens, over.MaxTokens)
	if over.Reasoning != nil {
		m.Reasoning = over.Reasoning
	}
	if over.Input != nil {
		m.Input = over.Input
	}
	m.API, m.BaseURL, m.Cost, m.Headers, m.Compat, m.LevelMap, m.Stall = over.API, over.BaseURL, over.Cost, over.Headers, over.Compat, over.LevelMap, over.Stall
	return m
}

// unavailable returns why the server of a provider with discover has reported no models, "" if it has. The lock is held.
func (r *Registry) unavailable(provider string) string {
	d, custom := r.found[provider], r.custom(provider)
	switch {
	case custom == nil || !custom.Discover || d == nil || len(d.server.Models) > 0:
		return ""
	case d.err != nil:
		return fmt.Sprintf("provider %q: %v", provider, d.err)
	case d.asked.IsZero():
		return fmt.Sprintf("provider %q: %s has not answered yet", provider, d.address)
	}
	return fmt.Sprintf("provider %q: %s has no models", provider, d.address)
}

// unavailableLocal returns why discover.local has found no server, "" if it has found one or is off. The lock is held.
func (r *Registry) unavailableLocal() string {
	if r.config.Local == nil || r.config.Discover == nil || len(r.local) > 0 {
		return ""
	}
	places := r.config.Local()
	if len(places) == 0 {
		return ""
	}
	return "discover.local: no model server answers at " + strings.Join(places, ", ")
}

// unusedHost reports an OLLAMA_HOST that no configuration uses. The lock is held.
func (r *Registry) unusedHost() error {
	host := r.config.Env("OLLAMA_HOST")
	if host == "" || r.config.Discover == nil || r.config.Local != nil && len(r.config.Local()) > 0 {
		return nil
	}
	address := discover.Places(host)[0]
	if slices.ContainsFunc(r.models.Value, func(c namedEntry) bool { return samePlace(c.BaseURL, address) }) {
		return nil
	}
	return fmt.Errorf(`OLLAMA_HOST alone adds no models: add {"providers": {"ollama": {"baseUrl": %q, "discover": true}}} to models.json`, address)
}

// complaints are what a person should know of a server: that it is down, that the context
// of a model is too small. The lock is held.
func (r *Registry) complaints(provider string) error {
	d, custom := r.found[provider], r.custom(provider)
	switch {
	case custom == nil || !custom.Discover:
		return nil
	case d == nil:
		return fmt.Errorf("provider %q: discover is not available here", provider)
	}
	var list []error
	if d.err != nil {
		text := fmt.Sprintf("provider %q: %v", provider, d.err)
		if len(d.server.Models) > 0 {
			text += "; what it said before counts"
		}
		list = append(list, errors.New(text))
	}
	for _, m := range d.server.Models {
		over := custom.overrides[m.ID].ContextWindow > 0
		for i := range custom.models {
			over = over || custom.models[i].ID == m.ID
		}
		text := discover.Complaint(d.server.Kind, m)
		if text == "" || over {
			continue
		}
		if len(list) == mostWarnings {
			list = append(list, fmt.Errorf("provider %q: more models like these: see troupe models discover %s", provider, d.address))
			break
		}
		list = append(list, fmt.Errorf("provider %q: %s", provider, text))
	}
	return errors.Join(list...)
}
