package remote

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Strangers cannot take all descriptors: the one too many is closed, and another may
// come once one of them has gone.
func TestStrangersAreBounded(t *testing.T) {
	s := New(Config{})
	var first net.Conn
	for range maxStrangers {
		first, _ = net.Pipe()
		s.count(first, http.StateNew)
	}
	open := func() bool {
		ours, theirs := net.Pipe()
		s.count(ours, http.StateNew)
		go func() { _, _ = ours.Write([]byte("x")) }()
		n, _ := theirs.Read(make([]byte, 1))
		return n == 1
	}
	assert.False(t, open())
	s.count(first, http.StateClosed)
	assert.True(t, open())
}

// The place where a stream of events has ended is taken as it is, or not at all.
func TestAttachTo(t *testing.T) {
	since := map[string]any{"epoch": "e", "seq": uint64(7)}
	assert.Equal(t, since, attachTo("s1", "e:s1:7")["since"])
	for _, last := range []string{"", "e:s2:7", "e:s1:x", "e:s1:-1", `e:s1:0},"x":{`, "e:s1:7:8"} {
		of := attachTo("s1", last)
		assert.NotContains(t, of, "since", last)
		assert.Contains(t, of, "snapshot", last)
	}
}
