//go:build !linux

package main

import (
	"errors"
	"os"
)

// hideTyping has a terminal not show what is typed.
func hideTyping(*os.File) (restore func(), err error) {
	return nil, errors.New("not on this system")
}
