package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"troupe/tools"
)

// keyCommand returns what runs a !command of models.json or auth.json and
// returns its stdout. Nothing of the command outlives its shell, the caller's
// patience or this process, but for daemons that left its process group: people
// want their gpg-agent to stay.
func keyCommand(cwd string, guard *tools.Guard) func(ctx context.Context, command string) (string, error) {
	env := &tools.Env{
		Cwd: cwd, Environ: os.Environ(), Shell: "/bin/sh", Procs: tools.NewProcs(guard), Grace: 200 * time.Millisecond,
		// Daemons are not to bear our mark. A warning is no part of a key, and Exec
		// does not tell the two apart.
		ShellPrefix: "unset TROUPE_PROCS; exec 2>/dev/null",
		TempDir:     os.DevNull, // nothing can be made there: what is too long for a key is not kept on disk
	}
	return func(ctx context.Context, command string) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := tools.Exec(ctx, tools.ExecSpec{Env: env, Command: command, KillGroup: true, Progress: func(p tools.ExecProgress) {
			if p.Output.Truncated {
				cancel()
			}
		}})
		switch {
		case err != nil:
			return "", err
		case res.Output.Truncated:
			return "", fmt.Errorf("it printed too much: a key has at most %d lines and %d bytes", tools.MaxLines, tools.MaxBytes)
		case res.Cancelled:
			return "", ctx.Err()
		case res.Signal != "":
			return "", errors.New("signal: " + res.Signal)
		case res.ExitCode != 0:
			return "", fmt.Errorf("exit status %d", res.ExitCode)
		}
		return res.Output.Content, nil
	}
}
