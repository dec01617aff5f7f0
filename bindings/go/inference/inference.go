// Package inference is what programs need to know of a model, whoever computes it: messages, tokens,
// options, and a registry that engines enter when they are imported.
//
//	import (
//		"mica/inference"
//		_ "mica"
//	)
//
//	m, err := inference.LoadModel("models/default")
//	defer m.Close()
//	for tok := range m.Generate(ctx, "The sea is", inference.WithMaxTokens(128)) {
//		fmt.Print(tok.Text)
//	}
//	err = m.Err()
//
// It has no C in it. Package mica has all of its names, too: a program that uses mica alone imports
// that.
package inference

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"
	"sync"
	"time"
)

// Token is a piece of an answer.
type Token struct {
	ID      int32   // -1: text that was held back before the end
	Text    string  // whole characters; "" while one is incomplete, and of special tokens
	Logprob float32 // ln P, with WithLogprobs
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID        string // by which the result names the call
	Name      string // the tool's
	Arguments string // a JSON object
}

// Message is one of a conversation.
type Message struct {
	Role       string // "system", "user", "assistant", "tool"
	Content    string
	Name       string     // of who speaks, or of the tool whose result it is
	Thoughts   string     // what the assistant thought
	ToolCalls  []ToolCall // of the assistant
	ToolCallID string     // the call whose result it is
}

// Tool is a function that a model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters,omitempty"` // a JSON schema: json.RawMessage, a map ...
}

// Metrics are counts and rates of an answer.
type Metrics struct {
	PromptTokens, ReusedTokens, GeneratedTokens    int
	PrefillDuration, DecodeDuration, TotalDuration time.Duration
	PrefillTokensPerSecond, DecodeTokensPerSecond  float64
	PeakMemoryBytes, ActiveMemoryBytes             uint64
	TruncatedTokens, ForgottenTokens               int
	DraftedTokens, AcceptedTokens                  int
	FallbackOps                                    uint64
}

// Info is what a model is.
type Info struct {
	Path, Engine, Family, Architecture, DType, Quantization string
	Parameters, ActiveParameters                            uint64
	WeightBytes, ActiveBytes                                uint64
	NumLayers, HiddenSize, IntermediateSize                 int
	Heads, KVHeads, HeadDim, VocabSize                      int
	ContextLen, SlidingWindow                               int
	QuantBits, QuantGroup                                   int
	Adapter                                                 string // the folder; "": none
	Experts, ExpertsPerToken, ExpertSize                    int    // of a layer; 0: it has none
	CallFormat                                              string // how it calls tools; "": it does not
	ThoughtMark                                             string // what begins a thought; "": none
	ThinkingVariable                                        string // of the template, for how it thinks
	Note                                                    string // remarks from opening
}

// BatchResult is an answer of a batch. Err is nil, or what ended it: others are not affected.
type BatchResult struct {
	Text    string
	Tokens  []Token // their texts are in Text alone
	Finish  Finish
	Metrics Metrics
	Err     error
}

// ClassifyResult is what follows a prompt. Err is nil, or what was wrong with this one.
type ClassifyResult struct {
	Token       Token // the likeliest, or the one that was drawn (WithTemperature)
	Probability float64
	Label       string    // with WithLabels: the likeliest
	Labels      []float64 // with WithLabels: the probability of each label's first token
	Logits      []float32 // with WithLogits
	Err         error
}

// Attention is the queries and keys of a prompt, after their norms and rotation.
type Attention struct {
	IDs                     []int32
	Heads, KVHeads, HeadDim int
	Layers                  []AttentionLayer
}

// AttentionLayer is those of a layer: row-major [heads, tokens, head_dim].
type AttentionLayer struct {
	Layer         int
	Queries, Keys []float32
}

// Finish is why an answer ended.
type Finish string

// Reasons for an answer's end.
const (
	FinishNone      Finish = "none"
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"
	FinishCancelled Finish = "cancelled"
	FinishError     Finish = "error"
)

// TextModel is a model.
type TextModel interface {
	// Generate continues a text; Err tells afterwards what failed.
	Generate(ctx context.Context, prompt string, options ...GenerateOption) iter.Seq[Token]
	// Chat answers a conversation in the model's chat format.
	Chat(ctx context.Context, messages []Message, options ...GenerateOption) iter.Seq[Token]
	// Classify tells what follows each prompt.
	Classify(ctx context.Context, prompts []string, options ...GenerateOption) ([]ClassifyResult, error)
	// BatchGenerate continues many texts together.
	BatchGenerate(ctx context.Context, prompts []string, options ...GenerateOption) ([]BatchResult, error)
	// ModelType is the model's family, such as "gemma3".
	ModelType() string
	Info() Info
	// Metrics are those of the last Generate or Chat.
	Metrics() Metrics
	// Err is the error of the last Generate or Chat.
	Err() error
	// Close ends the model. Closing again does nothing.
	Close() error
}

// AttentionInspector is a model that shows its attention.
type AttentionInspector interface {
	InspectAttention(ctx context.Context, prompt string, layers ...int) (*Attention, error)
}

// Tokenizer is a model that encodes.
type Tokenizer interface {
	Encode(text string) ([]int32, error)
	Decode(ids []int32) (string, error)
}

// Backend is an engine. Its LoadModel gets the options of the caller's.
type Backend interface {
	Name() string
	Available() bool
	LoadModel(path string, config LoadConfig) (TextModel, error)
}

var (
	lock     sync.Mutex
	backends = map[string]Backend{}
	order    []string
)

// Register enters an engine; an import's init does. One of the same name is replaced.
func Register(backend Backend) {
	lock.Lock()
	defer lock.Unlock()
	name := backend.Name()
	if _, there := backends[name]; !there {
		order = append(order, name)
	}
	backends[name] = backend
}

// Get is the engine of a name.
func Get(name string) (Backend, bool) {
	lock.Lock()
	defer lock.Unlock()
	backend, there := backends[name]
	return backend, there
}

// List has the names of all engines.
func List() []string {
	lock.Lock()
	defer lock.Unlock()
	names := append([]string(nil), order...)
	sort.Strings(names)
	return names
}

// ErrNoBackend is the error where no engine was imported.
var ErrNoBackend = errors.New(`inference: no engine is available: import _ "mica"`)

// Default is the first engine, in the order of registration, that is available.
func Default() (Backend, error) {
	lock.Lock()
	found := make([]Backend, 0, len(order))
	for _, name := range order {
		found = append(found, backends[name])
	}
	lock.Unlock()
	for _, backend := range found {
		if backend.Available() {
			return backend, nil
		}
	}
	return nil, ErrNoBackend
}

// LoadModel opens a model's folder with the engine that WithBackend names, else with Default.
func LoadModel(path string, options ...LoadOption) (TextModel, error) {
	config := NewLoadConfig(options...)
	if config.Backend == "" {
		backend, err := Default()
		if err != nil {
			return nil, err
		}
		return backend.LoadModel(path, config)
	}
	backend, there := Get(config.Backend)
	if !there {
		return nil, fmt.Errorf("inference: no engine %q: there are %s", config.Backend,
			strings.Join(List(), ", "))
	}
	return backend.LoadModel(path, config)
}
