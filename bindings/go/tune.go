package mica

// #include "callbacks.h"
import "C"

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// LoRAConfig is what is trained; zero is the default.
type LoRAConfig struct {
	Kind             string   // "lora", "dora", "full"; "": lora
	Modules          []string // matrices that get factors: "q_proj", "self_attn.v_proj"; none: all
	Layers           int      // only the last ones; 0: all
	Rank             int      // 0: 8
	Scale, Alpha     float64  // scale 0: 20, or alpha / rank
	Dropout          float64
	DType            DType // DTypeBFloat16: factors are bf16; else f32
	Seed             uint64
	MemoryLimitBytes uint64
}

// LoRAAdapter is a model's parameters that are trained. It belongs to one goroutine at a time.
type LoRAAdapter struct {
	handle *C.mica_tuner
	guard  guard
	device *Device
	busy   sync.Mutex
}

var tuneKinds = map[string]C.mica_tune_kind{"": C.MICA_TUNE_LORA, "lora": C.MICA_TUNE_LORA,
	"dora": C.MICA_TUNE_DORA, "full": C.MICA_TUNE_FULL}

// ApplyLoRA makes parameters to train: factors beside matrices of the model's folder. The model
// itself answers as before; LoadModel with WithAdapterPath opens it with what Save has written. The
// caller closes the adapter.
func (m *Model) ApplyLoRA(config LoRAConfig) (*LoRAAdapter, error) {
	var mem memory
	defer mem.free()
	kind, known := tuneKinds[config.Kind]
	if !known {
		return nil, invalid("there is no kind of training %q", config.Kind)
	}
	device := m.device
	if device == nil {
		var err error
		if device, err = DefaultDevice(); err != nil {
			return nil, err
		}
	}
	a := &LoRAAdapter{device: device}
	folder := mem.text(m.info.Path)
	o := made[C.mica_tuner_options](&mem)
	o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
	err := device.guard.with(func() error {
		o.device = device.handle
		return check(func() C.mica_status { return C.mica_tuner_open(folder, o, &a.handle) })
	})
	if err != nil {
		return nil, err
	}
	h := a.handle // not a: what frees an object must not keep it
	a.guard.free = func() { C.mica_tuner_close(&h) }
	l := made[C.mica_lora_options](&mem)
	l.struct_bytes, l.kind = C.size_t(unsafe.Sizeof(*l)), kind
	l.modules, l.n_modules = mem.texts(config.Modules), C.size_t(len(config.Modules))
	l.layers, l.rank = C.int64_t(config.Layers), C.int64_t(config.Rank)
	l.scale, l.alpha = C.float(config.Scale), C.float(config.Alpha)
	l.dropout, l.bf16 = C.float(config.Dropout), C.bool(config.DType == DTypeBFloat16)
	l.seed, l.memory_limit_bytes = C.uint64_t(config.Seed), C.uint64_t(config.MemoryLimitBytes)
	if err := check(func() C.mica_status { return C.mica_lora_apply(a.handle, l) }); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Close frees the parameters. Closing again does nothing.
func (a *LoRAAdapter) Close() error {
	a.guard.close()
	return nil
}

// with does a call with the tuner, which is neither freed nor used elsewhere meanwhile.
func (a *LoRAAdapter) with(call func(*C.mica_tuner) C.mica_status) error {
	if !a.busy.TryLock() {
		return ErrBusy
	}
	defer a.busy.Unlock()
	return a.guard.with(func() error {
		return check(func() C.mica_status { return call(a.handle) })
	})
}

// Save writes the adapter to a folder, as mlx-lm does.
func (a *LoRAAdapter) Save(folder string) error { return a.save(folder, C.MICA_ADAPTER_MLX) }

// SavePEFT writes the adapter to a folder in PEFT's format.
func (a *LoRAAdapter) SavePEFT(folder string) error { return a.save(folder, C.MICA_ADAPTER_PEFT) }

func (a *LoRAAdapter) save(folder string, format C.mica_adapter_format) error {
	var mem memory
	defer mem.free()
	path := mem.text(folder)
	return a.with(func(t *C.mica_tuner) C.mica_status { return C.mica_tuner_save(t, path, format) })
}

// Load reads the parameters' values from an adapter of mlx-lm.
func (a *LoRAAdapter) Load(path string) error {
	var mem memory
	defer mem.free()
	p := mem.text(path)
	return a.with(func(t *C.mica_tuner) C.mica_status { return C.mica_tuner_load(t, p) })
}

// TotalParams is the number of numbers that are trained.
func (a *LoRAAdapter) TotalParams() (n uint64) {
	_ = a.with(func(t *C.mica_tuner) C.mica_status {
		n = uint64(C.mica_tuner_trained(t))
		return C.MICA_OK
	})
	return n
}

// ParamNames are the parameters' names, in their order.
func (a *LoRAAdapter) ParamNames() (names []string) {
	_ = a.each(func(_ int, p *C.mica_parameter) error {
		names = append(names, C.GoString(p.name))
		return nil
	})
	return names
}

// AllTrainableParams are the parameters' values of now, in the order of their names. The caller
// frees them.
func (a *LoRAAdapter) AllTrainableParams() (params []*Array, err error) {
	err = a.each(func(_ int, p *C.mica_parameter) error {
		s, err := newScope(a.device)
		if err != nil {
			return err
		}
		raw := C.mica_detach(s.c, p.value)
		if err := s.checked(raw); err != nil {
			s.close()
			return err
		}
		param := s.add(raw)
		param.h.valued.Store(true)
		params = append(params, param)
		return nil
	})
	return params, err
}

func (a *LoRAAdapter) each(call func(i int, p *C.mica_parameter) error) error {
	var err error
	other := a.with(func(t *C.mica_tuner) C.mica_status {
		var p C.mica_parameter
		p.struct_bytes = C.size_t(unsafe.Sizeof(p))
		for i := C.size_t(0); i < C.mica_tuner_parameter_count(t) && err == nil; i++ {
			if status := C.mica_tuner_get_parameter(t, i, &p); status != C.MICA_OK {
				return status
			}
			err = call(int(i), &p)
		}
		return C.MICA_OK
	})
	if other != nil {
		return other
	}
	return err
}

// SetParams replaces the parameters' values, in the order of their names.
func (a *LoRAAdapter) SetParams(params []*Array) error {
	if err := Eval(params...); err != nil {
		return err
	}
	values := make([][]float32, len(params))
	for i, p := range params {
		if values[i] = p.Floats(); p.Err() != nil {
			return p.Err()
		}
	}
	return a.with(func(t *C.mica_tuner) C.mica_status {
		for i, v := range values {
			status := C.mica_tuner_set_parameter(t, C.size_t(i), (*C.float)(unsafe.Pointer(first(v))),
				C.size_t(len(v)))
			if status != C.MICA_OK {
				return status
			}
		}
		return C.MICA_OK
	})
}

// Forward records the pass of the model with these parameters over token ids [rows, tokens]: logits
// [rows, tokens, vocabulary]. It is for losses and loops of one's own.
func (a *LoRAAdapter) Forward(params []*Array, ids *Array) *Array {
	if a.TotalParams() == 0 {
		return failed(ErrClosed)
	}
	return held(&a.guard, append([]*Array{ids}, params...),
		func(s *C.mica_scope, in []C.mica_array) C.mica_array {
			return C.mica_tuner_forward(s, a.handle, first(in[1:]), in[0], nil)
		})
}

// Forward records a pass of the model over token ids [rows, tokens]: logits [rows, tokens,
// vocabulary]. Other engines than "native", and models with a device of their own, have none.
func (m *Model) Forward(ids *Array) *Array {
	return held(&m.guard, []*Array{ids}, func(s *C.mica_scope, in []C.mica_array) C.mica_array {
		return C.mica_model_forward(s, m.handle, in[0], nil)
	})
}

// held records an op over something that must stay open until it is computed.
func held(g *guard, xs []*Array, op recorder) *Array {
	if !g.enter() {
		return failed(ErrClosed)
	}
	a := record(xs, op)
	if a.err != nil {
		g.leave()
		return a
	}
	a.h.scope.hold(g)
	return a
}

// Example is one to train with: a text, a prompt with its completion, a conversation, a pair of
// answers, or tokens.
type Example struct {
	Text         string   `json:"text,omitempty"`
	Prompt       any      `json:"prompt,omitempty"` // a text, of pairs also messages
	Completion   string   `json:"completion,omitempty"`
	Messages     []Spoken `json:"messages,omitempty"`
	Chosen       any      `json:"chosen,omitempty"`
	Rejected     any      `json:"rejected,omitempty"`
	IDs          []int32  `json:"-"` // tokens of a text, with those that begin and end it
	PromptTokens int      `json:"-"` // the first ones of IDs that are its prompt
}

// Spoken is a message of an Example.
type Spoken struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Schedule is how the learning rate changes.
type Schedule struct {
	Name       string // "constant", "linear_schedule", "cosine_decay", "exponential_decay", "step_decay"
	Arguments  []float64
	Warmup     int
	WarmupInit float64
}

// TrainConfig is how an adapter is trained; zero is mlx-lm's default.
type TrainConfig struct {
	Data     string            // a folder with train.jsonl, or a file; "": Examples
	Examples iter.Seq[Example] // slices.Values makes one of a list
	Valid    iter.Seq[Example] // whose loss is told from time to time
	Test     iter.Seq[Example] // whose loss is told at the end
	Adapter  string            // folder for the adapter and the state; "": nothing is saved
	Resume   bool              // go on from the state there
	Keep     bool              // an adapter that is there is an error

	Loss      string                                    // "": cross_entropy
	LossFunc  func(logits, targets, mask *Array) *Array // records the loss, in the place of Loss
	LossBeta  float64                                   // of dpo and orpo
	Optimizer OptimizerConfig
	Schedule  *Schedule

	Iterations, BatchSize, Accumulate, MaxSeqLength int
	ValidBatches, TestBatches                       int
	ReportEvery, ValidEvery, SaveEvery              int
	ValidShare, ClipNorm                            float64
	Seed                                            uint64
	MaskPrompt, Pack, Checkpoint, SkipBad           bool
	RunTest, NoTrain                                bool
	MemoryLimitBytes                                uint64
	Log, TensorBoard                                string

	OnReport func(TrainReport) // in the goroutine of Train
}

// TrainReport is what OnReport is told.
type TrainReport struct {
	Event                                string // "plan", "train", "valid", "test", "saved", "note"
	Iteration, Iterations                int
	Loss, Rate, Norm                     float64
	TokensPerSecond, IterationsPerSecond float64
	TrainedTokens, MemoryBytes           uint64
	Left                                 time.Duration // 0: not known
	Text                                 string
}

// TrainResult is what training came to. A loss that was not computed is NaN.
type TrainResult struct {
	Iteration                      int
	TrainLoss, ValidLoss, TestLoss float64
	TrainedTokens, PeakMemoryBytes uint64
	Duration                       time.Duration
}

var tuneEvents = []string{C.MICA_TUNE_PLAN: "plan", C.MICA_TUNE_TRAIN: "train",
	C.MICA_TUNE_VALID: "valid", C.MICA_TUNE_TEST: "test", C.MICA_TUNE_SAVED: "saved",
	C.MICA_TUNE_NOTE: "note"}

// Train trains the parameters. ctx ends it, once the state was saved, with its own error.
func (a *LoRAAdapter) Train(ctx context.Context, config TrainConfig) (TrainResult, error) {
	var mem memory
	defer mem.free()
	var result C.mica_tune_result
	result.struct_bytes = C.size_t(unsafe.Sizeof(result))
	o := mem.tuneOptions(&config)
	var called error // of a function of the config's
	if config.Data == "" {
		source := sourceOf(&config, &called)
		defer func() { source.given.free() }()
		o.source = C.mica_tune_source(C.mica_go_source)
		o.source_user = register(&mem, sourceFunc(source.next))
	}
	if config.LossFunc != nil {
		r := recording{s: &scope{device: a.device, depth: 0}, fn: func(args []*Array) []*Array {
			return []*Array{config.LossFunc(args[0], args[1], args[2])}
		}}
		defer r.s.letGo()
		o.loss_fn = C.mica_compile_fn(C.mica_go_record)
		o.loss_user = register(&mem, recordFunc(func(s *C.mica_scope, args, results []C.mica_array) C.mica_status {
			status := r.record(s, args, results)
			called = r.err
			return status
		}))
	}
	err := watched(ctx, func(flag *C.mica_cancel) error {
		o.cancel = flag
		return a.with(func(t *C.mica_tuner) C.mica_status { return C.mica_tune(t, o, &result) })
	})
	if called != nil {
		err = called
	}
	return TrainResult{int(result.iteration), float64(result.train_loss),
		float64(result.valid_loss), float64(result.test_loss), uint64(result.trained_tokens),
		uint64(result.peak_bytes), seconds(result.seconds)}, err
}

func (m *memory) tuneOptions(config *TrainConfig) *C.mica_tune_options {
	o := made[C.mica_tune_options](m)
	o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
	o.data, o.adapter = m.optional(config.Data), m.optional(config.Adapter)
	o.loss, o.log = m.optional(config.Loss), m.optional(config.Log)
	o.tensorboard = m.optional(config.TensorBoard)
	o.loss_options.beta = C.double(config.LossBeta)
	o.optimizer = m.optimizer(config.Optimizer)
	if config.Schedule != nil {
		o.schedule = m.schedule(config.Schedule)
	}
	for _, row := range []struct {
		place *C.int64_t
		value int
	}{
		{&o.iterations, config.Iterations}, {&o.batch_size, config.BatchSize},
		{&o.accumulate, config.Accumulate}, {&o.max_seq_length, config.MaxSeqLength},
		{&o.valid_batches, config.ValidBatches}, {&o.test_batches, config.TestBatches},
		{&o.report_every, config.ReportEvery}, {&o.valid_every, config.ValidEvery},
		{&o.save_every, config.SaveEvery},
	} {
		*row.place = C.int64_t(row.value)
	}
	for _, row := range []struct {
		place *C.bool
		value bool
	}{
		{&o.mask_prompt, config.MaskPrompt}, {&o.pack, config.Pack},
		{&o.checkpoint, config.Checkpoint}, {&o.skip_bad, config.SkipBad},
		{&o.resume, config.Resume}, {&o.keep_existing, config.Keep},
		{&o.test, config.RunTest}, {&o.no_train, config.NoTrain},
	} {
		*row.place = C.bool(row.value)
	}
	o.valid_share, o.clip_norm = C.double(config.ValidShare), C.double(config.ClipNorm)
	o.seed, o.memory_limit_bytes = C.uint64_t(config.Seed), C.uint64_t(config.MemoryLimitBytes)
	if config.OnReport != nil {
		o.watch = C.mica_tune_watch(C.mica_go_report)
		o.watch_user = register(m, reportFunc(func(r *C.mica_tune_report) { config.OnReport(reportOf(r)) }))
	}
	return o
}

func reportOf(r *C.mica_tune_report) TrainReport {
	return TrainReport{tuneEvents[r.event], int(r.iteration), int(r.iterations), float64(r.loss),
		float64(r.rate), float64(r.norm), float64(r.tokens_per_second),
		float64(r.iterations_per_second), uint64(r.trained_tokens), uint64(r.memory_bytes),
		seconds(r.seconds_left), C.GoString(r.text)}
}

func (m *memory) schedule(schedule *Schedule) *C.mica_schedule {
	s := made[C.mica_schedule](m)
	s.name, s.warmup = m.optional(schedule.Name), C.int64_t(schedule.Warmup)
	s.warmup_init, s.n_arguments = C.double(schedule.WarmupInit), C.size_t(len(schedule.Arguments))
	for i, v := range schedule.Arguments {
		if i < len(s.arguments) { // more are an error of C's, by their number
			s.arguments[i] = C.double(v)
		}
	}
	return s
}

// source gives C the examples of a config.
type source struct {
	given memory // to C, until the next example
	err   *error
	sets  map[C.mica_tune_set][]Example
}

func sourceOf(config *TrainConfig, err *error) *source {
	s := &source{err: err, sets: map[C.mica_tune_set][]Example{}}
	for set, examples := range map[C.mica_tune_set]iter.Seq[Example]{
		C.MICA_TUNE_SET_TRAIN: config.Examples, C.MICA_TUNE_SET_VALID: config.Valid,
		C.MICA_TUNE_SET_TEST: config.Test} {
		if examples != nil { // all are read before the first step in any case
			s.sets[set] = slices.Collect(examples)
		}
	}
	return s
}

func (s *source) next(set C.mica_tune_set, example *C.mica_tune_example, there *C.bool) C.mica_status {
	s.given.free()
	s.given = memory{}
	if *there = C.bool(len(s.sets[set]) > 0); !*there {
		return C.MICA_OK
	}
	value := s.sets[set][0]
	s.sets[set] = s.sets[set][1:]
	if len(value.IDs) > 0 {
		example.ids, example.count = s.given.ids(value.IDs), C.size_t(len(value.IDs))
		example.prompt = C.size_t(value.PromptTokens)
		return C.MICA_OK
	}
	line, err := json.Marshal(value)
	if err != nil {
		*s.err = err
		return C.MICA_ECANCELLED
	}
	example.line, example.len = s.given.text(string(line)), C.size_t(len(line))
	return C.MICA_OK
}
