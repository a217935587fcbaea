package providers

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// ProxyBy is how requests go where a proxy is configured, by its URL: through it, but for the
// hosts that NO_PROXY names, written as for the proxies of the environment. Unlike those it
// also leads to this machine unless NO_PROXY says otherwise, as pi's does. "" obeys
// HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A way of nil is the direct one.
func ProxyBy(proxy string) func(to *url.URL) (way *url.URL, err error) {
	environment := httpproxy.FromEnvironment()
	if proxy == "" {
		return environment.ProxyFunc()
	}
	if !strings.Contains(proxy, "://") {
		proxy = "http://" + proxy
	}
	way, err := url.Parse(proxy)
	if err != nil || way.Host == "" {
		err := errors.New("the setting httpProxy is not a URL") // which may have a password in it
		return func(*url.URL) (*url.URL, error) { return nil, err }
	}
	through := (&httpproxy.Config{HTTPProxy: proxy, HTTPSProxy: proxy, NoProxy: environment.NoProxy}).ProxyFunc()
	return func(to *url.URL) (*url.URL, error) {
		switch {
		case !IsLoopback(to.Hostname()):
			return through(to)
		case isNamed(to, environment.NoProxy): // of this machine the library sends nothing
			return nil, nil
		}
		return way, nil
	}
}

// isNamed says whether NO_PROXY names the host of a URL on this machine.
func isNamed(u *url.URL, noProxy string) bool {
	ip, _ := netip.ParseAddr(u.Hostname())
	for _, name := range strings.FieldsFunc(noProxy, func(r rune) bool { return r == ',' || r == ' ' }) {
		if name == "*" || strings.EqualFold(name, u.Host) || strings.EqualFold(strings.Trim(name, "[]"), u.Hostname()) {
			return true
		}
		if of, err := netip.ParsePrefix(name); err == nil && of.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
