//go:build unix

package store

var Again = again
