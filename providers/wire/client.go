// Package wire is what all wires over HTTP and server-sent events share. A
// [Format] says what requests look like and how answers are read; from one to
// the other it goes through these hands:
//
//	Convert                       makes of the session's messages what any model can be shown
//	Format                        writes the request in the form of its API
//	Client                        sends it, over connections that no two accounts share
//	idleTimer                     gives up on a server that stays silent
//	EventReader, Decoder, Parts   turn the bytes into parts
//	Classify                      says what a failure means
package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"time"

	"troupe/protocol"
	"troupe/providers"
)

// ClientConfig says how a [Client] reaches its servers. The zero value is what
// a daemon wants.
type ClientConfig struct {
	UserAgent string // "" is troupe, the system and the architecture
	// Failed hears of every request that fails, but of those that are aborted, with
	// what the server said; nil for nobody. again is how long it is until the
	// request is made again, 0 if it is not.
	Failed func(model *protocol.Model, err protocol.StreamError, again time.Duration)
	// Dial replaces the network, for tests; nil is TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is the HTTP side that every wire shares. Connections are kept and
// reused, but never between different credentials: a server that remembers who
// a connection belongs to cannot mix up two accounts. It is safe for concurrent
// use.
type Client struct {
	config ClientConfig

	mu    sync.Mutex
	pool  map[route]*http.Transport
	order []route // of pool, the least recently used first
}

// route is what requests must have in common to share connections.
type route struct {
	account account
	proxy   string
}

// account tells credentials apart without keeping them.
type account [sha256.Size]byte

// maxAccounts bounds the transports that are kept. The connections of one that
// is pushed out close when their answers have ended.
const maxAccounts = 64

// NewClient makes a client. It connects to nothing yet.
func NewClient(config ClientConfig) *Client {
	config.UserAgent = cmp.Or(config.UserAgent, fmt.Sprintf("troupe (%s; %s)", runtime.GOOS, runtime.GOARCH))
	return &Client{config: config, pool: map[route]*http.Transport{}}
}

// report masks the secrets of a request in its failure, with those of its
// signature, and tells who wants to know.
func (c *Client) report(req *providers.Request, signed map[string]string, err *protocol.StreamError, again time.Duration) {
	mask(&req.Credentials, err)
	mask(&providers.Credentials{Headers: signed}, err)
	if c.config.Failed != nil && err.Kind != protocol.ErrorAborted {
		c.config.Failed(req.Model, *err, again)
	}
}

// Close closes the connections that nobody uses. Answers still under way are
// not disturbed; the client stays usable.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.pool {
		t.CloseIdleConnections()
	}
}

// transport returns the connections of an account through a proxy.
func (c *Client) transport(cred *providers.Credentials, proxy string) *http.Transport {
	who := route{accountOf(cred), proxy}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.order, who); i >= 0 {
		c.order = append(slices.Delete(c.order, i, i+1), who)
		return c.pool[who]
	}
	if len(c.order) == maxAccounts {
		c.pool[c.order[0]].CloseIdleConnections()
		delete(c.pool, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
	t := c.newTransport(proxy)
	c.pool[who] = t
	c.order = append(c.order, who)
	return t
}

// writeBuffer holds the beginning of a conversation whole: what does not fit is copied
// through another buffer, which is made for each request. A connection keeps it while an
// answer streams in, so a hundred tasks have a hundred of them.
const writeBuffer = 16 << 10

// readBuffer holds about a hundred deltas: a burst of them takes a call of the system
// for each buffer.
const readBuffer = 16 << 10

func (c *Client) newTransport(proxyURL string) *http.Transport {
	dial := c.config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	way := providers.ProxyBy(proxyURL)
	return &http.Transport{
		DialContext:         dial,
		Proxy:               func(r *http.Request) (*url.URL, error) { return way(r.URL) },
		TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // compressors hold events back
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		WriteBufferSize:     writeBuffer,
		ReadBufferSize:      readBuffer,
	}
}

// accountOf is a fingerprint of everything a request authenticates with.
func accountOf(c *providers.Credentials) account {
	h := sha256.New()
	fmt.Fprintf(h, "%q %t", c.Key, c.Bearer)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		fmt.Fprintf(h, " %q=%q", name, c.Headers[name])
	}
	if c.Signer != nil {
		fmt.Fprintf(h, " %q", c.Signer.Account())
	}
	return account(h.Sum(nil))
}

// Authorize puts credentials into h: the key in the header called name, or as
// Authorization: Bearer if name is "" or c asks for it, and then the extra
// headers, which replace what is there. No key is no header.
func Authorize(h http.Header, c *providers.Credentials, name string) {
	switch {
	case c.Key == "":
	case c.Bearer || name == "":
		h.Set("Authorization", "Bearer "+c.Key)
	default:
		h.Set(name, c.Key)
	}
	for key, value := range c.Headers {
		h.Set(key, value)
	}
}
