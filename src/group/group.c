#include "group/group.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"

struct mica_group {
    const mc_group_ops *ops;
    void *state;
    int rank, size;
    int64_t number;
    int users;        /* guarded by `lock`, as the list */
    mica_group *next; /* of open groups */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mica_group *groups;  /* guarded */
static int64_t last_number; /* guarded */

static const mc_group_ops *const backends[] = {
#define GROUP(name) &mc_group_##name,
#include "group/backend_list.h"
};

enum { BACKENDS = sizeof backends / sizeof *backends };

/* ---- handles ---- */

bool mica_group_is_started(void) {
    for (int i = 0; i < BACKENDS; i++)
        if (backends[i]->is_started()) return true;
    return false;
}

static mica_status find_backend(const char *name, const mc_group_ops **ops) {
    char names[64] = "";
    *ops = &mc_group_self;
    for (int i = 0; i < BACKENDS; i++) {
        size_t at = strlen(names);
        *ops = backends[i];
        if (name ? strcmp(name, (*ops)->name) == 0 : (*ops)->is_started()) return MICA_OK;
        snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", (*ops)->name);
    }
    *ops = &mc_group_self;
    return name ? mc_fail(MICA_EINVAL, "mica_group_open: there is no back end '%s': there are %s",
                          name, names)
                : MICA_OK;
}

static void enlist(mica_group *group) {
    (void)pthread_mutex_lock(&lock);
    group->number = ++last_number;
    group->users = 1;
    group->next = groups;
    groups = group;
    (void)pthread_mutex_unlock(&lock);
}

mica_status mica_group_open(const mica_group_options *options, mica_group **out) {
    mica_group_options given;
    const mc_group_ops *ops;
    if (!out) return mc_fail(MICA_EINVAL, "mica_group_open: group is NULL");
    *out = NULL;
    MC_TRY(MC_OPTIONS_COPY(mica_group_options, patience_s, &given, options));
    if (!(given.patience_s >= 0) || isinf(given.patience_s))
        return mc_fail(MICA_EINVAL, "mica_group_open: patience_s is no number of seconds");
    MC_TRY(find_backend(given.backend, &ops));
    mica_group *group = mc_calloc(1, sizeof *group);
    if (!group) return mc_fail_nomem("a group");
    group->ops = ops;
    mica_status status = ops->open(given.patience_s > 0 ? given.patience_s : 20, &group->state,
                                   &group->rank, &group->size);
    if (status != MICA_OK) {
        mc_free(group);
        return status;
    }
    enlist(group);
    *out = group;
    return MICA_OK;
}

mica_status mica_group_split(mica_group *group, int color, int key, mica_group **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_group_split: part is NULL");
    *out = NULL;
    if (!group) return mc_fail(MICA_EINVAL, "mica_group_split: group is NULL");
    if (color < 0) return mc_fail(MICA_EINVAL, "mica_group_split: the colour %d", color);
    mica_group *part = mc_calloc(1, sizeof *part);
    mica_status status = part ? MICA_OK : mc_fail_nomem("a group");
    if (status == MICA_OK) part->ops = group->ops;
    status = mc_group_outcome(group, status); /* back ends wait for all without a limit */
    if (status == MICA_OK)
        status = mc_group_end_on(group, group->ops->split(group->state, color, key, &part->state,
                                                          &part->rank, &part->size));
    if (status != MICA_OK) {
        mc_free(part);
        return status;
    }
    enlist(part);
    *out = part;
    return MICA_OK;
}

mica_group *mc_group_retain(mica_group *group) {
    (void)pthread_mutex_lock(&lock);
    if (group) group->users++;
    (void)pthread_mutex_unlock(&lock);
    return group;
}

void mc_group_release(mica_group *group) {
    if (!group) return;
    (void)pthread_mutex_lock(&lock);
    bool last = --group->users == 0;
    mica_group **at = &groups;
    while (last && *at != group)
        at = &(*at)->next;
    if (last) *at = group->next;
    (void)pthread_mutex_unlock(&lock);
    if (!last) return;
    group->ops->close(group->state);
    mc_free(group);
}

void mica_group_close(mica_group **group) {
    if (!group) return;
    mc_group_release(*group);
    *group = NULL;
}

void mica_group_abort(mica_group *group, int code) {
    if (group) group->ops->abort(group->state, code);
}

void mc_group_give_up(mica_group *group) {
    if (group->ops->give_up) group->ops->give_up(group->state, mica_last_error());
}

mica_status mc_group_end_on(mica_group *group, mica_status status) {
    if (group && status != MICA_OK) mc_group_give_up(group);
    return status;
}

mica_status mc_group_check(mica_group *group) {
    return group->ops->check ? group->ops->check(group->state) : MICA_OK;
}

void mc_group_sleep(mica_group *group) {
    if (group && group->ops->sleep) group->ops->sleep(group->state);
}

int mica_group_rank(const mica_group *group) {
    return group ? group->rank : 0;
}

int mica_group_size(const mica_group *group) {
    return group ? group->size : 1;
}

const char *mica_group_backend(const mica_group *group) {
    return group ? group->ops->name : mc_group_self.name;
}

int64_t mc_group_number(const mica_group *group) {
    return group ? group->number : 0;
}

mica_status mc_group_find(int64_t number, mica_group **out) {
    (void)pthread_mutex_lock(&lock);
    mica_group *group = groups;
    while (group && group->number != number)
        group = group->next;
    if (group) group->users++;
    (void)pthread_mutex_unlock(&lock);
    *out = group;
    return group ? MICA_OK
                 : mc_fail(MICA_EINVAL, "there is no open group with the number %lld",
                           (long long)number);
}

/* ---- bytes ---- */

static mica_status check_rank(const mica_group *group, const char *what, int rank) {
    if (!group) return mc_fail(MICA_EINVAL, "%s: group is NULL", what);
    if (rank >= 0 && rank < group->size) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: there is no rank %d among %d", what, rank, group->size);
}

mica_status mc_group_all_gather(mica_group *group, const void *in, size_t bytes, void *out) {
    return mc_group_end_on(group, group->ops->all_gather(group->state, in, bytes, out));
}

mica_status mc_group_all_to_all(mica_group *group, const void *in, size_t bytes, void *out) {
    return mc_group_end_on(group, group->ops->all_to_all(group->state, in, bytes, out));
}

mica_status mc_group_broadcast(mica_group *group, void *data, size_t bytes, int root) {
    MC_TRY(check_rank(group, "broadcast", root));
    return group->ops->broadcast(group->state, data, bytes, root);
}

mica_status mc_group_send(mica_group *group, const void *data, size_t bytes, int to) {
    MC_TRY(check_rank(group, "send", to));
    return group->ops->send(group->state, data, bytes, to);
}

mica_status mc_group_recv(mica_group *group, void *data, size_t bytes, int from) {
    MC_TRY(check_rank(group, "recv", from));
    return group->ops->recv(group->state, data, bytes, from);
}

mica_status mica_group_share(mica_group *group, void *bytes, size_t count, int root) {
    MC_TRY(check_rank(group, "mica_group_share", root));
    if (count == 0) return MICA_OK;
    if (!bytes) return mc_fail(MICA_EINVAL, "mica_group_share: bytes is NULL");
    return group->ops->broadcast(group->state, bytes, count, root);
}

/* What ranks say, cut to one size, with where they are. */
typedef struct saying {
    uint64_t hash;
    char host[64];
    char text[256];
} saying;

mica_status mica_group_agree(mica_group *group, const char *what, const char *text) {
    saying own = {.hash = UINT64_C(14695981039346656037)};
    if (!group || !what || !text)
        return mc_fail(MICA_EINVAL, "mica_group_agree: %s is NULL", group ? "a text" : "group");
    for (const char *c = text; *c; c++)
        own.hash = (own.hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    snprintf(own.text, sizeof own.text, "%s", text);
    mc_host_name(own.host, sizeof own.host);
    saying *all = mc_calloc((size_t)group->size, sizeof *all);
    if (!all) return mc_group_end_on(group, mc_fail_nomem("what ranks say"));
    mica_status status = mc_group_all_gather(group, &own, sizeof own, all);
    for (int i = 1; status == MICA_OK && i < group->size; i++)
        if (all[i].hash != all[0].hash)
            status = mc_fail(MICA_EINVAL, "%s: rank %d on %s has '%s', and rank 0 '%s'", what, i,
                             all[i].host, all[i].text, all[0].text);
    mc_free(all);
    return status;
}

/* How a rank fared. */
typedef struct outcome {
    int64_t status;
    char text[504];
} outcome;

mica_status mc_group_outcome(mica_group *group, mica_status status) {
    outcome own = {.status = status};
    if (!group || group->size == 1) return status;
    if (status != MICA_OK) snprintf(own.text, sizeof own.text, "%s", mica_last_error());
    outcome *all = mc_calloc((size_t)group->size, sizeof *all);
    if (!all && status == MICA_OK) status = mc_fail_nomem("what ranks say");
    if (!all) return mc_group_end_on(group, status);
    mica_status moved = mc_group_all_gather(group, &own, sizeof own, all);
    int first = 0;
    while (moved == MICA_OK && first < group->size && all[first].status == MICA_OK)
        first++;
    if (moved != MICA_OK ? status != MICA_OK : first == group->rank)
        moved = mc_fail(status, "%s", own.text);
    else if (moved == MICA_OK && first < group->size)
        moved = mc_fail((mica_status)all[first].status, "rank %d: %s", first, all[first].text);
    mc_free(all);
    return moved;
}
