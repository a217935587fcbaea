package tools

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"troupe/protocol"
	"troupe/protocol/bounded"
)

// place is a directory in which a sandbox allows writing, known by its identity: a name may lead
// elsewhere after a command has renamed a directory or put a link in its place.
type place struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Git  bool   `json:"git,omitempty"` // outside the workspace, where git writes for it
}

// errReplaced reports that the name of a directory leads elsewhere than when the session was opened.
var errReplaced = errors.New("it is not the directory with which the session was opened")

// Open returns the sandbox with the identities of the directories that may be written. Those that
// an earlier sandbox knows by the same path keep the identity that they have there, and a workspace that
// it knows keeps its directories of git.
func (s Sandbox) Open(earlier Sandbox) Sandbox {
	git := gitPlaces
	if known := earlier.known(); slices.ContainsFunc(known, func(p place) bool { return p.Path == s.Workspace }) {
		git = func(string) (list []string) {
			for _, p := range known {
				if p.Git {
					list = append(list, p.Path)
				}
			}
			return list
		}
	}
	return s.open(earlier, git)
}

// In returns the sandbox for another workspace, without directories of git outside it. The directories for
// temporary files keep their identities.
func (s Sandbox) In(workspace string) Sandbox {
	earlier := s
	s.Workspace = workspace
	return s.open(earlier, func(string) []string { return nil })
}

func (s Sandbox) open(earlier Sandbox, git func(workspace string) []string) Sandbox {
	s.places = ""
	if s.Files != SandboxWorkspace {
		return s
	}
	known := earlier.known()
	var list []place
	add := func(dir string, git bool) {
		if !filepath.IsAbs(dir) || slices.ContainsFunc(list, func(p place) bool { return p.Path == dir }) {
			return
		}
		i := slices.IndexFunc(known, func(p place) bool { return p.Path == dir })
		if i < 0 {
			list = append(list, identify(dir))
		} else {
			list = append(list, known[i])
		}
		list[len(list)-1].Git = git
	}
	add(s.Workspace, false)
	for _, dir := range git(s.Workspace) {
		add(dir, true)
	}
	for _, dir := range append([]string{os.TempDir()}, temporary...) {
		add(dir, false)
	}
	text, _ := json.Marshal(list) // strings and numbers are always JSON
	s.places = string(text)
	return s
}

// Only returns the sandbox for a program that may write in some directories and nowhere else, whatever
// commands of the sandbox may write.
func (s Sandbox) Only(dirs ...string) Sandbox {
	if s.Files == SandboxOff {
		return s
	}
	s.Files, s.Workspace = SandboxReadOnly, ""
	if len(dirs) > 0 {
		list := make([]place, len(dirs))
		for i, dir := range dirs {
			list[i] = identify(dir)
		}
		text, _ := json.Marshal(list) // strings and numbers are always JSON
		s.Files, s.places = SandboxWorkspace, string(text)
	}
	return s
}

// Same reports whether a path still leads to the directory that the sandbox knows by it. One that the
// sandbox does not know is the same.
func (s Sandbox) Same(path string) bool {
	for _, p := range s.known() {
		if p.Path == path {
			fd, err := p.open()
			if err != nil {
				return false
			}
			unix.Close(fd)
		}
	}
	return true
}

func (s Sandbox) known() (list []place) {
	if s.places != "" {
		_ = json.Unmarshal([]byte(s.places), &list) // Open has written it
	}
	return list
}

// identify returns the place of a path. If there is no directory nothing below the path may be written, also later.
func identify(path string) place {
	fd, p, err := openPlace(path)
	if err != nil {
		return place{Path: path}
	}
	unix.Close(fd)
	return p
}

// openPlace opens a directory for rules and for making files in it, and identifies it.
func openPlace(path string) (int, place, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, place{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, place{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fd, place{Path: path, Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// open opens the directory if it is still the same.
func (p place) open() (int, error) {
	fd, now, err := openPlace(p.Path)
	if err != nil {
		return -1, err
	}
	if now.Dev != p.Dev || now.Ino != p.Ino {
		unix.Close(fd)
		return -1, &os.PathError{Op: "open", Path: p.Path, Err: errReplaced}
	}
	return fd, nil
}

// permitWriting allows writing in the directories that the sandbox was opened with. It fails where the workspace
// is another directory by now; one for temporary files is left out.
func (s Sandbox) permitWriting(rules int, rights uint64) error {
	if s.places == "" {
		s = s.Open(Sandbox{})
	}
	for _, p := range s.known() {
		fd, err := p.open()
		switch {
		case err == nil:
			err = permitAt(rules, fd, p.Path, rights)
			unix.Close(fd)
			if err != nil {
				return err
			}
		case p.Path == s.Workspace:
			return err
		}
	}
	return nil
}

// createLog makes a new file for the output of a command, which no link leads out of the directory.
func (s Sandbox) createLog(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	i := slices.IndexFunc(s.known(), func(p place) bool { return p.Path == dir })
	if i < 0 {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	at, err := s.known()[i].open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// gitPlaces lists the directories outside a workspace in which git writes for it: those of a linked working
// tree or of a submodule. The file .git in the workspace may have been written by anybody, so the directory that
// it names counts only if that names the workspace, too.
func gitPlaces(workspace string) []string {
	for dir := workspace; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, ".git")
		if st, err := os.Lstat(file); err == nil {
			if !st.Mode().IsRegular() {
				return nil
			}
			return gitPlacesOf(file)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func gitPlacesOf(file string) []string {
	to, is := strings.CutPrefix(firstLineOf(file), "gitdir: ")
	if !is {
		return nil
	}
	gitDir, err := filepath.EvalSymlinks(from(filepath.Dir(file), to))
	if err != nil {
		return nil
	}
	if trees := filepath.Dir(gitDir); filepath.Base(trees) == "worktrees" {
		common := filepath.Dir(trees)
		back := from(gitDir, firstLineOf(filepath.Join(gitDir, "gitdir")))
		if !sameFile(back, file) || !sameFile(from(gitDir, firstLineOf(filepath.Join(gitDir, "commondir"))), common) {
			return nil
		}
		return slices.Concat([]string{gitDir}, gitShared(common))
	}
	if tree := workTreeOf(filepath.Join(gitDir, "config")); tree != "" && sameFile(from(gitDir, tree), filepath.Dir(file)) {
		return []string{gitDir}
	}
	return nil
}

// gitShared are the directories that working trees of a repository have in common and write: not hooks, and not
// the file config.
func gitShared(common string) (list []string) {
	for _, name := range []string{"objects", "refs", "logs"} {
		if st, err := os.Lstat(filepath.Join(common, name)); err == nil && st.IsDir() {
			list = append(list, filepath.Join(common, name))
		}
	}
	return list
}

// workTreeOf reads core.worktree of a git configuration, "" for none. It reads the form that git writes.
func workTreeOf(config string) (tree string) {
	text, _ := bounded.ReadFile(config, protocol.MaxTextFile)
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
		} else if key, value, is := strings.Cut(line, "="); is && section == "[core]" && strings.EqualFold(strings.TrimSpace(key), "worktree") {
			tree = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return tree
}

func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// firstLineOf reads a file of one line, "" if there is none.
func firstLineOf(path string) string {
	text, err := bounded.ReadFile(path, protocol.MaxTextFile)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimRight(line, "\r")
}

// Places returns the identities for another process to work with, see [Sandbox.With].
func (s Sandbox) Places() string { return s.places }

// With returns the sandbox with identities that [Sandbox.Places] has returned.
func (s Sandbox) With(places string) Sandbox {
	s.places = places
	return s
}
