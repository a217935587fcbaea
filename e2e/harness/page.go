package harness

import (
	"strings"

	"github.com/stretchr/testify/assert"

	"troupe/e2e/browser"
)

// Visit opens the page of the server with a pairing code, and waits until it is ready.
func (s *Server) Visit(tab *browser.Tab, code string) {
	s.T.Helper()
	tab.Load(s.URL + "/#c=" + code)
	tab.Until(`document.documentElement.dataset.ready === "true"`)
}

// CheckTab checks that the page has logged nothing, and requested nothing from
// another host.
func (s *Server) CheckTab(tab *browser.Tab) {
	s.T.Helper()
	for _, said := range strings.Split(tab.Said(), "\n") {
		if !strings.Contains(said, "WebSocket connection to") { // browsers log each one that breaks
			assert.Empty(s.T, said)
		}
	}
	for _, url := range tab.Requests() {
		assert.Regexp(s.T, `^(`+s.URL+`/|data:image/|blob:)`, url)
	}
}
