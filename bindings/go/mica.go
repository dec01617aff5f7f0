// Package mica runs and trains language models in the MLX / Hugging Face layout, in this process.
//
//	m, err := mica.LoadModel("models/default", mica.WithContextLen(2048))
//	defer m.Close()
//	for tok := range m.Chat(ctx, []mica.Message{{Role: "user", Content: "What is curl?"}}) {
//		fmt.Print(tok.Text)
//	}
//	err = m.Err()
//
// It is built against libmica, which pkg-config finds: PKG_CONFIG_PATH says where, if the system
// does not look there. With the build tag mica_static it takes pkg-config's flags for the static
// library, and all that this was built with.
//
// Models, devices and programs may be used by any number of goroutines at once. Sessions, arrays,
// adapters and optimisers belong to one at a time; arrays that are evaluated may be operands in any
// number. What is opened is closed by Close, which may be called again, also in the loop of an
// answer: what is in use ends with its last user. Nothing needs a finaliser.
//
// Arrays are computed when their values are asked for. Ops never fail: they give an array whose Err
// tells why there is none, and so does all that is computed from it. Free gives memory back at once;
// functions that are given to Compute, ValueAndGrad and the like need none for what they made.
//
// Ops, and options of answers, are generated from mica's headers and package inference.
package mica

/*
#cgo !mica_static pkg-config: mica
#cgo mica_static pkg-config: --static mica
#include <mica/mica.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Error is a call that failed.
type Error struct {
	Status string // such as "MICA_ENOENT"
	Text   string
}

func (e *Error) Error() string { return e.Status + ": " + e.Text }

// Is makes errors.Is(err, &Error{Status: "MICA_ENOENT"}) true of each error with that status.
func (e *Error) Is(other error) bool {
	o, same := other.(*Error)
	return same && o.Text == "" && o.Status == e.Status
}

// ErrClosed is the error of what is asked of something that was closed or freed.
var ErrClosed = errors.New("mica: it is closed")

// ErrBusy is the error of what is asked of a session within the loop of its own answer, or by
// another goroutine meanwhile.
var ErrBusy = errors.New("mica: the session is in use")

func invalid(format string, values ...any) error {
	return &Error{"MICA_EINVAL", fmt.Sprintf(format, values...)}
}

// check does a call and returns its error. The error's text belongs to the thread of the call, and
// Go may move a goroutine to another thread between two calls: so both are made in a locked one.
func check(call func() C.mica_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.MICA_OK {
		return nil
	}
	return &Error{C.GoString(C.mica_status_name(status)), C.GoString(C.mica_last_error())}
}

// rowError is the error of one of many texts.
func rowError(status C.mica_status, text *C.char) error {
	if status == C.MICA_OK {
		return nil
	}
	return &Error{C.GoString(C.mica_status_name(status)), C.GoString(text)}
}

// Version is the library's, such as "0.1.0".
func Version() string { return C.GoString(C.mica_version()) }

// guard lets the last user of a handle free it.
type guard struct {
	lock   sync.Mutex
	users  int
	closed bool
	free   func()
}

func (g *guard) enter() bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.closed {
		return false
	}
	g.users++
	return true
}

func (g *guard) leave() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.users--
	if g.closed && g.users == 0 {
		g.free()
	}
}

func (g *guard) close() {
	g.lock.Lock()
	defer g.lock.Unlock()
	if !g.closed && g.users == 0 {
		g.free()
	}
	g.closed = true
}

// with does a call while nothing is freed.
func (g *guard) with(call func() error) error {
	if !g.enter() {
		return ErrClosed
	}
	defer g.leave()
	return call()
}

// memory is what a call gives to C: freed at its end. A panic of a function that C has called goes
// on there.
type memory struct {
	pointers []unsafe.Pointer
	handles  []cgo.Handle
	panicked any
}

func (m *memory) free() {
	for _, p := range m.pointers {
		C.free(p)
	}
	for _, h := range m.handles {
		h.Delete()
	}
	if m.panicked != nil {
		panic(m.panicked)
	}
}

// zeros is room for n elements of a size; never nil.
func (m *memory) zeros(n int, size uintptr) unsafe.Pointer {
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(size))
	if p == nil {
		panic("mica: out of memory")
	}
	m.pointers = append(m.pointers, p)
	return p
}

// made is a zeroed struct in C's memory.
func made[T any](m *memory) *T {
	var t T
	return (*T)(m.zeros(1, unsafe.Sizeof(t)))
}

// list is n zeroed elements in C's memory, also as a slice.
func list[T any](m *memory, n int) (*T, []T) {
	var t T
	p := (*T)(m.zeros(n, unsafe.Sizeof(t)))
	return p, unsafe.Slice(p, n)
}

func (m *memory) text(s string) *C.char {
	p := C.CString(s)
	m.pointers = append(m.pointers, unsafe.Pointer(p))
	return p
}

// optional is nil for the empty text.
func (m *memory) optional(s string) *C.char {
	if s == "" {
		return nil
	}
	return m.text(s)
}

func (m *memory) texts(values []string) **C.char {
	p, array := list[*C.char](m, len(values))
	for i, value := range values {
		array[i] = m.text(value)
	}
	return p
}

func (m *memory) ids(values []int32) *C.int32_t {
	p, array := list[C.int32_t](m, len(values))
	for i, value := range values {
		array[i] = C.int32_t(value)
	}
	return p
}

// watched calls with a flag that ctx sets, and tells of ctx's end by its own error.
func watched(ctx context.Context, call func(*C.mica_cancel) error) error {
	if ctx == nil || ctx.Done() == nil {
		return call(nil)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var flag *C.mica_cancel
	if err := check(func() C.mica_status { return C.mica_cancel_open(&flag) }); err != nil {
		return err
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		C.mica_cancel_set(flag)
		close(done)
	})
	defer func() {
		if !stop() {
			<-done
		}
		C.mica_cancel_close(&flag)
	}()
	return cancelled(ctx, call(flag))
}

// cancelled is ctx's error in the place of MICA_ECANCELLED.
func cancelled(ctx context.Context, err error) error {
	if errors.Is(err, &Error{Status: "MICA_ECANCELLED"}) && ctx != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func goInts(p *C.int32_t, n C.size_t) []int32 {
	if n == 0 {
		return nil
	}
	return append([]int32(nil), unsafe.Slice((*int32)(unsafe.Pointer(p)), int(n))...)
}

func goFloats(p *C.float, n int) []float32 {
	if p == nil || n == 0 {
		return nil
	}
	return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(p)), n)...)
}

func goText(p *C.char, n C.size_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n)))
}
