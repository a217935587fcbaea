package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// watchedFile is a configuration file that is read when it is first needed and
// again when it has changed. What it said last counts as long as it cannot be
// read, is half written or is gone: somebody may be replacing it. It is not safe
// for concurrent use.
type watchedFile[T any] struct {
	path  string
	parse func([]byte) (T, error)
	value T
	good  bool  // the file has been read once
	err   error // why the file, as it is now, cannot be used
	info  fs.FileInfo
	read  bool
}

// refresh reads the file if that is due, and says whether it did. A file that
// never was there is an empty one.
func (f *watchedFile[T]) refresh() bool {
	if f.path == "" {
		return false
	}
	info, err := os.Stat(f.path)
	if err != nil {
		info = nil
	}
	if f.read && sameFile(f.info, info) {
		return false
	}
	f.read, f.info, f.err = true, info, nil
	if info == nil {
		switch gone := errors.Is(err, fs.ErrNotExist); {
		case gone && f.good:
			f.err = fmt.Errorf("%s is gone: what it said counts until there is another, or a restart", f.path)
		case !gone:
			f.err = err
		}
		return true
	}
	value, err := f.load()
	if err != nil {
		f.err = fmt.Errorf("%s: %w", f.path, err)
		return true
	}
	f.value, f.good = value, true
	return true
}

func (f *watchedFile[T]) load() (value T, err error) {
	text, err := bounded.ReadFile(f.path, protocol.MaxModelsFile)
	if err != nil {
		return value, err
	}
	return f.parse(text)
}

// sameFile says whether nothing has happened between two looks at a file:
// editors that replace it are noticed by its identity, others by time and size.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// authEntry is one provider of auth.json. Entries of other types than api_key
// belong to whoever wrote them.
type authEntry struct {
	Type string            `json:"type"`
	Key  string            `json:"key"`
	Env  map[string]string `json:"env"` // variables for this provider, before those of the process
}

// parseAuth reads the api_key entries of auth.json.
func parseAuth(text []byte) (map[string]authEntry, error) {
	if !protocol.ValidJSON(text) {
		return nil, syntaxError(text)
	}
	root := gjson.ParseBytes(text)
	if !root.IsObject() {
		return nil, errors.New("not a JSON object")
	}
	out := map[string]authEntry{}
	var problems []error
	root.ForEach(func(provider, raw gjson.Result) bool {
		if raw.Get("type").Str != "api_key" {
			return true
		}
		var entry authEntry
		if err := jsonv2.Unmarshal(json.RawMessage(raw.Raw), &entry, decodeOptions); err != nil {
			problems = append(problems, fmt.Errorf("provider %q: not an API key entry", provider.Str))
			return true
		}
		out[provider.Str] = entry
		return true
	})
	return out, errors.Join(problems...)
}
