//go:build !386 && !arm

package quick

import (
	"errors"
	"strings"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
)

// Keep says how much of its origin bytecode keeps.
type Keep int

const (
	KeepSource Keep = iota // names, lines and the text of functions
	KeepLines              // names and lines
)

// Module is what a name that is imported stands for: source, or bytecode of it.
type Module struct {
	Name   string // as errors have it
	Source string
	Code   []byte
}

// compile makes an object of the engine: a function for a script, a module else.
func (vm *VM) compile(name, source string, module bool) (Value, error) {
	flags := int32(lib.MJS_EVAL_FLAG_COMPILE_ONLY | lib.MJS_EVAL_TYPE_GLOBAL)
	if module {
		flags = lib.MJS_EVAL_FLAG_COMPILE_ONLY | lib.MJS_EVAL_TYPE_MODULE
	}
	source = strings.ToValidUTF8(source, "\uFFFD")
	text, file := copied(vm, source), copied(vm, name)
	defer vm.free(text)
	defer vm.free(file)
	v := lib.XJS_Eval(vm.tls, vm.ctx, text, lib.Tsize_t(len(source)), file, flags)
	if v.Ftag == lib.EJS_TAG_EXCEPTION {
		return Value{}, vm.exception()
	}
	return Value{vm, v}, nil
}

// Compile makes bytecode. Name is the file that stacks name.
func (vm *VM) Compile(name, source string, module bool, keep Keep) ([]byte, error) {
	strip := int32(0)
	if keep == KeepLines {
		strip = lib.MJS_STRIP_SOURCE
	}
	lib.XJS_SetStripInfo(vm.tls, vm.rt, strip)
	defer lib.XJS_SetStripInfo(vm.tls, vm.rt, 0)
	v, err := vm.compile(name, source, module)
	if err != nil {
		return nil, err
	}
	defer v.Free()
	size := vm.alloc(unsafe.Sizeof(lib.Tsize_t(0)))
	defer vm.free(size)
	p := lib.XJS_WriteObject(vm.tls, vm.ctx, size, v.v, lib.MJS_WRITE_OBJ_BYTECODE)
	if p == 0 {
		return nil, vm.exception()
	}
	defer lib.Xjs_free(vm.tls, vm.ctx, p)
	return append([]byte(nil), unsafe.Slice((*byte)(at(p)), *(*lib.Tsize_t)(at(size)))...), nil
}

// read makes an object of bytecode, which is believed: it must come from Compile.
func (vm *VM) read(code []byte) (Value, error) {
	if len(code) == 0 {
		return Value{}, errors.New("no bytecode")
	}
	p := copied(vm, code)
	defer vm.free(p)
	v := lib.XJS_ReadObject(vm.tls, vm.ctx, p, lib.Tsize_t(len(code)), lib.MJS_READ_OBJ_BYTECODE)
	if v.Ftag == lib.EJS_TAG_EXCEPTION {
		return Value{}, vm.exception()
	}
	return Value{vm, v}, nil
}

// Run evaluates bytecode: of a script it gives what the script evaluates to, of a
// module the promise of its end.
func (vm *VM) Run(code []byte) (Value, error) {
	v, err := vm.read(code)
	if err != nil {
		return Value{}, err
	}
	return vm.run(v)
}

// Eval compiles and runs.
func (vm *VM) Eval(name, source string, module bool) (Value, error) {
	v, err := vm.compile(name, source, module)
	if err != nil {
		return Value{}, err
	}
	return vm.run(v)
}

func (vm *VM) run(v Value) (Value, error) {
	vm.begin()
	defer vm.end()
	if int32(v.v.Ftag) == lib.EJS_TAG_MODULE && lib.XJS_ResolveModule(vm.tls, vm.ctx, v.v) < 0 {
		v.Free()
		return Value{}, vm.exception()
	}
	r := lib.XJS_EvalFunction(vm.tls, vm.ctx, v.v) // takes v
	if r.Ftag == lib.EJS_TAG_EXCEPTION {
		return Value{}, vm.exception()
	}
	return Value{vm, r}, nil
}

// Imports sets what an import in a running module finds: base is the module that
// imports.
func (vm *VM) Imports(f func(base, name string) (Module, error)) { vm.loads = f }

// normalize makes one name of base and name: the loader, who is told no base, takes
// it apart again.
func normalize(tls *libc.TLS, ctx, base, name, rt uintptr) uintptr {
	both := libc.GoString(base) + importSeparator + libc.GoString(name)
	if strings.Contains(libc.GoString(name), importSeparator) {
		both = libc.GoString(name)
	}
	p := lib.Xjs_malloc(tls, ctx, lib.Tsize_t(len(both)+1))
	if p == 0 {
		return 0
	}
	b := unsafe.Slice((*byte)(at(p)), len(both)+1)
	copy(b, both)
	b[len(both)] = 0
	return p
}

// importSeparator is in no name of a file or package.
const importSeparator = "\x01"

func load(tls *libc.TLS, ctx, name, rt uintptr) (module uintptr) {
	v, ok := vms.Load(ctx)
	if !ok {
		return 0
	}
	vm := v.(*VM)
	defer func() {
		if p := recover(); p != nil {
			lib.XJS_Throw(tls, ctx, vm.text("import failed"))
			module = 0
		}
	}()
	base, wanted, _ := strings.Cut(libc.GoString(name), importSeparator)
	if vm.loads == nil {
		lib.XJS_Throw(tls, ctx, vm.text("Cannot find module '"+wanted+"'"))
		return 0
	}
	m, err := vm.loads(base, wanted)
	if err != nil {
		lib.XJS_Throw(tls, ctx, vm.text(err.Error()))
		return 0
	}
	var obj Value
	if m.Code != nil {
		obj, err = vm.read(m.Code)
	} else {
		obj, err = vm.compile(libc.GoString(name), m.Source, true)
	}
	if err != nil {
		lib.XJS_Throw(tls, ctx, vm.text(err.Error()))
		return 0
	}
	defer obj.Free() // the context keeps modules
	return *(*uintptr)(unsafe.Pointer(&obj.v))
}

// Parse makes a value of JSON.
func (vm *VM) Parse(text string) (Value, error) {
	p, file := copied(vm, text), copied(vm, "json")
	defer vm.free(p)
	defer vm.free(file)
	v := lib.XJS_ParseJSON(vm.tls, vm.ctx, p, lib.Tsize_t(len(text)), file)
	if v.Ftag == lib.EJS_TAG_EXCEPTION {
		return Value{}, vm.exception()
	}
	return Value{vm, v}, nil
}
