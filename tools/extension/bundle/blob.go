package bundle

import (
	"bytes"
	"os"
	"path/filepath"
)

// Blob is a file of a cache that is not an extension's.
type Blob struct{ Dir, Name, Version string }

// Read gives what was written under the same version.
func (b Blob) Read() ([]byte, bool) {
	c := b.cache()
	if c == nil {
		return nil, false
	}
	data, err := os.ReadFile(filepath.Join(c.dir, b.Name))
	if err != nil {
		return nil, false
	}
	sum, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(sum) != sumOf(append([]byte(b.Version), rest...)) {
		return nil, false
	}
	return rest, true
}

// Write keeps data. What cannot be kept is made again.
func (b Blob) Write(data []byte) {
	if c := b.cache(); c != nil {
		_ = Keep(filepath.Join(c.dir, b.Name), []byte(sumOf(append([]byte(b.Version), data...))+"\n"+string(data)))
	}
}

func (b Blob) cache() *Cache {
	if b.Dir == "" {
		return nil
	}
	return OpenCache(b.Dir, "", func() string { return b.Version })
}
