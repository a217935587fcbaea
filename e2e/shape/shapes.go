// Package shape says what records look like: which keys they have, of which
// types, which are always there and which are null. A script of commands that
// covers the protocol is played to pi, what comes is kept as one small file for
// each version, and the same script played to troupe must give at least that.
//
//	go run ./e2e/shape/record -out e2e/compat/testdata/shapes/pi-0.45.7.txt -- node PATH/dist/cli.js
//
// records again; see the command for what it needs.
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

// Shapes are the records of one program by what they are: "response get_state",
// "message_update text_delta", "entry compaction".
type Shapes map[string]*Record

// Record is what all records of one kind have in common. Its paths are keys
// joined by dots; the elements of an array are one, but for objects with a role
// or a type, which are told apart by it: messages[user].content[text].text.
type Record struct {
	Keys map[string]*Key
	seen map[string]int // how many objects there were at a path
}

// Key is one path.
type Key struct {
	Types    []string // sorted: array, boolean, null, number, object, string
	Optional bool     // missing in some objects that could have it
	count    int
}

// free are the keys whose value has whatever keys somebody else gives it.
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
	if name == "children" { // a tree is as deep as it happens to be
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

// Done settles what is optional, after the last record.
func (s Shapes) Done() {
	for _, r := range s {
		for path, k := range r.Keys {
			k.Optional = !strings.HasSuffix(path, "]") && k.count < r.seen[parent(path)]
		}
	}
}

// parent is the path of the object that has a key, or of the array that has an
// element.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}

// Write writes the shapes as text, one record after the other: its name, and
// below it a line for each path. A question mark means: not always there.
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

// Read reads what Write has written. Lines that begin with # are remarks.
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

// Difference is one place where a program is less than the one it stands for.
type Difference struct {
	Kind string // of the record
	Path string // "" for the record as a whole
	What string // missing, sometimes missing, null, type
	More string // the types
}

func (d Difference) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s is %s %s", d.Kind, d.Path, d.What, d.More))
}

// Compare lists what a client of theirs would miss in ours: records and keys that
// are not there or not always there, nulls where there never was one, other
// types. What ours has in addition is no difference, unless it is null.
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
			return nil // the object is missing; that is said once
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
