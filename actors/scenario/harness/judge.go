package harness

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"troupe/actors/actortest"
	"troupe/actors/core/logtwin"
	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// historyLog writes log lines into the history.
type historyLog struct{ h *actortest.History }

func (n historyLog) Write(p []byte) (int, error) {
	n.h.Notef("log: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Check ends the daemon and judges its history and its files.
func (c *Client) Check() {
	c.T.Helper()
	c.End()
	c.Judge(actortest.Options{Files: c.Disk.Files()})
}

// Judge fails the test if the history breaks a law of [actortest.Check], if a dead letter or a
// crash was not expected, or if the store reads a file in another way than its model does.
func (c *Client) Judge(o actortest.Options) {
	c.T.Helper()
	o.Canary, o.Secrets = Canary, []string{"hunter2"}
	for path, content := range o.Files {
		RequireTwin(c.T, path, content)
	}
	found := actortest.Check(c.History, o)
	slices.Sort(found)
	found = append(found, c.Watch.Letters()...)
	found = append(found, c.Watch.Uninvited()...)
	found = append(found, c.twice()...)
	if len(found) > 0 {
		c.T.Fatalf("%s\n%s", strings.Join(found, "\n"), c.History.Tail(400))
	}
}

// twice returns the commands whose second answer was dropped. A crash of a session and a client
// that has left explain such an answer; without either it is an error.
func (c *Client) twice() (found []string) {
	for _, r := range c.History.Records() {
		switch {
		case r.Conn > 0, strings.HasPrefix(r.Line, "crash of "):
			return nil
		case strings.Contains(r.Line, "second answer to a command dropped"):
			found = append(found, "L1: a command was answered, and came to an end once more: "+r.Line)
		}
	}
	return found
}

// Canary returns the mark of a session in a text, such as ~a~, or "".
func Canary(text string) string {
	_, rest, found := strings.Cut(text, "~")
	mark, _, whole := strings.Cut(rest, "~")
	if !found || !whole {
		return ""
	}
	return "~" + mark + "~"
}

// CheckAll is [Client.Check] for several clients, where the first one's default session is s1.
func (c *Client) CheckAll() {
	c.T.Helper()
	c.End()
	c.Judge(actortest.Options{Files: c.Disk.Files(), Defaults: map[int]string{0: "s1"}})
}

// RequireTwin compares the state that the store reads from a session file with that of
// [logtwin.Resume], the model in the laws of the machine. It compares them at the last entry and at
// about twenty earlier ones.
func RequireTwin(t require.TestingT, path string, content []byte) {
	disk := storetest.NewMem()
	require.NoError(t, disk.MkdirAll(filepath.Dir(path)))
	disk.WriteFile(path, content)
	log, err := store.OpenLog(disk, path, store.Options{})
	if err != nil { // the header is torn: the file holds no session
		return
	}
	defer log.Close()
	var file []protocol.Record
	for _, ref := range log.View().Refs() {
		r, err := log.View().Record(ref.ID)
		require.NoError(t, err)
		file = append(file, r)
	}
	step := 1 + len(file)/20
	for i := len(file); i > 0; i -= step {
		leaf := file[i-1].ID
		view, err := log.View().At(leaf)
		require.NoError(t, err)
		have, err := view.State()
		require.NoError(t, err)
		want := logtwin.Resume(file, leaf)
		require.Equal(t, text(want.Last), text(have.Last), "%s at %s: last message", path, leaf)
		have.Last, want.Last = nil, nil
		require.Equal(t, want, have.Resume, "%s at %s", path, leaf)
	}
}

func text(m protocol.Message) string {
	if m == nil {
		return ""
	}
	return string(m.AppendJSON(nil))
}
