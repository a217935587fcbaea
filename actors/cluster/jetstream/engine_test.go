package jetstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAddresses: a server that others have told of is spoken to as the user that was configured.
func TestAddresses(t *testing.T) {
	assert.Equal(t, []string{"nats://u:p@a:1", "nats://v:q@b:2", "nats://u:p@c:3"},
		addresses("nats://u:p@a:1, nats://v:q@b:2", []string{"nats://b:2", "nats://c:3", "nats://a:1"}))
	assert.Equal(t, []string{"tls://u:p@a:1", "tls://u:p@b:2", "tls://u:p@c:3"}, addresses("tls://u:p@a:1,b:2, c:3", []string{"tls://b:2"}))
	assert.Equal(t, []string{"tls://a:1", "nats://c:3"}, addresses("tls://a:1", []string{"nats://c:3"}))
}
