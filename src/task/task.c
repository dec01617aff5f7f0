#include "task/task.h"

#include "base/alloc.h"

/* ---- rows ---- */

mica_status mc_task_check_ids(const mc_session_model *model, const int32_t *ids, size_t n) {
    const mc_decoder_spec *spec = &model->lm->spec;
    if (n == 0) return mc_fail(MICA_EINVAL, "the text is empty: give at least one token");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= spec->vocab)
            return mc_fail(MICA_EINVAL,
                           "token %zu of the text is %d; the model's vocabulary is 0 to %lld", i,
                           (int)ids[i], (long long)spec->vocab - 1);
    if (!model->context && n > (uint64_t)spec->context)
        return mc_fail(MICA_ECONTEXT,
                       "the text has %zu tokens, the model's context %lld: shorten the text, or "
                       "drop its oldest tokens",
                       n, (long long)spec->context);
    return MICA_OK;
}

mica_status mc_task_broken(const char *what) {
    return mc_fail(MICA_EINVAL, "%s is not a number: the model's weights are broken", what);
}

const char *mc_task_error(mica_status status) {
    if (status == MICA_OK) return "";
    const char *error = mc_strdup(mica_last_error());
    return error ? error : mica_status_name(status);
}

void mc_task_error_free(mica_status status, const char *error) {
    if (status != MICA_OK && error != mica_status_name(status)) mc_free((void *)error);
}

/* ---- feeding ---- */

static mica_status feed(mc_session *session, const int32_t *ids, int64_t n,
                        const mica_task_options *options, const mc_session_wish *wish,
                        mica_array *results, mc_task_chunk chunk, void *context) {
    session->to_come = n;
    for (int64_t at = 0, step; at < n; at += step) {
        step = n - at < session->chunk ? n - at : session->chunk;
        MC_TRY(mc_cancel_check(options->cancel));
        MC_TRY(mc_session_pass(session, ids + at, step, wish, results));
        MC_TRY(chunk(context, results, at, step));
        if (options->progress)
            options->progress(options->progress_user, (uint64_t)(at + step), (uint64_t)n);
    }
    return MICA_OK;
}

mica_status mc_task_feed(const mc_session_model *model, const int32_t *ids, size_t n,
                         const mica_task_options *options, const mc_session_wish *wish,
                         mica_array *results, mc_task_chunk chunk, void *context) {
    mc_session *session;
    MC_TRY(mc_task_check_ids(model, ids, n));
    MC_TRY(mc_session_open(model, 0, &session));
    mica_status status = feed(session, ids, (int64_t)n, options, wish, results, chunk, context);
    mc_session_close(&session);
    return status;
}
