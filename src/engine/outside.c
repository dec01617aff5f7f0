/* Engines that a mica_engine describes (mica/engine.h): its functions compute ids, and the text
 * side of answers is mica's. */
#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"
#include "engine/engine.h"
#include "session/answer.h"
#include "session/sampler.h"

typedef struct outside_model {
    const mica_engine *calls;
    void *state;
    const mc_prompt *prompt;
    int64_t vocab, room;
} outside_model;

typedef struct outside_session {
    const outside_model *model;
    void *state;      /* the engine's; its model where sessions have none */
    uint64_t streams; /* answers that have begun, and resets */
} outside_session;

typedef struct outside_stream {
    outside_session *session;
    mc_answer answer;
    void *state;
    uint64_t number; /* session->streams when it began; 0: it has not begun */
    bool over;       /* the engine is asked no more */
    int64_t decoded; /* tokens after the first */
    uint64_t prefill_us, decode_us;
} outside_stream;

static mica_status name_engine(const mica_engine *calls, mica_status status) {
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "engine %s", calls->name);
}

/* ---- models ---- */

static mica_status available(const mc_engine *engine, const mica_model_options *options) {
    const mica_engine *calls = engine->outside;
    return calls->available ? calls->available(calls->user, options) : MICA_OK;
}

static bool takes(const mc_engine *engine, const char *folder) {
    const mica_engine *calls = engine->outside;
    return calls->takes && calls->takes(calls->user, folder);
}

/* What the engine tells, without NULL for texts that callers print. */
static mica_status read_info(const outside_model *model, const mc_family *family,
                             mica_model_info *info) {
    const mica_engine *calls = model->calls;
    const mica_model_info *told = calls->model_info ? calls->model_info(model->state) : NULL;
    MC_TRY(MC_OPTIONS_COPY(mica_model_info, expert_size, info, told));
    if (!info->family) info->family = family ? family->name : "";
    if (!info->architecture) info->architecture = info->family;
    if (!info->dtype) info->dtype = "";
    if (!info->quantization) info->quantization = "";
    return MICA_OK;
}

static void close_model(void *state) {
    outside_model *model = state;
    if (model->state) model->calls->model_close(model->state);
    mc_free(model);
}

static mica_status open_state(outside_model *model, const char *folder,
                              const mica_model_options *options) {
    const mica_engine *calls = model->calls;
    mica_status status = calls->model_open(calls->user, folder, options, &model->state);
    if (status != MICA_OK) model->state = NULL;
    if (status == MICA_OK && !model->state)
        status = mc_fail(MICA_EINTERNAL, "model_open gave no model");
    return status;
}

static mica_status open_model(const mc_engine *engine, const char *folder,
                              const mica_model_options *options, const mc_file_watch *watch,
                              mc_engine_model *out) {
    const mc_family *family;
    (void)watch;
    outside_model *model = mc_calloc(1, sizeof *model);
    if (!model) return mc_fail_nomem("a model");
    model->calls = engine->outside;
    (void)mc_engine_find_family(folder, &family); /* it need not be one that mica knows */
    mica_status status = open_state(model, folder, options);
    if (status == MICA_OK) status = read_info(model, family, &out->info);
    if (status != MICA_OK) {
        close_model(model);
        return name_engine(engine->outside, status);
    }
    model->vocab = out->info.vocab_size;
    model->room = out->info.context_length > 0 ? out->info.context_length : INT32_MAX;
    out->state = model;
    out->chat = family ? family->chat : NULL;
    return MICA_OK;
}

static void take_prompt(void *state, const mc_prompt *prompt) {
    outside_model *model = state;
    model->prompt = prompt;
    if (model->vocab <= 0) model->vocab = (int64_t)mica_tokenizer_vocab_size(prompt->tokenizer);
}

/* ---- sessions ---- */

static mica_status session_open(const void *state, const mica_session_options *options,
                                void **out) {
    const outside_model *model = state;
    const mica_engine *calls = model->calls;
    if (!calls->session_open && options->draft_model)
        return mc_fail(MICA_EUNSUPPORTED, "engine %s: no draft models: the engine native has them",
                       calls->name);
    outside_session *session = mc_calloc(1, sizeof *session);
    if (!session) return mc_fail_nomem("a session");
    session->model = model;
    session->state = model->state;
    if (calls->session_open) {
        mica_status status = calls->session_open(model->state, options, &session->state);
        if (status != MICA_OK) {
            mc_free(session);
            return name_engine(calls, status);
        }
    }
    *out = session;
    return MICA_OK;
}

static void session_close(void *state) {
    outside_session *session = state;
    if (session->model->calls->session_close) session->model->calls->session_close(session->state);
    mc_free(session);
}

static void session_reset(void *state) {
    outside_session *session = state;
    session->streams++;
    if (session->model->calls->session_reset) session->model->calls->session_reset(session->state);
}

/* ---- streams ---- */

/* What is left of the options for the engine: the text side is done here. */
static mica_generate_options engine_options(const outside_stream *stream,
                                            const mica_generate_options *options) {
    const mc_answer *answer = &stream->answer;
    mica_generate_options left = *options;
    int64_t room = answer->room - answer->prompt + 1;
    left.stop_ids = MC_BUFFER_AT(&answer->stops, int32_t);
    left.stop_count = MC_BUFFER_COUNT(&answer->stops, int32_t);
    left.stop_strings = NULL;
    left.stop_string_count = 0;
    left.template_variables = left.tools = NULL;
    left.echo = left.truncate = left.continue_last = false;
    left.logprobs = options->logprobs || options->top_logprobs;
    if (room < INT32_MAX && (!left.max_tokens || left.max_tokens > room)) left.max_tokens = room;
    return left;
}

static void stream_close(void *state) {
    outside_stream *stream = state;
    if (stream->state) stream->session->model->calls->answer_close(stream->state);
    mc_answer_close(&stream->answer);
    mc_free(stream);
}

static mica_status open_answer(outside_stream *stream, const int32_t *ids, size_t count,
                               const mica_generate_options *options) {
    const outside_model *model = stream->session->model;
    const mc_buffer *stops = &model->prompt->stops;
    const mc_answer_model said = {
        .vocab = model->vocab,
        .room = model->room,
        .stop_ids = MC_BUFFER_AT(stops, int32_t),
        .stop_count = MC_BUFFER_COUNT(stops, int32_t),
        .tokenizer = model->prompt->tokenizer,
    };
    mc_sampling sampling;
    MC_TRY(mc_answer_open(&stream->answer, &said, ids, count, options));
    MC_TRY(mc_sampling_check(options, model->vocab, &sampling));
    const mica_generate_options left = engine_options(stream, options);
    mica_status status = model->calls->answer_open(
        stream->session->state, MC_BUFFER_AT(&stream->answer.text.ids, int32_t),
        (size_t)stream->answer.prompt, &left, &stream->state);
    if (status != MICA_OK) stream->state = NULL;
    if (status == MICA_OK && !stream->state)
        status = mc_fail(MICA_EINTERNAL, "answer_open gave no answer");
    return name_engine(model->calls, status);
}

static mica_status stream_open(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **out) {
    outside_stream *stream = mc_calloc(1, sizeof *stream);
    if (!stream) return mc_fail_nomem("a stream");
    stream->session = session;
    mica_status status = open_answer(stream, ids, count, options);
    if (status == MICA_OK)
        *out = stream;
    else
        stream_close(stream);
    return status;
}

/* Asks the engine for a token and checks it. */
static mica_status ask(outside_stream *stream, mica_token *token, mica_finish *end) {
    const outside_model *model = stream->session->model;
    *token = (mica_token){.id = -1};
    mica_status status = model->calls->answer_next(stream->state, token, end);
    stream->over = status != MICA_OK || *end != MICA_FINISH_NONE;
    token->text = "";
    token->len = 0;
    token->prompt = false;
    if (status == MICA_ECANCELLED) return mc_fail(status, "the answer was cancelled");
    MC_TRY(name_engine(model->calls, status));
    if (*end == MICA_FINISH_NONE && (token->id < 0 || token->id >= model->vocab))
        return mc_fail(MICA_EINTERNAL, "engine %s: token %d, past the model's vocabulary of %lld",
                       model->calls->name, (int)token->id, (long long)model->vocab);
    return MICA_OK;
}

/* mc_answer_compute */
static mica_status compute(void *context, mica_token *token, mica_finish *end) {
    outside_stream *stream = context;
    outside_session *session = stream->session;
    bool first = !stream->number;
    if (first)
        stream->number = ++session->streams;
    else if (stream->number != session->streams)
        return mc_fail(
            MICA_EINVAL,
            "the session was reset, or another answer of it has begun: this one is over");
    uint64_t start = mc_now_us();
    mica_status status = ask(stream, token, end);
    if (status != MICA_OK || *end != MICA_FINISH_NONE) return status;
    if (first) {
        stream->prefill_us = mc_now_us() - start;
    } else {
        stream->decode_us += mc_now_us() - start;
        stream->decoded++;
    }
    return MICA_OK;
}

static void cancel_engine(const outside_stream *stream) {
    const mica_engine *calls = stream->session->model->calls;
    if (calls->answer_cancel) calls->answer_cancel(stream->state);
}

static bool stream_next(void *state, mica_token *token) {
    outside_stream *stream = state;
    bool given = mc_answer_next(&stream->answer, compute, stream, token);
    /* A stop string or a limit has ended it: the engine need not compute more. */
    if (stream->answer.ended && !stream->over) {
        stream->over = true;
        cancel_engine(stream);
    }
    return given;
}

static mica_finish stream_finish(const void *state) {
    const outside_stream *stream = state;
    return stream->answer.finish;
}

static mica_status stream_status(const void *state) {
    const outside_stream *stream = state;
    return stream->answer.status;
}

static void stream_cancel(void *state) {
    outside_stream *stream = state;
    mc_answer_cancel(&stream->answer);
    cancel_engine(stream);
}

static mica_metrics stream_metrics(const void *state) {
    const outside_stream *stream = state;
    const mica_engine *calls = stream->session->model->calls;
    mica_metrics m;
    const mica_metrics *told = calls->answer_metrics ? calls->answer_metrics(stream->state) : NULL;
    if (MC_OPTIONS_COPY(mica_metrics, total_seconds, &m, told) != MICA_OK) m = (mica_metrics){0};
    m.prompt_tokens = stream->answer.prompt;
    m.truncated_tokens = stream->answer.truncated;
    m.generated_tokens = stream->answer.generated;
    if (!(m.prefill_seconds > 0)) m.prefill_seconds = (double)stream->prefill_us * 1e-6;
    if (!(m.decode_seconds > 0)) m.decode_seconds = (double)stream->decode_us * 1e-6;
    if (!(m.total_seconds > 0)) m.total_seconds = mc_answer_seconds(&stream->answer);
    if (!(m.prefill_rate > 0) && m.prefill_seconds > 0)
        m.prefill_rate = (double)(m.prompt_tokens - m.reused_tokens) / m.prefill_seconds;
    if (!(m.decode_rate > 0) && m.decode_seconds > 0)
        m.decode_rate = (double)stream->decoded / m.decode_seconds;
    return m;
}

const mc_engine_ops mc_outside_ops = {
    .available = available,
    .takes = takes,
    .open = open_model,
    .take_prompt = take_prompt,
    .close = close_model,
    .session_open = session_open,
    .session_close = session_close,
    .session_reset = session_reset,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_next = stream_next,
    .stream_finish = stream_finish,
    .stream_status = stream_status,
    .stream_cancel = stream_cancel,
    .stream_metrics = stream_metrics,
};
