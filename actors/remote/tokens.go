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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
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
	Page string // the address of the page that trades in codes

	dir  string
	file [sha256.Size]byte // of the token in serve.token

	mu      sync.Mutex
	codes   map[string]code
	live    map[string]map[*session]bool // connections by device, "" for the token of the file
	read    fs.FileInfo                  // the devices file, as it was read; nil if there was none
	devices []Device
}

type code struct {
	scope Scope
	until time.Time
}

// session is a connection that a credential has opened.
type session struct{ cut func() }

// TokenFile is where the token for programs is.
type TokenFile struct {
	Path string // "" for the file of the directory, which is made if it is not there
	// Passed by systemd (LoadCredential=): an access list there says whom it lets read, whose
	// mask is where the rights of the group are else.
	Passed bool
}

// OpenTokens reads the token and the devices of a directory. A token that is empty, short
// or readable by others is refused: it would let everybody in who tries.
func OpenTokens(dir string, file TokenFile) (*Tokens, error) {
	path := file.Path
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
	others := fs.FileMode(0o077)
	if file.Passed {
		others = 0o007
	}
	if st.Mode().Perm()&others != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token := strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff"))
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
		t.devices, t.read = nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	if t.read != nil && os.SameFile(st, t.read) && st.ModTime().Equal(t.read.ModTime()) && st.Size() == t.read.Size() {
		return nil // two changes may be of the same instant: then the file is another
	}
	devices, err := ReadDevices(t.dir)
	if err != nil {
		return err
	}
	t.devices, t.read = devices, st
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

// Revoke withdraws a device: its next request is refused, and a daemon cuts its
// connections within a second or two. It says whether there was such a device.
func Revoke(dir, id string) (found bool, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	unlock, err := lockDevices(dir)
	if err != nil {
		return false, err
	}
	defer unlock()
	list, err := ReadDevices(dir)
	if err != nil {
		return false, err
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(d Device) bool { return d.ID == id })
	if len(kept) == len(list) {
		return false, nil
	}
	return true, writeDevices(dir, kept)
}

// lockDevices keeps other processes from changing the devices between reading and
// writing: a device that one of them withdraws must not come back.
func lockDevices(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "devices.lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// writeDevices replaces the devices of a directory. Its caller holds their lock.
func writeDevices(dir string, list []Device) error {
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "devices-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(append(b, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
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
	c, now := secret()[:22], time.Now()
	maps.DeleteFunc(t.codes, func(_ string, old code) bool { return now.After(old.until) })
	t.codes[c] = code{scope, now.Add(codeLife)}
	return c
}

// Invite is the address of the page with a one-time code: who opens it has a device.
func (t *Tokens) Invite(scope Scope) string {
	return strings.TrimSuffix(t.Page, "/") + "/#c=" + t.NewCode(scope)
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
	token = secret()
	sum := sha256.Sum256([]byte(token))
	d = Device{ID: hex.EncodeToString(sum[:4]), Name: clean(name), Scope: c.scope, Hash: hex.EncodeToString(sum[:]), Created: now, Used: now}
	if err := t.change(func(list []Device) []Device { return append(list, d) }); err != nil {
		return "", d, err
	}
	return token, d, nil
}

// change changes the devices as they are in the file now.
func (t *Tokens) change(edit func([]Device) []Device) error {
	unlock, err := lockDevices(t.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.reload(); err != nil {
		return err
	}
	if err := writeDevices(t.dir, edit(slices.Clone(t.devices))); err != nil {
		return err
	}
	return t.reload()
}

// clean makes a name fit for a list in a terminal.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
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
	for _, d := range t.devices {
		hash, err := hex.DecodeString(d.Hash)
		if err != nil || subtle.ConstantTimeCompare(sum[:], hash) != 1 {
			continue
		}
		if now.Sub(d.Used) > deviceLife || d.Scope != ScopeFull && d.Scope != ScopeView {
			return "", "", false
		}
		if now.Sub(d.Used) > time.Hour {
			_ = t.change(func(list []Device) []Device { return usedNow(list, d.ID, now) }) // the next one tries again
		}
		return d.ID, d.Scope, true
	}
	return "", "", false
}

func usedNow(list []Device, id string, now time.Time) []Device {
	for i := range list {
		if list[i].ID == id {
			list[i].Used = now
		}
	}
	return list
}

// Known reports whether a device has not been withdrawn; "" is the token of the file.
func (t *Tokens) Known(device string) bool {
	if device == "" {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reload() == nil && slices.ContainsFunc(t.devices, func(d Device) bool { return d.ID == device })
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
