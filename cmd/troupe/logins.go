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

// runProgram returns a function that runs a program without a shell and returns the beginning of
// what it prints. The error is [fs.ErrNotExist] if there is no such program. What it prints on
// stderr is dropped, since it may hold secrets. If ctx ends, the program and all that it has
// started are ended, too.
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
		printed, dropped := begun(p.Stdout), begun(p.Stderr)
		select {
		case <-p.Exited():
		case <-ctx.Done():
			p.Kill(200 * time.Millisecond)
			return "", ctx.Err()
		}
		code, sig, err := p.End()
		patience := time.AfterFunc(time.Second, func() { // programs that it has started may keep its pipes open
			p.Stdout.Close()
			p.Stderr.Close()
		})
		defer patience.Stop()
		stdout := <-printed
		<-dropped
		switch {
		case err != nil:
		case sig != 0:
			err = fmt.Errorf("signal %v", sig)
		case code != 0:
			err = fmt.Errorf("exit status %d", code)
		}
		return stdout, err
	}
}

// begun reads a pipe to its end and passes on what came first.
func begun(pipe io.Reader) <-chan string {
	read := make(chan string, 1)
	go func() {
		begin, _ := io.ReadAll(io.LimitReader(pipe, maxToken))
		_, _ = io.Copy(io.Discard, pipe) // not to have the program wait
		read <- string(begin)
	}()
	return read
}
