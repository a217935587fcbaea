package extension

import (
	"context"
	"encoding/json"

	"troupe/protocol/extension"
)

// invoke calls a function of something that an extension has registered. It must not be
// called by an actor.
func (t *Tools) invoke(ctx context.Context, key, member string, args ...json.RawMessage) (json.RawMessage, error) {
	id, f, vm, err := t.begin(extensionsLost)
	if err != nil {
		return nil, err
	}
	vm.Say(extension.Invoke{ID: id, Key: key, Member: member, Args: args})
	d, err := t.wait(ctx, id, f, vm, extension.CancelCall{ID: id}, func(json.RawMessage) {})
	return d.Result, err
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
