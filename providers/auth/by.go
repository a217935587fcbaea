package auth

import (
	"context"
	"encoding/json"

	"troupe/protocol"
	"troupe/providers"
)

// KeyBy is the key that somebody else makes of a provider's login, who buys another one where
// it is over. That is kept before it is used.
func (s *Store) KeyBy(ctx context.Context, provider string, by providers.Login) (string, *protocol.StreamError) {
	key, err := s.keyBy(ctx, provider, by)
	switch {
	case ctx.Err() != nil:
		return "", protocol.Aborted()
	case err != nil:
		return "", protocol.ErrorAuth.Errorf("The login of %s: %s", provider, providers.MaskKeys(err.Error()))
	}
	return key, nil
}

func (s *Store) keyBy(ctx context.Context, provider string, by providers.Login) (string, error) {
	list, err := load(resolved(s.path()))
	if err != nil {
		return "", err
	}
	raw := find(list, provider)
	if !s.isOver(raw) {
		return by.Key(ctx, raw)
	}
	err = s.edit(ctx, func(ctx context.Context, list []member) ([]member, bool, error) {
		if raw = find(list, provider); !s.isOver(raw) { // somebody else was first
			return list, false, nil
		}
		renewed, err := by.Refresh(ctx, raw)
		if err != nil {
			return nil, false, err
		}
		members, err := membersOf(renewed)
		if err != nil {
			return nil, false, err
		}
		raw = object(put(members, "type", json.RawMessage(`"`+typeOAuth+`"`)))
		return put(list, provider, raw), true, nil
	})
	if err != nil {
		return "", err
	}
	return by.Key(ctx, raw)
}

// isOver says whether another login has to be bought. One that has no end, or is none, is
// not over.
func (s *Store) isOver(raw json.RawMessage) bool {
	e, err := parseEntry(raw)
	return err == nil && e.Refresh != "" && e.left(s.config.Now()) <= 0
}
