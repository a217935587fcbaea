//go:build !linux

package main

// hideSecrets is for systems that show a process's environment to its children.
func hideSecrets() {}
