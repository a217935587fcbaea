package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// secretText is 32 random bytes as text.
func secretText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// challenge is what proves a verifier (PKCE, S256).
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// callback waits on this machine for a browser that comes back from a vendor.
type callback struct {
	redirect string // the URL that the vendor sends the browser to
	path     string
	state    string // "" for none
	got      chan url.Values
	server   *http.Server
}

// maxQuery bounds what a browser brings, in bytes.
const maxQuery = 4 << 10

// listen begins to wait at a port, any free one for 0.
func listen(port int, path, state string) (*callback, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	host := l.Addr().String()
	c := &callback{redirect: "http://" + host + path, path: path, state: state, got: make(chan url.Values, 1)}
	c.server = &http.Server{
		Handler: c, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		IdleTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
	c.server.SetKeepAlivesEnabled(false)
	go func() { _ = c.server.Serve(l) }() // ends with close
	return c, nil
}

// close frees the port.
func (c *callback) close() {
	if c != nil {
		_ = c.server.Close()
	}
}

// arrived is what the browser brings; nil, for ever, without a listener.
func (c *callback) arrived() <-chan url.Values {
	if c == nil {
		return nil
	}
	return c.got
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	host := strings.TrimPrefix(c.redirect, "http://")
	host = host[:strings.IndexByte(host, '/')]
	switch {
	case r.URL.Path != c.path:
		c.page(w, http.StatusNotFound, "Nothing is here.")
	case r.Method != http.MethodGet:
		c.page(w, http.StatusMethodNotAllowed, "This page is for a browser that comes back from signing in.")
	case r.Host != host || len(r.URL.RawQuery) > maxQuery:
		c.page(w, http.StatusBadRequest, "This is not an answer to what was asked.")
	default:
		values := r.URL.Query()
		if err := rightState(values, c.state); err != nil {
			c.page(w, http.StatusBadRequest, "This is not an answer to what was asked. Sign in again from troupe.")
			return
		}
		select {
		case c.got <- values:
			if values.Get("error") != "" {
				c.page(w, http.StatusOK, "Signing in was declined. You can close this page.")
				return
			}
			c.page(w, http.StatusOK, "troupe goes on from here. You can close this page.")
		default: // it came before
			c.page(w, http.StatusBadRequest, "This answer was given before.")
		}
	}
}

func (c *callback) page(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><title>troupe</title><p>%s</p>\n", text)
}

var errState = errors.New("the answer belongs to another attempt to sign in")

// rightState compares in a time that says nothing about the state.
func rightState(values url.Values, state string) error {
	if state != "" && subtle.ConstantTimeCompare([]byte(values.Get("state")), []byte(state)) != 1 {
		return errState
	}
	return nil
}

// pasted reads the URL that a person has copied out of the browser.
func pasted(text, state string) (url.Values, error) {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || len(text) > 2*maxQuery || u.RawQuery == "" {
		return nil, errors.New("that is not the address of the page that the browser ended at: it begins with http://127.0.0.1 and has code= in it")
	}
	values := u.Query()
	if err := rightState(values, state); err != nil {
		return nil, err
	}
	return values, nil
}
