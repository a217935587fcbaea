package extension

import (
	"context"
	"encoding/json"
	"errors"
)

// invoke calls a function of something that an extension has registered. It must not be
// called by an actor.
func (t *Tools) invoke(ctx context.Context, key, member string, args ...json.RawMessage) (json.RawMessage, error) {
	id, feed, vm := t.beginFeed()
	if vm == nil {
		return nil, errors.New("the extensions have ended")
	}
	defer t.endFeed(id)
	vm.Invoke(id, key, member, args)
	for {
		select {
		case <-ctx.Done():
			vm.CancelCall(id)
			return nil, ctx.Err()
		case <-feed.more:
		}
		_, done := feed.take()
		switch {
		case done == nil:
		case done.TimedOut:
			return nil, errors.New("the extension does not answer")
		default:
			return done.Result, failed(*done)
		}
	}
}

// loginOf uses the functions oauth of a provider that an extension has registered. It is a
// [providers.Login].
type loginOf struct {
	tools *Tools
	key   string
}

func (l *loginOf) Refresh(ctx context.Context, login json.RawMessage) (json.RawMessage, error) {
	return l.tools.invoke(ctx, l.key, "oauth.refreshToken", login)
}

func (l *loginOf) Key(ctx context.Context, login json.RawMessage) (key string, err error) {
	raw, err := l.tools.invoke(ctx, l.key, "oauth.getApiKey", login)
	if err == nil {
		err = json.Unmarshal(raw, &key)
	}
	return key, err
}
