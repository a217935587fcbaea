package harness

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/conn"
	"troupe/actors/link"
)

// Connect connects another client to the daemon. Both share history, disk and models.
func (c *Client) Connect(changes ...func(*conn.Config)) *Client {
	c.Peers++
	p := &Client{
		Client: actortest.NewClient(c.History), T: c.T, Config: c.Config, Watch: c.Watch, Models: c.Models, Disk: c.Disk,
		Daemon: c.Daemon, answered: map[string]int{},
	}
	p.Conn, p.Schedule = c.Peers, c.Schedule
	of := c.Config.Conn
	for _, change := range changes {
		change(&of)
	}
	of.OnWindow = func(w *link.Window) { p.Window = w }
	p.Connection = c.Daemon.Connect(of, conn.Stdio{In: p.In(), Out: p.Out()})
	c.T.Cleanup(func() { // before the daemon is abandoned
		p.Break()
		p.Close()
	})
	c.Settle()
	return p
}

// Leave closes the input of a further client, and returns the result of its connection when that
// has ended.
func (c *Client) Leave() error {
	c.T.Helper()
	c.Close()
	return c.WaitClosed()
}

// WaitClosed waits until the connection of a further client has ended, and records the result in
// the history.
func (c *Client) WaitClosed() error {
	c.T.Helper()
	err := c.Connection.Wait()
	c.Settle()
	kind := actortest.Left
	if err != nil {
		kind = actortest.Broken
	}
	c.History.AddTo(c.Conn, kind, fmt.Sprint(err))
	return err
}

// Attach attaches the client to a session.
func (c *Client) Attach(session string) {
	c.T.Helper()
	v := c.Call(c.T, `{"type":"attach"`+At(session)+`}`)
	require.True(c.T, v.Get("success").Bool(), v.Raw)
	require.Equal(c.T, session, v.Get("data.sessionId").Str)
}

// Features is an option of [Client.Connect]: the client has these features and no others.
func Features(features ...string) func(*conn.Config) {
	return func(of *conn.Config) { of.Features = features }
}

// Hello sends the client's id, name and features to the daemon.
func (c *Client) Hello(id, name string, features ...string) {
	list := ""
	for i, f := range features {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", f)
	}
	v := c.Call(c.T, fmt.Sprintf(`{"type":"hello","clientId":%q,"client":{"name":%q},"features":[%s]}`, id, name, list))
	require.True(c.T, v.Get("success").Bool(), v.Raw)
}
