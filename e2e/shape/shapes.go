// Package shape describes records: which keys they have, of which types, which are optional and
// which can be null. It sends a script that covers the protocol to pi and stores the shapes of the
// records in one small file per version. Records of troupe for the same script must have at least
// these shapes.
//
//	go run ./e2e/shape/record -out e2e/compat/testdata/shapes/pi-0.45.7.txt -- node PATH/dist/cli.js
//
// records a version again. See that command for its requirements.
package shape

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Shapes holds the records of one program by kind, such as "response get_state", "message_update
// text_delta" or "entry compaction".
type Shapes map[string]*Record

// Record holds the keys of all records of one kind. A path joins keys by dots. The elements of an
// array share one path, except for objects with a role or a type, which is part of the path:
// messages[user].content[text].text.
type Record struct {
	Keys map[string]*Key
	seen map[string]int // number of objects at a path
}

// Key is one path.
type Key struct {
	Types    []string // sorted: array, boolean, null, number, object, string
	Optional bool     // missing in some objects that could have it
	count    int
}

// free lists the keys whose value is an object with arbitrary keys.
var free = map[string]bool{"id": true, "args": true, "arguments": true, "details": true, "env": true, "headers": true}

// Add counts a record.
func (s Shapes) Add(kind string, v gjson.Result) {
	r := s[kind]
	if r == nil {
		r = &Record{Keys: map[string]*Key{}, seen: map[string]int{}}
		s[kind] = r
	}
	r.object("", v)
}

func (r *Record) object(path string, v gjson.Result) {
	r.seen[path]++
	prefix := path
	if prefix != "" {
		prefix += "."
	}
	v.ForEach(func(k, child gjson.Result) bool {
		r.value(prefix+strings.ReplaceAll(k.Str, ".", "_"), k.Str, child)
		return true
	})
}

func (r *Record) value(path, name string, v gjson.Result) {
	k := r.Keys[path]
	if k == nil {
		k = &Key{}
		r.Keys[path] = k
	}
	k.count++
	k.add(typeOf(v))
	switch {
	case free[name]:
	case v.IsObject():
		r.object(path, v)
	case v.IsArray():
		if name == "children" && strings.Count(path, "children") > 1 {
			path = path[:strings.Index(path, "children")] + name
		}
		for _, e := range v.Array() {
			r.element(path, name, e)
		}
	}
}

func (r *Record) element(path, name string, e gjson.Result) {
	if !e.IsObject() {
		r.value(path+"[]", "", e)
		return
	}
	which := ""
	for _, key := range []string{"role", "type"} {
		if v := e.Get(key); v.Type == gjson.String {
			which = v.Str
			break
		}
	}
	path += "[" + which + "]"
	if name == "children" { // a tree has an arbitrary depth
		if i := strings.Index(path, "children["); i >= 0 {
			path = path[:i] + "children[]"
		}
	}
	k := r.Keys[path]
	if k == nil {
		k = &Key{}
		r.Keys[path] = k
	}
	k.add("object")
	r.object(path, e)
}

func typeOf(v gjson.Result) string {
	switch {
	case v.IsObject():
		return "object"
	case v.IsArray():
		return "array"
	case v.IsBool():
		return "boolean"
	case v.Type == gjson.Number:
		return "number"
	case v.Type == gjson.String:
		return "string"
	}
	return "null"
}

func (k *Key) add(types ...string) {
	for _, t := range types {
		if i, found := slices.BinarySearch(k.Types, t); !found {
			k.Types = slices.Insert(k.Types, i, t)
		}
	}
}

// Done determines which keys are optional. Call it after the last record.
func (s Shapes) Done() {
	for _, r := range s {
		for path, k := range r.Keys {
			k.Optional = !strings.HasSuffix(path, "]") && k.count < r.seen[parent(path)]
		}
	}
}

// parent returns the path of the object that has a key, or of the array that has an element.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}

// Write writes the shapes as text: the kind of each record, followed by one line per path. A
// question mark marks an optional key.
func (s Shapes) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, kind := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintln(out, kind)
		r := s[kind]
		for _, path := range slices.Sorted(maps.Keys(r.Keys)) {
			k := r.Keys[path]
			mark := ""
			if k.Optional {
				mark = "?"
			}
			fmt.Fprintf(out, "  %s%s %s\n", path, mark, strings.Join(k.Types, " "))
		}
	}
	return out.Flush()
}

// Read parses the output of Write. Lines that start with # are comments.
func Read(text string) (Shapes, error) {
	s := Shapes{}
	var r *Record
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case !strings.HasPrefix(line, "  "):
			r = &Record{Keys: map[string]*Key{}}
			s[line] = r
		default:
			words := strings.Fields(line)
			if r == nil || len(words) < 2 {
				return nil, fmt.Errorf("line %d: %q", i+1, line)
			}
			path, optional := strings.CutSuffix(words[0], "?")
			r.Keys[path] = &Key{Types: words[1:], Optional: optional}
		}
	}
	return s, nil
}

// Difference is a shape that theirs has and ours lacks.
type Difference struct {
	Kind string // of the record
	Path string // "" for the record as a whole
	What string // missing, sometimes missing, null, type
	More string // the types
}

func (d Difference) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s is %s %s", d.Kind, d.Path, d.What, d.More))
}

// Compare lists the differences that a client of theirs would notice in ours: records and keys that
// are missing or only sometimes present, unexpected nulls, and other types. Additional keys of ours
// are no difference unless they are null.
func Compare(theirs, ours Shapes) (list []Difference) {
	for _, kind := range slices.Sorted(maps.Keys(theirs)) {
		have := ours[kind]
		if have == nil {
			list = append(list, Difference{kind, "", "missing", ""})
			continue
		}
		want := theirs[kind]
		for _, path := range slices.Sorted(maps.Keys(want.Keys)) {
			list = append(list, compareKey(kind, path, want.Keys[path], have)...)
		}
		for _, path := range slices.Sorted(maps.Keys(have.Keys)) {
			up := parent(path)
			known := up == "" || want.Keys[up] != nil
			if known && want.Keys[path] == nil && slices.Contains(have.Keys[path].Types, "null") {
				list = append(list, Difference{kind, path, "null", "where there is no such key"})
			}
		}
	}
	return list
}

func compareKey(kind, path string, want *Key, have *Record) (list []Difference) {
	got := have.Keys[path]
	if got == nil {
		if up := parent(path); up != "" && have.Keys[up] == nil {
			return nil // the missing object is already reported
		}
		return []Difference{{kind, path, "missing", strings.Join(want.Types, " ")}}
	}
	if got.Optional && !want.Optional {
		list = append(list, Difference{kind, path, "sometimes missing", ""})
	}
	for _, t := range got.Types {
		switch {
		case slices.Contains(want.Types, t):
		case t == "null":
			list = append(list, Difference{kind, path, "null", "where it never is"})
		default:
			list = append(list, Difference{kind, path, "type", fmt.Sprintf("%s, not %s", t, strings.Join(want.Types, " "))})
		}
	}
	return list
}
