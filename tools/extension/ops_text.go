package extension

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"troupe/tools"
	"troupe/tools/extension/quick"
)

var processStart = time.Now()

func textOps() map[string]operation {
	return map[string]operation{
		"now": func(*opCall) (any, error) {
			return float64(time.Since(processStart).Microseconds()) / 1000, nil
		},
		"text.encode":       func(c *opCall) (any, error) { return []byte(c.args.text(0)), nil },
		"text.decode":       decodeText,
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
		"intl.offset": func(c *opCall) (any, error) {
			ms, _ := c.args.number(1)
			zone, err := time.LoadLocation(c.args.text(0))
			if err != nil {
				return nil, err
			}
			_, seconds := time.UnixMilli(int64(ms)).In(zone).Zone()
			return float64(seconds) / 60, nil
		},
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

// decodeText makes text of bytes: bytes, coding, fatal.
func decodeText(c *opCall) (any, error) {
	b := c.args.bytes(0)
	switch c.args.text(1) {
	case "utf-16le":
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
		}
		return string(utf16.Decode(units)), nil
	case "windows-1252":
		runes := make([]rune, len(b))
		for i, x := range b {
			runes[i] = rune(x)
			if x >= 0x80 && x < 0xa0 {
				runes[i] = windows1252[x-0x80]
			}
		}
		return string(runes), nil
	}
	if utf8.Valid(b) {
		return string(b), nil
	}
	if c.args.bool(2) {
		return nil, &failure{Name: "TypeError", Code: "ERR_ENCODING_INVALID_ENCODED_DATA", Message: "The encoded data was not valid for encoding utf-8"}
	}
	var out strings.Builder
	for len(b) > 0 { // one mark for each piece that is wrong, as the standard has it
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = wrong(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String(), nil
}

// wrong is how many bytes at the beginning are one piece that is no character: what
// could have begun one.
func wrong(b []byte) int {
	need, low, high := 0, byte(0x80), byte(0xbf)
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}

// windows1252 are the characters of 0x80 to 0x9f.
var windows1252 = [32]rune{
	0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
	0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
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
