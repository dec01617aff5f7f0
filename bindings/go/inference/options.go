package inference

import (
	"context"
	"encoding/json"
)

// LoadConfig is how a model is opened; zero is the default.
type LoadConfig struct {
	Backend     string // the engine: "native", "mlx_lm"
	ContextLen  int    // bound of a session's caches, in tokens
	AdapterPath string // folder of a LoRA adapter
	GPULayers   int    // layers for an accelerator; 0: the engine decides
	Device      string // "cpu", "cuda:0", "mlx"
	Threads     int    // of a device of the model's own
	Exact       bool   // arithmetic without quantised activations
	NoMmap      bool   // read the weights instead of mapping them
	Prefetch    bool   // read all weights ahead
	Lock        bool   // keep the weights in memory

	ChatTemplate string                   // a Jinja template in the place of the folder's
	Progress     func(done, total uint64) // bytes that are loaded
	Context      context.Context          // ends the loading
}

// LoadOption is an option of LoadModel.
type LoadOption func(*LoadConfig)

// NewLoadConfig is what options come to.
func NewLoadConfig(options ...LoadOption) LoadConfig {
	var config LoadConfig
	for _, option := range options {
		option(&config)
	}
	return config
}

// WithBackend names the engine: "native", "mlx_lm", or one that was registered.
func WithBackend(name string) LoadOption { return func(c *LoadConfig) { c.Backend = name } }

// WithContextLen bounds a session's caches to so many tokens: older ones are forgotten.
func WithContextLen(n int) LoadOption { return func(c *LoadConfig) { c.ContextLen = n } }

// WithAdapterPath adds the LoRA adapter of a folder, mlx-lm's or PEFT's.
func WithAdapterPath(folder string) LoadOption {
	return func(c *LoadConfig) { c.AdapterPath = folder }
}

// WithGPULayers is the number of layers that an accelerator computes. Info().Note says if it has
// no effect.
func WithGPULayers(n int) LoadOption { return func(c *LoadConfig) { c.GPULayers = n } }

// WithDevice names the device: "cpu", "cuda:0", "mlx".
func WithDevice(name string) LoadOption { return func(c *LoadConfig) { c.Device = name } }

// WithThreads gives the model a device of its own with so many threads.
func WithThreads(n int) LoadOption { return func(c *LoadConfig) { c.Threads = n } }

// WithExact computes without quantising activations: the reference.
func WithExact() LoadOption { return func(c *LoadConfig) { c.Exact = true } }

// WithNoMmap reads the weights into memory: their files may then change while the model is open.
func WithNoMmap() LoadOption { return func(c *LoadConfig) { c.NoMmap = true } }

// WithPrefetch reads all weights ahead.
func WithPrefetch() LoadOption { return func(c *LoadConfig) { c.Prefetch = true } }

// WithLock keeps the weights in memory until the model is closed.
func WithLock() LoadOption { return func(c *LoadConfig) { c.Lock = true } }

// WithChatTemplate is a Jinja template in the place of the folder's.
func WithChatTemplate(template string) LoadOption {
	return func(c *LoadConfig) { c.ChatTemplate = template }
}

// WithLoadProgress is told how many bytes are loaded, in the goroutine of LoadModel.
func WithLoadProgress(progress func(done, total uint64)) LoadOption {
	return func(c *LoadConfig) { c.Progress = progress }
}

// WithLoadContext ends the loading when ctx ends.
func WithLoadContext(ctx context.Context) LoadOption {
	return func(c *LoadConfig) { c.Context = ctx }
}

// Constraint is what an answer may say.
type Constraint struct {
	Kind string // "json_object", "json_schema", "regex", "choice", "grammar"
	Text string // a schema, an expression, a JSON array of texts, a grammar
}

// LogitBias is a number that is added to a token's logit.
type LogitBias struct {
	ID   int32
	Bias float32
}

// GenerateConfig is how an answer is made; zero is the default. Temperature 0 takes the likeliest
// token.
type GenerateConfig struct {
	MaxTokens, MinTokens              int
	Temperature, TopP, MinP           float64
	TopK                              int
	RepetitionPenalty                 float64
	PresencePenalty, FrequencyPenalty float64
	PenaltyWindow                     int
	LogitBias                         []LogitBias
	Seed                              uint64
	StopTokens                        []int32
	StopStrings                       []string
	DraftTokens                       int
	Logprobs                          bool
	IgnoreEOS, Echo, Truncate         bool
	ContinueLast                      bool

	Constraint        Constraint
	Tools             []Tool
	TemplateVariables map[string]any

	Labels     []string // of Classify
	Logits     bool     // of Classify
	AsChat     bool     // of Classify and BatchGenerate: a prompt is a user's message
	Parallel   int      // of BatchGenerate: rows that are computed together; 0: 8
	OnToken    func(row int, token Token)
	OnProgress func(done, total uint64) // of the prefill, in tokens

	Error   *error   // receives the error of this answer
	Metrics *Metrics // receives those of this answer
	Finish  *Finish  // receives why this answer ended
	Failed  error    // of an option itself: it is the answer's error
}

// GenerateOption is an option of an answer.
type GenerateOption func(*GenerateConfig)

// NewGenerateConfig is what options come to.
func NewGenerateConfig(options ...GenerateOption) GenerateConfig {
	var config GenerateConfig
	for _, option := range options {
		option(&config)
	}
	return config
}

// WithMaxTokens ends an answer after n tokens.
func WithMaxTokens(n int) GenerateOption { return func(c *GenerateConfig) { c.MaxTokens = n } }

// WithMinTokens lets no stop end an answer before n tokens.
func WithMinTokens(n int) GenerateOption { return func(c *GenerateConfig) { c.MinTokens = n } }

// WithTemperature samples; 0 takes the likeliest token.
func WithTemperature(t float64) GenerateOption {
	return func(c *GenerateConfig) { c.Temperature = t }
}

// WithTopK samples from the k likeliest tokens.
func WithTopK(k int) GenerateOption { return func(c *GenerateConfig) { c.TopK = k } }

// WithTopP samples from the fewest tokens whose probabilities reach p.
func WithTopP(p float64) GenerateOption { return func(c *GenerateConfig) { c.TopP = p } }

// WithMinP samples from tokens of at least p times the best one's probability.
func WithMinP(p float64) GenerateOption { return func(c *GenerateConfig) { c.MinP = p } }

// WithSeed sets the seed of sampling.
func WithSeed(seed uint64) GenerateOption { return func(c *GenerateConfig) { c.Seed = seed } }

// WithRepetitionPenalty makes tokens of the prompt and the answer less likely; 1: not.
func WithRepetitionPenalty(p float64) GenerateOption {
	return func(c *GenerateConfig) { c.RepetitionPenalty = p }
}

// WithPenalties makes tokens of the answer less likely, as OpenAI defines it.
func WithPenalties(presence, frequency float64) GenerateOption {
	return func(c *GenerateConfig) { c.PresencePenalty, c.FrequencyPenalty = presence, frequency }
}

// WithPenaltyWindow is the number of last tokens that penalties apply to; 0: 20.
func WithPenaltyWindow(n int) GenerateOption { return func(c *GenerateConfig) { c.PenaltyWindow = n } }

// WithLogitBias adds to the logit of a token; negative infinity forbids it.
func WithLogitBias(id int32, bias float32) GenerateOption {
	return func(c *GenerateConfig) { c.LogitBias = append(c.LogitBias, LogitBias{id, bias}) }
}

// WithStopTokens ends an answer at any of the tokens, too.
func WithStopTokens(ids ...int32) GenerateOption {
	return func(c *GenerateConfig) { c.StopTokens = ids }
}

// WithStop ends an answer before any of the texts.
func WithStop(texts ...string) GenerateOption {
	return func(c *GenerateConfig) { c.StopStrings = texts }
}

// WithDraftTokens drafts up to n tokens at once: the same answer, often faster.
func WithDraftTokens(n int) GenerateOption { return func(c *GenerateConfig) { c.DraftTokens = n } }

// WithLogprobs gives tokens their log-probability.
func WithLogprobs() GenerateOption { return func(c *GenerateConfig) { c.Logprobs = true } }

// WithIgnoreEOS goes on behind the model's own end: for benchmarks.
func WithIgnoreEOS() GenerateOption { return func(c *GenerateConfig) { c.IgnoreEOS = true } }

// WithEcho hands out the prompt's tokens first.
func WithEcho() GenerateOption { return func(c *GenerateConfig) { c.Echo = true } }

// WithTruncate cuts a prompt that is longer than the context.
func WithTruncate() GenerateOption { return func(c *GenerateConfig) { c.Truncate = true } }

// WithContinueLast continues the conversation's last message, which is the assistant's.
func WithContinueLast() GenerateOption { return func(c *GenerateConfig) { c.ContinueLast = true } }

// WithTools gives an answer tools to call: Model.Respond reads the calls.
func WithTools(tools ...Tool) GenerateOption { return func(c *GenerateConfig) { c.Tools = tools } }

// WithJSON makes the answer a JSON object.
func WithJSON() GenerateOption { return constraint("json_object", "") }

// WithSchema makes the answer a document of a JSON schema: its text, or what json.Marshal makes a
// schema of.
func WithSchema(schema any) GenerateOption {
	switch text := schema.(type) {
	case string:
		return constraint("json_schema", text)
	case []byte:
		return constraint("json_schema", string(text))
	}
	return marshalled("json_schema", schema)
}

// WithRegex makes the answer match a regular expression as a whole.
func WithRegex(expression string) GenerateOption { return constraint("regex", expression) }

// WithChoice makes the answer one of the texts.
func WithChoice(texts ...string) GenerateOption { return marshalled("choice", texts) }

// WithGrammar makes the answer a text of a grammar, in GBNF or in Lark's notation.
func WithGrammar(grammar string) GenerateOption { return constraint("grammar", grammar) }

func constraint(kind, text string) GenerateOption {
	return func(c *GenerateConfig) { c.Constraint = Constraint{kind, text} }
}

func marshalled(kind string, value any) GenerateOption {
	text, err := json.Marshal(value)
	return func(c *GenerateConfig) {
		c.Constraint = Constraint{kind, string(text)}
		if err != nil {
			c.Failed = err
		}
	}
}

// WithTemplateVariables gives variables to the model's chat template.
func WithTemplateVariables(values map[string]any) GenerateOption {
	return func(c *GenerateConfig) { c.TemplateVariables = values }
}

// WithLabels are what Classify tells probabilities of. They are tokenised alone: write the space
// before a word if the model's tokens include it.
func WithLabels(labels ...string) GenerateOption {
	return func(c *GenerateConfig) { c.Labels = labels }
}

// WithLogits keeps the logits in the results of Classify.
func WithLogits() GenerateOption { return func(c *GenerateConfig) { c.Logits = true } }

// WithAsChat makes each prompt of Classify and BatchGenerate a user's message.
func WithAsChat() GenerateOption { return func(c *GenerateConfig) { c.AsChat = true } }

// WithParallel is the number of rows that BatchGenerate computes together; 0: 8.
func WithParallel(n int) GenerateOption { return func(c *GenerateConfig) { c.Parallel = n } }

// WithOnToken is told of each token, with its row in BatchGenerate, else 0, in the caller's
// goroutine.
func WithOnToken(told func(row int, token Token)) GenerateOption {
	return func(c *GenerateConfig) { c.OnToken = told }
}

// WithProgress is told how much of the prompt is computed.
func WithProgress(progress func(done, total uint64)) GenerateOption {
	return func(c *GenerateConfig) { c.OnProgress = progress }
}

// WithError stores this answer's error in *err when its loop ends: where several goroutines ask one
// model, Err tells that of any.
func WithError(err *error) GenerateOption { return func(c *GenerateConfig) { c.Error = err } }

// WithMetrics stores this answer's metrics when its loop ends.
func WithMetrics(metrics *Metrics) GenerateOption {
	return func(c *GenerateConfig) { c.Metrics = metrics }
}

// WithFinish stores why this answer ended when its loop ends.
func WithFinish(finish *Finish) GenerateOption {
	return func(c *GenerateConfig) { c.Finish = finish }
}
