package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rs/zerolog"

	"troupe/providers/auth"
	"troupe/store/config"
	"troupe/tools"
)

// newLogins makes the owner of auth.json.
func newLogins(agentDir, cwd string, settings func() config.Own, guard *tools.Guard, log zerolog.Logger) *auth.Store {
	return auth.Open(auth.Config{
		Dir: agentDir, Broker: runProgram(cwd, guard),
		Settings: func() auth.Settings { return auth.Settings(settings().Auth) },
		Notice:   func(text string) { log.Warn().Msg(text) },
	})
}

// maxToken bounds what a program prints that is asked for a token, in bytes.
const maxToken = 64 << 10

// runProgram returns what runs a program, without a shell, and returns what it prints. What
// it says on stderr is not kept: nobody knows what is in it.
func runProgram(cwd string, guard *tools.Guard) func(ctx context.Context, program string, args ...string) (string, error) {
	return func(ctx context.Context, program string, args ...string) (string, error) {
		p, err := tools.Spawn(tools.SpawnSpec{Procs: tools.NewProcs(guard), Command: program, Args: args, Dir: cwd, Env: os.Environ()})
		switch {
		case errors.Is(err, tools.ErrNoProgram):
			return "", fs.ErrNotExist
		case err != nil:
			return "", err
		}
		p.Stdin.Close()
		defer p.Stdout.Close()
		defer p.Stderr.Close()
		go func() { _, _ = io.Copy(io.Discard, p.Stderr) }()
		printed := make(chan []byte, 1)
		go func() {
			out, _ := io.ReadAll(io.LimitReader(p.Stdout, maxToken))
			printed <- out
		}()
		select {
		case <-p.Exited():
		case <-ctx.Done():
			p.Kill(200 * time.Millisecond)
			return "", ctx.Err()
		}
		code, sig, err := p.End()
		switch {
		case err != nil:
			return "", err
		case sig != 0:
			return "", fmt.Errorf("signal %v", sig)
		case code != 0:
			return "", fmt.Errorf("exit status %d", code)
		}
		select {
		case out := <-printed:
			return string(out), nil
		case <-time.After(time.Second): // what it has started keeps the pipe open
			return "", errors.New("its output has no end")
		}
	}
}
