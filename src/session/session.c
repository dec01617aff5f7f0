#include "session/session.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "exec/eval.h"
#include "graph/graph.h"

#include <string.h>

enum { DEFAULT_CHUNK = 512, MIN_ROOM = 256 };

/* Entries that a sliding window gets room for beside itself. */
static int64_t spare_room(int64_t chunk) {
    return chunk > MIN_ROOM ? chunk : MIN_ROOM;
}

uint64_t mc_session_bytes(const mc_session_model *model, int64_t tokens) {
    return mc_cache_bytes(model->lm, tokens, model->context, spare_room(DEFAULT_CHUNK));
}

static mica_status open_parts(mc_session *session) {
    const mc_session_model *model = session->model;
    size_t arrays = 2 * (size_t)model->lm->spec.n_layers + 1;
    int64_t room = spare_room(session->chunk);
    MC_TRY(mc_cache_init(&session->cache, model->lm, model->device, model->context, room));
    if (model->context) session->history.limit = mc_cache_reach(&session->cache);
    MC_TRY(mica_scope_open(model->device, &session->scopes[0]));
    MC_TRY(mica_scope_open(model->device, &session->scopes[1]));
    if (!mc_buffer_reserve(&session->arrays, arrays * sizeof(mica_array)) ||
        !mc_buffer_reserve(&session->logits, (size_t)model->lm->spec.vocab * sizeof(float)))
        return mc_fail_nomem("a session");
    return MICA_OK;
}

mica_status mc_session_open(const mc_session_model *model, int64_t chunk, mc_session **out) {
    *out = NULL;
    if (chunk < 0 || chunk > INT32_MAX)
        return mc_fail(MICA_EINVAL, "prefill_chunk %lld: want 1 or more, or 0 for %d",
                       (long long)chunk, DEFAULT_CHUNK);
    mc_session *session = mc_calloc(1, sizeof *session);
    if (!session) return mc_fail_nomem("a session");
    session->model = model;
    session->chunk = chunk ? chunk : DEFAULT_CHUNK;
    mica_status status = open_parts(session);
    if (status == MICA_OK)
        *out = session;
    else
        mc_session_close(&session);
    return status;
}

void mc_session_close(mc_session **session) {
    if (!session || !*session) return;
    mc_session *s = *session;
    mc_session_close(&s->draft);
    mica_scope_close(&s->scopes[0]);
    mica_scope_close(&s->scopes[1]);
    mc_cache_deinit(&s->cache);
    mc_tokens_deinit(&s->history);
    mc_buffer_deinit(&s->arrays);
    mc_buffer_deinit(&s->logits);
    mc_buffer_deinit(&s->ahead);
    mc_free(s);
    *session = NULL;
}

/* Whether both tokenizers have the same token for an id. Either may be NULL. */
static bool same_token(const mica_tokenizer *a, const mica_tokenizer *b, int32_t id) {
    size_t len_a = 0, len_b = 0;
    const char *x = a ? mica_tokenizer_token(a, id, &len_a) : NULL;
    const char *y = b ? mica_tokenizer_token(b, id, &len_b) : NULL;
    if (!x || !y) return !x && !y;
    return len_a == len_b && memcmp(x, y, len_a) == 0;
}

mica_status mc_session_set_draft(mc_session *session, const mc_session_model *draft) {
    int64_t vocab = session->model->lm->spec.vocab, other = draft->lm->spec.vocab;
    if (vocab != other)
        return mc_fail(MICA_EINVAL,
                       "the draft model's vocabulary has %lld tokens, the model's %lld: "
                       "take one of the same family",
                       (long long)other, (long long)vocab);
    for (int32_t id = 0; id < vocab; id++)
        if (!same_token(session->model->tokenizer, draft->tokenizer, id))
            return mc_fail(MICA_EINVAL,
                           "token %d of the draft model's vocabulary is not the model's: "
                           "take one of the same family",
                           (int)id);
    MC_TRY(mc_session_open(draft, session->chunk, &session->draft));
    session->draft->greedy = true;
    return MICA_OK;
}

static void drop_ahead(mc_session *session) {
    mc_buffer_clear(&session->ahead);
    session->taken = 0;
}

static void forget(mc_session *session) {
    mc_cache_clear(&session->cache);
    mc_scope_reset(session->scopes[0]);
    mc_scope_reset(session->scopes[1]);
    mc_tokens_clear(&session->history);
    session->to_come = 0;
    drop_ahead(session);
}

void mc_session_reset(mc_session *session) {
    forget(session);
    session->streams++;
    if (session->draft) mc_session_reset(session->draft);
}

int64_t mc_session_count(const mc_session *session) {
    return mc_tokens_count(&session->history);
}

int64_t mc_session_room(const mc_session *session) {
    return session->model->context ? INT32_MAX : session->model->lm->spec.context;
}

int64_t mc_session_reuse(mc_session *session, const int32_t *ids, int64_t n) {
    char *data = (char *)(uintptr_t)ids; /* never written to */
    return mc_session_reuse_text(session, &(mc_tokens){.ids = {data, (size_t)n * sizeof *ids, 0}});
}

int64_t mc_session_reuse_text(mc_session *session, const mc_tokens *text) {
    int64_t count = mc_session_count(session), n = mc_tokens_count(text);
    int64_t common = mc_min(mc_tokens_common(&session->history, text), n - 1);
    drop_ahead(session);
    if (common > 0 && common >= session->history.start &&
        mc_cache_can_cut(&session->cache, count, common)) {
        mc_cache_cut(&session->cache, count, common);
        mc_tokens_cut(&session->history, common);
    } else {
        forget(session);
        common = 0;
    }
    session->to_come = n - common;
    return common;
}

/* ---- passes ---- */

void mc_best_record(mica_scope *s, mica_array logits, mica_array arrays[MC_BEST_ARRAYS]) {
    const int last = -1;
    arrays[0] = mica_argmax(s, logits, last, false);
    arrays[1] = mica_max(s, logits, &last, 1, false);
}

mica_status mc_best_read(const mica_array arrays[MC_BEST_ARRAYS], mc_best *best, size_t rows) {
    uint32_t ids[MC_MAX_ROWS];
    float logits[MC_MAX_ROWS];
    MC_TRY(mica_read(arrays[0], ids, rows * sizeof *ids));
    MC_TRY(mica_read(arrays[1], logits, rows * sizeof *logits));
    for (size_t i = 0; i < rows; i++)
        best[i] = (mc_best){(int32_t)ids[i], logits[i]};
    return MICA_OK;
}

/* How many of a pass's results come before those of the layers. */
static size_t wanted_arrays(const mc_session_wish *wish) {
    if (wish->wanted == MC_NO_LOGITS) return 0;
    return wish->best ? MC_BEST_ARRAYS : 1;
}

/* Where a pass puts the wished queries and keys. */
typedef struct observation {
    const mc_session_wish *wish;
    mica_array *results;
} observation;

static void observe(void *context, int layer, mica_array q, mica_array k) {
    const observation *w = context;
    for (size_t i = 0; i < w->wish->n_layers; i++)
        if (w->wish->layers[i] == layer) {
            w->results[2 * i] = q;
            w->results[2 * i + 1] = k;
        }
}

/* Records a pass in s, and lists the arrays to evaluate: the caches, then what is wished. */
static mica_status record_pass(mc_session *session, mica_scope *s, const int32_t *ids, int64_t n,
                               const mc_session_wish *wish, size_t *count) {
    const mc_lm *lm = session->model->lm;
    const int64_t shape[] = {1, n};
    mc_session_graph *graph = &session->graph;
    size_t caches = 2 * (size_t)lm->spec.n_layers, wanted = wanted_arrays(wish);
    *count = caches + wanted + 2 * wish->n_layers;
    mc_buffer_clear(&session->arrays);
    if (!mc_buffer_reserve(&session->arrays, *count * sizeof(mica_array)))
        return mc_fail_nomem("a session");
    mica_array *arrays = MC_BUFFER_AT(&session->arrays, mica_array), *results = arrays + caches;
    observation observer = {wish, results + wanted};
    mc_kv_store store = mc_cache_store(&session->cache);
    if (wish->n_layers) {
        store.observe = observe;
        store.observer = &observer;
    }
    for (size_t i = 0; i < *count; i++)
        arrays[i] = MICA_NONE;
    *graph = (mc_session_graph){.wanted = wish->wanted, .best = wish->best};
    if (!wish->n_layers) graph->n = n;
    graph->ids = mica_from_data(s, ids, MICA_I32, shape, 2);
    graph->position = mica_i32(s, 0); /* bind_pass sets it */
    mica_array forward = mc_lm_forward(s, lm, graph->ids, graph->position, &store, wish->wanted);
    if (wanted && wish->best)
        mc_best_record(s, forward, results);
    else if (wanted)
        results[0] = forward;
    mc_cache_arrays(&session->cache, arrays);
    return mica_scope_status(s);
}

/* Sets the recorded pass's leaves for this session. */
static mica_status bind_pass(mc_session *session, const int32_t *ids, bool again) {
    int32_t position = (int32_t)mc_session_count(session);
    MC_TRY(mc_leaf_set(session->graph.ids, ids));
    MC_TRY(mc_leaf_set(session->graph.position, &position));
    return mc_cache_bind(&session->cache, again);
}

/* Whether the graph in s, the scope of the caches, is that of a pass of n tokens. */
static bool is_recorded(const mc_session *session, const mica_scope *s, int64_t n,
                        const mc_session_wish *wish) {
    const mc_session_graph *graph = &session->graph;
    return mc_eval_kept(s) && graph->n == n && graph->wanted == wish->wanted &&
           graph->best == wish->best && !wish->n_layers && mc_cache_fits(&session->cache, s);
}

/* Computes a pass. Afterwards the scope in which it was recorded holds the caches. */
static mica_status run_pass(mc_session *session, const int32_t *ids, int64_t n,
                            const mc_session_wish *wish, mica_array *results) {
    mica_scope *home = session->scopes[session->current],
               *s = session->scopes[1 - session->current];
    size_t caches = 2 * (size_t)session->model->lm->spec.n_layers, count;
    if (is_recorded(session, home, n, wish)) {
        MC_TRY(bind_pass(session, ids, true));
        MC_TRY(mc_eval_again(home));
        count = caches + wanted_arrays(wish);
    } else {
        MC_TRY(record_pass(session, s, ids, n, wish, &count));
        MC_TRY(bind_pass(session, ids, false));
        const mica_array *arrays = MC_BUFFER_AT(&session->arrays, mica_array);
        bool keep = session->graph.n > 0;
        MC_TRY(keep ? mc_eval_keep(s, arrays, count) : mica_eval_n(s, arrays, count));
        mc_scope_reset(home);
        session->current = 1 - session->current;
    }
    memcpy(results, MC_BUFFER_AT(&session->arrays, mica_array) + caches,
           (count - caches) * sizeof *results);
    return MICA_OK;
}

/* Computes a pass over tokens behind the history. They are not counted yet, and the history has
 * room for them. */
static mica_status pass_behind(mc_session *session, const int32_t *ids, int64_t n,
                               const mc_session_wish *wish, mica_array *results) {
    mica_scope *home = session->scopes[session->current];
    int64_t later = session->to_come > n ? session->to_come : n;
    mica_status status = mc_cache_reserve(&session->cache, home, n, later);
    drop_ahead(session);
    if (status == MICA_OK && !mc_tokens_reserve(&session->history, n))
        status = mc_fail_nomem("a session's history");
    if (status == MICA_OK) status = run_pass(session, ids, n, wish, results);
    if (status != MICA_OK) mc_session_reset(session); /* the caches may be half written */
    return status;
}

/* Adds the next n tokens in the caches to the history, which has room for them. */
static void count(mc_session *session, const int32_t *ids, int64_t n) {
    (void)mc_tokens_add(&session->history, ids, n);
    mc_cache_commit(&session->cache, n);
    session->to_come = session->to_come > n ? session->to_come - n : 0;
}

mica_status mc_session_pass(mc_session *session, const int32_t *ids, int64_t n,
                            const mc_session_wish *wish, mica_array *results) {
    MC_TRY(pass_behind(session, ids, n, wish, results));
    count(session, ids, n);
    return MICA_OK;
}

/* Reads logits [1, rows, vocab] into the session's buffer. */
static mica_status read_logits(mc_session *session, mica_array logits, size_t rows) {
    size_t bytes = rows * (size_t)session->model->lm->spec.vocab * sizeof(float);
    mc_buffer_clear(&session->logits);
    if (!mc_buffer_reserve(&session->logits, bytes)) return mc_fail_nomem("a session's logits");
    return mica_read(logits, session->logits.data, bytes);
}

/* Keeps the logits of a pass, `rows` rows, or their best tokens. */
static mica_status keep(mc_session *session, const mc_session_wish *wish, const mica_array *results,
                        size_t rows) {
    mica_status status = wish->best ? mc_best_read(results, session->best, rows)
                                    : read_logits(session, results[0], rows);
    session->has_best = wish->best;
    if (status != MICA_OK) mc_session_reset(session);
    return status;
}

mica_status mc_session_feed(mc_session *session, const int32_t *ids, int64_t n,
                            const float **logits) {
    const mc_session_wish wish = {.wanted = logits ? MC_LAST_LOGITS : MC_NO_LOGITS,
                                  .best = session->greedy};
    mica_array last[MC_BEST_ARRAYS];
    if (n == 1 && mc_session_knows(session, ids[0])) {
        count(session, ids, 1);
        session->taken++;
    } else {
        MC_TRY(mc_session_pass(session, ids, n, &wish, last));
        if (logits) MC_TRY(keep(session, &wish, last, 1));
    }
    if (logits) *logits = mc_session_logits(session);
    return MICA_OK;
}

/* The row, of those that the last pass left, of the token fed last. */
static size_t row_of(const mc_session *session) {
    return session->taken ? session->taken - 1 : 0;
}

float *mc_session_logits(mc_session *session) {
    if (session->has_best) return NULL;
    return MC_BUFFER_AT(&session->logits, float) +
           row_of(session) * (size_t)session->model->lm->spec.vocab;
}

const mc_best *mc_session_best(const mc_session *session) {
    return session->has_best ? &session->best[row_of(session)] : NULL;
}

/* ---- tokens computed ahead ---- */

mica_status mc_session_look_ahead(mc_session *session, const int32_t *ids, int64_t n) {
    const mc_session_wish wish = {.wanted = MC_ALL_LOGITS, .best = session->greedy};
    mica_array all[MC_BEST_ARRAYS];
    MC_TRY(pass_behind(session, ids, n, &wish, all));
    MC_TRY(keep(session, &wish, all, (size_t)n));
    return mc_session_set_ahead(session, ids, n);
}

mica_status mc_session_set_ahead(mc_session *session, const int32_t *ids, int64_t n) {
    drop_ahead(session);
    if (mc_buffer_add(&session->ahead, ids, (size_t)n * sizeof *ids) &&
        mc_tokens_reserve(&session->history, n))
        return MICA_OK;
    mc_session_reset(session);
    return mc_fail_nomem("a session's tokens");
}

bool mc_session_is_ahead(const mc_session *session) {
    return session->taken < MC_BUFFER_COUNT(&session->ahead, int32_t);
}

bool mc_session_knows(const mc_session *session, int32_t id) {
    return mc_session_is_ahead(session) &&
           MC_BUFFER_AT(&session->ahead, int32_t)[session->taken] == id;
}
