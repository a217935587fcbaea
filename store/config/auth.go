package config

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// Auth is about logins that pi has made.
type Auth struct {
	NoReuse bool     // they are not used
	Reuse   []string // only those of these providers; nil for all
	Broker  string   // the program that is asked to renew them, "" for pi
	Proxy   string   // to the services where people log in: httpProxy
}

func (a *Auth) setReuse(v gjson.Result) error {
	switch {
	case v.IsBool():
		a.NoReuse, a.Reuse = !v.Bool(), nil
		return nil
	case v.IsArray():
		list, err := stringList(v)
		if err == nil {
			a.NoReuse, a.Reuse = false, append([]string{}, list...)
		}
		return err
	}
	return errors.New("want true, false or a list of providers")
}

// users is for a key that belongs to the daemon: one session cannot have it otherwise.
func users(location Location, set func(gjson.Result) error) func(gjson.Result) error {
	if location == User {
		return set
	}
	return func(gjson.Result) error { return errors.New("counts only in the user's settings.json") }
}

// Own are settings that belong to the daemon and to no session.
type Own struct {
	Auth          Auth
	DiscoverLocal bool
}

// WatchOwn returns what gives the daemon's settings as the user's settings.json has them
// at the moment. Problems with the file are named when a session reads it.
func WatchOwn(agentDir string) func() Own {
	var mu sync.Mutex
	file := bounded.Watched[Own]{Path: filepath.Join(agentDir, "settings.json"), Limit: protocol.MaxSettingsFile, Parse: func(text []byte) (Own, error) {
		s := Defaults()
		tree, problem := parse("settings.json", text)
		if problem != nil {
			return Own{}, *problem
		}
		s.apply(layer{path: "settings.json", base: agentDir, location: User, tree: tree, src: text})
		s.Auth.Proxy = s.HTTPProxy
		return Own{s.Auth, s.DiscoverLocal}, nil
	}}
	return func() Own {
		mu.Lock()
		defer mu.Unlock()
		file.Refresh()
		return file.Value
	}
}
