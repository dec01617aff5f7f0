/* The native engine computes with mica's own model, session and device rooms. */
#include "base/alloc.h"
#include "base/cancel.h"
#include "engine/engine.h"
#include "engine/kernels.h"
#include "engine/model.h"
#include "group/group.h"
#include "io/folder.h"
#include "model/load/load.h"
#include "session/session_file.h"
#include "session/stream.h"

#include <mica/version.h>

#include <stdio.h>
#include <string.h>

typedef struct native {
    mica_device *own; /* opened here; NULL: the caller's device is used */
    mc_lm *lm;
    mc_session_model shared; /* the model for sessions */
    int64_t context;         /* maximum number of tokens in a session's caches */
    mc_buffer kernels;       /* mc_kernels_list */
} native;

static mica_model_info describe(const native *model) {
    mica_model_info info = mc_lm_describe(model->lm);
    info.arithmetic = mc_kernels_arithmetic(&model->kernels);
    info.context_length = model->context;
    return info;
}

static void close_model(void *state) {
    native *model = state;
    mc_buffer_deinit(&model->kernels);
    mc_lm_close(&model->lm);
    mica_device_close(&model->own);
    mc_free(model);
}

typedef struct loading {
    const mica_model_options *options;
    const mc_file_watch *watch;
} loading;

static mica_status watch_loading(void *context, uint64_t done, uint64_t total) {
    const loading *l = context;
    if (l->options->progress) l->options->progress(l->options->progress_user, done, total);
    MC_TRY(l->watch->tick(l->watch->context, 0));
    return mc_cancel_check(l->options->cancel);
}

/* Tells which layers the device does not compute, or that accelerator_layers has no effect. */
static mica_status note_layers(native *model, const mica_model_options *options,
                               const mica_device *device) {
    mica_device_info info = {.struct_bytes = sizeof info};
    int far = model->lm->far_layers, experts = model->lm->far_experts;
    int layers = model->lm->spec.n_layers;
    char whole[32] = "", part[64] = "";
    mica_device_get_info(device, &info);
    if (far) (void)snprintf(whole, sizeof whole, "layers 0 to %d", far - 1);
    if (experts > far)
        (void)snprintf(part, sizeof part, "%sthe experts of layers %d to %d", far ? " and " : "",
                       far, experts - 1);
    if (far || experts)
        return mc_lm_note(model->lm, "the CPU computes %s%s of %d, device %s the rest%s", whole,
                          part, layers, info.name,
                          model->lm->far_measured ? ": planned by measured rates" : "");
    if (!options->accelerator_layers || options->accelerator_layers >= layers) return MICA_OK;
    return mc_lm_note(model->lm,
                      "accelerator_layers %d has no effect: device %s computes all %d layers",
                      options->accelerator_layers, info.name, model->lm->spec.n_layers);
}

/* A text cannot go on from RoPE's divisors for short texts to those for long ones: all keys would
 * have to be computed again. So the context that is asked for decides. */
static mica_status choose_rope(mc_lm *lm, int64_t wanted) {
    int64_t usual = lm->spec.context, whole = lm->spec.long_context;
    if (!whole) return MICA_OK;
    if (wanted <= usual)
        return mc_lm_note(lm,
                          "longrope: a context_length above %lld makes the context %lld, with the "
                          "divisors for long texts",
                          (long long)usual, (long long)whole);
    MC_TRY(mc_lm_stretch(lm));
    return mc_lm_note(lm, "longrope: the divisors for texts longer than %lld tokens, for all texts",
                      (long long)usual);
}

/* wanted: 0, or the maximum number of tokens in a session's caches */
static mica_status set_context(native *model, int64_t wanted) {
    MC_TRY(choose_rope(model->lm, wanted));
    model->context = model->lm->spec.context;
    if (wanted > model->context)
        return mc_lm_note(
            model->lm,
            "context_length %lld is more than the model's: of a longer text than %lld "
            "tokens the oldest are forgotten",
            (long long)wanted, (long long)model->context);
    if (wanted) model->context = wanted;
    return MICA_OK;
}

/* What an element of caches takes, about: it decides how many layers fit. */
static double element_bytes(const mica_model_options *options) {
    static const double bytes[] = {[MICA_CACHE_F32] = 4,
                                   [MICA_CACHE_F16] = 2,
                                   [MICA_CACHE_BF16] = 2,
                                   [MICA_CACHE_INT8] = 1.0625};
    if (options->cache) return bytes[options->cache];
    return options->arithmetic == MICA_ARITHMETIC_EXACT ? 4 : 2;
}

static mica_status open_weights(native *model, const char *folder,
                                const mica_model_options *options, const mc_file_watch *watch) {
    loading l = {options, watch};
    mica_device *device = options->device;
    if (!device) {
        const mica_device_options own = {.threads = options->threads};
        MC_TRY(mica_device_open(options->device_name, &own, &model->own));
        device = model->own;
    }
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    model->shared = (mc_session_model){.device = device, .far_memory = !info.unified_memory};
    const mc_weights_options weights = {
        .no_mmap = options->no_mmap,
        .prefetch = options->prefetch,
        .lock = options->mlock,
        /* Others read them once, in order, and tell how far; and a rank reads its part alone. */
        .cold = info.unified_memory && mica_group_size(options->group) == 1,
        .watch = watch_loading,
        .context = &l,
    };
    const mc_lm_places places = {.layers = options->accelerator_layers,
                                 .tokens = options->context_length,
                                 .element_bytes = element_bytes(options)};
    MC_TRY(
        mc_lm_open_placed(folder, device, &weights, options->group ? NULL : &places, &model->lm));
    mc_lm_set_arithmetic(model->lm, options->arithmetic);
    mc_lm_set_cache(model->lm, options->cache);
    model->shared.lm = model->lm;
    return options->adapter ? mc_lm_adapt(model->lm, options->adapter) : MICA_OK;
}

/* What a rank has opened, or why it could not: in words that are the same for the same model. */
static mica_status describe_own(native *model, mica_status status, char *text, size_t bytes) {
    uint64_t *fingerprint = &model->shared.fingerprint;
    if (status == MICA_OK) status = mc_session_fingerprint(&model->shared, fingerprint);
    if (status == MICA_OK)
        snprintf(text, bytes, "%s %016llx", model->lm->spec.family,
                 (unsigned long long)*fingerprint);
    else
        snprintf(text, bytes, "none: %s", mica_last_error());
    return status;
}

/* Leaves a rank its part, if all ranks have the same model and the same options. One that could not
 * open it, with `status`, says so: the others do not wait for it. */
static mica_status join_group(native *model, const mica_model_options *options,
                              mica_status status) {
    char own[1024], with[192];
    snprintf(
        with, sizeof with,
        "arithmetic %d, cache %d, context_length %lld, tensor_parallel %d, pipeline_parallel %d",
        (int)options->arithmetic, (int)options->cache, (long long)options->context_length,
        options->tensor_parallel, options->pipeline_parallel);
    status = describe_own(model, status, own, sizeof own);
    MC_TRY(mica_group_agree(options->group, "version of mica", MICA_VERSION));
    MC_TRY(mica_group_agree(options->group, "model", own));
    MC_TRY(mica_group_agree(options->group, "options", with));
    if (status != MICA_OK) return mc_fail(status, "%s", own + strlen("none: "));
    return mc_lm_split(model->lm, options->group, options->tensor_parallel,
                       options->pipeline_parallel);
}

static mica_status open_parts(native *model, const char *folder, const mica_model_options *options,
                              const mc_file_watch *watch) {
    mica_status status = open_weights(model, folder, options, watch);
    mica_device *device = model->shared.device;
    if (status == MICA_OK) status = set_context(model, options->context_length);
    if (options->group) status = join_group(model, options, status);
    MC_TRY(status);
    MC_TRY(mc_kernels_list(model->lm, device, &model->kernels));
    MC_TRY(note_layers(model, options, device));
    model->shared.context = options->context_length ? model->context : 0;
    return MICA_OK;
}

/* Folders whose config is malformed are taken, too: opening them tells what is wrong. */
static bool takes(const mc_engine *engine, const char *folder) {
    const mc_family *family;
    (void)engine;
    return mc_model_folder_is(folder) &&
           mc_engine_find_family(folder, &family) != MICA_EUNSUPPORTED;
}

static mica_status open_model(const mc_engine *engine, const char *folder,
                              const mica_model_options *options, const mc_file_watch *watch,
                              mc_engine_model *out) {
    (void)engine;
    native *model = mc_calloc(1, sizeof *model);
    if (!model) return mc_group_end_on(options->group, mc_fail_nomem("a model"));
    mica_status status = open_parts(model, folder, options, watch);
    if (status != MICA_OK) {
        close_model(model);
        return status;
    }
    *out = (mc_engine_model){
        .state = model,
        .device = model->shared.device,
        .chat = model->lm->spec.chat,
        .info = describe(model),
    };
    return MICA_OK;
}

static void prefetch(const void *state, const mc_file_watch *watch) {
    const native *model = state;
    if (model->lm->group) return;                         /* a rank reads its part alone */
    (void)mc_weights_prefetch(model->lm->weights, watch); /* an early end is not an error */
}

static void take_prompt(void *state, const mc_prompt *prompt) {
    native *model = state;
    model->shared.tokenizer = prompt->tokenizer;
    model->shared.stop_ids = MC_BUFFER_AT(&prompt->stops, int32_t);
    model->shared.stop_count = MC_BUFFER_COUNT(&prompt->stops, int32_t);
}

static mica_model_kernels kernels(const void *state, size_t i) {
    const native *model = state;
    return mc_kernels_get(&model->kernels, i);
}

static uint64_t cache_bytes(const void *state, int64_t tokens) {
    const native *model = state;
    if (tokens <= 0 || model->shared.lm->spec.both_ways) return 0;
    return mc_session_bytes(&model->shared, tokens < INT32_MAX ? tokens : INT32_MAX);
}

static const mc_session_model *local(const void *state) {
    const native *model = state;
    return &model->shared;
}

/* ---- sessions and streams: calls of the session room ---- */

/* Sets a session's draft model and gives the session out; closes it after an error. */
static mica_status take_draft(mc_session *session, const mica_session_options *options,
                              void **out) {
    const mc_session_model *draft;
    mica_status status = MICA_OK;
    if (options->draft_model) status = mc_model_local(options->draft_model, &draft);
    if (options->draft_model && status == MICA_OK) status = mc_session_set_draft(session, draft);
    if (status == MICA_OK)
        *out = session;
    else
        mc_session_close(&session);
    return status;
}

static mica_status session_open(const void *state, const mica_session_options *options,
                                void **out) {
    const native *model = state;
    mc_session *session;
    MC_TRY(mc_session_open(&model->shared, options->prefill_chunk, &session));
    return take_draft(session, options, out);
}

static void session_close(void *state) {
    mc_session *session = state;
    mc_session_close(&session);
}

static void session_reset(void *state) {
    mc_session_reset(state);
}

static mica_status session_fork(void *state, void **out) {
    mc_session *session = state, *fork;
    MC_TRY(mc_session_fork(session, &fork));
    mica_status status = MICA_OK;
    if (session->draft) status = mc_session_set_draft(fork, session->draft->model);
    if (status == MICA_OK)
        *out = fork;
    else
        mc_session_close(&fork);
    return status;
}

static mica_status session_save(void *state, const char *path) {
    return mc_session_save(state, path);
}

static mica_status session_load(const void *state, const char *path,
                                const mica_session_options *options, void **out) {
    const native *model = state;
    mc_session *session;
    MC_TRY(mc_session_load(&model->shared, path, options->prefill_chunk, &session));
    return take_draft(session, options, out);
}

static mica_status stream_open(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **out) {
    mc_stream *stream;
    MC_TRY(mc_stream_open(session, ids, count, options, &stream));
    *out = stream;
    return MICA_OK;
}

static mica_status stream_constrain(void *stream, mc_constraint *constraint) {
    return mc_stream_constrain(stream, constraint, NULL);
}

static void stream_close(void *state) {
    mc_stream *stream = state;
    mc_stream_close(&stream);
}

static bool stream_next(void *state, mica_token *token) {
    return mc_stream_next(state, token);
}

static mica_finish stream_finish(const void *state) {
    return mc_stream_finish(state);
}

static mica_status stream_status(const void *state) {
    return mc_stream_status(state);
}

static void stream_cancel(void *state) {
    mc_stream_cancel(state);
}

static mica_metrics stream_metrics(const void *state) {
    return mc_stream_metrics(state);
}

static const mc_engine_ops ops = {
    .takes = takes,
    .open = open_model,
    .prefetch = prefetch,
    .take_prompt = take_prompt,
    .close = close_model,
    .kernels = kernels,
    .cache_bytes = cache_bytes,
    .local = local,
    .session_open = session_open,
    .session_close = session_close,
    .session_reset = session_reset,
    .session_fork = session_fork,
    .session_save = session_save,
    .session_load = session_load,
    .stream_open = stream_open,
    .stream_constrain = stream_constrain,
    .stream_close = stream_close,
    .stream_next = stream_next,
    .stream_finish = stream_finish,
    .stream_status = stream_status,
    .stream_cancel = stream_cancel,
    .stream_metrics = stream_metrics,
};

const mc_engine mc_engine_native = {
    .name = "native",
    .description = "mica's own: on its devices, in this process",
    .ops = &ops,
};
