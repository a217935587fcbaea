//go:build !linux

package main

import (
	"io"
	"os"
)

// prompt leaves stdout as it is.
func prompt(stdout *os.File) io.Writer { return stdout }
