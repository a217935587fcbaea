package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"
)

// maxConfigFile bounds what is read of a configuration file.
const maxConfigFile = 16 << 20

// watchedFile is a configuration file that is read when it is first needed and
// again when it has changed. It is not safe for concurrent use.
type watchedFile[T any] struct {
	path  string
	parse func([]byte) (T, error)
	keep  bool // after a failure the last good value stays

	value T
	err   error // why the file, as it is now, cannot be used
	info  fs.FileInfo
	read  bool
}

// refresh reads the file if that is due, and says whether it did. A file that
// does not exist is an empty one.
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
	var zero T
	if info == nil {
		f.value = zero
		if !errors.Is(err, fs.ErrNotExist) {
			f.err = err
		}
		return true
	}
	value, err := f.load(info)
	if err != nil {
		f.err = fmt.Errorf("%s: %w", f.path, err)
		if f.keep {
			return true
		}
		value = zero
	}
	f.value = value
	return true
}

func (f *watchedFile[T]) load(info fs.FileInfo) (value T, err error) {
	if !info.Mode().IsRegular() { // to open a FIFO would wait for its writer
		return value, errors.New("not a regular file")
	}
	file, err := os.Open(f.path)
	if err != nil {
		return value, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigFile+1))
	if err != nil {
		return value, err
	}
	if len(text) > maxConfigFile {
		return value, errors.New("too large to be a configuration file")
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
	if !validJSON(text) {
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
