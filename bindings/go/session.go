package mica

// #include "callbacks.h"
import "C"

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"
	"unsafe"

	"mica/inference"
)

// Session is the history of one conversation: what a prompt has in common with it is not computed
// again. It has one answer at a time.
type Session struct {
	model  *Model
	handle *C.mica_session
	guard  guard
	busy   sync.Mutex
}

// Answer is what a model said, thought and called. Its Message goes into the next prompt.
type Answer struct {
	Message
	Finish  Finish
	Metrics Metrics
}

// NewSession opens an empty session. The caller closes it.
func (m *Model) NewSession() (*Session, error) {
	return m.openSession(func(model *C.mica_model, out **C.mica_session) C.mica_status {
		return C.mica_session_open(model, nil, out)
	})
}

// LoadSession opens a session that Save has written, of the same model.
func (m *Model) LoadSession(path string) (*Session, error) {
	var mem memory
	defer mem.free()
	file := mem.text(path)
	return m.openSession(func(model *C.mica_model, out **C.mica_session) C.mica_status {
		return C.mica_session_load(model, file, nil, out)
	})
}

func (m *Model) openSession(open func(*C.mica_model, **C.mica_session) C.mica_status) (*Session, error) {
	var handle *C.mica_session // alone: C gets no pointer into what has pointers of Go's
	err := m.with(func(model *C.mica_model) error {
		return check(func() C.mica_status { return open(model, &handle) })
	})
	if err != nil {
		return nil, err
	}
	s := &Session{model: m, handle: handle}
	h := s.handle // not s: what frees an object must not keep it
	s.guard.free = func() { C.mica_session_close(&h) }
	return s, nil
}

// Close ends the session, with the answer that is under way. Closing again does nothing.
func (s *Session) Close() error {
	s.guard.close()
	return nil
}

// with does a call with the session, which is neither freed nor used elsewhere meanwhile.
func (s *Session) with(call func(*C.mica_session) error) error {
	if !s.busy.TryLock() {
		return ErrBusy
	}
	defer s.busy.Unlock()
	return s.guard.with(func() error { return call(s.handle) })
}

// Reset forgets the history.
func (s *Session) Reset() error {
	return s.with(func(session *C.mica_session) error {
		C.mica_session_reset(session)
		return nil
	})
}

// Fork opens a session with the same history: both go on from there.
func (s *Session) Fork() (fork *Session, err error) {
	err = s.with(func(session *C.mica_session) error {
		fork, err = s.model.openSession(func(_ *C.mica_model, out **C.mica_session) C.mica_status {
			return C.mica_session_fork(session, out)
		})
		return err
	})
	return fork, err
}

// Save writes the history to a file, whole or not at all.
func (s *Session) Save(path string) error {
	var mem memory
	defer mem.free()
	file := mem.text(path)
	return s.with(func(session *C.mica_session) error {
		return check(func() C.mica_status { return C.mica_session_save(session, file) })
	})
}

// Generate continues a text, as Model.Generate does.
func (s *Session) Generate(ctx context.Context, prompt string, options ...GenerateOption) iter.Seq[Token] {
	return s.answer(ctx, options, func(mem *memory, session *C.mica_session,
		o *C.mica_generate_options, out **C.mica_stream) C.mica_status {
		return C.mica_generate(session, mem.text(prompt), C.size_t(len(prompt)), o, out)
	})
}

// Chat answers a conversation, as Model.Chat does.
func (s *Session) Chat(ctx context.Context, messages []Message, options ...GenerateOption) iter.Seq[Token] {
	return s.answer(ctx, options, chatOpener(messages))
}

// opener starts an answer.
type opener func(*memory, *C.mica_session, *C.mica_generate_options, **C.mica_stream) C.mica_status

func chatOpener(messages []Message) opener {
	return func(mem *memory, session *C.mica_session, o *C.mica_generate_options,
		out **C.mica_stream) C.mica_status {
		return C.mica_chat(session, mem.messages(messages), C.size_t(len(messages)), o, out)
	}
}

func (s *Session) answer(ctx context.Context, options []GenerateOption, open opener) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		config := inference.NewGenerateConfig(options...)
		s.stream(ctx, &config, open, func(token *C.mica_token) bool {
			said := tokenOf(token)
			if config.OnToken != nil {
				config.OnToken(0, said)
			}
			return yield(said)
		})
	}
}

func tokenOf(token *C.mica_token) Token {
	return Token{ID: int32(token.id), Text: goText(token.text, token.len),
		Logprob: float32(token.logprob)}
}

// stream computes an answer, and tells everybody who asked how it ended.
func (s *Session) stream(ctx context.Context, config *inference.GenerateConfig, open opener,
	yield func(*C.mica_token) bool) (Metrics, Finish, error) {
	var metrics Metrics
	var finish Finish
	err := config.Failed
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.model.guard.with(func() error { // it is not freed while an answer goes on
			return s.with(func(session *C.mica_session) error {
				return run(ctx, session, config, open, yield, &metrics, &finish)
			})
		})
	}
	err = cancelled(ctx, err)
	if config.Error != nil {
		*config.Error = err
	}
	if config.Metrics != nil {
		*config.Metrics = metrics
	}
	if config.Finish != nil {
		*config.Finish = finish
	}
	s.model.ended(err, metrics)
	return metrics, finish, err
}

func run(ctx context.Context, session *C.mica_session, config *inference.GenerateConfig, open opener,
	yield func(*C.mica_token) bool, metrics *Metrics, finish *Finish) error {
	var mem memory
	defer mem.free()
	o, err := mem.generateOptions(config)
	if err != nil {
		return err
	}
	var stream *C.mica_stream
	err = watched(ctx, func(flag *C.mica_cancel) error { // while a template is rendered
		o.cancel = flag
		return check(func() C.mica_status { return open(&mem, session, o, &stream) })
	})
	if err != nil {
		return err
	}
	var guard sync.Mutex // of stream, which whoever cancels must find open
	stop := context.AfterFunc(ctx, func() {
		guard.Lock()
		defer guard.Unlock()
		C.mica_stream_cancel(stream)
	})
	defer func() {
		stop()
		guard.Lock()
		defer guard.Unlock()
		*metrics, *finish = measure(stream), finishOf(C.mica_stream_finish(stream))
		C.mica_stream_close(&stream)
	}()
	return tokens(ctx, stream, yield)
}

// tokens hands out what a stream computes. A call a token: it is not made in a locked thread.
func tokens(ctx context.Context, stream *C.mica_stream, yield func(*C.mica_token) bool) error {
	var next struct {
		token  C.mica_token
		status C.mica_status
		text   [1024]C.char
	}
	for C.mica_go_next(stream, &next.token, &next.status, &next.text[0], C.size_t(len(next.text))) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(&next.token) {
			return nil
		}
	}
	return rowError(next.status, &next.text[0])
}

func finishOf(finish C.mica_finish) Finish {
	switch finish {
	case C.MICA_FINISH_STOP:
		return FinishStop
	case C.MICA_FINISH_LENGTH:
		return FinishLength
	case C.MICA_FINISH_CANCELLED:
		return FinishCancelled
	case C.MICA_FINISH_ERROR:
		return FinishError
	}
	return FinishNone
}

func seconds(s C.double) time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

func metricsOf(v *C.mica_metrics) Metrics {
	return Metrics{
		PromptTokens: int(v.prompt_tokens), ReusedTokens: int(v.reused_tokens),
		GeneratedTokens: int(v.generated_tokens), TruncatedTokens: int(v.truncated_tokens),
		ForgottenTokens: int(v.forgotten_tokens), DraftedTokens: int(v.drafted_tokens),
		AcceptedTokens: int(v.accepted_tokens), PrefillDuration: seconds(v.prefill_seconds),
		DecodeDuration: seconds(v.decode_seconds), TotalDuration: seconds(v.total_seconds),
		PrefillTokensPerSecond: float64(v.prefill_rate),
		DecodeTokensPerSecond:  float64(v.decode_rate),
		PeakMemoryBytes:        uint64(v.peak_bytes), ActiveMemoryBytes: uint64(v.active_bytes),
		FallbackOps: uint64(v.fallback_ops),
	}
}

func measure(stream *C.mica_stream) Metrics {
	var v C.mica_metrics
	v.struct_bytes = C.size_t(unsafe.Sizeof(v))
	C.mica_stream_metrics(stream, &v)
	return metricsOf(&v)
}

// Respond answers a conversation and reads the answer, as Model.Respond does.
func (s *Session) Respond(ctx context.Context, messages []Message, options ...GenerateOption) (*Answer, error) {
	config := inference.NewGenerateConfig(options...)
	_, ids, err := s.model.Render(messages, options...)
	if err != nil {
		return nil, err
	}
	var mem memory
	defer mem.free()
	tools, err := mem.tools(config.Tools)
	if err != nil {
		return nil, err
	}
	var answer *C.mica_answer
	o := made[C.mica_answer_options](&mem)
	o.struct_bytes, o.tools = C.size_t(unsafe.Sizeof(*o)), tools
	o.prompt, o.prompt_count = mem.ids(ids), C.size_t(len(ids))
	err = s.model.with(func(model *C.mica_model) error {
		return check(func() C.mica_status { return C.mica_answer_open(model, o, &answer) })
	})
	if err != nil {
		return nil, err
	}
	defer C.mica_answer_close(&answer)
	var pushed error
	metrics, finish, err := s.stream(ctx, &config, chatOpener(messages), func(token *C.mica_token) bool {
		if config.OnToken != nil {
			config.OnToken(0, tokenOf(token))
		}
		pushed = check(func() C.mica_status { return C.mica_answer_push_token(answer, token) })
		return pushed == nil
	})
	if err == nil {
		err = pushed
	}
	if err == nil {
		err = check(func() C.mica_status { return C.mica_answer_end(answer) })
	}
	return &Answer{readAnswer(answer), finish, metrics}, err
}

func readAnswer(answer *C.mica_answer) Message {
	var n C.size_t
	message := Message{Role: "assistant"}
	message.Content = goText(C.mica_answer_text(answer, &n), n)
	message.Thoughts = goText(C.mica_answer_thoughts(answer, &n), n)
	var call C.mica_tool_call
	for i := C.size_t(0); i < C.mica_answer_call_count(answer); i++ {
		if C.mica_answer_get_call(answer, i, &call) == C.MICA_OK {
			message.ToolCalls = append(message.ToolCalls, ToolCall{ID: C.GoString(call.id),
				Name: C.GoString(call.name), Arguments: C.GoString(call.arguments)})
		}
	}
	return message
}

var constraints = map[string]C.mica_constraint_kind{
	"": C.MICA_CONSTRAINT_NONE, "json_object": C.MICA_CONSTRAINT_JSON_OBJECT,
	"json_schema": C.MICA_CONSTRAINT_JSON_SCHEMA, "regex": C.MICA_CONSTRAINT_REGEX,
	"choice": C.MICA_CONSTRAINT_CHOICE, "grammar": C.MICA_CONSTRAINT_GRAMMAR,
	"gbnf": C.MICA_CONSTRAINT_GBNF, "lark": C.MICA_CONSTRAINT_LARK,
}

func (m *memory) generateOptions(c *inference.GenerateConfig) (*C.mica_generate_options, error) {
	o := made[C.mica_generate_options](m)
	o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
	o.max_tokens, o.min_tokens = C.int64_t(c.MaxTokens), C.int64_t(c.MinTokens)
	o.temperature, o.top_p, o.min_p = C.float(c.Temperature), C.float(c.TopP), C.float(c.MinP)
	o.top_k, o.seed = C.int(c.TopK), C.uint64_t(c.Seed)
	o.repetition_penalty = C.float(c.RepetitionPenalty)
	o.presence_penalty = C.float(c.PresencePenalty)
	o.frequency_penalty = C.float(c.FrequencyPenalty)
	o.penalty_window, o.draft_tokens = C.int(c.PenaltyWindow), C.int(c.DraftTokens)
	o.stop_ids, o.stop_count = m.ids(c.StopTokens), C.size_t(len(c.StopTokens))
	o.stop_strings, o.stop_string_count = m.texts(c.StopStrings), C.size_t(len(c.StopStrings))
	o.logprobs, o.ignore_eos = C.bool(c.Logprobs), C.bool(c.IgnoreEOS)
	o.echo, o.truncate = C.bool(c.Echo), C.bool(c.Truncate)
	o.continue_last = C.bool(c.ContinueLast)
	bias, places := list[C.mica_logit_bias](m, len(c.LogitBias))
	for i, b := range c.LogitBias {
		places[i].id, places[i].bias = C.int32_t(b.ID), C.float(b.Bias)
	}
	o.logit_bias, o.logit_bias_count = bias, C.size_t(len(c.LogitBias))
	if c.OnProgress != nil {
		o.progress = C.mica_progress(C.mica_go_progress)
		o.progress_user = register(m, progressFunc(c.OnProgress))
	}
	kind, known := constraints[c.Constraint.Kind]
	if !known {
		return nil, invalid("there is no constraint %q", c.Constraint.Kind)
	}
	o.constraint, o.constraint_text = kind, m.optional(c.Constraint.Text)
	var err error
	if o.tools, err = m.tools(c.Tools); err != nil {
		return nil, err
	}
	if c.TemplateVariables != nil {
		text, err := json.Marshal(c.TemplateVariables)
		if err != nil {
			return nil, err
		}
		o.template_variables = m.text(string(text))
	}
	return o, c.Failed
}

// tools are a JSON array as chat templates take it; nil for none.
func (m *memory) tools(tools []Tool) (*C.char, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	type function struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	}
	functions := make([]function, len(tools))
	for i, tool := range tools {
		functions[i] = function{"function", tool}
	}
	text, err := json.Marshal(functions)
	return m.text(string(text)), err
}

func (m *memory) messages(messages []Message) *C.mica_message {
	p, array := list[C.mica_message](m, len(messages))
	for i, message := range messages {
		o := &array[i]
		o.struct_bytes = C.size_t(unsafe.Sizeof(*o))
		o.role, o.name = m.text(message.Role), m.optional(message.Name)
		o.thoughts = m.optional(message.Thoughts)
		o.tool_call_id = m.optional(message.ToolCallID)
		if message.Content != "" || len(message.ToolCalls) == 0 {
			o.content = m.text(message.Content)
		}
		calls, places := list[C.mica_tool_call](m, len(message.ToolCalls))
		for k, call := range message.ToolCalls {
			places[k].name, places[k].arguments = m.text(call.Name), m.text(call.Arguments)
			places[k].id = m.optional(call.ID)
		}
		o.tool_calls, o.tool_call_count = calls, C.size_t(len(message.ToolCalls))
	}
	return p
}
