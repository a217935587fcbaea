package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// entraRequest is a request to a service that gives tokens, or says where they are given.
type entraRequest struct {
	method, address string
	header          map[string]string
	form            url.Values   // nil for no body
	client          *http.Client // nil for the usual one
	passing         []int        // the answers after which it is sent once more; nil for the usual ones
	once            bool         // it is not sent again
}

// passingStatus are the answers that the next one may differ from.
var passingStatus = []int{408, 429, 500, 502, 503, 504}

// maxPause is the longest that a service may ask us to wait.
const maxPause = patience / 2

// entraAnswer is what a service says.
type entraAnswer struct {
	status int
	header http.Header
	said   gjson.Result // nothing where it is not JSON
	text   string
}

// ask sends a request, and once more after a failure that may have passed: a prompt waits, and
// what fails twice is said. The answer may be a refusal.
func (l *entraLogin) ask(ctx context.Context, r entraRequest) (entraAnswer, error) {
	a, err := l.try(ctx, r)
	passing := r.passing
	if passing == nil {
		passing = passingStatus
	}
	pause := l.pauseAfter(a)
	if r.once || ctx.Err() != nil || err == nil && !slices.Contains(passing, a.status) || pause > maxPause {
		return a, orDone(ctx, err)
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return entraAnswer{}, ctx.Err()
	}
	a, err = l.try(ctx, r)
	return a, orDone(ctx, err)
}

// orDone is why a request failed, which is nothing about the service where nobody waits for it.
func orDone(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// pauseAfter is how long to wait before a request is sent again: what the service asks for, or
// about half a second.
func (l *entraLogin) pauseAfter(a entraAnswer) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "Retry-After"} {
		value, unit := a.header.Get(name), time.Millisecond
		if name == "Retry-After" {
			unit = time.Second
			if date, err := http.ParseTime(value); err == nil {
				return time.Until(date)
			}
		}
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			return time.Duration(min(n, 1e6)) * unit
		}
	}
	return time.Duration((0.8 + rand.Float64()/2) * float64(l.pause))
}

// try sends a request once. It may take half of the patience that there is.
func (l *entraLogin) try(ctx context.Context, r entraRequest) (entraAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	var body io.Reader
	if r.form != nil {
		body = strings.NewReader(r.form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.address, body)
	if err != nil {
		return entraAnswer{}, err
	}
	if r.form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "troupe")
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	client := r.client
	if client == nil {
		client = l.client
	}
	resp, err := client.Do(req)
	if err != nil {
		return entraAnswer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	if err != nil {
		return entraAnswer{}, fmt.Errorf("the answer of %s: %w", req.URL.Host, err)
	}
	a := entraAnswer{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if protocol.ValidJSON(text) {
		a.said = gjson.ParseBytes(text)
	}
	return a, nil
}

// refusal says why a service gives nothing, in its words. What it does not name as such is not
// repeated: it may be what it was sent.
func (a entraAnswer) refusal() error {
	why := a.said.Get("error")
	about := a.said.Get("error_description")
	if why.IsObject() {
		why, about = why.Get("code"), why.Get("message")
	}
	if !about.Exists() {
		about = a.said.Get("message")
	}
	return errors.New(strings.TrimRight(fmt.Sprintf("the service refuses (HTTP %d): %.200s %.600s", a.status, why.String(), about.String()), " :"))
}

// errNoToken is about an answer that is none: something else may listen there.
var errNoToken = errors.New("the service gave no token that can be used")

// token reads the answer of a service that gives one.
func (a entraAnswer) token() (token, error) {
	end, ok := endOf(a.said.Get("expires_on"), a.said.Get("expires_in"), time.Now())
	if !ok {
		return token{}, errNoToken
	}
	return newToken(a.said.Get("access_token").Str, end)
}

// newToken is a token of which a header can be made.
func newToken(value string, end time.Time) (token, error) {
	if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return token{}, errNoToken
	}
	return token{value, end}, nil
}

// endOf is when a token ends: on is a time, in seconds since 1970 as a number or as a string, or
// a date that is of UTC where it does not say; in are seconds from now.
func endOf(on, in gjson.Result, now time.Time) (time.Time, bool) {
	if seconds, ok := secondsOf(on); ok {
		return time.Unix(seconds, 0), true
	}
	if on.Str != "" {
		for _, layout := range []string{"01/02/2006 15:04:05", time.DateTime, time.RFC3339Nano} {
			if end, err := time.Parse(layout, on.Str); err == nil {
				return end, true
			}
		}
		return time.Time{}, false
	}
	seconds, ok := secondsOf(in)
	return now.Add(time.Duration(min(seconds, 10*365*24*3600)) * time.Second), ok
}

// secondsOf reads a number, which some services write as a string.
func secondsOf(v gjson.Result) (int64, bool) {
	switch v.Type {
	case gjson.Number:
		return int64(v.Num), true
	case gjson.String:
		n, err := strconv.ParseInt(v.Str, 10, 64)
		return n, err == nil
	}
	return 0, false
}
