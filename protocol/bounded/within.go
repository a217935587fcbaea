package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrLink reports that a component of a path is a symbolic link where none may be.
var ErrLink = errors.New("a symbolic link is on the way")

// Within opens the directory of a file that a client names, if allowed accepts the file, and returns
// the file's name in it. Links are followed before allowed is called and not afterwards, so a link that is
// swapped in between makes the call fail instead of leading elsewhere. allowed has to accept absolute paths only; nil accepts all.
// The file need not exist.
func Within(path string, allowed func(path string) bool) (dir *os.Root, name string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		var up string
		up, err = filepath.EvalSymlinks(filepath.Dir(path))
		real = filepath.Join(up, filepath.Base(path))
	}
	if err != nil {
		return nil, "", err
	}
	if allowed != nil && !allowed(real) {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	if real == filepath.Dir(real) {
		dir, err = OpenRoot(real)
		return dir, ".", err
	}
	dir, err = OpenRoot(filepath.Dir(real))
	return dir, filepath.Base(real), err
}
