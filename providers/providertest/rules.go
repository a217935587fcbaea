package providertest

import (
	"fmt"
	"regexp"

	"github.com/tidwall/gjson"
)

// safe64 is what most services take for names of tools and ids of calls.
var safe64 = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

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

// tools checks the tools of a request: their names, and that each takes an object. It returns how many
// there are.
func (r *Rules) tools(list []gjson.Result, name, schema string, valid *regexp.Regexp) int {
	names := map[string]bool{}
	for _, tool := range list {
		called := tool.Get(name).Str
		r.Must(valid.MatchString(called) && !names[called], "tool: name %q", called)
		r.Must(tool.Get(schema+".type").Str == "object", "tool %q: %s", called, schema)
		names[called] = true
	}
	return len(names)
}
