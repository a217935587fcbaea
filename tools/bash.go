package tools

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"troupe/protocol"
)

//go:embed bash.md
var bashText string

type bashArgs struct {
	Command string   `json:"command" description:"Shell command to run"`
	Timeout *float64 `json:"timeout,omitempty" description:"Seconds after which the command is stopped (no limit if omitted)"`
}

// boundArgs are those of bash in a session that is bound by a [Sandbox].
type boundArgs struct {
	Command     string   `json:"command" description:"Shell command to run"`
	Timeout     *float64 `json:"timeout,omitempty" description:"Seconds after which the command is stopped (no limit if omitted)"`
	Unsandboxed bool     `json:"unsandboxed,omitempty" description:"In permission mode ask only: the user is asked whether it may run without the sandbox. For a command that has failed because of it"`
}

// bash runs commands in a shell.
type bash struct{ described }

func newBash() Tool { return bashFor[bashArgs]() }

func bashFor[Args any]() Tool {
	d := describe[Args]("bash", bashText, protocol.NoFile)
	d.info.Aborted = "Command aborted"
	return bash{d}
}

// errBound is what a model reads that has not been allowed to do without the sandbox.
var errBound = errors.New("this command cannot run without the sandbox: that can be asked for in permission mode ask only")

func (t bash) Run(ctx context.Context, call Call) (protocol.ToolResult, error) {
	args, err := decodeArgs[boundArgs](call.Args)
	if err != nil {
		return protocol.ToolResult{}, err
	}
	if args.Unsandboxed && call.Env.Sandbox.On() {
		return protocol.ToolResult{}, errBound
	}
	spec := ExecSpec{Env: call.Env.judged(args.Command), Command: args.Command}
	if args.Timeout != nil {
		if spec.Timeout, err = seconds(*args.Timeout); err != nil {
			return protocol.ToolResult{}, err
		}
	}
	if call.Progress != nil {
		spec.Progress = func(p ExecProgress) { call.Progress(partialOutput(p)) }
	}
	begun := time.Now()
	res, err := Exec(ctx, spec)
	if err != nil {
		return protocol.ToolResult{}, err
	}
	took := time.Since(begun)
	result, err := bashResult(res, args.Timeout, call.Env.Sandbox)
	if !res.Cancelled && !res.TimedOut {
		result.Structured = func() json.RawMessage { return bashStructured(res, took) }
	}
	return result, err
}

// bashStructured is the structured content of a command that ended by itself, as pi 1.x has it. The output is the part
// that is shown.
func bashStructured(res ExecResult, took time.Duration) json.RawMessage {
	return details(struct {
		Output    string  `json:"output"`
		Truncated bool    `json:"truncated"`
		ExitCode  int     `json:"exit_code"`
		Seconds   float64 `json:"wall_time_seconds"`
	}{res.Output.Content, res.Output.Truncated, res.ExitCode, took.Round(100 * time.Millisecond).Seconds()})
}

// seconds turns a timeout into a duration. Longer than a Duration holds is as
// long as it holds.
func seconds(s float64) (time.Duration, error) {
	if !(s > 0) || math.IsInf(s, 0) {
		return 0, errors.New("timeout must be a positive number of seconds; leave it out for none")
	}
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64, nil
	}
	return max(time.Duration(s*float64(time.Second)), 1), nil
}

func partialOutput(p ExecProgress) protocol.ToolResult {
	details := bashDetails(p.Output, p.FullOutputPath, Sandbox{})
	if details == nil {
		details = json.RawMessage("{}")
	}
	return protocol.ToolResult{Content: protocol.TextContent(p.Output.Content), Details: details}
}

func bashDetails(out Truncation, path string, sandbox Sandbox) json.RawMessage {
	if !out.Truncated && !sandbox.On() {
		return nil
	}
	d := struct {
		Truncation     *Truncation   `json:"truncation,omitempty"`
		FullOutputPath string        `json:"fullOutputPath,omitempty"`
		Sandbox        *sandboxWords `json:"sandbox,omitempty"`
	}{Sandbox: sandbox.words()}
	if out.Truncated {
		d.Truncation, d.FullOutputPath = &out, path
	}
	return details(d)
}

// bashResult words the result. Only a shell that ended with 0 is a success.
func bashResult(res ExecResult, timeout *float64, sandbox Sandbox) (protocol.ToolResult, error) {
	result := protocol.ToolResult{Details: bashDetails(res.Output, res.FullOutputPath, sandbox)}
	text := withNotices(res.Output.Content, outputNotice(res)...)
	why := ""
	switch {
	case res.Cancelled:
		why = "Command aborted"
	case res.TimedOut:
		why = fmt.Sprintf("Command timed out after %s seconds", strconv.FormatFloat(*timeout, 'f', -1, 64))
	case res.ExitCode != 0:
		why = fmt.Sprintf("Command exited with code %d", res.ExitCode)
		text = cmp.Or(text, noOutput)
	case text == "":
		text = noOutput
	}
	if why == "" {
		result.Content = protocol.TextContent(text)
		return result, nil
	}
	if text != "" {
		why = text + "\n\n" + why
	}
	err := errors.New(why)
	if sandbox.On() && !res.Cancelled && !res.TimedOut {
		return result, &SandboxedError{err, sandbox}
	}
	return result, err
}

const noOutput = "(no output)"

// outputNotice says what is shown of how much and where the rest is.
func outputNotice(res ExecResult) []string {
	out := res.Output
	if !out.Truncated {
		return nil
	}
	shown := fmt.Sprintf("Showing lines %d-%d of %d", out.TotalLines-out.OutputLines+1, out.TotalLines, out.TotalLines)
	switch {
	case out.LastLinePartial:
		shown = fmt.Sprintf("Showing the last %s of line %d, of %s in all",
			protocol.FormatSize(out.OutputBytes), out.TotalLines, protocol.FormatSize(out.TotalBytes))
	case out.TruncatedBy == byBytes:
		shown += fmt.Sprintf(" (%s limit)", protocol.FormatSize(MaxBytes))
	}
	rest := "Full output: " + res.FullOutputPath
	switch {
	case res.FullOutputCut:
		rest = fmt.Sprintf("Its beginning, as much as is kept: %s", res.FullOutputPath)
	case res.FullOutputPath == "":
		rest = fmt.Sprintf("The full output could not be saved: %v", res.FullOutputErr)
	}
	return []string{shown, rest}
}
