package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Entry is one provider of auth.json. Members that it does not have here belong to
// whoever wrote them, and stay.
type Entry struct {
	Type string            // api_key, oauth, or what somebody else has made up
	Key  string            // of an api_key: the key, !command, or text with $NAME
	Env  map[string]string // variables for this provider, before those of the process

	Access  string // of an oauth: what requests are sent with
	Refresh string // what buys another one, "" for an access that has no end
	Expires int64  // epoch milliseconds; a hint, some programs write an earlier time
	Client  string // the client id that the tokens were issued to, "" where it is the program's own
}

// The types of entries that are known.
const (
	typeKey   = "api_key"
	typeOAuth = "oauth"
)

// IsLogin says that it is no key.
func (e Entry) IsLogin() bool { return e.Type == typeOAuth }

// permanent says that an access token has no end, and so is a key.
func (e Entry) permanent() bool { return e.Type == typeOAuth && e.Refresh == "" && e.Access != "" }

// left is how long the access token is good for, by the clock of now.
func (e Entry) left(now time.Time) time.Duration {
	const far = 100 * 365 * 24 * time.Hour
	if ms := e.Expires - now.UnixMilli(); ms < int64(far/time.Millisecond) {
		return time.Duration(max(ms, -int64(far/time.Millisecond))) * time.Millisecond
	}
	return far
}

// parse reads auth.json. An entry that is wrong is nobody's but its own provider's trouble.
func parse(text []byte) (File, error) {
	members, err := membersOf(text)
	if err != nil {
		return File{}, err
	}
	out := map[string]Entry{}
	var unused []error
	for _, m := range members {
		entry, err := parseEntry(m.value)
		if err == nil {
			if entry.Type != "" {
				out[m.name] = entry
			}
			err = entry.unused()
		}
		if err != nil {
			unused = append(unused, fmt.Errorf("auth.json: the entry of %q is not used: %w", m.name, err))
		}
	}
	return File{Entries: out, Unused: errors.Join(unused...)}, nil
}

// unused is why an entry is good for nothing, nil if it may be good for something.
func (e Entry) unused() error {
	switch {
	case e.Type == "":
		return errors.New("it has no type")
	case e.Type == typeKey && e.Key == "" && len(e.Env) == 0:
		return errors.New("it has no key")
	case e.Type != typeKey && e.Type != typeOAuth:
		return fmt.Errorf("its type is neither %s nor %s", typeKey, typeOAuth)
	}
	return nil
}

// parseEntry reads an entry. Nothing of it is in the error.
func parseEntry(raw json.RawMessage) (e Entry, err error) {
	v := gjson.ParseBytes(raw)
	if !v.IsObject() {
		return Entry{}, errors.New("it is not an object")
	}
	e.Type = v.Get("type").Str
	wrong := false
	text := func(name string) string {
		member := v.Get(name)
		wrong = wrong || member.Exists() && member.Type != gjson.String && member.Type != gjson.Null
		return member.Str
	}
	switch e.Type {
	case typeKey:
		e.Key = text("key")
		env := v.Get("env")
		wrong = wrong || env.Exists() && !env.IsObject()
		env.ForEach(func(name, value gjson.Result) bool {
			if wrong = wrong || value.Type != gjson.String; e.Env == nil {
				e.Env = map[string]string{}
			}
			e.Env[name.Str] = value.Str
			return true
		})
		if wrong {
			return Entry{}, errors.New("not an API key entry")
		}
	case typeOAuth:
		e.Access, e.Refresh, e.Client = text("access"), text("refresh"), text("clientId")
		e.Expires = int64(v.Get("expires").Num)
		if wrong || e.Access != "" && !isToken(e.Access) {
			return Entry{}, errors.New("not an entry of a login")
		}
	}
	return e, nil
}

// member is a member of a JSON object as it stands in the text.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf reads an object without changing anything of its members. A name that
// comes twice has its last value, as in JavaScript.
func membersOf(text []byte) (list []member, err error) {
	if !protocol.ValidJSON(text) {
		return nil, protocol.SyntaxError(text)
	}
	root := gjson.ParseBytes(text)
	if !root.IsObject() {
		return nil, errors.New("not a JSON object")
	}
	root.ForEach(func(name, value gjson.Result) bool {
		list = put(list, name.String(), json.RawMessage(strings.Clone(value.Raw)))
		return true
	})
	return list, nil
}

// put replaces a member where it stands, or adds it at the end.
func put(list []member, name string, value json.RawMessage) []member {
	if i := slices.IndexFunc(list, func(m member) bool { return m.name == name }); i >= 0 {
		list[i].value = value
		return list
	}
	return append(list, member{name, value})
}

// find is a member's value, nil for none.
func find(list []member, name string) json.RawMessage {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// object writes members as one.
func object(list []member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = protocol.AppendString(b, m.name)
		b = append(append(b, ':'), m.value...)
	}
	return append(b, '}')
}

// tokens are what a login or a refresh gives.
type tokens struct {
	access, refresh string
	expires         int64 // epoch milliseconds
	client          string
	scopes          []string // nil leaves those of the entry
}

func (t tokens) id() tokenPair { return tokenPair{t.access, t.refresh} }

// over writes the tokens into an entry, and leaves what else is in it.
func (t tokens) over(raw json.RawMessage) json.RawMessage {
	list, err := membersOf(raw)
	if err != nil {
		list = nil
	}
	list = put(list, "type", json.RawMessage(`"oauth"`))
	list = put(list, "access", protocol.AppendString(nil, t.access))
	list = put(list, "refresh", protocol.AppendString(nil, t.refresh))
	list = put(list, "expires", fmt.Appendf(nil, "%d", t.expires))
	if t.client != "" {
		list = put(list, "clientId", protocol.AppendString(nil, t.client))
	}
	if t.scopes != nil {
		scopes, _ := json.Marshal(t.scopes) // a list of strings
		list = put(list, "scopes", scopes)
	}
	return object(list)
}
