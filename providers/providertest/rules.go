package providertest

import "fmt"

// Rules collects the violations that a checker finds.
type Rules struct{ broken []string }

// Must notes a violation unless ok.
func (r *Rules) Must(ok bool, format string, args ...any) {
	if !ok {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

// Err is nil if nothing was violated.
func (r *Rules) Err() error {
	if len(r.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%q", r.broken)
}
