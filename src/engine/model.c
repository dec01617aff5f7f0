/* mica/model.h: models, sessions and streams are handles that call their engine. */
#include "engine/model.h"
#include "answer/format.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system.h"
#include "engine/engine.h"
#include "grammar/grammar_constraint.h"
#include "group/group.h"
#include "text/chat/chat_shape.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct mica_model {
    atomic_uint count; /* its handle, the sessions that use it, and tasks that run */
    const mc_engine *engine;
    mc_engine_model opened; /* state NULL: not open */
    mc_prompt prompt;
    mc_answer_format format;
    mc_grammars *grammars;
    char *path;
};

struct mica_session {
    atomic_uint count;               /* its handle and its streams */
    const mica_model *model, *draft; /* held; draft NULL: none */
    void *state;
};

struct mica_stream {
    const mc_engine_ops *engine;
    mica_session *session; /* held */
    void *state;
};

/* ---- models ---- */

/* Opening the prompt (tokenizer, chat template) in a thread of its own. A tokenizer of 262,144
 * tokens takes longer to open than all else before the first token; weights are read ahead
 * meanwhile. */
typedef struct prompt_work {
    const char *path, *chat_template;
    mc_prompt *prompt;
    mica_status status;
    char error[1024]; /* that thread's error text, if status is an error */
    atomic_bool done;
} prompt_work;

static void *open_prompt(void *context) {
    prompt_work *work = context;
    work->status = mc_prompt_open(work->path, work->chat_template, work->prompt);
    if (work->status != MICA_OK) snprintf(work->error, sizeof work->error, "%s", mica_last_error());
    atomic_store(&work->done, true);
    return NULL;
}

static mica_status until_done(void *context, size_t bytes) {
    (void)bytes;
    const prompt_work *work = context;
    return atomic_load(&work->done) ? MICA_ECANCELLED : MICA_OK;
}

static mica_status until_failed(void *context, size_t bytes) {
    (void)bytes;
    const prompt_work *work = context;
    return atomic_load(&work->done) ? work->status : MICA_OK;
}

/* Opens prompt and weights. If both fail, the prompt's error is returned. */
static mica_status open_both(mica_model *model, const mica_model_options *options) {
    prompt_work work = {
        .path = model->path, .chat_template = options->chat_template, .prompt = &model->prompt};
    pthread_t thread;
    bool apart = mc_thread_start(&thread, open_prompt, &work) == 0;
    if (!apart) open_prompt(&work);
    const mc_engine *engine = model->engine;
    mica_status status = engine->ops->open(engine, model->path, options,
                                           &(mc_file_watch){until_failed, &work}, &model->opened);
    if (status == MICA_OK && engine->ops->prefetch)
        engine->ops->prefetch(model->opened.state, &(mc_file_watch){until_done, &work});
    if (apart) pthread_join(thread, NULL);
    return work.status == MICA_OK ? status : mc_fail(work.status, "%s", work.error);
}

/* What does not depend on the engine. */
static mica_status check_options(const mica_model_options *options) {
    if (options->context_length < 0)
        return mc_fail(MICA_EINVAL, "context_length %lld: want 1 or more, or 0 for the model's own",
                       (long long)options->context_length);
    if (options->accelerator_layers < MICA_NO_LAYERS)
        return mc_fail(
            MICA_EINVAL,
            "accelerator_layers %d: want 1 or more, 0 for the engine's choice, or -1 for none",
            options->accelerator_layers);
    if (options->arithmetic < MICA_ARITHMETIC_DEFAULT || options->arithmetic > MICA_ARITHMETIC_FAST)
        return mc_fail(MICA_EINVAL, "arithmetic %d: want default (0), exact (1) or fast (2)",
                       (int)options->arithmetic);
    if (options->cache < MICA_CACHE_DEFAULT || options->cache > MICA_CACHE_INT8)
        return mc_fail(MICA_EINVAL,
                       "cache %d: want default (0), f32 (1), f16 (2), bf16 (3) or int8 (4)",
                       (int)options->cache);
    return MICA_OK;
}

/* Finds out what the model writes in its answers, and tells it. */
static void tell_format(mica_model *model) {
    mica_model_info *info = &model->opened.info;
    const mc_str source = mc_model_template(model);
    model->format = mc_answer_format_find(source, model->prompt.tokenizer);
    bool shown = source.len || model->format.calls->channels;
    if (shown) info->call_format = model->format.calls->name;
    info->thought_mark = model->format.thoughts;
    if (info->thought_mark) info->thinking_variable = mc_chat_shape_variable(source);
}

static mica_status choose(mica_model *model, const char *path, const mica_model_options *options,
                          mc_engine_choice *choice) {
    MC_TRY(mc_engine_choose(options->engine, path, options, choice));
    model->engine = choice->engine;
    model->path = mc_strdup(path);
    return model->path ? MICA_OK : mc_fail_nomem("a model");
}

/* shared: given to an engine that computes on mica's devices, if options have none; NULL: none */
static mica_status open_parts(mica_model *model, const mc_engine_choice *choice,
                              mica_model_options *options, mica_device *shared) {
    if (!options->device && model->engine->ops->local) options->device = shared;
    mica_status status = open_both(model, options);
    if (status != MICA_OK && *choice->hint)
        return mc_fail(status, "%s; %s", mica_last_error(), choice->hint);
    MC_TRY(status);
    model->engine->ops->take_prompt(model->opened.state, &model->prompt);
    mica_model_info *info = &model->opened.info;
    info->path = model->path;
    info->engine = model->engine->name;
    if (!info->vocab_size)
        info->vocab_size = (int64_t)mica_tokenizer_vocab_size(model->prompt.tokenizer);
    tell_format(model);
    return mc_grammars_open(model->prompt.tokenizer, (size_t)info->vocab_size, &model->grammars);
}

/* One line, and one for each remark. */
static void log_open(const mica_model *model) {
    const mica_model_info *info = &model->opened.info;
    mc_log_line(MICA_LOG_INFO, "opened the model %s with the engine %s", model->path, info->engine);
    for (const char *line = info->note; line && *line;) {
        size_t len = strcspn(line, "\n");
        mc_log_line(MICA_LOG_NOTE, "%s: %.*s", model->path, (int)len, line);
        line += len + (line[len] == '\n');
    }
}

mica_status mc_model_open(const char *path, const mica_model_options *options, mica_device *shared,
                          mica_model **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_model_open: model is NULL");
    *out = NULL;
    if (!path) return mc_fail(MICA_EINVAL, "mica_model_open: path is NULL");
    mica_model_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_model_options, pipeline_parallel, &given, options));
    MC_TRY(check_options(&given));
    mica_model *model = mc_calloc(1, sizeof *model);
    if (!model) return mc_group_end_on(given.group, mc_fail_nomem("a model"));
    atomic_init(&model->count, 1u);
    mc_engine_choice choice;
    mica_status status = mc_group_outcome(given.group, choose(model, path, &given, &choice));
    if (status == MICA_OK)
        status = mc_group_outcome(given.group, open_parts(model, &choice, &given, shared));
    if (status == MICA_OK) {
        log_open(model);
        *out = model;
    } else {
        mica_model_close(&model);
    }
    return status;
}

mica_status mica_model_open(const char *path, const mica_model_options *options, mica_model **out) {
    return mc_model_open(path, options, NULL, out);
}

const mica_model *mc_model_retain(const mica_model *model) {
    if (model) atomic_fetch_add_explicit(&((mica_model *)model)->count, 1u, memory_order_relaxed);
    return model;
}

void mc_model_release(const mica_model *held) {
    mica_model *model = (mica_model *)held;
    if (!model || atomic_fetch_sub_explicit(&model->count, 1u, memory_order_acq_rel) != 1u) return;
    if (model->opened.state) mc_log_line(MICA_LOG_INFO, "closed the model %s", model->path);
    if (model->opened.state) model->engine->ops->close(model->opened.state);
    mc_engine_release(model->engine);
    mc_grammars_close(&model->grammars);
    mc_prompt_close(&model->prompt);
    mc_free(model->path);
    mc_free(model);
}

void mica_model_close(mica_model **model) {
    if (!model) return;
    mica_model *m = *model;
    *model = NULL;
    mc_model_release(m);
}

void mica_model_get_info(const mica_model *model, mica_model_info *info) {
    const mica_model_info none = {0};
    MC_INFO_COPY(mica_model_info, expert_size, info, model ? &model->opened.info : &none);
}

bool mica_model_get_kernels(const mica_model *model, size_t i, mica_model_kernels *kernels) {
    mica_model_kernels found = {0};
    if (model && model->engine->ops->kernels)
        found = model->engine->ops->kernels(model->opened.state, i);
    MC_INFO_COPY(mica_model_kernels, many_rows, kernels, &found);
    return found.matrix != NULL;
}

uint64_t mica_model_cache_bytes(const mica_model *model, int64_t tokens) {
    if (!model || !model->engine->ops->cache_bytes) return 0;
    return model->engine->ops->cache_bytes(model->opened.state, tokens);
}

const mica_tokenizer *mica_model_tokenizer(const mica_model *model) {
    return model ? model->prompt.tokenizer : NULL;
}

mica_device *mica_model_device(const mica_model *model) {
    return model ? model->opened.device : NULL;
}

mica_status mc_model_local(const mica_model *model, const mc_session_model **local) {
    if (!model->engine->ops->local)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: the engine %s cannot do this: open the model with "
                       "the engine native",
                       model->path, model->engine->name);
    *local = model->engine->ops->local(model->opened.state);
    return MICA_OK;
}

/* Renders a conversation to the text of a prompt, for the function `caller`. */
static mica_status render(const mica_model *model, const char *caller, const mica_message *messages,
                          size_t count, const mica_generate_options *options, mc_buffer *text) {
    mica_generate_options given;
    if (!messages || !count) return mc_fail(MICA_EINVAL, "%s: no messages", caller);
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, &given, options));
    return mc_prompt_text(&model->prompt, model->opened.chat, messages, count, &given, text);
}

mica_status mc_model_chat(const mica_model *model, const mica_message *messages, size_t count,
                          const mica_generate_options *options, int32_t **ids, size_t *n) {
    mc_buffer text = {0};
    mica_status status = render(model, "mica_chat", messages, count, options, &text);
    if (status == MICA_OK) status = mc_prompt_encode_rendered(&model->prompt, &text, ids, n);
    mc_buffer_deinit(&text);
    return status;
}

mica_status mica_model_render(const mica_model *model, const mica_message *messages, size_t count,
                              const mica_generate_options *options, char **text, size_t *len,
                              int32_t **ids, size_t *n) {
    mc_buffer made = {0};
    int32_t *list = NULL;
    size_t tokens = 0;
    if (text) *text = NULL;
    if (len) *len = 0;
    if (ids) *ids = NULL;
    if (n) *n = 0;
    if (!model || (ids && !n))
        return mc_fail(MICA_EINVAL, "mica_model_render: %s is NULL", model ? "n" : "model");
    mica_status status = render(model, "mica_model_render", messages, count, options, &made);
    if (status == MICA_OK && !mc_buffer_cstr(&made)) status = mc_fail_nomem("a prompt");
    if (status == MICA_OK && n)
        status = mc_prompt_encode_rendered(&model->prompt, &made, &list, &tokens);
    if (status == MICA_OK && len) *len = made.len;
    if (status == MICA_OK && n) *n = tokens;
    if (status == MICA_OK && ids) {
        *ids = list;
        list = NULL;
    }
    if (status == MICA_OK && text) {
        *text = made.data;
        made = (mc_buffer){0};
    }
    mica_free(list);
    mc_buffer_deinit(&made);
    return status;
}

mc_grammars *mc_model_grammars(const mica_model *model) {
    return model->grammars;
}

const mc_answer_format *mc_model_format(const mica_model *model) {
    return &model->format;
}

mc_str mc_model_template(const mica_model *model) {
    return model->prompt.chat ? mc_chat_template_source(model->prompt.chat) : (mc_str){"", 0};
}

mica_status mc_model_render_json(const mica_model *model, const mc_prompt_request *request,
                                 mc_buffer *text) {
    return mc_prompt_render_json(&model->prompt, model->opened.chat, request, text);
}

/* ---- sessions ---- */

mica_status mc_model_session(const mica_session *session, mc_session **local) {
    const mc_session_model *model;
    MC_TRY(mc_model_local(session->model, &model));
    *local = session->state;
    return MICA_OK;
}

/* Opens the session saved at `path`; path NULL: an empty session. */
static mica_status open_session(const mica_model *model, const char *path,
                                const mica_session_options *options, mica_session **out) {
    const mc_engine_ops *engine = model->engine->ops;
    mica_session_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_session_options, draft_model, &given, options));
    mica_session *session = mc_calloc(1, sizeof *session);
    if (!session) return mc_fail_nomem("a session");
    atomic_init(&session->count, 1u);
    mica_status status =
        path ? engine->session_load(model->opened.state, path, &given, &session->state)
             : engine->session_open(model->opened.state, &given, &session->state);
    if (status != MICA_OK) {
        mc_free(session);
        return status;
    }
    session->model = mc_model_retain(model);
    session->draft = mc_model_retain(given.draft_model);
    *out = session;
    return MICA_OK;
}

mica_status mica_session_open(const mica_model *model, const mica_session_options *options,
                              mica_session **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_session_open: session is NULL");
    *out = NULL;
    if (!model) return mc_fail(MICA_EINVAL, "mica_session_open: model is NULL");
    return open_session(model, NULL, options, out);
}

mica_status mica_session_fork(mica_session *session, mica_session **out) {
    if (out) *out = NULL;
    if (!session || !out)
        return mc_fail(MICA_EINVAL, "mica_session_fork: %s is NULL", session ? "fork" : "session");
    const mc_engine *engine = session->model->engine;
    if (!engine->ops->session_fork)
        return mc_fail(MICA_EUNSUPPORTED, "the engine \"%s\" cannot fork sessions", engine->name);
    mica_session *fork = mc_calloc(1, sizeof *fork);
    if (!fork) return mc_fail_nomem("a session");
    mica_status status = engine->ops->session_fork(session->state, &fork->state);
    if (status != MICA_OK) {
        mc_free(fork);
        return status;
    }
    atomic_init(&fork->count, 1u);
    fork->model = mc_model_retain(session->model);
    fork->draft = mc_model_retain(session->draft);
    *out = fork;
    return MICA_OK;
}

static mica_status cannot_save(const mc_engine *engine) {
    return mc_fail(MICA_EUNSUPPORTED, "the engine \"%s\" cannot save sessions", engine->name);
}

mica_status mica_session_save(const mica_session *session, const char *path) {
    if (!session || !path)
        return mc_fail(MICA_EINVAL, "mica_session_save: %s is NULL", session ? "path" : "session");
    const mc_engine *engine = session->model->engine;
    if (!engine->ops->session_save) return cannot_save(engine);
    return engine->ops->session_save(session->state, path);
}

mica_status mica_session_load(const mica_model *model, const char *path,
                              const mica_session_options *options, mica_session **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_session_load: session is NULL");
    *out = NULL;
    if (!model || !path)
        return mc_fail(MICA_EINVAL, "mica_session_load: %s is NULL", model ? "path" : "model");
    if (!model->engine->ops->session_load) return cannot_save(model->engine);
    return open_session(model, path, options, out);
}

static void release_session(mica_session *session) {
    if (atomic_fetch_sub_explicit(&session->count, 1u, memory_order_acq_rel) != 1u) return;
    session->model->engine->ops->session_close(session->state);
    mc_model_release(session->draft);
    mc_model_release(session->model);
    mc_free(session);
}

void mica_session_close(mica_session **session) {
    if (!session || !*session) return;
    mica_session *s = *session;
    *session = NULL;
    release_session(s);
}

void mica_session_reset(mica_session *session) {
    if (session) session->model->engine->ops->session_reset(session->state);
}

/* ---- streams ---- */

static void close_stream(mica_stream *stream) {
    stream->engine->stream_close(stream->state);
    mc_free(stream);
}

/* Constrains a stream to what the options ask for. */
static mica_status constrain(const mica_model *model, mica_stream *stream, const int32_t *ids,
                             size_t count, bool is_chat, const mica_generate_options *options) {
    mc_constraint *constraint;
    MC_TRY(mc_model_constrain(model, ids, count, is_chat, options, &constraint));
    return constraint ? stream->engine->stream_constrain(stream->state, constraint) : MICA_OK;
}

static mica_status check_constraint(const mc_engine *engine, const mica_generate_options *options) {
    if (options->constraint == MICA_CONSTRAINT_NONE || engine->ops->stream_constrain)
        return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "constraint: the engine \"%s\" has none; the engine native has them",
                   engine->name);
}

static mica_status open_stream(mica_session *session, const int32_t *ids, size_t count,
                               bool is_chat, const mica_generate_options *options,
                               mica_stream **out) {
    const mc_engine *engine = session->model->engine;
    mica_generate_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, &given, options));
    MC_TRY(check_constraint(engine, &given));
    mica_stream *stream = mc_calloc(1, sizeof *stream);
    if (!stream) return mc_fail_nomem("a stream");
    stream->engine = engine->ops;
    mica_status status =
        stream->engine->stream_open(session->state, ids, count, &given, &stream->state);
    if (status != MICA_OK) {
        mc_free(stream);
        return status;
    }
    status = constrain(session->model, stream, ids, count, is_chat, &given);
    if (status != MICA_OK) {
        close_stream(stream);
        return status;
    }
    atomic_fetch_add_explicit(&session->count, 1u, memory_order_relaxed);
    stream->session = session;
    *out = stream;
    return MICA_OK;
}

mica_status mica_generate_ids(mica_session *session, const int32_t *ids, size_t count,
                              const mica_generate_options *options, mica_stream **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_generate_ids: stream is NULL");
    *out = NULL;
    if (!session) return mc_fail(MICA_EINVAL, "mica_generate_ids: session is NULL");
    if (!ids && count) return mc_fail(MICA_EINVAL, "mica_generate_ids: ids is NULL");
    return open_stream(session, ids, count, false, options, out);
}

mica_status mica_generate(mica_session *session, const char *prompt, size_t len,
                          const mica_generate_options *options, mica_stream **stream) {
    int32_t *ids;
    size_t n;
    if (!stream) return mc_fail(MICA_EINVAL, "mica_generate: stream is NULL");
    *stream = NULL;
    if (!session || !prompt)
        return mc_fail(MICA_EINVAL, "mica_generate: %s is NULL", session ? "prompt" : "session");
    if (!len) len = strlen(prompt);
    if (!len) return mc_fail(MICA_EINVAL, "the prompt is empty: give at least one character");
    MC_TRY(mc_prompt_encode(session->model->prompt.tokenizer, prompt, len, &ids, &n));
    mica_status status = mica_generate_ids(session, ids, n, options, stream);
    mica_free(ids);
    return status;
}

mica_status mica_chat(mica_session *session, const mica_message *messages, size_t count,
                      const mica_generate_options *options, mica_stream **stream) {
    int32_t *ids;
    size_t n;
    if (!stream) return mc_fail(MICA_EINVAL, "mica_chat: stream is NULL");
    *stream = NULL;
    if (!session) return mc_fail(MICA_EINVAL, "mica_chat: session is NULL");
    MC_TRY(mc_model_chat(session->model, messages, count, options, &ids, &n));
    mica_status status = open_stream(session, ids, n, true, options, stream);
    mica_free(ids);
    return status;
}

bool mica_stream_next(mica_stream *stream, mica_token *token) {
    return stream && token && stream->engine->stream_next(stream->state, token);
}

const char *mica_finish_name(mica_finish finish) {
    static const char *const names[] = {"none", "stop", "length", "cancelled", "error"};
    size_t i = (size_t)finish;
    return i < sizeof names / sizeof *names ? names[i] : "unknown";
}

mica_finish mica_stream_finish(const mica_stream *stream) {
    return stream ? stream->engine->stream_finish(stream->state) : MICA_FINISH_NONE;
}

mica_status mica_stream_status(const mica_stream *stream) {
    if (!stream) return mc_fail(MICA_EINVAL, "mica_stream_status: stream is NULL");
    return stream->engine->stream_status(stream->state);
}

void mica_stream_cancel(mica_stream *stream) {
    if (stream) stream->engine->stream_cancel(stream->state);
}

void mica_stream_metrics(const mica_stream *stream, mica_metrics *metrics) {
    mica_metrics found = {0};
    if (stream) found = stream->engine->stream_metrics(stream->state);
    MC_INFO_COPY(mica_metrics, total_seconds, metrics, &found);
}

void mica_stream_close(mica_stream **stream) {
    if (!stream || !*stream) return;
    mica_stream *s = *stream;
    *stream = NULL;
    mica_session *session = s->session;
    close_stream(s);
    release_session(session);
}
