package auth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// notes is what we know of logins beside their tokens, which pi would drop from its
// file when it refreshes them. Nothing of it is secret.
type notes struct {
	Host   string          `json:"hostId,omitempty"` // names this installation to OpenAI
	Logins map[string]note `json:"logins,omitempty"` // by provider

	read bool
}

// note is about one login.
type note struct {
	Client     string `json:"clientId,omitempty"` // that this installation was given; it outlives a logout
	Subject    string `json:"sub,omitempty"`      // the account, by its vendor's word
	Account    string `json:"account,omitempty"`  // for people, masked
	Background bool   `json:"background,omitempty"`
	Made       bool   `json:"made,omitempty"` // the entry of auth.json was written here
}

func (s *Store) notesPath() string { return filepath.Join(s.config.Dir, "troupe", "logins.json") }

// notesNow are the notes. They are written with a login, and so read again when auth.json has
// changed.
func (s *Store) notesNow() notes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.notes.read && s.config.Dir != "" {
		s.notes = notes{read: true}
		text, err := bounded.ReadFile(s.notesPath(), protocol.MaxModelsFile)
		if err == nil && len(text) > 0 {
			_ = json.Unmarshal(text, &s.notes) // what is broken is written anew at the next login
		}
	}
	return s.notes
}

// note changes the note of a login. The lock of auth.json is held: other processes
// write notes, too.
func (s *Store) note(change func(*notes)) error {
	s.mu.Lock()
	s.notes.read = false
	s.mu.Unlock()
	n := s.notesNow()
	copied := map[string]note{}
	maps.Copy(copied, n.Logins)
	n.Logins = copied
	change(&n)
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.notesPath()), 0o700); err != nil {
		return err
	}
	if err := save(s.notesPath(), append(text, '\n')); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = n
	return nil
}

// hostID is the name of this installation, which is made when it is first needed.
func (s *Store) hostID(ctx context.Context) (string, error) {
	if id := s.notesNow().Host; id != "" {
		return id, nil
	}
	var id string
	err := s.edit(ctx, func(context.Context, []member) ([]member, bool, error) {
		err := s.note(func(n *notes) {
			if n.Host == "" {
				n.Host = newUUID()
			}
			id = n.Host
		})
		return nil, false, err
	})
	return id, err
}

// newUUID is a random one, version 4, as a URN.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
