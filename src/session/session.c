#include "session/session.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"
#include "exec/read.h"
#include "group/group.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_CHUNK = 512, MIN_ROOM = 256 };

/* Entries that a sliding window gets room for beside itself. */
static int64_t spare_room(int64_t chunk) {
    return chunk > MIN_ROOM ? chunk : MIN_ROOM;
}

/* A pool has room for what passes of 512 tokens take. */
static int default_chunk(const mc_session_model *model) {
    int tokens = model->pool ? 0 : model->device->backend->prompt_tokens;
    return tokens > 0 ? tokens : DEFAULT_CHUNK;
}

static mc_cache_options cache_options(const mc_session_model *model, int64_t chunk) {
    return (mc_cache_options){.pool = model->pool,
                              .states = model->states,
                              .context = model->context,
                              .chunk = spare_room(chunk)};
}

uint64_t mc_session_bytes(const mc_session_model *model, int64_t tokens) {
    const mc_cache_options options = cache_options(model, default_chunk(model));
    uint64_t bytes;
    return mc_cache_bytes(model->lm, &options, tokens, &bytes) == MICA_OK ? bytes : UINT64_MAX;
}

/* Tells other ranks what is done with a session. */
static void say(const mc_session *session, mc_lead_op op, int64_t number) {
    mc_lead_say(session->model->lead, op, (int64_t[]){session->number, number}, 2);
}

int64_t mc_session_told(const mc_session *session) {
    return session->number * MC_SESSION_FLAGS + (session->greedy ? MC_SESSION_GREEDY : 0) +
           (session->largest ? MC_SESSION_LARGEST : 0);
}

static mica_status open_parts(mc_session *session) {
    const mc_session_model *model = session->model;
    const mc_cache_options options = cache_options(model, session->chunk);
    mc_kv_pool *pool = model->pool;
    MC_TRY(mc_cache_init(&session->cache, model->lm, model->device, &options));
    if (model->context) session->history.limit = mc_cache_reach(&session->cache);
    MC_TRY(mica_scope_open(model->device, &session->scope));
    MC_TRY(mc_passes_init(&session->passes, session->scope,
                          pool ? pool->programs : session->programs,
                          pool ? MC_POOL_PROGRAMS : MC_SESSION_PROGRAMS));
    session->passes.lead = model->lead;
    mc_device_draws_init(&session->draws, session->passes.recording);
    if (!mc_buffer_reserve(&session->logits, (size_t)model->lm->spec.vocab * sizeof(float)))
        return mc_fail_nomem("a session");
    return MICA_OK;
}

mica_status mc_session_open(const mc_session_model *model, int64_t chunk, mc_session **out) {
    *out = NULL;
    if (chunk < 0 || chunk > INT32_MAX)
        return mc_fail(MICA_EINVAL, "prefill_chunk %lld: want 1 or more, or 0 for %d",
                       (long long)chunk, default_chunk(model));
    if (model->lm->spec.both_ways)
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s is an encoder, which says no next token: it makes vectors (mica embed) "
                       "or scores (mica rerank)",
                       model->lm->spec.family);
    mc_session *session = mc_calloc(1, sizeof *session);
    if (!session) return mc_fail_nomem("a session");
    session->model = model;
    session->chunk = chunk ? chunk : default_chunk(model);
    session->number = mc_lead_take_number(model->lead);
    say(session, MC_LEAD_OPEN, session->chunk);
    mica_status status = mc_lead_done(model->lead, open_parts(session));
    if (status == MICA_OK)
        *out = session;
    else
        mc_session_close(&session);
    return status;
}

/* Waits for a pass that was launched. */
static mica_status end_launch(const mc_session *session, const mc_session_launch *launch) {
    mica_status status = mc_device_wait(session->model->device, launch->fence);
    return launch->status == MICA_OK ? status : mc_fail(launch->status, "%s", launch->error);
}

static mica_status drop_follower(mc_session *session) {
    if (!session->has_follower) return MICA_OK;
    session->has_follower = false;
    return end_launch(session, &session->follower);
}

void mc_session_close(mc_session **session) {
    if (!session || !*session) return;
    mc_session *s = *session;
    mc_lead *lead = s->model->lead;
    say(s, MC_LEAD_CLOSE, 0);
    (void)drop_follower(s);
    mc_session_close(&s->draft);
    mc_swap_drop(&s->swap);
    mc_device_draws_deinit(&s->draws);
    mc_pass_close_all(s->programs, MC_SESSION_PROGRAMS);
    mc_passes_deinit(&s->passes);
    mica_scope_close(&s->scope);
    mc_cache_deinit(&s->cache);
    mc_tokens_deinit(&s->history);
    mc_buffer_deinit(&s->logits);
    mc_buffer_deinit(&s->tops);
    mc_buffer_deinit(&s->ahead);
    mc_lead_give_number(lead, s->number);
    mc_free(s);
    *session = NULL;
    mc_lead_done_with(lead, 0);
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
    session->followed = false;
    mc_buffer_clear(&session->ahead);
    session->taken = 0;
}

static void forget(mc_session *session) {
    (void)drop_follower(session);
    session->rows = MICA_NONE;
    mc_cache_clear(&session->cache);
    mc_scope_reset(session->scope);
    mc_tokens_clear(&session->history);
    session->to_come = 0;
    drop_ahead(session);
}

void mc_session_reset(mc_session *session) {
    say(session, MC_LEAD_RESET, 0);
    forget(session);
    mc_swap_drop(&session->swap);
    mc_trail_unmark(&session->cache.trail);
    session->streams++;
    if (session->draft) mc_session_reset(session->draft);
    mc_lead_done_with(session->model->lead, 0);
}

void mc_session_swap_out(mc_session *session) {
    bool whole = !session->model->context && !session->history.start;
    mc_swap swap = {0};
    say(session, MC_LEAD_SWAP_OUT, 0);
    if (mc_swap_allowed(&session->cache) && whole && mc_session_count(session) > 0 &&
        mc_session_settle(session) == MICA_OK)
        (void)mc_swap_save(&swap, &session->cache, &session->history); /* else it is read again */
    mc_session_reset(session);
    session->swap = swap;
    mc_lead_done_with(session->model->lead, 0);
}

/* After an error, whose text stays. */
static mica_status reset_after(mc_session *session, mica_status status) {
    char error[sizeof session->follower.error];
    snprintf(error, sizeof error, "%s", mica_last_error());
    mc_session_reset(session);
    return mc_fail(status, "%s", error);
}

mica_status mc_session_mark(mc_session *session, int64_t position) {
    say(session, MC_LEAD_MARK, position);
    return mc_lead_done(session->model->lead, mc_trail_mark(&session->cache.trail, position));
}

void mc_session_set_salt(mc_session *session, const char *salt) {
    say(session, MC_LEAD_SALT, 0);
    mc_lead_say_text(session->model->lead, salt);
    mc_session_reset(session);
    session->cache.trail.seed = mc_prefix_seed(salt);
    mc_lead_done_with(session->model->lead, 0);
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

/* How many of a text's first tokens the pool has. */
static int64_t known_of(const mc_session *session, const mc_tokens *text) {
    if (text->start) return 0;
    return mc_trail_known(&session->cache.trail, MC_BUFFER_AT(&text->ids, int32_t),
                          mc_tokens_count(text));
}

/* Begins an empty session with what the pool has of a text; returns how many tokens. */
static int64_t take_known(mc_session *session, const mc_tokens *text) {
    const int32_t *ids = MC_BUFFER_AT(&text->ids, int32_t);
    int64_t known = known_of(session, text);
    if (known < 1 || !mc_tokens_reserve(&session->history, known)) return 0;
    if (mc_trail_take(&session->cache.trail, session->scope, ids, known) != MICA_OK) {
        forget(session);
        return 0;
    }
    (void)mc_tokens_add(&session->history, ids, known);
    return known;
}

static void go_back(mc_session *session, int64_t to) {
    mc_cache_cut(&session->cache, mc_session_count(session), to);
    mc_tokens_cut(&session->history, to);
}

/* Puts what was swapped out into the empty session, all but the text's last token. */
static mica_status load_swapped(mc_session *session, const mc_tokens *text, int64_t n) {
    if (!mc_tokens_reserve(&session->history, n)) return mc_fail_nomem("a session's history");
    MC_TRY(mc_swap_load(&session->swap, &session->cache, session->scope));
    (void)mc_tokens_add(&session->history, MC_BUFFER_AT(&text->ids, int32_t), n);
    if (n < mc_tokens_count(text)) return MICA_OK;
    int64_t back = mc_cache_back(&session->cache, n, n - 1);
    if (!back) return mc_fail(MICA_EINVAL, "the caches cannot go back by a token");
    go_back(session, back);
    return MICA_OK;
}

/* Begins an empty session with what the pool has of a text, or with what was swapped out, if that
 * saves a block of tokens. */
static int64_t take_swapped(mc_session *session, const mc_tokens *text) {
    int64_t known = take_known(session, text), n = mc_swap_reach(&session->swap, text);
    if (!mc_swap_pays(&session->swap, n - known)) return known;
    forget(session);
    if (load_swapped(session, text, n) == MICA_OK) return mc_session_count(session);
    forget(session);
    return take_known(session, text);
}

/* Says what comes to who keeps it for others; without memory nobody does. */
static void expect(mc_session *session, const mc_tokens *text) {
    int64_t n = mc_tokens_count(text);
    if (text->start)
        (void)mc_session_mark(session, n);
    else
        mc_trail_expect(&session->cache.trail, MC_BUFFER_AT(&text->ids, int32_t), n);
}

static int64_t reuse(mc_session *session, const mc_tokens *text) {
    if (drop_follower(session) != MICA_OK) forget(session); /* it had the caches */
    int64_t count = mc_session_count(session), n = mc_tokens_count(text);
    int64_t common = mc_min(mc_tokens_common(&session->history, text), n - 1);
    drop_ahead(session);
    common = mc_cache_back(&session->cache, count, common);
    if (common > 0 && common >= session->history.start && common >= known_of(session, text)) {
        go_back(session, common);
    } else {
        forget(session);
        common = take_swapped(session, text);
    }
    mc_swap_drop(&session->swap);
    session->to_come = n - common;
    mc_trail_count(&session->cache.trail, n, common);
    expect(session, text);
    return common;
}

int64_t mc_session_reuse_text(mc_session *session, const mc_tokens *text) {
    mc_lead *lead = session->model->lead;
    const int64_t numbers[] = {session->number, text->start, (int64_t)text->hash};
    mc_lead_say(lead, MC_LEAD_REUSE, numbers, 3);
    mc_lead_say_ids(lead, MC_BUFFER_AT(&text->ids, int32_t), mc_tokens_count(text) - text->start);
    int64_t common = reuse(session, text);
    mc_lead_done_with(lead, common);
    return common;
}

void mc_session_expect(mc_session *session, int64_t n) {
    say(session, MC_LEAD_EXPECT, n);
    session->to_come += n;
    mc_lead_done_with(session->model->lead, 0);
}

/* ---- passes ---- */

/* Computes a pass over ids [1, n] i32 behind `count` tokens, or launches it. */
static mica_status run_pass(mc_session *session, mica_array ids, int64_t count, int64_t n,
                            const mc_session_wish *wish, mica_array *results) {
    mc_pass_rows pass; /* the rest is for more rows */
    pass.lm = session->model->lm;
    pass.rows = 1;
    pass.n = n;
    pass.wish = *wish;
    pass.caches[0] = &session->cache;
    pass.homes[0] = session->scope;
    pass.positions[0] = count;
    pass.ahead[0] = 0;
    return mc_pass_compute(&session->passes, &pass, ids, results);
}

/* Drops what nobody needs of the last pass but its rows, notes the states where a text ended or
 * tokens may be computed in vain, and makes room for n tokens behind `count`. */
static mica_status prepare(mc_session *session, int64_t count, int64_t n) {
    mc_cache *cache = &session->cache;
    mica_scope *s = session->scope;
    MC_TRY(mc_cache_collect(cache, s, &session->rows, session->rows.scope != NULL));
    if (n > 1 || session->has_read) MC_TRY(mc_cache_snapshot(cache, s, count, session->has_read));
    session->has_read = false;
    mc_trail_keep(&cache->trail);
    return mc_cache_reserve(cache, s, n, mc_max(session->to_come, n));
}

/* Computes a pass over n tokens behind `count` of the history. */
static mica_status compute(mc_session *session, int64_t count, const int32_t *ids, int64_t n,
                           const mc_session_wish *wish, mica_array *results) {
    const int64_t shape[] = {1, n};
    MC_TRY(prepare(session, count, n));
    mica_array tokens = mica_from_data(session->scope, ids, MICA_I32, shape, 2);
    return run_pass(session, tokens, count, n, wish, results);
}

/* Goes back to where the states can, if they have seen tokens that were not counted, and computes
 * the history from there on again. */
static mica_status catch_up(mc_session *session) {
    const mc_session_wish none = {.wanted = MC_NO_LOGITS};
    const mc_tokens *text = &session->history;
    int64_t n = mc_session_count(session), at = mc_cache_back(&session->cache, n, n);
    if (at < text->start)
        return mc_fail(MICA_EINVAL, "the session has forgotten the tokens to compute again");
    if (at)
        mc_cache_cut(&session->cache, n, at);
    else
        mc_cache_clear(&session->cache);
    for (int64_t step; at < n; at += step) {
        step = mc_min(n - at, session->chunk);
        MC_TRY(compute(session, at, MC_BUFFER_AT(&text->ids, int32_t) + (at - text->start), step,
                       &none, NULL));
        mc_cache_commit(&session->cache, step);
    }
    return MICA_OK;
}

mica_status mc_session_settle(mc_session *session) {
    mica_status status = drop_follower(session);
    session->followed = false;
    if (status == MICA_OK) status = catch_up(session);
    if (status != MICA_OK) return reset_after(session, status);
    session->ahead.len = session->taken * sizeof(int32_t); /* the blocks of the others are gone */
    return MICA_OK;
}

mica_status mc_session_note(mc_session *session, int64_t total) {
    mc_cache *cache = &session->cache;
    mica_scope *s = session->scope;
    if (mc_cache_is_together(cache)) return MICA_OK;
    mica_status status = mc_cache_collect(cache, s, &session->rows, session->rows.scope != NULL);
    if (status == MICA_OK) status = mc_cache_snapshot(cache, s, total, false);
    if (status != MICA_OK) mica_scope_clear_error(s);
    return status;
}

static mica_status reserve(mc_session *session, int64_t n) {
    MC_TRY(mc_session_settle(session));
    session->rows = MICA_NONE;
    mica_status status = prepare(session, mc_session_count(session), n);
    if (status != MICA_OK) mc_session_reset(session);
    return status;
}

mica_status mc_session_reserve(mc_session *session, int64_t n) {
    say(session, MC_LEAD_RESERVE, n);
    return mc_lead_done(session->model->lead, reserve(session, n));
}

mica_status mc_session_reserve_more(mc_session *session, int64_t n) {
    say(session, MC_LEAD_RESERVE_MORE, n);
    return mc_lead_done(session->model->lead,
                        mc_cache_reserve(&session->cache, session->scope, n, n));
}

/* Computes a pass over tokens behind the history. They are not counted yet, and the history has
 * room for them. */
static mica_status pass_behind(mc_session *session, const int32_t *ids, int64_t n,
                               const mc_session_wish *wish, mica_array *results) {
    MC_TRY(mc_session_settle(session));
    drop_ahead(session);
    session->rows = MICA_NONE;
    mica_status status = MICA_OK;
    if (!mc_tokens_reserve(&session->history, n)) status = mc_fail_nomem("a session's history");
    if (status == MICA_OK)
        status = compute(session, mc_session_count(session), ids, n, wish, results);
    if (status != MICA_OK) mc_session_reset(session); /* the caches may be half written */
    return status;
}

/* Adds the next n tokens in the caches to the history, which has room for them. */
static void count(mc_session *session, const int32_t *ids, int64_t n) {
    const mc_tokens *text = &session->history;
    (void)mc_tokens_add(&session->history, ids, n);
    mc_cache_commit(&session->cache, n);
    mc_trail_extend(&session->cache.trail, MC_BUFFER_AT(&text->ids, int32_t), text->start,
                    mc_tokens_count(text));
    session->to_come = session->to_come > n ? session->to_come - n : 0;
}

mica_status mc_session_pass(mc_session *session, const int32_t *ids, int64_t n,
                            const mc_session_wish *wish, mica_array *results) {
    MC_TRY(pass_behind(session, ids, n, wish, results));
    count(session, ids, n);
    session->has_read = n > 1;
    return MICA_OK;
}

/* Reads logits [1, rows, vocab] into the session's buffer. */
static mica_status read_logits(mc_session *session, mica_array logits, size_t rows) {
    size_t bytes = rows * (size_t)session->model->lm->spec.vocab * sizeof(float);
    mc_buffer_clear(&session->logits);
    if (!mc_buffer_reserve(&session->logits, bytes)) return mc_fail_nomem("a session's logits");
    return mica_read(logits, session->logits.data, bytes);
}

static mica_status read_largest(mc_session *session, mica_array largest, size_t rows) {
    mc_buffer_clear(&session->tops);
    if (!mc_buffer_reserve(&session->tops, rows * sizeof(mc_largest)))
        return mc_fail_nomem("a session's logits");
    return mc_largest_read(largest, MC_BUFFER_AT(&session->tops, mc_largest), rows);
}

/* Keeps the largest logits of a pass, and where it left all of them. */
static mica_status keep_largest(mc_session *session, const mica_array *results, size_t rows) {
    session->rows = results[1];
    session->first_row = 0;
    return read_largest(session, results[0], rows);
}

/* Keeps the logits of a pass, `rows` rows, or their best tokens, or the largest of them. */
static mica_status keep(mc_session *session, const mc_session_wish *wish, const mica_array *results,
                        size_t rows) {
    mica_status status = wish->best      ? mc_best_read(results, session->best, rows)
                         : wish->largest ? keep_largest(session, results, rows)
                                         : read_logits(session, results[0], rows);
    session->has_best = wish->best;
    session->has_largest = wish->largest;
    if (status != MICA_OK) mc_session_reset(session);
    return status;
}

/* ---- passes that follow each other before they are read ---- */

bool mc_session_wants_largest(const mc_session *session) {
    return session->largest && !session->greedy && session->model->lm->spec.vocab > MC_LARGEST;
}

/* The row, of those that the last pass left, of the token fed last. */
static size_t row_of(const mc_session *session) {
    return session->taken ? session->taken - 1 : 0;
}

static mica_status read_row(mc_session *session) {
    size_t bytes = (size_t)session->model->lm->spec.vocab * sizeof(float);
    int64_t row = session->first_row + (int64_t)row_of(session);
    mc_buffer_clear(&session->logits);
    if (!mc_buffer_reserve(&session->logits, bytes)) return mc_fail_nomem("a session's logits");
    return mc_read_part(session->rows, (size_t)row * bytes, session->logits.data, bytes);
}

static mc_session_wish launch_wish(const mc_session *session, mc_fence *fence) {
    return (mc_session_wish){.wanted = MC_LAST_LOGITS, .best = session->greedy, .fence = fence};
}

/* Launches a pass over the token that the device chose, the last in the caches. States that cannot
 * go back are noted: nobody may take the pass. Its error is kept for who asks for its token: the
 * pass before it is read from the same scope. */
static void follow(mc_session *session, mica_array chosen) {
    mc_session_launch *next = &session->follower;
    const mc_session_wish wish = launch_wish(session, &next->fence);
    int64_t n = mc_session_count(session);
    next->fence = 0;
    next->n_results = mc_session_wish_count(&wish);
    next->status = mc_cache_snapshot(&session->cache, session->scope, n, false);
    if (next->status == MICA_OK)
        next->status = run_pass(session, chosen, n, 1, &wish, next->results);
    if (next->status != MICA_OK) {
        snprintf(next->error, sizeof next->error, "%s", mica_last_error());
        mica_scope_clear_error(session->scope);
    }
    session->has_follower = true;
}

/* Whether a pass may follow one that is not over yet. */
static bool may_follow(const mc_session *session, const mc_session_launch *pass) {
    return session->follow && pass->fence && mc_cache_has_room(&session->cache, 1) &&
           mc_session_count(session) < mc_session_room(session);
}

/* Ends a launched pass, whose tokens are counted, and keeps its best token. What follows it is
 * launched first, unless the pass is over already. */
static mica_status take_best(mc_session *session, const mc_session_launch *pass) {
    if (may_follow(session, pass)) follow(session, pass->results[MC_BEST_ARRAYS]);
    mica_status status = end_launch(session, pass);
    if (status == MICA_OK) status = mc_best_read(pass->results, session->best, 1);
    session->has_best = true;
    session->has_largest = false;
    session->chosen = session->best[0].id;
    return status == MICA_OK ? status : reset_after(session, status);
}

/* Lets the device draw from a pass that was launched, and launches what follows, unless the pass is
 * over already. */
static mica_status draw_and_follow(mc_session *session, const mc_session_launch *pass,
                                   mc_device_drawn *drawn) {
    bool follows = may_follow(session, pass), largest = mc_session_wants_largest(session);
    if (!session->draw || (!follows && !largest)) return MICA_OK;
    MC_TRY(mc_device_draws_launch(&session->draws, session->scope, pass->results[0], session->draw,
                                  1, largest, drawn));
    if (follows) follow(session, drawn->ids);
    return MICA_OK;
}

/* Waits for a pass and its draw, and keeps the token over which the next pass was launched. */
static mica_status end_draw(mc_session *session, const mc_session_launch *pass,
                            const mc_device_drawn *drawn) {
    mica_device *device = session->model->device;
    mica_status status = end_launch(session, pass);
    if (status != MICA_OK) return mc_device_wait_after(device, drawn->fence, status);
    MC_TRY(mc_device_wait(device, drawn->fence));
    if (!session->has_follower) return MICA_OK;
    return mc_read_part(drawn->ids, 0, &session->chosen, sizeof session->chosen);
}

/* Keeps the row that a pass left, and the largest of its logits or all of them. */
static mica_status read_logits_of(mc_session *session, mica_array row, mica_array largest) {
    session->has_best = false;
    session->has_largest = mica_valid(largest);
    session->rows = row;
    session->first_row = 0;
    return session->has_largest ? read_largest(session, largest, 1) : read_row(session);
}

/* As take_best, of a pass that left logits. */
static mica_status take_logits(mc_session *session, const mc_session_launch *pass) {
    mc_device_drawn drawn = {.fence = 0};
    mica_status status = draw_and_follow(session, pass, &drawn);
    status = status == MICA_OK ? end_draw(session, pass, &drawn)
                               : mc_device_wait_after(session->model->device, pass->fence, status);
    if (status == MICA_OK) status = read_logits_of(session, pass->results[0], drawn.largest);
    return status == MICA_OK ? status : reset_after(session, status);
}

static mica_status take_pass(mc_session *session, const mc_session_launch *pass) {
    return session->greedy ? take_best(session, pass) : take_logits(session, pass);
}

static mica_status launch_pass(mc_session *session, const int32_t *ids, int64_t n) {
    mc_session_launch pass = {.fence = 0};
    const mc_session_wish wish = launch_wish(session, &pass.fence);
    MC_TRY(mc_session_pass(session, ids, n, &wish, pass.results));
    return take_pass(session, &pass);
}

/* The follower's token is fed. */
static mica_status take_follower(mc_session *session, int32_t id) {
    mc_session_launch *next = &session->follower;
    mica_status status = next->status;
    if (status != MICA_OK) return mc_session_settle(session);
    status = mc_cache_collect(&session->cache, session->scope, next->results, next->n_results);
    if (status == MICA_OK && !mc_tokens_reserve(&session->history, 1))
        status = mc_fail_nomem("a session's history");
    if (status != MICA_OK) return reset_after(session, status);
    const mc_session_launch pass = *next;
    session->has_follower = false;
    count(session, &id, 1);
    return take_pass(session, &pass);
}

/* Computes tokens up to where the pool keeps the states, if it is to do so among the next n;
 * *done receives how many. */
static mica_status feed_to_stops(mc_session *session, const int32_t *ids, int64_t n,
                                 int64_t *done) {
    const mc_session_wish none = {.wanted = MC_NO_LOGITS};
    int64_t step;
    for (*done = 0; n > 1 && (step = mc_trail_next_stop(&session->cache.trail, n - *done));
         *done += step) {
        MC_TRY(mc_session_pass(session, ids + *done, step, &none, NULL));
        mc_trail_keep(&session->cache.trail);
    }
    return MICA_OK;
}

/* Whether passes are launched, so that others may follow. */
static bool launches(const mc_session *session) {
    return session->model->device->backend->late &&
           (session->greedy || (session->follow && session->draw));
}

static mica_status feed(mc_session *session, const int32_t *ids, int64_t n, const float **logits) {
    int64_t done;
    MC_TRY(feed_to_stops(session, ids, n, &done));
    ids += done;
    n -= done;
    const mc_session_wish wish = {.wanted = logits ? MC_LAST_LOGITS : MC_NO_LOGITS,
                                  .best = session->greedy,
                                  .largest = logits && mc_session_wants_largest(session)};
    mica_array last[MC_BEST_ARRAYS];
    if (n == 1 && session->has_follower && mc_session_knows(session, ids[0])) {
        MC_TRY(take_follower(session, ids[0]));
    } else if (n == 1 && mc_session_knows(session, ids[0])) {
        count(session, ids, 1);
        session->taken++;
    } else if (logits && launches(session)) {
        MC_TRY(launch_pass(session, ids, n));
    } else {
        MC_TRY(mc_session_pass(session, ids, n, &wish, last));
        if (logits) MC_TRY(keep(session, &wish, last, 1));
    }
    mc_trail_keep(&session->cache.trail);
    if (logits) *logits = mc_session_logits(session);
    return MICA_OK;
}

/* A rank without memory has not met the others, or is not in step with them. A pool lacks blocks on
 * all ranks alike. */
static mica_status end_on(const mc_session *session, mica_status status) {
    bool alone = status == MICA_ENOMEM && !session->model->pool;
    return alone ? mc_group_end_on(session->model->lm->group, status) : status;
}

mica_status mc_session_feed(mc_session *session, const int32_t *ids, int64_t n,
                            const float **logits) {
    mc_lead *lead = session->model->lead;
    mc_lead_say(lead, MC_LEAD_FEED, (int64_t[]){mc_session_told(session), logits != NULL}, 2);
    mc_lead_say_ids(lead, ids, n);
    return mc_lead_done(lead, end_on(session, feed(session, ids, n, logits)));
}

float *mc_session_logits(mc_session *session) {
    if (session->has_best || session->has_largest) return NULL;
    return MC_BUFFER_AT(&session->logits, float) +
           row_of(session) * (size_t)session->model->lm->spec.vocab;
}

const mc_best *mc_session_best(const mc_session *session) {
    return session->has_best ? &session->best[row_of(session)] : NULL;
}

const mc_largest *mc_session_largest(const mc_session *session) {
    return session->has_largest ? MC_BUFFER_AT(&session->tops, mc_largest) + row_of(session) : NULL;
}

mica_status mc_session_read_row(mc_session *session, float **logits) {
    mica_status status = read_row(session);
    *logits = MC_BUFFER_AT(&session->logits, float);
    return status == MICA_OK ? status : reset_after(session, status);
}

/* ---- forks ---- */

/* Of the last pass: what it left after the token fed last. */
static mica_status copy_logits(const mc_session *from, mc_session *to) {
    size_t bytes = (size_t)from->model->lm->spec.vocab * sizeof(float), row = row_of(from);
    to->has_best = from->has_best;
    to->has_largest = from->has_largest;
    to->best[0] = from->best[row];
    if (from->has_best || mc_session_count(from) < 1) return MICA_OK;
    if (!from->has_largest) {
        memcpy(to->logits.data, from->logits.data + row * bytes, bytes);
        return MICA_OK;
    }
    if (!mc_buffer_reserve(&to->tops, sizeof(mc_largest))) return mc_fail_nomem("a session");
    *MC_BUFFER_AT(&to->tops, mc_largest) = *mc_session_largest(from);
    to->rows = mica_detach(to->scope, from->rows);
    to->first_row = from->first_row + (int64_t)row;
    return mica_scope_status(to->scope);
}

static mica_status copy_session(const mc_session *from, mc_session *to) {
    const mc_tokens *text = &from->history;
    to->greedy = from->greedy;
    to->largest = from->largest;
    MC_TRY(copy_logits(from, to));
    to->history.start = text->start;
    to->history.hash = text->hash;
    if (!mc_tokens_add(&to->history, MC_BUFFER_AT(&text->ids, int32_t),
                       (int64_t)MC_BUFFER_COUNT(&text->ids, int32_t)))
        return mc_fail_nomem("a session");
    return mc_cache_fork(&from->cache, &to->cache, to->scope);
}

static mica_status fork_session(mc_session *from, mc_session **session) {
    MC_TRY(mc_session_settle(from));
    MC_TRY(mc_session_open(from->model, from->chunk, session));
    mica_status status = copy_session(from, *session);
    if (status != MICA_OK) mc_session_close(session);
    return status;
}

mica_status mc_session_fork(mc_session *from, mc_session **session) {
    *session = NULL;
    say(from, MC_LEAD_FORK, 0);
    mica_status status = mc_lead_done(from->model->lead, fork_session(from, session));
    return status;
}

/* ---- tokens computed ahead ---- */

static mica_status look_ahead(mc_session *session, const int32_t *ids, int64_t n) {
    const mc_session_wish wish = {.wanted = MC_ALL_LOGITS,
                                  .best = session->greedy,
                                  .largest = mc_session_wants_largest(session)};
    mica_array all[MC_BEST_ARRAYS];
    mica_status status = mc_session_reserve_ahead(session, n);
    if (status != MICA_OK) return reset_after(session, status);
    MC_TRY(pass_behind(session, ids, n, &wish, all));
    MC_TRY(keep(session, &wish, all, (size_t)n));
    mc_session_set_ahead(session, ids, n);
    return MICA_OK;
}

mica_status mc_session_look_ahead(mc_session *session, const int32_t *ids, int64_t n) {
    mc_lead *lead = session->model->lead;
    mc_lead_say(lead, MC_LEAD_LOOK_AHEAD, (int64_t[]){mc_session_told(session)}, 1);
    mc_lead_say_ids(lead, ids, n);
    return mc_lead_done(lead, end_on(session, look_ahead(session, ids, n)));
}

mica_status mc_session_reserve_ahead(mc_session *session, int64_t n) {
    if (mc_buffer_reserve(&session->ahead, (size_t)n * sizeof(int32_t)) &&
        mc_tokens_reserve(&session->history, n))
        return MICA_OK;
    return mc_fail_nomem("a session's tokens");
}

void mc_session_set_ahead(mc_session *session, const int32_t *ids, int64_t n) {
    drop_ahead(session);
    (void)mc_buffer_add(&session->ahead, ids, (size_t)n * sizeof *ids); /* there is room */
}

bool mc_session_is_ahead(const mc_session *session) {
    return session->has_follower || session->taken < MC_BUFFER_COUNT(&session->ahead, int32_t);
}

bool mc_session_knows(const mc_session *session, int32_t id) {
    if (session->has_follower) return session->chosen == id;
    return mc_session_is_ahead(session) &&
           MC_BUFFER_AT(&session->ahead, int32_t)[session->taken] == id;
}
