#include "session/lead.h"

#include "base/alloc.h"
#include "group/group.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct mc_team {
    mica_group *group;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    uint64_t last, now; /* turns given out, and whose it is */
    mica_status status; /* MICA_OK: it is whole */
    char error[512];
    void (*broken)(void *user);
    void *user;
};

struct mc_lead {
    mc_team *team;
    int64_t model;
    mc_buffer plan;
    mc_buffer numbers; /* bool of each number: it is taken */
    int depth;         /* of ops within each other */
    bool in_turn;
    bool lost; /* something could not be written */
};

/* ---- the team ---- */

mica_status mc_team_open(mica_group *group, mc_team **out) {
    mc_team *team = *out = mc_calloc(1, sizeof *team);
    if (!team) return mc_fail_nomem("a team of ranks");
    team->group = mc_group_retain(group);
    team->now = 1;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->moved, NULL);
    return MICA_OK;
}

void mc_team_close(mc_team **team) {
    if (!team || !*team) return;
    mc_group_release((*team)->group);
    pthread_cond_destroy(&(*team)->moved);
    pthread_mutex_destroy(&(*team)->lock);
    mc_free(*team);
    *team = NULL;
}

mica_group *mc_team_group(const mc_team *team) {
    return team->group;
}

void mc_team_watch(mc_team *team, void (*broken)(void *user), void *user) {
    pthread_mutex_lock(&team->lock);
    team->broken = broken;
    team->user = user;
    pthread_mutex_unlock(&team->lock);
}

mica_status mc_team_break(mc_team *team, mica_status status) {
    pthread_mutex_lock(&team->lock);
    bool first = team->status == MICA_OK;
    if (first) {
        team->status = status;
        snprintf(team->error, sizeof team->error, "%s", mica_last_error());
    }
    void (*broken)(void *) = first ? team->broken : NULL;
    void *user = team->user;
    pthread_mutex_unlock(&team->lock);
    (void)mc_group_end_on(team->group, status); /* others may wait for this rank */
    if (broken) broken(user);
    return status;
}

mica_status mc_team_check(mc_team *team) {
    char error[sizeof team->error];
    pthread_mutex_lock(&team->lock);
    mica_status status = team->status;
    memcpy(error, team->error, sizeof error);
    pthread_mutex_unlock(&team->lock);
    return status == MICA_OK ? status : mc_fail(status, "%s", error);
}

void mc_team_give_up(mc_team *team) {
    (void)mc_team_break(team, mc_fail(MICA_EDEVICE, "the server is being stopped"));
}

/* Takes a turn, when it comes. errors  what broke the team; the turn is taken all the same */
static mica_status take_turn(mc_team *team) {
    pthread_mutex_lock(&team->lock);
    uint64_t own = ++team->last;
    while (team->now != own)
        pthread_cond_wait(&team->moved, &team->lock);
    pthread_mutex_unlock(&team->lock);
    return mc_team_check(team);
}

static void end_turn(mc_team *team) {
    pthread_mutex_lock(&team->lock);
    team->now++;
    pthread_cond_broadcast(&team->moved);
    pthread_mutex_unlock(&team->lock);
}

/* ---- messages ---- */

/* What is broadcast: with the first bytes of a plan, which are all of most. */
typedef struct message {
    int64_t model, bytes;
    char first[496];
} message;

static mica_status send_plan(mc_team *team, int64_t model, char *plan, size_t bytes) {
    message head = {.model = model, .bytes = (int64_t)bytes};
    size_t inside = bytes < sizeof head.first ? bytes : sizeof head.first;
    memcpy(head.first, plan, inside);
    MC_TRY(mica_group_share(team->group, &head, sizeof head, 0));
    return mica_group_share(team->group, plan + inside, bytes - inside, 0);
}

mica_status mc_team_hear(mc_team *team, int64_t *model, mc_buffer *plan) {
    message head;
    MC_TRY(mica_group_share(team->group, &head, sizeof head, 0));
    size_t bytes = (size_t)head.bytes;
    size_t inside = bytes < sizeof head.first ? bytes : sizeof head.first;
    *model = head.model;
    mc_buffer_clear(plan);
    if (!mc_buffer_add(plan, head.first, inside) || !mc_buffer_reserve(plan, bytes - inside))
        return mc_fail_nomem("a plan");
    plan->len = bytes;
    return mica_group_share(team->group, plan->data + inside, bytes - inside, 0);
}

/* ---- rank 0 ---- */

mica_status mc_lead_open(mc_team *team, int64_t model, mc_lead **out) {
    mc_lead *lead = *out = mc_calloc(1, sizeof *lead);
    if (!lead) return mc_fail_nomem("a plan");
    lead->team = team;
    lead->model = model;
    return MICA_OK;
}

void mc_lead_close(mc_lead **lead) {
    if (!lead || !*lead) return;
    mc_lead_rest(*lead);
    mc_buffer_deinit(&(*lead)->plan);
    mc_buffer_deinit(&(*lead)->numbers);
    mc_free(*lead);
    *lead = NULL;
}

mc_team *mc_lead_team(const mc_lead *lead) {
    return lead ? lead->team : NULL;
}

static void write_number(mc_lead *lead, int64_t number) {
    char bytes[10];
    size_t n = 0;
    uint64_t rest = (uint64_t)number;
    for (; rest >= 0x80; rest >>= 7)
        bytes[n++] = (char)(0x80 | (rest & 0x7f));
    bytes[n++] = (char)rest;
    if (!mc_buffer_add(&lead->plan, bytes, n)) lead->lost = true;
}

void mc_lead_say(mc_lead *lead, mc_lead_op op, const int64_t *numbers, size_t n) {
    if (!lead || lead->depth++) return;
    write_number(lead, op);
    for (size_t i = 0; i < n; i++)
        write_number(lead, numbers[i]);
}

void mc_lead_say_ids(mc_lead *lead, const int32_t *ids, int64_t n) {
    if (!lead || lead->depth > 1) return;
    write_number(lead, n);
    for (int64_t i = 0; i < n; i++)
        write_number(lead, ids[i]);
}

void mc_lead_say_text(mc_lead *lead, const char *text) {
    size_t n = strlen(text);
    if (!lead || lead->depth > 1) return;
    write_number(lead, (int64_t)n);
    if (!mc_buffer_add(&lead->plan, text, n)) lead->lost = true;
}

void mc_lead_done_with(mc_lead *lead, int64_t result) {
    if (lead && --lead->depth == 0) write_number(lead, result);
}

mica_status mc_lead_done(mc_lead *lead, mica_status status) {
    mc_lead_done_with(lead, status);
    return status;
}

int64_t mc_lead_take_number(mc_lead *lead) {
    if (!lead) return 0;
    bool *taken = MC_BUFFER_AT(&lead->numbers, bool);
    size_t n = MC_BUFFER_COUNT(&lead->numbers, bool), i = 0;
    while (i < n && taken[i])
        i++;
    if (i < n)
        taken[i] = true;
    else if (!mc_buffer_add(&lead->numbers, &(bool){true}, sizeof(bool)))
        lead->lost = true;
    return (int64_t)i;
}

void mc_lead_give_number(mc_lead *lead, int64_t number) {
    if (lead && (size_t)number < MC_BUFFER_COUNT(&lead->numbers, bool))
        MC_BUFFER_AT(&lead->numbers, bool)[number] = false;
}

mica_status mc_lead_send(mc_lead *lead) {
    if (!lead) return MICA_OK;
    mc_team *team = lead->team;
    mica_status status = lead->in_turn ? mc_team_check(team) : take_turn(team);
    lead->in_turn = true;
    if (status == MICA_OK && lead->lost) status = mc_fail_nomem("a plan");
    if (status == MICA_OK && lead->plan.len)
        status = send_plan(team, lead->model, lead->plan.data, lead->plan.len);
    mc_buffer_clear(&lead->plan);
    return status == MICA_OK ? status : mc_team_break(team, status);
}

void mc_lead_rest(mc_lead *lead) {
    if (!lead || !lead->in_turn) return;
    lead->in_turn = false;
    end_turn(lead->team);
}

/* ---- reading plans ---- */

int64_t mc_plan_number(mc_plan_reader *r) {
    uint64_t number = 0;
    for (int shift = 0; r->at < r->end && shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)*r->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return (int64_t)number;
    }
    r->bad = true;
    return 0;
}
