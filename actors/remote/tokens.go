package remote

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Scope is what a credential is good for.
type Scope string

// Scopes.
const (
	ScopeFull Scope = "full"
	ScopeView Scope = "view" // to look, and change nothing
)

const (
	codeLife   = 10 * time.Minute    // of a one-time code
	deviceLife = 30 * 24 * time.Hour // of a device's token that is not used
	minToken   = 32                  // characters of a token in a file
)

// A Device has traded in a one-time code. Its token is known by its hash only.
type Device struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   Scope     `json:"scope"`
	Hash    string    `json:"hash"` // SHA-256 of the token, in hexadecimal
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
}

// Tokens are the credentials that a daemon takes.
type Tokens struct {
	dir  string
	file [sha256.Size]byte // of the token in serve.token

	mu      sync.Mutex
	codes   map[string]code
	live    map[string]map[*session]bool // connections by device, "" for the token of the file
	changed time.Time                    // of the devices file, as it was read
	devices []Device
}

type code struct {
	scope Scope
	until time.Time
}

// session is a connection that a credential has opened.
type session struct{ cut func() }

// OpenTokens reads the token of a directory, or makes one. path names another file
// with a token, "" for none. A token that is empty, short or readable by others is
// refused: it would let everybody in who tries.
func OpenTokens(dir, path string) (*Tokens, error) {
	t := &Tokens{dir: dir, codes: map[string]code{}, live: map[string]map[*session]bool{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if path == "" {
		path = filepath.Join(dir, "serve.token")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(path, []byte(secret()+"\n"), 0o600); err != nil {
				return nil, err
			}
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token := strings.TrimSpace(string(b))
	if len(token) < minToken {
		return nil, fmt.Errorf("%s: a token has at least %d characters", path, minToken)
	}
	t.file = sha256.Sum256([]byte(token))
	return t, t.reload()
}

func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func (t *Tokens) path() string { return filepath.Join(t.dir, "devices.json") }

// reload reads the devices again if their file has changed: "troupe serve revoke"
// is another process. Connections of devices that are gone are cut.
func (t *Tokens) reload() error {
	st, err := os.Stat(t.path())
	if errors.Is(err, fs.ErrNotExist) {
		t.devices, t.changed = nil, time.Time{}
		return nil
	}
	if err != nil {
		return err
	}
	if st.ModTime().Equal(t.changed) {
		return nil
	}
	devices, err := ReadDevices(t.dir)
	if err != nil {
		return err
	}
	t.devices, t.changed = devices, st.ModTime()
	return nil
}

// ReadDevices lists the devices of a directory.
func ReadDevices(dir string) ([]Device, error) {
	b, err := os.ReadFile(filepath.Join(dir, "devices.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Device
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("devices.json: %w", err)
	}
	return list, nil
}

// WriteDevices replaces the devices of a directory.
func WriteDevices(dir string, list []Device) error {
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "devices-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(append(b, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), filepath.Join(dir, "devices.json"))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// NewCode makes a one-time code.
func (t *Tokens) NewCode(scope Scope) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := secret()[:22]
	t.codes[c] = code{scope, time.Now().Add(codeLife)}
	return c
}

// errBadCode says as little as it can.
var errBadCode = errors.New("the code is not known, used or too old")

// Login trades in a code for the token of a new device.
func (t *Tokens) Login(given, name string) (token string, d Device, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, known := t.codes[given]
	delete(t.codes, given)
	now := time.Now()
	if !known || now.After(c.until) {
		return "", d, errBadCode
	}
	if err := t.reload(); err != nil {
		return "", d, err
	}
	token = secret()
	sum := sha256.Sum256([]byte(token))
	d = Device{ID: hex.EncodeToString(sum[:4]), Name: clean(name), Scope: c.scope, Hash: hex.EncodeToString(sum[:]), Created: now, Used: now}
	list := append(slices.Clone(t.devices), d)
	if err := t.write(list); err != nil {
		return "", d, err
	}
	return token, d, nil
}

func (t *Tokens) write(list []Device) error {
	if err := WriteDevices(t.dir, list); err != nil {
		return err
	}
	t.devices = list
	if st, err := os.Stat(t.path()); err == nil {
		t.changed = st.ModTime()
	}
	return nil
}

// clean makes a name fit for a list in a terminal.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name)
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "")
	}
	return name
}

// Check says what a token is good for, and whose it is: "" is the token of the file.
func (t *Tokens) Check(token string) (device string, scope Scope, ok bool) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], t.file[:]) == 1 {
		return "", ScopeFull, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reload(); err != nil {
		return "", "", false
	}
	now := time.Now()
	for i, d := range t.devices {
		hash, err := hex.DecodeString(d.Hash)
		if err != nil || subtle.ConstantTimeCompare(sum[:], hash) != 1 {
			continue
		}
		if now.Sub(d.Used) > deviceLife || d.Scope != ScopeFull && d.Scope != ScopeView {
			return "", "", false
		}
		if now.Sub(d.Used) > time.Hour {
			list := slices.Clone(t.devices)
			list[i].Used = now
			_ = t.write(list) // the next one tries again
		}
		return d.ID, d.Scope, true
	}
	return "", "", false
}

// Watch cuts a connection once its device is withdrawn. done ends that.
func (t *Tokens) Watch(device string, cut func()) (done func()) {
	s := &session{cut}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[device] == nil {
		t.live[device] = map[*session]bool{}
	}
	t.live[device][s] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.live[device], s)
	}
}

// Withdraw cuts the connections of devices that are not there any more.
func (t *Tokens) Withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reload() != nil {
		return
	}
	for device, sessions := range t.live {
		if device == "" || slices.ContainsFunc(t.devices, func(d Device) bool { return d.ID == device }) {
			continue
		}
		for s := range sessions {
			s.cut()
		}
	}
}
