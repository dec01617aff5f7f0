package mica

// #include "callbacks.h"
import "C"

// Ops that take or give more than tools/make_go.py knows.

// RoPE rotates pairs of x [..., L, D] at positions from offset on by the angles of their position:
// mica_rope. dims 0: all of D; traditional: pairs (2i, 2i + 1); base 0: 10,000; scale 0: 1.
func RoPE(x *Array, dims int, traditional bool, base, scale float64, offset int) *Array {
	at := FromValue(int32(offset))
	defer at.Free()
	return RoPEAt(x, dims, traditional, base, scale, at, nil)
}

// RoPEAt is RoPE with an offset that is an array, i32 [] or [B], and perhaps frequencies of its own.
func RoPEAt(x *Array, dims int, traditional bool, base, scale float64, offset, freqs *Array) *Array {
	options := RoPEOptions{dims, traditional, base, scale}
	return record([]*Array{x, offset, freqs}, func(s *C.mica_scope, in []C.mica_array) C.mica_array {
		o := options.c(nil)
		return C.mica_rope(s, in[0], in[1], in[2], &o)
	})
}

// ScaledDotProductAttention is softmax(q k^T scale) v: mica_sdpa. q [B, Hq, Lq, D], k [B, Hkv, Lk, D],
// v [B, Hkv, Lk, Dv]; scale 0: 1 / sqrt(D); causal: query i of the last Lq sees what is not behind it.
func ScaledDotProductAttention(q, k, v *Array, scale float64, causal bool) *Array {
	return SDPA(q, k, v, SDPAOptions{Scale: scale, Causal: causal})
}

// ScaledDotProductAttentionWithMask has a mask [.., Lq, Lk]: bool (true: seen), or floats that are
// added to the scores.
func ScaledDotProductAttentionWithMask(q, k, v, mask *Array, scale float64) *Array {
	return SDPA(q, k, v, SDPAOptions{Scale: scale, Mask: mask})
}

// Split cuts x along an axis before each of the indices: mica_split.
func Split(x *Array, axis int, indices ...int) []*Array {
	list := int64s(indices)
	return recordMany([]*Array{x}, func(s *C.mica_scope, in []C.mica_array) ([]C.mica_array, C.mica_status) {
		pieces := make([]C.mica_array, len(list)+1)
		status := C.mica_split(s, in[0], first(list), C.int(len(list)), C.int(axis), &pieces[0])
		return pieces, status
	})
}

// AsStrided is x seen with other lengths and strides, counted in elements: mica_as_strided.
func AsStrided(x *Array, shape, strides []int, offset int) *Array {
	lengths, steps := int64s(shape), int64s(strides)
	if len(lengths) != len(steps) {
		return failed(invalid("%d lengths and %d strides", len(shape), len(strides)))
	}
	return record([]*Array{x}, func(s *C.mica_scope, in []C.mica_array) C.mica_array {
		return C.mica_as_strided(s, in[0], first(lengths), first(steps), C.int(len(lengths)),
			C.int64_t(offset))
	})
}

// Einsum is a product by an equation of letters, "bhqd,bhkd->bhqk": mica_einsum.
func Einsum(equation string, xs ...*Array) *Array {
	var mem memory
	defer mem.free()
	said := mem.text(equation)
	return record(xs, func(s *C.mica_scope, in []C.mica_array) C.mica_array {
		return C.mica_einsum(s, said, first(in), C.int(len(in)))
	})
}

// Quantize gives codes, scales and, in the affine mode, biases of rows of weights: mica_quantize.
func Quantize(w *Array, q Quantization) (codes, scales, biases *Array) {
	parts := recordMany([]*Array{w}, func(s *C.mica_scope, in []C.mica_array) ([]C.mica_array, C.mica_status) {
		out := make([]C.mica_array, 3)
		status := C.mica_quantize(s, in[0], q.c(nil), &out[0], &out[1], &out[2])
		if q.Mode != QuantAffine {
			out = out[:2]
		}
		return out, status
	})
	switch len(parts) {
	case 3:
		return parts[0], parts[1], parts[2]
	case 2:
		return parts[0], parts[1], nil
	}
	return parts[0], parts[0], parts[0]
}
