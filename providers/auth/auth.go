// Package auth owns auth.json, the file of keys and logins that pi and troupe
// share. It reads the file without a lock and writes it under pi's, keeps the
// tokens of logins fresh, and makes new logins where a vendor has documented how.
//
// What is not documented is not built: such an entry is refreshed by asking pi, or
// not used at all, see [policies]. Tokens are in auth.json and in no other file; what
// else we know of a login is in troupe/logins.json beside it.
package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
)

// Limits of what a login may cost those who wait.
const (
	lockTime     = 10 * time.Second // for the lock of auth.json
	exchangeTime = 10 * time.Second // for a refresh: no pi waits longer than 15 for the lock
	brokerTime   = 20 * time.Second
	early        = 5 * time.Minute  // before its end a token is renewed
	brokered     = 8 * time.Minute  // a token of pi is kept, which is good for ten
	rest         = 60 * time.Second // a token that was got this moment is not renewed for being refused
)

// Config is what a [Store] works from.
type Config struct {
	Dir      string // where auth.json is, "" for nowhere
	Settings func() Settings

	Transport http.RoundTripper // to vendors' login services; nil is the network, by Settings.Proxy
	// Broker runs a program and returns what it prints; nil runs none.
	Broker func(ctx context.Context, program string, args ...string) (stdout string, err error)
	// Notice tells the person something, once for each text; nil is nobody.
	Notice func(text string)
	Now    func() time.Time // nil is time.Now
}

// Settings are those of auth in settings.json.
type Settings struct {
	NoReuse bool     // pi's logins are not used
	Reuse   []string // only those of these providers; nil for all
	Broker  string   // the program that is asked for tokens, "" for pi
	Proxy   string   // URL of a proxy to login services, as [providers.ProxyBy] takes it
}

// Store is the one owner of auth.json in a process. It is safe for concurrent use.
type Store struct {
	config Config
	client *http.Client

	devices atomic.Pointer[map[string]Device]

	turn  chan struct{} // of capacity 1: full while somebody writes auth.json
	other seen          // a lock that is in our way; belongs to who has the turn
	write func(path string, text []byte) error

	mu       sync.Mutex
	file     bounded.Watched[File]
	snapshot *File
	logins   map[string]*login // by provider
	attempts map[string]context.CancelCauseFunc
	watch    providers.LoginWatch
	said     map[string]bool // notices
	notes    notes
	pending  sync.WaitGroup // refreshes

	life context.Context // ends with Close: nothing waits for a lock any more
	end  context.CancelFunc
}

// File is what auth.json says: the same one as long as it does not change.
type File struct {
	Entries map[string]Entry
	Unused  error // which entries are good for nothing, and why; the others are used
	Err     error // why the file, as it is now, cannot be used; entries are those of before
}

// Names lists the providers with an entry.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Entries)) }

// Open makes a store. It reads nothing yet.
func Open(config Config) *Store {
	if config.Settings == nil {
		config.Settings = func() Settings { return Settings{} }
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Notice == nil {
		config.Notice = func(string) {}
	}
	if config.Transport == nil {
		config.Transport = &http.Transport{Proxy: func(r *http.Request) (*url.URL, error) {
			return providers.ProxyBy(config.Settings().Proxy)(r.URL)
		}, TLSHandshakeTimeout: exchangeTime, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	}
	s := &Store{
		config: config, turn: make(chan struct{}, 1), write: save,
		logins: map[string]*login{}, attempts: map[string]context.CancelCauseFunc{}, said: map[string]bool{},
		client: &http.Client{Transport: config.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.file = bounded.Watched[File]{Limit: protocol.MaxModelsFile, Parse: parse}
	if config.Dir != "" {
		s.file.Path = s.path()
	}
	s.snapshot = &File{}
	return s
}

func (s *Store) path() string { return filepath.Join(s.config.Dir, "auth.json") }

// File reads auth.json if it has changed.
func (s *Store) File() *File {
	s.mu.Lock()
	before := s.snapshot
	file := s.read()
	s.mu.Unlock()
	if file != before {
		s.warn()
	}
	return file
}

// warn tells the person of secrets that others can read, or have written.
func (s *Store) warn() {
	info, err := os.Stat(s.path())
	if err != nil {
		return
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		s.Notice(fmt.Sprintf("%s can be read by others (mode %#o): chmod 600 it", s.path(), mode))
	}
	if owner, known := ownerOf(info); known && owner != os.Geteuid() {
		s.Notice(fmt.Sprintf("%s belongs to another user (%d)", s.path(), owner))
	}
}

// read is File for who has the lock. Some programs write the file in place, or remove the
// old one before: what is torn or gone is read again.
func (s *Store) read() *File {
	if !s.file.Refresh() {
		return s.snapshot
	}
	s.notes.read = false // another process that has signed in has written both
	for range 3 {
		if s.file.Err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
		s.file.Again()
		s.file.Refresh()
	}
	s.snapshot = &File{s.file.Value.Entries, s.file.Value.Unused, s.file.Err}
	if errors.Is(s.file.Err, fs.ErrNotExist) {
		s.file.Value, s.snapshot = File{}, &File{} // who removes secrets means it
	}
	return s.snapshot
}

// Watch implements that of [providers.Logins].
func (s *Store) Watch(who providers.LoginWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = who
}

// tell tells who watches.
func (s *Store) tell(ev protocol.Event) {
	s.mu.Lock()
	to := s.watch.Tell
	s.mu.Unlock()
	if to != nil {
		to(ev)
	}
}

// Changed says that somebody else has changed how a provider's credentials stand, in
// auth.json. While a login is renewed here that is not said: the end of it will be.
func (s *Store) Changed(provider string, state protocol.AuthState, reason string) {
	s.mu.Lock()
	busy := s.of(provider).running != nil
	s.mu.Unlock()
	if !busy {
		s.changed(provider, state, reason)
	}
}

// changed tells of how a provider's credentials stand now, if that is news.
func (s *Store) changed(provider string, state protocol.AuthState, reason string) {
	ev := protocol.AuthChanged{Provider: provider, State: state, Reason: reason}
	s.mu.Lock()
	l := s.of(provider)
	news := l.told != ev
	l.told = ev
	s.mu.Unlock()
	if news {
		s.tell(ev)
	}
}

// Notice tells the person something, once for each text.
func (s *Store) Notice(text string) {
	s.mu.Lock()
	said := s.said[text]
	s.said[text] = true
	s.mu.Unlock()
	if !said {
		s.config.Notice(text)
	}
}

// Close waits for refreshes under way, so that no token is lost that a vendor has
// given, and begins no more. It takes as long as one refresh may.
func (s *Store) Close() {
	s.mu.Lock()
	var late []string
	for provider, l := range s.logins {
		if l.fresh.unsaved != nil {
			late = append(late, provider)
		}
	}
	s.mu.Unlock()
	for _, provider := range late {
		s.saveLate(provider)
	}
	s.mu.Lock()
	s.end()
	s.mu.Unlock() // whoever begins a refresh has seen the end, or is waited for
	s.pending.Wait()
	s.client.CloseIdleConnections()
}

var _ providers.Signer = (*signer)(nil)
