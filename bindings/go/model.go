package mica

// #include "callbacks.h"
import "C"

import (
	"context"
	"iter"
	"sync"
	"unsafe"

	"mica/inference"
)

// Model is weights and a tokenizer. Any number of goroutines may ask it at once.
type Model struct {
	handle *C.mica_model
	guard  guard
	info   Info
	device *Device // nil: one of its own

	last    sync.Mutex // of what follows
	err     error
	metrics Metrics
}

var (
	_ inference.TextModel          = (*Model)(nil)
	_ inference.AttentionInspector = (*Model)(nil)
	_ inference.Tokenizer          = (*Model)(nil)
)

// engine is one of mica's engines in the registry of package inference.
type engine string

func (e engine) Name() string { return string(e) }

func (e engine) Available() bool {
	var mem memory
	defer mem.free()
	name := mem.text(string(e))
	return check(func() C.mica_status { return C.mica_engine_get(name, nil) }) == nil &&
		engineAvailable(name)
}

func engineAvailable(name *C.char) bool {
	var info C.mica_engine_info
	info.struct_bytes = C.size_t(unsafe.Sizeof(info))
	return C.mica_engine_get(name, &info) == C.MICA_OK && bool(info.available)
}

func (e engine) LoadModel(path string, config inference.LoadConfig) (inference.TextModel, error) {
	m, err := loadModel(path, config)
	if err != nil {
		return nil, err // not a nil *Model, which is no nil interface
	}
	return m, nil
}

func init() {
	var info C.mica_engine_info
	info.struct_bytes = C.size_t(unsafe.Sizeof(info))
	for i := C.size_t(0); bool(C.mica_engine_list(i, &info)); i++ {
		inference.Register(engine(C.GoString(&info.name[0])))
	}
}

// LoadModel opens a model's folder. The caller closes the model.
func LoadModel(path string, options ...LoadOption) (*Model, error) {
	return loadModel(path, inference.NewLoadConfig(options...))
}

func loadModel(path string, config inference.LoadConfig) (*Model, error) {
	var mem memory
	defer mem.free()
	o := made[C.mica_model_options](&mem)
	o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
	o.engine, o.adapter = mem.optional(config.Backend), mem.optional(config.AdapterPath)
	o.device_name, o.threads = mem.optional(config.Device), C.int(config.Threads)
	o.context_length = C.int64_t(config.ContextLen)
	o.accelerator_layers = C.int(config.GPULayers)
	if config.Exact {
		o.arithmetic = C.MICA_ARITHMETIC_EXACT
	}
	o.no_mmap, o.prefetch = C.bool(config.NoMmap), C.bool(config.Prefetch)
	o.mlock = C.bool(config.Lock)
	o.chat_template = mem.optional(config.ChatTemplate)
	if config.Progress != nil {
		o.progress = C.mica_progress(C.mica_go_progress)
		o.progress_user = register(&mem, progressFunc(config.Progress))
	}
	m, folder := new(Model), mem.text(path)
	if config.Device == "" && config.Threads == 0 && isNative(config.Backend, folder) {
		device, err := DefaultDevice()
		if err != nil {
			return nil, err
		}
		if !device.guard.enter() {
			return nil, ErrClosed
		}
		defer device.guard.leave()
		m.device, o.device = device, device.handle
	}
	err := watched(config.Context, func(flag *C.mica_cancel) error {
		o.cancel = flag
		return check(func() C.mica_status { return C.mica_model_open(folder, o, &m.handle) })
	})
	if err != nil {
		return nil, err
	}
	h := m.handle // not m: what frees an object must not keep it
	m.guard.free = func() { C.mica_model_close(&h) }
	m.info = describe(m.handle)
	return m, nil
}

// isNative tells whether mica computes the model itself: other engines have devices of their own.
func isNative(name string, folder *C.char) bool {
	if name != "" {
		return name == "native"
	}
	var info C.mica_engine_info
	info.struct_bytes = C.size_t(unsafe.Sizeof(info))
	return C.mica_engine_default(folder, &info) == C.MICA_OK && C.GoString(&info.name[0]) == "native"
}

func describe(handle *C.mica_model) Info {
	var i C.mica_model_info
	i.struct_bytes = C.size_t(unsafe.Sizeof(i))
	C.mica_model_get_info(handle, &i)
	return Info{
		Path: C.GoString(i.path), Engine: C.GoString(i.engine), Family: C.GoString(i.family),
		Architecture: C.GoString(i.architecture), DType: C.GoString(i.dtype),
		Quantization: C.GoString(i.quantization), Parameters: uint64(i.parameters),
		ActiveParameters: uint64(i.active_parameters), WeightBytes: uint64(i.weight_bytes),
		ActiveBytes: uint64(i.active_bytes), NumLayers: int(i.layers),
		HiddenSize: int(i.hidden_size), IntermediateSize: int(i.intermediate_size),
		Heads: int(i.heads), KVHeads: int(i.kv_heads), HeadDim: int(i.head_dim),
		VocabSize: int(i.vocab_size), ContextLen: int(i.context_length),
		SlidingWindow: int(i.sliding_window), QuantBits: int(i.bits), QuantGroup: int(i.group_size),
		Experts: int(i.experts), ExpertsPerToken: int(i.experts_per_token),
		ExpertSize: int(i.expert_size),
		Adapter:    C.GoString(i.adapter), CallFormat: C.GoString(i.call_format),
		ThoughtMark: C.GoString(i.thought_mark), ThinkingVariable: C.GoString(i.thinking_variable),
		Note: C.GoString(i.note),
	}
}

// Close ends the model with the last call or answer that is under way; others are refused. Closing
// again does nothing.
func (m *Model) Close() error {
	m.guard.close()
	return nil
}

// with does a call with the model, which is not freed meanwhile.
func (m *Model) with(call func(*C.mica_model) error) error {
	return m.guard.with(func() error { return call(m.handle) })
}

// Info says what the model is, also after Close.
func (m *Model) Info() Info { return m.info }

// ModelType is the model's family, such as "gemma3".
func (m *Model) ModelType() string { return m.info.Family }

// NumLayers is the number of decoder blocks.
func (m *Model) NumLayers() int { return m.info.NumLayers }

// Err is the error of the last Generate or Chat, nil if it went well. Of answers in several
// goroutines it is that of the one that ended last: WithError tells each its own.
func (m *Model) Err() error {
	m.last.Lock()
	defer m.last.Unlock()
	return m.err
}

// Metrics are those of the last Generate or Chat.
func (m *Model) Metrics() Metrics {
	m.last.Lock()
	defer m.last.Unlock()
	return m.metrics
}

func (m *Model) ended(err error, metrics Metrics) {
	m.last.Lock()
	defer m.last.Unlock()
	m.err, m.metrics = err, metrics
}

// Encode turns a text to token ids, with those that the tokenizer puts around a text.
func (m *Model) Encode(text string) (ids []int32, err error) {
	err = m.with(func(model *C.mica_model) error {
		var mem memory
		defer mem.free()
		var p *C.int32_t
		var n C.size_t
		said := mem.text(text)
		err := check(func() C.mica_status {
			return C.mica_tokenizer_encode(C.mica_model_tokenizer(model), said, C.size_t(len(text)),
				true, &p, &n)
		})
		defer C.mica_free(unsafe.Pointer(p))
		ids = goInts(p, n)
		return err
	})
	return ids, err
}

// Decode turns token ids to text, special tokens left out.
func (m *Model) Decode(ids []int32) (text string, err error) {
	err = m.with(func(model *C.mica_model) error {
		var mem memory
		defer mem.free()
		var said *C.char
		var n C.size_t
		p := mem.ids(ids)
		err := check(func() C.mica_status {
			return C.mica_tokenizer_decode(C.mica_model_tokenizer(model), p, C.size_t(len(ids)),
				true, &said, &n)
		})
		defer C.mica_free(unsafe.Pointer(said))
		text = goText(said, n)
		return err
	})
	return text, err
}

// Render is the prompt that Chat makes of a conversation: its text, and its tokens.
func (m *Model) Render(messages []Message, options ...GenerateOption) (text string, ids []int32, err error) {
	config := inference.NewGenerateConfig(options...)
	err = m.with(func(model *C.mica_model) error {
		var mem memory
		defer mem.free()
		o, err := mem.generateOptions(&config)
		if err != nil {
			return err
		}
		var said *C.char
		var p *C.int32_t
		var length, n C.size_t
		given := mem.messages(messages)
		err = check(func() C.mica_status {
			return C.mica_model_render(model, given, C.size_t(len(messages)), o, &said, &length,
				&p, &n)
		})
		defer C.mica_free(unsafe.Pointer(said))
		defer C.mica_free(unsafe.Pointer(p))
		text, ids = goText(said, length), goInts(p, n)
		return err
	})
	return text, ids, err
}

// Generate continues a text. The loop may be left at any token; ctx ends the answer within one.
// Err says what failed; of a ctx that was cancelled it is ctx.Err().
func (m *Model) Generate(ctx context.Context, prompt string, options ...GenerateOption) iter.Seq[Token] {
	return m.alone(func(s *Session) iter.Seq[Token] { return s.Generate(ctx, prompt, options...) },
		options)
}

// Chat answers a conversation in the model's chat format, as Generate does.
func (m *Model) Chat(ctx context.Context, messages []Message, options ...GenerateOption) iter.Seq[Token] {
	return m.alone(func(s *Session) iter.Seq[Token] { return s.Chat(ctx, messages, options...) },
		options)
}

// Respond answers a conversation and reads what the answer is: text, thoughts, and calls of the
// tools of WithTools. WithOnToken is told the tokens meanwhile.
func (m *Model) Respond(ctx context.Context, messages []Message, options ...GenerateOption) (*Answer, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Respond(ctx, messages, options...)
}

// alone is an answer in a session of its own.
func (m *Model) alone(answer func(*Session) iter.Seq[Token], options []GenerateOption) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		s, err := m.NewSession()
		if err != nil {
			config := inference.NewGenerateConfig(options...)
			if config.Error != nil {
				*config.Error = err
			}
			m.ended(err, Metrics{})
			return
		}
		defer s.Close()
		answer(s)(yield)
	}
}
