package registry

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers/auth"
)

// planService answers for the vendor of a plan.
type planService struct {
	asked  []string
	status int
	body   string
}

func (p *planService) RoundTrip(r *http.Request) (*http.Response, error) {
	p.asked = append(p.asked, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
	return &http.Response{StatusCode: p.status, Body: io.NopCloser(strings.NewReader(p.body)), Header: http.Header{}}, nil
}

// TestPlan: what a plan lists is there beside the catalogue, once the login was used, and goes
// with it; without a login, or before its first request, nobody is asked.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		service := &planService{status: 200, body: `{"models":[{"slug":"gpt-new","display_name":"GPT New","visibility":"list","context_window":400000,"supported_reasoning_levels":[{"effort":"low"}],"input_modalities":["text","image"]},
			{"slug":"gpt-5.5","display_name":"Another name","visibility":"list"},{"slug":"hidden","visibility":"hide"},{"slug":"bad\nid","visibility":"list"},{"visibility":"list"}]}`}
		logins := auth.Open(auth.Config{Dir: h.dir, Transport: service})
		defer logins.Close()
		h.config.Logins = logins
		ids := func() (list []string) {
			h.catalog()
			synctest.Wait()
			for _, m := range h.catalog().Models {
				if m.Provider == "openai" {
					list = append(list, m.ID)
				}
			}
			return list
		}
		h.write("auth.json", `{"openai": `+strings.Replace(loginEntry("access-token"), "{", `{"clientId": "c", `, 1)+`}`)
		before := ids()
		assert.Empty(t, service.asked, "not before it is used")
		req, failed := h.ask("openai", "gpt-5.5")
		require.Nil(t, failed)
		_, err := req.Credentials.Signer.Sign(t.Context(), "https://api.openai.com/v1/responses", nil)
		require.NoError(t, err)
		assert.Equal(t, append(before, "gpt-new"), ids())
		for range 3 {
			ids()
		}
		assert.Equal(t, []string{"GET https://api.openai.com/v1/models Bearer access-token"}, service.asked)
		m := h.catalog().Find("openai", "gpt-new")
		require.NotNil(t, m)
		known := h.catalog().Find("openai", "gpt-5.5")
		assert.Equal(t, "GPT New 400000 true "+known.API+" "+known.BaseURL, m.Name+" "+itoa(m.ContextWindow)+" "+map[bool]string{true: "true"}[m.Reasoning && m.Accepts("image")]+" "+m.API+" "+m.BaseURL)
		assert.NotEqual(t, "Another name", known.Name, "the catalogue knows better")
		req, failed = h.ask("openai", "gpt-new")
		require.Nil(t, failed)
		assert.NotNil(t, req.Credentials.Signer)

		service.status = 500
		time.Sleep(50 * time.Minute)
		h.write("auth.json", `{"openai": `+strings.Replace(loginEntry("access-two"), "{", `{"clientId": "c", `, 1)+`}`)
		assert.Contains(t, ids(), "gpt-new", "what was said before counts")
		assert.Len(t, service.asked, 2)
		h.write("auth.json", "{}")
		h.SetKey("openai", "key")
		assert.Equal(t, before, ids(), "a key has no plan")
	})
}
