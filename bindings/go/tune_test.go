package mica_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"mica"
)

var sea = slices.Values([]mica.Example{
	{Prompt: "What is blue?", Completion: "The sea."},
	{Messages: []mica.Spoken{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}},
	{Text: "The sea is blue."}, {IDs: []int32{2, 5, 6, 7}, PromptTokens: 1},
})

func adapter(t *testing.T, m *mica.Model) *mica.LoRAAdapter {
	t.Helper()
	a, err := m.ApplyLoRA(mica.LoRAConfig{Rank: 2, Layers: 1, Modules: []string{"q_proj", "v_proj"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestTraining(t *testing.T) {
	m, ctx := load(t), context.Background()
	a := adapter(t, m)
	if a.TotalParams() == 0 || len(a.ParamNames()) != 4 {
		t.Fatal(a.ParamNames())
	}
	var losses []float64
	events := map[string]int{}
	config := mica.TrainConfig{Examples: sea, Valid: sea, Iterations: 8, BatchSize: 4, ReportEvery: 1,
		ValidBatches: 1, Optimizer: mica.OptimizerConfig{Name: "adamw", LearningRate: 1e-3},
		OnReport: func(r mica.TrainReport) {
			if events[r.Event]++; r.Event == "train" {
				losses = append(losses, r.Loss)
			}
		}}
	result, err := a.Train(ctx, config)
	if err != nil || result.Iteration != 8 || events["plan"] != 1 || events["train"] != 8 ||
		events["valid"] == 0 || !(losses[7] < losses[0]) || !math.IsNaN(result.TestLoss) {
		t.Fatal(result, err, events, losses)
	}
	// what was trained is what the saved adapter has, and it answers otherwise
	folder := t.TempDir()
	if err := a.Save(folder); err != nil {
		t.Fatal(err)
	}
	tuned := load(t, mica.WithAdapterPath(folder))
	if tuned.Info().Adapter != folder {
		t.Fatal(tuned.Info())
	}
	before, err := m.Score(ctx, "The sea is blue.")
	if err != nil {
		t.Fatal(err)
	}
	after, err := tuned.Score(ctx, "The sea is blue.")
	if err != nil || !(after.Perplexity < before.Perplexity) {
		t.Fatal(after, before, err)
	}
	again := adapter(t, m)
	if err := again.Load(folder); err != nil {
		t.Fatal(err)
	}
	same(t, a, again)
	if err := a.SavePEFT(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close()
	if _, err := a.Train(ctx, config); !errors.Is(err, mica.ErrClosed) {
		t.Fatal(err)
	}
}

func same(t *testing.T, a, b *mica.LoRAAdapter) {
	t.Helper()
	x, err := a.AllTrainableParams()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.AllTrainableParams()
	if err != nil || len(x) != len(y) {
		t.Fatal(err)
	}
	for i := range x {
		if !reflect.DeepEqual(x[i].Floats(), y[i].Floats()) {
			t.Fatal(i)
		}
	}
	mica.Free(append(x, y...)...)
}

func TestTrainingEnds(t *testing.T) {
	m := load(t)
	a := adapter(t, m)
	ctx, cancel := context.WithCancel(context.Background())
	config := mica.TrainConfig{Examples: sea, Iterations: 1000, BatchSize: 1, ReportEvery: 1,
		OnReport: func(r mica.TrainReport) {
			if r.Event == "train" {
				cancel()
			}
		}}
	if _, err := a.Train(ctx, config); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	config.OnReport = func(mica.TrainReport) { panic("here") }
	config.Iterations = 1
	func() {
		defer func() {
			if what := recover(); what != "here" {
				t.Fatal(what)
			}
		}()
		a.Train(context.Background(), config)
	}()
	config.OnReport = nil
	config.Examples = slices.Values([]mica.Example{{Prompt: func() {}}})
	if _, err := a.Train(context.Background(), config); err == nil {
		t.Fatal("no JSON of a function")
	}
	config.Examples = slices.Values([]mica.Example{})
	if _, err := a.Train(context.Background(), config); err == nil {
		t.Fatal("there are no examples")
	}
	if _, err := m.ApplyLoRA(mica.LoRAConfig{Modules: []string{"none"}}); err == nil {
		t.Fatal("there is no such module")
	}
	if _, err := m.ApplyLoRA(mica.LoRAConfig{Kind: "none"}); err == nil {
		t.Fatal("there is no such kind")
	}
}

// A loss of one's own is mica's if it says the same.
func TestLossFunc(t *testing.T) {
	leaves(t, true)
	m, ctx := load(t), context.Background()
	config := mica.TrainConfig{Examples: sea, Iterations: 2, BatchSize: 2,
		Optimizer: mica.OptimizerConfig{LearningRate: 1e-3}}
	a, b := adapter(t, m), adapter(t, m)
	if _, err := a.Train(ctx, config); err != nil {
		t.Fatal(err)
	}
	config.LossFunc = func(logits, targets, mask *mica.Array) *mica.Array {
		return mica.MaskedCrossEntropyLoss(logits, targets, mask)
	}
	if _, err := b.Train(ctx, config); err != nil {
		t.Fatal(err)
	}
	x, err := a.AllTrainableParams()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.AllTrainableParams()
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		near(t, x[i].Floats(), y[i].Floats(), 1e-4)
	}
	config.LossFunc = func(logits, targets, mask *mica.Array) *mica.Array {
		return mica.Add(logits, mask)
	}
	if _, err := b.Train(ctx, config); err == nil {
		t.Fatal("that is no loss")
	}
	config.LossFunc = func(logits, targets, mask *mica.Array) *mica.Array { panic("here") }
	func() {
		defer func() { recover() }()
		b.Train(ctx, config)
		t.Fatal("no panic")
	}()
	mica.Free(append(x, y...)...)
}

// A loop of one's own: gradients of the pass by its parameters.
func TestOwnLoop(t *testing.T) {
	leaves(t, false)
	m := load(t)
	a := adapter(t, m)
	tokens, err := m.Encode("The sea is blue.")
	if err != nil {
		t.Fatal(err)
	}
	ids := mica.FromValues(tokens[:len(tokens)-1], 1, len(tokens)-1)
	targets := mica.FromValues(tokens[1:], 1, len(tokens)-1)
	params, err := a.AllTrainableParams()
	if err != nil {
		t.Fatal(err)
	}
	adam, err := mica.NewAdamW(1e-3)
	if err != nil {
		t.Fatal(err)
	}
	defer adam.Close()
	loss := mica.ValueAndGrad(func(args []*mica.Array) []*mica.Array {
		return []*mica.Array{mica.CrossEntropyLoss(a.Forward(args, ids), targets)}
	})
	var values []float64
	for range 3 {
		value, grads, err := loss.Apply(params...)
		if err != nil {
			t.Fatal(err)
		}
		next, err := adam.Step(params, grads)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value[0].Float())
		mica.Free(append(append(value, grads...), params...)...)
		params = next
	}
	if !(values[2] < values[0]) {
		t.Fatal(values)
	}
	if err := a.SetParams(params); err != nil {
		t.Fatal(err)
	}
	got, err := a.AllTrainableParams()
	if err != nil || !reflect.DeepEqual(got[0].Floats(), params[0].Floats()) {
		t.Fatal(err)
	}
	logits := m.Forward(ids)
	m.Close() // it stays as long as it is needed
	if logits.Dim(-1) != m.Info().VocabSize || logits.Floats() == nil {
		t.Fatal(logits.Err())
	}
	if late := m.Forward(ids); !errors.Is(late.Err(), mica.ErrClosed) {
		t.Fatal(late.Err())
	}
	mica.Free(append(append(params, got...), ids, targets, logits)...)
}
