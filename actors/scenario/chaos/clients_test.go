package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/actors/conn"
	"troupe/actors/scenario/harness"
)

// crowd is the set of clients of a seed: one, with which the daemon ends, or several that connect
// and leave, open sessions of their own and attach to those of others.
type crowd struct {
	all     []*chaos // clients whose connection has not ended, the first one first
	buried  []*chaos
	slow    []*chaos // clients that wait for a run that does not end
	handles []string // handles of the sessions that any client knows
	said    int
}

// mostConnections is the number of connections that a seed has at most at a time.
const mostConnections = 3

// know records a session that is open.
func (c *chaos) know(handle string) {
	c.sessions = append(c.sessions, handle)
	c.marks[handle] = fmt.Sprintf("~%s~", handle)
	if !slices.Contains(c.crowd.handles, handle) {
		c.crowd.handles = append(c.crowd.handles, handle)
	}
}

// isDefault reports whether a session is the default session of a client. No client closes such a
// session: its successor would have another handle and the mark of the first one.
func (w *crowd) isDefault(handle string) bool {
	return slices.ContainsFunc(slices.Concat(w.all, w.slow, w.buried), func(m *chaos) bool { return m.main == handle })
}

// defaults returns the default sessions, by connection.
func (w *crowd) defaults() map[int]string {
	mains := map[int]string{}
	for _, m := range slices.Concat(w.all, w.slow, w.buried) {
		mains[m.Conn] = m.main
	}
	return mains
}

// join connects another client, which has a default session or opens a session.
func (w *crowd) join() {
	first := w.all[0]
	m := newChaos(first.rng, w)
	m.plan, m.schedule = first.plan, first.schedule
	m.drains = m.rng.IntN(2) == 0
	m.Client = first.Connect(func(of *conn.Config) {
		of.Drain = m.drains
		of.MaxOutput = []int{0, of.MaxOutput, 300 + m.rng.IntN(5000)}[m.rng.IntN(3)]
		of.Features = []string{"seq", "deltaUpdates", "parallelTools"}[m.rng.IntN(4)%3:]
	})
	m.left = make(chan struct{})
	go func() {
		_ = m.Connection.Wait()
		close(m.left)
	}()
	w.all = append(w.all, m)
	if m.rng.IntN(2) == 0 {
		m.findDefault()
	}
	if m.main == "" {
		m.openOwn()
	}
}

// findDefault opens the default session and looks up its handle.
func (c *chaos) findDefault() {
	c.Send(`{"type":"get_state"}`)
	c.Advance(time.Second)
	c.Send(`{"type":"list_open_sessions"}`)
	c.Advance(time.Second)
	for _, s := range c.Last("list_open_sessions").Get("data.sessions").Array() {
		if handle := s.Get("sessionId").Str; s.Get("isDefault").Bool() {
			c.main = handle
			c.sessions = append(c.sessions, "")
			c.marks[""] = fmt.Sprintf("~%s~", handle)
			c.crowd.handles = append(c.crowd.handles, handle)
			return
		}
	}
	c.unheard = true
}

// openOwn opens a session, which may be retained.
func (c *chaos) openOwn() {
	c.Send(fmt.Sprintf(`{"type":"open_session","retain":%t}`, c.rng.IntN(3) == 0))
	c.Advance(time.Second)
	opened := c.Last("open_session")
	if opened.Get("success").Bool() {
		c.know(opened.Get("data.sessionId").Str)
	}
	c.unheard = c.unheard || !opened.Exists()
}

// act has one of the clients do a random step.
func (w *crowd) act() {
	first := w.all[0]
	if first.plan.peers == 0 {
		first.act()
		return
	}
	here := slices.DeleteFunc(slices.Clone(w.all), func(m *chaos) bool { return m.parted })
	m := here[first.rng.IntN(len(here))]
	switch first.rng.IntN(14) {
	case 0:
		if m != first {
			m.part()
			return
		}
	case 1, 2, 3:
		m.attachOther()
	case 4:
		if len(here) < mostConnections {
			w.join()
			return
		}
	}
	if len(m.sessions) > 0 {
		m.act()
	}
}

// attachOther attaches to a session that another client has opened.
func (c *chaos) attachOther() {
	handle := c.crowd.handles[c.rng.IntN(len(c.crowd.handles))]
	if handle == c.main || slices.Contains(c.sessions, handle) {
		return
	}
	if c.unheard { // the handle may be that of its default session, whose events have no handle
		return
	}
	c.Send(`{"type":"attach"` + harness.At(handle) + `}`)
	c.know(handle)
}

// part ends a connection in a random way.
func (c *chaos) part() {
	c.parted = true
	switch c.rng.IntN(5) {
	case 0:
		c.Close()
	case 1: // without reading the rest
		c.Stop()
		c.Close()
	case 2:
		c.Break()
	case 3:
		c.BreakAfter(c.rng.IntN(3000))
	case 4: // sends and reads nothing more, and stays connected
		c.Stop()
	}
}

// readOn makes all clients read again, and closes those that have parted.
func (w *crowd) readOn() {
	for _, m := range w.all {
		m.Go()
		if m.parted {
			m.Close()
		}
	}
}

// bury removes the clients that have parted and checks that their connections have ended. Clients
// that wait for a model that never answers are kept in slow.
func (w *crowd) bury() {
	w.all = slices.DeleteFunc(slices.Clone(w.all), func(m *chaos) bool {
		switch {
		case !m.parted:
			return false
		case m.drains && !m.hasEnded():
			w.slow = append(w.slow, m)
		default:
			m.bury()
		}
		return true
	})
}

func (c *chaos) bury() {
	c.settled(c.WaitClosed())
	c.crowd.buried = append(c.crowd.buried, c)
}

func (c *chaos) hasEnded() bool {
	select {
	case <-c.left:
		return true
	default:
		return false
	}
}

// settled checks that the whole window of a connection was given back. On a broken connection, a
// line may be lost on its way to the router. So may the router's message about it to the writer,
// which has ended.
func (c *chaos) settled(broken error) {
	in, out := c.Window.Balance()
	require.True(c.T, in == 0 || broken != nil, "lines of connection %d\n%s", c.Conn, c.History.Last(100))
	require.True(c.T, out == 0 || broken != nil, "records of connection %d\n%s", c.Conn, c.History.Last(100))
}

// takeLeave makes some clients leave in order. It then checks that the remaining clients are
// attached to the sessions that they know, and that a session without clients is retained.
func (w *crowd) takeLeave() {
	first := w.all[0]
	for _, m := range w.all {
		m.settled(nil)
		if m != first && m.rng.IntN(2) == 0 {
			m.parted = true
			m.Close()
		}
	}
	if first.plan.peers == 0 {
		return
	}
	first.Advance(time.Hour)
	w.bury()
	for _, s := range first.Call(first.T, `{"type":"list_open_sessions"}`).Get("data.sessions").Array() {
		w.had(s)
	}
}

func (w *crowd) had(s gjson.Result) {
	first, clients := w.all[0], s.Get("clients").Int()
	// A run that does not end is being drained, because a client left or closed the session.
	if s.Get("status").Str == "closing" {
		left := slices.ContainsFunc(slices.Concat(w.slow, w.buried), func(m *chaos) bool { return m.drains })
		told := slices.ContainsFunc(slices.Concat(w.all, w.slow, w.buried), func(m *chaos) bool { return m.draining[s.Get("sessionId").Str] })
		require.True(first.T, left || told, s.Raw)
		return
	}
	require.True(first.T, clients > 0 || s.Get("retain").Bool(), "nobody has %s\n%s", s.Raw, first.History.Last(100))
	handle, know := s.Get("sessionId").Str, int64(0)
	for _, m := range w.all {
		if m.unheard {
			return
		}
		if m.main == handle || slices.Contains(m.sessions, handle) {
			know++
		}
	}
	if slices.Contains(w.handles, handle) { // it is not the successor of a default session
		require.Equal(first.T, know, clients, "%s\n%s", s.Raw, first.History.Last(100))
	}
}

// ended checks that the remaining connections have ended.
func (w *crowd) ended() {
	for _, m := range w.all[1:] {
		require.NoError(m.T, m.Connection.Wait())
		m.settled(nil)
	}
	for _, m := range w.slow {
		m.bury()
	}
}

// vanish breaks the connections of a daemon that has ended.
func (w *crowd) vanish() {
	for _, m := range w.all[1:] {
		m.Break()
		m.Close()
	}
}
