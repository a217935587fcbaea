// Package realpath resolves paths component by component, in the order in which the
// kernel does: a symbolic link is followed before the ".." that comes after it. See
// path_resolution(7). [path/filepath.Clean] removes "link/.." as text and therefore
// names another file wherever link leads to another directory.
package realpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the number of symbolic links that the kernel follows in one path.
const maxLinks = 40

// Resolve returns the absolute path without symbolic links that a path leads to; a relative
// one starts at the working directory of the process. Components that do not exist are taken for directories that are still to be made:
// the file that a dangling link would create counts as the one it names.
//
// known is false where the place cannot be told: in a loop of links, below a directory
// that may not be searched, and for links of /proc, which lead elsewhere for each
// process. The path is then the best guess.
func Resolve(path string) (real string, known bool) {
	w := walk{at: "/", rest: path, known: true}
	if !strings.HasPrefix(path, "/") {
		cwd, err := os.Getwd()
		w.rest, w.known = cwd+"/"+path, err == nil
	}
	for w.rest != "" {
		w.step()
	}
	return w.at, w.known
}

// Exists says whether there is something at a path; a link counts, wherever it leads.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// walk is a path that is partly resolved.
type walk struct {
	at    string // absolute, clean and without links
	rest  string // still to be walked, from at
	links int
	known bool
}

// step walks one component.
func (w *walk) step() {
	name, rest, _ := strings.Cut(w.rest, "/")
	w.rest = rest
	switch name {
	case "", ".":
		return
	case "..":
		w.at = filepath.Dir(w.at)
		return
	}
	next := filepath.Join(w.at, name)
	target, err := os.Readlink(next)
	switch {
	case err == nil:
		w.follow(next, target)
		return
	case errors.Is(err, syscall.EINVAL): // it is there and no link
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
	default:
		w.known = false
	}
	w.at = next
}

// follow puts the target of a link in its place.
func (w *walk) follow(link, target string) {
	if strings.HasPrefix(link, "/proc/") {
		w.known = false
	}
	if w.links++; w.links > maxLinks {
		w.known, w.at = false, link
		return
	}
	if filepath.IsAbs(target) {
		w.at = "/"
	}
	w.rest = target + "/" + w.rest
}
