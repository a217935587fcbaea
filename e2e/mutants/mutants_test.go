package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTable: each mutant changes one place that exists, so that a change of the
// source does not leave one behind that changes nothing.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		assert.False(t, names[m.name], "two are called %q", m.name)
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(source), m.old), "%s: how often its place is in %s", m.name, m.file)
	}
}
