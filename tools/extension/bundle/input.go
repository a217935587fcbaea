package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// Input is a file as it was when a bundle was made of it.
type Input struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Time int64  `json:"time"` // of its last change, in nanoseconds
	Hash string `json:"hash"`
}

func inputOf(path string) (Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Input{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Input{}, err
	}
	sum := sha256.Sum256(data)
	return Input{Path: path, Size: info.Size(), Time: info.ModTime().UnixNano(), Hash: hex.EncodeToString(sum[:])}, nil
}

// same says that the file has not changed: by size and time, and where the time
// differs, by what is in it.
func (in Input) same() bool {
	info, err := os.Stat(in.Path)
	if err != nil || info.Size() != in.Size {
		return false
	}
	if info.ModTime().UnixNano() == in.Time {
		return true
	}
	now, err := inputOf(in.Path)
	return err == nil && now.Hash == in.Hash
}
