//go:build !linux

// Command bench measures the built daemon from outside; it reads /proc.
package main

import "fmt"

func main() { fmt.Println("bench: runs on Linux only") }
