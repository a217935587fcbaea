// Command skipped reads the output of go test -json, prints it as go test would, and then lists the
// skipped tests and their reasons. go test itself does not show skipped tests of a passing package.
//
//	go test -json ./... | go run ./e2e/need/skipped
//
// It exits with an error if a test has failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	ok, err := run(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "skipped:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of go test -json, see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// key names a test. Test is "" for output of a package outside of tests.
type key struct{ pkg, test string }

// reason is the package of skipped tests and why they were skipped.
type reason struct{ pkg, why string }

// run copies the report from r to w. ok is false if a test has failed.
func run(r io.Reader, w io.Writer) (ok bool, err error) {
	ok = true
	output := map[key][]string{} // of tests that run, and of packages
	skipped := map[reason]int{}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(w, "%s", line) // a message of the go command itself
				continue
			}
			k := key{e.Package, e.Test}
			switch e.Action {
			case "output", "build-output":
				if e.Action == "build-output" || e.Test == "" && isResult(e.Output) {
					fmt.Fprint(w, e.Output)
				} else {
					output[k] = append(output[k], e.Output)
				}
			case "skip":
				if e.Test != "" {
					skipped[reason{e.Package, why(output[k])}]++
				}
				delete(output, k)
			case "fail", "build-fail":
				ok = false
				fmt.Fprint(w, strings.Join(output[k], ""))
				delete(output, k)
			case "pass":
				delete(output, k)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return ok, err
		}
	}
	if len(skipped) > 0 {
		fmt.Fprintln(w, "\nskipped:")
	}
	for _, s := range slices.SortedFunc(maps.Keys(skipped), func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.why, b.why))
	}) {
		fmt.Fprintf(w, "%5d  %s\t%s\n", skipped[s], s.pkg, s.why)
	}
	return ok, nil
}

// isResult reports whether a line is the result line that go test prints for a package.
func isResult(line string) bool {
	for _, word := range []string{"ok  \t", "FAIL\t", "?   \t", "---\t"} {
		if strings.HasPrefix(line, word) {
			return true
		}
	}
	return false
}

// why returns the message of a skipped test, which follows its file and line.
func why(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		line := strings.TrimSpace(output[i])
		if _, message, is := strings.Cut(line, ".go:"); is {
			if _, message, is = strings.Cut(message, ": "); is {
				return message
			}
		}
	}
	return "it gives no reason"
}
