//go:build failpoints

package failpoint

import "os"

// FromEnv is the plan in TROUPE_FAULTS. Only binaries built with the tag
// failpoints look there.
func FromEnv() *Plan {
	p, err := Parse(os.Getenv("TROUPE_FAULTS"))
	if err != nil {
		panic(err)
	}
	return p
}
