package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"troupe/protocol"
)

// DirChoice is what decides where session files lie.
type DirChoice struct {
	Flag     string // --session-dir
	Env      string // PI_CODING_AGENT_SESSION_DIR
	Setting  string // settings key sessionDir
	AgentDir string
	Cwd      string // absolute
	Home     string // for a leading ~
}

// Dir is the directory of a working directory's sessions. The first of flag,
// environment and setting that is not empty names it, relative to the working
// directory; without any it is the working directory's own below
// <agentDir>/sessions. shared says that sessions of other working directories
// lie in it as well.
func (c DirChoice) Dir() (dir string, shared bool) {
	for _, choice := range []string{c.Flag, c.Env, c.Setting} {
		if choice == "" {
			continue
		}
		dir := ExpandHome(choice, c.Home)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.Cwd, dir)
		}
		return filepath.Clean(dir), true
	}
	return filepath.Join(Root(c.AgentDir), EncodeCwd(c.Cwd)), false
}

// Own lists the directories whose session files are the user's own: the one
// below the agent directory, and those that the user named. A relative path of
// the settings means something else in each project, so there it is the
// project's, and counts only if that is trusted.
func (c DirChoice) Own(trusted bool) []string {
	own := []string{Root(c.AgentDir)}
	for _, choice := range []struct {
		path     string
		relative bool // may be
	}{{c.Flag, true}, {c.Env, true}, {c.Setting, trusted}} {
		path := ExpandHome(choice.path, c.Home)
		switch {
		case path == "":
		case filepath.IsAbs(path):
			own = append(own, filepath.Clean(path))
		case choice.relative:
			own = append(own, filepath.Join(c.Cwd, path))
		}
	}
	return own
}

// Holds says whether a file lies in one of some directories, whatever symbolic
// links there are on the way.
func Holds(dirs []string, file string) bool {
	real := func(path string) string {
		if r, err := filepath.EvalSymlinks(path); err == nil {
			return r
		}
		return path
	}
	file = real(file)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rel, err := filepath.Rel(real(dir), file)
		return err == nil && filepath.IsLocal(rel)
	})
}

// Root is the directory below which every working directory has its own.
func Root(agentDir string) string { return filepath.Join(agentDir, "sessions") }

// AgentDir is the first of the flag --agent-dir, TROUPE_AGENT_DIR and
// PI_CODING_AGENT_DIR that is not empty, else ~/.pi/agent. It is absolute:
// clients are told of paths in it, and may have another working directory.
func AgentDir(flag string, getenv func(string) string, home string) string {
	for _, choice := range []string{flag, getenv("TROUPE_AGENT_DIR"), getenv("PI_CODING_AGENT_DIR")} {
		if choice != "" {
			return absolute(ExpandHome(choice, home))
		}
	}
	return absolute(filepath.Join(home, ".pi", "agent"))
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path) // the working directory is gone
}

// ExpandHome replaces a leading ~ that stands for the home directory.
func ExpandHome(path, home string) string {
	if path == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return path
}

// EncodeCwd is the name of the directory for a working directory's sessions.
// Different directories may share one: the header's cwd decides. It is the name
// that pi gives, but where pi cannot make a directory because the name is too
// long.
func EncodeCwd(cwd string) string {
	cwd = ValidCwd(cwd)
	if strings.HasPrefix(cwd, "/") || strings.HasPrefix(cwd, `\`) {
		cwd = cwd[1:]
	}
	name := "--" + strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(cwd) + "--"
	if len(name) <= maxName {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(cwd))
	end := fmt.Sprintf("-%016x--", h.Sum64())
	return protocol.Prefix(name, maxName-len(end)) + end
}

// maxName is how many bytes a name may have in the file systems there are.
const maxName = 255

// ValidCwd is a directory's path as session files have it: in UTF-8, with U+FFFD
// for each byte that is not.
func ValidCwd(cwd string) string {
	if utf8.ValidString(cwd) {
		return cwd
	}
	return string([]rune(cwd))
}

// FileName is the name of a session's file.
func FileName(h protocol.Header) string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(h.Timestamp) + "_" + h.ID + ".jsonl"
}

// NewHeader describes a new session. id "" makes one; now is epoch
// milliseconds.
func NewHeader(id, cwd, parentSession string, now int64) protocol.Header {
	if id == "" {
		id = NewSessionID(now)
	}
	return protocol.Header{
		Version: protocol.SessionVersion, ID: id, Timestamp: protocol.FormatTime(now), Cwd: ValidCwd(cwd), ParentSession: parentSession,
	}
}

// NewSessionID makes a UUID of version 7: it sorts by time, in milliseconds.
func NewSessionID(now int64) string {
	var b [16]byte
	rand.Read(b[:])
	for i := range 6 {
		b[i] = byte(now >> (40 - 8*i))
	}
	return formatUUID(b, 7)
}

func formatUUID(b [16]byte, version byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// maxSessionID keeps the file name, which has 30 bytes more, and its side
// file's within what file systems allow.
const maxSessionID = 200

// CheckSessionID says what is wrong with an id that somebody chose: it becomes
// part of a file name.
func CheckSessionID(id string) error {
	inside := strings.TrimFunc(id, isAlphanumeric)
	foreign := strings.ContainsFunc(inside, func(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("-_.", r) })
	if id == "" || len(id) > maxSessionID || foreign || !isAlphanumeric(rune(id[0])) || !isAlphanumeric(rune(id[len(id)-1])) {
		return fmt.Errorf("session id %q: use at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends",
			id, maxSessionID)
	}
	return nil
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// CheckPath refuses what cannot be the path of a session file: it fails with
// ErrInvalidPath where the system would fail later or, worse, cut the name.
func CheckPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: empty", ErrInvalidPath)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("%w: contains a NUL byte", ErrInvalidPath)
	case len(path) >= 4096:
		return fmt.Errorf("%w: %d bytes long", ErrInvalidPath, len(path))
	}
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if len(part) > maxName {
			return fmt.Errorf("%w: a name of %d bytes", ErrInvalidPath, len(part))
		}
	}
	return nil
}
