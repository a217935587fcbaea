package auth

import "golang.org/x/sys/unix"

// hasACL says whether somebody has given others access beside a file's mode, which a new
// file in its place would not have.
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
