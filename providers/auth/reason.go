package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"
)

// Causes of a login that failed, as programs read them. What a login service calls an
// error comes as it is: invalid_grant, invalid_client, server_error.
const (
	causeDenied      = "access_denied"    // the person said no
	causeUnreachable = "unreachable"      // the network, or nobody answered in time
	causeAnswer      = "invalid_answer"   // of the login service
	causeIDToken     = "invalid_id_token" // not signed, not for us, over
	causeKey         = "invalid_key"      // what was given cannot be one
	causePort        = "port_in_use"      // to which the browser comes back
	causeConfig      = "not_configured"   // the login in models.json lacks something
	causeStore       = "store_failed"     // auth.json could not be read or written
	causeOther       = "error"
)

// reason is an error with its cause.
type reason struct{ cause, text string }

func (r *reason) Error() string { return r.text }

func because(cause, text string) error { return &reason{cause, text} }

var isCause = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`) })

// causeOf is the cause of an error.
func causeOf(err error) string {
	var said *refusal
	var known *reason
	var path *fs.PathError
	switch {
	case errors.As(err, &known):
		return known.cause
	case errors.As(err, &said) && isCause().MatchString(said.code):
		return said.code
	case errors.As(err, &said) && said.status != 0:
		return fmt.Sprintf("http_%d", said.status)
	case errors.As(err, &path):
		return causeStore
	}
	return causeOther
}
