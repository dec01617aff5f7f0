#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "base/alloc.h"
#include "base/integer.h"
#include "base/options.h"
#include "base/system.h"
#include "device/device.h"
#include "engine/model.h"
#include "schedule/state.h"
#include "session/draft.h"

#include <string.h>

enum { ROWS = 16, STEP_TOKENS = 512, QUEUE = 256 };

/* ---- opening ---- */

/* Tells the other ranks that a lane ends, and closes it. */
static void end_lane(mc_lane **lane, mc_lead **lead) {
    mc_lead_say(*lead, MC_LEAD_END, NULL, 0);
    (void)mc_lead_send(*lead); /* it fails where the team is broken */
    mc_lead_close(lead);
    mc_lane_close(lane);
}

static mica_status refuse_drafts(int draft_tokens) {
    return mc_fail(MICA_EINVAL, "draft_tokens %d: want 1 to %d, or 0 for none", draft_tokens,
                   MC_DRAFT_MAX);
}

static mica_status take_options(mc_schedule *s, const mc_schedule_options *o) {
    if (o->rows < 0 || o->rows > MC_MAX_ROWS)
        return mc_fail(MICA_EINVAL, "rows %d: want 1 to %d, or 0 for %d", o->rows, MC_MAX_ROWS,
                       ROWS);
    if (o->step_tokens < 0)
        return mc_fail(MICA_EINVAL, "step_tokens %lld: want 1 or more, or 0 for %d",
                       (long long)o->step_tokens, STEP_TOKENS);
    if (o->draft_tokens < 0 || o->draft_tokens > MC_DRAFT_MAX)
        return refuse_drafts(o->draft_tokens);
    s->adapts = !o->step_tokens;
    s->options = (mc_schedule_options){
        .rows = o->rows ? o->rows : ROWS,
        .step_tokens = o->step_tokens ? o->step_tokens : STEP_TOKENS,
        .queue = o->queue ? o->queue : QUEUE,
        .cache_bytes = o->cache_bytes,
        .draft_tokens = o->draft_tokens,
        .notice = o->notice,
        .notice_user = o->notice_user,
        .kv_events = o->kv_events,
        .lead = o->lead,
        .lane = o->lane,
        .lanes = o->lanes ? o->lanes : 1,
    };
    return MICA_OK;
}

/* What prompts are checked against. */
static void describe(mc_schedule *s) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(s->model, &info);
    s->said.tokenizer = mica_model_tokenizer(s->model);
    s->said.vocab = info.vocab_size;
    s->said.room = info.context_length > 0 ? info.context_length : INT32_MAX;
    if (!s->local) return;
    s->said.vocab = s->local->lm->spec.vocab;
    s->said.room = s->local->context ? INT32_MAX : s->local->lm->spec.context;
    s->said.stop_ids = s->local->stop_ids;
    s->said.stop_count = s->local->stop_count;
}

/* How many tokens the budget is enough for, in one answer. */
static int64_t find_fit(const mc_schedule *s) {
    int64_t low = 0, high = INT32_MAX;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (mc_rows_needed(s, middle) <= mc_rows_blocks(s))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static mica_status open_rows(mc_schedule *s) {
    MC_TRY(mc_rows_open(s));
    s->stats.cache_budget = s->options.cache_bytes;
    const mc_kv_pool *pool = s->rows.model.pool;
    s->stats.block_tokens = pool->block;
    s->stats.cache_tokens = pool->n_groups ? pool->blocks / pool->n_groups * pool->block : 0;
    s->fit = find_fit(s);
    if (s->fit > 1) return MICA_OK;
    return mc_fail(MICA_EINVAL, "cache_bytes %llu: not enough for an answer",
                   (unsigned long long)s->options.cache_bytes);
}

static bool init_lock(mc_schedule *s) {
    if (pthread_mutex_init(&s->lock, NULL) != 0) return false;
    if (pthread_cond_init(&s->changed, NULL) == 0) return true;
    pthread_mutex_destroy(&s->lock);
    return false;
}

/* ---- lanes ---- */

/* Events of caches would be told by several threads, of caches that know nothing of each other. */
static void share_among_lanes(mc_schedule *s) {
    mc_schedule_options *o = &s->options;
    uint64_t lanes = 1;
    if (o->lead && !o->kv_events.stored) lanes = (uint64_t)mc_lane_count(s->local, o->rows);
    o->lanes = (int)lanes;
    o->rows = (o->rows + o->lanes - 1) / o->lanes;
    o->queue = (o->queue + lanes - 1) / lanes;
    o->cache_bytes /= lanes;
}

static void lane_is_broken(void *team) {
    (void)mc_team_break(team, MICA_EDEVICE);
}

/* Opens the next lane, with the other ranks, and its schedule. */
static mica_status open_lane(mc_schedule *s, uint64_t cache_bytes, mc_schedule **out) {
    mc_lane *lane;
    mc_lead *lead = s->options.lead, *own;
    mc_lead_say(lead, MC_LEAD_OPEN_LANE, NULL, 0);
    mica_status status = mc_lead_send(lead);
    if (status == MICA_OK) status = mc_lane_open(s->local, &lane);
    (void)mc_lead_done(lead, status);
    mc_lead_rest(lead);
    MC_TRY(status);
    mc_team_watch(lane->team, lane_is_broken, mc_lead_team(lead));
    mc_schedule_options options = s->options;
    options.lane = &lane->local;
    options.cache_bytes = cache_bytes;
    if (s->adapts) options.step_tokens = 0;
    status = mc_lead_open(lane->team, MC_LANE_MODEL, &own);
    options.lead = own;
    if (status == MICA_OK) status = mc_schedule_open(s->model, &options, out);
    if (status == MICA_OK) {
        (*out)->lane = lane;
        return status;
    }
    if (!own) (void)mc_team_break(lane->team, status);
    end_lane(&lane, &own);
    return status;
}

static mica_status open_lanes(mc_schedule *s, uint64_t cache_bytes) {
    mica_status status = MICA_OK;
    for (int i = 1; i < s->options.lanes && status == MICA_OK; i++) {
        mc_schedule *next = NULL;
        status = open_lane(s, cache_bytes, &next);
        if (!next) continue;
        next->beside = s->beside;
        s->beside = next;
    }
    return status;
}

static mica_status open_parts(mc_schedule *s, const mc_schedule_options *options) {
    MC_TRY(take_options(s, options));
    if (s->options.lane)
        s->local = s->options.lane;
    else if (mc_model_local(s->model, &s->local) != MICA_OK) {
        s->local = NULL;
        s->options.rows = 1;
    }
    if (s->local && !s->options.lane) share_among_lanes(s);
    describe(s);
    s->stats.rows = (size_t)s->options.rows;
    s->stats.queue = s->options.queue;
    s->fit = INT64_MAX;
    uint64_t cache_bytes = s->options.cache_bytes; /* before ranks agree */
    if (s->local) MC_TRY(open_rows(s));
    if (!s->options.lane && s->options.lanes > 1) MC_TRY(open_lanes(s, cache_bytes));
    MC_TRY(mc_prefixes_open(s, options->prefix_folder));
    int error = mc_thread_start(&s->thread, mc_schedule_work, s);
    if (error != 0)
        return mc_fail(MICA_EDEVICE, "cannot start the schedule's thread: %s", strerror(error));
    s->started = true;
    return MICA_OK;
}

mica_status mc_schedule_open(const mica_model *model, const mc_schedule_options *options,
                             mc_schedule **schedule) {
    const mc_schedule_options none = {0};
    *schedule = NULL;
    mc_schedule *s = mc_calloc(1, sizeof *s);
    if (!s || !init_lock(s)) {
        mc_free(s);
        return mc_fail_nomem("a schedule");
    }
    atomic_init(&s->count, 1u);
    atomic_init(&s->stop, false);
    s->model = mc_model_retain(model);
    mica_status status = open_parts(s, options ? options : &none);
    if (status == MICA_OK)
        *schedule = s;
    else
        mc_schedule_close(&s);
    return status;
}

mc_schedule *mc_schedule_retain(mc_schedule *s) {
    atomic_fetch_add_explicit(&s->count, 1u, memory_order_relaxed);
    return s;
}

void mc_schedule_release(mc_schedule *s) {
    if (atomic_fetch_sub_explicit(&s->count, 1u, memory_order_acq_rel) != 1u) return;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mc_free(s);
}

static void close_schedule(mc_schedule **schedule, bool save) {
    if (!schedule || !*schedule) return;
    mc_schedule *s = *schedule;
    *schedule = NULL;
    close_schedule(&s->beside, save);
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop, true);
    if (s->turn) mica_stream_cancel(s->turn);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->started) pthread_join(s->thread, NULL);
    mc_prefixes_close(s, save && s->started && !s->cut_off);
    mc_rows_close(s);
    if (s->lane) end_lane(&s->lane, &s->options.lead);
    mica_session_close(&s->session);
    mc_model_release(s->model);
    mc_schedule_release(s);
}

void mc_schedule_close(mc_schedule **schedule) {
    close_schedule(schedule, true);
}

void mc_schedule_discard(mc_schedule **schedule) {
    close_schedule(schedule, false);
}

/* ---- admission ---- */

/* The limit of an answer that asked for none; 0: it has none, either. A context that slides has no
 * end: such an answer gets as many tokens as it has. */
static int64_t default_limit(const mc_schedule *s, const mc_request_options *options) {
    int64_t limit = options->max_tokens, context = s->local ? s->local->context : 0;
    return context && (!limit || context < limit) ? context : limit;
}

/* Refuses what can never fit into the budget. An answer that asked for no limit gets what there
 * is. */
static mica_status check_cache(const mc_schedule *s, const mc_answer *answer, bool asked,
                               mica_generate_options *o) {
    int64_t room = answer->room - answer->prompt, fit = s->fit - answer->prompt;
    int64_t more = o->max_tokens && o->max_tokens < room ? o->max_tokens : room;
    if (more <= fit) return MICA_OK;
    if (!asked && fit > 0) {
        o->max_tokens = fit;
        return MICA_OK;
    }
    return mc_fail(MICA_ECONTEXT,
                   "the prompt has %lld tokens, the answer up to %lld: the budget of the caches, "
                   "%llu bytes, is enough for %lld together: shorten the prompt, or set a smaller "
                   "max_tokens",
                   (long long)answer->prompt, (long long)more,
                   (unsigned long long)s->options.cache_bytes, (long long)s->fit);
}

static mica_status check_request(mc_schedule *s, const mc_request_options *options,
                                 mica_generate_options *o) {
    mc_answer answer;
    mc_sampling sampling;
    if (options->constraints && !s->local)
        return mc_fail(MICA_EUNSUPPORTED, "constraints: open the model with the engine native");
    if (!options->ids && options->n_ids) return mc_fail(MICA_EINVAL, "ids is NULL");
    for (size_t i = 0; i < options->n_marks; i++)
        if (options->marks[i] < 0 || (uint64_t)options->marks[i] > options->n_ids)
            return mc_fail(MICA_EINVAL, "mark %zu is at %lld, beyond the prompt's %zu tokens", i,
                           (long long)options->marks[i], options->n_ids);
    if (options->choices > MC_MAX_ROWS)
        return mc_fail(MICA_EINVAL, "choices %zu: want 1 to %d, or 0 for 1", options->choices,
                       MC_MAX_ROWS);
    if (!(options->max_seconds >= 0 && options->max_seconds <= 1e9))
        return mc_fail(MICA_EINVAL, "max_seconds %g: want more than 0, or 0 for no limit",
                       options->max_seconds);
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, o, options->generate));
    if (!o->draft_tokens) o->draft_tokens = s->options.draft_tokens;
    if (o->draft_tokens < 0 || o->draft_tokens > MC_DRAFT_MAX)
        return refuse_drafts(o->draft_tokens);
    const bool asked = o->max_tokens != 0;
    if (!asked) o->max_tokens = default_limit(s, options);
    MC_TRY(mc_sampling_check(o, s->said.vocab, &sampling));
    mica_status status = mc_answer_open(&answer, &s->said, options->ids, options->n_ids, o);
    if (status == MICA_OK) status = check_cache(s, &answer, asked, o);
    mc_answer_close(&answer);
    return status;
}

static mica_status count_refused(mc_schedule *s, mica_status status) {
    pthread_mutex_lock(&s->lock);
    *(status == MICA_ECONTEXT ? &s->stats.refused_context
      : status == MICA_EBUSY  ? &s->stats.refused_busy
                              : &s->stats.refused_other) += 1;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Puts a request at the end of the queue. */
static mica_status add(mc_schedule *s, mc_request *request, mc_request **out) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&s->lock);
    bool follows = request->given.follows;
    if (atomic_load(&s->stop)) {
        status = mc_fail(MICA_EBUSY, "the model is being closed: it takes no new requests");
    } else if (s->stats.waiting >= s->options.queue && !follows) {
        status = mc_fail(MICA_EBUSY, "%zu requests wait already, as many as may: try again later",
                         s->stats.waiting);
    } else {
        *out = request;
        if (s->last)
            s->last->next = request;
        else
            s->first = request;
        s->last = request;
        s->stats.waiting++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void drop_constraints(const mc_request_options *options) {
    size_t n = options->choices ? options->choices : 1;
    for (size_t i = 0; options->constraints && i < n; i++) {
        mc_constraint *constraint = options->constraints[i];
        mc_constraint_close(&constraint);
    }
}

/* The lane that has the fewest answers and requests. */
static mc_schedule *find_lane(mc_schedule *s) {
    mc_schedule *best = s;
    size_t least = SIZE_MAX;
    for (; s; s = s->beside) {
        pthread_mutex_lock(&s->lock);
        size_t n = s->stats.running + s->stats.waiting;
        pthread_mutex_unlock(&s->lock);
        if (n < least) best = s;
        if (n < least) least = n;
    }
    return best;
}

mica_status mc_schedule_submit(mc_schedule *s, const mc_request_options *options,
                               mc_request **out) {
    mc_request *request = NULL;
    s = find_lane(s);
    mica_generate_options generate;
    *out = NULL;
    mica_status status = check_request(s, options, &generate);
    if (status == MICA_OK) {
        mc_request_options checked = *options;
        checked.generate = &generate;
        status = mc_request_new(s, &checked, &request);
    }
    if (status != MICA_OK) {
        drop_constraints(options);
        return count_refused(s, status);
    }
    request->read = !s->local; /* whose choices are computed one after another */
    status = add(s, request, out);
    if (status == MICA_OK) return status;
    mc_request_release(request);
    mc_request_release(request);
    return count_refused(s, status);
}

mica_status mc_schedule_check(mc_schedule *s, const mc_request_options *options) {
    mica_generate_options generate;
    mica_status status = check_request(s, options, &generate);
    return status == MICA_OK ? status : count_refused(s, status);
}

void mc_request_cancel(mc_request *request) {
    if (!request) return;
    mc_schedule *s = request->schedule;
    atomic_store_explicit(&request->cancelled, true, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    if (s->turn && s->turns_of == request) mica_stream_cancel(s->turn);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}
