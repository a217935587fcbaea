package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// Classify says what a response other than a stream means. The order is: the
// status that says it all (413), the provider's own error words, then phrases
// for what has no word or status everywhere (a full context, an empty account),
// then the status, and phrases alone only where there is no status. The text is
// "STATUS BODY", the body as compact JSON if it is JSON, else as one line of
// text; anything that looks like a key is masked. A wire may put other words in
// its place, see [Format]: the class never depends on them. header may be nil.
func Classify(status int, header http.Header, body []byte) *protocol.StreamError {
	r := readReport(status, body)
	if word, _, _ := strings.Cut(header.Get("X-Amzn-Errortype"), ":"); word != "" { // AWS: the word is not in the body
		r.words = append(r.words, strings.ToLower(word))
	}
	err := &protocol.StreamError{
		Kind:    r.kind(),
		Message: describe(status, body),
		Body:    shown(plain(body)),
		Status:  status,
	}
	if err.Kind.Retryable() || err.Kind == protocol.ErrorQuota {
		err.RetryAfter = retryAfter(header, body, time.Now())
	}
	return err
}

// ClassifyEvent is Classify for an error that arrives inside a stream.
func ClassifyEvent(data []byte) *protocol.StreamError { return Classify(0, nil, data) }

// report is what a failure says about itself.
type report struct {
	status int      // of the response, or the one that the body names
	words  []string // error types and codes in lower case, the most specific first
	text   string   // the sentences, or the whole body if it has no known shape
	quota  string   // Google: the id of the quota that was exceeded
	delay  bool     // Google: the server named a time after which to retry
}

// wordPaths and textPaths are where services put the kind and the sentence of
// an error.
var (
	wordPaths = []string{
		"error.code", "error.type", "error.status", "error.innererror.code", "error.metadata.error_type",
		"error.details.#.reason", "response.error.code", "code", "type", "__type", "status", "reason",
		"base_resp.status_code", "errors.0.code", "detail.code", "detail.type", "error_type",
	}
	textPaths = []string{
		"error.message", "error.metadata.raw", "response.error.message", "message", "detail", "detail.message",
		"detail.0.msg", "detail.#.msg", "msg", "error_msg", "errors.0.message", "base_resp.status_msg",
		"error_description", "Message", "title",
	}
)

func readReport(status int, body []byte) report {
	r := report{status: status}
	if !protocol.ValidJSON(body) {
		r.text = string(body[:min(len(body), maxMessage)])
		return r
	}
	v := gjson.ParseBytes(body)
	if first := v.Get("0"); v.IsArray() && first.IsObject() { // Google wraps some errors in a list
		v = first
	}
	r.read(v)
	if raw := v.Get("error.metadata.raw"); raw.Type == gjson.String && protocol.ValidJSON([]byte(raw.Str)) {
		r.read(gjson.Parse(raw.Str)) // OpenRouter: the error of the provider behind it
	}
	r.text = cmp.Or(r.text, string(body[:min(len(body), maxMessage)]))
	return r
}

func (r *report) read(v gjson.Result) {
	for _, path := range wordPaths {
		r.addWord(v.Get(path))
	}
	for _, path := range textPaths {
		if text := v.Get(path); text.Type == gjson.String {
			r.text += text.Str + "\n"
		}
	}
	if text := v.Get("error"); text.Type == gjson.String {
		r.addWord(text)
		r.text += text.Str + "\n"
	}
	v.Get("error.details").ForEach(func(_, detail gjson.Result) bool {
		if quota := detail.Get("violations.0.quotaId"); quota.Exists() {
			r.quota = quota.String()
		}
		r.delay = r.delay || detail.Get("retryDelay").Exists()
		return true
	})
}

func (r *report) addWord(v gjson.Result) {
	switch {
	case v.IsArray():
		v.ForEach(func(_, item gjson.Result) bool {
			r.addWord(item)
			return true
		})
	case v.Type == gjson.Number, v.Type == gjson.String && len(v.Str) < 64:
		word := strings.ToLower(v.String())
		if i := strings.LastIndexByte(word, '#'); i >= 0 { // AWS puts a namespace before it
			word = word[i+1:]
		}
		if code, err := strconv.Atoi(word); err == nil && code >= 400 && code < 600 {
			if r.status < 400 {
				r.status = code
			}
			return
		}
		r.words = append(r.words, word)
	}
}

func (r *report) kind() protocol.ErrorKind {
	if r.status == http.StatusRequestEntityTooLarge {
		return protocol.ErrorOverflow
	}
	if kind := r.byWord(specificWords()); kind != "" {
		return kind
	}
	if slices.Contains(r.words, "resource_exhausted") {
		return r.exhausted()
	}
	if kind := r.byPhrase(); kind != "" {
		return kind
	}
	if kind := statusKinds[r.status]; kind != "" {
		return kind
	}
	switch {
	case r.status >= 500:
		return protocol.ErrorServer
	case r.status >= 300:
		return protocol.ErrorInvalid
	}
	if kind := r.byWord(genericWords()); kind != "" {
		return kind
	}
	if kind := transientKind(r.text); kind != "" {
		return kind
	}
	return protocol.ErrorServer // an error without a name in the middle of a stream
}

func (r *report) byWord(words map[string]protocol.ErrorKind) protocol.ErrorKind {
	for _, word := range r.words {
		if kind := words[word]; kind != "" {
			return kind
		}
	}
	return ""
}

// exhausted tells Google's two meanings of RESOURCE_EXHAUSTED apart: its text
// speaks of plan and billing even when a limit per minute was hit.
func (r *report) exhausted() protocol.ErrorKind {
	switch {
	case strings.Contains(r.quota, "PerDay"), strings.Contains(r.text, "limit: 0"):
		return protocol.ErrorQuota
	case r.quota != "", r.delay, !quotaText().MatchString(r.text):
		return protocol.ErrorRateLimit
	}
	return protocol.ErrorQuota
}

// byPhrase recognises what services say in words only, with a status that many
// other errors share.
func (r *report) byPhrase() protocol.ErrorKind {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		if r.isOverflow() {
			return protocol.ErrorOverflow
		}
	}
	if r.status < 500 && parameterText().MatchString(r.text) { // whatever its name means elsewhere
		return statusOr(r.status, protocol.ErrorInvalid)
	}
	if r.status >= 500 {
		return ""
	}
	switch {
	case quotaText().MatchString(r.text) && !perMinuteText().MatchString(r.text):
		return protocol.ErrorQuota
	case r.status == http.StatusTooManyRequests:
		return ""
	case authText().MatchString(r.text):
		return protocol.ErrorAuth
	case refusalText().MatchString(r.text):
		return protocol.ErrorRefusal
	case r.status == http.StatusBadRequest && r.byWord(genericWords()) == "" && passedOnText().MatchString(strings.TrimSpace(r.text)):
		return transientKind(r.text)
	}
	return ""
}

func (r *report) isOverflow() bool {
	return overflowText().MatchString(r.text) && !rateText().MatchString(r.text) && !perMinuteText().MatchString(r.text)
}

// statusOr is the kind of a status, or another one if it has none of its own.
func statusOr(status int, kind protocol.ErrorKind) protocol.ErrorKind {
	return cmp.Or(statusKinds[status], kind)
}

// transientKind is the kind that the text alone suggests, "" for none.
func transientKind(text string) protocol.ErrorKind {
	switch {
	case rateText().MatchString(text):
		return protocol.ErrorRateLimit
	case overloadText().MatchString(text):
		return protocol.ErrorOverloaded
	case networkText().MatchString(text):
		return protocol.ErrorNetwork
	case serverText().MatchString(text):
		return protocol.ErrorServer
	}
	return ""
}

// maxMessage bounds the part of a body that gets into an error text.
const maxMessage = 4000

// describe is the text of an error response.
func describe(status int, body []byte) string {
	text := cmp.Or(plain(body), "status code (no body)")
	return withStatus(status, shown(text))
}

func withStatus(status int, text string) string {
	if status == 0 {
		return text
	}
	return strconv.Itoa(status) + " " + text
}

// plain is a body as compact JSON if it is JSON, else as one line of text.
func plain(body []byte) string {
	if body = bytes.TrimSpace(body); !protocol.ValidJSON(body) {
		return strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "\uFFFD")), " ")
	}
	value := jsontext.Value(bytes.Clone(body))
	if value.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	return strings.ToValidUTF8(string(value), "\uFFFD")
}

// shown masks what looks like a key and cuts what is too long to be shown.
func shown(text string) string {
	more := max(len(text)-maxMessage-longestKey, 0)
	return shorten(providers.MaskKeys(text[:len(text)-more]), more)
}

// longestKey is how much of a text is searched for keys beyond what is shown of
// it: one must not lose its end, by which it is recognised, to the cut.
const longestKey = 1024

// shorten cuts text to maxMessage bytes at a character boundary and says so.
// more is what was cut before.
func shorten(text string, more int) string {
	if len(text) <= maxMessage {
		return text
	}
	kept := protocol.Prefix(text, maxMessage)
	return fmt.Sprintf("%s%s%d bytes more)", kept, cutMark, len(text)-len(kept)+more)
}

// cutMark follows what is left of a text.
const cutMark = "… ("

// ClassifyTransport says what a failure to connect, to send or to read means.
// inBody tells whether the response had begun.
func ClassifyTransport(err error, inBody bool) *protocol.StreamError {
	var known *protocol.StreamError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled):
		return protocol.Aborted()
	case errors.Is(err, ErrEventTooLarge):
		return protocol.ErrorServer.Errorf("Broken answer: %v", err)
	case inBody && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return protocol.ErrorCutStream.Errorf("Connection error: the answer ended without its closing event")
	}
	return protocol.ErrorNetwork.Errorf("Connection error: %s", providers.MaskKeys(transportText(err)))
}

// transportText names the usual failures in words that do not depend on the
// layer that noticed them.
func transportText(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("host %q not found", dns.Name)
	case errors.As(err, &cert), errors.As(err, &authority):
		return "TLS certificate not trusted: " + err.Error()
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused" + address(err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset" + address(err)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route" + address(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the response"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timed out" + address(err)
	}
	return err.Error()
}

// address is " to HOST:PORT" if err names the other end.
func address(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is && op.Addr != nil {
		return " (" + op.Addr.String() + ")"
	}
	return ""
}
