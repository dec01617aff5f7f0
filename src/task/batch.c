#include "task/batch.h"

#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"
#include "device/device.h"
#include "exec/program.h"
#include "exec/read.h"
#include "graph/graph.h"
#include "session/stream.h"
#include "task/batch_rows.h"
#include "task/task.h"

#include <string.h>

/* ---- one step ---- */

mica_status mc_batch_init(mc_batch *batch, const mc_session_model *model) {
    mc_kv_pool *pool = model->pool;
    *batch = (mc_batch){.model = model};
    MC_TRY(mica_scope_open(model->device, &batch->scope));
    mica_status status =
        mc_passes_init(&batch->passes, batch->scope, pool ? pool->programs : &batch->last,
                       pool ? MC_POOL_PROGRAMS : 1);
    batch->passes.lead = model->lead;
    mc_device_draws_init(&batch->draws, batch->passes.recording);
    return status;
}

void mc_batch_drop_follower(mc_batch *batch) {
    if (!batch->program) return;
    (void)mc_device_wait(batch->model->device, batch->follower.fence);
    mica_program_close(&batch->program);
    batch->n_followed = 0;
}

void mc_batch_deinit(mc_batch *batch) {
    mc_batch_drop_follower(batch);
    mc_device_draws_deinit(&batch->draws);
    mc_pass_close_all(&batch->last, 1);
    mc_passes_deinit(&batch->passes);
    mica_scope_close(&batch->scope);
    mc_buffer_deinit(&batch->tops);
}

/* The rows of a step, each one token. */
typedef struct step_rows {
    mc_pass_rows pass;
    mc_session *sessions[MC_MAX_ROWS]; /* [pass.rows] */
} step_rows;

/* The rows of `counts` [n] tokens of each session; NULL: of one. */
static void list_rows(step_rows *rows, const mc_batch *batch, mc_session *const *sessions,
                      const int64_t *counts, size_t n) {
    mc_pass_rows *pass = &rows->pass;
    pass->lm = batch->model->lm;
    pass->n = 1;
    pass->wish = (mc_session_wish){.wanted = MC_LAST_LOGITS};
    pass->rows = 0;
    for (size_t i = 0; i < n; i++) {
        pass->wish.best |= sessions[i]->greedy;
        pass->wish.largest |= mc_session_wants_largest(sessions[i]);
        pass->wish.both |= !sessions[i]->greedy;
        for (int64_t k = 0; k < (counts ? counts[i] : 1); k++) {
            size_t row = pass->rows++;
            rows->sessions[row] = sessions[i];
            pass->caches[row] = &sessions[i]->cache;
            pass->homes[row] = sessions[i]->scope;
            pass->positions[row] = mc_session_count(sessions[i]) + k;
            pass->ahead[row] = k;
        }
    }
}

/* Gives their best tokens to the rows that want these. */
static mica_status hand_out_best(const step_rows *rows, const mica_array *arrays) {
    mc_best best[MC_MAX_ROWS];
    MC_TRY(mc_best_read(arrays, best, rows->pass.rows));
    for (size_t i = 0; i < rows->pass.rows; i++) {
        mc_session *session = rows->sessions[i];
        if (!session->greedy) continue;
        session->best[rows->pass.ahead[i]] = best[i];
        session->has_best = true;
        session->has_largest = false;
    }
    return MICA_OK;
}

/* Makes room in sessions for `counts` [n] tokens and their rows of logits; NULL: for one each. What
 * comes behind the step cannot fail for one row, then, and leave the others with half of it. */
static mica_status reserve_rows(const mc_batch *batch, mc_session *const *sessions,
                                const int64_t *counts, size_t n) {
    size_t bytes = (size_t)batch->model->lm->spec.vocab * sizeof(float);
    for (size_t i = 0; i < n; i++) {
        bool largest = mc_session_wants_largest(sessions[i]);
        mc_buffer *room = largest ? &sessions[i]->tops : &sessions[i]->logits;
        mc_buffer_clear(room);
        size_t count = counts ? (size_t)counts[i] : 1;
        MC_TRY(mc_session_reserve_ahead(sessions[i], (int64_t)count));
        if (!sessions[i]->greedy &&
            !mc_buffer_reserve(room, count * (largest ? sizeof(mc_largest) : bytes)))
            return mc_fail_nomem("a session's logits");
    }
    return MICA_OK;
}

/* Gives their largest logits, and all rows where they are, to the sessions that want these. */
static mica_status hand_out_largest(mc_batch *batch, const step_rows *rows, mica_array largest,
                                    mica_array logits) {
    mc_buffer_clear(&batch->tops);
    if (!mc_buffer_reserve(&batch->tops, rows->pass.rows * sizeof(mc_largest)))
        return mc_fail_nomem("a batch");
    mc_largest *tops = MC_BUFFER_AT(&batch->tops, mc_largest);
    MC_TRY(mc_largest_read(largest, tops, rows->pass.rows));
    for (size_t i = 0; i < rows->pass.rows; i++) {
        mc_session *session = rows->sessions[i];
        if (!mc_session_wants_largest(session)) continue;
        MC_BUFFER_AT(&session->tops, mc_largest)[rows->pass.ahead[i]] = tops[i];
        session->has_best = false;
        session->has_largest = true;
        if (rows->pass.ahead[i]) continue;
        session->rows = mica_detach(session->scope, logits);
        session->first_row = (int64_t)i;
        MC_TRY(mica_scope_status(session->scope));
    }
    return MICA_OK;
}

/* Whether a session wants the logits themselves. */
static bool wants_logits(const mc_session *session) {
    return !session->greedy && !mc_session_wants_largest(session);
}

/* Gives rows of logits [n, 1, vocab] to the sessions that want them. */
static mica_status hand_out_logits(const mc_batch *batch, const step_rows *rows,
                                   mica_array logits) {
    size_t bytes = (size_t)batch->model->lm->spec.vocab * sizeof(float);
    for (size_t i = 0; i < rows->pass.rows; i++) {
        mc_session *session = rows->sessions[i];
        if (!wants_logits(session)) continue;
        char *to = session->logits.data + (size_t)rows->pass.ahead[i] * bytes;
        MC_TRY(mc_read_part(logits, i * bytes, to, bytes));
        session->has_best = session->has_largest = false;
    }
    return MICA_OK;
}

/* Computes a step. */
static mica_status run_step(mc_batch *batch, const step_rows *rows, const int32_t *ids) {
    const mc_session_wish *wish = &rows->pass.wish;
    const int64_t shape[] = {(int64_t)rows->pass.rows, 1};
    mica_array results[MC_BEST_ARRAYS + 2], *next = results;
    mica_array tokens = mica_from_data(batch->scope, ids, MICA_I32, shape, 2);
    MC_TRY(mc_pass_compute(&batch->passes, &rows->pass, tokens, results));
    if (wish->best) {
        MC_TRY(hand_out_best(rows, next));
        next += MC_BEST_ARRAYS;
    }
    if (wish->largest) {
        MC_TRY(hand_out_largest(batch, rows, next[0], next[1]));
        next++;
    }
    return wish->both ? hand_out_logits(batch, rows, next[0]) : MICA_OK;
}

/* ---- steps that follow each other before they are read ---- */

/* A step that was launched: it leaves the best tokens, where a row takes that, and the logits,
 * where one does not. */
typedef struct launched_step {
    mc_session_launch pass;
    mica_program *program; /* a reference: others may take its place meanwhile */
} launched_step;

static mica_status launch(mc_batch *batch, step_rows *rows, mica_array ids, launched_step *step) {
    step->pass.fence = 0;
    step->program = NULL;
    rows->pass.wish.largest = false; /* draws leave them */
    rows->pass.wish.fence = &step->pass.fence;
    step->pass.n_results = mc_session_wish_count(&rows->pass.wish);
    mica_status status = mc_pass_compute(&batch->passes, &rows->pass, ids, step->pass.results);
    if (status == MICA_OK) step->program = mc_program_retain(batch->passes.programs[0].program);
    return status;
}

static mica_status end_step(const mc_batch *batch, launched_step *step) {
    mica_status status = mc_device_wait(batch->model->device, step->pass.fence);
    mica_program_close(&step->program);
    return status;
}

/* Launches a step over the tokens that another one chooses. If that fails there is none: the next
 * one tells, and the one before it is read from the same scope. */
static void follow(mc_batch *batch, step_rows *rows, mica_array chosen) {
    launched_step next;
    size_t n = rows->pass.rows;
    mica_status status = MICA_OK;
    for (size_t i = 0; i < n && status == MICA_OK; i++) {
        status = mc_session_note(rows->sessions[i], ++rows->pass.positions[i]);
        rows->pass.ahead[i] = 1; /* the token before is not counted yet */
    }
    if (status == MICA_OK) status = launch(batch, rows, chosen, &next);
    if (status != MICA_OK) {
        mica_scope_clear_error(batch->scope);
        for (size_t i = 0; i < n; i++)
            mica_scope_clear_error(rows->pass.homes[i]);
        return;
    }
    batch->follower = next.pass;
    batch->program = next.program;
    batch->n_followed = n;
    memcpy(batch->followed, rows->sessions, n * sizeof(mc_session *));
}

/* Whether steps may be launched before earlier ones are read: the device chooses all tokens. */
static bool may_follow(const mc_batch *batch, const step_rows *rows) {
    bool follow = batch->follow && batch->model->device->backend->late;
    for (size_t i = 0; i < rows->pass.rows && rows->pass.wish.both; i++)
        follow = follow && rows->sessions[i]->draw;
    return follow;
}

/* Launches draws from all rows of a step, and what follows over their tokens. Without draws nothing
 * does. */
static mc_device_drawn draw_and_follow(mc_batch *batch, step_rows *rows, mica_array logits) {
    mc_device_draw given[MC_MAX_ROWS];
    mc_device_drawn drawn = {.fence = 0};
    bool largest = false;
    for (size_t i = 0; i < rows->pass.rows; i++) {
        given[i] = *rows->sessions[i]->draw;
        largest |= mc_session_wants_largest(rows->sessions[i]);
    }
    if (mc_device_draws_launch(&batch->draws, batch->scope, logits, given, rows->pass.rows, largest,
                               &drawn) == MICA_OK)
        follow(batch, rows, drawn.ids);
    else
        mica_scope_clear_error(batch->scope);
    return drawn;
}

/* What rows are given of a step. */
typedef struct left {
    mc_best best[MC_MAX_ROWS];
    const mc_largest *largest; /* NULL: none */
    mica_array logits;
} left;

/* Gives a session what it wants of row `row` of a step. */
static mica_status give_row(const left *l, mc_session *session, size_t row) {
    size_t bytes = (size_t)session->model->lm->spec.vocab * sizeof(float);
    bool largest = l->largest && mc_session_wants_largest(session);
    session->has_best = session->greedy;
    session->has_largest = largest;
    if (session->greedy) {
        session->best[0] = l->best[row];
        return MICA_OK;
    }
    if (!largest) return mc_read_part(l->logits, row * bytes, session->logits.data, bytes);
    *MC_BUFFER_AT(&session->tops, mc_largest) = l->largest[row];
    session->rows = mica_detach(session->scope, l->logits);
    session->first_row = (int64_t)row;
    return mica_scope_status(session->scope);
}

/* Reads what a step and its draws left, of n rows. */
static mica_status read_step(mc_batch *batch, const launched_step *step,
                             const mc_session_wish *wish, const mc_device_drawn *drawn, size_t n,
                             left *l) {
    l->largest = NULL;
    l->logits = step->pass.results[step->pass.n_results - 1];
    if (wish->best) MC_TRY(mc_best_read(step->pass.results, l->best, n));
    for (size_t i = 0; i < n && wish->best; i++)
        batch->chosen[i] = l->best[i].id;
    if (drawn->ids.scope)
        MC_TRY(mc_read_part(drawn->ids, 0, batch->chosen, n * sizeof *batch->chosen));
    if (!drawn->largest.scope) return MICA_OK;
    mc_buffer_clear(&batch->tops);
    if (!mc_buffer_reserve(&batch->tops, n * sizeof(mc_largest))) return mc_fail_nomem("a batch");
    l->largest = MC_BUFFER_AT(&batch->tops, mc_largest);
    return mc_largest_read(drawn->largest, MC_BUFFER_AT(&batch->tops, mc_largest), n);
}

/* Ends a step and its draws, and gives each session what it wants, from row `at` of the step. */
static mica_status take_rows(mc_batch *batch, const step_rows *rows, launched_step *step,
                             const mc_device_drawn *drawn, size_t n_step, const size_t *at) {
    mica_device *device = batch->model->device;
    left l;
    mica_status status = end_step(batch, step);
    if (status != MICA_OK) return mc_device_wait_after(device, drawn->fence, status);
    MC_TRY(mc_device_wait(device, drawn->fence));
    MC_TRY(read_step(batch, step, &rows->pass.wish, drawn, n_step, &l));
    for (size_t i = 0; i < rows->pass.rows; i++)
        MC_TRY(give_row(&l, rows->sessions[i], at[i]));
    return MICA_OK;
}

/* The same; what follows it is launched first, unless it is over already. at NULL: the rows are
 * those of the step. */
static mica_status take_step(mc_batch *batch, step_rows *rows, const int32_t *ids,
                             launched_step *step, size_t n_step, const size_t *at) {
    size_t same[MC_MAX_ROWS];
    mc_device_drawn drawn = {.fence = 0};
    for (size_t i = 0; i < rows->pass.rows; i++)
        same[i] = i;
    if (may_follow(batch, rows) && !at && step->pass.fence) {
        if (rows->pass.wish.both)
            drawn = draw_and_follow(batch, rows, step->pass.results[step->pass.n_results - 1]);
        else
            follow(batch, rows, step->pass.results[MC_BEST_ARRAYS]);
    }
    mica_status status = take_rows(batch, rows, step, &drawn, n_step, at ? at : same);
    if (status != MICA_OK) mc_batch_drop_follower(batch);
    for (size_t i = 0; status == MICA_OK && i < rows->pass.rows; i++) {
        mc_session_set_ahead(rows->sessions[i], &ids[i], 1);
        rows->sessions[i]->followed = batch->program != NULL;
        rows->sessions[i]->chosen = batch->chosen[i];
    }
    return status;
}

/* The row of the follower that has a session's next token; n_followed: none has. */
static size_t find_followed(const mc_batch *batch, const mc_session *session) {
    size_t i = 0;
    while (i < batch->n_followed && batch->followed[i] != session)
        i++;
    return session->followed ? i : batch->n_followed;
}

bool mc_batch_follows(const mc_batch *batch, const mc_session *session) {
    return find_followed(batch, session) < batch->n_followed;
}

/* Whether the follower has all these tokens; at [n] receives in which rows. */
static bool has_all(const mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                    size_t n, size_t *at) {
    for (size_t i = 0; i < n; i++) {
        at[i] = find_followed(batch, sessions[i]);
        if (at[i] == batch->n_followed || batch->chosen[at[i]] != ids[i]) return false;
    }
    return true;
}

/* Takes what the follower leaves to these sessions, and lets another one follow if they are all
 * that it has. */
static mica_status take_follower(mc_batch *batch, step_rows *rows, const int32_t *ids,
                                 const size_t *at) {
    launched_step step = {batch->follower, batch->program};
    size_t n = batch->n_followed;
    bool whole = rows->pass.rows == n;
    for (size_t i = 0; i < rows->pass.rows; i++)
        whole = whole && at[i] == i;
    batch->program = NULL;
    batch->n_followed = 0;
    batch->follows++;
    mica_status status = mica_scope_collect(batch->scope, step.pass.results, step.pass.n_results);
    if (status == MICA_OK) return take_step(batch, rows, ids, &step, n, whole ? NULL : at);
    (void)end_step(batch, &step);
    return status;
}

static mica_status launch_step(mc_batch *batch, step_rows *rows, const int32_t *ids) {
    const int64_t shape[] = {(int64_t)rows->pass.rows, 1};
    launched_step step;
    mica_array tokens = mica_from_data(batch->scope, ids, MICA_I32, shape, 2);
    MC_TRY(launch(batch, rows, tokens, &step));
    return take_step(batch, rows, ids, &step, rows->pass.rows, NULL);
}

/* Lets states go back that a follower has changed in vain. */
static mica_status go_back(mc_session *const *sessions, const int64_t *counts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (sessions[i]->followed && !mc_cache_is_together(&sessions[i]->cache))
            MC_TRY(mc_session_reserve(sessions[i], counts ? counts[i] : 1));
    return MICA_OK;
}

static mica_status feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                        const int64_t *counts, size_t n) {
    step_rows rows;
    size_t at[MC_MAX_ROWS];
    list_rows(&rows, batch, sessions, counts, n);
    if (batch->program && rows.pass.rows == n && has_all(batch, sessions, ids, n, at))
        return take_follower(batch, &rows, ids, at);
    mc_batch_drop_follower(batch);
    MC_TRY(go_back(sessions, counts, n));
    mc_scope_reset(batch->scope);
    if (rows.pass.rows == n && may_follow(batch, &rows)) return launch_step(batch, &rows, ids);
    MC_TRY(run_step(batch, &rows, ids));
    for (size_t i = 0; i < n; i++) {
        int64_t count = counts ? counts[i] : 1;
        mc_session_set_ahead(sessions[i], ids, count);
        ids += count;
    }
    return MICA_OK;
}

static mica_status look_ahead(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                              const int64_t *counts, size_t n) {
    mica_status status = reserve_rows(batch, sessions, counts, n);
    if (status == MICA_OK) status = feed(batch, sessions, ids, counts, n);
    for (size_t i = 0; status != MICA_OK && i < n; i++)
        if (!mc_cache_is_together(&sessions[i]->cache))
            mc_session_reset(sessions[i]); /* its caches may be half written */
    return status;
}

/* Tells other ranks of a step. */
static void say_step(mc_lead *lead, mc_session *const *sessions, const int32_t *ids,
                     const int64_t *counts, size_t n) {
    int64_t numbers[1 + 2 * MC_MAX_ROWS] = {(int64_t)n}, all = 0;
    for (size_t i = 0; i < n; i++) {
        numbers[1 + 2 * i] = mc_session_told(sessions[i]);
        numbers[2 + 2 * i] = counts ? counts[i] : 1;
        all += numbers[2 + 2 * i];
    }
    mc_lead_say(lead, MC_LEAD_BATCH, numbers, 1 + 2 * n);
    mc_lead_say_ids(lead, ids, all);
}

mica_status mc_batch_look_ahead(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                                const int64_t *counts, size_t n) {
    mc_lead *lead = batch->model->lead;
    if (lead) say_step(lead, sessions, ids, counts, n);
    return mc_lead_done(lead, look_ahead(batch, sessions, ids, counts, n));
}

mica_status mc_batch_feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                          size_t n) {
    return mc_batch_look_ahead(batch, sessions, ids, NULL, n);
}

/* ---- rows ---- */

/* A slot: one of the rows that are computed together, which items use one after another. */
typedef struct batch_slot {
    mc_session *session; /* NULL: never used */
    mc_stream *stream;   /* NULL: free */
    size_t item;
    mica_generate_options options; /* of the item */
    mc_batch_output output;        /* the stream's, so far */
    uint64_t decode_us;
    int64_t decoded; /* tokens computed in steps */
    const struct work *work;
} batch_slot;

typedef struct work {
    const mc_batch_task *task;
    const mica_batch_options *options;
    mc_batch_rows rows;
    mc_batch batch;
    mc_mask_worker *masks;
    batch_slot *slots; /* [n_slots] */
    size_t n_slots;
    size_t next; /* the next item to begin */
} work;

static mica_metrics metrics_of(const batch_slot *slot) {
    mica_metrics m = mc_stream_metrics(slot->stream);
    m.decode_seconds += (double)slot->decode_us * 1e-6; /* the stream's is the time of sampling */
    m.decode_rate = slot->decode_us ? (double)slot->decoded / m.decode_seconds : 0.0;
    return m;
}

/* Ends a slot's row and frees the slot. */
static void leave(work *w, batch_slot *slot, mica_status status, mica_finish finish) {
    w->rows.metrics[slot->item] = metrics_of(slot);
    mc_stream_close(&slot->stream);
    mc_session_reset(slot->session);
    mc_batch_rows_end_with(&w->rows, slot->item, status, finish, &slot->output);
}

/* Cancels between two chunks of a prefill, and calls the row's own progress function. */
static void on_prefill(void *user, uint64_t done, uint64_t total) {
    batch_slot *slot = user;
    const mica_generate_options *options = &slot->options;
    if (mc_cancel_check(slot->work->options->cancel) != MICA_OK) mc_stream_cancel(slot->stream);
    if (options->progress) options->progress(options->progress_user, done, total);
}

static mica_status constrain(const work *w, batch_slot *slot, size_t i, const int32_t *ids,
                             size_t n) {
    const mc_batch_task *task = w->task;
    mc_constraint *constraint;
    if (!task->constrain) return MICA_OK;
    MC_TRY(task->constrain(task->context, i, ids, n, &slot->options, &constraint));
    return constraint ? mc_stream_constrain(slot->stream, constraint, w->masks) : MICA_OK;
}

static mica_status open_stream(work *w, batch_slot *slot, size_t i) {
    const mc_batch_task *task = w->task;
    int32_t *ids;
    size_t n;
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, &slot->options,
                           task->items[i].options));
    /* A context that slides has no end: a row without a limit gets as many tokens as it has. */
    if (!slot->options.max_tokens) slot->options.max_tokens = task->model->context;
    mica_generate_options options = slot->options;
    options.progress = on_prefill;
    options.progress_user = slot;
    if (!slot->session) MC_TRY(mc_session_open(task->model, 0, &slot->session));
    MC_TRY(task->encode(task->context, i, &ids, &n));
    mica_status status = mc_stream_open(slot->session, ids, n, &options, &slot->stream);
    if (status == MICA_OK) status = constrain(w, slot, i, ids, n);
    mc_free(ids);
    if (status == MICA_OK)
        mc_stream_share(slot->stream, true);
    else
        mc_stream_close(&slot->stream);
    slot->item = i;
    slot->decode_us = 0;
    slot->decoded = 0;
    return status;
}

/* Takes the stream's output until a token must be computed (true, in *pending) or the stream
 * ends. */
static bool pull(work *w, batch_slot *slot, int32_t *pending) {
    mica_token token;
    while (!mc_stream_pending(slot->stream, pending)) {
        if (!mc_stream_next(slot->stream, &token)) {
            leave(w, slot, mc_stream_status(slot->stream), mc_stream_finish(slot->stream));
            return false;
        }
        mica_status status = mc_batch_output_add(&slot->output, &token, &slot->options);
        if (status != MICA_OK) {
            leave(w, slot, status, MICA_FINISH_ERROR);
            return false;
        }
        if (w->options->token && !w->options->token(w->options->user, slot->item, &token))
            mc_stream_cancel(slot->stream);
    }
    return true;
}

/* Begins items in a free slot until one of them survives its prefill, or none is left. */
static bool enter(work *w, batch_slot *slot, int32_t *pending) {
    while (w->next < w->task->count) {
        size_t i = w->next++;
        mica_status status = mc_cancel_check(w->options->cancel);
        if (status == MICA_OK) status = open_stream(w, slot, i);
        if (status != MICA_OK)
            mc_batch_rows_end(&w->rows, i, status, mc_batch_finish_of(status));
        else if (pull(w, slot, pending))
            return true;
    }
    return false;
}

/* The inputs of one step. */
typedef struct step {
    batch_slot *slots[MC_MAX_ROWS];
    mc_session *sessions[MC_MAX_ROWS];
    int32_t ids[MC_MAX_ROWS];
    size_t n;
} step;

/* Advances every slot until it needs a token or is free. */
static void prepare(work *w, step *t) {
    bool cancelled = mc_cancel_check(w->options->cancel) != MICA_OK;
    t->n = 0;
    for (size_t i = 0; i < w->n_slots; i++) {
        batch_slot *slot = &w->slots[i];
        int32_t id = 0;
        if (slot->stream && cancelled) mc_stream_cancel(slot->stream);
        bool lives = slot->stream && pull(w, slot, &id);
        if (!lives && !enter(w, slot, &id)) continue;
        mica_status status = mc_session_reserve(slot->session, 1);
        if (status != MICA_OK) {
            leave(w, slot, status, MICA_FINISH_ERROR);
            continue;
        }
        mc_stream_mask_ahead(slot->stream);
        t->slots[t->n] = slot;
        t->sessions[t->n] = slot->session;
        t->ids[t->n++] = id;
    }
}

static void compute(work *w, const step *t) {
    uint64_t start = mc_now_us();
    mica_status status = mc_batch_feed(&w->batch, t->sessions, t->ids, t->n);
    uint64_t took = mc_now_us() - start;
    const char *error = mc_task_error(status);
    for (size_t i = 0; i < t->n; i++) {
        t->slots[i]->decode_us += took;
        t->slots[i]->decoded++;
        if (status != MICA_OK)
            leave(w, t->slots[i], mc_fail(status, "%s", error), MICA_FINISH_ERROR);
    }
    mc_task_error_free(status, error);
}

static bool work_left(const work *w) {
    for (size_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].stream) return true;
    return w->next < w->task->count;
}

static void run_batch(work *w) {
    step t;
    while (work_left(w)) {
        prepare(w, &t);
        if (t.n) compute(w, &t);
    }
}

static mica_status open_work(work *w) {
    size_t count = w->task->count;
    if (count < w->n_slots) w->n_slots = count;
    w->slots = mc_calloc(w->n_slots, sizeof *w->slots);
    if (!w->slots) return mc_fail_nomem("a batch");
    for (size_t i = 0; i < w->n_slots; i++)
        w->slots[i].work = w;
    MC_TRY(mc_batch_rows_open(&w->rows, w->options, count));
    MC_TRY(mc_mask_worker_open(&w->masks));
    return mc_batch_init(&w->batch, w->task->model);
}

static void close_work(work *w) {
    for (size_t i = 0; w->slots && i < w->n_slots; i++) {
        mc_session_close(&w->slots[i].session);
        mc_batch_output_deinit(&w->slots[i].output);
    }
    mc_mask_worker_close(&w->masks);
    mc_batch_deinit(&w->batch);
    mc_free(w->slots);
}

mica_status mc_batch_generate(const mc_batch_task *task, const mica_batch_options *options,
                              mica_batch_results **results) {
    uint64_t start = mc_now_us();
    *results = NULL;
    MC_TRY(mc_batch_check_parallel(options));
    work w = {.task = task,
              .options = options,
              .n_slots = options->parallel ? (size_t)options->parallel : MC_BATCH_ROWS};
    mica_status status = open_work(&w);
    if (status == MICA_OK) run_batch(&w);
    close_work(&w);
    return mc_batch_rows_close(&w.rows, status, start, results);
}
