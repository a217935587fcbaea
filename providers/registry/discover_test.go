package registry

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// TestDiscover: a server that models.json names is asked what it has, nobody waits for it
// but at the start, and what it said last counts while it is down.
func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var asked []string
		server, failed := providers.LocalServer{Kind: "Ollama", Models: []providers.LocalModel{{ID: "a", Context: 4096}, {ID: "b", Context: 65536, Vision: true, Thinking: true}}}, error(nil)
		h.config.Discover = func(_ context.Context, address, key string) (providers.LocalServer, error) {
			time.Sleep(time.Second)
			asked = append(asked, address+" "+key)
			return server, failed
		}
		h.write("models.json", `{"providers": {"mine": {"baseUrl": "http://127.0.0.1:11434/v1", "discover": true, "apiKey": "k",
			"models": [{"id": "c"}], "modelOverrides": {"b": {"name": "Bee", "maxTokens": 100}}}}}`)
		begun := time.Now()
		c, err := h.Catalog()
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
		assert.Nil(t, c.Find("mine", "a"))
		assert.NotNil(t, c.Find("mine", "c"))
		h.Discover(t.Context())
		c, err = h.Catalog()
		require.ErrorContains(t, err, `provider "mine": a has a context of 4096 tokens, which is too small for an agent: set OLLAMA_CONTEXT_LENGTH`)
		assert.NotContains(t, err.Error(), "b has")
		a, b := c.Find("mine", "a"), c.Find("mine", "b")
		require.NotNil(t, a)
		require.NotNil(t, b)
		assert.Equal(t, "openai-completions 4096 2048", a.API+" "+itoa(a.ContextWindow)+" "+itoa(a.MaxTokens))
		assert.Equal(t, "Bee 65536 100", b.Name+" "+itoa(b.ContextWindow)+" "+itoa(b.MaxTokens))
		assert.True(t, b.Reasoning && b.Accepts("image"))
		assert.True(t, c.HasKey("mine"))
		assert.Equal(t, []string{"http://127.0.0.1:11434/v1 k"}, asked)
		again, _ := h.Catalog()
		assert.Same(t, c, again)

		other, _ := h.With(nil)
		oc, _ := other.Catalog()
		assert.NotNil(t, oc.Find("mine", "a"), "a session with extensions has them at once")

		time.Sleep(freshFor + time.Second)
		failed, server = errors.New("no server answers"), providers.LocalServer{}
		again, _ = h.Catalog()
		assert.Same(t, c, again, "it is asked in the background")
		h.Discover(t.Context())
		c, err = h.Catalog()
		require.ErrorContains(t, err, "no server answers; what it said before counts")
		assert.NotNil(t, c.Find("mine", "a"))
	})
}

// TestDiscoverLlama: the server of llama.cpp that pi was signed in to, or that the environment
// names, is a provider, with its key; models.json goes before it.
func TestDiscoverLlama(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		var asked []string
		h.config.Discover = func(_ context.Context, address, key string) (providers.LocalServer, error) {
			asked = append(asked, address+" "+key)
			return providers.LocalServer{Kind: "llama.cpp", Models: []providers.LocalModel{{ID: "m", Context: 65536}}}, nil
		}
		use := func() (providers.Request, *protocol.StreamError) {
			h.Discover(t.Context())
			h.catalog()
			return h.ask("llama.cpp", "m")
		}
		env := map[string]string{}
		h.config.Env = func(name string) string { return env[name] }
		h.secrets.env = h.config.Env
		h.catalog()
		assert.Empty(t, asked)

		h.write("auth.json", `{"llama.cpp": {"type": "api_key", "key": "sekret", "env": {"LLAMA_BASE_URL": "http://127.0.0.1:8080/"}}}`)
		req, failed := use()
		require.Nil(t, failed)
		assert.Equal(t, []string{"http://127.0.0.1:8080/v1 sekret"}, asked)
		assert.Equal(t, "http://127.0.0.1:8080/v1 sekret", req.Model.BaseURL+" "+req.Credentials.Key)
		assert.True(t, h.Secrets(func(string) bool { return false })["LLAMA_API_KEY"])

		asked = nil
		h.write("auth.json", `{"llama.cpp": {"type": "api_key", "env": {"LLAMA_BASE_URL": "http://127.0.0.1:9931/v1"}}}`)
		req, failed = use()
		require.Nil(t, failed)
		assert.Equal(t, []string{"http://127.0.0.1:9931/v1 "}, asked)
		assert.Equal(t, "http://127.0.0.1:9931/v1 ", req.Model.BaseURL+" "+req.Credentials.Key, "no key, and none needed")

		asked = nil
		h.write("auth.json", `{}`)
		env["LLAMA_BASE_URL"], env["LLAMA_API_KEY"] = "http://10.0.0.1:8080", "from-env"
		req, failed = use()
		require.Nil(t, failed)
		assert.Equal(t, []string{"http://10.0.0.1:8080/v1 from-env"}, asked)
		assert.Equal(t, "http://10.0.0.1:8080/v1 from-env", req.Model.BaseURL+" "+req.Credentials.Key)
		report := h.Auth("llama.cpp").Providers
		require.Len(t, report, 1)
		assert.Equal(t, "environment LLAMA_API_KEY", report[0].Source+" "+report[0].Variable)

		h.write("models.json", `{"providers": {"llama.cpp": {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions", "models": [{"id": "m"}]}}}`)
		req, failed = use()
		require.Nil(t, failed)
		assert.Equal(t, "http://127.0.0.1:1/v1", req.Model.BaseURL)
		delete(env, "LLAMA_BASE_URL")
		h.write("models.json", `{}`)
		assert.Nil(t, h.catalog().Find("llama.cpp", "m"))
	})
}

// TestDiscover_unavailable: with a configured server that is down or has no models, the demo model is not offered, and
// the catalogue names the reason.
func TestDiscover_unavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.config.Offline = "scripted"
		server, failed := providers.LocalServer{}, errors.New("http://127.0.0.1:11434/v1: no server answers")
		h.config.Discover = func(context.Context, string, string) (providers.LocalServer, error) { return server, failed }
		h.write("models.json", `{"providers": {"mine": {"baseUrl": "http://127.0.0.1:11434/v1", "discover": true}}}`)
		c, _ := h.Catalog()
		assert.Equal(t, map[string]string{"mine": `provider "mine": http://127.0.0.1:11434/v1 has not answered yet`}, c.Unavailable)
		h.Discover(t.Context())
		c, _ = h.Catalog()
		assert.Equal(t, map[string]string{"mine": `provider "mine": http://127.0.0.1:11434/v1: no server answers`}, c.Unavailable)
		assert.Empty(t, c.Keys)
		assert.Nil(t, providers.ChooseModel(c, providers.Wishes{}).Model)

		time.Sleep(freshFor + time.Second)
		server, failed = providers.LocalServer{Kind: "Ollama"}, nil
		h.Discover(t.Context())
		c, _ = h.Catalog()
		assert.Equal(t, map[string]string{"mine": `provider "mine": http://127.0.0.1:11434/v1 has no models`}, c.Unavailable)
		assert.Empty(t, c.Keys)

		time.Sleep(freshFor + time.Second)
		server.Models = []providers.LocalModel{{ID: "a", Context: 65536}}
		h.Discover(t.Context())
		c, err := h.Catalog()
		require.NoError(t, err)
		assert.Empty(t, c.Unavailable)
		assert.Equal(t, "a", providers.ChooseModel(c, providers.Wishes{}).Model.ID)

		h.write("models.json", `{}`)
		h.config.Local = func() []string { return []string{"http://127.0.0.1:1/v1"} }
		server, failed = providers.LocalServer{}, errors.New("no server answers")
		h.Discover(t.Context())
		c, _ = h.Catalog()
		assert.Equal(t, map[string]string{"discover.local": "discover.local: no model server answers at http://127.0.0.1:1/v1"}, c.Unavailable)
		assert.Empty(t, c.Keys)
	})
}

// TestOllamaHost: an OLLAMA_HOST that no configuration uses is reported while the demo model is offered.
func TestOllamaHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.config.Offline = "scripted"
		h.config.Env = func(name string) string { return map[string]string{"OLLAMA_HOST": "127.0.0.1:9"}[name] }
		h.config.Discover = func(context.Context, string, string) (providers.LocalServer, error) {
			return providers.LocalServer{Kind: "Ollama", Models: []providers.LocalModel{{ID: "a", Context: 65536}}}, nil
		}
		_, err := h.Catalog()
		require.EqualError(t, err, `OLLAMA_HOST alone adds no models: add {"providers": {"ollama": {"baseUrl": "http://127.0.0.1:9/v1", "discover": true}}} to models.json`)
		h.SetKey("openai", "k")
		_, err = h.Catalog()
		require.NoError(t, err)
		h.SetKey("openai", "")
		h.write("models.json", `{"providers": {"ollama": {"baseUrl": "http://127.0.0.1:9/v1", "discover": true}}}`)
		h.Discover(t.Context())
		_, err = h.Catalog()
		require.NoError(t, err)
	})
}

func itoa(n int64) string { return string(protocol.AppendValue(nil, n)) }

// TestDiscover_asked: nobody is asked unless models.json says so.
func TestDiscover_asked(t *testing.T) {
	h := newHouse(t)
	h.config.Discover = func(context.Context, string, string) (providers.LocalServer, error) {
		t.Error("asked")
		return providers.LocalServer{}, nil
	}
	h.write("models.json", `{"providers": {"mine": {"baseUrl": "http://127.0.0.1:11434/v1", "api": "wire", "models": [{"id": "m"}]}}}`)
	h.Discover(t.Context())
	h.catalog()
	h.write("models.json", `{"providers": {"mine": {"discover": true}}}`)
	_, err := h.Catalog()
	require.ErrorContains(t, err, "discover needs a baseUrl")
	h.config.Discover = nil
	h.write("models.json", `{"providers": {"mine": {"baseUrl": "http://127.0.0.1:11434/v1", "discover": true}}}`)
	_, err = h.Catalog()
	require.ErrorContains(t, err, "discover is not available here")
}

// TestDiscoverLocal: servers are looked for on this machine only where that is wanted, have the
// name of their program, and give way to what models.json says.
func TestDiscoverLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		asked := map[string]int{}
		var mu sync.Mutex
		wanted := false
		h.config.Local = func() []string {
			if !wanted {
				return nil
			}
			return []string{"http://127.0.0.1:11434/v1", "http://127.0.0.1:8080/v1", "http://127.0.0.1:1234/v1", "http://127.0.0.1:8000/v1"}
		}
		h.config.Discover = func(_ context.Context, address, _ string) (providers.LocalServer, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[address]++
			model := []providers.LocalModel{{ID: "m", Context: 65536}}
			switch address {
			case "http://127.0.0.1:11434/v1":
				return providers.LocalServer{Kind: "Ollama", Models: model}, nil
			case "http://127.0.0.1:8080/v1", "http://127.0.0.1:8000/v1":
				return providers.LocalServer{Kind: "llama.cpp", Models: model}, nil
			}
			return providers.LocalServer{}, errors.New("no server answers")
		}
		names := func() (list []string) {
			_, err := h.Catalog()
			require.NoError(t, err, "one that is not there is no problem")
			h.Discover(t.Context())
			c, err := h.Catalog()
			require.NoError(t, err)
			for _, m := range c.Models {
				if m.ID == "m" {
					assert.True(t, c.HasKey(m.Provider))
					list = append(list, m.Provider+" "+m.BaseURL)
				}
			}
			return list
		}
		assert.Empty(t, names())
		assert.Empty(t, asked, "no packet unless asked")
		wanted = true
		assert.Equal(t, []string{"ollama http://127.0.0.1:11434/v1", "llamacpp http://127.0.0.1:8080/v1", "llamacpp-8000 http://127.0.0.1:8000/v1"}, names())
		assert.Len(t, asked, 4)
		req, failed := h.ask("llamacpp-8000", "m")
		require.Nil(t, failed)
		assert.Equal(t, "http://127.0.0.1:8000/v1", req.Model.BaseURL)
		names()
		assert.Equal(t, 1, asked["http://127.0.0.1:1234/v1"], "at most once a minute")
		h.write("models.json", `{"providers": {"mine": {"baseUrl": "http://localhost:8080/v1", "api": "openai-completions", "models": [{"id": "m"}]}, "ollama": {"baseUrl": "http://10.0.0.1:11434/v1", "api": "openai-completions", "models": [{"id": "m"}]}}}`)
		assert.Equal(t, []string{"mine http://localhost:8080/v1", "ollama http://10.0.0.1:11434/v1", "ollama-11434 http://127.0.0.1:11434/v1", "llamacpp http://127.0.0.1:8000/v1"}, names())
		wanted = false
		assert.Len(t, names(), 2)
	})
}
