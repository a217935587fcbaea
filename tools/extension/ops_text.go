package extension

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"troupe/tools"
	"troupe/tools/extension/quick"
)

var processStart = time.Now()

func textOps() map[string]operation {
	return map[string]operation{
		"now": func(*opCall) (any, error) {
			return float64(time.Since(processStart).Microseconds()) / 1000, nil
		},
		"text.encode": func(c *opCall) (any, error) { return []byte(c.args.text(0)), nil },
		"text.decode": decodeText,
		"text.encoding": func(c *opCall) (any, error) {
			coding, err := htmlindex.Get(c.args.text(0))
			if err != nil {
				return nil, nil // an unknown label
			}
			return htmlindex.Name(coding)
		},
		"text.decodeLegacy": decodeLegacy,
		"text.truncateHead": func(c *opCall) (any, error) { return truncated(c, tools.TruncateHead) },
		"text.truncateTail": func(c *opCall) (any, error) { return truncated(c, tools.TruncateTail) },
		"text.diff": func(c *opCall) (any, error) {
			d := tools.Diff("", c.args.text(0), c.args.text(1))
			if d == nil {
				return quick.JSON(`{"diff":""}`), nil
			}
			return quick.JSON(d), nil
		},
		"text.patch": func(c *opCall) (any, error) {
			var d struct {
				Patch string `json:"patch"`
			}
			if text := tools.Diff(c.args.text(0), c.args.text(1), c.args.text(2)); text != nil {
				if err := json.Unmarshal(text, &d); err != nil {
					return nil, err
				}
			}
			return d.Patch, nil
		},
		"schema.check": checkSchema,
	}
}

func truncated(c *opCall, f func(text string, lines, bytes int) tools.Truncation) (any, error) {
	o := struct {
		MaxLines int `json:"maxLines"`
		MaxBytes int `json:"maxBytes"`
	}{tools.MaxLines, tools.MaxBytes}
	if err := c.args.into(1, &o); err != nil {
		return nil, err
	}
	return f(c.args.text(0), o.MaxLines, o.MaxBytes), nil
}

// codings are those of TextDecoder, as its standard has them: each piece that is wrong becomes one
// mark.
var codings = sync.OnceValue(func() map[string]encoding.Encoding {
	return map[string]encoding.Encoding{
		"utf-8": unicode.UTF8, "utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "windows-1252": charmap.Windows1252,
	}
})

// decodeText makes text of bytes: bytes, coding, fatal.
func decodeText(c *opCall) (any, error) {
	b, coding := c.args.bytes(0), c.args.text(1)
	if coding == "utf-8" && c.args.bool(2) && !utf8.Valid(b) {
		return nil, &failure{Name: "TypeError", Code: "ERR_ENCODING_INVALID_ENCODED_DATA", Message: "The encoded data was not valid for encoding utf-8"}
	}
	text, err := codings()[coding].NewDecoder().Bytes(b)
	return string(text), err
}

// decodeLegacy makes text of bytes in a coding of the WHATWG Encoding Standard: bytes, coding, fatal, whether the bytes
// are all. It returns the text and the number of bytes at the end that begin a character.
func decodeLegacy(c *opCall) (any, error) {
	b, fatal, last := c.args.bytes(0), c.args.bool(2), c.args.bool(3)
	coding, err := htmlindex.Get(c.args.text(1))
	if err != nil {
		return nil, err
	}
	decoder, out, done := coding.NewDecoder(), make([]byte, 3*len(b)+utf8.UTFMax), 0
	written, read, err := decoder.Transform(out, b, last)
	for errors.Is(err, transform.ErrShortDst) {
		done += written
		b = b[read:]
		out = append(out, make([]byte, len(out))...)
		written, read, err = decoder.Transform(out[done:], b, last)
	}
	if err != nil && !errors.Is(err, transform.ErrShortSrc) {
		return nil, err
	}
	text := string(out[:done+written])
	if fatal && strings.ContainsRune(text, utf8.RuneError) {
		return nil, &failure{Name: "TypeError", Code: "ERR_ENCODING_INVALID_ENCODED_DATA", Message: "The encoded data was not valid for encoding " + c.args.text(1)}
	}
	return map[string]any{"text": text, "left": len(b) - read}, nil
}

// checkSchema checks a value of any kind: schema, value.
func checkSchema(c *opCall) (any, error) {
	schema, value := c.args.json(0), c.args.json(1)
	if value == nil {
		value = json.RawMessage("null")
	}
	wrap := func(member string, x json.RawMessage) json.RawMessage {
		text, err := json.Marshal(map[string]json.RawMessage{member: x})
		if err != nil {
			return nil
		}
		return text
	}
	if schema == nil {
		schema = json.RawMessage("{}")
	}
	// What is checked are objects, as arguments are: the value becomes a member of one.
	around := json.RawMessage(`{"type":"object","required":["value"],"properties":` + string(wrap("value", schema)) + `}`)
	out, err := tools.ValidateArgs(around, wrap("value", value))
	var list tools.ArgsError
	if err != nil && !errors.As(err, &list) {
		return nil, err
	}
	r := struct {
		OK     bool            `json:"ok"`
		Value  json.RawMessage `json:"value"`
		Errors []problem       `json:"errors"`
	}{OK: err == nil, Value: value, Errors: []problem{}}
	for _, p := range list {
		path := strings.TrimPrefix(p.Path, "value")
		r.Errors = append(r.Errors, problem{path, p.Reason})
	}
	if err == nil {
		var got struct {
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			return nil, err
		}
		r.Value = got.Value
	}
	return r, nil
}

type problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// systemRecord is what Node's os knows.
func systemRecord() map[string]any {
	platform := runtime.GOOS
	arch := map[string]string{"amd64": "x64", "386": "ia32"}[runtime.GOARCH]
	arch = cmp.Or(arch, runtime.GOARCH)
	release, version, osType := systemNames()
	home, _ := os.UserHomeDir() // "" where there is none
	return map[string]any{
		"platform": platform, "arch": arch, "release": release, "osVersion": version, "osType": osType,
		"cpus": runtime.NumCPU(), "totalmem": totalMemory(),
		"user": map[string]any{"uid": os.Getuid(), "gid": os.Getgid(), "username": userName(), "homedir": home, "shell": os.Getenv("SHELL")},
	}
}

func userName() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"))
	if name == "" && os.Getuid() == 0 {
		return "root"
	}
	return name
}
