package mica

// #include "callbacks.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// OptimizerConfig is how parameters are updated; zero is the optimiser's default, a negative number
// 0.
type OptimizerConfig struct {
	Name           string  // "adamw", "adam", "sgd", "lion", "adafactor", "muon"; "": adam
	LearningRate   float64 // 0: 1e-5
	Beta1, Beta2   float64
	Eps            float64
	WeightDecay    float64
	Momentum       float64
	BiasCorrection bool // adam, adamw: as PyTorch does
	Nesterov       bool // sgd
	NoNesterov     bool // muon
	RelativeStep   bool // adafactor
}

func (m *memory) optimizer(config OptimizerConfig) *C.mica_optimizer_options {
	o := made[C.mica_optimizer_options](m)
	o.struct_bytes, o.name = C.size_t(unsafe.Sizeof(*o)), m.optional(config.Name)
	o.learning_rate, o.eps = C.double(config.LearningRate), C.double(config.Eps)
	o.beta1, o.beta2 = C.double(config.Beta1), C.double(config.Beta2)
	o.weight_decay, o.momentum = C.double(config.WeightDecay), C.double(config.Momentum)
	o.bias_correction, o.nesterov = C.bool(config.BiasCorrection), C.bool(config.Nesterov)
	o.no_nesterov, o.relative_step = C.bool(config.NoNesterov), C.bool(config.RelativeStep)
	return o
}

// Optimizer updates parameters by their gradients, and keeps what it needs of earlier ones.
type Optimizer struct {
	handle *C.mica_optimizer
	guard  guard
	device *Device
}

// NewOptimizer opens an optimiser. The caller closes it.
func NewOptimizer(config OptimizerConfig) (*Optimizer, error) {
	device, err := DefaultDevice()
	if err != nil {
		return nil, err
	}
	var mem memory
	defer mem.free()
	o := &Optimizer{device: device}
	options := mem.optimizer(config)
	err = device.guard.with(func() error {
		return check(func() C.mica_status {
			return C.mica_optimizer_open(device.handle, options, &o.handle)
		})
	})
	if err != nil {
		return nil, err
	}
	h := o.handle // not o: what frees an object must not keep it
	o.guard.free = func() { C.mica_optimizer_close(&h) }
	return o, nil
}

// NewAdamW opens an AdamW with its defaults: betas of 0.9 and 0.999, eps of 1e-8, a decay of 0.01.
func NewAdamW(learningRate float64) (*Optimizer, error) {
	return NewOptimizer(OptimizerConfig{Name: "adamw", LearningRate: learningRate})
}

// Close frees the optimiser. Closing again does nothing.
func (o *Optimizer) Close() error {
	o.guard.close()
	return nil
}

// Step gives the parameters after an update with the config's rate. Neither the old ones nor the
// gradients are freed.
func (o *Optimizer) Step(params, grads []*Array) ([]*Array, error) {
	var rate float64
	err := o.guard.with(func() error {
		rate = float64(C.mica_optimizer_rate(o.handle))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o.StepAt(params, grads, rate)
}

// StepAt is Step with a learning rate of its own: that of a schedule.
func (o *Optimizer) StepAt(params, grads []*Array, rate float64) ([]*Array, error) {
	if len(params) != len(grads) {
		return nil, invalid("%d parameters and %d gradients", len(params), len(grads))
	}
	if len(params) == 0 {
		return nil, nil
	}
	both := append(append([]*Array(nil), params...), grads...)
	if err := Eval(both...); err != nil {
		return nil, err
	}
	s, err := newScope(o.device)
	if err != nil {
		return nil, err
	}
	updated, err := o.update(s, both, rate)
	if err != nil {
		s.close()
		return nil, err
	}
	defer Free(updated...)
	// each in a scope of its own: one that is used longer does not keep the others
	results := make([]*Array, len(updated))
	for i, a := range updated {
		if results[i], err = a.share(o.device); err != nil {
			Free(results[:i]...)
			return nil, err
		}
	}
	return results, nil
}

func (o *Optimizer) update(s *scope, both []*Array, rate float64) (updated []*Array, err error) {
	inside, err := s.take(both...)
	if err != nil {
		return nil, err
	}
	defer Free(inside...)
	defer runtime.KeepAlive(both)
	in, n := raws(inside), len(both)/2
	out := make([]C.mica_array, n)
	err = o.guard.with(func() error {
		return check(func() C.mica_status {
			return C.mica_optimizer_update(o.handle, s.c, &in[0], &in[n], C.size_t(n),
				C.double(rate), &out[0])
		})
	})
	if err != nil {
		return nil, err
	}
	updated = s.addAll(out)
	for _, a := range updated {
		a.h.valued.Store(true)
	}
	return updated, nil
}

// Steps is the number of updates.
func (o *Optimizer) Steps() (n int) {
	_ = o.guard.with(func() error {
		n = int(C.mica_optimizer_steps(o.handle))
		return nil
	})
	return n
}

// Reset forgets the steps, and what was kept of them.
func (o *Optimizer) Reset() {
	_ = o.guard.with(func() error {
		C.mica_optimizer_reset(o.handle)
		return nil
	})
}

// CrossEntropyLoss is the mean of -ln P(target): logits [..., V], targets [...].
func CrossEntropyLoss(logits, targets *Array) *Array {
	return loss("cross_entropy", logits, targets)
}

// MaskedCrossEntropyLoss is the mean over the targets where mask [...] is 1.
func MaskedCrossEntropyLoss(logits, targets, mask *Array) *Array {
	return loss("masked_cross_entropy", logits, targets, mask)
}

// MSELoss is the mean of squared differences.
func MSELoss(predictions, targets *Array) *Array { return loss("mse", predictions, targets) }

func loss(name string, inputs ...*Array) *Array {
	var mem memory
	defer mem.free()
	named := mem.text(name)
	results := recordMany(inputs, func(s *C.mica_scope, in []C.mica_array) ([]C.mica_array, C.mica_status) {
		out := make([]C.mica_array, 1)
		status := C.mica_loss(s, named, &in[0], C.size_t(len(in)), nil, &out[0])
		return out, status
	})
	return results[0]
}
