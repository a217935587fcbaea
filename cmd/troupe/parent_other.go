//go:build !linux

package main

import (
	"os"
	"time"
)

// watchParent calls gone when the process that started this one has ended.
func watchParent(gone func()) {
	parent := os.Getppid()
	if parent <= 1 {
		return
	}
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	gone()
}
