package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestResults checks the results file. A recorded round is not repeated for the same state of the
// code, a truncated line is ignored, and a failed round is an error that names its tests.
func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flakes.jsonl")
	conn := testPackage{path: "troupe/actors/conn", state: "1"}
	r, err := openResults(path)
	require.NoError(t, err)
	require.NoError(t, r.add(outcome{Package: conn.path, State: "1", Round: 1, Passed: true, Seconds: 2}))
	require.NoError(t, r.add(outcome{Package: conn.path, State: "1", Round: 2, Failed: []string{"TestA", "TestA/b"}, Seconds: 3}))
	require.NoError(t, r.Close())

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, `{"package":"troupe/actors/conn","state":"1","rou`...), 0o600))
	r, err = openResults(path)
	require.NoError(t, err)
	require.NoError(t, r.add(outcome{Package: conn.path, State: "0", Round: 1, Passed: true}))
	require.NoError(t, r.Close())
	r, err = openResults(path)
	require.NoError(t, err, "the line after one that was cut off is whole")
	defer r.Close()
	assert.True(t, r.has(conn, 1))
	assert.True(t, r.has(conn, 2))
	assert.False(t, r.has(conn, 3))
	assert.False(t, r.has(testPackage{path: conn.path, state: "2"}, 1), "the code has changed since")

	var text bytes.Buffer
	assert.EqualError(t, r.report(&text, []testPackage{conn}), "1 rounds failed")
	assert.Equal(t, "troupe/actors/conn 2 1 3 s TestA ×1, TestA/b ×1",
		strings.Join(strings.Fields(strings.Split(text.String(), "\n")[1]), " "))
	text.Reset()
	assert.NoError(t, r.report(&text, []testPackage{{path: conn.path, state: "2"}}))
	assert.NotContains(t, text.String(), conn.path)
}

// TestBuild checks that the state of a package depends on its test data, that tests run in their
// directory, and that failed tests are reported by name.
func TestBuild(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(module, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module example\n\ngo 1.26\n")
	write("testdata/answer", "42")
	write("a_test.go", `package a
import ("os"; "testing")
func TestAnswer(t *testing.T) {
	if text, _ := os.ReadFile("testdata/answer"); string(text) != "42" { t.Fatalf("%s", text) }
}
`)
	t.Chdir(module)
	build := func() testPackage {
		packages, err := listPackages(t.Context(), []string{"./..."})
		require.NoError(t, err)
		require.Len(t, packages, 1)
		require.NoError(t, packages[0].build(t.Context(), t.TempDir(), nil))
		return packages[0]
	}
	first := build()
	assert.True(t, first.run(t.Context(), 1, options{timeout: 1e11}).Passed)
	assert.Equal(t, first.state, build().state)
	write("testdata/answer", "41")
	second := build()
	assert.NotEqual(t, first.state, second.state)
	failed := second.run(t.Context(), 3, options{timeout: 1e11})
	assert.Equal(t, []string{"TestAnswer"}, failed.Failed)
	assert.Equal(t, "3", failed.Shuffle)
}
