package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// Device is a login by a code that is typed at another machine (RFC 8628), as a person has
// configured it for a service of their own: troupe brings no client id of anybody.
type Device struct {
	DeviceURL string `json:"deviceUrl"` // where a code is asked for
	TokenURL  string `json:"tokenUrl"`  // where tokens are
	ClientID  string `json:"clientId"`
	Scope     string `json:"scope"`

	Origin string `json:"-"` // of the provider's models, https://HOST: where tokens go, and nowhere else
}

// Check says what is wrong with a configured login, nil for nothing.
func (d *Device) Check() error {
	switch {
	case !isSafe(d.DeviceURL), !isSafe(d.TokenURL):
		return because(causeConfig, "login needs deviceUrl and tokenUrl, by https or on this machine")
	case d.ClientID == "":
		return because(causeConfig, "login needs the clientId that its service has given")
	}
	return nil
}

// isSafe says whether secrets may go to a URL.
func isSafe(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && providers.IsLoopback(u.Hostname()))
}

// SetDevices says which providers have a login by code, in place of what was said before.
// Those that the policies know have none.
func (s *Store) SetDevices(of map[string]Device) { s.devices.Store(&of) }

// device is a provider's login by code.
func (s *Store) device(provider string) (d Device, found bool) {
	if of := s.devices.Load(); of != nil {
		if _, known := policies[provider]; !known {
			d, found = (*of)[provider]
		}
	}
	return d, found
}

// Limits of a login by code, where its service does not say.
const (
	pollEvery   = 5 * time.Second
	pollSlower  = 5 * time.Second
	longestPoll = time.Minute
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
)

// loginDevice shows the person a code and waits until it was typed.
func (s *Store) loginDevice(ctx context.Context, how protocol.Login, person providers.Dialog) (string, error) {
	d, _ := s.device(how.Provider)
	if err := s.mayReplace(ctx, how.Provider, person); err != nil {
		return "", err
	}
	form := url.Values{"client_id": {d.ClientID}}
	if d.Scope != "" {
		form.Set("scope", d.Scope)
	}
	asking, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	got, err := s.call(asking, http.MethodPost, d.DeviceURL, formType, []byte(form.Encode()))
	if err != nil {
		return "", err
	}
	page, every, err := s.codePage(how.Provider, got)
	if err != nil {
		return "", err
	}
	limited, stop := context.WithTimeoutCause(ctx, page.Left, errTimeout)
	defer stop()
	shown := make(chan error, 1)
	showing, hide := context.WithCancel(limited)
	defer hide()
	go func() {
		_, err := person.Open(showing, page)
		shown <- err
	}()
	out, err := s.poll(limited, d, got.Get("device_code").Str, every, shown)
	if err != nil {
		return "", err
	}
	t, _, err := s.issued(out, Entry{Client: d.ClientID})
	if err != nil {
		return "", err
	}
	if t.refresh == "" { // there is nothing to renew it by: it is used to its end
		t.refresh = noRefresh
	}
	return "", s.saveLogin(ctx, how.Provider, t, note{Client: d.ClientID})
}

// noRefresh stands for a refresh token that a service does not give: an entry without any
// would be a key for ever.
const noRefresh = "none"

// codePage is what the person is to see, and how often to ask whether they have.
func (s *Store) codePage(provider string, got answer) (page providers.LoginPage, every time.Duration, err error) {
	page = providers.LoginPage{
		Text: "Sign in to " + provider, URL: got.Get("verification_uri").Str, Launch: got.Get("verification_uri_complete").Str,
		Code: clean(got.Get("user_code").Str), Left: seconds(got.Get("expires_in"), loginTime),
	}
	switch {
	case got.Get("device_code").Str == "" || page.Code == "":
		return page, 0, because(causeAnswer, "the login service gave no code")
	case !isSafe(page.URL):
		return page, 0, because(causeAnswer, "the login service wants the code typed at an address that is not safe")
	case !isSafe(page.Launch):
		page.Launch = ""
	}
	return page, min(seconds(got.Get("interval"), pollEvery), longestPoll), nil
}

// seconds is a positive time that a service gives in seconds.
func seconds(v gjson.Result, otherwise time.Duration) time.Duration {
	if v.Type != gjson.Number || v.Num <= 0 {
		return otherwise
	}
	return time.Duration(min(v.Num, maxLoginTime.Seconds()) * float64(time.Second))
}

// poll asks for tokens until there are some; the first time after a pause. shown is the end
// of the page at the person's.
func (s *Store) poll(ctx context.Context, d Device, code string, every time.Duration, shown <-chan error) (answer, error) {
	form := url.Values{"grant_type": {deviceGrant}, "device_code": {code}, "client_id": {d.ClientID}}
	for {
		wait := time.NewTimer(every)
		select {
		case <-ctx.Done():
			wait.Stop()
			return answer{}, context.Cause(ctx)
		case err := <-shown:
			wait.Stop()
			if err != nil {
				return answer{}, err
			}
			shown = nil // it was answered, which is no news
			continue
		case <-wait.C:
		}
		asking, cancel := context.WithTimeout(ctx, exchangeTime)
		out, err := s.call(asking, http.MethodPost, d.TokenURL, formType, []byte(form.Encode()), code)
		cancel()
		var said *refusal
		switch {
		case err == nil:
			return out, nil
		case !errors.As(err, &said), said.status/100 == 5: // the network, or a service that is down for a moment
		case said.code == "authorization_pending":
		case said.code == "slow_down":
			every = min(max(every+pollSlower, seconds(out.Get("interval"), 0)), longestPoll)
		case said.code == "access_denied":
			return answer{}, because(causeDenied, "it was declined (access_denied)")
		case said.code == "expired_token":
			return answer{}, errTimeout
		default:
			return answer{}, err
		}
	}
}

// refreshDevice renews such a login.
func (s *Store) refreshDevice(ctx context.Context, d Device, e Entry) (tokens, time.Duration, error) {
	if e.Refresh == noRefresh {
		return tokens{}, 0, &finalError{text: "it is over, and its service gave nothing to renew it by"}
	}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {e.Client}, "refresh_token": {e.Refresh}}
	if d.Scope != "" {
		form.Set("scope", d.Scope)
	}
	return s.renewed(ctx, d.TokenURL, form, e)
}
