package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
)

// told is a wire to a node that says of a session what it is told to.
type told struct {
	says  func(command string) string // "" for nothing
	lines chan string
	ends  context.Context
	end   context.CancelFunc
}

func (s *told) Write(line []byte) error {
	command := gjson.GetBytes(line, "type").Str
	switch text := s.says(command); text {
	case "":
	case "ok":
		s.lines <- `{"id":"` + command + `","type":"response","success":true}` + "\n"
	case "moved":
		s.lines <- `{"type":"session_moved","sessionId":"s"}` + "\n"
	default:
		s.lines <- `{"id":"` + command + `","type":"response","success":false,"code":"` + text + `","error":"it is ` + text + `"}` + "\n"
	}
	return nil
}

func (s *told) Read() ([]byte, error) {
	select {
	case line := <-s.lines:
		return []byte(line), nil
	case <-s.ends.Done():
		return nil, io.EOF
	}
}
func (s *told) CloseWrite() error { return nil }
func (s *told) Close() error      { s.end(); return nil }

// TestMoveTellsWhatHappened: who moves a session waits for the end of what goes on in it and for its working tree, however long that
// takes, and hears where it is then: a node that still gives it up is no failure, and a session that has come back is none that was moved.
func TestMoveTellsWhatHappened(t *testing.T) {
	const long = 3 * time.Minute
	gives := func(after string) func(bool, time.Duration, string) string { // what the first node says: after for long, and then that the session is not here
		return func(gave bool, since time.Duration, command string) string {
			switch {
			case command == "move_session" || !gave:
				return "ok"
			case since < long:
				return after
			}
			return "not_here"
		}
	}
	takes := func(_ bool, since time.Duration, _ string) string {
		if since < long {
			return "not_here"
		}
		return "ok"
	}
	never := func(bool, time.Duration, string) string { return "not_here" }
	for _, c := range []struct {
		name     string
		from, to func(gave bool, since time.Duration, command string) string
		want     string // of the error; "" for none
		takes    time.Duration
	}{
		{"saves its tree for long", gives("session_closing"), takes, "", long},
		{"and answers nothing meanwhile", gives("moved"), takes, "", long},
		{"and the next one makes its own", gives("not_here"), func(gave bool, since time.Duration, _ string) string {
			if gave && since > long {
				return "ok"
			} else if gave {
				return ""
			}
			return "not_here"
		}, "", long},
		{"a run that is long", func(gave bool, since time.Duration, command string) string {
			if gave {
				return "not_here"
			} else if command == "move_session" && since < long {
				return "session_busy"
			}
			return "ok"
		}, takes, "", long},
		{"comes back", func(gave bool, since time.Duration, command string) string {
			if gave && since < 10*time.Second {
				return "not_here"
			}
			return "ok"
		}, func(gave bool, _ time.Duration, _ string) string {
			if gave {
				return "cwd_missing"
			}
			return "not_here"
		}, "session s was given up by node a, and is on node a: node b: it is cwd_missing", 10 * time.Second},
		{"is nowhere then", gives("not_here"), never, "no node has session s", adminTime},
		{"is not there", never, never, "no node has session s", 0},
		{"may not be there", func(_ bool, _ time.Duration, command string) string {
			return map[string]string{"move_session": "nowhere", "attach": "ok"}[command]
		}, never, "it is nowhere", 0},
		{"cannot be had", func(bool, time.Duration, string) string { return "session_damaged" }, never, "node a: it is session_damaged", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gave bool
				begun := time.Now()
				var out strings.Builder
				m := mover{out: &out, id: "s", to: "b", nodes: func() []cluster.Node { return []cluster.Node{{Name: "a"}, {Name: "b"}} }}
				m.dial = func(_ context.Context, n cluster.Node, _ cluster.Identity) (cluster.Conn, error) {
					says := c.from
					if n.Name == "b" {
						says = c.to
					}
					ctx, cancel := context.WithCancel(t.Context())
					return &told{func(command string) string {
						text := says(gave, time.Since(begun), command)
						gave = gave || command == "move_session" && text == "ok"
						return text
					}, make(chan string, 1), ctx, cancel}, nil
				}
				err := m.move()
				took := time.Since(begun)
				assert.GreaterOrEqual(t, took, c.takes)
				assert.Less(t, took, c.takes+2*adminTime)
				if c.want != "" {
					require.ErrorContains(t, err, c.want)
					return
				}
				require.NoError(t, err)
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				assert.Len(t, lines, 2, out.String())
				assert.Equal(t, "session s is on node b", lines[len(lines)-1])
			})
		})
	}
}
