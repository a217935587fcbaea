package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestClusterArguments: what troupe cluster is told wrong it says before it does anything; nothing is ignored.
func TestClusterArguments(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const engine = " --cluster nats://127.0.0.1:1"
	for _, c := range []struct{ args, want string }{
		{"", "usage: "},
		{"frob", "usage: "},
		{"status x", "usage: "},
		{"move s", "usage: "},
		{"status", "--cluster URL is missing"},
		{"status --cluster", "--cluster needs a value"},
		{"status --cluster http://x", "want nats://HOST:PORT"},
		{"status --nope", "unknown option --nope"},
		{"status --node a" + engine, "options of init"},
		{"check --replicas 3" + engine, "options of init"},
		{"init", "init needs --cluster-dir"},
		{"init --node a" + engine, "--node needs --cluster-dir"},
		{"init --replicas x" + engine, `want a number, 1 or more, not "x"`},
		{"init --partitions 0" + engine, `want a number, 1 or more, not "0"`},
		{"init --partitions 3 --cluster-dir d", "are for --cluster nats://"},
		{"init --replicas 3 --cluster postgres://x", "are for --cluster nats://"},
		{"check a/b" + engine, `"a/b" is no name`},
		{"export a/b f" + engine, `"a/b" is no name`},
		{"drain a/b" + engine, `"a/b" is no name`},
		{"move s n" + engine, "--cluster-dir is missing"},
		{"drain n" + engine, "--cluster-dir is missing"},
	} {
		err := administer(strings.Fields(c.args))
		var usage usageError
		assert.True(t, errors.As(err, &usage), "%s: %v", c.args, err)
		assert.ErrorContains(t, err, c.want, c.args)
	}
}
