package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"

	"troupe/protocol"
)

// blank says whether s has nothing to read in it; services refuse such blocks.
func blank(s string) bool {
	if s != "" && s[0] > ' ' && s[0] < utf8.RuneSelf {
		return false
	}
	return strings.TrimSpace(s) == ""
}

// suffixed is id for the first try and id_2, id_3 … for the next ones. An empty
// id is nobody's name.
func suffixed(id string, try int) string {
	id = cmp.Or(id, "call")
	if try == 0 {
		return id
	}
	return id + "_" + strconv.Itoa(try+1)
}

// SafeID makes an id of at most limit ASCII letters, digits, _ and -: anything
// else becomes _. A try above 0 is added as a suffix within the limit. It is ""
// only for an empty id on the first try.
func SafeID(id string, limit, try int) string {
	if try == 0 && len(id) <= limit && isSafe(id) {
		return id
	}
	suffix := ""
	if try > 0 {
		suffix = "_" + strconv.Itoa(try+1)
	}
	out := make([]byte, 0, limit)
	for _, r := range id {
		if len(out) == limit-len(suffix) {
			break
		}
		if r >= utf8.RuneSelf || !safe(byte(r)) {
			r = '_'
		}
		out = append(out, byte(r))
	}
	return string(append(out, suffix...))
}

func isSafe(id string) bool {
	for i := range len(id) {
		if !safe(id[i]) {
			return false
		}
	}
	return true
}

func safe(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// HashID makes an id of exactly n ASCII letters and digits: the id itself if it
// is one already and this is the first try, else a hash of it.
func HashID(id string, n, try int) string {
	if try == 0 && len(id) == n && strings.IndexFunc(id, func(r rune) bool {
		return r >= utf8.RuneSelf || !safe(byte(r)) || r == '_' || r == '-'
	}) < 0 {
		return id
	}
	h := fnv.New64a()
	h.Write([]byte(id + "#" + strconv.Itoa(try)))
	digits := strconv.FormatUint(h.Sum64(), 36)
	for len(digits) < n {
		digits = "0" + digits
	}
	return digits[len(digits)-n:]
}

// CleanObject is raw if it is a JSON object that every service takes: valid,
// UTF-8, without half a surrogate pair. What is no object becomes {}.
func CleanObject(raw json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || trimmed[0] != '{' || !protocol.ValidJSON(trimmed) {
		return json.RawMessage("{}")
	}
	return cleanJSON(trimmed)
}

// sameBytes says whether a and b are one place in memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// cleanJSON replaces bytes that are not UTF-8, and escapes of half a surrogate
// pair, by U+FFFD in otherwise valid JSON.
func cleanJSON(raw json.RawMessage) json.RawMessage {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if bytes.IndexByte(raw, '\\') < 0 || !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	out := make(json.RawMessage, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		if n := surrogates(raw[i:]); n == 0 {
			out = append(out, raw[i], raw[i+1])
			i++
		} else if n == 2 {
			out = append(out, raw[i:i+12]...)
			i += 11
		} else {
			out = append(out, `\ufffd`...)
			i += 5
		}
	}
	return out
}

// surrogates is how many escapes of surrogates, which make one character, s
// begins with: 2 for a pair, 1 for a lone half.
func surrogates(s []byte) int {
	unit := func(s []byte) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return 0
		}
		return hex4(string(s[2:6]))
	}
	first := unit(s)
	switch {
	case first < 0xD800 || first >= 0xE000:
		return 0
	case first < 0xDC00:
		if second := unit(s[6:]); second >= 0xDC00 && second < 0xE000 {
			return 2
		}
	}
	return 1
}
