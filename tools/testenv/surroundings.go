package testenv

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// markers are files that affect all directories below them: for git, troupe, the go command, or a
// bundler of scripts.
var markers = []string{
	".git", ".gitignore", ".ignore",
	".pi", ".agents", ".claude", "AGENTS.md", "CLAUDE.md",
	"go.mod", "package.json", "tsconfig.json", "node_modules",
}

// maxParent is the maximum length of the path of the parent of all temporary directories. The paths
// of Unix sockets are limited to about 100 bytes.
const maxParent = 50

// makeRoot creates the directory that holds HOME and TMPDIR of the tests.
func makeRoot() (string, error) {
	var refused []error
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		parent, err := filepath.EvalSymlinks(parent)
		if err == nil {
			err = neutral(parent)
		}
		var root string
		if err == nil {
			root, err = os.MkdirTemp(parent, "test-")
		}
		if err == nil {
			return root, errors.Join(os.Mkdir(homeOf(root), 0o700), os.Mkdir(tempOf(root), 0o700))
		}
		refused = append(refused, err)
	}
	return "", fmt.Errorf("no directory for temporary files, set TMPDIR to one: %w", errors.Join(refused...))
}

func homeOf(root string) string { return filepath.Join(root, "home") }
func tempOf(root string) string { return filepath.Join(root, "tmp") }

// neutral returns an error that explains why tests must not run below a directory.
func neutral(dir string) error {
	if len(dir) > maxParent || strings.ContainsAny(dir, " \t\n\"'\\$") {
		return fmt.Errorf("%q is too long, or needs quoting", dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, name := range markers {
			if _, err := os.Lstat(filepath.Join(at, name)); err == nil {
				return fmt.Errorf("%s is below %s", dir, filepath.Join(at, name))
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// environment returns the variables of the child process.
func environment(binary, root string, keep []string) []string {
	vars := map[string]string{
		isolatedKey:           binary,
		"HOME":                homeOf(root),
		"TMPDIR":              tempOf(root),
		"LC_ALL":              "C.UTF-8",
		"TZ":                  "UTC",
		"GIT_CONFIG_NOSYSTEM": "1",
	}
	goDefaults(vars)
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if name == "PATH" || name == "TROUPE_CI" || ofGo(name) || slices.Contains(keep, name) {
			vars[name] = value
		}
	}
	var env []string
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// ofGo reports whether a variable is for the go command or the runtime. Tests run the go command,
// which needs the modules and the cache that built the tests.
func ofGo(name string) bool {
	return strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "GOOGLE") ||
		strings.HasPrefix(name, "CGO_") || name == "CC" || name == "CXX"
}

// goDefaults sets the variables that the go command would otherwise derive from HOME.
func goDefaults(vars map[string]string) {
	vars["GOPATH"] = build.Default.GOPATH
	if dir, err := os.UserCacheDir(); err == nil {
		vars["GOCACHE"] = filepath.Join(dir, "go-build")
	}
	if dir, err := os.UserConfigDir(); err == nil {
		vars["GOENV"] = filepath.Join(dir, "go", "env")
	}
}

// telemetry is the directory below HOME in which the go command counts its calls.
const telemetry = ".config/go"

// maxRemains is the maximum number of files that are reported.
const maxRemains = 20

// remains lists the files left in HOME and TMPDIR of the tests, and empty directories.
func remains(root string) (left []string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			left = append(left, err.Error())
		case len(left) >= maxRemains:
			return fs.SkipAll
		case path == root, path == homeOf(root), path == tempOf(root), path == filepath.Join(homeOf(root), ".config"):
		case path == filepath.Join(homeOf(root), telemetry):
			return fs.SkipDir
		case !d.IsDir():
			left = append(left, "file "+path)
		default:
			if inside, err := os.ReadDir(path); err == nil && len(inside) == 0 {
				left = append(left, "directory "+path)
			}
		}
		return nil
	})
	return left
}

// removeAll removes a directory tree, even if directories in it are not writable.
func removeAll(root string) error {
	if os.RemoveAll(root) == nil {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(root)
}
