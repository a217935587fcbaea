package cloud

import (
	"context"
	"time"
)

// token is an access token and its end.
type token struct {
	value   string
	expires time.Time // zero for never
}

// early is how long before its end a token is no longer used.
const early = 4 * time.Minute

// tokens keeps one token, which one request gets for all that wait.
type tokens struct {
	turn chan struct{} // of capacity 1: full while somebody looks or fetches
	have token
	now  func() time.Time
}

func newTokens() *tokens { return &tokens{turn: make(chan struct{}, 1), now: time.Now} }

// get returns the token, by fetch if there is none or it is about to end.
func (t *tokens) get(ctx context.Context, fetch func(context.Context) (token, error)) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if t.have.value != "" && (t.have.expires.IsZero() || t.now().Add(early).Before(t.have.expires)) {
		return t.have.value, nil
	}
	got, err := fetch(ctx)
	if err != nil {
		return "", err
	}
	t.have = got
	return got.value, nil
}

// forget drops the token. Where somebody is fetching another one there is
// nothing to drop.
func (t *tokens) forget() {
	select {
	case t.turn <- struct{}{}:
		t.have = token{}
		<-t.turn
	default:
	}
}
