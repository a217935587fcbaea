package git

import (
	"os"
	"path/filepath"
)

// fileSystemSettings returns the settings of git that describe the file system of a directory, as it
// really is. The repository's own settings describe the file system on which it was cloned: in one that was
// cloned on macOS or Windows and copied, git takes two files for one, or a link for a text.
//
// core.precomposeUnicode is not among them, because only a git that was built for macOS obeys it.
func fileSystemSettings(dir string) (list []string) {
	if known, ignores := ignoresCase(dir); known {
		value := "false"
		if ignores {
			value = "true"
		}
		list = append(list, "core.ignoreCase="+value)
	}
	if isPOSIX(dir) {
		list = append(list, "core.symlinks=true", "core.fileMode=true")
	}
	return list
}

// maxProbes is how many entries of a directory are looked at.
const maxProbes = 64

// ignoresCase reports whether names that differ in case only are one file in a directory. It writes
// nothing: it looks up an entry, or the directory itself, by its name in the other case.
func ignoresCase(dir string) (known, ignores bool) {
	if d, err := os.Open(dir); err == nil {
		names, _ := d.Readdirnames(maxProbes)
		d.Close()
		for _, name := range names {
			if known, ignores := sameInOtherCase(dir, name); known {
				return true, ignores
			}
		}
	}
	return sameInOtherCase(filepath.Dir(dir), filepath.Base(dir))
}

func sameInOtherCase(dir, name string) (known, same bool) {
	other := otherCase(name)
	if other == name {
		return false, false
	}
	is, err := os.Lstat(filepath.Join(dir, name))
	if err != nil {
		return false, false
	}
	found, err := os.Lstat(filepath.Join(dir, other))
	switch {
	case err == nil:
		return true, os.SameFile(is, found)
	case os.IsNotExist(err):
		_, err := os.Lstat(filepath.Join(dir, name)) // it may have gone meanwhile
		return err == nil, false
	default:
		return false, false
	}
}

// otherCase exchanges the case of the ASCII letters.
func otherCase(name string) string {
	other := []byte(name)
	for i, c := range other {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			other[i] = c ^ 0x20
		}
	}
	return string(other)
}
