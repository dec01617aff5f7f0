package mica

// #include "callbacks.h"
import "C"

// Func is a function of arrays. It is called to record what it computes, in the goroutine of the
// caller, and must use its arguments there. Arrays from elsewhere that it uses are constants. What
// it makes needs no Free.
type Func func(args []*Array) []*Array

// Compute records what fn makes of args, evaluates it, and gives back all memory but that of the
// results: a computation of any number of steps leaves nothing to free.
func Compute(fn Func, args ...*Array) ([]*Array, error) {
	results, _, err := trace(fn, args, nil)
	if err == nil {
		err = Materialize(results...)
	}
	if err != nil {
		Free(results...)
		return nil, err
	}
	return results, nil
}

// Record is what Compute gives, without computing it yet.
func Record(fn Func, args ...*Array) ([]*Array, error) {
	results, _, err := trace(fn, args, nil)
	return results, err
}

// depthOf is how deep arrays are in functions that are recorded.
func depthOf(args []*Array) (s *scope, depth int, err error) {
	for _, a := range args {
		if a == nil {
			return nil, 0, invalid("there is no array")
		}
		if err := a.problem(); err != nil {
			return nil, 0, err
		}
		if a.h.scope.depth > depth || s == nil {
			s, depth = a.h.scope, a.h.scope.depth
		}
	}
	return s, depth, nil
}

// begin is the scope that a function of args is recorded into: that of the function around it, else
// a new one, which has a share in the arguments.
func begin(args []*Array) (*scope, []*Array, error) {
	outer, depth, err := depthOf(args)
	if err != nil {
		return nil, nil, err
	}
	var s *scope
	if depth > 0 {
		s = outer.borrow(outer.c, depth+1)
	} else {
		var d *Device
		if outer != nil {
			d = outer.device
		}
		if err := Eval(args...); err != nil {
			return nil, nil, err
		}
		if s, err = newScope(d); err != nil {
			return nil, nil, err
		}
		s.depth = 1
	}
	inside, err := s.take(args...)
	if err != nil {
		s.abandon()
		return nil, nil, err
	}
	return s, inside, nil
}

// abandon ends a scope of which nothing is kept.
func (s *scope) abandon() { s.end(nil, nil) }

// end ends the recording in a scope. Of what was made there some arrays stay: in the scope of the
// function around it, else in s.
func (s *scope) end(around *scope, keep []*Array) {
	stay := map[*handle]struct{}{}
	for _, a := range keep {
		if a != nil {
			stay[a.h] = struct{}{}
		}
	}
	s.used.Lock()
	for h := range s.handles {
		if _, kept := stay[h]; !kept {
			h.ended = true
		}
	}
	s.handles = stay
	if s.owned {
		s.depth = 0
	}
	s.used.Unlock()
	switch {
	case !s.owned:
		for h := range stay {
			h.scope = around
			around.handles[h] = struct{}{}
		}
		s.c = nil
	case len(stay) == 0:
		s.close()
	}
}

// kill ends a scope that C gave: what was made there cannot be used any more.
func (s *scope) kill() { s.end(nil, nil) }

// trace records fn, and then what `also` makes of its arguments and results.
func trace(fn Func, args []*Array, also func(s *scope, args, results []*Array) ([]*Array, error)) (
	results, others []*Array, err error) {
	outer, _, err := depthOf(args)
	if err != nil {
		return nil, nil, err
	}
	s, inside, err := begin(args)
	if err != nil {
		return nil, nil, err
	}
	done := false
	defer func() {
		if !done {
			s.abandon()
		}
	}()
	if results, err = s.call(fn, inside); err != nil {
		return nil, nil, err
	}
	if also != nil {
		if others, err = also(s, inside, results); err != nil {
			return nil, nil, err
		}
	}
	done = true
	s.end(outer, append(append([]*Array(nil), results...), others...))
	return results, others, nil
}

// call calls fn, whose results are arrays of s, each of them another one.
func (s *scope) call(fn Func, args []*Array) ([]*Array, error) {
	given := fn(args)
	results := make([]*Array, len(given))
	for i, a := range given {
		if a == nil {
			return nil, invalid("result %d of the function is no array", i)
		}
		if err := a.problem(); err != nil {
			return nil, err
		}
		taken, err := s.take(a)
		if err != nil {
			return nil, err
		}
		results[i] = taken[0]
		results[i].h.valued.Store(false)
	}
	return results, nil
}

func raws(arrays []*Array) []C.mica_array {
	list := make([]C.mica_array, len(arrays))
	for i, a := range arrays {
		if a != nil {
			list[i] = a.h.raw
		}
	}
	return list
}

// GradFn computes a function and the gradient of its first result, which has one element.
type GradFn struct {
	fn      Func
	argnums []int
}

// ValueAndGrad is fn with its gradient by the arguments of some numbers, of all if none is given.
func ValueAndGrad(fn Func, argnums ...int) *GradFn { return &GradFn{fn, argnums} }

// Apply records fn of args: what it gives, and the gradients. Nothing is computed yet: Eval does.
func (g *GradFn) Apply(args ...*Array) (values, grads []*Array, err error) {
	return trace(g.fn, args, func(s *scope, args, results []*Array) ([]*Array, error) {
		by := args
		if len(g.argnums) > 0 {
			by = nil
			for _, i := range g.argnums {
				if i < 0 || i >= len(args) {
					return nil, invalid("there is no argument %d of %d", i, len(args))
				}
				by = append(by, args[i])
			}
		}
		if len(results) == 0 {
			return nil, invalid("the function has no result")
		}
		return s.gradients(results[0], nil, by)
	})
}

// gradients of y times dy by some arrays; without dy, y has one element.
func (s *scope) gradients(y, dy *Array, by []*Array) ([]*Array, error) {
	if len(by) == 0 {
		return nil, nil
	}
	xs, grads := raws(by), make([]C.mica_array, len(by))
	var along C.mica_array
	if dy != nil {
		along = dy.h.raw
	}
	err := check(func() C.mica_status {
		return C.mica_grad(s.c, y.h.raw, along, &xs[0], C.size_t(len(xs)), &grads[0])
	})
	if err != nil {
		return nil, err
	}
	return s.addAll(grads), nil
}

func (s *scope) addAll(list []C.mica_array) []*Array {
	arrays := make([]*Array, len(list))
	for i, raw := range list {
		if C.mica_valid(raw) {
			arrays[i] = s.add(raw)
		}
	}
	return arrays
}

// VJP records fn of primals, and the products of cotangents with its Jacobian: grads[i] is the sum
// over k of (d outputs[k] / d primals[i])^T cotangents[k]. A cotangent that is nil is zeros; a
// primal that is no float has a grad that is nil.
func VJP(fn Func, primals, cotangents []*Array) (outputs, grads []*Array, err error) {
	return transform(fn, primals, cotangents, len(cotangents), len(primals),
		func(s *C.mica_scope, f C.mica_compile_fn, args, along, out, got []C.mica_array,
			mem *memory, record recordFunc) C.mica_status {
			return C.mica_vjp(s, f, register(mem, record), first(args), C.size_t(len(args)),
				first(along), first(out), C.size_t(len(out)), first(got))
		})
}

// JVP records fn of primals, and the products of its Jacobian with tangents, one for each output. A
// tangent that is nil is zeros; an output that is no float has a product that is nil.
func JVP(fn Func, primals, tangents []*Array) (outputs, products []*Array, err error) {
	if len(tangents) != len(primals) {
		return nil, nil, invalid("%d tangents of %d primals", len(tangents), len(primals))
	}
	return transform(fn, primals, tangents, 0, 0,
		func(s *C.mica_scope, f C.mica_compile_fn, args, along, out, got []C.mica_array,
			mem *memory, record recordFunc) C.mica_status {
			return C.mica_jvp(s, f, register(mem, record), first(args), C.size_t(len(args)),
				first(along), first(out), C.size_t(len(out)), first(got))
		})
}

// Checkpoint is fn, whose intermediate results are computed again in a backward pass and need no
// memory in between.
func Checkpoint(fn Func) Func {
	return func(args []*Array) []*Array {
		outputs, _, err := transform(fn, args, nil, 0, 0,
			func(s *C.mica_scope, f C.mica_compile_fn, args, _, out, _ []C.mica_array,
				mem *memory, record recordFunc) C.mica_status {
				return C.mica_checkpoint(s, f, register(mem, record), first(args),
					C.size_t(len(args)), first(out), C.size_t(len(out)))
			})
		if err != nil {
			return []*Array{failed(err)}
		}
		return outputs
	}
}

// transformer calls the function of C that a transformation is: with a scope, arguments, what goes
// along with them or with the results, and places for results and for what is got beside them.
type transformer func(s *C.mica_scope, fn C.mica_compile_fn, args, along, out, got []C.mica_array,
	mem *memory, record recordFunc) C.mica_status

// transform records fn through C, which calls it with arrays of a scope and must know beforehand how
// many results there are: nOut, or 0, and it is told after a first try with one. nGot is how many
// arrays come beside them, 0: as many.
func transform(fn Func, primals, along []*Array, nOut, nGot int, do transformer) (
	results, others []*Array, err error) {
	all := append([]*Array(nil), primals...)
	for _, a := range along {
		if a != nil {
			all = append(all, a)
		}
	}
	outer, _, err := depthOf(all)
	if err != nil {
		return nil, nil, err
	}
	s, inside, err := begin(all)
	if err != nil {
		return nil, nil, err
	}
	done := false
	defer func() {
		if !done {
			s.abandon()
		}
	}()
	args, next := raws(inside[:len(primals)]), len(primals)
	beside := make([]C.mica_array, len(along))
	for i, a := range along {
		if a != nil {
			beside[i] = inside[next].h.raw
			next++
		}
	}
	n := max(nOut, 1)
	for {
		r := recording{s: s, fn: fn}
		out, got := make([]C.mica_array, n), make([]C.mica_array, n)
		if nGot > 0 {
			got = make([]C.mica_array, nGot)
		}
		err = r.run(args, beside, out, got, do)
		if err != nil && nOut == 0 && r.count > 0 && r.count != n {
			n = r.count
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		results, others = s.addAll(out), s.addAll(got)
		done = true
		s.end(outer, append(append([]*Array(nil), results...), others...))
		return results, others, nil
	}
}

// recording is one call of a transformation.
type recording struct {
	s     *scope
	fn    Func
	count int // of results that fn gave
	err   error
}

func (r *recording) run(args, along, out, got []C.mica_array, do transformer) error {
	var mem memory
	defer mem.free()
	err := check(func() C.mica_status {
		return do(r.s.c, C.mica_compile_fn(C.mica_go_record), args, along, out, got, &mem, r.record)
	})
	if r.err != nil {
		return r.err
	}
	return err
}

// record is called by C.
func (r *recording) record(c *C.mica_scope, args, results []C.mica_array) C.mica_status {
	s := r.s.borrow(c, r.s.depth+1)
	defer s.kill()
	given, err := s.call(r.fn, s.addAll(args))
	if err != nil {
		r.err = err
		return C.MICA_EINVAL
	}
	if r.count = len(given); r.count != len(results) {
		r.err = invalid("the function gave %d results, not %d", r.count, len(results))
		return C.MICA_EINVAL
	}
	for i, a := range given {
		results[i] = a.h.raw
	}
	return C.MICA_OK
}
