package flow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// TestUnreadBySeveral checks that the output queued for a client never exceeds its window plus one
// step of each of its sessions, whatever other clients do. Unread output is debited from that
// client's window only, and credited back when it reads or leaves.
func TestUnreadBySeveral(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 2))
				const conns = 4
				var limits [conns]int
				for i := range limits {
					limits[i] = 16 << 10 << rng.IntN(5)
				}
				a := harness.Start(t, func(c *actors.Config) { c.Conn.MaxOutput = limits[0] })
				clients := []*harness.Client{a}
				for i := 1; i < conns; i++ {
					clients = append(clients, a.Connect(func(of *conn.Config) {
						of.MaxOutput, of.Drain = limits[i], rng.IntN(2) == 0
						if rng.IntN(2) == 0 {
							of.Features = []string{"deltaUpdates"}
						}
					}))
				}
				a.Call(t, `{"type":"get_state"}`)
				sessions := []string{"s1", a.Open(), clients[1].Open()}
				for i, c := range clients {
					for n, s := range sessions {
						if n/2 != i { // else the session is its own already
							c.Attach(s)
						}
					}
				}
				parted := [conns]bool{}
				for range 80 {
					i := rng.IntN(conns)
					c, s := clients[i], sessions[rng.IntN(len(sessions))]
					if parted[i] {
						continue
					}
					mark := "~" + s + "~"
					if i == 0 && s == "s1" {
						s = ""
					}
					switch rng.IntN(12) {
					case 0, 1:
						c.Say(s, "prompt", fmt.Sprintf("%s parts=%d rounds=%d calls=%d", mark, rng.IntN(300), rng.IntN(2), 1+rng.IntN(3)))
					case 2:
						c.Say(s, "steer", mark+strings.Repeat(" word", rng.IntN(3000)))
					case 3, 4:
						c.Stop()
					case 5:
						c.Go()
					case 6:
						c.Crawl(time.Millisecond)
					case 7, 8:
						for range 1 + rng.IntN(10) {
							c.Send(`{"type":"` + []string{"get_messages", "get_entries", "get_state", "abort", "get_tree"}[rng.IntN(5)] + `"` + harness.At(s) + `}`)
						}
					case 9:
						c.Send(`{"type":"list_open_sessions"}`)
					case 10:
						c.Advance(time.Duration(rng.IntN(5000)) * time.Millisecond)
					case 11:
						if i == 0 || rng.IntN(3) > 0 {
							break
						}
						parted[i] = true
						if rng.IntN(2) == 0 {
							c.Break()
						}
						c.Close()
					}
				}
				for _, c := range clients {
					c.Go()
				}
				a.Advance(time.Hour)
				for i, c := range clients {
					var err error
					if parted[i] {
						err = c.WaitClosed()
					} else {
						assert.Empty(t, c.Unanswered())
					}
					in, out := c.Window.Balance()
					assert.True(t, in == 0 || err != nil, "lines of %d", i)
					assert.Zero(t, out, "records of %d", i)
					// A client that has left has not seen all lines.
					longest := max(longest(c), longest(a))
					assert.LessOrEqual(t, c.Window.Peak(), limits[i]+longest*len(sessions), "unwritten for %d", i)
				}
				a.End()
				a.Judge(actortest.Options{Defaults: map[int]string{0: "s1"}})
			})
		})
	}
}
