#include "task/batch.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/options.h"
#include "base/system.h"
#include "device/device.h"
#include "exec/program.h"
#include "exec/read.h"
#include "session/stream.h"
#include "task/batch_rows.h"
#include "task/task.h"

#include <string.h>

/* ---- one step ---- */

mica_status mc_batch_init(mc_batch *batch, const mc_session_model *model) {
    *batch = (mc_batch){.model = model};
    MC_TRY(mica_scope_open(model->device, &batch->scope));
    return mica_scope_open(model->device, &batch->recording);
}

void mc_batch_deinit(mc_batch *batch) {
    mc_pass_close_all(&batch->last, 1);
    mica_scope_close(&batch->scope);
    mica_scope_close(&batch->recording);
    mc_arena_deinit(&batch->arena);
    mc_buffer_deinit(&batch->tops);
}

mica_status mc_batch_reserve(mc_session *session, int64_t n) {
    mica_status status = mc_session_settle(session);
    if (status == MICA_OK) status = mc_session_collect(session);
    if (status == MICA_OK) status = mc_cache_reserve(&session->cache, session->scope, n, n);
    if (status != MICA_OK) mc_session_reset(session);
    return status;
}

enum { STEP_PARAMS = 2 }; /* beside the caches': ids, positions */

/* The rows of a step: their caches are all on one pool, or none is. A row is one token. */
typedef struct step_rows {
    mc_session *sessions[MC_MAX_ROWS]; /* [n] */
    int64_t ahead[MC_MAX_ROWS];        /* [n] tokens of the session in earlier rows */
    size_t n;
    bool best, largest, logits;         /* what some rows want; the largest and all logits */
    mc_kv_pool *pool;                   /* NULL: each has buffers of its own */
    const mc_paged *paged[MC_MAX_ROWS]; /* [n] with a pool */
} step_rows;

/* The rows of `counts` [n] tokens of each session; NULL: of one. */
static void list_rows(step_rows *rows, mc_session *const *sessions, const int64_t *counts,
                      size_t n) {
    rows->n = 0;
    rows->best = rows->largest = rows->logits = false;
    rows->pool = sessions[0]->cache.paged.pool;
    for (size_t i = 0; i < n; i++) {
        rows->best |= sessions[i]->greedy;
        rows->largest |= mc_session_wants_largest(sessions[i]);
        rows->logits |= !sessions[i]->greedy;
        for (int64_t k = 0; k < (counts ? counts[i] : 1); k++, rows->n++) {
            rows->sessions[rows->n] = sessions[i];
            rows->ahead[rows->n] = k;
            rows->paged[rows->n] = &sessions[i]->cache.paged;
        }
    }
}

/* Of each row's own cache, or of all together: they have the same number each. */
static size_t lists_of_caches(const step_rows *rows) {
    return rows->pool ? 1 : rows->n;
}

/* Arrays that a step leaves beside the caches': the best tokens, the largest logits, then all. */
static size_t count_wanted(const step_rows *rows) {
    return (rows->best ? (size_t)MC_BEST_ARRAYS : 0u) + rows->largest + rows->logits;
}

static size_t count_results(const step_rows *rows) {
    return lists_of_caches(rows) * mc_cache_result_count(&rows->sessions[0]->cache) +
           count_wanted(rows);
}

static size_t count_params(const step_rows *rows) {
    return STEP_PARAMS + lists_of_caches(rows) * mc_cache_param_count(&rows->sessions[0]->cache);
}

/* The caches' parameters and results of the step that was recorded. */
static void list_ports(const step_rows *rows, mica_param *params, mica_array *results) {
    for (size_t i = 0; i < lists_of_caches(rows); i++) {
        const mc_cache *cache = &rows->sessions[i]->cache;
        mc_cache_params(cache, params + i * mc_cache_param_count(cache));
        mc_cache_results(cache, results + i * mc_cache_result_count(cache));
    }
}

/* Records a step in s and builds its program. Parameters: ids [n, 1], positions [n], then those of
 * the rows' caches. Results: those of the caches, then the step's. */
static mica_status build_step(mc_batch *batch, mica_scope *s, const step_rows *rows,
                              mica_program **program) {
    const mc_lm *lm = batch->model->lm;
    const int64_t n = (int64_t)rows->n, shape[] = {n, 1};
    size_t n_params = count_params(rows), n_results = count_results(rows);
    mc_kv_store stores[MC_MAX_ROWS], all = {.rows = stores};
    mica_param *params = mc_arena_alloc(&batch->arena, n_params * sizeof *params);
    mica_array *results = mc_arena_alloc(&batch->arena, n_results * sizeof *results);
    if (!params || !results) return mc_fail_nomem("a batch");
    for (size_t i = 0; i < rows->n && !rows->pool; i++)
        stores[i] = mc_cache_store(&rows->sessions[i]->cache);
    if (rows->pool) all = mc_paged_store(rows->paged, rows->n);
    mica_array ids = mica_program_param(s, MICA_I32, shape, 2);
    mica_array positions = mica_program_param(s, MICA_I32, &n, 1);
    mica_array logits = mc_lm_forward(s, lm, ids, positions, &all, MC_LAST_LOGITS);
    if (rows->best) mc_best_record(s, logits, results + n_results - count_wanted(rows));
    if (rows->largest) results[n_results - 2] = mc_largest_record(s, logits);
    if (rows->logits) results[n_results - 1] = logits;
    MC_TRY(mica_scope_status(s));
    params[0] = (mica_param){.name = "ids", .array = ids};
    params[1] = (mica_param){.name = "positions", .array = positions};
    list_ports(rows, params + STEP_PARAMS, results);
    return mica_program_build(s, params, n_params, results, n_results, NULL, program);
}

/* Finds or builds the program of a step. */
static mica_status find_program(mc_batch *batch, const step_rows *rows, mica_program **program) {
    mc_pass_key key = {.rows = rows->n,
                       .n = 1,
                       .wanted = MC_LAST_LOGITS,
                       .best = rows->best,
                       .largest = rows->largest,
                       .both = rows->best && rows->logits};
    mc_pass_program *list = rows->pool ? rows->pool->programs : &batch->last;
    for (size_t i = 0; i < rows->n && !rows->pool; i++) {
        uint64_t shape = mc_cache_shape(&rows->sessions[i]->cache);
        key.shape = mc_hash(&shape, sizeof shape, key.shape);
    }
    if (rows->pool) key.shape = mc_paged_shape(rows->paged, rows->n);
    mica_status status = MICA_OK;
    if (!mc_pass_find(list, rows->pool ? MC_POOL_PROGRAMS : 1, &key)) {
        status = build_step(batch, batch->recording, rows, &list[0].program);
        mc_scope_reset(batch->recording);
    }
    *program = list[0].program;
    return status;
}

/* The program's arguments. */
static mica_status list_args(mc_batch *batch, const step_rows *rows, const int32_t *ids,
                             mica_array *args) {
    const int64_t n = (int64_t)rows->n, shape[] = {n, 1};
    size_t each = mc_cache_param_count(&rows->sessions[0]->cache);
    int32_t positions[MC_MAX_ROWS];
    for (size_t i = 0; i < rows->n; i++) {
        positions[i] = (int32_t)(mc_session_count(rows->sessions[i]) + rows->ahead[i]);
        if (!rows->pool)
            mc_cache_args(&rows->sessions[i]->cache, batch->scope, 1,
                          args + STEP_PARAMS + i * each);
    }
    if (rows->pool)
        mc_paged_args(rows->paged, rows->ahead, rows->n, batch->scope, 1, args + STEP_PARAMS);
    args[0] = mica_from_data(batch->scope, ids, MICA_I32, shape, 2);
    args[1] = mica_from_data(batch->scope, positions, MICA_I32, &n, 1);
    return mica_scope_status(batch->scope);
}

/* Runs a program; gives the caches what it left. */
static mica_status run_program(mc_batch *batch, const step_rows *rows, const mica_program *program,
                               const mica_array *args, mica_array *results) {
    size_t each = mc_cache_result_count(&rows->sessions[0]->cache);
    if (rows->pool) {
        MC_TRY(mc_program_run_kept(program, batch->scope, args, results));
        return mc_pool_set_arrays(rows->pool, results);
    }
    MC_TRY(mica_program_run(program, batch->scope, args, results));
    for (size_t i = 0; i < rows->n; i++)
        MC_TRY(
            mc_cache_take(&rows->sessions[i]->cache, rows->sessions[i]->scope, results + i * each));
    return MICA_OK;
}

/* Gives their best tokens to the rows that want these. */
static mica_status hand_out_best(const step_rows *rows, const mica_array *arrays) {
    mc_best best[MC_MAX_ROWS];
    MC_TRY(mc_best_read(arrays, best, rows->n));
    for (size_t i = 0; i < rows->n; i++) {
        mc_session *session = rows->sessions[i];
        if (!session->greedy) continue;
        session->best[rows->ahead[i]] = best[i];
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
    if (!mc_buffer_reserve(&batch->tops, rows->n * sizeof(mc_largest)))
        return mc_fail_nomem("a batch");
    mc_largest *tops = MC_BUFFER_AT(&batch->tops, mc_largest);
    MC_TRY(mc_largest_read(largest, tops, rows->n));
    for (size_t i = 0; i < rows->n; i++) {
        mc_session *session = rows->sessions[i];
        if (!mc_session_wants_largest(session)) continue;
        MC_BUFFER_AT(&session->tops, mc_largest)[rows->ahead[i]] = tops[i];
        session->has_best = false;
        session->has_largest = true;
        if (rows->ahead[i]) continue;
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
    for (size_t i = 0; i < rows->n; i++) {
        mc_session *session = rows->sessions[i];
        if (!wants_logits(session)) continue;
        char *to = session->logits.data + (size_t)rows->ahead[i] * bytes;
        MC_TRY(mc_read_part(logits, i * bytes, to, bytes));
        session->has_best = session->has_largest = false;
    }
    return MICA_OK;
}

/* Computes a step. */
static mica_status run_step(mc_batch *batch, const step_rows *rows, const int32_t *ids) {
    mica_program *program;
    mc_arena_reset(&batch->arena);
    mc_scope_reset(batch->scope);
    MC_TRY(find_program(batch, rows, &program));
    size_t n_results = count_results(rows);
    mica_array *args = mc_arena_alloc(&batch->arena, count_params(rows) * sizeof *args);
    mica_array *results = mc_arena_alloc(&batch->arena, n_results * sizeof *results);
    if (!args || !results) return mc_fail_nomem("a batch");
    MC_TRY(list_args(batch, rows, ids, args));
    MC_TRY(run_program(batch, rows, program, args, results));
    const mica_array *last = results + n_results - count_wanted(rows);
    if (rows->best) MC_TRY(hand_out_best(rows, last));
    if (rows->largest)
        MC_TRY(hand_out_largest(batch, rows, results[n_results - 2], results[n_results - 1]));
    return rows->logits ? hand_out_logits(batch, rows, results[n_results - 1]) : MICA_OK;
}

static mica_status feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                        const int64_t *counts, size_t n) {
    step_rows rows;
    list_rows(&rows, sessions, counts, n);
    MC_TRY(run_step(batch, &rows, ids));
    for (size_t i = 0; i < n; i++) {
        int64_t count = counts ? counts[i] : 1;
        mc_session_set_ahead(sessions[i], ids, count);
        ids += count;
    }
    return MICA_OK;
}

mica_status mc_batch_look_ahead(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                                const int64_t *counts, size_t n) {
    MC_TRY(reserve_rows(batch, sessions, counts, n));
    return feed(batch, sessions, ids, counts, n);
}

mica_status mc_batch_feed(mc_batch *batch, mc_session *const *sessions, const int32_t *ids,
                          size_t n) {
    mica_status status = reserve_rows(batch, sessions, NULL, n);
    if (status == MICA_OK) status = feed(batch, sessions, ids, NULL, n);
    for (size_t i = 0; status != MICA_OK && i < n; i++)
        if (!sessions[i]->cache.paged.pool)
            mc_session_reset(sessions[i]); /* its caches may be half written */
    return status;
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
        mica_status status = mc_batch_reserve(slot->session, 1);
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

static void run(work *w) {
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
    if (status == MICA_OK) run(&w);
    close_work(&w);
    return mc_batch_rows_close(&w.rows, status, start, results);
}
