package registry

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

// commandTime is how long a command that prints a key may take.
const commandTime = 10 * time.Second

// secretRefs resolves what configuration files say about keys and headers:
//
//	!command        what the command prints
//	text $NAME ${NAME}  the text with environment variables filled in; $$ is a $
//	NAME            an environment variable, if the name is all capitals and the
//	                variable exists: older files rely on it
//	anything else   itself
//
// A value with a variable that is not set is no value. Commands run when their
// value is first needed, and once: what they print is kept until forget.
type secretRefs struct {
	env func(name string) string
	run func(ctx context.Context, command string) (string, error)

	mu      sync.Mutex
	outputs map[string]*output
}

// output is what a command printed, or will have when done is closed.
type output struct {
	done chan struct{}
	text string
	err  error

	abandoned bool // whoever ran it gave up
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
})

// lookup is a source of variables: the credential's own, then the process's.
func (r *secretRefs) lookup(own map[string]string) func(string) string {
	return func(name string) string {
		if value := own[name]; value != "" {
			return value
		}
		return r.env(name)
	}
}

// resolve returns the value that s stands for, "" for none.
func (r *secretRefs) resolve(ctx context.Context, s string, own map[string]string) (string, error) {
	s = strings.TrimSpace(s)
	if command, found := strings.CutPrefix(s, "!"); found {
		return r.output(ctx, strings.TrimSpace(command))
	}
	value, _ := expand(s, r.lookup(own))
	return value, nil
}

// has says whether s has a value, without running commands.
func (r *secretRefs) has(s string, own map[string]string) bool {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "!") {
		return len(s) > 1
	}
	value, ok := expand(s, r.lookup(own))
	return ok && value != ""
}

// expand fills in variables. ok is false if one is not set.
func expand(s string, env func(string) string) (value string, ok bool) {
	if !strings.Contains(s, "$") {
		if isCapitals(s) {
			if value := env(s); value != "" {
				return value, true
			}
		}
		return s, true
	}
	ok = true
	value = variable().ReplaceAllStringFunc(s, func(match string) string {
		if match == "$$" {
			return "$"
		}
		value := env(strings.Trim(match, "${}"))
		ok = ok && value != ""
		return value
	})
	if !ok {
		return "", false
	}
	return value, true
}

// variablesOf lists the variables that a value names.
func variablesOf(s string) []string {
	s = strings.TrimSpace(s)
	if command, found := strings.CutPrefix(s, "!"); found {
		return variablesOfCommand(command)
	}
	if isCapitals(s) {
		return []string{s}
	}
	var names []string
	for _, m := range variable().FindAllString(s, -1) {
		if m != "$$" {
			names = append(names, strings.Trim(m, "${}"))
		}
	}
	return names
}

// variablesOfCommand are the variables that a command which prints a key may
// print: every word of it that could be the name of one, as in "printenv NAME".
func variablesOfCommand(command string) (names []string) {
	words := strings.FieldsFunc(command, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for _, word := range words {
		if isCapitals(word) || strings.Contains(command, "$"+word) || strings.Contains(command, "${"+word) || strings.Contains(command, "printenv "+word) {
			names = append(names, word)
		}
	}
	return names
}

// isOrdinary says whether a variable is one that programs need to run at all,
// and so no secret wherever it is named.
func isOrdinary(name string) bool {
	switch name {
	case "HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "LANG", "TERM", "HOSTNAME", "DISPLAY":
		return true
	}
	return strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "LC_")
}

// isCapitals says whether s could be meant as the name of a variable.
func isCapitals(s string) bool {
	if len(s) < 2 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

var errNoCommands = errors.New("commands are not available here")

// output returns what a command prints. Callers that want the same command at
// the same time share one run; a failure is not kept.
func (r *secretRefs) output(ctx context.Context, command string) (string, error) {
	if r.run == nil {
		return "", errNoCommands
	}
	for {
		o, mine := r.claim(command)
		if mine {
			r.fill(ctx, command, o)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if !o.abandoned || mine {
			return o.text, o.err
		}
	}
}

// claim returns the run of a command, and whether the caller has to do it.
func (r *secretRefs) claim(command string) (*output, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.outputs[command]; o != nil {
		return o, false
	}
	if r.outputs == nil {
		r.outputs = map[string]*output{}
	}
	o := &output{done: make(chan struct{})}
	r.outputs[command] = o
	return o, true
}

// fill runs a command. If the caller gives up, the next one runs it again.
func (r *secretRefs) fill(ctx context.Context, command string, o *output) {
	defer close(o.done)
	limited, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	text, err := r.run(limited, command)
	text = strings.TrimSpace(text)
	switch {
	case ctx.Err() != nil:
		o.err, o.abandoned = ctx.Err(), true
	case limited.Err() != nil:
		o.err = fmt.Errorf("it took longer than %v", commandTime)
	case err != nil:
		o.err = err
	case text == "":
		o.err = errors.New("it printed nothing")
	default:
		o.text = text
		return
	}
	r.drop(command, o)
}

func (r *secretRefs) drop(command string, o *output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outputs[command] == o {
		delete(r.outputs, command)
	}
}

// forget makes the next resolve of s run its command again.
func (r *secretRefs) forget(s string) {
	if command, found := strings.CutPrefix(strings.TrimSpace(s), "!"); found {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.outputs, strings.TrimSpace(command))
	}
}
