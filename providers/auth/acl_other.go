//go:build !linux

package auth

// hasACL says whether somebody has given others access beside a file's mode, as far as
// that is known.
func hasACL(string) bool { return false }
