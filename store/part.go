package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"

	"troupe/protocol"
)

// ReadPart reads whole lines of a session file that may be growing, from an offset on:
// at most max bytes, but at least one line. A file that is not there yet has none.
func ReadPart(fsys FS, path string, from, max int64) (*protocol.SubagentPart, error) {
	part := &protocol.SubagentPart{File: path, From: from, Next: from}
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return part, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if from > size {
		part.From, part.Next, part.Reset = 0, 0, true
	}
	err = readLines(f, part.From, size, func(b []byte, off int64, whole bool) error {
		switch {
		case !whole:
			return errPartEnds
		case off > part.From && off+int64(len(b)) > part.From+max:
			part.HasMore = true
			return errPartEnds
		}
		part.Next = off + int64(len(b)) + 1
		partAdd(part, b)
		return nil
	})
	if err != nil && !errors.Is(err, errPartEnds) {
		return nil, fmt.Errorf("session %s: %w", path, err)
	}
	return part, nil
}

// errPartEnds ends the reading of a part.
var errPartEnds = errors.New("store: the part ends")

// partAdd takes in a line, if it is an entry.
func partAdd(part *protocol.SubagentPart, b []byte) {
	b = bytes.TrimSpace(b)
	var entry struct {
		Type    string          `json:"type"`
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(b, &entry) != nil {
		return // an offset in the middle of a line, or what a crash has left
	}
	if b = bytes.Clone(b); !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
		entry.Message = bytes.ToValidUTF8(entry.Message, []byte("\uFFFD"))
	}
	part.Entries = append(part.Entries, b)
	if entry.Type == "message" && len(entry.Message) > 0 {
		part.Messages = append(part.Messages, entry.Message)
	}
}
