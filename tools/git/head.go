package git

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxHead is the number of bytes read of a HEAD or of a .git file. Both have one short line.
const maxHead = 4 << 10

// Branch returns the branch that is checked out in the working tree of a directory, the start of the
// commit if HEAD is detached, or "" outside of a working tree. It reads two files and starts no
// program. The parents of dir are searched as far as allowed permits, and a HEAD elsewhere is read
// only if it permits that, too; nil permits all.
func Branch(dir string, allowed func(string) bool) string {
	for {
		head, found := readHead(filepath.Join(dir, ".git"), allowed)
		if found {
			return head
		}
		up := filepath.Dir(dir)
		if up == dir || allowed != nil && !allowed(up) {
			return ""
		}
		dir = up
	}
}

// readHead reads HEAD of a .git directory, or of the one that a .git file names, as in a linked
// working tree.
func readHead(at string, allowed func(string) bool) (branch string, found bool) {
	st, err := os.Stat(at)
	if err != nil {
		return "", false
	}
	if st.Mode().IsRegular() {
		linked, is := strings.CutPrefix(readLine(at), "gitdir: ")
		if !is {
			return "", false
		}
		if !filepath.IsAbs(linked) {
			linked = filepath.Join(filepath.Dir(at), linked)
		}
		at = linked
	}
	at = filepath.Join(at, "HEAD")
	if allowed != nil && !allowed(at) {
		return "", true
	}
	head := readLine(at)
	if ref, is := strings.CutPrefix(head, "ref: refs/heads/"); is {
		return ref, true
	}
	if len(head) < 40 || strings.Trim(head, "0123456789abcdef") != "" {
		return "", true
	}
	return head[:8], true
}

// readLine returns the first line of a regular file, or "".
func readLine(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHead))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
