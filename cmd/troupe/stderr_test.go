package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// held is a reader's end that takes nothing until it is released.
type held struct {
	begun, release chan struct{}
	got            strings.Builder
}

func (h *held) Write(p []byte) (int, error) {
	select {
	case h.begun <- struct{}{}:
	default:
	}
	<-h.release
	return h.got.Write(p)
}

// TestBacklog: who does not read is not waited for, and is told what is missing
// and where.
func TestBacklog(t *testing.T) {
	out := &held{begun: make(chan struct{}, 1), release: make(chan struct{})}
	b := &backlog{out: out, limit: 100}
	fmt.Fprintln(b, "first")
	<-out.begun
	fmt.Fprintln(b, strings.Repeat("x", 80))
	fmt.Fprintln(b, strings.Repeat("y", 80))
	fmt.Fprintln(b, "small")
	b.flush(time.Millisecond) // returns although nothing moves
	close(out.release)
	b.flush(time.Minute)
	fmt.Fprintln(b, "last")
	b.flush(time.Minute)
	lines := strings.Split(out.got.String(), "\n")
	require.Len(t, lines, 5)
	assert.Equal(t, "first", lines[0])
	assert.Equal(t, strings.Repeat("x", 80), lines[1])
	assert.EqualValues(t, 2, gjson.Get(lines[2], "dropped").Int())
	assert.Equal(t, "last", lines[3])
}

// TestBacklogInOrder: nothing is lost with a reader, however many write.
func TestBacklogInOrder(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	b := &backlog{out: w, limit: 1 << 20}
	const writers, lines = 4, 500
	done := make(chan struct{})
	for i := range writers {
		go func() {
			for n := range lines {
				fmt.Fprintf(b, "%d %d %s\n", i, n, strings.Repeat("x", 100))
			}
			done <- struct{}{}
		}()
	}
	go func() {
		for range writers {
			<-done
		}
		b.flush(time.Minute)
		w.Close()
	}()
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	var next [writers]int
	for line := range strings.Lines(string(all)) {
		var i, n int
		_, err := fmt.Sscanf(line, "%d %d x", &i, &n)
		require.NoError(t, err, line)
		require.Len(t, strings.Fields(line)[2], 100)
		require.Equal(t, next[i], n)
		next[i]++
	}
	assert.Equal(t, [writers]int{lines, lines, lines, lines}, next)
}
