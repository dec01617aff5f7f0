#include "schedule/follow.h"

#include "base/alloc.h"
#include "engine/model.h"
#include "group/group.h"
#include "schedule/state.h"

#include "base/system.h"

#include <string.h>

/* A lane that is followed, by a thread of its own. */
typedef struct lane_thread {
    struct lane_thread *next;
    mc_lane *lane;
    mica_model *model;
    pthread_t thread;
} lane_thread;

/* A model of the team. */
typedef struct followed {
    struct followed *next;
    int64_t number;
    mica_model *model;
    const mc_session_model *lane; /* what it computes with, of another's model; NULL: its own */
    lane_thread *lanes;
    mc_session_model shared; /* with a pool, while there is a schedule */
    mc_batch batch;
    mc_buffer sessions; /* mc_session * by number; NULL: none */
    bool pending;       /* rank 0's result of the last op is to come */
    mc_lead_op op;
    int64_t result; /* ours */
} followed;

typedef struct follower {
    mc_team *team;
    mc_follow_open *open;
    void *context;
    followed *models;
    followed *at; /* whose plan it is */
    mc_plan_reader plan;
    mc_buffer ids, text; /* the list of an op */
    int64_t n;           /* how many ids */
    bool over;
} follower;

/* ---- models and sessions ---- */

/* Their threads end when rank 0 ends the lanes, or with the group. */
static void close_lanes(followed *m) {
    for (lane_thread *l = m->lanes, *next; l; l = next) {
        next = l->next;
        (void)pthread_join(l->thread, NULL);
        mc_lane_close(&l->lane);
        mc_free(l);
    }
    m->lanes = NULL;
}

static void close_schedule(followed *m) {
    close_lanes(m);
    mc_session **sessions = MC_BUFFER_AT(&m->sessions, mc_session *);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&m->sessions, mc_session *); i++)
        mc_session_close(&sessions[i]);
    mc_buffer_deinit(&m->sessions);
    if (m->batch.model) mc_batch_deinit(&m->batch);
    mc_kv_pool_close(&m->shared.pool);
    m->batch = (mc_batch){0};
}

static void close_model(followed *m) {
    close_schedule(m);
    if (!m->lane) mica_model_close(&m->model);
    mc_free(m);
}

static followed **find_model(follower *f, int64_t number) {
    followed **link = &f->models;
    while (*link && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

static mica_status misread(const follower *f) {
    return mc_fail(MICA_EFORMAT, "rank 0 has sent an op that rank %d cannot read",
                   mica_group_rank(mc_team_group(f->team)));
}

/* The place of a session that rank 0 names. */
static mc_session **place_of(follower *f, int64_t number) {
    mc_session **all = MC_BUFFER_AT(&f->at->sessions, mc_session *);
    bool known = number >= 0 && (size_t)number < MC_BUFFER_COUNT(&f->at->sessions, mc_session *);
    if (!known) f->plan.bad = true;
    return known ? &all[number] : NULL;
}

static mc_session *read_session(follower *f) {
    mc_session **place = place_of(f, mc_plan_number(&f->plan));
    if (!place || !*place) f->plan.bad = true;
    return place ? *place : NULL;
}

/* The same with its flags. */
static mc_session *read_told(follower *f) {
    int64_t told = mc_plan_number(&f->plan);
    mc_session **place = place_of(f, told / MC_SESSION_FLAGS);
    if (!place || !*place) {
        f->plan.bad = true;
        return NULL;
    }
    (*place)->greedy = told & MC_SESSION_GREEDY;
    (*place)->largest = told & MC_SESSION_LARGEST;
    return *place;
}

static mica_status read_ids(follower *f) {
    mc_plan_reader *r = &f->plan;
    f->n = mc_plan_number(r);
    mc_buffer_clear(&f->ids);
    if (f->n < 0 || f->n > r->end - r->at) r->bad = true; /* an id has a byte, at least */
    if (r->bad) return misread(f);
    if (!mc_buffer_reserve(&f->ids, (size_t)f->n * sizeof(int32_t))) return mc_fail_nomem("a plan");
    for (int64_t i = 0; i < f->n; i++) {
        int32_t id = (int32_t)mc_plan_number(r);
        (void)mc_buffer_add(&f->ids, &id, sizeof id);
    }
    return r->bad ? misread(f) : MICA_OK;
}

static mica_status read_text(follower *f) {
    mc_plan_reader *r = &f->plan;
    int64_t n = mc_plan_number(r);
    mc_buffer_clear(&f->text);
    if (r->bad || n < 0 || n > r->end - r->at) return misread(f);
    if (!mc_buffer_add(&f->text, r->at, (size_t)n) || !mc_buffer_cstr(&f->text))
        return mc_fail_nomem("a plan");
    r->at += n;
    return MICA_OK;
}

static const int32_t *ids_of(const follower *f) {
    return MC_BUFFER_AT(&f->ids, int32_t);
}

/* ---- models ---- */

static mica_status open_model(follower *f, int64_t *result) {
    MC_TRY(read_text(f));
    *result = f->open(f->context, f->text.data, &f->at->model);
    return MICA_OK;
}

static mica_status end_model(follower *f, int64_t *result) {
    followed **link = find_model(f, f->at->number);
    followed *m = *link;
    *result = 0;
    *link = m->next;
    close_model(m);
    f->at = NULL;
    return MICA_OK;
}

static mica_status open_parts(follower *f, int64_t rows, int64_t bytes, int64_t lanes) {
    followed *m = f->at;
    const mc_session_model *local = m->lane;
    uint64_t budget = (uint64_t)bytes;
    if (!local) MC_TRY(mc_model_local(m->model, &local));
    m->shared = *local;
    MC_TRY(mc_rows_agree(f->team, m->model, local, (int)rows, (int)lanes, &budget));
    MC_TRY(mc_rows_open_pool(&m->shared, (int)rows, budget, NULL));
    return mc_batch_init(&m->batch, &m->shared);
}

static mica_status open_schedule(follower *f, int64_t *result) {
    int64_t rows = mc_plan_number(&f->plan), bytes = mc_plan_number(&f->plan);
    int64_t lanes = mc_plan_number(&f->plan);
    bool bad = f->plan.bad || lanes < 1 || lanes > MC_MAX_ROWS;
    if (bad || !f->at->model || f->at->batch.model) return misread(f);
    *result = mc_group_outcome(mc_team_group(f->team), open_parts(f, rows, bytes, lanes));
    return MICA_OK;
}

static void *follow_lane(void *thread);

static mica_status open_lane(follower *f, int64_t *result) {
    const mc_session_model *local;
    followed *m = f->at;
    if (!m->model || mc_model_local(m->model, &local) != MICA_OK) return misread(f);
    lane_thread *l = mc_calloc(1, sizeof *l);
    if (!l) return mc_fail_nomem("a lane of a pipeline");
    l->model = m->model;
    *result = mc_lane_open(local, &l->lane);
    bool opened = *result == MICA_OK;
    if (opened && mc_thread_start(&l->thread, follow_lane, l) == 0) {
        l->next = m->lanes;
        m->lanes = l;
        return MICA_OK;
    }
    mc_lane_close(&l->lane);
    mc_free(l);
    return opened ? mc_fail(MICA_ENOMEM, "no thread could be started") : MICA_OK;
}

static mica_status end_schedule(follower *f, int64_t *result) {
    close_schedule(f->at);
    *result = 0;
    return MICA_OK;
}

static mica_status end_team(follower *f, int64_t *result) {
    f->over = true;
    *result = 0;
    return MICA_OK;
}

/* ---- sessions ---- */

/* Adds a session in the first place that is free, as rank 0's numbers are. */
static mica_status add(follower *f, mc_session *session) {
    mc_buffer *all = &f->at->sessions;
    mc_session **places = MC_BUFFER_AT(all, mc_session *);
    for (size_t i = 0; i < MC_BUFFER_COUNT(all, mc_session *); i++)
        if (!places[i]) {
            places[i] = session;
            return MICA_OK;
        }
    if (MC_BUFFER_PUSH(all, mc_session *, session)) return MICA_OK;
    mc_session_close(&session);
    return mc_fail_nomem("a session");
}

static mica_status open_session(follower *f, int64_t *result) {
    int64_t number = mc_plan_number(&f->plan), chunk = mc_plan_number(&f->plan);
    mc_session *session;
    (void)number;
    if (f->plan.bad || !f->at->batch.model) return misread(f);
    *result = mc_session_open(&f->at->shared, chunk, &session);
    return *result == MICA_OK ? add(f, session) : MICA_OK;
}

static mica_status close_session(follower *f, int64_t *result) {
    mc_session **place = place_of(f, mc_plan_number(&f->plan));
    (void)mc_plan_number(&f->plan);
    if (f->plan.bad) return misread(f);
    mc_session_close(place);
    *result = 0;
    return MICA_OK;
}

static mica_status fork_session(follower *f, int64_t *result) {
    mc_session *from = read_session(f), *session;
    (void)mc_plan_number(&f->plan);
    if (f->plan.bad) return misread(f);
    *result = mc_session_fork(from, &session);
    return *result == MICA_OK ? add(f, session) : MICA_OK;
}

static mica_status set_salt(follower *f, int64_t *result) {
    mc_session *session = read_session(f);
    (void)mc_plan_number(&f->plan);
    if (f->plan.bad) return misread(f);
    MC_TRY(read_text(f));
    mc_session_set_salt(session, f->text.data);
    *result = 0;
    return MICA_OK;
}

static mica_status reuse(follower *f, int64_t *result) {
    mc_session *session = read_session(f);
    int64_t start = mc_plan_number(&f->plan), hash = mc_plan_number(&f->plan);
    if (f->plan.bad) return misread(f);
    MC_TRY(read_ids(f));
    const mc_tokens text = {.ids = f->ids, .start = start, .hash = (uint64_t)hash};
    *result = mc_session_reuse_text(session, &text);
    return MICA_OK;
}

/* Ops of a session and a number. */
static int64_t reset(mc_session *session, int64_t number) {
    (void)number;
    mc_session_reset(session);
    return 0;
}

static int64_t swap_out(mc_session *session, int64_t number) {
    (void)number;
    mc_session_swap_out(session);
    return 0;
}

static int64_t mark(mc_session *session, int64_t position) {
    return mc_session_mark(session, position);
}

static int64_t expect(mc_session *session, int64_t n) {
    mc_session_expect(session, n);
    return 0;
}

static int64_t reserve(mc_session *session, int64_t n) {
    return mc_session_reserve(session, n);
}

static int64_t reserve_more(mc_session *session, int64_t n) {
    return mc_session_reserve_more(session, n);
}

/* ---- passes ---- */

static mica_status feed(follower *f, int64_t *result) {
    const float *logits;
    mc_session *session = read_told(f);
    bool wanted = mc_plan_number(&f->plan) != 0;
    if (f->plan.bad) return misread(f);
    MC_TRY(read_ids(f));
    *result = mc_session_feed(session, ids_of(f), f->n, wanted ? &logits : NULL);
    return MICA_OK;
}

static mica_status look_ahead(follower *f, int64_t *result) {
    mc_session *session = read_told(f);
    if (f->plan.bad) return misread(f);
    MC_TRY(read_ids(f));
    *result = mc_session_look_ahead(session, ids_of(f), f->n);
    return MICA_OK;
}

static mica_status step(follower *f, int64_t *result) {
    mc_session *sessions[MC_MAX_ROWS];
    int64_t counts[MC_MAX_ROWS], n = mc_plan_number(&f->plan), all = 0;
    if (f->plan.bad || n < 1 || n > MC_MAX_ROWS) return misread(f);
    for (int64_t i = 0; i < n && !f->plan.bad; i++) {
        sessions[i] = read_told(f);
        all += counts[i] = mc_plan_number(&f->plan);
    }
    if (f->plan.bad) return misread(f);
    MC_TRY(read_ids(f));
    if (f->n != all) return misread(f);
    *result = mc_batch_look_ahead(&f->at->batch, sessions, ids_of(f), counts, (size_t)n);
    return MICA_OK;
}

/* ---- plans ---- */

static const struct {
    const char *name;
    mica_status (*run)(follower *f, int64_t *result);
    int64_t (*change)(mc_session *session, int64_t number); /* in place of run */
} ops[MC_LEAD_OPS] = {
    [MC_LEAD_OPEN_MODEL] = {"open_model", .run = open_model},
    [MC_LEAD_CLOSE_MODEL] = {"close_model", .run = end_model},
    [MC_LEAD_OPEN_SCHEDULE] = {"open_schedule", .run = open_schedule},
    [MC_LEAD_OPEN_LANE] = {"open_lane", .run = open_lane},
    [MC_LEAD_CLOSE_SCHEDULE] = {"close_schedule", .run = end_schedule},
    [MC_LEAD_END] = {"end", .run = end_team},
    [MC_LEAD_OPEN] = {"open", .run = open_session},
    [MC_LEAD_CLOSE] = {"close", .run = close_session},
    [MC_LEAD_FORK] = {"fork", .run = fork_session},
    [MC_LEAD_RESET] = {"reset", .change = reset},
    [MC_LEAD_SWAP_OUT] = {"swap_out", .change = swap_out},
    [MC_LEAD_SALT] = {"salt", .run = set_salt},
    [MC_LEAD_MARK] = {"mark", .change = mark},
    [MC_LEAD_REUSE] = {"reuse", .run = reuse},
    [MC_LEAD_EXPECT] = {"expect", .change = expect},
    [MC_LEAD_RESERVE] = {"reserve", .change = reserve},
    [MC_LEAD_RESERVE_MORE] = {"reserve_more", .change = reserve_more},
    [MC_LEAD_FEED] = {"feed", .run = feed},
    [MC_LEAD_LOOK_AHEAD] = {"look_ahead", .run = look_ahead},
    [MC_LEAD_BATCH] = {"batch", .run = step},
};

static mica_status change(follower *f, int64_t (*op)(mc_session *session, int64_t number),
                          int64_t *result) {
    mc_session *session = read_session(f);
    int64_t number = mc_plan_number(&f->plan);
    if (f->plan.bad) return misread(f);
    *result = op(session, number);
    return MICA_OK;
}

/* Compares the result of the last op with rank 0's. */
static mica_status compare(follower *f) {
    followed *m = f->at;
    int64_t told = mc_plan_number(&f->plan);
    m->pending = false;
    if (f->plan.bad) return misread(f);
    if (told == m->result) return MICA_OK;
    return mc_fail(MICA_EINTERNAL, "rank %d is not in step: '%s' gave %lld, and on rank 0 %lld%s%s",
                   mica_group_rank(mc_team_group(f->team)), ops[m->op].name, (long long)m->result,
                   (long long)told, m->result ? ": " : "", m->result ? mica_last_error() : "");
}

static mica_status run_op(follower *f) {
    int64_t op = mc_plan_number(&f->plan), result = 0;
    followed *m = f->at;
    if (f->plan.bad || op < 0 || op >= MC_LEAD_OPS) return misread(f);
    if (ops[op].run)
        MC_TRY(ops[op].run(f, &result));
    else
        MC_TRY(change(f, ops[op].change, &result));
    if (f->at != m) return MICA_OK; /* it was closed */
    m->op = (mc_lead_op)op;
    m->result = result;
    m->pending = true;
    return MICA_OK;
}

/* The model of a plan, which a plan may begin. */
static mica_status choose_model(follower *f, int64_t number) {
    followed **link = find_model(f, number);
    if (!*link) *link = mc_calloc(1, sizeof **link);
    f->at = *link;
    if (!f->at) return mc_fail_nomem("a model");
    f->at->number = number;
    return MICA_OK;
}

static mica_status run_plan(follower *f, const mc_buffer *plan, int64_t number) {
    f->plan = (mc_plan_reader){.at = plan->data, .end = plan->data + plan->len};
    MC_TRY(choose_model(f, number));
    while (f->at && f->plan.at < f->plan.end)
        MC_TRY(f->at->pending ? compare(f) : run_op(f));
    return MICA_OK;
}

/* Follows until the team has ended, and closes what it has. */
static mica_status follow(follower *f) {
    mc_buffer plan = {0};
    mica_status status = MICA_OK;
    while (status == MICA_OK && !f->over) {
        int64_t number;
        status = mc_team_hear(f->team, &number, &plan);
        if (status == MICA_OK) status = run_plan(f, &plan, number);
    }
    (void)mc_group_end_on(mc_team_group(f->team), status); /* others may wait for this one */
    for (followed *m = f->models, *next; m; m = next) {
        next = m->next;
        close_model(m);
    }
    mc_buffer_deinit(&plan);
    mc_buffer_deinit(&f->ids);
    mc_buffer_deinit(&f->text);
    return status;
}

static void *follow_lane(void *thread) {
    lane_thread *l = thread;
    follower f = {.team = l->lane->team};
    if (choose_model(&f, MC_LANE_MODEL) == MICA_OK) {
        f.at->model = l->model;
        f.at->lane = &l->lane->local;
        (void)follow(&f);
    } else
        (void)mc_group_end_on(mc_team_group(f.team), MICA_ENOMEM);
    return NULL;
}

mica_status mc_follow(mc_team *team, mc_follow_open *open, void *context) {
    follower f = {.team = team, .open = open, .context = context};
    return follow(&f);
}
