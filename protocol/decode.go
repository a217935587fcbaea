package protocol

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
)

// Request is a decoded line: the envelope and the command.
type Request struct {
	ID        json.RawMessage // verbatim, nil if absent
	Name      string          // the command's name as written
	SessionID string          // the routing handle, "" for the connection's default session
	Spec      *Spec
	Cmd       Command
}

// Decode reads one input line. It takes ownership of the line's bytes. On
// failure the Request still carries what could be read of the envelope: the id,
// and "parse" or the command's name. Whether the failure is answered with the
// id is the dialect's to say: see [Gates.AnswersWithID].
func Decode(line []byte) (Request, *Error) {
	if !utf8.Valid(line) {
		return unparsed(nil, fmt.Sprintf("invalid UTF-8 at byte %d", invalidAt(line)))
	}
	if err := checkJSON(line); err != nil {
		return unparsed(nil, err.Error())
	}
	top := gjson.Parse(unsafe.String(unsafe.SliceData(line), len(line)))
	if !top.IsObject() {
		return Request{Name: "parse"}, CodeMissingType.Errorf("Missing command type")
	}
	var m members
	m.read(top)
	req := Request{ID: m.id}
	if m.kind.Type != gjson.String {
		req.Name = "parse"
		return req, CodeMissingType.Errorf("Missing command type")
	}
	req.Name = m.kind.Str
	req.Spec = Lookup(req.Name)
	if req.Spec == nil {
		req.Name = strings.Clone(req.Name)
		return req, CodeUnknownCommand.Errorf("Unknown command: %s", req.Name)
	}
	req.Name = req.Spec.Name
	if sid := m.get("sessionId"); sid.Exists() {
		if sid.Type != gjson.String {
			return req, CodeInvalidParams.Errorf("Invalid sessionId: expected a string")
		}
		req.SessionID = strings.Clone(sid.Str)
	}
	var err *Error
	if req.Cmd, err = req.Spec.decode(&m); err != nil {
		return req, err
	}
	req.Cmd, err = validate(req.Cmd)
	return req, err
}

// checkJSON validates before gjson, which answers on anything, sees the bytes.
// Duplicate names and lone surrogates are allowed, as JavaScript allows them.
func checkJSON(line []byte) error {
	v := jsontext.Value(line)
	if v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
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
func unparsed(id json.RawMessage, why string) (Request, *Error) {
	return Request{Name: "parse", ID: id}, CodeParse.Errorf("Failed to parse command: %s", why)
}

// TooLong is the failure of a line above the limit, of which no document
// speaks; its id is read from the line's first bytes if it stands there.
func TooLong(e *LineTooLongError) (Request, *Error) {
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

// decode fills the row's params struct from the line's members.
func (s *Spec) decode(m *members) (Command, *Error) {
	if s.Params.NumField() == 0 {
		return reflect.Zero(s.Params).Interface().(Command), nil
	}
	p := reflect.New(s.Params).Elem()
	for _, f := range s.fields() {
		v := m.get(f.name)
		if !v.Exists() {
			if f.required {
				return nil, CodeInvalidParams.Errorf("Missing %s", f.name)
			}
			continue
		}
		if err := f.set(p.Field(f.index), v); err != nil {
			return nil, err
		}
		if len(f.enum) > 0 && !slices.Contains(f.enum, p.Field(f.index).String()) {
			return nil, f.invalidEnum(s.Name, p.Field(f.index).String())
		}
	}
	return p.Interface().(Command), nil
}

// invalidEnum words a value outside a closed set as the seeds do.
func (f *field) invalidEnum(command, value string) *Error {
	if f.name == "mode" {
		kind := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(command, "set_"), "_mode"), "_", "-")
		if strings.HasPrefix(command, "set_") {
			return CodeInvalidParams.Errorf("Invalid %s mode", kind)
		}
	}
	if f.name == "level" {
		return CodeInvalidParams.Errorf("Invalid thinking level: %s", value)
	}
	return CodeInvalidParams.Errorf("Invalid %s: %s", f.name, value)
}

func (f *field) wrong(want string) *Error {
	return CodeInvalidParams.Errorf("%s must be %s", f.name, want)
}

// set stores a JSON value in a field, refusing anything but the field's own
// type: no number is clamped and no string is taken for a number.
func (f *field) set(dst reflect.Value, v gjson.Result) *Error {
	switch dst.Type() { // not by Interface, which copies
	case reflect.TypeFor[[]Image]():
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
			return f.wrong("a string")
		}
		dst.SetString(strings.Clone(v.Str))
	case reflect.Bool:
		if !v.IsBool() {
			return f.wrong("a boolean")
		}
		dst.SetBool(v.Bool())
	case reflect.Int:
		if v.Type != gjson.Number || v.Num != math.Trunc(v.Num) {
			return f.wrong("an integer")
		}
		if v.Num < float64(f.min) || f.max > 0 && v.Num > float64(f.max) {
			return f.wrong(fmt.Sprintf("between %d and %d", f.min, f.max))
		}
		dst.SetInt(int64(v.Num))
	case reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		if err := f.set(p.Elem(), v); err != nil {
			return err
		}
		dst.Set(p)
	default:
		if dst.Kind() == reflect.Slice && !v.IsArray() {
			return f.wrong("an array")
		}
		if err := json.Unmarshal([]byte(v.Raw), dst.Addr().Interface()); err != nil {
			return CodeInvalidParams.Errorf("Invalid %s: %s", f.name, err)
		}
	}
	return nil
}
