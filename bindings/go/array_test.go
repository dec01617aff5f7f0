package mica_test

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"mica"
)

// leaves checks that a test leaves no scope open; garbage is collected first where it may be left.
func leaves(t *testing.T, garbage bool) {
	before := mica.ScopesOpen()
	t.Cleanup(func() {
		for garbage && mica.ScopesOpen() > before {
			runtime.GC() // finalisers run in time
			runtime.Gosched()
		}
		if now := mica.ScopesOpen(); now != before {
			t.Errorf("%d scopes are open, %d were before", now, before)
		}
	})
}

func TestArrays(t *testing.T) {
	leaves(t, true)
	a := mica.FromValues([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	b := mica.Zeros([]int32{2, 3}, mica.DTypeFloat32)
	c := mica.Add(a, b)
	d := mica.Transpose(c) // a view
	defer mica.Free(a, b, c, d, nil)
	if got := d.Floats(); !reflect.DeepEqual(got, []float32{1, 4, 2, 5, 3, 6}) || d.Err() != nil {
		t.Fatal(got, d.Err())
	}
	if d.NDim() != 2 || d.Dim(-1) != 2 || d.Size() != 6 || d.DType() != mica.DTypeFloat32 ||
		!reflect.DeepEqual(d.Shape(), []int{3, 2}) || d.DType().String() != "f32" {
		t.Fatal(d.Shape(), d.DType())
	}
	if d.String() != "array([[1, 4],\n       [2, 5],\n       [3, 6]], dtype=f32)" {
		t.Fatal(d.String())
	}
	e := mica.AsType(mica.Argmax(d, 0, false), mica.DTypeInt32)
	defer e.Free()
	if got := e.DataInt32(); !reflect.DeepEqual(got, []int32{2, 2}) ||
		!reflect.DeepEqual(e.Ints(), []int{2, 2}) || !reflect.DeepEqual(e.Floats(), []float32{2, 2}) {
		t.Fatal(got)
	}
	if values, err := mica.Values[int32](e); err != nil || len(values) != 2 {
		t.Fatal(values, err)
	}
	if _, err := mica.Values[float32](e); !errors.Is(err, &mica.Error{Status: "MICA_EDTYPE"}) {
		t.Fatal(err)
	}
	x, n := mica.FromValue(2.5), mica.FromValue(int64(7))
	defer mica.Free(x, n)
	if x.Float() != 2.5 || n.Int() != 7 || x.DType() != mica.DTypeFloat64 {
		t.Fatal(x, n)
	}
	var sum float32
	for v := range d.Iter() {
		if sum += v; v == 5 {
			break
		}
	}
	if sum != 12 {
		t.Fatal(sum)
	}
	for _, kind := range []*mica.Array{mica.FromValues([]bool{true}, 1), mica.FromValues([]uint8{1}, 1),
		mica.FromValues([]complex64{1}, 1), mica.FromValues([]int16{1}, 1)} {
		if kind.Err() != nil || kind.Size() != 1 {
			t.Fatal(kind.Err())
		}
		kind.Free()
	}
	none := mica.FromValues([]float32{}, 0, 3)
	defer none.Free()
	if none.Err() != nil || none.Size() != 0 || len(none.Floats()) != 0 {
		t.Fatal(none.Err())
	}
}

// One op of each form that the generator knows.
func TestOps(t *testing.T) {
	leaves(t, true)
	x := mica.FromValues([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	key := mica.RandomKey(7)
	for i, row := range []struct {
		got  *mica.Array
		want []float32
	}{
		{mica.Sum(x, false), []float32{21}},
		{mica.Sum(x, false, 0), []float32{5, 7, 9}},
		{mica.Reshape(x, 3, -1), []float32{1, 2, 3, 4, 5, 6}},
		{mica.Transpose(x, 1, 0), []float32{1, 4, 2, 5, 3, 6}},
		{mica.Slice(x, []int{0, 1}, []int{2, 3}, nil), []float32{2, 3, 5, 6}},
		{mica.Concatenate([]*mica.Array{x, x}, 0), []float32{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},
		{mica.Clip(x, nil, mica.FromValue(float32(2))), []float32{1, 2, 2, 2, 2, 2}},
		{mica.Take(x, mica.FromValues([]int32{1}, 1), 1), []float32{2, 5}},
		{mica.Arange(0, 3, 1, mica.DTypeFloat32), []float32{0, 1, 2}},
		{mica.Full([]int{2}, mica.FromValue(float32(3))), []float32{3, 3}},
		{mica.Einsum("ij->j", x), []float32{5, 7, 9}},
		{mica.Split(x, 1, 1)[1], []float32{2, 3, 5, 6}},
		{mica.Tile(x, 1, 2), []float32{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
		{mica.AsStrided(x, []int{2}, []int{3}, 1), []float32{2, 5}},
		{mica.RandomUniform(key, []int{0}, mica.DTypeFloat32, 0, 1), []float32{}},
		{mica.Softmax(mica.Zeros([]int{4}, mica.DTypeFloat32), -1), []float32{.25, .25, .25, .25}},
		{mica.Square(mica.Activate(mica.ActivationReLU, mica.Negative(x))), make([]float32, 6)},
	} {
		if row.got.Err() != nil {
			t.Fatal(i, row.got.Err())
		}
		near(t, row.got.Floats(), row.want, 1e-6)
	}
	values, indices := mica.TopKIndices(x, 1, -1)
	if !reflect.DeepEqual(values.Floats(), []float32{3, 6}) || !reflect.DeepEqual(indices.Ints(), []int{2, 2}) {
		t.Fatal(values, indices)
	}
	one := mica.RandomNormal(key, []int{64}, mica.DTypeFloat32, 0, 1)
	again := mica.RandomNormal(mica.RandomKey(7), []int{64}, mica.DTypeFloat32, 0, 1)
	if !reflect.DeepEqual(one.Floats(), again.Floats()) || one.Err() != nil {
		t.Fatal(one.Err())
	}
	w := mica.RandomNormal(key, []int{8, 64}, mica.DTypeFloat32, 0, 1)
	q := mica.Quantization{Bits: 8, GroupSize: 32}
	codes, scales, biases := mica.Quantize(w, q)
	y := mica.QuantizedMatmul(mica.Reshape(one, 1, 64), codes, scales, biases, q, true)
	z := mica.Matmul(mica.Reshape(one, 1, 64),
		mica.Transpose(mica.Dequantize(codes, scales, biases, q, mica.DTypeFloat32)))
	if y.Err() != nil || z.Err() != nil {
		t.Fatal(y.Err(), z.Err())
	}
	near(t, y.Floats(), z.Floats(), 1e-3)
}

// Attention and RoPE against their formulas.
func TestAttention(t *testing.T) {
	leaves(t, true)
	key := mica.RandomKey(1)
	q := mica.RandomNormal(key, []int{1, 2, 3, 4}, mica.DTypeFloat32, 0, 1)
	scores := mica.Mul(mica.Matmul(q, mica.Swapaxes(q, -1, -2)), mica.FromValue(float32(0.5)))
	mask := mica.Tril(mica.Ones([]int{3, 3}, mica.DTypeBool), 0)
	want := mica.Matmul(mica.Softmax(mica.Where(mask, scores, mica.FromValue(float32(math.Inf(-1)))), -1), q)
	near(t, mica.ScaledDotProductAttention(q, q, q, 0.5, true).Floats(), want.Floats(), 1e-5)
	near(t, mica.ScaledDotProductAttentionWithMask(q, q, q, mask, 0.5).Floats(), want.Floats(), 1e-5)
	turned := mica.RoPE(mica.Ones([]int{1, 2, 2}, mica.DTypeFloat32), 0, false, 0, 0, 1)
	var rotated []float32
	for p := 1.0; p <= 2; p++ {
		rotated = append(rotated, float32(math.Cos(p)-math.Sin(p)), float32(math.Sin(p)+math.Cos(p)))
	}
	near(t, turned.Floats(), rotated, 1e-5)
}

// Ops that take structs, each against ops that take none: every field arrives where it belongs.
func TestOpsOfStructs(t *testing.T) {
	leaves(t, true)
	normal := func(seed uint64, shape ...int) *mica.Array {
		return mica.RandomNormal(mica.RandomKey(seed), shape, mica.DTypeFloat32, 0, 0.5)
	}
	x, w, bias := normal(1, 2, 3, 8), normal(2, 4, 8), normal(3, 4)
	image := mica.Reshape(mica.Arange(0, 16, 1, mica.DTypeFloat32), 1, 4, 4, 1)
	q, k := normal(4, 1, 2, 3, 8), normal(5, 1, 2, 3, 8)
	attention := mica.AttentionWeights{QKV: normal(6, 8, 24), QKVBias: normal(7, 24),
		Out: normal(8, 8, 8), OutBias: normal(9, 8)}
	heads := mica.MaskedAttentionOptions{Kind: mica.MaskCausal, Heads: 2}
	layer := mica.LayerWeights{Attention: attention, Norm1: normal(10, 8), Norm1Bias: normal(11, 8),
		Up: normal(12, 8, 16), UpBias: normal(13, 16), Down: normal(14, 16, 8),
		DownBias: normal(15, 8), Norm2: normal(16, 8), Norm2Bias: normal(17, 8)}
	h := mica.ResidualLayerNorm(x, mica.AttentionBlock(x, attention, heads), nil, layer.Norm1,
		layer.Norm1Bias, 1e-5)
	up := mica.MatmulBiasAct(h, layer.Up, layer.UpBias, mica.ActivationGELU)
	parts := mica.Split(mica.Add(mica.Matmul(x, attention.QKV), attention.QKVBias), 2, 8, 16)
	block := mica.Add(mica.Matmul(mica.MaskedAttention(parts[0], parts[1], parts[2], heads),
		attention.Out), attention.OutBias)
	quant := mica.Quantization{Mode: mica.QuantAffine, Bits: 8, GroupSize: 32}
	wide, rows := normal(18, 4, 32), normal(19, 2, 32)
	codes, scales, biases := mica.Quantize(wide, quant)
	scale := mica.FromValues([]float32{0.25, 0.5}, 2)
	first, none := 0, mica.FromValue(float32(0))
	int8s := mica.FromValues([]int8{1, 2, 3, 4}, 2, 2)
	weight := mica.Weight{Scheme: mica.WeightInt8, Codes: int8s, Scale: mica.Reshape(scale, 1, 2)}
	logits, labels := normal(20, 3, 5), mica.FromValues([]int32{1, 4, 2}, 3)
	ignored := 4
	for name, row := range map[string]struct{ got, want *mica.Array }{
		"conv2d": {mica.Conv2D(image, mica.Ones([]int{1, 2, 2, 1}, mica.DTypeFloat32),
			mica.ChannelsLast, mica.ConvOptions{Stride: [3]int{2, 2}}),
			mica.FromValues([]float32{10, 18, 42, 50}, 1, 2, 2, 1)},
		"conv_transpose1d": {mica.ConvTranspose1D(mica.Ones([]int{1, 2, 1}, mica.DTypeFloat32),
			mica.Ones([]int{1, 2, 1}, mica.DTypeFloat32), mica.ChannelsLast,
			mica.ConvTransposeOptions{Stride: [3]int{2}}), mica.Ones([]int{1, 4, 1}, mica.DTypeFloat32)},
		"pool": {mica.Pool(image, 2, mica.WindowMax, mica.ChannelsLast,
			mica.PoolOptions{Kernel: [3]int{2, 2}, Stride: [3]int{2, 2}}),
			mica.FromValues([]float32{5, 7, 13, 15}, 1, 2, 2, 1)},
		"reduce_window": {mica.ReduceWindow(image, mica.WindowSum, mica.WindowOptions{
			Window: [8]int{1, 4, 4, 1}}), mica.Reshape(mica.Sum(image, false), 1, 1, 1, 1)},
		"linear": {mica.Linear(x, mica.LinearWeights{Weight: w, Bias: bias}),
			mica.Add(mica.Matmul(x, mica.Transpose(w)), bias)},
		"quantised linear": {mica.Linear(rows, mica.LinearWeights{Weight: codes, Scales: scales,
			Biases: biases, Quantization: quant}),
			mica.QuantizedMatmul(rows, codes, scales, biases, quant, true)},
		"gather_qmm": {mica.GatherQMM(mica.Reshape(rows, 1, 2, 32), mica.Reshape(codes, 1, 4, 8),
			mica.Reshape(scales, 1, 4, 1), mica.Reshape(biases, 1, 4, 1), quant, true, nil,
			mica.FromValues([]int32{0}, 1)),
			mica.Reshape(mica.QuantizedMatmul(rows, codes, scales, biases, quant, true), 1, 2, 4)},
		"masked_attention": {mica.MaskedAttention(q, k, k, mica.MaskedAttentionOptions{
			Kind: mica.MaskCausal}), mica.ScaledDotProductAttention(q, k, k, 0, true)},
		"attention_block": {mica.AttentionBlock(x, attention, heads), block},
		"transformer_layer": {mica.TransformerLayer(x, layer, mica.ActivationGELU, 1e-5, heads),
			mica.ResidualLayerNorm(h, mica.Matmul(up, layer.Down), layer.DownBias, layer.Norm2,
				layer.Norm2Bias, 1e-5)},
		"sample": {mica.Sample(mica.RandomKey(1), x, mica.SampleOptions{Temperature: none}),
			mica.Argmax(x, -1, false)},
		"quantize_int8 by rows": {mica.DequantizeInt8(int8s, scale, nil, &first),
			mica.FromValues([]float32{0.25, 0.5, 1.5, 2}, 2, 2)},
		"dequant_matmul": {mica.DequantMatmul(mica.Ones([]int{1, 2}, mica.DTypeFloat32),
			weight), mica.Sum(mica.WeightDequantize(weight), true, 0)},
	} {
		if row.got.Err() != nil || row.want.Err() != nil {
			t.Error(name, row.got.Err(), row.want.Err())
			continue
		}
		if !reflect.DeepEqual(row.got.Shape(), row.want.Shape()) {
			t.Error(name, row.got.Shape(), row.want.Shape())
			continue
		}
		near(t, mica.AsType(row.got, mica.DTypeFloat32).Floats(),
			mica.AsType(row.want, mica.DTypeFloat32).Floats(), 1e-4)
	}
	if err := mica.Linear(x, mica.LinearWeights{}).Err(); err == nil {
		t.Error("a layer without a weight")
	}
	with := mica.SoftmaxCrossEntropy(logits, labels, &ignored)
	without := mica.SoftmaxCrossEntropy(logits, labels, nil)
	if with.Err() != nil || without.Err() != nil || reflect.DeepEqual(with.Floats(), without.Floats()) {
		t.Error(with, without)
	}
}

// Ops of two results: a sequence in two parts, and the scale that was used, of each column.
func TestOpsOfTwoResults(t *testing.T) {
	leaves(t, true)
	normal := func(seed uint64, shape ...int) *mica.Array {
		return mica.RandomNormal(mica.RandomKey(seed), shape, mica.DTypeFloat32, 0, 0.5)
	}
	x, delta, b := normal(1, 1, 4, 2), mica.Exp(normal(2, 1, 4, 2)), normal(3, 1, 4, 3)
	a, d := mica.Negative(mica.Exp(normal(4, 2, 3))), normal(5, 2)
	whole, last := mica.SelectiveScan(x, delta, a, b, b, mica.SelectiveScanOptions{D: d})
	half := func(x *mica.Array, i int) *mica.Array { return mica.Split(x, 1, 2)[i] }
	one, state := mica.SelectiveScan(half(x, 0), half(delta, 0), a, half(b, 0), half(b, 0),
		mica.SelectiveScanOptions{D: d})
	two, end := mica.SelectiveScan(half(x, 1), half(delta, 1), a, half(b, 1), half(b, 1),
		mica.SelectiveScanOptions{D: d, Initial: state})
	if end.Err() != nil || whole.Err() != nil {
		t.Fatal(end.Err(), whole.Err())
	}
	near(t, mica.Concatenate([]*mica.Array{one, two}, 1).Floats(), whole.Floats(), 1e-5)
	near(t, end.Floats(), last.Floats(), 1e-5)
	column := 1
	_, scale := mica.FakeQuantize(mica.FromValues([]float32{127, -2, 0, 254}, 2, 2),
		mica.FakeQuantizeOptions{Axis: &column})
	if scale.Err() != nil {
		t.Fatal(scale.Err())
	}
	near(t, scale.Floats(), []float32{1, 2}, 1e-6)
}

func TestArrayErrors(t *testing.T) {
	leaves(t, false)
	a := mica.FromValues([]float32{1, 2}, 2)
	b := mica.FromValues([]float32{1, 2, 3}, 3)
	bad := mica.Add(a, b)
	if !errors.Is(bad.Err(), &mica.Error{Status: "MICA_ESHAPE"}) || bad.Floats() != nil {
		t.Fatal(bad.Err())
	}
	after := mica.Square(bad) // of that the same
	if after.Err() != bad.Err() || after.String() == "" || after.Shape() == nil {
		t.Fatal(after.Err())
	}
	if err := mica.Eval(a, after); err != bad.Err() {
		t.Fatal(err)
	}
	good := mica.Square(a) // the others go on
	if got := good.Floats(); !reflect.DeepEqual(got, []float32{1, 4}) {
		t.Fatal(got, good.Err())
	}
	mica.Free(a, a, b, bad, after)
	good.Free()
	if gone := mica.Add(a, a); !errors.Is(gone.Err(), mica.ErrClosed) || a.Floats() != nil ||
		!errors.Is(mica.Eval(a), mica.ErrClosed) || !errors.Is(a.Detach(), mica.ErrClosed) {
		t.Fatal(gone.Err())
	}
	if wrong := mica.FromValues([]float32{1}, 2); wrong.Err() == nil {
		t.Fatal("one value of two")
	}
	if wrong := mica.Slice(mica.Zeros([]int{2, 2}, mica.DTypeFloat32), []int{1}, nil, nil); wrong.Err() == nil {
		t.Fatal("one number for two axes")
	} else if mica.Eval(nil) == nil || (*mica.Array)(nil).Err() == nil {
		t.Fatal("nil")
	}
	x := mica.FromValues([]float32{1}, 1)
	defer x.Free()
	if missing := mica.Add(x, nil); missing.Err() == nil {
		t.Fatal("there is one operand")
	}
	runtime.GC()
}

// Arrays that are not freed are collected, in a thread of the collector's.
func TestGarbage(t *testing.T) {
	leaves(t, true)
	for range 200 {
		x := mica.FromValues([]float32{1, 2, 3}, 3)
		if mica.Sum(mica.Exp(x), false).Float() < 30 {
			t.Fatal("wrong")
		}
	}
}

// A scope goes on for any number of steps, and its memory does not grow.
func TestLongChain(t *testing.T) {
	leaves(t, false)
	one := mica.FromValues(make([]float32, 1024), 1024)
	sum := mica.Add(one, mica.FromValue(float32(0)))
	for i := range 5000 {
		next := mica.Add(sum, one)
		sum.Free()
		sum = next
		if i%100 == 99 {
			if err := mica.Eval(sum); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sum.Err() != nil || sum.Dim(0) != 1024 {
		t.Fatal(sum.Err())
	}
	mica.Free(sum, one)
	runtime.GC() // the number 0
	for i := 0; i < 100 && mica.GetActiveMemory() > 1<<20; i++ {
		runtime.GC()
	}
	if mica.GetActiveMemory() > 1<<20 {
		t.Fatal(mica.GetActiveMemory())
	}
}

func TestDetach(t *testing.T) {
	leaves(t, false)
	x := mica.FromValues([]float32{1, 2}, 2)
	y := mica.Exp(x)
	z := mica.Add(y, x)
	if err := mica.Materialize(y); err != nil {
		t.Fatal(err)
	}
	mica.Free(x)
	if got := z.Floats(); len(got) != 2 || z.Err() != nil {
		t.Fatal(got, z.Err())
	}
	mica.Free(z)
	near(t, y.Floats(), []float32{float32(math.E), float32(math.E * math.E)}, 1e-5)
	y.Free()
}

// An evaluated array is an operand in many goroutines at once.
func TestSharedOperands(t *testing.T) {
	leaves(t, false)
	shared := mica.FromValues([]float32{1, 2, 3, 4}, 2, 2)
	defer shared.Free()
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 50 {
				got, err := mica.Compute(func(args []*mica.Array) []*mica.Array {
					return []*mica.Array{mica.Matmul(args[0], shared)}
				}, shared)
				if err != nil || got[0].Floats()[0] != 7 {
					t.Error(err)
				}
				mica.Free(got...)
			}
		}()
	}
	wait.Wait()
}

// f is sum(sin(x) w) + sum(x^3), a function with several uses of its arguments.
func f(args []*mica.Array) []*mica.Array {
	x, w := args[0], args[1]
	y := mica.Sum(mica.Mul(mica.Sin(x), w), false)
	cubes := mica.Mul(mica.Square(x), x)
	return []*mica.Array{mica.Add(y, mica.Sum(cubes, false)), cubes}
}

func g(x, w float64) float64 { return math.Sin(x)*w + x*x*x }

func TestGradients(t *testing.T) {
	leaves(t, false)
	at, by := []float32{0.3, -1.2, 0.7}, []float32{2, -1, 0.5}
	x, w := mica.FromValues(at, 3), mica.FromValues(by, 3)
	defer mica.Free(x, w)
	var dx, dw, ones []float32 // by central differences
	for i := range at {
		a, b := float64(at[i]), float64(by[i])
		dx = append(dx, float32((g(a+1e-5, b)-g(a-1e-5, b))/2e-5))
		dw = append(dw, float32((g(a, b+1e-5)-g(a, b-1e-5))/2e-5))
		ones = append(ones, 1)
	}
	check := func(got *mica.Array, want []float32) {
		t.Helper()
		if got == nil || got.Err() != nil {
			t.Fatal(got)
		}
		near(t, got.Floats(), want, 1e-3)
	}
	for _, fn := range []mica.Func{f, mica.Checkpoint(f), mica.Checkpoint(mica.Checkpoint(f))} {
		values, grads, err := mica.ValueAndGrad(fn).Apply(x, w)
		if err != nil || len(values) != 2 || len(grads) != 2 {
			t.Fatal(err)
		}
		check(grads[0], dx)
		check(grads[1], dw)
		mica.Free(append(values, grads...)...)
	}
	values, grads, err := mica.ValueAndGrad(f, 1).Apply(x, w)
	if err != nil || len(grads) != 1 {
		t.Fatal(err)
	}
	check(grads[0], dw)
	mica.Free(append(values, grads...)...)
	unit := mica.FromValue(float32(1))
	tangent := mica.FromValues(ones, 3)
	defer mica.Free(unit, tangent)
	outputs, grads, err := mica.VJP(f, []*mica.Array{x, w}, []*mica.Array{unit, nil})
	if err != nil {
		t.Fatal(err)
	}
	check(grads[0], dx)
	check(grads[1], dw)
	mica.Free(append(outputs, grads...)...)
	outputs, products, err := mica.JVP(f, []*mica.Array{x, w}, []*mica.Array{tangent, nil})
	if err != nil || len(outputs) != 2 {
		t.Fatal(err)
	}
	near(t, products[0].Floats(), []float32{dx[0] + dx[1] + dx[2]}, 1e-3)
	mica.Free(append(outputs, products...)...)
}

// The gradient of a gradient: 6 x of x^3.
func TestSecondDerivative(t *testing.T) {
	leaves(t, false)
	cube := func(args []*mica.Array) []*mica.Array {
		return []*mica.Array{mica.Mul(args[0], mica.Square(args[0]))}
	}
	first := func(args []*mica.Array) []*mica.Array {
		_, grads, err := mica.ValueAndGrad(cube).Apply(args...)
		if err != nil {
			t.Fatal(err)
		}
		return grads
	}
	x := mica.FromValue(float32(3))
	values, grads, err := mica.ValueAndGrad(first).Apply(x)
	if err != nil {
		t.Fatal(err)
	}
	near(t, append(values[0].Floats(), grads[0].Floats()...), []float32{27, 18}, 1e-4)
	outputs, products, err := mica.JVP(first, []*mica.Array{x}, []*mica.Array{x})
	if err != nil {
		t.Fatal(err)
	}
	near(t, products[0].Floats(), []float32{54}, 1e-4)
	mica.Free(append(append(append(values, grads...), outputs...), products...)...)
	x.Free()
}

// A function that panics, fails, or keeps what it made, leaves all well.
func TestFunctions(t *testing.T) {
	leaves(t, false)
	x := mica.FromValues([]float32{1, 2}, 2)
	defer x.Free()
	var kept *mica.Array
	got, err := mica.Compute(func(args []*mica.Array) []*mica.Array {
		kept = mica.Exp(args[0])
		return []*mica.Array{mica.Log(kept), args[0]}
	}, x)
	if err != nil || !errors.Is(mica.Eval(kept), mica.ErrClosed) {
		t.Fatal(err, kept)
	}
	near(t, got[0].Floats(), []float32{1, 2}, 1e-6)
	mica.Free(got...)
	for _, fn := range []mica.Func{
		func([]*mica.Array) []*mica.Array { panic("here") },
		func(args []*mica.Array) []*mica.Array { return []*mica.Array{mica.Reshape(args[0], 7)} },
		func([]*mica.Array) []*mica.Array { return []*mica.Array{nil} },
		func(args []*mica.Array) []*mica.Array { return nil },
	} {
		func() {
			defer func() { recover() }()
			if _, _, err := mica.ValueAndGrad(fn).Apply(x); err == nil {
				t.Fatal("no error")
			}
		}()
		func() {
			defer func() { recover() }()
			if _, _, err := mica.VJP(fn, []*mica.Array{x}, []*mica.Array{x}); err == nil {
				t.Fatal("no error")
			}
		}()
		func() {
			defer func() { recover() }()
			if _, _, err := mica.JVP(fn, []*mica.Array{x}, []*mica.Array{x}); err == nil {
				t.Fatal("no error")
			}
		}()
	}
	if _, _, err := mica.ValueAndGrad(f, 5).Apply(x, x); err == nil {
		t.Fatal("there is no argument 5")
	}
}

// Three steps of each optimiser as MLX and PyTorch make them.
func TestOptimisers(t *testing.T) {
	leaves(t, true)
	golden := arrays(t, fixture("tune/optimizers.safetensors"))
	for name, config := range map[string]mica.OptimizerConfig{
		"adam": {Name: "adam"}, "adamw": {Name: "adamw"},
		"adamw_corrected": {Name: "adamw", BiasCorrection: true, WeightDecay: 0.1},
		"sgd_nesterov":    {Name: "sgd", Momentum: 0.8, Nesterov: true},
		"lion":            {Name: "lion", WeightDecay: 0.1},
		"muon_plain":      {Name: "muon", NoNesterov: true, WeightDecay: -1},
	} {
		config.LearningRate = 0.01
		o, err := mica.NewOptimizer(config)
		if err != nil {
			t.Fatal(err)
		}
		params := []*mica.Array{golden["init.0"], golden["init.1"], golden["init.2"]}
		for step := range 3 {
			var grads []*mica.Array
			for i := range params {
				grads = append(grads, golden["grad."+string(rune('0'+step))+"."+string(rune('0'+i))])
			}
			next, err := o.Step(params, grads)
			if err != nil {
				t.Fatal(err)
			}
			if step > 0 {
				mica.Free(params...)
			}
			params = next
		}
		for i, p := range params {
			near(t, p.Floats(), golden[name+"."+string(rune('0'+i))].Floats(), 1e-5)
		}
		if o.Steps() != 3 {
			t.Fatal(o.Steps())
		}
		mica.Free(params...)
		o.Reset()
		o.Close()
		o.Close()
		if _, err := o.Step(params, params); err == nil {
			t.Fatal("it is closed")
		}
	}
}

// The outputs that onnxruntime gave, for the inputs that it was given.
func TestProgram(t *testing.T) {
	leaves(t, true)
	golden := arrays(t, fixture("onnx/cnn.npz"))
	p, err := mica.LoadProgram(fixture("onnx/cnn.onnx"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	saved := filepath.Join(t.TempDir(), "net.mica")
	if err := p.Save(saved); err != nil || p.String() == "" {
		t.Fatal(err)
	}
	again, err := mica.LoadProgram(saved, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	args := map[string]*mica.Array{}
	for _, port := range p.Params() {
		args[port.Name] = golden["in."+port.Name]
	}
	for _, p := range []*mica.Program{p, again} {
		results, err := p.RunNamed(args)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range p.Results() {
			near(t, results[port.Name].Floats(), golden["out."+port.Name].Floats(), 1e-3)
			results[port.Name].Free()
		}
	}
	if _, err := p.Run(); err == nil {
		t.Fatal("it takes arguments")
	}
	if _, err := mica.LoadProgram("/nowhere.onnx", map[string]int{"n": 1}); err == nil {
		t.Fatal("there is none")
	}
	p.Close()
	if _, err := p.RunNamed(args); !errors.Is(err, mica.ErrClosed) {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	leaves(t, true)
	want := map[string]*mica.Array{"a": mica.FromValues([]float32{1, 2}, 2), "b": mica.FromValue(int32(3))}
	for _, save := range []func(string, map[string]*mica.Array) error{mica.SaveSafetensors, mica.SaveNPZ} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if reflect.ValueOf(save).Pointer() == reflect.ValueOf(mica.SaveNPZ).Pointer() {
			path = filepath.Join(t.TempDir(), "x.npz")
		}
		if err := save(path, want); err != nil {
			t.Fatal(err)
		}
		got := arrays(t, path)
		if len(got) != 2 || got["b"].Int() != 3 || !reflect.DeepEqual(got["a"].Floats(), []float32{1, 2}) {
			t.Fatal(got)
		}
	}
	if _, err := mica.LoadSafetensors("/nowhere"); err == nil {
		t.Fatal("there is none")
	}
}
