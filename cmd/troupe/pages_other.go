//go:build !linux

package main

func dropStart() {}
