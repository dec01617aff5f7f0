/* The steps of a schedule whose model computes in this process. */
#include "base/alloc.h"
#include "base/integer.h"
#include "base/system.h"
#include "device/device.h"
#include "group/group.h"
#include "schedule/state.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 512 }; /* max tokens of a pass over a prompt */

/* Answers wait so long for prompts, at most, unless even so few tokens take longer. */
enum { MAX_READ_US = 500000, MIN_STEP_TOKENS = 64 };

static int64_t chunk_of(const mc_schedule *s) {
    return mc_min(s->options.step_tokens, CHUNK);
}

/* ---- blocks ---- */

int64_t mc_rows_needed(const mc_schedule *s, int64_t tokens) {
    return mc_kv_pool_needed(s->rows.model.pool, tokens, chunk_of(s), MC_POOL_SPARE);
}

int64_t mc_rows_blocks(const mc_schedule *s) {
    return s->rows.model.pool->blocks;
}

/* How many rows compute, and how many are paused. */
static size_t count_rows(const mc_schedule *s, bool paused) {
    size_t n = 0;
    for (int i = 0; i < s->rows.n; i++)
        n += s->rows.rows[i].request && s->rows.rows[i].paused == paused;
    return n;
}

/* Whether there are blocks for so many tokens, and for the next ones of the rows that compute. */
static bool has_blocks(const mc_schedule *s, int64_t tokens) {
    int64_t running = (int64_t)count_rows(s, false);
    if (!running) return true;
    return mc_rows_needed(s, tokens) + mc_kv_pool_more(s->rows.model.pool, running) <=
           mc_kv_pool_available(s->rows.model.pool);
}

/* Blocks that a choice may ever need. */
static int64_t limit_of(const mc_schedule *s, const mc_request *request) {
    int64_t n = (int64_t)request->given.n_ids, more = request->generate.max_tokens;
    return mc_rows_needed(s, more && more < INT32_MAX - n ? n + more : INT32_MAX);
}

/* Whether there are blocks for all that a choice and the rows may ever need. */
static bool has_all_blocks(const mc_schedule *s, const mc_request *request) {
    int64_t all = limit_of(s, request);
    for (int i = 0; i < s->rows.n; i++)
        if (s->rows.rows[i].request) all += limit_of(s, s->rows.rows[i].request);
    return all <= mc_rows_blocks(s);
}

/* ---- rows ---- */

/* What a budget of this rank is as one of all stages of a pipeline, of which it has some layers. */
static uint64_t of_all_stages(const mc_lm *lm, uint64_t bytes) {
    uint64_t all = (uint64_t)lm->spec.n_layers, own = all - (uint64_t)(lm->before + lm->behind);
    if (!own || bytes > UINT64_MAX / all) return UINT64_MAX;
    return bytes * all / own;
}

/* A session's tokens at most. */
static int64_t max_tokens(const mc_session_model *local) {
    return local->context ? INT32_MAX : local->lm->spec.context;
}

uint64_t mc_rows_budget(const mica_model *model, const mc_session_model *local, int n_rows) {
    uint64_t row = mica_model_cache_bytes(model, max_tokens(local)), rows = (uint64_t)n_rows;
    uint64_t limit = mc_device_memory_bytes(local->device) / 4;
    uint64_t left = mc_device_free_bytes(local->device) / 4 * 3;
    if (left < limit) limit = left;
    return row && row < limit / rows ? row * rows + row * rows / 4 : limit;
}

mica_status mc_rows_agree(mc_team *team, const mica_model *model, const mc_session_model *local,
                          int rows, int lanes, uint64_t *budget) {
    uint64_t bytes = *budget;
    if (!bytes) bytes = mc_rows_budget(model, local, rows * lanes) / (uint64_t)lanes;
    uint64_t own = of_all_stages(local->lm, bytes);
    size_t size = (size_t)mica_group_size(mc_team_group(team));
    uint64_t *all = mc_array_alloc(size, sizeof *all);
    if (!all) return mc_group_end_on(mc_team_group(team), mc_fail_nomem("a schedule"));
    mica_status status = mc_group_all_gather(mc_team_group(team), &own, sizeof own, all);
    *budget = own;
    for (size_t i = 0; status == MICA_OK && i < size; i++)
        if (all[i] < *budget) *budget = all[i];
    mc_free(all);
    return status;
}

/* Copies of caches get as much of the host's memory as the caches of the device's, at most a
 * quarter. */
static uint64_t swap_bytes(const mc_session_model *local, uint64_t budget) {
    uint64_t limit = mc_memory_bytes() / 4;
    if (!local->far_memory) return 0;
    return budget < limit ? budget : limit;
}

mica_status mc_rows_open_pool(mc_session_model *model, int rows, uint64_t budget,
                              const mc_kv_events *events) {
    const mc_kv_pool_options options = {.bytes = budget,
                                        .context = model->context,
                                        .states = model->states,
                                        .sessions = rows,
                                        .swap_bytes = swap_bytes(model, budget),
                                        .keep = mc_prefix_available(),
                                        .events = events ? *events : (mc_kv_events){0}};
    return mc_kv_pool_open(model->lm, model->device, &options, &model->pool);
}

static mica_status open_parts(mc_schedule *s) {
    uint64_t *budget = &s->options.cache_bytes;
    mc_lead *lead = s->options.lead;
    if (lead)
        MC_TRY(mc_rows_agree(mc_lead_team(lead), s->model, s->local, s->options.rows,
                             s->options.lanes, budget));
    else if (!*budget)
        *budget = mc_rows_budget(s->model, s->local, s->options.rows);
    MC_TRY(mc_rows_open_pool(&s->rows.model, s->options.rows, *budget, &s->options.kv_events));
    MC_TRY(mc_mask_worker_open(&s->rows.masks));
    return mc_batch_init(&s->rows.batch, &s->rows.model);
}

/* The same on all ranks. */
static mica_status open_together(mc_schedule *s) {
    mc_lead *lead = s->rows.model.lead = s->options.lead;
    if (!lead) return open_parts(s);
    mc_lead_say(lead, MC_LEAD_OPEN_SCHEDULE,
                (int64_t[]){s->options.rows, (int64_t)s->options.cache_bytes, s->options.lanes}, 3);
    mica_status status = mc_lead_send(lead);
    if (status == MICA_OK)
        status = mc_group_outcome(mc_team_group(mc_lead_team(lead)), open_parts(s));
    (void)mc_lead_done(lead, status);
    mc_lead_rest(lead);
    return status;
}

mica_status mc_rows_open(mc_schedule *s) {
    s->rows.n = 2 * s->options.rows;
    s->rows.rows = mc_calloc((size_t)s->rows.n, sizeof *s->rows.rows);
    s->rows.model = *s->local;
    return s->rows.rows ? open_together(s) : mc_fail_nomem("a schedule");
}

void mc_rows_close(mc_schedule *s) {
    if (!s->rows.rows) return;
    for (int i = 0; i < s->rows.n; i++)
        mc_session_close(&s->rows.rows[i].session);
    mc_batch_deinit(&s->rows.batch);
    mc_mask_worker_close(&s->rows.masks);
    mc_kv_pool_close(&s->rows.model.pool);
    mc_lead_say(s->rows.model.lead, MC_LEAD_CLOSE_SCHEDULE, NULL, 0);
    (void)mc_lead_send(s->rows.model.lead); /* it fails where the team is broken */
    mc_lead_done_with(s->rows.model.lead, 0);
    mc_lead_rest(s->rows.model.lead);
    mc_free(s->rows.rows);
}

static void count_cache(mc_schedule *s) {
    const mc_kv_pool *pool = s->rows.model.pool;
    mc_schedule_count_cache(s, mc_kv_pool_used_bytes(pool), mc_kv_pool_kept_bytes(pool),
                            count_rows(s, true), s->rows.pauses);
    mc_schedule_count_swaps(s, pool->swaps, pool->swapped);
    mc_schedule_count_masks(s, mc_mask_worker_times(s->rows.masks));
}

static mica_metrics metrics_of(const mc_row *row) {
    mica_metrics m = {.prompt_tokens = (int64_t)row->request->given.n_ids};
    if (row->stream) m = mc_stream_metrics(row->stream);
    m.decode_seconds += (double)row->decode_us * 1e-6; /* the stream's is the time of sampling */
    double decoded = (double)mc_max(0, m.generated_tokens - 1); /* the prompt gave the first one */
    m.decode_rate = m.decode_seconds > 0 ? decoded / m.decode_seconds : 0.0;
    return m;
}

/* Ends a row, with the thread's error text, and frees it. */
static void leave(mc_schedule *s, mc_row *row, mica_status status, mica_finish finish) {
    char error[1024];
    mc_request *request = row->request;
    const mica_metrics metrics = metrics_of(row);
    snprintf(error, sizeof error, "%s", mica_last_error());
    mc_stream_close(&row->stream);
    if (row->session) mc_session_reset(row->session);
    if (request->entered == request->given.choices) mc_session_close(&request->source);
    row->request = NULL;
    count_cache(s);
    mc_schedule_set_read(s, request);
    if (status != MICA_OK) mc_fail(status, "%s", error);
    mc_schedule_end(s, request, row->choice, status, finish, &metrics);
}

static void leave_with_error(mc_schedule *s, mc_row *row, mica_status status) {
    leave(s, row, status, status == MICA_ECANCELLED ? MICA_FINISH_CANCELLED : MICA_FINISH_ERROR);
}

/* ---- pauses ---- */

static bool goes_before(const mc_row *a, const mc_row *b) {
    int64_t x = mc_request_priority(a->request), y = mc_request_priority(b->request);
    return x > y || (x == y && a->number < b->number);
}

/* The row, of those that are paused or of the others, that goes before them all. NULL: none. */
static mc_row *find_first(const mc_schedule *s, bool paused) {
    mc_row *first = NULL;
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || row->paused != paused) continue;
        if (!first || goes_before(row, first)) first = row;
    }
    return first;
}

bool mc_rows_pause(mc_schedule *s, mc_row *row) {
    if (!mc_stream_pause(row->stream)) return false;
    row->paused = true;
    row->left = 1; /* of how many is known when it goes on */
    row->leader = NULL;
    s->rows.pauses++;
    return true;
}

/* Closes a session that waits for further choices: these read the prompt themselves. */
static bool drop_source(mc_schedule *s) {
    bool dropped = false;
    pthread_mutex_lock(&s->lock);
    for (mc_request *r = s->first; r && !dropped; r = r->next) {
        dropped = r->source != NULL;
        mc_session_close(&r->source);
    }
    pthread_mutex_unlock(&s->lock);
    return dropped;
}

/* Frees blocks until n more tokens of a row have room. false: the row itself pauses. */
static bool make_room(mc_schedule *s, mc_row *row, int64_t n) {
    while (!mc_cache_can_reserve(&row->session->cache, n)) {
        mc_row *last = NULL;
        if (drop_source(s)) continue;
        for (int i = 0; i < s->rows.n; i++) {
            mc_row *other = &s->rows.rows[i];
            if (!other->request || other->paused) continue;
            if (other != row && !mc_session_count(other->session)) continue; /* it has none */
            if (!last || goes_before(last, other)) last = other;
        }
        if (!last || count_rows(s, false) == 1) return true; /* the pass will say what is wrong */
        if (!mc_rows_pause(s, last)) return true;
        if (last == row) return false;
    }
    return true;
}

/* Lets paused rows go on while there are blocks for their texts. */
static void resume_rows(mc_schedule *s) {
    for (;;) {
        mc_row *first = find_first(s, true);
        if (!first || count_rows(s, false) == (size_t)s->options.rows) return;
        if (mc_schedule_next_priority(s) > mc_request_priority(first->request)) return;
        const mica_metrics m = mc_stream_metrics(first->stream);
        if (!has_blocks(s, m.prompt_tokens + m.generated_tokens + 1)) return;
        first->paused = false;
        mica_status status = mc_stream_read(first->stream, 0, &first->left);
        if (status != MICA_OK) leave_with_error(s, first, status);
    }
}

/* ---- who enters ---- */

static bool overtakes(const mc_request *request, const mc_row *row) {
    return row && mc_request_priority(request) > mc_request_priority(row->request);
}

/* Whether there are a row and blocks for a request's prompt. */
static bool has_room(const mc_schedule *s, const mc_request *request) {
    size_t running = count_rows(s, false);
    if (running == (size_t)s->options.rows) return false;
    if (s->local->context && running) /* rows that cannot pause */
        return has_all_blocks(s, request);
    return has_blocks(s, request->source ? 1 : (int64_t)request->given.n_ids + 1);
}

/* The row that computes and goes last. */
static mc_row *find_last(const mc_schedule *s) {
    mc_row *last = NULL;
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || row->paused) continue;
        if (!last || goes_before(last, row)) last = row;
    }
    return last;
}

/* Whether there would be room for a request if all rows that it overtakes had paused. Blocks that
 * these share are counted for each. */
static bool may_have_room(const mc_schedule *s, const mc_request *request) {
    const mc_kv_pool *pool = s->rows.model.pool;
    int64_t blocks = mc_kv_pool_available(pool), others = 0;
    for (int i = 0; i < s->rows.n; i++) {
        const mc_row *row = &s->rows.rows[i];
        if (!row->request || row->paused) continue;
        if (!overtakes(request, row))
            others++;
        else if (row->session)
            blocks += mc_cache_blocks(&row->session->cache);
    }
    int64_t tokens = request->source ? 1 : (int64_t)request->given.n_ids + 1;
    return others < s->options.rows &&
           (!others || mc_rows_needed(s, tokens) + mc_kv_pool_more(pool, others) <= blocks);
}

bool mc_rows_admit(const mc_schedule *s, const mc_request *request, mc_row **last) {
    const mc_row *paused = find_first(s, true);
    *last = NULL;
    if (paused && !overtakes(request, paused)) return false;
    if (has_room(s, request)) return true;
    if (s->local->context || !may_have_room(s, request)) return false;
    mc_row *row = find_last(s);
    if (overtakes(request, row)) *last = row;
    return false;
}

/* Whether an earlier row that pauses is of the same request. */
static bool is_counted(const mc_schedule *s, int row) {
    const mc_row *rows = s->rows.rows;
    int i = 0;
    while (i < row && !(rows[i].paused && rows[i].request == rows[row].request))
        i++;
    return i < row;
}

/* All choices of a request have entered: it has overtaken those that pause, each once. Those that
 * are in the queue, too, are counted there. */
static void count_overtaken(const mc_schedule *s, const mc_request *entered) {
    if (entered->entered < entered->given.choices) return;
    for (int i = 0; i < s->rows.n; i++) {
        mc_request *request = s->rows.rows[i].request;
        if (!request || !s->rows.rows[i].paused || is_counted(s, i)) continue;
        if (request->entered == request->given.choices) request->overtaken++;
    }
}

/* ---- prompts ---- */

/* Opens a row's session: with the prompt, if another choice has read it. */
static mica_status open_session(mc_schedule *s, mc_row *row) {
    mc_request *request = row->request;
    if (!request->source) {
        if (row->session) return MICA_OK;
        return mc_session_open(&s->rows.model, chunk_of(s), &row->session);
    }
    mc_session_close(&row->session);
    mica_status status = mc_session_fork(request->source, &row->session);
    if (request->entered == request->given.choices) mc_session_close(&request->source);
    return status;
}

/* ---- prompts that begin alike ---- */

static int64_t common_of(const mc_request *a, const mc_request *b) {
    size_t n = 0;
    if (strcmp(a->given.salt, b->given.salt) != 0) return 0;
    while (n < a->given.n_ids && n < b->given.n_ids && a->given.ids[n] == b->given.ids[n])
        n++;
    return (int64_t)n;
}

/* Whether a row reads its prompt for the first time. */
static bool reads_prompt(const mc_row *row) {
    return row->request && row->stream && row->left && !row->counted && !row->paused;
}

/* Finds the row that reads most of what a new one begins with, at least a block. It keeps that for
 * others. */
static bool find_leader(mc_schedule *s, mc_row *row) {
    const mc_kv_pool *pool = s->rows.model.pool;
    mc_row *leader = NULL;
    for (int i = 0; i < s->rows.n && pool->keeps; i++) {
        mc_row *other = &s->rows.rows[i];
        if (other == row || !reads_prompt(other)) continue;
        int64_t common = common_of(row->request, other->request) / pool->block * pool->block;
        if (common <= row->common) continue;
        row->common = common;
        leader = other;
    }
    if (!leader || mc_session_mark(leader->session, row->common) != MICA_OK) return false;
    row->leader = leader;
    row->leaders_number = leader->number;
    return true;
}

/* Whether a row still waits for its leader. If not, it begins with what that has read. */
static bool waits(mc_schedule *s, mc_row *row) {
    const mc_row *leader = row->leader;
    if (!leader) return false;
    if (leader->number == row->leaders_number && reads_prompt(leader) &&
        (int64_t)leader->request->given.n_ids - leader->left < row->common)
        return true;
    row->leader = NULL;
    mica_status status = mc_stream_read(row->stream, 0, &row->left);
    if (status != MICA_OK) leave_with_error(s, row, status);
    return false;
}

static mica_status open_stream(mc_schedule *s, mc_row *row) {
    mc_request *request = row->request;
    mica_generate_options options = request->generate;
    options.seed += row->choice;
    bool fork = request->source != NULL;
    MC_TRY(open_session(s, row));
    if (!fork) mc_session_set_salt(row->session, request->given.salt);
    for (size_t i = 0; i < request->given.n_marks && !fork; i++)
        MC_TRY(mc_session_mark(row->session, request->given.marks[i]));
    MC_TRY(mc_stream_open(row->session, request->given.ids, request->given.n_ids, &options,
                          &row->stream));
    mc_stream_share(row->stream, true);
    if (request->constraints && request->constraints[row->choice]) {
        mc_constraint *constraint = request->constraints[row->choice];
        request->constraints[row->choice] = NULL;
        MC_TRY(mc_stream_constrain(row->stream, constraint, s->rows.masks));
        mc_stream_mask_ahead(row->stream); /* not before it has a row: it needs states */
    }
    if (!fork && find_leader(s, row)) {
        row->left = (int64_t)request->given.n_ids; /* for now: it begins to read later */
        return MICA_OK;
    }
    return mc_stream_read(row->stream, 0, &row->left);
}

/* Takes choices into all free rows. */
static void take_choices(mc_schedule *s) {
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        while (!row->request) {
            mc_row taken = {.session = row->session, .number = s->rows.taken};
            if (!mc_schedule_take(s, &taken.request, &taken.choice)) return;
            *row = taken;
            s->rows.taken++;
            count_overtaken(s, row->request);
            mica_status status = open_stream(s, row);
            if (status != MICA_OK) leave_with_error(s, row, status);
        }
    }
}

/* The prompt is read: other choices may begin with it. */
static void end_prompt(mc_schedule *s, mc_row *row, const mica_metrics *m) {
    mc_request *request = row->request;
    if (row->counted) return; /* its text was read again after a pause */
    row->counted = true;
    mc_schedule_count_prompt(s, m->prompt_tokens, m->reused_tokens);
    if (request->entered < request->given.choices && !request->source)
        (void)mc_session_fork(row->session, &request->source); /* without, they read it, too */
    mc_schedule_set_read(s, request);
}

/* Counts the time of reading n tokens. */
static void count_read(mc_schedule *s, int64_t n, uint64_t us) {
    double each = (double)us / (double)n, *average = &s->rows.read_us;
    *average = *average > 0.0 ? *average + 0.25 * (each - *average) : each;
}

/* Reads up to n tokens of a row's text. */
static void read_text(mc_schedule *s, mc_row *row, int64_t n) {
    for (int64_t end = mc_max(row->left - n, 0); row->left > end;) {
        int64_t part = mc_min(row->left - end, chunk_of(s));
        if (!make_room(s, row, part)) return;
        uint64_t start = mc_now_us();
        mica_status status = mc_stream_read(row->stream, part, &row->left);
        if (status != MICA_OK) {
            leave_with_error(s, row, status);
            return;
        }
        count_read(s, part, mc_now_us() - start);
        const mica_metrics m = mc_stream_metrics(row->stream);
        if (!row->counted)
            mc_request_tell(row->request, m.prompt_tokens - row->left, m.prompt_tokens,
                            m.reused_tokens);
        if (!row->left) end_prompt(s, row, &m);
    }
}

/* Lists the rows whose texts are not read, those with the fewest tokens left first. Returns how
 * many there are. */
static size_t list_readers(mc_schedule *s, mc_row **readers) {
    size_t n = 0;
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || row->paused || !row->left || waits(s, row) || !row->request) continue;
        size_t at = n++;
        for (; at && readers[at - 1]->left > row->left; at--)
            readers[at] = readers[at - 1];
        readers[at] = row;
    }
    return n;
}

int64_t mc_rows_step_tokens(int64_t max, double read_us) {
    while (max >= 2 * MIN_STEP_TOKENS && (double)max * read_us > (double)MAX_READ_US)
        max /= 2;
    return max;
}

/* Tokens of prompts that this step may read. Nobody waits for them if no answer is decoded. */
static int64_t step_tokens(const mc_schedule *s) {
    bool decodes = false;
    for (int i = 0; i < s->rows.n && !decodes; i++)
        decodes = s->rows.rows[i].request && !s->rows.rows[i].paused && !s->rows.rows[i].left;
    if (!s->adapts || !decodes) return s->options.step_tokens;
    return mc_rows_step_tokens(s->options.step_tokens, s->rows.read_us);
}

/* Reads as many tokens of prompts as a step may. One half is for the row that has waited longest;
 * the shortest prompts come first with the others, so that a long one does not hold them up. */
static void read_texts(mc_schedule *s) {
    mc_row *readers[MC_MAX_ROWS], *oldest = NULL;
    size_t n = list_readers(s, readers);
    for (size_t i = 0; i < n; i++)
        if (!oldest || readers[i]->number < oldest->number) oldest = readers[i];
    int64_t budget = step_tokens(s);
    int64_t kept = oldest ? mc_min(oldest->left, (budget + 1) / 2) : 0;
    for (size_t i = 0; i < n; i++) {
        if (readers[i] == oldest) kept = 0;
        int64_t part = mc_min(readers[i]->left, budget - kept);
        budget -= part;
        if (part > 0 && !readers[i]->paused) read_text(s, readers[i], part);
    }
}

/* ---- steps ---- */

/* Hands out the row's tokens until one must be computed (true, in *pending), or it ends. */
static bool pull(mc_schedule *s, mc_row *row, int32_t *pending) {
    mica_token token;
    while (!mc_stream_pending(row->stream, pending)) {
        if (!mc_stream_next(row->stream, &token)) {
            leave(s, row, mc_stream_status(row->stream), mc_stream_finish(row->stream));
            return false;
        }
        if (!mc_request_give(row->request, row->choice, &token)) mc_stream_cancel(row->stream);
    }
    return true;
}

/* The inputs of one step: of each row the token that comes next, and perhaps guesses behind it. */
typedef struct step {
    mc_row *rows[MC_MAX_ROWS];
    mc_session *sessions[MC_MAX_ROWS];
    int32_t next[MC_MAX_ROWS];
    int64_t counts[MC_MAX_ROWS]; /* tokens of each row, for which there is room */
    size_t n;
    int32_t ids[MC_MAX_ROWS]; /* of all rows, one row's after the other's */
    mc_device_draw draws[MC_MAX_ROWS];
} step;

/* Hands out all tokens that are computed, and collects the rows that need another. */
static void collect(mc_schedule *s, step *t) {
    t->n = 0;
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        int32_t id;
        if (!row->request || row->left || !pull(s, row, &id)) continue;
        t->rows[t->n] = row;
        t->sessions[t->n] = row->session;
        t->next[t->n++] = id;
    }
}

/* Drops the rows that have left or paused. */
static void keep_rest(step *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->rows[i]->request || t->rows[i]->paused) continue;
        t->rows[n] = t->rows[i];
        t->sessions[n] = t->sessions[i];
        t->counts[n] = t->counts[i];
        t->next[n++] = t->next[i];
    }
    t->n = n;
}

/* Takes the blocks for the row's next token. */
static void reserve_row(mc_schedule *s, step *t, size_t i) {
    mica_status status = mc_session_reserve(t->sessions[i], 1);
    if (status != MICA_OK) leave_with_error(s, t->rows[i], status);
    t->counts[i] = 1;
}

/* Takes those for guesses behind it, too, if there are some. Without memory for them the token has
 * room all the same. */
static void reserve_guesses(step *t, size_t i, int64_t count) {
    mc_session *session = t->sessions[i];
    if (!mc_cache_can_reserve(&session->cache, count)) return;
    if (mc_session_reserve_more(session, count) == MICA_OK) t->counts[i] = count;
}

/* Makes room for a token in each row; those of a follower have it. Rows without room pause, or
 * leave. Then for guesses, for which nobody pauses. */
static void reserve(mc_schedule *s, step *t) {
    for (size_t i = 0; i < t->n; i++) {
        t->counts[i] = 1;
        if (t->rows[i]->paused || mc_batch_follows(&s->rows.batch, t->sessions[i])) continue;
        if (make_room(s, t->rows[i], 1)) reserve_row(s, t, i);
    }
    keep_rest(t);
    for (size_t i = 0; i < t->n; i++) {
        int64_t count = 1 + t->rows[i]->request->generate.draft_tokens;
        if (count > 1) reserve_guesses(t, i, count);
    }
}

/* If a step was launched over tokens that are known now, its rows go first, by themselves. Whether
 * all do. */
static bool keep_followed(const mc_schedule *s, step *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!mc_batch_follows(&s->rows.batch, t->sessions[i])) continue;
        t->rows[n] = t->rows[i];
        t->sessions[n] = t->sessions[i];
        t->next[n++] = t->next[i];
    }
    bool all = n == 0 || n == t->n;
    if (n > 0) t->n = n;
    return all;
}

/* Whether another step may be launched over the tokens that the device chooses after this one, for
 * which there must be room in all rows. */
static bool may_follow(const mc_schedule *s, const step *t) {
    if (!s->local->device->backend->late || s->rows.model.lead) return false;
    for (size_t i = 0; i < t->n; i++) {
        mc_session *session = t->sessions[i];
        if (!mc_stream_goes_on(t->rows[i]->stream) || !mc_cache_can_reserve(&session->cache, 2) ||
            mc_session_reserve_more(session, 2) != MICA_OK)
            return false;
    }
    return true;
}

/* Lists the tokens of all rows. Guesses are the fewer, the more rows there are. */
static void guess(step *t) {
    int32_t *at = t->ids;
    int64_t room = MC_MAX_ROWS - (int64_t)t->n; /* for guesses */
    for (size_t i = 0; i < t->n; i++) {
        bool may = t->n == 1 || mc_cache_is_together(&t->sessions[i]->cache);
        int64_t max = may ? mc_min(t->counts[i] - 1, room) : 0;
        *at++ = t->next[i];
        int64_t guesses = mc_stream_guess(t->rows[i]->stream, max, (int64_t)t->n, at);
        t->counts[i] = 1 + guesses;
        at += guesses;
        room -= guesses;
    }
}

/* Computes the tokens of each row. A row alone makes a pass of its own, which reads its cache once
 * for all of them. */
static mica_status compute_together(mc_schedule *s, const step *t) {
    if (t->n == 1 && t->counts[0] > 1)
        return mc_session_look_ahead(t->sessions[0], t->ids, t->counts[0]);
    return mc_batch_look_ahead(&s->rows.batch, t->sessions, t->ids, t->counts, t->n);
}

/* Computes a token of each row by itself, where a step of all has failed: one's failure is its own.
 * A session that the error has emptied has no blocks to go on with. */
static void compute_alone(mc_schedule *s, const step *t, mica_status status) {
    char error[1024];
    snprintf(error, sizeof error, "%s", mica_last_error());
    for (size_t i = 0; i < t->n; i++) {
        mica_status alone = mc_session_count(t->sessions[i])
                                ? mc_batch_feed(&s->rows.batch, &t->sessions[i], &t->next[i], 1)
                                : mc_fail(status, "%s", error);
        if (alone != MICA_OK) leave_with_error(s, t->rows[i], alone);
    }
}

static void compute(mc_schedule *s, const step *t) {
    uint64_t start = mc_now_us();
    mica_status status = compute_together(s, t);
    if (status != MICA_OK && t->n == 1) leave_with_error(s, t->rows[0], status);
    if (status != MICA_OK && t->n > 1) compute_alone(s, t, status);
    uint64_t took = mc_now_us() - start;
    for (size_t i = 0; i < t->n; i++) {
        t->sessions[i]->draw = NULL;
        t->rows[i]->decode_us += took;
    }
    mc_schedule_count_step(s, t->n);
}

/* Computes a token of each row that needs one. */
static void decode(mc_schedule *s, step *t) {
    bool all = keep_followed(s, t);
    reserve(s, t);
    s->rows.batch.follow = all && may_follow(s, t);
    for (size_t i = 0; i < t->n; i++)
        mc_stream_plan_draw(t->rows[i]->stream, &t->draws[i]);
    for (size_t i = 0; i < t->n; i++)
        mc_stream_mask_ahead(t->rows[i]->stream);
    guess(t);
    if (t->n)
        compute(s, t);
    else
        mc_batch_drop_follower(&s->rows.batch);
}

/* Cancels the rows of requests that are over. */
static void cancel_rows(mc_schedule *s) {
    for (int i = 0; i < s->rows.n; i++) {
        mc_row *row = &s->rows.rows[i];
        if (!row->request || !mc_schedule_is_over(s, row->request)) continue;
        mc_stream_cancel(row->stream);
        if (row->left) { /* it reads: the next part ends it */
            mica_status status = mc_stream_read(row->stream, 1, &row->left);
            leave_with_error(s, row, status);
        }
    }
}

void mc_rows_step(mc_schedule *s) {
    step t;
    cancel_rows(s);
    resume_rows(s);
    take_choices(s);
    collect(s, &t); /* rows that ended leave before the next ones come in */
    decode(s, &t);
    collect(s, &t);
    if (!t.n) mc_batch_drop_follower(&s->rows.batch); /* its rows are over */
    read_texts(s);
    mc_lead_rest(s->rows.model.lead);
    count_cache(s);
}
