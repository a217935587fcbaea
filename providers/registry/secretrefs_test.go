package registry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// environ is an environment of its own.
func environ(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestSecretRefs_resolve(t *testing.T) {
	v := &secretRefs{
		env: environ("KEY_ONE", "one", "lower", "l", "EMPTY", ""),
		run: func(_ context.Context, command string) (string, error) { return " out of " + command + "\n", nil },
	}
	own := map[string]string{"KEY_TWO": "two", "KEY_ONE": "mine"}
	for _, c := range []struct {
		in, want string
		has      bool
	}{
		{"sk-literal", "sk-literal", true},
		{" sk-literal\n", "sk-literal", true},
		{"", "", false},
		{"$KEY_ONE", "one", true},
		{"${KEY_ONE}", "one", true},
		{"Bearer ${KEY_ONE}-x", "Bearer one-x", true},
		{"$KEY_ONE$lower", "onel", true},
		{"$UNSET", "", false},
		{"Bearer $UNSET", "", false},
		{"$EMPTY", "", false},
		{"cost $5", "cost $5", true},
		{"a$$b", "a$b", true},
		{"$$KEY_ONE", "$KEY_ONE", true},
		{"${not closed", "${not closed", true},
		{"KEY_ONE", "one", true},
		{"KEY_NONE", "KEY_NONE", true},
		{"lower", "lower", true},
		{"K", "K", true},
		{"!echo key", "out of echo key", true},
		{"!", "", false},
		{"$KEY_TWO", "", false},
	} {
		assert.Equal(t, c.has, v.has(c.in, nil), "has %q", c.in)
		if c.in == "!" {
			continue
		}
		got, err := v.resolve(t.Context(), c.in, nil)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%q", c.in)
	}
	got, err := v.resolve(t.Context(), "$KEY_ONE-$KEY_TWO", own)
	require.NoError(t, err)
	assert.Equal(t, "mine-two", got, "a credential's own variables come first")
}

func TestSecretRefs_commands(t *testing.T) {
	runs := 0
	var answer error
	v := &secretRefs{env: environ(), run: func(context.Context, string) (string, error) {
		runs++
		return "key", answer
	}}
	for range 3 {
		got, err := v.resolve(t.Context(), "!cmd", nil)
		require.NoError(t, err)
		assert.Equal(t, "key", got)
	}
	assert.Equal(t, 1, runs, "once")
	v.forget("!other")
	v.forget("!cmd ")
	answer = errors.New("exit status 1")
	for range 2 {
		_, err := v.resolve(t.Context(), "!cmd", nil)
		require.EqualError(t, err, "exit status 1")
	}
	assert.Equal(t, 3, runs, "a failure is not kept")

	_, err := (&secretRefs{env: environ()}).resolve(t.Context(), "!cmd", nil)
	require.ErrorIs(t, err, errNoCommands)
	silent := &secretRefs{env: environ(), run: func(context.Context, string) (string, error) { return " \n", nil }}
	_, err = silent.resolve(t.Context(), "!cmd", nil)
	require.ErrorContains(t, err, "printed nothing")
}

func TestSecretRefs_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &secretRefs{env: environ(), run: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "too late", nil
		}}
		begun := time.Now()
		_, err := v.resolve(t.Context(), "!sleep", nil)
		require.ErrorContains(t, err, "longer than 10s")
		assert.Equal(t, commandTime, time.Since(begun))
	})
}

// TestValues_shared: many who want the same command at once share a run, and
// one that gives up fails nobody else.
func TestSecretRefs_shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		v := &secretRefs{env: environ(), run: func(ctx context.Context, command string) (string, error) {
			runs.Add(1)
			select {
			case <-time.After(5 * time.Second):
				return strings.ToUpper(command), nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
		var all sync.WaitGroup
		first, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			_, err := v.resolve(first, "!key", nil)
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 8 {
			all.Go(func() {
				got, err := v.resolve(t.Context(), "!key", nil)
				assert.NoError(t, err)
				assert.Equal(t, "KEY", got)
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		assert.Equal(t, int32(2), runs.Load())
	})
}
