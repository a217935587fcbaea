package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
)

// wrongValues are values of every JSON type; for each member some of them are of the wrong type.
var wrongValues = []string{`1790000000000.5`, `-3`, `"0"`, `"false"`, `"x"`, `true`, `null`, `[]`, `[1]`, `{}`, `{"a":1}`, `1e300`}

// lenientMessages are messages of every role, with the text that a model is to see.
var lenientMessages = map[string]string{
	"user":          `{"role":"user","content":[{"type":"text","text":"KEEP"}],"timestamp":1,"attachments":[]}`,
	"assistant":     `{"role":"assistant","content":[{"type":"text","text":"KEEP","textSignature":"s"}],"api":"a","provider":"p","model":"m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.3}},"stopReason":"stop","timestamp":1,"errorMessage":"e","responseId":"r","duration":5,"ttft":6}`,
	"toolResult":    `{"role":"toolResult","toolCallId":"c","toolName":"t","content":[{"type":"text","text":"KEEP"}],"details":{},"isError":false,"timestamp":1,"usage":{},"structuredContent":{},"nestedCalls":{"calls":[],"complete":true}}`,
	"bashExecution": `{"role":"bashExecution","command":"KEEP","output":"KEEP","exitCode":0,"cancelled":false,"truncated":false,"fullOutputPath":"/x","excludeFromContext":false,"timestamp":1}`,
	"custom":        `{"role":"custom","customType":"t","content":[{"type":"text","text":"KEEP"}],"display":true,"details":{},"timestamp":1}`,
}

// lenientEntries are the other entries that add to a context.
var lenientEntries = map[string]string{
	"custom_message": `"customType":"t","content":"KEEP","display":true,"details":{}`,
	"branch_summary": `"fromId":"00000001","summary":"KEEP","details":{},"fromHook":false,"usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`,
	"compaction":     `"summary":"KEEP","firstKeptEntryId":"00000001","tokensBefore":5,"details":{},"fromHook":false,"usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`,
}

// damaged returns the object with each of its members, at any depth, replaced by each of the values.
func damaged(t *testing.T, object string) map[string]string {
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &members))
	with := func(name, value string) string {
		changed := map[string]json.RawMessage{}
		for n, v := range members {
			changed[n] = v
		}
		changed[name] = json.RawMessage(value)
		text, err := json.Marshal(changed)
		require.NoError(t, err)
		return string(text)
	}
	all := map[string]string{}
	for name, v := range members {
		for _, wrong := range wrongValues {
			all[name+"="+wrong] = with(name, wrong)
		}
		if v[0] == '{' && string(v) != "{}" {
			for inner, text := range damaged(t, string(v)) {
				all[name+"."+inner] = with(name, text)
			}
		}
	}
	return all
}

// primary are the members without which there is no message to send.
var primary = map[string]bool{"role": true, "content": true, "command": true, "summary": true, "excludeFromContext": true}

// checkLenient opens a session with an entry between two messages.
func checkLenient(t *testing.T, name, member, entry string) {
	l := openText(t, headLine, userLine("00000001", "", "first"), entry, userLine("00000003", "00000002", "last"))
	what := name + " " + member
	context, err := l.View().Context()
	require.NoError(t, err, what)
	shown, err := l.View().Messages()
	require.NoError(t, err, what)
	require.Len(t, shown, context.Len(), what)
	all := ""
	for i, m := range context.Messages() {
		if _, unknown := m.(*protocol.UnknownMessage); unknown {
			assert.False(t, lenientMessages[m.Role()] != "", "%s is shown and not sent: %s", what, shown[i])
		}
		all += string(m.AppendJSON(nil))
	}
	if name != "compaction" { // which names the first entry that it keeps
		assert.Contains(t, all, "first", what)
	}
	assert.Contains(t, all, "last", what)
	if field := strings.FieldsFunc(member, func(r rune) bool { return strings.ContainsRune(" .=", r) })[0]; !primary[field] {
		assert.Contains(t, all, "KEEP", what)
	}
	_, err = l.View().State()
	require.NoError(t, err, what)
	_, err = l.View().Stats(true)
	require.NoError(t, err, what)
}

// TestWrongTypes checks that a wrong type in any member of an entry neither cuts off what follows nor
// keeps a message, which clients are shown, from the model.
func TestWrongTypes(t *testing.T) {
	for role, message := range lenientMessages {
		for member, text := range damaged(t, message) {
			checkLenient(t, role, member, entryLine("message", "00000002", "00000001", `"message":`+text))
		}
	}
	for kind, body := range lenientEntries {
		for member, text := range damaged(t, "{"+body+"}") {
			checkLenient(t, kind, member, entryLine(kind, "00000002", "00000001", text[1:len(text)-1]))
		}
	}
	for kind, body := range map[string]string{
		"model_change": `"provider":"p","modelId":"m"`, "thinking_level_change": `"thinkingLevel":"high"`, "custom": `"customType":"t","data":{}`,
		"label": `"targetId":"00000001","label":"l"`, "session_info": `"name":"n"`, "context_edit": `"targetId":"00000009","replacement":null`,
	} {
		for member, text := range damaged(t, "{"+body+"}") {
			checkLenient(t, kind, "role "+member, entryLine(kind, "00000002", "00000001", text[1:len(text)-1]+`,"note":"KEEP"`))
		}
	}
}

// TestWrongTypesOfMeta checks members that every entry has.
func TestWrongTypesOfMeta(t *testing.T) {
	for _, wrong := range wrongValues {
		for _, meta := range []string{
			`"type":%s,"id":"00000002","parentId":"00000001","timestamp":"2026-01-01T00:00:00.000Z"`,
			`"type":"message","id":"00000002","parentId":"00000001","timestamp":%s`,
		} {
			line := "{" + fmt.Sprintf(meta, wrong) + `,"message":` + lenientMessages["user"] + "}"
			checkLenient(t, "meta", "role", line)
		}
		if wrong != "null" && wrong != `"0"` && wrong != `"false"` && wrong != `"x"` && wrong != "-3" && wrong != "1790000000000.5" && wrong != "1e300" {
			checkLenient(t, "meta", "role parentId "+wrong, `{"type":"message","id":"00000002","parentId":`+wrong+`,"message":`+lenientMessages["user"]+"}")
		}
	}
	checkLenient(t, "meta", "role", `{"id":"00000002","parentId":"00000001","message":`+lenientMessages["user"]+"}")
	l := openText(t, headLine, `{"type":"message","id":1,"parentId":null,"message":`+lenientMessages["user"]+"}", `{"type":"message","id":2,"parentId":1,"message":`+lenientMessages["user"]+"}")
	context, err := l.View().Context()
	require.NoError(t, err)
	assert.Equal(t, 2, context.Len(), "ids that are numbers")
	assert.Zero(t, l.Damage().Skipped)
}
