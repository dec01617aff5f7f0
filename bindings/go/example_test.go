package mica_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"mica"
	"mica/inference"
)

func Example() {
	m, err := mica.LoadModel(folder, mica.WithContextLen(1024))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	talk := []mica.Message{{Role: "user", Content: "What is curl?"}}
	for tok := range m.Chat(context.Background(), talk, mica.WithMaxTokens(4)) {
		fmt.Print(tok.Text)
	}
	fmt.Println()
	fmt.Println(m.ModelType(), m.NumLayers() > 0, m.Err())
	// Output:
	// curl is a command
	// gemma3 true <nil>
}

// A program that names no engine: the import of mica enters mica's.
func Example_registry() {
	m, err := inference.LoadModel(folder) // import _ "mica"
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for tok := range m.Generate(context.Background(), "The sea is", inference.WithMaxTokens(1)) {
		fmt.Println(tok.Text != "")
	}
	// Output: true
}

func ExampleModel_Classify() {
	m, err := mica.LoadModel(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	rows, err := m.Classify(context.Background(), []string{"One and one are two. Yes or no?"},
		mica.WithLabels(" Yes", " No"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(rows[0].Labels), rows[0].Err)
	// Output: 2 <nil>
}

func ExampleWithSchema() {
	m, err := mica.LoadModel(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	schema := map[string]any{"enum": []string{"red", "blue"}}
	for tok := range m.Generate(context.Background(), "The sea is", mica.WithSchema(schema)) {
		fmt.Print(tok.Text)
	}
	// Output: "blue"
}

func ExampleModel_Respond() {
	m, err := mica.LoadModel(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	talk := []mica.Message{{Role: "user", Content: "What is curl?"}}
	answer, err := m.Respond(context.Background(), talk, mica.WithMaxTokens(4))
	if err != nil {
		log.Fatal(err)
	}
	talk = append(talk, answer.Message) // with its calls of tools: WithTools
	fmt.Println(talk[1].Role, talk[1].Content, answer.Finish, len(answer.ToolCalls))
	// Output: assistant curl is a command length 0
}

func ExampleFromValues() {
	a := mica.FromValues([]float32{1, 2, 3, 4}, 2, 2)
	b := mica.Matmul(a, mica.Transpose(a))
	defer mica.Free(a, b)
	fmt.Println(b.Floats(), b.Shape(), b.Err())
	for v := range mica.Sum(b, false, -1).Iter() {
		fmt.Println(v)
	}
	// Output:
	// [5 11 11 25] [2 2] <nil>
	// 16
	// 36
}

func ExampleCompute() {
	norm := func(args []*mica.Array) []*mica.Array {
		square := mica.Square(args[0]) // needs no Free
		return []*mica.Array{mica.Sqrt(mica.Sum(square, false))}
	}
	x := mica.FromValues([]float32{3, 4}, 2)
	defer x.Free()
	results, err := mica.Compute(norm, x)
	if err != nil {
		log.Fatal(err)
	}
	defer mica.Free(results...)
	fmt.Println(results[0])
	// Output: array(5, dtype=f32)
}

func ExampleValueAndGrad() {
	x := mica.FromValues([]float32{1, 2, 3, 4}, 4)
	w := mica.FromValues([]float32{0, 0, 0, 0}, 4)
	y := mica.FromValues([]float32{2, 4, 6, 8}, 4)
	loss := mica.ValueAndGrad(func(args []*mica.Array) []*mica.Array {
		return []*mica.Array{mica.MSELoss(mica.Mul(args[0], x), y)}
	})
	adam, err := mica.NewAdamW(0.1)
	if err != nil {
		log.Fatal(err)
	}
	defer adam.Close()
	for range 200 {
		values, grads, err := loss.Apply(w)
		if err != nil {
			log.Fatal(err)
		}
		updated, err := adam.Step([]*mica.Array{w}, grads)
		if err != nil {
			log.Fatal(err)
		}
		mica.Free(append(append(values, grads...), w)...)
		w = updated[0]
	}
	for v := range w.Iter() {
		fmt.Printf("%.1f ", v)
	}
	// Output: 2.0 2.0 2.0 2.0
}

func ExampleModel_ApplyLoRA() {
	m, err := mica.LoadModel(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	adapter, err := m.ApplyLoRA(mica.LoRAConfig{Rank: 2, Layers: 1, Modules: []string{"q_proj"}})
	if err != nil {
		log.Fatal(err)
	}
	defer adapter.Close()
	result, err := adapter.Train(context.Background(), mica.TrainConfig{
		Examples:   slices.Values([]mica.Example{{Text: "The sea is blue."}}),
		Iterations: 2,
		BatchSize:  1,
		OnReport:   func(r mica.TrainReport) { fmt.Println(r.Event) },
	})
	fmt.Println(result.Iteration, err)
	// adapter.Save(folder), and later LoadModel(path, WithAdapterPath(folder))

	// Output:
	// plan
	// train
	// 2 <nil>
}
