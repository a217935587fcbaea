package wire

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// The texts of errors are what people have read in clients of pi for a year, and
// what scripts look for. They are made here, one function for each family of
// services, in the words of pi up to 0.74 or, where Request.FullErrors asks for
// it, of pi 1.x. The body as a whole is in the log.

// SentenceText words an error of an OpenAI-compatible service: the status and
// the sentence of the body's error object. With full it is the status, a colon
// and the object. Where a service says things in another form, and pi would say
// that there is no body, the body is shown.
func SentenceText(status int, body []byte, full bool) string {
	e := errorMember(body)
	if !e.Exists() {
		return describe(status, body)
	}
	message := e.Get("message")
	if !says(message) {
		return withStatus(status, shown(plain([]byte(e.Raw))))
	}
	if full && status != 0 {
		return fmt.Sprintf("%d: %s", status, shown(plain([]byte(e.Raw))))
	}
	return withStatus(status, Plain(sentence(message)))
}

// UpstreamText is SentenceText with what a gateway says about the provider
// behind it on a second line; the full text has it anyway.
func UpstreamText(status int, body []byte, full bool) string {
	text := SentenceText(status, body, full)
	e := errorMember(body)
	if raw := e.Get("metadata.raw"); raw.Type == gjson.String && says(e.Get("message")) && (!full || status == 0) {
		text += "\n" + Plain(sentence(raw))
	}
	return text
}

// NamedText is the full text after the name of the service.
func NamedText(service string, status int, body []byte) string {
	text := describe(status, body)
	if e := errorMember(body); e.Exists() {
		text = shown(plain([]byte(e.Raw)))
		if !says(e.Get("message")) {
			text = withStatus(status, text)
		}
	}
	return fmt.Sprintf("%s API error (%d): %s", service, status, text)
}

// BodyText is the whole body after the name of the service.
func BodyText(service string, status int, body []byte) string {
	text := cmp.Or(shown(plain(body)), http.StatusText(status))
	return fmt.Sprintf("%s API error (%d): %s", service, status, text)
}

// ObjectText words an error as the body alone, which names the status itself. A
// body that is not JSON is put into the form that Google's client gives it.
func ObjectText(status int, body []byte) string {
	text := plain(body)
	switch {
	case text == "":
		return describe(status, body)
	case !protocol.ValidJSON(body) && status != 0:
		return fmt.Sprintf(`{"error":{"message":%s,"code":%d,"status":%s}}`, quote(shown(text)), status, quote(http.StatusText(status)))
	}
	return shown(text)
}

// TopText is a body's own sentence, if it has one outside of any error object.
func TopText(status int, body []byte) string {
	if protocol.ValidJSON(body) {
		if message := gjson.GetBytes(body, "message"); message.Type == gjson.String && says(message) {
			return withStatus(status, Plain(sentence(message)))
		}
	}
	return describe(status, body)
}

// Plain is a text of a service as it may be shown: without keys, and not longer
// than an error is.
func Plain(text string) string { return shown(strings.ToValidUTF8(text, "\uFFFD")) }

// errorMember is the error that a body speaks of, which does not exist where it
// is null or missing.
func errorMember(body []byte) gjson.Result {
	if !protocol.ValidJSON(body) {
		return gjson.Result{}
	}
	e := gjson.GetBytes(body, "error")
	if e.Type == gjson.Null {
		return gjson.Result{}
	}
	return e
}

// says is whether a value would count as true in JavaScript.
func says(v gjson.Result) bool {
	switch v.Type {
	case gjson.String:
		return v.Str != ""
	case gjson.Number:
		return v.Num != 0
	case gjson.Null, gjson.False:
		return false
	}
	return true
}

// sentence is a string as it is meant, and anything else as JSON.
func sentence(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	return plain([]byte(v.Raw))
}

func quote(s string) string {
	return string(protocol.AppendString(nil, s))
}
