package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// CheckSpec is a command of the shell that says by its exit code whether the work
// in a directory is good.
type CheckSpec struct {
	Env     *Env
	Dir     string   // where it runs, instead of the environment's
	Vars    []string // of its environment besides, KEY=value
	Command string
	Timeout time.Duration // 0 is 30 minutes

	// Log is the file that gets its output as it came, the middle left out of more
	// than 50 MiB. Its directory exists. "" keeps none.
	Log string
}

// CheckResult is how a check ended.
type CheckResult struct {
	ExitCode  int // 124 after the timeout, 130 if it was cancelled, 127 if it could not be started
	TimedOut  bool
	Cancelled bool
	Duration  time.Duration
	Preview   string // the last 20 lines of the output, at most 4,000 bytes, as plain text
	Log       string // the file; "" if there was no output
	LogErr    error  // why there is no file although there was
}

const (
	checkTime    = 30 * time.Minute
	maxCheckLog  = 50 << 20
	previewLines = 20
	previewBytes = 4000
)

// RunCheck runs a command to its end. What it left in the background is ended, too. When
// RunCheck returns, the log survives a crash.
func RunCheck(ctx context.Context, spec CheckSpec) CheckResult {
	env := *spec.Env
	env.Cwd, env.Environ = spec.Dir, slices.Concat(env.Environ, spec.Vars)
	log := checkLog{name: spec.Log, part: maxCheckLog / 2}
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = checkTime
	}
	begun := time.Now()
	end, err := Exec(ctx, ExecSpec{Env: &env, Command: spec.Command, Timeout: timeout, KillGroup: true, Output: &log})
	r := CheckResult{ExitCode: end.ExitCode, TimedOut: end.TimedOut, Cancelled: end.Cancelled, Duration: time.Since(begun)}
	switch {
	case err != nil:
		r.ExitCode = 127
		fmt.Fprintln(&log, err)
	case end.TimedOut:
		r.ExitCode = 124
	case end.Cancelled:
		r.ExitCode = 130
	}
	r.Preview = log.preview()
	r.Log, r.LogErr = log.finish()
	return r
}

// checkLog is the file with the output of a check: its beginning, and behind that
// a ring with its end.
type checkLog struct {
	name string
	part int64 // bytes of the beginning, and as many of the end

	file *os.File
	all  int64 // bytes so far
	err  error
	tail []byte // the last bytes, for the preview
}

func (l *checkLog) Write(p []byte) (int, error) {
	l.remember(p)
	if l.name == "" || l.err != nil {
		return len(p), nil
	}
	if l.file == nil {
		l.file, l.err = os.OpenFile(l.name+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	for rest := p; len(rest) > 0 && l.err == nil; {
		at, room := l.place()
		n := min(room, int64(len(rest)))
		_, l.err = l.file.WriteAt(rest[:n], at)
		l.all, rest = l.all+n, rest[n:]
	}
	return len(p), nil
}

// place is where the next byte goes, and how many may follow it there.
func (l *checkLog) place() (at, room int64) {
	if l.all < l.part {
		return l.all, l.part - l.all
	}
	at = (l.all - l.part) % l.part
	return l.part + at, l.part - at
}

// remember keeps enough for the preview.
func (l *checkLog) remember(p []byte) {
	const keep = 4 * previewBytes // escape sequences do not count
	l.tail = append(l.tail, p[max(0, len(p)-keep):]...)
	if extra := len(l.tail) - keep; extra > keep {
		l.tail = append(l.tail[:0], l.tail[extra:]...)
	}
}

// preview is the end of the output as plain text.
func (l *checkLog) preview() string {
	var clean sanitizer
	text := strings.TrimRight(string(clean.finish(clean.append(nil, trimHalfRune(l.tail)))), "\n")
	lines := strings.Split(text, "\n")
	text = strings.Join(lines[max(0, len(lines)-previewLines):], "\n")
	if len(text) > previewBytes {
		text = string(trimHalfRune([]byte(text[len(text)-previewBytes:])))
	}
	return text
}

// finish gives the file its name.
func (l *checkLog) finish() (string, error) {
	if l.file == nil {
		return "", l.err
	}
	defer l.file.Close()
	tmp := l.file.Name()
	if l.err == nil && l.all > 2*l.part {
		tmp, l.err = l.straighten()
	} else if l.err == nil {
		l.err = l.file.Sync()
	}
	if l.err == nil {
		l.err = os.Rename(tmp, l.name)
	}
	if l.err == nil {
		l.err = SyncDir(filepath.Dir(l.name))
	}
	os.Remove(l.file.Name())
	if l.err != nil {
		os.Remove(tmp)
		return "", fmt.Errorf("output of the check: %w", l.err)
	}
	return l.name, nil
}

// straighten writes the ring in its order, into a file of its own.
func (l *checkLog) straighten() (string, error) {
	to, err := os.OpenFile(l.name+".whole", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	at, room := l.place()
	_, err = io.Copy(to, io.MultiReader(
		io.NewSectionReader(l.file, 0, l.part),
		strings.NewReader(fmt.Sprintf("\n[%d bytes are left out]\n", l.all-2*l.part)),
		io.NewSectionReader(l.file, at, room),
		io.NewSectionReader(l.file, l.part, l.part-room),
	))
	return to.Name(), errors.Join(err, to.Sync(), to.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
