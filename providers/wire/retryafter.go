package wire

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// maxRetryAfter is the longest wait that is believed. A provider that names a
// longer one means "not today".
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long a provider asks to wait, 0 if it does not say or makes
// no sense. Headers go before the body, exact ones before vague ones.
func retryAfter(header http.Header, body []byte, now time.Time) time.Duration {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date // the other side's clock, by which its dates are meant
	}
	for _, hint := range []func() time.Duration{
		func() time.Duration { return number(header.Get("Retry-After-Ms"), time.Millisecond) },
		func() time.Duration { return moment(header.Get("Retry-After"), now) },
		func() time.Duration { return moment(header.Get("X-Ratelimit-Reset-After"), now) },
		func() time.Duration { return moment(header.Get("X-Ratelimit-Reset"), now) },
		func() time.Duration { return exhaustedReset(header, now) },
		func() time.Duration { return bodyHint(body) },
	} {
		if d := hint(); d > 0 {
			return min(d, maxRetryAfter)
		}
	}
	return 0
}

// exhaustedReset reads headers of the form PREFIX-remaining-WHAT and
// PREFIX-reset-WHAT: the longest reset of those that have nothing remaining.
func exhaustedReset(header http.Header, now time.Time) (longest time.Duration) {
	for name, values := range header {
		lower := strings.ToLower(name)
		if len(values) == 0 || strings.TrimSpace(values[0]) != "0" || !strings.Contains(lower, "ratelimit") {
			continue
		}
		if reset := strings.Replace(lower, "remaining", "reset", 1); reset != lower {
			longest = max(longest, moment(header.Get(reset), now))
		}
	}
	return longest
}

// moment reads a wait: seconds, a duration like 6m0s, a date, or, for numbers
// too large to be a wait, the time at which it ends.
func moment(s string, now time.Time) time.Duration {
	if s = strings.TrimSpace(s); s == "" {
		return 0
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case v > 1e12 && v < 1e14: // epoch milliseconds
			return time.UnixMilli(int64(v)).Sub(now)
		case v > 1e9 && v < 1e11: // epoch seconds
			return time.Unix(int64(v), 0).Sub(now)
		}
		return number(s, time.Second)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d
	}
	if t, err := http.ParseTime(s); err == nil {
		return t.Sub(now)
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.Sub(now)
	}
	return 0
}

// number reads a count of unit. More than a year is no wait anybody asks for.
func number(s string, unit time.Duration) time.Duration {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v*float64(unit) > float64(365*24*time.Hour) {
		return 0
	}
	return time.Duration(v * float64(unit))
}

// waitText finds the wait in a sentence: "try again in 1m30.5s", "Please retry
// in 250ms", "reset after 18h31m10s", "try again in 20 seconds".
var waitText = phrases(
	`(?:try again|retry|reset|wait)(?:ing)? (?:in|after|for) (?:about )?` +
		`(?:((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)\b|(\d+(?:\.\d+)?) ?(millisecond|second|minute|hour))`)

func bodyHint(body []byte) time.Duration {
	if protocol.ValidJSON(body) {
		v := gjson.ParseBytes(body)
		if first := v.Get("0"); v.IsArray() && first.IsObject() {
			v = first
		}
		for _, path := range []string{"error.retry_after", "retry_after", "parameters.retry_after", "error.metadata.retry_after", "error.resets_in_seconds"} {
			if d := moment(v.Get(path).String(), time.Time{}); d > 0 {
				return d
			}
		}
		if d, err := time.ParseDuration(v.Get("error.details.#.retryDelay|0").String()); err == nil {
			return d
		}
	}
	m := waitText().FindSubmatch(body[:min(len(body), 64<<10)])
	if m == nil {
		return 0
	}
	if len(m[1]) > 0 {
		d, err := time.ParseDuration(string(m[1]))
		if err != nil { // longer than a duration can be
			return maxRetryAfter
		}
		return d
	}
	unit := map[byte]time.Duration{'m': time.Minute, 's': time.Second, 'h': time.Hour}[bytes.ToLower(m[3])[0]]
	if strings.HasPrefix(strings.ToLower(string(m[3])), "milli") {
		unit = time.Millisecond
	}
	return number(string(m[2]), unit)
}
