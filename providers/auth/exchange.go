package auth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// maxAnswer bounds what a login service may say, in bytes.
const maxAnswer = 256 << 10

// refusal is what a login service says instead of an answer.
type refusal struct {
	status int
	code   string // the error of OAuth
	text   string // cleaned
}

func (e *refusal) Error() string {
	out := e.code
	if e.status != 0 {
		out = strings.TrimSuffix(fmt.Sprintf("(HTTP %d): %s", e.status, e.code), ": ")
	}
	if e.text != "" {
		out += ": " + e.text
	}
	return out
}

// spent are the errors after which a refresh token is worth nothing.
var spent = []string{
	"invalid_grant", "invalid_refresh_token", "token_expired", "refresh_token_expired", "refresh_token_invalidated", "refresh_token_reused",
}

// answer is a JSON object of a login service, and its clock.
type answer struct {
	gjson.Result
	date time.Time // zero if it did not say
}

// call makes one request to a login service. Nothing of the body is logged; secrets
// are kept out of errors.
func (s *Store) call(ctx context.Context, method, address, contentType string, body []byte, secrets ...string) (answer, error) {
	return s.callAs(ctx, "", method, address, contentType, body, secrets...)
}

// callAs is call with a token.
func (s *Store) callAs(ctx context.Context, token, method, address, contentType string, body []byte, secrets ...string) (answer, error) {
	var out answer
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return out, errors.New("the address of the login service is not a URL")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "troupe")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
		secrets = append(secrets, token)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return out, because(causeUnreachable, clean(cause(err), secrets...))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return out, because(causeUnreachable, "the answer of the login service was cut off")
	}
	out.date, _ = http.ParseTime(resp.Header.Get("Date"))
	if protocol.ValidJSON(text) {
		out.Result = gjson.ParseBytes(text)
	}
	if resp.StatusCode/100 == 2 {
		return out, nil
	}
	v := out.Result
	code := v.Get("error")
	if code.IsObject() {
		v, code = code, code.Get("code")
	}
	description := cmp.Or(v.Get("error_description").String(), v.Get("message").String())
	return out, &refusal{resp.StatusCode, clean(code.String(), secrets...), clean(description, secrets...)}
}

// cause is an error of the network without the URL, which may have a secret in it.
func cause(err error) string {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the login service did not answer in time"
	}
	return err.Error()
}

const formType = "application/x-www-form-urlencoded"

// persist makes a request that must not be given up lightly: the service may have
// taken the old token back already. An answer that was lost is asked for once more,
// a service that is busy twice.
func (s *Store) persist(ctx context.Context, address string, form url.Values, secrets ...string) (answer, error) {
	lost, busy := 0, 0
	for {
		out, err := s.call(ctx, http.MethodPost, address, formType, []byte(form.Encode()), secrets...)
		var said *refusal
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &said) && (said.status/100 == 5 || said.status == http.StatusTooManyRequests):
			if busy++; busy > 2 {
				return out, err
			}
		case said != nil:
			return out, err
		default:
			if lost++; lost > 1 {
				return out, err
			}
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// lifetime is how long a token is good for that was issued this moment. What is no
// such time counts as an hour.
func lifetime(v gjson.Result) time.Duration {
	seconds := v.Num
	if v.Type == gjson.String {
		seconds, _ = strconv.ParseFloat(v.Str, 64)
	}
	if seconds < 1 {
		return time.Hour
	}
	return time.Duration(min(seconds, (30*24*time.Hour).Seconds())) * time.Second
}

// skew tells the person of a clock that is wrong.
func (s *Store) skew(date time.Time) {
	if date.IsZero() {
		return
	}
	if off := s.config.Now().Sub(date); off.Abs() > 2*time.Minute {
		s.Notice(fmt.Sprintf("the clock of this machine is off by %v, says the login service: logins may seem expired, or fail", off.Round(time.Second).Abs()))
	}
}

// refreshOpenAI renews a login by OpenAI's documented flow.
func (s *Store) refreshOpenAI(ctx context.Context, e Entry) (tokens, time.Duration, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {e.Client}, "refresh_token": {e.Refresh}, "resource": {openAIResource}}
	return s.renewed(ctx, openAIToken, form, e)
}

// renewed buys other tokens, and says so where that is not to be had any more.
func (s *Store) renewed(ctx context.Context, address string, form url.Values, e Entry) (tokens, time.Duration, error) {
	out, err := s.persist(ctx, address, form, e.Refresh, e.Access)
	var said *refusal
	switch {
	case errors.As(err, &said) && said.code == "invalid_client":
		return tokens{}, 0, &finalError{text: said.Error() + " (the registration of this installation is not known any more)"}
	case errors.As(err, &said) && slices.Contains(spent, said.code):
		return tokens{}, 0, &finalError{text: said.Error()}
	case err != nil:
		return tokens{}, 0, err
	}
	s.skew(out.date)
	return s.issued(out, e)
}

// issued reads what a token endpoint has given. A service that gives no other refresh
// token goes on with the old one.
func (s *Store) issued(out answer, e Entry) (tokens, time.Duration, error) {
	t := tokens{access: out.Get("access_token").Str, refresh: out.Get("refresh_token").Str, client: e.Client}
	if !isToken(t.access) || t.refresh != "" && !isToken(t.refresh) || !strings.EqualFold(out.Get("token_type").Str, "bearer") && out.Get("token_type").Exists() {
		return t, 0, because(causeAnswer, "the login service gave no token that can be used")
	}
	t.refresh = cmp.Or(t.refresh, e.Refresh)
	life := lifetime(out.Get("expires_in"))
	t.expires = s.config.Now().Add(life - min(3*time.Minute, life/4)).UnixMilli() // as pi writes it
	return t, life, nil
}

// isToken says whether text can be a token: it goes into a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
