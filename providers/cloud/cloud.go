// Package cloud finds the credentials that people have for their clouds, where
// the vendors' own tools look for them, and authenticates requests by them.
// Nothing is read, asked or run before a request needs it, and what was found is
// kept in memory only. Credentials go to the hosts of their cloud and to this
// machine, and nowhere else.
package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"troupe/protocol"
	"troupe/providers"
)

// All are the clouds there are, by name. home is the user's home directory, proxy the URL of
// a proxy to login services as [providers.ProxyBy] takes it.
func All(home string, proxy func() string) map[string]providers.Cloud {
	network := &http.Transport{
		Proxy:               func(r *http.Request) (*url.URL, error) { return proxyTo(r, proxy()) },
		TLSHandshakeTimeout: patience, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return map[string]providers.Cloud{
		providers.CloudAWS:    &awsCloud{proxy: network.Proxy},
		providers.CloudGoogle: &googleCloud{home: home, client: clientOf(network)},
		providers.CloudEntra:  &entraCloud{home: home, client: clientOf(network)},

		providers.CloudAnthropic: &anthropicCloud{client: clientOf(network)},
	}
}

// clientOf follows no redirects: what a login service is sent is for nobody else.
func clientOf(network http.RoundTripper) *http.Client {
	return &http.Client{Transport: network, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// proxyTo is the proxy for a request to a login service. What is on this machine, or its
// cloud's service for it, has none: a proxy would be asked who it is itself.
func proxyTo(r *http.Request, proxy string) (*url.URL, error) {
	host := strings.ToLower(r.URL.Hostname())
	ip, err := netip.ParseAddr(host)
	if providers.IsLoopback(host) || isMetadata(r.URL) || err == nil && (ip.Unmap().IsLinkLocalUnicast() || ip == netip.MustParseAddr("fd00:ec2::254")) {
		return nil, nil
	}
	return providers.ProxyBy(proxy)(r.URL)
}

// patience is how long getting credentials may take: a login service that does
// not answer is an error, not a prompt that hangs.
const patience = 20 * time.Second

// maxAccounts bounds the accounts that are remembered.
const maxAccounts = 64

// accounts remembers the signers of a cloud, so that what they found serves all
// requests of an account.
type accounts[T providers.Signer] struct {
	mu    sync.Mutex
	known map[string]T
}

// of returns the signer of the account that values name.
func (a *accounts[T]) of(values []string, make func(account string) T) T {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", values))
	account := hex.EncodeToString(sum[:16])
	a.mu.Lock()
	defer a.mu.Unlock()
	signer, found := a.known[account]
	if !found {
		if a.known == nil || len(a.known) == maxAccounts {
			a.known = map[string]T{}
		}
		signer = make(account)
		a.known[account] = signer
	}
	return signer
}

// look gets the variables of names.
func look(env func(string) string, names []string) (values []string) {
	for _, name := range names {
		values = append(values, env(name))
	}
	return values
}

// allow refuses an address that is neither of a cloud's domains, over TLS, nor
// on this machine.
func allow(address string, domains []string) error {
	u, err := url.Parse(address)
	if err != nil {
		return protocol.ErrorInvalid.Errorf("The address of the model is not a URL")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if providers.IsLoopback(host) {
		return nil
	}
	for _, domain := range domains {
		if strings.HasSuffix("."+host, domain) && u.Scheme == "https" {
			return nil
		}
	}
	return protocol.ErrorAuth.Errorf("The cloud's credentials are not sent to %s: they go by https to *%s and to this machine. Another server needs a key of its own (auth_host_refused)",
		u.Scheme+"://"+host, strings.Join(domains, ", *"))
}
