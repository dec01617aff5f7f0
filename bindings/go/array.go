package mica

// #include "callbacks.h"
import "C"

import (
	"fmt"
	"iter"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Integer is a type of lengths.
type Integer interface{ ~int | ~int32 | ~int64 }

// Element is a type of an array's elements in Go.
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64 | complex64
}

// Array is an array that is computed when its values are asked for. It never changes. An op that
// fails gives an array without values, whose Err tells why.
type Array struct {
	h   *handle
	err error
}

// handle is an array's place in its scope, nil in none.
type handle struct {
	scope  *scope
	raw    C.mica_array
	valued atomic.Bool // it was evaluated by a call of its own
	ended  bool        // it belonged to a function that is over
}

// scope is the owner of arrays in C: those that were computed from each other. It is closed when
// none of them is used any more.
type scope struct {
	id     uint64
	device *Device
	depth  int  // of functions that are being recorded; 0: none
	owned  bool // false: it is closed elsewhere

	lock sync.Mutex // of calls that take it
	c    *C.mica_scope
	made int      // arrays since the last collection
	root *scope   // that this one is borrowed from; nil: none
	held []*guard // of what must stay open until arrays are computed

	used    sync.Mutex // of handles, never held in a call
	handles map[*handle]struct{}
}

var scopes atomic.Uint64

// scopesOpen counts those that are not closed, for tests.
var scopesOpen atomic.Int64

func newScope(d *Device) (*scope, error) {
	if d == nil {
		var err error
		if d, err = DefaultDevice(); err != nil {
			return nil, err
		}
	}
	s := &scope{id: scopes.Add(1), device: d, owned: true, handles: map[*handle]struct{}{}}
	err := d.guard.with(func() error {
		return check(func() C.mica_status { return C.mica_scope_open(d.handle, &s.c) })
	})
	if err == nil {
		scopesOpen.Add(1)
	}
	return s, err
}

// borrow is a scope that C gave to a function, for as long as the function takes.
func (s *scope) borrow(c *C.mica_scope, depth int) *scope {
	root := s
	if s.root != nil {
		root = s.root
	}
	return &scope{id: scopes.Add(1), device: s.device, depth: depth, c: c, root: root,
		handles: map[*handle]struct{}{}}
}

// hold keeps what was entered open as long as the scope, or that which it is borrowed from.
func (s *scope) hold(g *guard) {
	if s.root != nil {
		s = s.root
	}
	defer lockAll(s)()
	s.held = append(s.held, g)
}

// letGo ends what hold keeps.
func (s *scope) letGo() {
	for _, g := range s.held {
		g.leave()
	}
	s.held = nil
}

func (s *scope) close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.owned && s.c != nil {
		C.mica_scope_close(&s.c)
		scopesOpen.Add(-1)
	}
	s.c = nil
	s.letGo()
}

// add makes an array of what C gave.
func (s *scope) add(raw C.mica_array) *Array {
	h := &handle{scope: s, raw: raw}
	s.used.Lock()
	s.handles[h] = struct{}{}
	s.used.Unlock()
	a := &Array{h: h}
	if s.owned {
		runtime.SetFinalizer(a, (*Array).collected)
	}
	s.made++
	return a
}

// drop forgets a handle; it returns whether that was the last one of a scope to be closed.
func (h *handle) drop() (last bool) {
	s := h.scope
	s.used.Lock()
	defer s.used.Unlock()
	if _, there := s.handles[h]; !there {
		return false
	}
	delete(s.handles, h)
	return s.owned && s.depth == 0 && len(s.handles) == 0
}

// collected runs when nobody refers to the array: in a goroutine that must not wait.
func (a *Array) collected() {
	if a.h != nil && a.h.drop() {
		go a.h.scope.close()
	}
}

// Free gives the arrays' memory back at once, as far as nothing else needs it. What was computed
// from them stays. Freeing again, or nil, does nothing.
func Free(arrays ...*Array) {
	for _, a := range arrays {
		if a != nil {
			a.Free()
		}
	}
}

// Free gives the array's memory back at once, as far as nothing else needs it.
func (a *Array) Free() {
	h := a.h
	if h == nil {
		return
	}
	a.h, a.err = nil, ErrClosed
	runtime.SetFinalizer(a, nil)
	if h.drop() {
		h.scope.close()
	} else if h.valued.Load() {
		h.release()
	}
}

// release frees a value that nothing will be computed from: all other arrays of its scope have
// theirs.
func (h *handle) release() {
	s := h.scope
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.c == nil || s.depth > 0 {
		return
	}
	s.used.Lock()
	defer s.used.Unlock()
	for other := range s.handles {
		if !other.valued.Load() {
			return
		}
	}
	C.mica_array_release(h.raw)
}

// problem is why an array cannot be used.
func (a *Array) problem() error {
	switch {
	case a.err != nil:
		return a.err
	case a.h == nil || a.h.ended:
		return ErrClosed
	}
	return nil
}

// Err is why there is no array, or why its values could not be read; nil: all is well.
func (a *Array) Err() error {
	if a == nil {
		return invalid("there is no array")
	}
	return a.err
}

func failed(err error) *Array { return &Array{err: err} }

// lockAll locks the scopes of some arrays, in one order, that none waits for another. Those that are
// being recorded belong to one goroutine, which may hold them already.
func lockAll(scopes ...*scope) (unlock func()) {
	if len(scopes) == 1 {
		if scopes[0].depth > 0 {
			return func() {}
		}
		scopes[0].lock.Lock()
		return scopes[0].lock.Unlock
	}
	sort.Slice(scopes, func(i, k int) bool { return scopes[i].id < scopes[k].id })
	var locked []*scope
	for i, s := range scopes {
		if s.depth == 0 && (i == 0 || scopes[i-1] != s) {
			s.lock.Lock()
			locked = append(locked, s)
		}
	}
	return func() {
		for _, s := range locked {
			s.lock.Unlock()
		}
	}
}

// choose is the scope that an op of some arrays records into: that of the innermost function that
// is being recorded, else one where something is still to be computed, else a new one.
func choose(xs []*Array) (*scope, error) {
	var best *scope
	rank := -1
	for _, x := range xs {
		if x == nil {
			continue
		}
		here := 2 * x.h.scope.depth
		if !x.h.valued.Load() {
			here++
		}
		if here > rank {
			best, rank = x.h.scope, here
		}
	}
	if best == nil {
		return newScope(nil)
	}
	return best, nil
}

// operands are the arrays in a scope: those of another one get their values, and a share in s. All
// scopes are locked.
func (s *scope) operands(xs []*Array) ([]C.mica_array, error) {
	in := make([]C.mica_array, len(xs))
	for i, x := range xs {
		if x == nil { // an operand that is not there
			continue
		}
		if s.c == nil || x.h.scope.c == nil {
			return nil, ErrClosed
		}
		in[i] = x.h.raw
		if x.h.scope.c != s.c {
			in[i] = C.mica_to_device(s.c, x.h.raw)
			if err := s.checked(in[i]); err != nil {
				return nil, err
			}
			x.h.valued.Store(true)
		}
	}
	return in, nil
}

// checked is the error that an op has left in its scope, which goes on without it.
func (s *scope) checked(result C.mica_array) error {
	if C.mica_valid(result) {
		return nil
	}
	err := check(func() C.mica_status { return C.mica_scope_status(s.c) })
	C.mica_scope_clear_error(s.c)
	if err == nil {
		err = &Error{"MICA_EINVAL", "the operand is no array"}
	}
	return err
}

// recorder is an op: it makes an array of operands.
type recorder func(s *C.mica_scope, in []C.mica_array) C.mica_array

// record calls an op. nil is an operand that is not there.
func record(xs []*Array, op recorder) *Array {
	results := recordMany(xs, func(s *C.mica_scope, in []C.mica_array) ([]C.mica_array, C.mica_status) {
		return []C.mica_array{op(s, in)}, C.MICA_OK
	})
	return results[0]
}

// recordTwo calls an op that gives a second result by its last parameter.
func recordTwo(xs []*Array,
	op func(*C.mica_scope, []C.mica_array, *C.mica_array) C.mica_array) (a, b *Array) {
	both := recordMany(xs, func(s *C.mica_scope, in []C.mica_array) ([]C.mica_array, C.mica_status) {
		out := make([]C.mica_array, 2)
		out[0] = op(s, in, &out[1])
		return out, C.MICA_OK
	})
	return both[0], both[len(both)-1]
}

// recordMany calls an op of several results; the error of one is that of the first.
func recordMany(xs []*Array,
	op func(*C.mica_scope, []C.mica_array) ([]C.mica_array, C.mica_status)) []*Array {
	scopes := make([]*scope, 1, len(xs)+1)
	for _, x := range xs {
		if x == nil {
			continue
		}
		if err := x.problem(); err != nil {
			return []*Array{failed(err)}
		}
		scopes = append(scopes, x.h.scope)
	}
	s, err := choose(xs)
	if err != nil {
		return []*Array{failed(err)}
	}
	scopes[0] = s
	if same(scopes) {
		scopes = scopes[:1]
	}
	defer lockAll(scopes...)()
	defer runtime.KeepAlive(xs)
	in, err := s.operands(xs)
	if err != nil {
		return []*Array{failed(err)}
	}
	// the text of an error belongs to the thread that recorded
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	raws, status := op(s.c, in)
	if status != C.MICA_OK {
		err := &Error{C.GoString(C.mica_status_name(status)), C.GoString(C.mica_last_error())}
		C.mica_scope_clear_error(s.c)
		return []*Array{failed(err)}
	}
	results := make([]*Array, len(raws))
	for i, raw := range raws {
		if err := s.checked(raw); err != nil {
			return []*Array{failed(err)}
		}
		results[i] = s.add(raw)
	}
	return results
}

func same(scopes []*scope) bool {
	for _, s := range scopes {
		if s != scopes[0] {
			return false
		}
	}
	return true
}

// ---- lists that ops take ----

func ints[I Integer](values []I) []C.int {
	list := make([]C.int, len(values))
	for i, v := range values {
		list[i] = C.int(v)
	}
	return list
}

func int64s[I Integer](values []I) []C.int64_t {
	list := make([]C.int64_t, len(values))
	for i, v := range values {
		list[i] = C.int64_t(v)
	}
	return list
}

// optional is the address of a number, nil of none.
func optional[T C.int | C.int64_t](n *int) *T {
	if n == nil {
		return nil
	}
	v := T(*n)
	return &v
}

// first is the address of a list, nil of an empty one.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// axesOf checks that there is a number for each axis of x, or none at all.
func axesOf(x *Array, lists ...[]int) error {
	for _, list := range lists {
		if x != nil && x.problem() == nil && len(list) > 0 && len(list) != x.NDim() {
			return &Error{"MICA_ESHAPE", fmt.Sprintf("%d numbers for the %d axes of the array",
				len(list), x.NDim())}
		}
	}
	return nil
}

// ---- making ----

var elements = map[string]DType{
	"bool": DTypeBool, "uint8": DTypeUint8, "uint16": DTypeUint16, "uint32": DTypeUint32,
	"uint64": DTypeUint64, "int8": DTypeInt8, "int16": DTypeInt16, "int32": DTypeInt32,
	"int64": DTypeInt64, "float32": DTypeFloat32, "float64": DTypeFloat64,
	"complex64": DTypeComplex64,
}

func dtypeOf[T Element]() DType {
	var zero T
	return elements[fmt.Sprintf("%T", zero)]
}

// FromValues makes an array of values, copied, in row-major order; without a shape it has one axis.
func FromValues[T Element, I Integer](values []T, shape ...I) *Array {
	lengths := int64s(shape)
	size := 1
	for _, n := range lengths {
		size *= int(n)
	}
	if len(shape) == 0 {
		lengths, size = []C.int64_t{C.int64_t(len(values))}, len(values)
	}
	if size != len(values) {
		return failed(&Error{"MICA_ESHAPE", fmt.Sprintf("%d values for the shape %v", len(values), shape)})
	}
	return fromData(unsafe.Pointer(first(values)), dtypeOf[T](), lengths)
}

// FromValue makes an array without axes.
func FromValue[T Element](value T) *Array {
	return fromData(unsafe.Pointer(&value), dtypeOf[T](), nil)
}

func fromData(data unsafe.Pointer, dtype DType, shape []C.int64_t) *Array {
	var none byte
	if data == nil {
		data = unsafe.Pointer(&none)
	}
	a := record(nil, func(s *C.mica_scope, _ []C.mica_array) C.mica_array {
		return C.mica_from_data(s, data, C.mica_dtype(dtype), first(shape), C.int(len(shape)))
	})
	if a.h != nil {
		a.h.valued.Store(true)
	}
	return a
}

// ---- evaluation ----

// Eval computes arrays that have no values yet, those of one computation together.
func Eval(arrays ...*Array) error {
	groups := map[*scope][]*Array{}
	var order []*scope
	for _, a := range arrays {
		if a == nil {
			return invalid("there is no array")
		}
		if err := a.problem(); err != nil {
			return err
		}
		if groups[a.h.scope] == nil {
			order = append(order, a.h.scope)
		}
		groups[a.h.scope] = append(groups[a.h.scope], a)
	}
	for _, s := range order {
		if err := s.eval(groups[s]); err != nil {
			return err
		}
	}
	return nil
}

func (s *scope) eval(arrays []*Array) error {
	defer lockAll(s)()
	defer runtime.KeepAlive(arrays)
	if s.c == nil {
		return ErrClosed
	}
	raws := make([]C.mica_array, len(arrays))
	for i, a := range arrays {
		raws[i] = a.h.raw
	}
	err := check(func() C.mica_status { return C.mica_eval_n(s.c, &raws[0], C.size_t(len(raws))) })
	if err != nil {
		return err
	}
	for _, a := range arrays {
		a.h.valued.Store(true)
	}
	if s.depth == 0 && s.owned && s.made > 1024 {
		s.collect()
	}
	return nil
}

// collect drops what was recorded and is not used: a scope may live for any number of steps.
func (s *scope) collect() {
	s.used.Lock()
	defer s.used.Unlock()
	live, raws := make([]*handle, 0, len(s.handles)), make([]C.mica_array, 0, len(s.handles)+1)
	for h := range s.handles {
		live, raws = append(live, h), append(raws, h.raw)
	}
	if s.made < 4*len(live) || C.mica_scope_collect(s.c, first(raws), C.size_t(len(raws))) != C.MICA_OK {
		return
	}
	for i, h := range live {
		h.raw = raws[i]
		h.valued.Store(true)
	}
	s.made = 0
	s.letGo()
}

// Materialize evaluates arrays and detaches them: they stay when all else of their computation is
// freed.
func Materialize(arrays ...*Array) error {
	if err := Eval(arrays...); err != nil {
		return err
	}
	for _, a := range arrays {
		if err := a.Detach(); err != nil {
			return err
		}
	}
	return nil
}

// Detach evaluates the array and breaks its connection with what it was computed from, whose memory
// may go then. Gradients stop here.
func (a *Array) Detach() error {
	if err := a.problem(); err != nil {
		return err
	}
	b, err := a.share(a.h.scope.device)
	if err != nil {
		return err
	}
	old := a.h
	a.h = b.h
	runtime.SetFinalizer(b, nil)
	if old.drop() {
		old.scope.close()
	}
	return nil
}

// share is the array's value in a scope of its own.
func (a *Array) share(d *Device) (*Array, error) {
	s, err := newScope(d)
	if err != nil {
		return nil, err
	}
	b, err := s.take(a)
	if err != nil {
		s.close()
		return nil, err
	}
	return b[0], nil
}

// take gives a scope a share in arrays, which are evaluated.
func (s *scope) take(arrays ...*Array) ([]*Array, error) {
	scopes := []*scope{s}
	for _, a := range arrays {
		if a == nil {
			return nil, invalid("there is no array")
		}
		if err := a.problem(); err != nil {
			return nil, err
		}
		scopes = append(scopes, a.h.scope)
	}
	defer lockAll(scopes...)()
	in, err := s.operands(arrays)
	if err != nil {
		return nil, err
	}
	taken := make([]*Array, len(in))
	for i, raw := range in {
		taken[i] = s.add(raw)
		taken[i].h.valued.Store(true)
	}
	return taken, nil
}

// ---- asking ----

// ask calls with an array that can be used; of another, what is asked is 0.
func (a *Array) ask(call func(C.mica_array)) {
	if a == nil || a.problem() != nil {
		return
	}
	defer runtime.KeepAlive(a)
	defer lockAll(a.h.scope)()
	if a.h.scope.c != nil {
		call(a.h.raw)
	}
}

// Shape has the lengths of the axes.
func (a *Array) Shape() []int {
	shape := []int{}
	a.ask(func(x C.mica_array) {
		for i := C.int(0); i < C.mica_array_ndim(x); i++ {
			shape = append(shape, int(C.mica_array_dim(x, i)))
		}
	})
	return shape
}

// NDim is the number of axes.
func (a *Array) NDim() (n int) {
	a.ask(func(x C.mica_array) { n = int(C.mica_array_ndim(x)) })
	return n
}

// Dim is the length of an axis; negative ones count from the end.
func (a *Array) Dim(axis int) (n int) {
	a.ask(func(x C.mica_array) { n = int(C.mica_array_dim(x, C.int(axis))) })
	return n
}

// Size is the number of elements.
func (a *Array) Size() (n int) {
	a.ask(func(x C.mica_array) { n = int(C.mica_array_size(x)) })
	return n
}

// DType is the elements' type.
func (a *Array) DType() (dtype DType) {
	a.ask(func(x C.mica_array) { dtype = DType(C.mica_array_dtype(x)) })
	return dtype
}

// String shows the values, "..." in the place of many. It evaluates the array.
func (a *Array) String() string {
	if a == nil {
		return "array(nil)"
	}
	if err := a.problem(); err != nil {
		return "array(" + err.Error() + ")"
	}
	var text []byte
	err := a.read(func(x C.mica_array) C.mica_status {
		var n C.size_t
		if status := C.mica_array_text(x, nil, nil, 0, &n); status != C.MICA_OK {
			return status
		}
		text = make([]byte, int(n)+1)
		return C.mica_array_text(x, nil, (*C.char)(unsafe.Pointer(&text[0])), n+1, nil)
	})
	if err != nil {
		return "array(" + err.Error() + ")"
	}
	return strings.TrimRight(string(text), "\x00")
}

// read calls what evaluates the array.
func (a *Array) read(call func(C.mica_array) C.mica_status) error {
	err := a.problem()
	a.ask(func(x C.mica_array) {
		if err = check(func() C.mica_status { return call(x) }); err == nil {
			a.h.valued.Store(true)
		}
	})
	if a.h != nil && a.h.scope.c == nil {
		err = ErrClosed
	}
	return err
}

// Values reads the elements in row-major order, which must be of the type T.
func Values[T Element](a *Array) ([]T, error) {
	if a == nil {
		return nil, invalid("there is no array")
	}
	if err := a.problem(); err != nil {
		return nil, err
	}
	if have, want := a.DType(), dtypeOf[T](); have != want {
		return nil, &Error{"MICA_EDTYPE", fmt.Sprintf("the elements are %v, not %v", have, want)}
	}
	values := make([]T, a.Size())
	if len(values) == 0 {
		return values, Eval(a)
	}
	var zero T
	err := a.read(func(x C.mica_array) C.mica_status {
		return C.mica_read(x, unsafe.Pointer(&values[0]),
			C.size_t(uintptr(len(values))*unsafe.Sizeof(zero)))
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// converted reads elements as T, whatever they are; nil after an error, which Err tells.
func converted[T Element](a *Array) []T {
	if a == nil {
		return nil
	}
	x := a
	if dtype := dtypeOf[T](); a.problem() == nil && a.DType() != dtype {
		x = AsType(a, dtype)
		defer x.Free()
	}
	values, err := Values[T](x)
	if err != nil && a.err == nil {
		a.err = err
	}
	return values
}

// Floats reads the elements in row-major order, whatever their type; nil after an error, which Err
// tells.
func (a *Array) Floats() []float32 { return converted[float32](a) }

// DataInt32 reads the elements as int32; nil after an error, which Err tells.
func (a *Array) DataInt32() []int32 { return converted[int32](a) }

// Ints reads the elements as int; nil after an error, which Err tells.
func (a *Array) Ints() []int {
	values := converted[int64](a)
	result := make([]int, len(values))
	for i, v := range values {
		result[i] = int(v)
	}
	return result
}

// Iter goes through the elements in row-major order.
func (a *Array) Iter() iter.Seq[float32] {
	return func(yield func(float32) bool) {
		for _, v := range a.Floats() {
			if !yield(v) {
				return
			}
		}
	}
}

// Float is the value of an array with one element; NaN and 0 are values, too: Err tells of errors.
func (a *Array) Float() (value float64) {
	var v C.double
	if err := a.read(func(x C.mica_array) C.mica_status { return C.mica_item_f64(x, &v) }); err != nil {
		a.fail(err)
	}
	return float64(v)
}

// Int is the value of an array with one element, rounded towards zero.
func (a *Array) Int() int {
	var v C.int64_t
	if err := a.read(func(x C.mica_array) C.mica_status { return C.mica_item_i64(x, &v) }); err != nil {
		a.fail(err)
	}
	return int(v)
}

func (a *Array) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// String is the name of a dtype, "f32".
func (d DType) String() string { return C.GoString(C.mica_dtype_name(C.mica_dtype(d))) }
