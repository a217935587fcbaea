package pi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Decode reads one input line. It takes ownership of the line's bytes. On
// failure the Request still carries what could be read of the envelope: the id,
// and "parse" or the command's name. Whether the failure is answered with the
// id is the dialect's to say: see [Codec].
func Decode(line []byte) (protocol.Request, *protocol.Error) {
	if !utf8.Valid(line) {
		return unparsed(nil, fmt.Sprintf("invalid UTF-8 at byte %d", invalidAt(line)))
	}
	if err := checkJSON(line); err != nil {
		return unparsed(nil, err.Error())
	}
	top := gjson.Parse(unsafe.String(unsafe.SliceData(line), len(line)))
	if !top.IsObject() {
		return protocol.Request{Name: "parse"}, protocol.CodeMissingType.Errorf("Missing command type")
	}
	var m members
	m.read(top)
	req := protocol.Request{ID: m.id}
	if m.kind.Type != gjson.String {
		req.Name = "parse"
		return req, protocol.CodeMissingType.Errorf("Missing command type")
	}
	req.Name = m.kind.Str
	req.Spec = protocol.Lookup(req.Name)
	if req.Spec == nil {
		if sid := m.get("sessionId"); sid.Type == gjson.String {
			req.SessionID = strings.Clone(sid.Str) // a node of a cluster with a newer version may know the command
		}
		req.Name = strings.Clone(req.Name)
		return req, protocol.CodeUnknownCommand.Errorf("Unknown command: %s", req.Name)
	}
	req.Name = req.Spec.Name
	if sid := m.get("sessionId"); sid.Exists() {
		if sid.Type != gjson.String {
			return req, protocol.CodeInvalidParams.Errorf("Invalid sessionId: expected a string")
		}
		req.SessionID = strings.Clone(sid.Str)
	}
	var err *protocol.Error
	req.Cmd, err = decode(req.Spec, &m)
	return req, err
}

// checkJSON validates a line before gjson sees it.
func checkJSON(line []byte) error {
	if protocol.ValidJSON(line) {
		return nil
	}
	var any json.RawMessage
	if err := json.Unmarshal(line, &any); err != nil { // for its message
		return err
	}
	return fmt.Errorf("nested too deeply")
}

// unparsed is the failure of a line that is not read: without an id, as every
// document says, for who knows whose the first one of a broken line is.
func unparsed(id json.RawMessage, why string) (protocol.Request, *protocol.Error) {
	return protocol.Request{Name: "parse", ID: id}, protocol.CodeParse.Errorf("Failed to parse command: %s", why)
}

// Refusal implements [protocol.FrameError]. No document speaks of such a line;
// its id is read from the first bytes if it stands there.
func (e *LineTooLongError) Refusal() (protocol.Request, *protocol.Error) {
	return unparsed(salvageID(e.Head), e.Error())
}

func invalidAt(line []byte) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(line)
}

// salvageID looks for a whole "id" member among the leading members of a line
// of which there is only the beginning, so that the client can tell which of
// its commands was too long. It reads only members that are themselves intact.
func salvageID(line []byte) json.RawMessage {
	dec := jsontext.NewDecoder(strings.NewReader(string(line[:min(len(line), headBytes)])),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil
		}
		isID := name.String() == "id"
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if isID && utf8.Valid(value) {
			return json.RawMessage(slices.Clone(value))
		}
	}
}

// members is the top level of a line, read once. Of duplicates the last wins.
type members struct {
	id   json.RawMessage
	kind gjson.Result
	few  [4]member // all but type; most commands have no more
	n    int       // of few
	rest []member
}

type member struct {
	name  string
	value gjson.Result
}

func (m *members) read(top gjson.Result) {
	top.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			m.id = json.RawMessage(strings.Clone(value.Raw))
			m.add(member{"id", value})
		case "type":
			m.kind = value
		default:
			m.add(member{key.Str, value})
		}
		return true
	})
}

func (m *members) add(one member) {
	if m.n == len(m.few) {
		m.rest = append(m.rest, one)
		return
	}
	m.few[m.n] = one
	m.n++
}

// get returns a member; null counts as absent.
func (m *members) get(name string) gjson.Result {
	for _, some := range [...][]member{m.rest, m.few[:m.n]} {
		for i := len(some) - 1; i >= 0; i-- {
			if some[i].name != name {
				continue
			}
			if some[i].value.Type == gjson.Null {
				return gjson.Result{}
			}
			return some[i].value
		}
	}
	return gjson.Result{}
}

// decode fills the params struct of a row from the line's members.
func decode(s *protocol.Spec, m *members) (protocol.Command, *protocol.Error) {
	if len(s.Parameters()) == 0 {
		return reflect.Zero(s.Params).Interface().(protocol.Command), nil
	}
	p := reflect.New(s.Params).Elem()
	for _, f := range s.Parameters() {
		v := m.get(f.Name)
		if !v.Exists() {
			if f.Required {
				return nil, protocol.CodeInvalidParams.Errorf("Missing %s", f.Name)
			}
			continue
		}
		if err := set(p.Field(f.Index), f, v); err != nil {
			return nil, err
		}
		if len(f.Enum) > 0 && !slices.Contains(f.Enum, p.Field(f.Index).String()) {
			return nil, f.Invalid(s.Name, p.Field(f.Index).String())
		}
	}
	if c, ok := p.Addr().Interface().(protocol.Checker); ok {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	return p.Interface().(protocol.Command), nil
}

func wrong(f protocol.Param, want string) *protocol.Error {
	return protocol.CodeInvalidParams.Errorf("%s must be %s", f.Name, want)
}

// set stores a JSON value in a field, refusing anything but the field's own
// type: no number is clamped and no string is taken for a number.
func set(dst reflect.Value, f protocol.Param, v gjson.Result) *protocol.Error {
	switch dst.Type() { // not by Interface, which copies
	case reflect.TypeFor[[]protocol.Image]():
		images, err := decodeImages(v)
		if err == nil {
			dst.Set(reflect.ValueOf(images))
		}
		return err
	case reflect.TypeFor[json.RawMessage]():
		dst.SetBytes([]byte(v.Raw))
		return nil
	}
	switch dst.Kind() {
	case reflect.String:
		if v.Type != gjson.String {
			return wrong(f, "a string")
		}
		dst.SetString(strings.Clone(v.Str))
	case reflect.Bool:
		if !v.IsBool() {
			return wrong(f, "a boolean")
		}
		dst.SetBool(v.Bool())
	case reflect.Int:
		if v.Type != gjson.Number || v.Num != math.Trunc(v.Num) {
			return wrong(f, "an integer")
		}
		switch {
		case f.Max == 0 && v.Num < float64(f.Min):
			return wrong(f, fmt.Sprintf("at least %d", f.Min))
		case f.Max > 0 && (v.Num < float64(f.Min) || v.Num > float64(f.Max)):
			return wrong(f, fmt.Sprintf("between %d and %d", f.Min, f.Max))
		}
		dst.SetInt(int64(v.Num))
	case reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		if err := set(p.Elem(), f, v); err != nil {
			return err
		}
		dst.Set(p)
	default:
		if dst.Kind() == reflect.Slice && !v.IsArray() {
			return wrong(f, "an array")
		}
		if err := json.Unmarshal([]byte(v.Raw), dst.Addr().Interface()); err != nil {
			return protocol.CodeInvalidParams.Errorf("Invalid %s: %s", f.Name, err)
		}
	}
	return nil
}
