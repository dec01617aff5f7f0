package mica

// #include "callbacks.h"
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// Program is a network that is compiled once and run often: of an ONNX file, or one that was saved.
// Any number of goroutines may run it at once.
type Program struct {
	handle  *C.mica_program
	guard   guard
	device  *Device
	params  []Port
	results []Port
}

// Port is a parameter or a result of a program.
type Port struct {
	Name    string
	DType   DType
	Shape   []int    // -1: any length
	Symbols []string // names of such lengths, "" of others
}

// LoadProgram reads a network from an ONNX file (NAME.onnx), or a program that Save has written.
// dims fixes lengths that an ONNX file leaves open, by their names there. The caller closes it.
func LoadProgram(path string, dims map[string]int) (*Program, error) {
	device, err := DefaultDevice()
	if err != nil {
		return nil, err
	}
	var mem memory
	defer mem.free()
	p, file := &Program{device: device}, mem.text(path)
	err = device.guard.with(func() error {
		return check(func() C.mica_status {
			if !strings.HasSuffix(path, ".onnx") {
				return C.mica_program_load(device.handle, file, nil, &p.handle)
			}
			o := made[C.mica_onnx_options](&mem)
			o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
			lengths, places := list[C.mica_onnx_dim](&mem, len(dims))
			o.dims, o.n_dims = lengths, C.size_t(len(dims))
			for name, length := range dims {
				places[0].name, places[0].length = mem.text(name), C.int64_t(length)
				places = places[1:]
			}
			return C.mica_onnx_load(device.handle, file, o, &p.handle)
		})
	})
	if err != nil {
		return nil, err
	}
	h := p.handle // not p: what frees an object must not keep it
	p.guard.free = func() { C.mica_program_close(&h) }
	var port C.mica_port
	port.struct_bytes = C.size_t(unsafe.Sizeof(port))
	for i := C.size_t(0); C.mica_program_get_param(p.handle, i, &port) == C.MICA_OK; i++ {
		p.params = append(p.params, portOf(&port))
	}
	for i := C.size_t(0); C.mica_program_get_result(p.handle, i, &port) == C.MICA_OK; i++ {
		p.results = append(p.results, portOf(&port))
	}
	return p, nil
}

func portOf(port *C.mica_port) Port {
	p := Port{Name: C.GoString(port.name), DType: DType(port.dtype)}
	for i, n := range unsafe.Slice(port.shape, int(port.ndim)) {
		p.Shape, p.Symbols = append(p.Shape, int(n)), append(p.Symbols, "")
		if port.symbols != nil {
			p.Symbols[i] = C.GoString(unsafe.Slice(port.symbols, int(port.ndim))[i])
		}
	}
	return p
}

// Close frees the program, with the last run that is under way. Closing again does nothing.
func (p *Program) Close() error {
	p.guard.close()
	return nil
}

// Params are what the program takes.
func (p *Program) Params() []Port { return p.params }

// Results are what it gives.
func (p *Program) Results() []Port { return p.results }

// Run computes the results, in their order, of arguments in the order of Params.
func (p *Program) Run(args ...*Array) ([]*Array, error) {
	if len(args) != len(p.params) {
		return nil, invalid("the program takes %d arguments, not %d", len(p.params), len(args))
	}
	s, err := newScope(p.device)
	if err != nil {
		return nil, err
	}
	results, err := p.run(s, args)
	if err != nil {
		s.close()
		return nil, err
	}
	return results, nil
}

func (p *Program) run(s *scope, args []*Array) ([]*Array, error) {
	inside, err := s.take(args...)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(args)
	in, out := raws(inside), make([]C.mica_array, len(p.results))
	err = p.guard.with(func() error {
		return check(func() C.mica_status {
			return C.mica_program_run(p.handle, s.c, first(in), first(out))
		})
	})
	if err != nil {
		return nil, err
	}
	results := s.addAll(out)
	for _, a := range results {
		a.h.valued.Store(true)
	}
	Free(inside...)
	return results, nil
}

// RunNamed is Run with arguments and results by their names.
func (p *Program) RunNamed(args map[string]*Array) (map[string]*Array, error) {
	list := make([]*Array, len(p.params))
	for i, port := range p.params {
		if list[i] = args[port.Name]; list[i] == nil {
			return nil, invalid("the program needs %q", port.Name)
		}
	}
	if len(args) != len(list) {
		return nil, invalid("the program takes %d arguments, not %d", len(list), len(args))
	}
	results, err := p.Run(list...)
	if err != nil {
		return nil, err
	}
	named := map[string]*Array{}
	for i, port := range p.results {
		named[port.Name] = results[i]
	}
	return named, nil
}

// Save writes the program to a file, whole or not at all.
func (p *Program) Save(path string) error {
	var mem memory
	defer mem.free()
	file := mem.text(path)
	return p.guard.with(func() error {
		return check(func() C.mica_status { return C.mica_program_save(p.handle, file, nil) })
	})
}

// String is the program as text, a line a node.
func (p *Program) String() string {
	var text *C.char
	err := p.guard.with(func() error {
		return check(func() C.mica_status { return C.mica_program_print(p.handle, &text) })
	})
	defer C.mica_free(unsafe.Pointer(text))
	if err != nil {
		return fmt.Sprintf("program(%v)", err)
	}
	return C.GoString(text)
}

// LoadSafetensors reads all arrays of a file, or of a folder of them. The caller frees them.
func LoadSafetensors(path string) (map[string]*Array, error) {
	return loadArrays(path, func(file *C.char, s *C.mica_scope, p **C.mica_named_array, n *C.size_t) C.mica_status {
		return C.mica_load_safetensors(file, s, p, n)
	})
}

// LoadNPZ reads all arrays of an npz file, or that of an npy file. The caller frees them.
func LoadNPZ(path string) (map[string]*Array, error) {
	return loadArrays(path, func(file *C.char, s *C.mica_scope, p **C.mica_named_array, n *C.size_t) C.mica_status {
		return C.mica_load_npz(file, s, p, n)
	})
}

func loadArrays(path string,
	load func(*C.char, *C.mica_scope, **C.mica_named_array, *C.size_t) C.mica_status) (map[string]*Array, error) {
	s, err := newScope(nil)
	if err != nil {
		return nil, err
	}
	var mem memory
	defer mem.free()
	file := mem.text(path)
	var p *C.mica_named_array
	var n C.size_t
	err = check(func() C.mica_status { return load(file, s.c, &p, &n) })
	defer C.mica_free(unsafe.Pointer(p))
	arrays := map[string]*Array{}
	for _, named := range unsafe.Slice(p, int(n)) {
		a := s.add(named.array)
		a.h.valued.Store(true)
		arrays[C.GoString(named.name)] = a
	}
	if len(arrays) == 0 {
		s.close()
	}
	return arrays, err
}

// SaveSafetensors writes arrays to a file, whole or not at all.
func SaveSafetensors(path string, arrays map[string]*Array) error {
	return saveArrays(arrays, path, func(file *C.char, p *C.mica_named_array, n C.size_t) C.mica_status {
		return C.mica_save_safetensors(file, p, n, nil, 0)
	})
}

// SaveNPZ writes arrays to a file as numpy.savez does, whole or not at all.
func SaveNPZ(path string, arrays map[string]*Array) error {
	return saveArrays(arrays, path, func(file *C.char, p *C.mica_named_array, n C.size_t) C.mica_status {
		return C.mica_save_npz(file, p, n, false)
	})
}

func saveArrays(arrays map[string]*Array, path string,
	save func(*C.char, *C.mica_named_array, C.size_t) C.mica_status) error {
	names := make([]string, 0, len(arrays))
	for name := range arrays {
		names = append(names, name)
	}
	slices.Sort(names) // the same arrays make the same file
	values := make([]*Array, len(names))
	for i, name := range names {
		values[i] = arrays[name]
	}
	if err := Eval(values...); err != nil {
		return err
	}
	s, err := newScope(nil)
	if err != nil {
		return err
	}
	defer s.close()
	inside, err := s.take(values...)
	if err != nil {
		return err
	}
	var mem memory
	defer mem.free()
	file := mem.text(path)
	p, places := list[C.mica_named_array](&mem, len(names))
	for i, name := range names {
		places[i].name, places[i].array = mem.text(name), inside[i].h.raw
	}
	return check(func() C.mica_status { return save(file, p, C.size_t(len(names))) })
}
