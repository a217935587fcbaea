//go:build !386 && !arm

package quick

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// JSON is an object or array of JavaScript as it comes to Go, and text that goes the
// other way as an object.
type JSON string

// Mixed is an object with bytes in it: Bytes become members of it.
type Mixed struct {
	Value any
	Bytes map[string][]byte
}

// Value is a value of JavaScript that Go holds.
type Value struct {
	vm *VM
	v  lib.TJSValue
}

var (
	undefined = lib.TJSValue{Ftag: lib.EJS_TAG_UNDEFINED}
	exception = lib.TJSValue{Ftag: lib.EJS_TAG_EXCEPTION}
)

func (vm *VM) alloc(n uintptr) uintptr {
	p := libc.Xmalloc(vm.tls, libc.Tsize_t(max(n, 1)))
	if p == 0 {
		panic(errors.New("no memory for the JavaScript engine"))
	}
	return p
}

func (vm *VM) free(p uintptr) { libc.Xfree(vm.tls, p) }

// copied is s in the engine's memory, with a zero behind it as its parser wants.
func copied[T string | []byte](vm *VM, s T) uintptr {
	p := vm.alloc(uintptr(len(s)) + 1)
	b := unsafe.Slice((*byte)(at(p)), len(s)+1)
	copy(b, s)
	b[len(s)] = 0
	return p
}

func (vm *VM) dup(v lib.TJSValue) Value { return Value{vm, lib.XDupValue(vm.tls, vm.ctx, v)} }

// Free lets go of the value.
func (v Value) Free() { lib.XFreeValue(v.vm.tls, v.vm.ctx, v.v) }

// text makes a string of JavaScript. What is not UTF-8 becomes U+FFFD.
func (vm *VM) text(s string) lib.TJSValue {
	s = strings.ToValidUTF8(s, "\uFFFD")
	p := copied(vm, s)
	defer vm.free(p)
	return lib.XJS_NewStringLen(vm.tls, vm.ctx, p, lib.Tsize_t(len(s)))
}

// bytes makes a Uint8Array.
func (vm *VM) bytes(b []byte) lib.TJSValue {
	p := copied(vm, b)
	defer vm.free(p)
	size := unsafe.Sizeof(lib.TJSValue{})
	args := vm.alloc(3 * size)
	defer vm.free(args)
	list := unsafe.Slice((*lib.TJSValue)(at(args)), 3)
	list[0], list[1], list[2] = lib.XJS_NewArrayBufferCopy(vm.tls, vm.ctx, p, lib.Tsize_t(len(b))), undefined, undefined
	if list[0].Ftag == lib.EJS_TAG_EXCEPTION {
		return exception
	}
	defer lib.XFreeValue(vm.tls, vm.ctx, list[0])
	return lib.XJS_NewTypedArray(vm.tls, vm.ctx, 3, args, lib.EJS_TYPED_ARRAY_UINT8)
}

// toJS makes a value of JavaScript. Objects go as an array whose first element is JSON
// and whose others are names and bytes: the prelude puts them together with its own
// JSON.parse, which is faster than building them from here.
func (vm *VM) toJS(x any) lib.TJSValue {
	switch x := x.(type) {
	case nil:
		return undefined
	case Value:
		return lib.XDupValue(vm.tls, vm.ctx, x.v)
	case bool:
		v := lib.TJSValue{Ftag: lib.EJS_TAG_BOOL}
		if x {
			*(*uint64)(unsafe.Pointer(&v)) = 1
		}
		return v
	case int:
		return vm.toJS(float64(x))
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < math.MaxInt32 && (x != 0 || !math.Signbit(x)) {
			return lib.XNewInt32(vm.tls, vm.ctx, int32(x))
		}
		v := lib.TJSValue{Ftag: lib.EJS_TAG_FLOAT64}
		*(*float64)(unsafe.Pointer(&v)) = x
		return v
	case string:
		return vm.text(x)
	case []byte:
		return vm.bytes(x)
	case JSON:
		return vm.list(string(x), nil)
	case Mixed:
		text, err := json.Marshal(x.Value)
		if err != nil {
			return lib.XJS_Throw(vm.tls, vm.ctx, vm.text(err.Error()))
		}
		return vm.list(string(text), x.Bytes)
	}
	text, err := json.Marshal(x)
	if err != nil {
		return lib.XJS_Throw(vm.tls, vm.ctx, vm.text(err.Error()))
	}
	return vm.list(string(text), nil)
}

func (vm *VM) list(text string, members map[string][]byte) lib.TJSValue {
	list := lib.XJS_NewArray(vm.tls, vm.ctx)
	if list.Ftag == lib.EJS_TAG_EXCEPTION {
		return list
	}
	n := lib.Tuint32_t(0)
	add := func(v lib.TJSValue) bool { // takes v; defines it, since a script may have given Array.prototype a setter
		ok := v.Ftag != lib.EJS_TAG_EXCEPTION && lib.XJS_DefinePropertyValueUint32(vm.tls, vm.ctx, list, n, v, lib.MJS_PROP_C_W_E) >= 0
		n++
		return ok
	}
	ok := add(vm.text(text))
	for name, b := range members {
		ok = ok && add(vm.text(name)) && add(vm.bytes(b))
	}
	if !ok {
		lib.XFreeValue(vm.tls, vm.ctx, list)
		return exception
	}
	return list
}

// toGo reads a value: nil, bool, float64, string, []byte, or JSON for what else has
// a form in it. It does not free it.
func (vm *VM) toGo(v lib.TJSValue) (any, error) {
	switch int32(v.Ftag) {
	case lib.EJS_TAG_UNDEFINED, lib.EJS_TAG_NULL:
		return nil, nil
	case lib.EJS_TAG_BOOL:
		return int32(*(*uint64)(unsafe.Pointer(&v))) != 0, nil
	case lib.EJS_TAG_INT:
		return float64(int32(*(*uint64)(unsafe.Pointer(&v)))), nil
	case lib.EJS_TAG_FLOAT64:
		return *(*float64)(unsafe.Pointer(&v)), nil
	case lib.EJS_TAG_EXCEPTION:
		return nil, vm.exception()
	case lib.EJS_TAG_OBJECT:
		if b, ok, err := vm.toBytes(v); ok || err != nil {
			return b, err
		}
		text := Value{vm, lib.XJS_JSONStringify(vm.tls, vm.ctx, v, undefined, undefined)}
		defer text.Free()
		switch text.v.Ftag {
		case lib.EJS_TAG_EXCEPTION:
			return nil, vm.exception()
		case lib.EJS_TAG_UNDEFINED: // a function
			return nil, nil
		}
		s, err := text.String()
		return JSON(s), err
	}
	return Value{vm, v}.String()
}

// toBytes copies what a Uint8Array shows.
func (vm *VM) toBytes(v lib.TJSValue) (b []byte, ok bool, err error) {
	if lib.XJS_GetClassID(vm.tls, v) != lib.EJS_CLASS_UINT8_ARRAY {
		return nil, false, nil
	}
	word := unsafe.Sizeof(lib.Tsize_t(0))
	p := vm.alloc(3 * word)
	defer vm.free(p)
	buffer := Value{vm, lib.XJS_GetTypedArrayBuffer(vm.tls, vm.ctx, v, p, p+word, 0)}
	defer buffer.Free()
	if buffer.v.Ftag == lib.EJS_TAG_EXCEPTION {
		return nil, false, vm.exception()
	}
	data := lib.XJS_GetArrayBuffer(vm.tls, vm.ctx, p+2*word, buffer.v)
	n := unsafe.Slice((*lib.Tsize_t)(at(p)), 3)
	if n[1] == 0 {
		return []byte{}, true, nil
	}
	if data == 0 {
		return nil, false, vm.exception()
	}
	if n[0]+n[1] > n[2] {
		return nil, false, fmt.Errorf("%d bytes at %d are not in a buffer of %d", n[1], n[0], n[2])
	}
	return append([]byte(nil), unsafe.Slice((*byte)(at(data+uintptr(n[0]))), n[1])...), true, nil
}

// String is what String(v) gives.
func (v Value) String() (string, error) {
	vm := v.vm
	size := vm.alloc(unsafe.Sizeof(lib.Tsize_t(0)))
	defer vm.free(size)
	p := lib.XJS_ToCStringLen2(vm.tls, vm.ctx, size, v.v, 0)
	if p == 0 {
		return "", vm.exception()
	}
	defer lib.XJS_FreeCString(vm.tls, vm.ctx, p)
	s := string(unsafe.Slice((*byte)(at(p)), *(*lib.Tsize_t)(at(size))))
	return strings.ToValidUTF8(s, "\uFFFD"), nil // half a surrogate pair
}

// member reads a text of an object, "" if there is none.
func (v Value) member(name string) string {
	p := copied(v.vm, name)
	defer v.vm.free(p)
	m := Value{v.vm, lib.XJS_GetPropertyStr(v.vm.tls, v.vm.ctx, v.v, p)}
	defer m.Free()
	switch int32(m.v.Ftag) {
	case lib.EJS_TAG_EXCEPTION:
		Value{v.vm, lib.XJS_GetException(v.vm.tls, v.vm.ctx)}.Free()
		return ""
	case lib.EJS_TAG_STRING, lib.EJS_TAG_STRING_ROPE:
		s, _ := m.String()
		return s
	}
	return ""
}

// Call calls a function and gives its result as a value of Go.
func (v Value) Call(args ...any) (any, error) {
	r, err := v.CallValue(args...)
	if err != nil {
		return nil, err
	}
	defer r.Free()
	return v.vm.toGo(r.v)
}

// CallValue calls a function and gives its result as it is.
func (v Value) CallValue(args ...any) (Value, error) {
	vm := v.vm
	vm.begin()
	defer vm.end()
	size := unsafe.Sizeof(lib.TJSValue{})
	p := vm.alloc(uintptr(len(args)) * size)
	defer vm.free(p)
	list := unsafe.Slice((*lib.TJSValue)(at(p)), len(args))
	n := 0
	defer func() {
		for _, a := range list[:n] {
			lib.XFreeValue(vm.tls, vm.ctx, a)
		}
	}()
	for i, a := range args {
		list[i] = vm.toJS(a)
		if list[i].Ftag == lib.EJS_TAG_EXCEPTION {
			return Value{}, vm.exception()
		}
		n++
	}
	r := lib.XJS_Call(vm.tls, vm.ctx, v.v, undefined, int32(len(args)), p)
	if r.Ftag == lib.EJS_TAG_EXCEPTION {
		return Value{}, vm.exception()
	}
	return Value{vm, r}, nil
}
