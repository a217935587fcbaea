package remote

import (
	"os"
	"path/filepath"
	"slices"
)

// Below says of a path whether it is one of some directories or below it, whatever symbolic
// links are on the way. What is not there yet counts as where it would be.
func Below(dirs []string) func(path string) bool {
	var roots []string
	for _, dir := range dirs {
		if dir != "" {
			roots = append(roots, real(dir))
		}
	}
	return func(path string) bool {
		path = real(path)
		return slices.ContainsFunc(roots, func(root string) bool {
			within, err := filepath.Rel(root, path)
			return err == nil && filepath.IsLocal(within)
		})
	}
}

// real follows the symbolic links of a path, as far as it is there. A link that leads
// nowhere yet leads there later.
func real(path string) string {
	for range maxLinks {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			return found
		}
		if to, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
			continue
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		return filepath.Join(real(up), filepath.Base(path))
	}
	return "" // a circle
}

const maxLinks = 40
