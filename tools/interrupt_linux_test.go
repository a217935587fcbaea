package tools

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An interrupt needs no context to end a command and all it has started.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Interrupt = new(Interrupt)
	var left *process
	res, err := Exec(t.Context(), ExecSpec{
		Env: env, Command: "setsid sleep 600 & echo $!; exec sleep 600",
		Progress: func(p ExecProgress) {
			left = watchProcess(t, p.Output.Content)
			env.Interrupt.Now()
		},
	})
	require.NoError(t, err)
	assert.True(t, res.Cancelled)
	assert.Equal(t, "terminated", res.Signal)
	assert.False(t, left.alive())

	res, err = Exec(t.Context(), ExecSpec{Env: env, Command: "sleep 600"})
	require.NoError(t, err)
	assert.True(t, res.Cancelled, "the call is over")
	(*Interrupt)(nil).Now()
}

// The end of the context, which follows, does not say it again: programs take a
// second SIGTERM for more than the first.
func TestInterruptSaysItOnce(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Interrupt, env.Grace = new(Interrupt), time.Minute
	ctx, spec := cancelOnOutput(t, env, `trap 'echo TERM' TERM; echo on; until [ -e go ]; do sleep 0.02; done; for i in 1 2 3 4 5; do sleep 0.02; done`)
	cancel := spec.Progress
	spec.Progress = func(p ExecProgress) {
		env.Interrupt.Now()
		cancel(p)
		put(t, env, "go", "")
	}
	res, err := Exec(ctx, spec)
	require.NoError(t, err)
	assert.True(t, res.Cancelled)
	assert.Equal(t, 1, strings.Count(res.Output.Content, "TERM"))

	stubborn := newEnv(t)
	stubborn.Interrupt, stubborn.Grace = new(Interrupt), 50*time.Millisecond
	ctx, spec = cancelOnOutput(t, stubborn, `trap '' TERM; echo on; while :; do sleep 0.02; done`)
	cancel = spec.Progress
	spec.Progress = func(p ExecProgress) {
		stubborn.Interrupt.Now()
		cancel(p)
	}
	res, err = Exec(ctx, spec)
	require.NoError(t, err)
	assert.Equal(t, "killed", res.Signal, "who does not hear it is killed")
}
