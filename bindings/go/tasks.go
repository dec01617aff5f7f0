package mica

// #include "callbacks.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"mica/inference"
)

// BatchGenerate continues many texts, 8 together unless WithParallel says otherwise, so that the
// weights are read once for them. A row that fails has an Err, and does not affect others.
func (m *Model) BatchGenerate(ctx context.Context, prompts []string, options ...GenerateOption) ([]BatchResult, error) {
	config := inference.NewGenerateConfig(options...)
	return m.batch(ctx, &config, len(prompts), func(mem *memory, i int, item *C.mica_batch_item) {
		if config.AsChat {
			item.messages = mem.messages([]Message{{Role: "user", Content: prompts[i]}})
			item.message_count = 1
		} else {
			item.prompt = mem.text(prompts[i])
		}
	})
}

// BatchChat answers many conversations, as BatchGenerate does.
func (m *Model) BatchChat(ctx context.Context, talks [][]Message, options ...GenerateOption) ([]BatchResult, error) {
	config := inference.NewGenerateConfig(options...)
	return m.batch(ctx, &config, len(talks), func(mem *memory, i int, item *C.mica_batch_item) {
		item.messages, item.message_count = mem.messages(talks[i]), C.size_t(len(talks[i]))
	})
}

func (m *Model) batch(ctx context.Context, config *inference.GenerateConfig, n int,
	fill func(*memory, int, *C.mica_batch_item)) ([]BatchResult, error) {
	if n == 0 {
		return nil, nil
	}
	var rows []BatchResult
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		options, err := mem.generateOptions(config)
		if err != nil {
			return err
		}
		options.cancel = flag
		items, array := list[C.mica_batch_item](mem, n)
		for i := range array {
			fill(mem, i, &array[i])
			array[i].options = options
		}
		o := made[C.mica_batch_options](mem)
		o.struct_bytes, o.cancel = C.size_t(unsafe.Sizeof(*o)), flag
		o.parallel = C.int(config.Parallel)
		if config.OnToken != nil {
			o.token = (*[0]byte)(C.mica_go_token)
			o.user = register(mem, tokenFunc(func(row int, token *C.mica_token) bool {
				config.OnToken(row, tokenOf(token))
				return true
			}))
		}
		var results *C.mica_batch_results
		err = check(func() C.mica_status {
			return C.mica_batch_generate(model, items, C.size_t(n), o, &results)
		})
		if err != nil {
			return err
		}
		defer C.mica_batch_free(&results)
		for _, row := range unsafe.Slice(results.rows, n) {
			rows = append(rows, batchResult(ctx, &row))
		}
		return nil
	})
	return rows, err
}

func batchResult(ctx context.Context, row *C.mica_batch_row) BatchResult {
	result := BatchResult{Text: goText(row.text, row.len), Finish: finishOf(row.finish),
		Metrics: metricsOf(row.metrics), Err: cancelled(ctx, rowError(row.status, row.error))}
	logprobs := goFloats(row.logprobs, int(row.count))
	for i, id := range goInts(row.ids, row.count) {
		token := Token{ID: id}
		if logprobs != nil {
			token.Logprob = logprobs[i]
		}
		result.Tokens = append(result.Tokens, token)
	}
	return result
}

// task does a call with the model that ctx ends.
func (m *Model) task(ctx context.Context, call func(*memory, *C.mica_model, *C.mica_cancel) error) error {
	return m.with(func(model *C.mica_model) error {
		return watched(ctx, func(flag *C.mica_cancel) error {
			var mem memory
			defer mem.free()
			return call(&mem, model, flag)
		})
	})
}

// Classify tells what follows each prompt: the next token, and with WithLabels the probability of
// each label. WithTemperature and WithTopK draw the token, WithLogits keeps all logits.
func (m *Model) Classify(ctx context.Context, prompts []string, options ...GenerateOption) ([]ClassifyResult, error) {
	config := inference.NewGenerateConfig(options...)
	if len(prompts) == 0 || config.Failed != nil {
		return nil, config.Failed
	}
	var rows []ClassifyResult
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		o := made[C.mica_classify_options](mem)
		o.struct_bytes, o.cancel = C.size_t(unsafe.Sizeof(*o)), flag
		o.labels, o.label_count = mem.texts(config.Labels), C.size_t(len(config.Labels))
		o.as_chat, o.logits = C.bool(config.AsChat), C.bool(config.Logits)
		o.temperature, o.top_k = C.float(config.Temperature), C.int(config.TopK)
		o.seed = C.uint64_t(config.Seed)
		if config.OnProgress != nil {
			o.progress = C.mica_progress(C.mica_go_progress)
			o.progress_user = register(mem, progressFunc(config.OnProgress))
		}
		var results *C.mica_classify_results
		said := mem.texts(prompts)
		err := check(func() C.mica_status {
			return C.mica_classify(model, said, C.size_t(len(prompts)), o, &results)
		})
		if err != nil {
			return err
		}
		defer C.mica_classify_free(&results)
		for _, row := range unsafe.Slice(results.rows, len(prompts)) {
			rows = append(rows, classifyResult(ctx, &row, &config, int(results.vocab)))
		}
		return nil
	})
	return rows, err
}

func classifyResult(ctx context.Context, row *C.mica_classify_row, config *inference.GenerateConfig,
	vocab int) ClassifyResult {
	result := ClassifyResult{Err: cancelled(ctx, rowError(row.status, row.error))}
	if result.Err != nil {
		return result
	}
	result.Token = Token{ID: int32(row.token), Text: C.GoString(row.text)}
	result.Probability = float64(row.probability)
	result.Logits = goFloats(row.logits, vocab)
	if row.labels != nil {
		result.Label = config.Labels[int(row.label)]
		for _, p := range unsafe.Slice(row.labels, len(config.Labels)) {
			result.Labels = append(result.Labels, float64(p))
		}
	}
	return result
}

// EmbedConfig is how texts become vectors; zero is what an embedder's files say.
type EmbedConfig struct {
	Last       bool   // the last token's hidden state in the place of their mean
	Normalise  bool   // to a length of 1
	PromptName string // of an embedder's prompts: "query"
	Dimensions int    // only so many of the first numbers
}

// Embed turns texts to vectors. A text that fails has no vector, and its error is joined to those
// of others.
func (m *Model) Embed(ctx context.Context, texts []string, configs ...EmbedConfig) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var config EmbedConfig
	for _, config = range configs {
	}
	vectors := make([][]float32, len(texts))
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		o := made[C.mica_embed_options](mem)
		o.struct_bytes, o.cancel = C.size_t(unsafe.Sizeof(*o)), flag
		o.normalise, o.dimensions = C.bool(config.Normalise), C.int64_t(config.Dimensions)
		o.prompt_name = mem.optional(config.PromptName)
		if config.Last {
			o.pooling = C.MICA_POOLING_LAST
		}
		var results *C.mica_embed_results
		said := mem.texts(texts)
		err := check(func() C.mica_status {
			return C.mica_embed_texts(model, said, C.size_t(len(texts)), o, &results)
		})
		if err != nil {
			return err
		}
		defer C.mica_embed_texts_free(&results)
		var failed []error
		for i, row := range unsafe.Slice(results.rows, len(texts)) {
			if err := cancelled(ctx, rowError(row.status, row.error)); err != nil {
				failed = append(failed, fmt.Errorf("text %d: %w", i, err))
			}
			vectors[i] = goFloats(row.vector, int(results.width))
		}
		return errors.Join(failed...)
	})
	return vectors, err
}

// Rerank tells how relevant documents are to a query: larger is better.
func (m *Model) Rerank(ctx context.Context, query string, documents []string) ([]float32, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	var scores []float32
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		o := made[C.mica_rerank_options](mem)
		o.struct_bytes, o.cancel = C.size_t(unsafe.Sizeof(*o)), flag
		p, _ := list[C.float](mem, len(documents))
		asked, said := mem.text(query), mem.texts(documents)
		err := check(func() C.mica_status {
			return C.mica_rerank(model, asked, said, C.size_t(len(documents)), o, p)
		})
		if err == nil {
			scores = goFloats(p, len(documents))
		}
		return err
	})
	return scores, err
}

// Score is how likely a text is according to a model.
type Score struct {
	IDs        []int32
	Logprobs   []float32 // of each token behind those before it; 0 of the first
	Total      float64   // the sum of Logprobs
	Perplexity float64
}

// Score tells how likely a text is.
func (m *Model) Score(ctx context.Context, text string) (*Score, error) {
	var score *Score
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		o, said := taskOptions(mem, flag), mem.text(text)
		var result *C.mica_score_result
		err := check(func() C.mica_status {
			return C.mica_score(model, said, C.size_t(len(text)), o, &result)
		})
		if err != nil {
			return err
		}
		defer C.mica_score_free(&result)
		score = &Score{goInts(result.ids, result.count),
			goFloats(result.logprobs, int(result.count)), float64(result.total),
			float64(result.perplexity)}
		return nil
	})
	return score, err
}

func taskOptions(mem *memory, flag *C.mica_cancel) *C.mica_task_options {
	o := made[C.mica_task_options](mem)
	o.struct_bytes, o.cancel = C.size_t(unsafe.Sizeof(*o)), flag
	return o
}

// InspectAttention gives the queries and keys of a prompt in some layers, in all if none is named.
func (m *Model) InspectAttention(ctx context.Context, prompt string, layers ...int) (*Attention, error) {
	var attention *Attention
	err := m.task(ctx, func(mem *memory, model *C.mica_model, flag *C.mica_cancel) error {
		o, said := taskOptions(mem, flag), mem.text(prompt)
		wanted, places := list[C.int64_t](mem, len(layers))
		for i, layer := range layers {
			places[i] = C.int64_t(layer)
		}
		if len(layers) == 0 {
			wanted = nil
		}
		var result *C.mica_attention
		err := check(func() C.mica_status {
			return C.mica_inspect_attention(model, said, C.size_t(len(prompt)), wanted,
				C.size_t(len(layers)), o, &result)
		})
		if err != nil {
			return err
		}
		defer C.mica_attention_free(&result)
		attention = readAttention(result)
		return nil
	})
	return attention, err
}

func readAttention(a *C.mica_attention) *Attention {
	result := &Attention{IDs: goInts(a.ids, C.size_t(a.tokens)), Heads: int(a.heads),
		KVHeads: int(a.kv_heads), HeadDim: int(a.head_dim)}
	size := int(a.tokens * a.head_dim)
	for _, layer := range unsafe.Slice(a.layers, int(a.count)) {
		result.Layers = append(result.Layers, AttentionLayer{Layer: int(layer.layer),
			Queries: goFloats(layer.q, int(a.heads)*size),
			Keys:    goFloats(layer.k, int(a.kv_heads)*size)})
	}
	return result
}
