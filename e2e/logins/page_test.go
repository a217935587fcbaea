package logins

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/browser"
	"troupe/e2e/harness"
)

// TestPageLogin checks that the page shows the state of each provider. If the daemon allows it, the
// page signs in: it shows the choice, the provider's page and the input for the pasted address. It
// also signs out and cancels a login.
func TestPageLogin(t *testing.T) {
	t.Parallel()
	b := browser.Shared(t)
	p := harness.NewPlace(t)
	v := newVendors(p)
	s := p.Serve("--listen", "127.0.0.1:0", "--allow-login")
	tab := b.NewTab(t, 1280, 860, "light")
	s.Visit(tab, s.Code)
	choose := func(name string) {
		tab.Eval(`document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }))`)
		tab.Until(`document.querySelector("#sheet input[type=search]") !== null`)
		tab.Eval(fmt.Sprintf(`[...document.querySelectorAll("#sheet .pick")].find((b) => b.textContent.startsWith(%q)).click()`, name))
	}
	choose("Provider credentials")
	tab.Until(`document.querySelector('[data-provider="openai"] button') !== null`)
	assert.Equal(t, "no credentials", tab.Eval(`document.querySelector('[data-provider="openai"] p').textContent`))
	tab.Eval(`document.querySelector('[data-provider="openai"] button').click()`)
	tab.Until(`document.querySelector("#login .column button") !== null`)
	assert.Contains(t, tab.Eval(`document.getElementById("login").innerText`), "ChatGPT plan")
	tab.Eval(`document.querySelector("#login .column button").click()`)
	tab.Until(`document.querySelector("#login a") !== null`)
	address := tab.Eval(`document.querySelector("#login a").href`).(string)
	assert.True(t, strings.HasPrefix(address, "https://auth.openai.com/"), address)
	assert.Equal(t, 1, listeners(t, s.Cmd.Process.Pid), "the one of --listen")
	tab.Eval(fmt.Sprintf(`(() => { document.querySelector("#login input").value = %q; document.querySelector("#login form").requestSubmit(); })()`, v.consent(address)))
	tab.Until(`document.querySelector('[data-provider="openai"] p').textContent.includes("a…@mail.example")`)
	assert.Equal(t, false, tab.Eval(`document.getElementById("login").open`))
	assert.Contains(t, tab.Eval(`document.querySelector('[data-provider="openai"] p').textContent`), "ready")

	tab.Eval(`[...document.querySelectorAll('[data-provider="openai"] button')].find((b) => b.textContent === "Sign out").click()`)
	tab.Until(`document.querySelector('[data-provider="openai"] p').textContent === "no credentials"`)
	tab.Eval(`document.querySelector('[data-provider="openrouter"] button').click()`)
	tab.Until(`document.querySelector("#login a") !== null`)
	tab.Eval(`document.querySelector('#login button[aria-label="Cancel"]').click()`)
	tab.Until(`document.getElementById("alert").textContent.includes("was cancelled")`)
	s.CheckTab(tab)
	assert.Equal(t, 143, s.Stop())
	noCanary(t, p, s.Stderr())
}
