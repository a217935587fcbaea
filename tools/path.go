package tools

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"
)

// ResolvePath turns a path as a model or person writes it into an absolute
// one: a leading @ is dropped, exotic spaces become plain ones, ~ is the home
// directory, and the rest is relative to the working directory. Nothing keeps
// it inside of that directory.
func (e *Env) ResolvePath(path string) string {
	path = strings.Map(plainSpace, strings.TrimPrefix(path, "@"))
	switch {
	case path == "~":
		path = e.Home
	case strings.HasPrefix(path, "~/"):
		path = filepath.Join(e.Home, path[2:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.Cwd, path)
	}
	return filepath.Clean(path)
}

// plainSpace maps the spaces that models copy from rendered text to U+0020.
func plainSpace(r rune) rune {
	switch {
	case r == 0xA0, 0x2000 <= r && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return ' '
	}
	return r
}

// resolveExisting is ResolvePath for reading. If there is no such file it tries
// the spellings under which macOS stores names that look the same on screen.
func (e *Env) resolveExisting(path string) string {
	plain := e.ResolvePath(path)
	for _, candidate := range spellings(plain) {
		if _, err := os.Lstat(candidate); err == nil {
			return candidate
		}
	}
	return plain
}

// beforeAmPm finds the place where macOS puts a narrow no-break space into the
// names of screenshots.
var beforeAmPm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i) ([ap]m\b)`) })

func spellings(path string) []string {
	decomposed := norm.NFD.String(path)
	return []string{
		path,
		beforeAmPm().ReplaceAllString(path, "\u202f$1"),
		decomposed,
		strings.ReplaceAll(path, "'", "\u2019"),
		strings.ReplaceAll(decomposed, "'", "\u2019"),
	}
}

// fileError words a failed file operation the way Node does, which is how
// models know it: code, meaning, operation, path.
func fileError(op, path string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s '%s': %w", op, path, err)
	}
	return &pathError{op, path, errno}
}

// pathError keeps the cause for errors.Is.
type pathError struct {
	op, path string
	errno    syscall.Errno
}

func (e *pathError) Error() string {
	return fmt.Sprintf("%s: %s, %s '%s'", unix.ErrnoName(e.errno), e.errno.Error(), e.op, e.path)
}

func (e *pathError) Unwrap() error { return e.errno }
