//go:build !linux

package testenv

import (
	"errors"
	"os"
	"os/exec"
)

// supervise runs the tests and returns their exit code. Only Linux reparents orphaned grandchildren
// to this process, so no remaining processes are found here.
func supervise(binary string, args, env []string) (code int, left []string, err error) {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil, nil
	}
	return cmd.ProcessState.ExitCode(), nil, err
}

func exit(code int) { os.Exit(code) }
