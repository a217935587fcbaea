package jetstream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAddresses: a server that others have told of is spoken to as the user that was configured.
func TestAddresses(t *testing.T) {
	assert.Equal(t, []string{"nats://u:p@a:1", "nats://v:q@b:2", "nats://u:p@c:3"},
		addresses("nats://u:p@a:1, nats://v:q@b:2", []string{"nats://b:2", "nats://c:3", "nats://a:1"}))
	assert.Equal(t, []string{"tls://u:p@a:1", "tls://u:p@b:2", "tls://u:p@c:3"}, addresses("tls://u:p@a:1,b:2, c:3", []string{"tls://b:2"}))
	assert.Equal(t, []string{"tls://a:1", "nats://c:3"}, addresses("tls://a:1", []string{"nats://c:3"}))
	assert.Equal(t, []string{"tls://u:p@a:1", "tls://u:p@b:2", "tls://v:q@c:3", "nats://u:p@d:4"},
		addresses("tls://u:p@a:1,b:2, v:q@c:3,", []string{"nats://b:2", "nats://d:4"}))
}

// TestSeveralServers: of servers with one scheme and one user before all of them each is spoken to in that way, also by who asks the
// system account, and each is one of those from which logs are read.
func TestSeveralServers(t *testing.T) {
	s := newStub()
	at := strings.TrimPrefix(s.start(t), "nats://")
	e, err := Open(t.Context(), Config{URL: "nats://u:p@127.0.0.1:1," + at, System: "nats://sys:q@127.0.0.1:1," + at})
	require.NoError(t, err)
	defer e.Close()
	s.mu.Lock()
	assert.Equal(t, []string{"u", "sys"}, s.users)
	s.mu.Unlock()
	var servers []string
	for _, of := range e.Sources() {
		if of.Server {
			servers = append(servers, of.Name)
		}
	}
	assert.Equal(t, []string{"127.0.0.1:1", at}, servers)
}
