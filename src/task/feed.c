/* Sessions of mica/forward.h: tokens computed behind those of the caches, for the caller. */
#include "base/alloc.h"
#include "base/integer.h"
#include "base/options.h"
#include "engine/model.h"
#include "graph/graph.h"
#include "model/forward.h"
#include "task/task.h"

#include <string.h>

/* What is wanted of the tokens that are fed. */
typedef struct feeding {
    mc_session *session;
    mica_scope *s;
    const mica_forward_options *options;
    mc_buffer at; /* int32: numbers of the tokens wanted; of all, if the options name none */
    mc_buffer index;
    mc_buffer parts; /* mica_array: results of the passes so far */
    mc_buffer order; /* int32: which row of these is whose */
} feeding;

static mica_status read_at(feeding *f, int64_t n) {
    mica_array at = f->options->at;
    int64_t count = at.scope ? mica_array_size(at) : n;
    size_t bytes = (size_t)count * sizeof(int32_t);
    if (!mc_buffer_reserve(&f->at, bytes) || !mc_buffer_reserve(&f->index, bytes) ||
        !mc_buffer_reserve(&f->order, bytes))
        return mc_fail_nomem("the results of a pass");
    int32_t *wanted = MC_BUFFER_AT(&f->at, int32_t);
    f->at.len = f->order.len = bytes;
    for (int64_t i = 0; i < count; i++)
        wanted[i] = (int32_t)i;
    if (!at.scope) return MICA_OK;
    if (!mica_valid(at) || mica_array_dtype(at) != MICA_I32 || mica_array_ndim(at) != 1 || !count)
        return mc_fail(MICA_EINVAL, "mica_session_feed: at is no array i32 [n], n above 0");
    MC_TRY(mica_read(at, wanted, bytes));
    for (int64_t i = 0; i < count; i++)
        if (wanted[i] < 0 || wanted[i] >= n)
            return mc_fail(MICA_EINVAL, "mica_session_feed: at[%lld] is %d: there are %lld tokens",
                           (long long)i, (int)wanted[i], (long long)n);
    return MICA_OK;
}

/* Adds what is wanted of tokens [from, from + n), whose hidden states are [1, n, hidden]. */
static mica_status take_rows(feeding *f, mica_array hidden, int64_t from, int64_t n, int32_t *row) {
    const int32_t *at = MC_BUFFER_AT(&f->at, int32_t);
    int32_t *order = MC_BUFFER_AT(&f->order, int32_t);
    int64_t rows = 0;
    mc_buffer_clear(&f->index);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&f->at, int32_t); i++) {
        if (at[i] < from || at[i] >= from + n) continue;
        (void)MC_BUFFER_PUSH(&f->index, int32_t, (int32_t)(at[i] - from)); /* there is room */
        order[i] = (*row)++;
        rows++;
    }
    if (!rows) return MICA_OK;
    mica_array index = mica_from_data(f->s, f->index.data, MICA_I32, &rows, 1);
    mica_array y = mica_take(f->s, hidden, index, 1);
    if (!f->options->hidden) y = mc_lm_head(f->s, f->session->model->lm, y);
    MC_TRY(mica_eval(f->s, y)); /* the next pass takes the hidden states' memory */
    return MC_BUFFER_PUSH(&f->parts, mica_array, y) ? MICA_OK
                                                    : mc_fail_nomem("the results of a pass");
}

/* The rows of all passes as one array, in the order that is wanted. */
static mica_status join(feeding *f, mica_array *results) {
    int64_t rows = (int64_t)MC_BUFFER_COUNT(&f->order, int32_t);
    mica_array all = mica_concatenate(f->s, MC_BUFFER_AT(&f->parts, mica_array),
                                      (int)MC_BUFFER_COUNT(&f->parts, mica_array), 1);
    if (f->options->at.scope)
        all = mica_take(f->s, all, mica_from_data(f->s, f->order.data, MICA_I32, &rows, 1), 1);
    MC_TRY(mica_eval(f->s, all));
    *results = all;
    return MICA_OK;
}

static mica_status feed(feeding *f, const int32_t *ids, int64_t n, mica_array *results) {
    const mc_session_wish wish = {.wanted = results ? MC_HIDDEN : MC_NO_LOGITS};
    mica_array hidden;
    int32_t row = 0;
    f->session->to_come = n;
    for (int64_t at = 0, step; at < n; at += step) {
        step = mc_min(n - at, f->session->chunk);
        MC_TRY(mc_session_pass(f->session, ids + at, step, &wish, &hidden));
        if (results) MC_TRY(take_rows(f, hidden, at, step, &row));
    }
    return results ? join(f, results) : MICA_OK;
}

static mica_status check(const feeding *f, const int32_t *ids, size_t n) {
    const mica_forward_options *o = f->options;
    int64_t count = mc_session_count(f->session), room = mc_session_room(f->session);
    if (o->position.scope || o->mask.scope || o->store)
        return mc_fail(MICA_EINVAL, "mica_session_feed: %s: the session has it",
                       o->store        ? "store"
                       : o->mask.scope ? "mask"
                                       : "position");
    MC_TRY(mc_task_check_ids(f->session->model, ids, n));
    if ((int64_t)n > room - count)
        return mc_fail(MICA_ECONTEXT,
                       "the session has %lld tokens, the context %lld: there is no room for %zu",
                       (long long)count, (long long)room, n);
    if (f->s && mica_scope_device(f->s) != f->session->model->device)
        return mc_fail(MICA_EINVAL,
                       "mica_session_feed: the scope is of another device than the model");
    return f->s ? mica_scope_status(f->s) : MICA_OK;
}

mica_status mica_session_feed(mica_session *session, mica_scope *s, const int32_t *ids, size_t n,
                              const mica_forward_options *options, mica_array *results) {
    mica_forward_options given;
    feeding f = {.s = s, .options = &given};
    if (results) *results = MICA_NONE;
    if (!session || !ids || (results && !s))
        return mc_fail(MICA_EINVAL, "mica_session_feed: %s is NULL",
                       !session ? "session"
                       : !ids   ? "ids"
                                : "the scope");
    MC_TRY(MC_OPTIONS_COPY(mica_forward_options, store, &given, options));
    MC_TRY(mc_model_session(session, &f.session));
    MC_TRY(check(&f, ids, n));
    mica_status status = read_at(&f, (int64_t)n);
    f.session->streams++; /* none goes on */
    if (status == MICA_OK) status = feed(&f, ids, (int64_t)n, results);
    mc_buffer_deinit(&f.at);
    mc_buffer_deinit(&f.index);
    mc_buffer_deinit(&f.parts);
    mc_buffer_deinit(&f.order);
    return status;
}

int64_t mica_session_count(const mica_session *session) {
    mc_session *local;
    if (!session || mc_model_session(session, &local) != MICA_OK) return 0;
    return mc_session_count(local);
}

static mica_status cut(mc_session *session, int64_t count, int64_t *left) {
    int64_t start = session->history.start, kept = count - start;
    if (kept < 0) /* only their number is known */
        return mc_fail(MICA_EUNSUPPORTED, "the session has forgotten its first %lld tokens",
                       (long long)start);
    int32_t *ids = mc_array_alloc((size_t)kept + 1, sizeof *ids);
    if (!ids) return mc_fail_nomem("a session");
    if (kept) memcpy(ids, MC_BUFFER_AT(&session->history.ids, int32_t), (size_t)kept * sizeof *ids);
    ids[kept] = -1; /* a token that no history has */
    mc_tokens text = session->history;
    text.ids = (mc_buffer){(char *)ids, ((size_t)kept + 1) * sizeof *ids, 0};
    *left = mc_session_reuse_text(session, &text);
    mc_free(ids);
    return MICA_OK;
}

mica_status mica_session_cut(mica_session *session, int64_t count, int64_t *left) {
    mc_session *local;
    int64_t kept = 0;
    if (left) *left = 0;
    if (!session) return mc_fail(MICA_EINVAL, "mica_session_cut: session is NULL");
    MC_TRY(mc_model_session(session, &local));
    if (count < 0 || count > mc_session_count(local))
        return mc_fail(MICA_EINVAL, "mica_session_cut: %lld: the session has %lld tokens",
                       (long long)count, (long long)mc_session_count(local));
    local->streams++;
    if (count == 0) mc_session_reset(local);
    if (count > 0) MC_TRY(cut(local, count, &kept));
    if (left) *left = kept;
    return MICA_OK;
}
