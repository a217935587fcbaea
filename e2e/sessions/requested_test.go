package sessions

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// chosen returns the model, thinking level and name in a state.
func chosen(st gjson.Result) string {
	return st.Get("model.id").Str + " " + st.Get("thinkingLevel").Str + " " + st.Get("sessionName").Str
}

// newStored makes a session with a model, a level and a name of its own.
func newStored(t *testing.T, id string) (*harness.Place, string) {
	t.Helper()
	p := harness.NewPlace(t)
	p.Model.Enqueue(harness.Text("one"))
	d := p.StartRaw("--mode", "rpc", "--session-id", id, "--model", "mock/think", "--thinking", "low", "--name", "old")
	d.Prompt("one")
	path, _ := d.SessionFile()
	require.Zero(t, d.Close())
	return p, path
}

type requestedCase struct {
	args []string
	want string
}

var requestedCases = []requestedCase{
	{nil, "think low old"},
	{[]string{"--provider", "mock"}, "think low old"},
	{[]string{"--provider", "resp"}, "resp-1 off old"},
	{[]string{"--thinking", "high"}, "think high old"},
	{[]string{"--model", "think2"}, "think2 low old"},
	{[]string{"--model", "mock/think2:medium"}, "think2 medium old"},
	{[]string{"--model", "mock/mock-1", "--thinking", "high", "--name", "new"}, "mock-1 off new"},
}

// TestRequestedReplacesStored checks that flags and parameters of open_session replace the values of a
// stored session, however the session is named, and that all other values stay.
func TestRequestedReplacesStored(t *testing.T) {
	t.Parallel()
	const id = "stored-1"
	for name, flags := range map[string]func(file string) []string{
		"--session path": func(file string) []string { return []string{"--session", file} },
		"--session id":   func(string) []string { return []string{"--session", id} },
		"--session-id":   func(string) []string { return []string{"--session-id", id} },
		"--continue":     func(string) []string { return []string{"--continue"} },
		"--fork":         func(file string) []string { return []string{"--fork", file} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases := []requestedCase{{[]string{"--model", "mock/think2", "--thinking", "high", "--name", "new"}, "think2 high new"}}
			if name == "--session path" {
				cases = requestedCases
			}
			for _, c := range cases {
				p, file := newStored(t, id)
				before := len(harness.ReadEntries(t, file))
				d := p.StartRaw(append(append([]string{"--mode", "rpc"}, flags(file)...), c.args...)...)
				st := d.OK(`{"type":"get_state"}`)
				assert.Equal(t, c.want, chosen(st), c.args)
				p.Model.Enqueue(harness.Text("two"))
				d.Prompt("two")
				require.Zero(t, d.Close())
				assert.Equal(t, st.Get("model.id").Str, gjson.Get(p.Model.Request(1).Body, "model").Str)
				d = p.StartRaw("--mode", "rpc", "--session", st.Get("sessionFile").Str)
				assert.Equal(t, c.want, chosen(d.OK(`{"type":"get_state"}`)), "the next start without flags")
				require.Zero(t, d.Close())
				if c.want == "think low old" {
					assert.Len(t, harness.ReadEntries(t, st.Get("sessionFile").Str), before+2, "nothing but the messages is written")
				}
			}
		})
	}
	t.Run("open_session", func(t *testing.T) {
		t.Parallel()
		p, file := newStored(t, id)
		d := p.StartRaw("--mode", "rpc", "--multi-session", "--model", "mock/mock-1", "--thinking", "off")
		for _, c := range []struct{ params, want string }{
			{``, "think low old"},
			{`,"thinkingLevel":"high"`, "think high old"},
			{`,"provider":"mock","modelId":"mock-1","name":"new"`, "mock-1 off new"},
			{``, "mock-1 off new"},
		} {
			h := d.OpenSession(fmt.Sprintf(`,"sessionPath":%q%s`, file, c.params))
			assert.Equal(t, c.want, chosen(d.OK(fmt.Sprintf(`{"type":"get_state","sessionId":%q}`, h))), c.params)
			d.OK(fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, h))
		}
	})
	t.Run("print", func(t *testing.T) {
		t.Parallel()
		p, file := newStored(t, id)
		p.Model.Enqueue(harness.Text("two"))
		_, errs, code := p.RunOnce("", "-p", "-c", "--model", "mock/mock-1", "--name", "new", "again")
		require.Zero(t, code, errs)
		assert.Equal(t, "mock-1", gjson.Get(p.Model.Request(1).Body, "model").Str)
		d := p.StartRaw("--mode", "rpc", "--session", file)
		assert.Equal(t, "mock-1 off new", chosen(d.OK(`{"type":"get_state"}`)))
	})
}
