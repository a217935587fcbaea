package remote

import (
	"cmp"

	"github.com/rs/zerolog"

	"troupe/actors/conn"
)

// visitor notes in the log what a client has asked for: who, of which session, which
// command, and how it ended. Never what was said.
type visitor struct {
	log    *zerolog.Logger
	name   string // how it is connected
	device string // whose token it has; "" for the one of the file, and on the socket
	client string // as it has named itself
}

func (v *visitor) String() string { return v.name }

// Answered implements [conn.Witness]. What only asks is not noted if it was answered: pages
// do so all the time.
func (v *visitor) Answered(a conn.Answer) {
	v.client = cmp.Or(a.ClientID, v.client)
	if a.Asks {
		return
	}
	said := v.log.Info().Str("client", v.name)
	for _, of := range []struct{ key, value string }{
		{"device", v.device}, {"clientId", v.client}, {"session", a.Session}, {"command", a.Command}, {"code", a.Code},
	} {
		if of.value != "" {
			said = said.Str(of.key, of.value)
		}
	}
	said.Msg("command")
}
