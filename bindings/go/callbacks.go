package mica

// #include "callbacks.h"
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// callback is a Go function that C calls by a pointer to its handle.
type callback[F any] struct {
	call F
	of   *memory // which keeps a panic
}

// register makes a function known to C until m is freed.
func register[F any](m *memory, f F) unsafe.Pointer {
	h := cgo.NewHandle(&callback[F]{f, m})
	m.handles = append(m.handles, h)
	p := made[cgo.Handle](m)
	*p = h
	return unsafe.Pointer(p)
}

// called runs the function of a handle. A panic must not unwind C's frames: it is kept.
func called[F any](user unsafe.Pointer, run func(F)) (ok bool) {
	c := (*(*cgo.Handle)(user)).Value().(*callback[F])
	defer func() {
		if r := recover(); r != nil {
			c.of.panicked, ok = r, false
		}
	}()
	run(c.call)
	return true
}

type (
	progressFunc func(done, total uint64)
	tokenFunc    func(row int, token *C.mica_token) bool
	reportFunc   func(*C.mica_tune_report)
	sourceFunc   func(set C.mica_tune_set, example *C.mica_tune_example, there *C.bool) C.mica_status
	recordFunc   func(s *C.mica_scope, args, results []C.mica_array) C.mica_status
)

//export goProgress
func goProgress(user unsafe.Pointer, done, total C.uint64_t) {
	called(user, func(f progressFunc) { f(uint64(done), uint64(total)) })
}

//export goToken
func goToken(user unsafe.Pointer, row C.size_t, token *C.mica_token) (more C.bool) {
	called(user, func(f tokenFunc) { more = C.bool(f(int(row), token)) })
	return more
}

//export goReport
func goReport(user unsafe.Pointer, report *C.mica_tune_report) {
	called(user, func(f reportFunc) { f(report) })
}

//export goSource
func goSource(user unsafe.Pointer, set C.mica_tune_set, example *C.mica_tune_example,
	there *C.bool) C.mica_status {
	status := C.mica_status(C.MICA_ECANCELLED)
	called(user, func(f sourceFunc) { status = f(set, example, there) })
	return status
}

//export goRecord
func goRecord(user unsafe.Pointer, s *C.mica_scope, args *C.mica_array, nArgs C.size_t,
	results *C.mica_array, nResults C.size_t) C.mica_status {
	status := C.mica_status(C.MICA_ECANCELLED)
	called(user, func(f recordFunc) {
		status = f(s, unsafe.Slice(args, int(nArgs)), unsafe.Slice(results, int(nResults)))
	})
	return status
}
