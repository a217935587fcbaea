package logins

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/protocol"
	"troupe/providers"
)

// person is who signs in, as far as the client that asked can be asked: it implements
// [providers.Dialog]. Its methods are called on the goroutine of the login.
type person struct {
	root    *actor.RootContext
	self    *actor.PID
	router  *actor.PID
	openURL bool
	secrets bool
	afar    bool
}

// refuses says that a login would need what the client does not have.
func (p *person) refuses(how protocol.Login) *protocol.Error {
	asks := how.Method == "paste" || how.Key == "" && how.Method == "api_key"
	if asks && !p.secrets && !(how.Method == "paste" && p.openURL) {
		return protocol.CodeLoginUnsupported.Errorf("This client cannot ask for secrets (feature secretInput): use `troupe login %s`", how.Provider)
	}
	return nil
}

// fits says whether an answer is one to this dialog.
func (d *dialog) fits(a protocol.ExtensionUIResponse) bool {
	switch {
	case a.Cancelled:
		return true
	case a.Value == nil:
		return false
	}
	return d.options == nil || slices.Contains(d.options, *a.Value)
}

// Open shows an address. A client without open_url is told it, and asked for the one that
// the browser ends at if it can be.
func (p *person) Open(ctx context.Context, page providers.LoginPage) (string, error) {
	text := page.Text
	if page.Code != "" {
		text += ": type the code " + page.Code
	}
	if p.openURL {
		request := protocol.ExtensionUIRequest{Method: "open_url", Title: &text, URL: page.URL, LaunchURL: page.Launch, Code: page.Code}
		if page.Code != "" {
			request.ExpiresAt = time.Now().Add(page.Left).UnixMilli()
		}
		return p.ask(ctx, request)
	}
	p.Tell(text + ": " + page.URL)
	if p.secrets && page.Code == "" {
		return p.Ask(ctx, text+": open the address in a browser. If its last page cannot be shown, paste the address of that page here")
	}
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// Pastes implements [providers.Dialog].
func (p *person) Pastes() bool { return p.openURL || p.secrets }

// Ask asks for a secret text.
func (p *person) Ask(ctx context.Context, question string) (string, error) {
	if !p.secrets {
		return "", protocol.CodeLoginUnsupported.Errorf("This client cannot ask for secrets (feature secretInput): sign in with `troupe login` at a terminal")
	}
	return p.ask(ctx, protocol.ExtensionUIRequest{Method: "input", Title: &question, Secret: true})
}

// Choose asks for one of the options.
func (p *person) Choose(ctx context.Context, question string, options ...string) (string, error) {
	return p.ask(ctx, protocol.ExtensionUIRequest{Method: "select", Title: &question, Options: options})
}

// Tell says something.
func (p *person) Tell(text string) {
	p.root.Send(p.self, ask{router: p.router, request: protocol.ExtensionUIRequest{Method: "notify", Message: &text, NotifyType: "info"}})
}

// ask opens a dialog and waits for its answer.
func (p *person) ask(ctx context.Context, request protocol.ExtensionUIRequest) (string, error) {
	answer := make(chan protocol.ExtensionUIResponse, 1)
	p.root.Send(p.self, ask{p.router, request, answer})
	select {
	case a := <-answer:
		if a.Cancelled {
			return "", providers.ErrLoginCancelled
		}
		return *a.Value, nil
	case <-ctx.Done():
	}
	p.root.Send(p.self, over{answer}) // behind the question
	return "", context.Cause(ctx)
}
