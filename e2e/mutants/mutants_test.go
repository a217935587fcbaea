package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTable: each mutant changes one place that exists, so that a change of the
// source does not leave one behind that changes nothing, and names tests that there are.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		assert.False(t, names[m.name], "two are called %q", m.name)
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(source), m.old), "%s: how often its place is in %s", m.name, m.file)
		if i := slices.Index(m.test, "-run"); i >= 0 {
			top, _, _ := strings.Cut(m.test[i+1], "/")
			for name := range strings.SplitSeq(top, "|") {
				assert.True(t, anyTest(t, m.test[:i], name), "%s: a test of %v that is called %q", m.name, m.test[:i], name)
			}
		}
	}
}

var testNames = map[string][]string{} // of rooms

// anyTest says whether a pattern of -run chooses a test of any of some rooms: nothing fails where nothing runs.
func anyTest(t *testing.T, rooms []string, pattern string) bool {
	is, err := regexp.Compile(pattern)
	require.NoError(t, err)
	for _, room := range rooms {
		if _, known := testNames[room]; !known {
			files, err := filepath.Glob(filepath.Join("..", "..", room, "*_test.go"))
			require.NoError(t, err)
			testNames[room] = []string{}
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
					testNames[room] = append(testNames[room], found[1])
				}
			}
		}
		if slices.ContainsFunc(testNames[room], is.MatchString) {
			return true
		}
	}
	return false
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
