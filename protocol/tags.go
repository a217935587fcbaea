package protocol

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// AppendValue appends the JSON of v: by its own AppendJSON if it has one, else by
// the tags of its type, which mean what they mean to encoding/json. A value that
// cannot be encoded is a programming error and panics.
func AppendValue(dst []byte, v any) []byte { return AppendAs(dst, v, "") }

// AppendAs is AppendValue in a dialect. A member may have the tag null, which
// lists the dialects that write null where the others leave out what is empty,
// or says always; and the tag not, which lists the dialects that do not have it.
func AppendAs(dst []byte, v any, dialect Dialect) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case DialectAppender:
		return v.AppendAs(dst, dialect)
	case Appender:
		return v.AppendJSON(dst)
	case string:
		return AppendString(dst, v)
	}
	of := reflect.ValueOf(v)
	return formOf(of.Type()).append(dst, of, dialect)
}

// SizeOf returns the length of the JSON of v without encoding it. It may be a little larger where
// dialects differ, and it never panics: a value that cannot be encoded has some size as well.
func SizeOf(v any) int {
	if v == nil {
		return 0
	}
	of := reflect.ValueOf(v)
	return formOf(of.Type()).size(of)
}

// Members writes the members of a struct, or of what a pointer points to, in a
// dialect, behind members that are there already.
func (o *Object) Members(v any, dialect Dialect) {
	of := reflect.Indirect(reflect.ValueOf(v))
	o.B = appendMembers(o.B, of, membersOf(of.Type()), dialect)
}

// appendMembers appends members, each with a comma before it.
func appendMembers(dst []byte, v reflect.Value, list []member, dialect Dialect) []byte {
	for i := range list {
		m := &list[i]
		f := v.Field(m.index)
		if m.without != nil && slices.Contains(m.without, string(dialect)) {
			continue
		}
		if m.optional && m.empty(f) {
			if slices.Contains(m.null, string(dialect)) || slices.Contains(m.null, "always") {
				dst = append(append(dst, m.key...), "null"...)
			}
			continue
		}
		dst = append(dst, m.key...)
		switch m.plain { // most members: without the call of a form
		case reflect.String:
			dst = AppendString(dst, f.String())
		case reflect.Bool:
			dst = strconv.AppendBool(dst, f.Bool())
		case reflect.Int, reflect.Int64:
			dst = strconv.AppendInt(dst, f.Int(), 10)
		default:
			dst = m.form.append(dst, f, dialect)
		}
	}
	return dst
}

// form is how the values of one type are written.
type form struct {
	append func(dst []byte, v reflect.Value, dialect Dialect) []byte
	size   func(v reflect.Value) int
}

var forms sync.Map // reflect.Type → *form

func formOf(t reflect.Type) *form {
	if f, ok := forms.Load(t); ok {
		return f.(*form)
	}
	f, _ := forms.LoadOrStore(t, newForm(t))
	return f.(*form)
}

func newForm(t reflect.Type) *form {
	f := formByKind(t)
	has := func(method reflect.Type) bool { return t.Kind() != reflect.Interface && t.Implements(method) }
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		f.append = func(dst []byte, v reflect.Value, _ Dialect) []byte { return AppendRaw(dst, v.Bytes()) }
		f.size = rawSize
	case has(reflect.TypeFor[DialectAppender]()):
		f.append = func(dst []byte, v reflect.Value, dialect Dialect) []byte {
			return v.Interface().(DialectAppender).AppendAs(dst, dialect)
		}
	case has(reflect.TypeFor[Appender]()):
		f.append = func(dst []byte, v reflect.Value, _ Dialect) []byte { return v.Interface().(Appender).AppendJSON(dst) }
	case t == reflect.TypeFor[json.Number](), has(reflect.TypeFor[json.Marshaler]()), has(reflect.TypeFor[encoding.TextMarshaler]()):
		f.append, f.size = appendForeign, foreignSize
	}
	if extra := extraSize(t, f.size); extra > 0 {
		members := f.size
		f.size = func(v reflect.Value) int { return members(v) + extra }
	}
	if has(reflect.TypeFor[Weighed]()) {
		byKind := f.size
		f.size = func(v reflect.Value) int {
			if n := v.Interface().(Weighed).Weight(); n != 0 {
				return n
			}
			return byKind(v)
		}
	}
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		whole := *f
		f.append = func(dst []byte, v reflect.Value, dialect Dialect) []byte {
			if v.IsNil() {
				return append(dst, "null"...)
			}
			return whole.append(dst, v, dialect)
		}
		f.size = func(v reflect.Value) int {
			if v.IsNil() {
				return len("null")
			}
			return whole.size(v)
		}
	}
	return f
}

// formByKind is the form of a type that says nothing about itself. What is in a
// value of the type is looked up when one is written: types contain themselves.
func formByKind(t reflect.Type) *form {
	switch t.Kind() {
	case reflect.String:
		return &form{func(dst []byte, v reflect.Value, _ Dialect) []byte { return AppendString(dst, v.String()) }, stringSize}
	case reflect.Bool:
		return &form{func(dst []byte, v reflect.Value, _ Dialect) []byte { return strconv.AppendBool(dst, v.Bool()) }, boolSize}
	case reflect.Int, reflect.Int64:
		return &form{func(dst []byte, v reflect.Value, _ Dialect) []byte { return strconv.AppendInt(dst, v.Int(), 10) }, intSize}
	case reflect.Float64:
		return &form{func(dst []byte, v reflect.Value, _ Dialect) []byte { return AppendFloat(dst, v.Float()) }, floatSize}
	case reflect.Pointer:
		of := sync.OnceValue(func() *form { return formOf(t.Elem()) })
		return &form{
			func(dst []byte, v reflect.Value, dialect Dialect) []byte { return of().append(dst, v.Elem(), dialect) },
			func(v reflect.Value) int { return of().size(v.Elem()) },
		}
	case reflect.Interface:
		return &form{
			func(dst []byte, v reflect.Value, dialect Dialect) []byte {
				return formOf(v.Elem().Type()).append(dst, v.Elem(), dialect)
			},
			func(v reflect.Value) int { return formOf(v.Elem().Type()).size(v.Elem()) },
		}
	case reflect.Slice:
		of := sync.OnceValue(func() *form { return formOf(t.Elem()) })
		return &form{
			func(dst []byte, v reflect.Value, dialect Dialect) []byte {
				each := of()
				dst = append(dst, '[')
				for i := range v.Len() {
					if i > 0 {
						dst = append(dst, ',')
					}
					dst = each.append(dst, v.Index(i), dialect)
				}
				return append(dst, ']')
			},
			func(v reflect.Value) (n int) {
				each := of()
				for i := range v.Len() {
					n += 1 + each.size(v.Index(i))
				}
				return max(n+1, len("[]")) // as many commas as items, less one, and the brackets
			},
		}
	case reflect.Struct:
		list := sync.OnceValue(func() []member { return membersOf(t) })
		f := &form{
			func(dst []byte, v reflect.Value, dialect Dialect) []byte {
				begin := len(dst)
				if dst = appendMembers(dst, v, list(), dialect); len(dst) == begin {
					return append(dst, "{}"...)
				}
				dst[begin] = '{' // in the place of the first comma
				return append(dst, '}')
			},
			func(v reflect.Value) (n int) {
				list := list()
				for i := range list {
					n += list[i].size(v)
				}
				return max(n+1, len("{}")) // the first comma is a brace
			},
		}
		if !isFlat(t) {
			f.append, f.size = appendForeign, foreignSize
		}
		return f
	}
	return &form{appendForeign, foreignSize}
}

// appendForeign leaves a value to encoding/json.
func appendForeign(dst []byte, v reflect.Value, _ Dialect) []byte {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		panic("protocol: encode " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// member is a field of a struct as its tags describe it.
type member struct {
	name     string
	key      string // ,"name":
	index    int
	optional bool // it is left out if it is empty, or null
	empty    func(reflect.Value) bool
	null     []string     // the dialects in which it is null then, or always
	without  []string     // the dialects that do not have it
	plain    reflect.Kind // of a type that says nothing about itself, if values are written without the form
	form     *form
}

// size returns the length of the member of a struct with the comma before it.
func (m *member) size(of reflect.Value) int {
	f := of.Field(m.index)
	if m.optional && m.empty(f) {
		if m.null == nil {
			return 0
		}
		return len(m.key) + len("null")
	}
	return len(m.key) + m.form.size(f)
}

var structs sync.Map // reflect.Type → []member

func membersOf(t reflect.Type) []member {
	if list, ok := structs.Load(t); ok {
		return list.([]member)
	}
	var list []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		null := strings.Fields(f.Tag.Get("null"))
		m := member{index: i, optional: options != "" || len(null) > 0, empty: isEmpty, null: null, form: formOf(f.Type)}
		if not := f.Tag.Get("not"); not != "" {
			m.without = strings.Fields(not)
		}
		if options == "omitzero" { // an empty list is there
			m.empty = reflect.Value.IsZero
		}
		m.name = cmp.Or(name, f.Name)
		m.key = `,"` + m.name + `":`
		if _, keep := f.Tag.Lookup("keep"); keep {
			m.form = m.form.keeping()
		}
		if f.Type.NumMethod() == 0 {
			m.plain = f.Type.Kind()
		}
		list = append(list, m)
	}
	structs.Store(t, list)
	return list
}

// keeping is the form of a member with the tag keep. It points to a value that
// does not change and is written alike in every dialect, mostly the same one as
// the time before: so the text is kept.
func (f *form) keeping() *form {
	type text struct {
		of   any
		json []byte
	}
	var last atomic.Pointer[text]
	return &form{func(dst []byte, v reflect.Value, dialect Dialect) []byte {
		of := v.Interface()
		if t := last.Load(); t != nil && t.of == of {
			return append(dst, t.json...)
		}
		begin := len(dst)
		dst = f.append(dst, v, dialect)
		last.Store(&text{of, slices.Clone(dst[begin:])})
		return dst
	}, func(v reflect.Value) int {
		if t := last.Load(); t != nil && t.of == v.Interface() {
			return len(t.json)
		}
		return f.size(v)
	}}
}

// isFlat says that a struct has no fields of another one, and that its members may
// be left out, and no more.
func isFlat(t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && f.Type.Size() > 0 || options != "" && options != "omitempty" && options != "omitzero" {
			return false
		}
	}
	return true
}

// isEmpty is what omitempty means by it.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}
