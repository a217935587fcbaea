package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// failures are the errors of extensions in events, as "event: message".
func failures(events []gjson.Result) (list []string) {
	for _, e := range events {
		if e.Get("type").Str == "extension_error" {
			list = append(list, e.Get("event").Str+": "+e.Get("error").Str)
		}
	}
	return list
}

// TestExtensionsSayNonsense: an answer that cannot be read is named to the client, once,
// and changes nothing; a header that cannot be sent is not tried again and again.
func TestExtensionsSayNonsense(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.llm.plays(text("fine"))
	d := p.start("-e", p.extension("nonsense", `export default (pi) => {
		pi.on("context", (e) => ({ messages: [...e.messages, null] }));
		pi.on("before_provider_headers", (e) => { e.headers["x-count"] = 5 });
		pi.on("before_provider_request", (e) => ({ size: 10n }));
		pi.registerCommand("boom", { handler: () => { throw new Error("it broke") } });
	}`))
	events := d.prompt("hi")
	failed := strings.Join(failures(events), "\n")
	assert.Regexp(t, `^context: .*\nbefore_provider_request: .*\nbefore_provider_headers: .*$`, failed)
	assert.Equal(t, "completed", events[len(events)-1].Get("outcome").Str)
	d.ok(`{"type":"prompt","message":"/boom"}`)
	assert.Equal(t, "it broke", d.event("extension_error").Get("error").Str)
	require.Zero(t, d.end())
	assert.Equal(t, 4, strings.Count(strings.Join(d.output(), "\n"), `"type":"extension_error"`), "each is said once")

	asked := p.llm.count()
	d = p.start("-e", p.extension("header", `export default (pi) => { pi.on("before_provider_headers", (e) => { e.headers["not a name"] = "x" }) }`))
	events = d.prompt("hi")
	assert.Equal(t, "failed", events[len(events)-1].Get("outcome").Str)
	assert.Contains(t, strings.Join(d.output(), "\n"), `has a name that no header can have: \"not a name\"`)
	assert.NotContains(t, strings.Join(d.output(), "\n"), "auto_retry_start")
	assert.Equal(t, asked, p.llm.count())
	require.Zero(t, d.end())
}

// TestLateAnswerToADialog: a yes that comes after a reload is none to what is asked then.
func TestLateAnswerToADialog(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	d := p.start("-e", p.extension("asks", `export default (pi) => {
		pi.registerCommand("ask", { handler: async (args, ctx) => ctx.ui.notify("said " + await ctx.ui.confirm("Sure?", args)) });
	}`))
	d.ok(`{"type":"get_commands"}`)
	d.ok(`{"type":"prompt","message":"/ask before"}`)
	stale := d.ui("confirm")
	d.ok(`{"type":"reload_resources"}`)
	d.ok(`{"type":"get_commands"}`)
	d.ok(`{"type":"prompt","message":"/ask after"}`)
	fresh := d.ui("confirm")
	require.Equal(t, "after", fresh.Get("message").Str)
	d.dialog(stale, `"confirmed":true`)
	d.dialog(fresh, `"confirmed":false`)
	assert.Equal(t, "said false", d.ui("notify").Get("message").Str)
	require.Zero(t, d.end())
}
