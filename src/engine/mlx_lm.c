/* The engine mlx_lm: Python's mlx-lm, in a process of its own for each model (mlx_lm_child.h). It
 * is written against the public mica_engine, as an application's engine is. */
#include "base/alloc.h"
#include "base/json_write.h"
#include "base/options.h"
#include "engine/engine.h"
#include "engine/mlx_lm_child.h"
#include "io/folder.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TOP = 10000 }; /* so many alternatives fit in a reply */

typedef struct mlx_model {
    mc_mlx_lm *child;
    mica_model_info info;
    mc_buffer note; /* text; empty: none */
    char architecture[128], dtype[32], quantization[96], *adapter;
} mlx_model;

typedef struct mlx_session {
    const mlx_model *model;
    int64_t prefill_chunk;
} mlx_session;

/* ---- availability ---- */

static mica_status settle(const mica_model_options *options, mc_mlx_lm_settings *settings) {
    mica_mlx_lm_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_mlx_lm_options, silence_seconds, &given,
                           options ? options->mlx_lm : NULL));
    return mc_mlx_lm_settle(&given, settings);
}

static mica_status available(void *user, const mica_model_options *options) {
    mc_mlx_lm_settings settings;
    (void)user;
    MC_TRY(settle(options, &settings));
    return mc_mlx_lm_check(&settings, options ? options->cancel : NULL);
}

static bool takes(void *user, const char *path) {
    (void)user;
    return mc_model_folder_is(path);
}

/* ---- models ---- */

static mica_status cannot(const char *option, const char *why) {
    return mc_fail(MICA_EUNSUPPORTED, "%s: %s; the engine native has it", option, why);
}

/* no_mmap and prefetch ask for what it does anyway: it reads all weights into its memory before it
 * replies to `load`. */
static mica_status check_options(const mica_model_options *o) {
    if (o->device || o->device_name) return cannot("device", "mlx-lm computes on its own");
    if (o->threads) return cannot("threads", "mlx-lm chooses their number");
    if (o->cache != MICA_CACHE_DEFAULT) return cannot("cache", "mlx-lm has its own type of caches");
    if (o->context_length) return cannot("context_length", "mlx-lm's caches hold the whole text");
    if (o->mlock) return cannot("mlock", "mlx-lm cannot lock its memory");
    return MICA_OK;
}

static bool put(mc_buffer *request, const char *key) {
    return mc_buffer_printf(request, ", \"%s\": ", key);
}

static bool put_text(mc_buffer *request, const char *key, const char *text) {
    return put(request, key) && mc_json_put_text(request, text);
}

static bool put_int(mc_buffer *request, const char *key, int64_t value) {
    return mc_buffer_printf(request, ", \"%s\": %lld", key, (long long)value);
}

static bool put_load(mc_buffer *request, const char *path, const mica_model_options *options) {
    return mc_buffer_add_text(request, "{\"cmd\": \"load\"") && put_text(request, "path", path) &&
           (!options->adapter || put_text(request, "adapter", options->adapter));
}

static void read_text(mc_json reply, const char *key, char *out, size_t room) {
    mc_str text = {"", 0};
    (void)mc_json_get_str(mc_json_find(reply, key), &text);
    mc_mlx_lm_show(text, out, room);
}

static int64_t read_int(mc_json reply, const char *key) {
    int64_t value = 0;
    (void)mc_json_get_int(mc_json_find(reply, key), &value);
    return value > 0 ? value : 0;
}

static void read_quantization(mlx_model *model, mc_json reply) {
    int64_t bits = read_int(reply, "bits"), group = read_int(reply, "group_size");
    char mode[16];
    read_text(reply, "mode", mode, sizeof mode);
    snprintf(model->quantization, sizeof model->quantization, "none");
    if (!bits || !group || bits > INT_MAX || group > INT_MAX) return;
    model->info.bits = (int)bits;
    model->info.group_size = (int)group;
    snprintf(model->quantization, sizeof model->quantization, "%d bit, groups of %d (%s)",
             model->info.bits, model->info.group_size, *mode ? mode : "affine");
}

/* What the child told when it had loaded the model. */
static mica_status describe(mlx_model *model, mc_json reply, const mica_model_options *options) {
    read_text(reply, "model_type", model->architecture, sizeof model->architecture);
    read_text(reply, "dtype", model->dtype, sizeof model->dtype);
    model->info = (mica_model_info){
        .architecture = model->architecture,
        .dtype = model->dtype,
        .quantization = model->quantization,
        .arithmetic = MICA_ARITHMETIC_EXACT,
        .layers = read_int(reply, "layers"),
        .hidden_size = read_int(reply, "hidden_size"),
        .heads = read_int(reply, "heads"),
        .kv_heads = read_int(reply, "kv_heads"),
        .head_dim = read_int(reply, "head_dim"),
        .intermediate_size = read_int(reply, "intermediate_size"),
        .vocab_size = read_int(reply, "vocab_size"),
        .context_length = read_int(reply, "context_length"),
        .parameters = (uint64_t)read_int(reply, "parameters"),
        .weight_bytes = (uint64_t)read_int(reply, "weight_bytes"),
        .adapter = model->adapter,
    };
    read_quantization(model, reply);
    if (!options->accelerator_layers) return MICA_OK;
    if (!mc_buffer_printf(&model->note,
                          "accelerator_layers %d has no effect: mlx-lm computes all layers on its "
                          "device",
                          options->accelerator_layers))
        return mc_fail_nomem("a model");
    model->info.note = mc_buffer_cstr(&model->note);
    return model->info.note ? MICA_OK : mc_fail_nomem("a model");
}

static void model_close(void *state) {
    mlx_model *model = state;
    mc_mlx_lm_close(&model->child);
    mc_buffer_deinit(&model->note);
    mc_free(model->adapter);
    mc_free(model);
}

static mica_status open_parts(mlx_model *model, const char *path,
                              const mica_model_options *options) {
    mc_mlx_lm_settings settings;
    mc_buffer request = {0};
    mc_json_doc *reply = NULL;
    MC_TRY(settle(options, &settings));
    model->adapter = options->adapter ? mc_strdup(options->adapter) : NULL;
    if (options->adapter && !model->adapter) return mc_fail_nomem("a model");
    if (!put_load(&request, path, options)) {
        mc_buffer_deinit(&request);
        return mc_fail_nomem("a request");
    }
    MC_TRY(mc_mlx_lm_open(&settings, &request, options->cancel, &model->child, &reply));
    mica_status status = describe(model, mc_json_root(reply), options);
    mc_json_close(&reply);
    return status;
}

static mica_status model_open(void *user, const char *path, const mica_model_options *options,
                              void **out) {
    (void)user;
    MC_TRY(check_options(options));
    MC_TRY(mc_model_folder_check(path));
    mlx_model *model = mc_calloc(1, sizeof *model);
    if (!model) return mc_fail_nomem("a model");
    mica_status status = open_parts(model, path, options);
    if (status == MICA_OK)
        *out = model;
    else
        model_close(model);
    return status;
}

static const mica_model_info *model_info(const void *state) {
    const mlx_model *model = state;
    return &model->info;
}

/* ---- sessions ---- */

static mica_status session_open(void *model, const mica_session_options *options, void **out) {
    if (options->draft_model) return cannot("draft_model", "this engine does not draft");
    if (options->prefill_chunk < 0 || options->prefill_chunk > INT32_MAX)
        return mc_fail(MICA_EINVAL, "prefill_chunk %lld: want 1 or more, or 0 for the default",
                       (long long)options->prefill_chunk);
    mlx_session *session = mc_calloc(1, sizeof *session);
    if (!session) return mc_fail_nomem("a session");
    *session = (mlx_session){model, options->prefill_chunk};
    *out = session;
    return MICA_OK;
}

static void session_close(void *session) {
    mc_free(session);
}

/* ---- answers ---- */

static bool put_ids(mc_buffer *request, const char *key, const int32_t *ids, size_t count) {
    bool done = put(request, key) && mc_buffer_add_byte(request, '[');
    for (size_t i = 0; done && i < count; i++)
        done = mc_buffer_printf(request, i ? ",%d" : "%d", (int)ids[i]);
    return done && mc_buffer_add_byte(request, ']');
}

static bool put_bias(mc_buffer *request, const mica_generate_options *o) {
    bool done = put(request, "logit_bias") && mc_buffer_add_byte(request, '[');
    for (size_t i = 0; done && i < o->logit_bias_count; i++)
        done = mc_buffer_printf(request, i ? ",[%d," : "[%d,", (int)o->logit_bias[i].id) &&
               mc_json_put_number(request, (double)o->logit_bias[i].bias) &&
               mc_buffer_add_byte(request, ']');
    return done && mc_buffer_add_byte(request, ']');
}

/* A number, unless it is the default, 0. */
static bool put_real(mc_buffer *request, const char *key, float value) {
    return !(value != 0.0f) || (put(request, key) && mc_json_put_number(request, (double)value));
}

static bool put_count(mc_buffer *request, const char *key, int64_t value) {
    return !value || put_int(request, key, value);
}

static bool put_sampling(mc_buffer *request, const mica_generate_options *o) {
    return put_real(request, "temperature", o->temperature) &&
           put_count(request, "top_k", o->top_k) && put_real(request, "top_p", o->top_p) &&
           put_real(request, "min_p", o->min_p) &&
           put_real(request, "repetition_penalty", o->repetition_penalty) &&
           put_real(request, "presence_penalty", o->presence_penalty) &&
           put_real(request, "frequency_penalty", o->frequency_penalty) &&
           put_count(request, "penalty_window", o->penalty_window) &&
           (!o->logit_bias_count || put_bias(request, o)) &&
           (!o->seed || mc_buffer_printf(request, ", \"seed\": %llu", (unsigned long long)o->seed));
}

/* All but the id and the closing brace. */
static bool put_generate(mc_buffer *request, const mlx_session *session, const int32_t *ids,
                         size_t count, const mica_generate_options *o) {
    return mc_buffer_add_text(request, "{\"cmd\": \"generate\"") &&
           put_ids(request, "prompt", ids, count) &&
           put_ids(request, "stop_ids", o->stop_ids, o->stop_count) &&
           put_count(request, "max_tokens", o->max_tokens) &&
           put_count(request, "min_tokens", o->min_tokens) && put_sampling(request, o) &&
           (!o->logprobs || mc_buffer_add_text(request, ", \"logprobs\": true")) &&
           put_count(request, "top_logprobs", o->top_logprobs) &&
           put_count(request, "prefill_chunk", session->prefill_chunk);
}

static mica_status answer_open(void *state, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **out) {
    const mlx_session *session = state;
    mc_mlx_lm_answer *answer;
    mc_buffer request = {0};
    if (options->draft_tokens) return cannot("draft_tokens", "this engine does not draft");
    if (options->top_logprobs > MAX_TOP)
        return cannot("top_logprobs", "at most 10000 alternatives come through the bridge");
    if (!put_generate(&request, session, ids, count, options)) {
        mc_buffer_deinit(&request);
        return mc_fail_nomem("a request");
    }
    MC_TRY(mc_mlx_lm_ask(session->model->child, &request, count, options, &answer));
    *out = answer;
    return MICA_OK;
}

static mica_status answer_next(void *answer, mica_token *token, mica_finish *finish) {
    return mc_mlx_lm_next(answer, token, finish);
}

static void answer_cancel(void *answer) {
    mc_mlx_lm_cancel(answer);
}

static const mica_metrics *answer_metrics(const void *answer) {
    return mc_mlx_lm_metrics(answer);
}

static void answer_close(void *answer) {
    mc_mlx_lm_drop(answer);
}

static const mica_engine mlx_lm = {
    .struct_bytes = sizeof mlx_lm,
    .name = "mlx_lm",
    .available = available,
    .takes = takes,
    .model_open = model_open,
    .model_close = model_close,
    .model_info = model_info,
    .session_open = session_open,
    .session_close = session_close,
    .answer_open = answer_open,
    .answer_next = answer_next,
    .answer_cancel = answer_cancel,
    .answer_metrics = answer_metrics,
    .answer_close = answer_close,
};

const mc_engine mc_engine_mlx_lm = {
    .name = "mlx_lm",
    .description = "Python's mlx-lm, in a process of its own for each model",
    .preference = -100,
    .ops = &mc_outside_ops,
    .outside = &mlx_lm,
};
