package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"troupe/protocol"
)

// ArgsError lists what is wrong with arguments, at most a few dozen problems.
type ArgsError []ArgsProblem

// ArgsProblem is one violation of a schema.
type ArgsProblem struct {
	Path   string // e.g. edits/0/oldText; "root" is the whole
	Reason string
}

func (e ArgsError) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Path + ": " + p.Reason
	}
	return "arguments do not fit the schema: " + strings.Join(lines, "; ")
}

// maxProblems bounds what a model has to read.
const maxProblems = 32

// ValidateArgs checks the arguments of a tool call against a JSON Schema and
// returns them, changed where models are known to be careless and the intention
// is clear: "7" becomes 7 and 5 "5" where the other type is wanted, "true"
// true, a string with JSON in it the array or object it holds, and a null for
// an optional property goes away. No arguments are an empty object.
//
// It knows type (also a list of types), properties, required, items, enum,
// const, additionalProperties, minimum, maximum, minLength, anyOf, oneOf and
// allOf, and ignores other keywords and malformed ones. The error is an
// [ArgsError], or about args or schema not being JSON.
func ValidateArgs(schema, args json.RawMessage) (json.RawMessage, error) {
	var want any // no schema accepts everything
	if len(bytes.TrimSpace(schema)) > 0 {
		var err error
		if want, err = parseJSON(schema); err != nil {
			return nil, fmt.Errorf("schema of the tool is not JSON: %w", err)
		}
	}
	object, same, err := argsObject(args)
	if err != nil {
		return nil, err
	}
	effort := maxEffort
	v := validator{coerce: true, effort: &effort}
	value, changed := v.check("", want, object)
	if changed && len(v.problems) == 0 { // a later keyword may have undone an earlier one's wish
		v.coerce = false
		v.check("", want, value)
	}
	switch {
	case effort < 0:
		return nil, ArgsError{{rootPath, "schema is too complex to check"}}
	case len(v.problems) > 0:
		return nil, v.problems
	case same && !changed:
		return args, nil
	}
	return protocol.AppendValue(nil, value), nil
}

// CheckArgs is ValidateArgs for arguments that have to fit as they are.
func CheckArgs(schema, args json.RawMessage) error {
	fitting, err := ValidateArgs(schema, args)
	if err == nil && !bytes.Equal(fitting, args) {
		err = ArgsError{{rootPath, "they would be read as " + string(fitting)}}
	}
	return err
}

// argsObject reads the object that args are, or stand for. Same says that they
// are it.
func argsObject(args json.RawMessage) (object any, same bool, err error) {
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, false, nil
	}
	value, err := parseJSON(args)
	if err != nil {
		return nil, false, fmt.Errorf("arguments are not JSON: %w", err)
	}
	if value == nil {
		return map[string]any{}, false, nil
	}
	if hasType(value, "object") {
		return value, true, nil
	}
	if object, ok := coerceTo("object", value); ok {
		return object, false, nil
	}
	return nil, false, ArgsError{{rootPath, "must be object"}}
}

func parseJSON(raw []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return value, nil
}

const (
	rootPath = "root"
	// maxEffort bounds the comparisons of a value with a (sub)schema, so that a
	// schema made of alternatives of alternatives cannot keep us busy.
	maxEffort = 1 << 17
)

// validator walks a value along a schema. Values are never changed in place:
// an alternative that turns out wrong leaves no trace.
type validator struct {
	coerce   bool
	effort   *int
	problems ArgsError
}

func (v *validator) problem(path, format string, args ...any) {
	path = cmp.Or(path, rootPath)
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, ArgsProblem{path, fmt.Sprintf(format, args...)})
	}
}

// check returns value as the schema wants it.
func (v *validator) check(path string, schema, value any) (_ any, changed bool) {
	if *v.effort--; *v.effort < 0 {
		return value, false
	}
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == false {
			v.problem(path, "is not allowed")
		}
		return value, false
	}
	value, changed, ok = v.checkType(path, typesOf(s["type"]), value)
	if !ok {
		return value, changed
	}
	v.checkValue(path, s, value)
	var deeper bool
	switch value := value.(type) {
	case map[string]any:
		value, deeper = v.checkObject(path, s, value)
		return v.checkCombined(path, s, value, changed || deeper)
	case []any:
		value, deeper = v.checkArray(path, s, value)
		return v.checkCombined(path, s, value, changed || deeper)
	}
	return v.checkCombined(path, s, value, changed)
}

func typesOf(keyword any) []string {
	switch t := keyword.(type) {
	case string:
		return []string{t}
	case []any:
		var types []string
		for _, name := range t {
			if name, ok := name.(string); ok {
				types = append(types, name)
			}
		}
		return types
	}
	return nil
}

func (v *validator) checkType(path string, types []string, value any) (_ any, changed, ok bool) {
	types = slices.DeleteFunc(types, func(t string) bool { return !slices.Contains(knownTypes, t) })
	if len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return hasType(value, t) }) {
		return value, false, true
	}
	if v.coerce {
		for _, t := range types {
			if coerced, ok := coerceTo(t, value); ok {
				return coerced, true, true
			}
		}
	}
	v.problem(path, "must be %s", strings.Join(types, " or "))
	return value, false, false
}

var knownTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// hasType says that value is of a type as it stands. 7.0 is no integer here, as
// Go does not read it as one: coerceTo makes it 7.
func hasType(value any, name string) bool {
	switch value := value.(type) {
	case nil:
		return name == "null"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case json.Number:
		return name == "number" || (name == "integer" && !strings.ContainsAny(string(value), ".eE"))
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	}
	return false
}

// coerceTo reads value as another type, if it clearly means one of that type.
func coerceTo(name string, value any) (any, bool) {
	switch name {
	case "integer":
		return toInteger(value)
	case "number":
		return toNumber(value)
	case "string":
		switch value := value.(type) {
		case json.Number:
			return string(value), true
		case bool:
			return strconv.FormatBool(value), true
		}
	case "boolean":
		if s, ok := value.(string); ok && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false")) {
			return strings.EqualFold(s, "true"), true
		}
	case "array", "object":
		if s, ok := value.(string); ok {
			parsed, err := parseJSON([]byte(s))
			return parsed, err == nil && hasType(parsed, name)
		}
	}
	return nil, false
}

func toNumber(value any) (any, bool) {
	s, ok := value.(string)
	if !ok {
		return nil, false
	}
	parsed, err := parseJSON([]byte(s))
	return parsed, err == nil && hasType(parsed, "number")
}

func toInteger(value any) (any, bool) {
	if number, ok := toNumber(value); ok {
		value = number
	}
	n, ok := value.(json.Number)
	if !ok || hasType(n, "integer") {
		return n, ok
	}
	const exact = 1 << 53
	f := toFloat(n)
	if f != math.Trunc(f) || math.Abs(f) > exact {
		return nil, false
	}
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), true
}

// toFloat is the value of a number, infinite if it is too large.
func toFloat(n json.Number) float64 {
	f, _ := strconv.ParseFloat(string(n), 64) // the only error is the range
	return f
}

// checkValue does the keywords that look at one value as a whole.
func (v *validator) checkValue(path string, s map[string]any, value any) {
	if want, ok := s["const"]; ok && !equalJSON(want, value) {
		v.problem(path, "must be %s", brief(want))
	}
	if list, ok := s["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return equalJSON(e, value) }) {
		v.problem(path, "must be one of %s", brief(list))
	}
	switch value := value.(type) {
	case json.Number:
		if limit, ok := s["minimum"].(json.Number); ok && toFloat(value) < toFloat(limit) {
			v.problem(path, "must be at least %s", limit)
		}
		if limit, ok := s["maximum"].(json.Number); ok && toFloat(value) > toFloat(limit) {
			v.problem(path, "must be at most %s", limit)
		}
	case string:
		if limit, ok := s["minLength"].(json.Number); ok && float64(utf8.RuneCountInString(value)) < toFloat(limit) {
			v.problem(path, "must have at least %s characters", limit)
		}
	}
}

// brief prints a value of the schema, not too long.
func brief(value any) string {
	const limit = 400
	text := string(protocol.AppendValue(nil, value))
	if len(text) > limit {
		return protocol.Prefix(text, limit) + "…"
	}
	return text
}

func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || toFloat(a) == toFloat(b))
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func (v *validator) checkObject(path string, s, object map[string]any) (_ map[string]any, changed bool) {
	required := v.checkRequired(path, s, object)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		schema, known := properties[name]
		if !known {
			if schema, known = s["additionalProperties"]; !known {
				continue
			}
			if schema == false {
				v.problem(join(path, name), "is not a known property")
				continue
			}
		}
		value := object[name]
		if value == nil && v.coerce && !required[name] && !v.accepts(schema, nil) {
			object, changed = cloneOnce(object, changed, maps.Clone), true
			delete(object, name)
			continue
		}
		if value, new := v.check(join(path, name), schema, value); new {
			object, changed = cloneOnce(object, changed, maps.Clone), true
			object[name] = value
		}
	}
	return object, changed
}

func (v *validator) checkRequired(path string, s, object map[string]any) map[string]bool {
	list, _ := s["required"].([]any)
	required := make(map[string]bool, len(list))
	for _, name := range list {
		if name, ok := name.(string); ok {
			required[name] = true
			if _, there := object[name]; !there {
				v.problem(join(path, name), "is required")
			}
		}
	}
	return required
}

func (v *validator) checkArray(path string, s map[string]any, list []any) (_ []any, changed bool) {
	items, ok := s["items"]
	if !ok {
		return list, false
	}
	for i, value := range list {
		if value, new := v.check(join(path, strconv.Itoa(i)), items, value); new {
			list, changed = cloneOnce(list, changed, slices.Clone), true
			list[i] = value
		}
	}
	return list, changed
}

// cloneOnce makes a container ours before its first change.
func cloneOnce[T any](container T, ours bool, clone func(T) T) T {
	if ours {
		return container
	}
	return clone(container)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// checkCombined does the keywords that hold other schemas for the same value.
func (v *validator) checkCombined(path string, s map[string]any, value any, changed bool) (any, bool) {
	if list, ok := s["allOf"].([]any); ok {
		for _, schema := range list {
			next, new := v.check(path, schema, value)
			value, changed = next, changed || new
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := s[keyword].([]any); ok && len(list) > 0 {
			next, new := v.checkAny(path, list, keyword == "oneOf", value)
			value, changed = next, changed || new
		}
	}
	return value, changed
}

// checkAny prefers an alternative that fits value as it is to one that it can
// be changed for. The first pass changes nothing anywhere below, which keeps
// the effort for nested alternatives linear in their depth.
func (v *validator) checkAny(path string, list []any, one bool, value any) (any, bool) {
	fitting := 0
	for _, schema := range list {
		if v.accepts(schema, value) {
			fitting++
		}
	}
	switch {
	case fitting == 1, fitting > 1 && !one:
		return value, false
	case fitting > 1:
		v.problem(path, "must match only one of the alternatives")
		return value, false
	}
	if v.coerce {
		for _, schema := range list {
			try := validator{coerce: true, effort: v.effort}
			if next, changed := try.check(path, schema, value); len(try.problems) == 0 {
				return next, changed
			}
		}
	}
	v.problem(path, "must match one of the alternatives")
	return value, false
}

// accepts says that value fits as it is.
func (v *validator) accepts(schema, value any) bool {
	try := validator{effort: v.effort}
	try.check("", schema, value)
	return len(try.problems) == 0
}
