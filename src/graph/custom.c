#include "graph/custom.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/status.h"

/* Ops are never removed, so what was found stays. */
typedef struct entry entry;
struct entry {
    entry *next;
    int64_t id;
    mica_custom_op op;
    char name[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries; /* guarded */

/* FNV-1a. */
int64_t mc_custom_id(const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
    return (int64_t)(hash & INT64_MAX);
}

static entry *find_op(int64_t id) {
    pthread_mutex_lock(&lock);
    entry *e = entries;
    while (e && e->id != id)
        e = e->next;
    pthread_mutex_unlock(&lock);
    return e;
}

mica_status mc_custom_find(const mc_attr_custom *attr, const mica_custom_op **op) {
    const entry *e = find_op(attr->op);
    *op = e ? &e->op : NULL;
    return e ? MICA_OK
             : mc_fail(MICA_EUNSUPPORTED, "custom: no op with the number %lld is registered",
                       (long long)attr->op);
}

bool mc_custom_is_known(const char *name) {
    const entry *e = find_op(mc_custom_id(name));
    return e && strcmp(e->name, name) == 0;
}

mica_shape mc_custom_shape(const mc_layout *l) {
    mica_shape shape = {.dtype = l->dtype, .ndim = l->ndim};
    memcpy(shape.shape, l->shape, (size_t)l->ndim * sizeof *shape.shape);
    return shape;
}

mica_status mc_custom_failed(const mica_custom_op *op, mica_status status, const char *function) {
    return mc_fail(status, "custom op \"%s\": its %s returned %s", op->name, function,
                   mica_status_name(status));
}

/* Puts a new entry in front; false: its number is taken. */
static bool put(entry *e) {
    pthread_mutex_lock(&lock);
    const entry *other = entries;
    while (other && other->id != e->id)
        other = other->next;
    if (!other) {
        e->next = entries;
        entries = e;
    }
    pthread_mutex_unlock(&lock);
    return !other;
}

mica_status mica_custom_register(const mica_custom_op *op) {
    mica_custom_op given;
    MC_TRY(MC_OPTIONS_COPY(mica_custom_op, vjp, &given, op));
    size_t length = given.name ? strlen(given.name) : 0;
    if (length < 1 || length >= sizeof((entry *)0)->name)
        return mc_fail(MICA_EINVAL, "custom_register: a name of %zu bytes, 1 to 63 are possible",
                       length);
    if (!given.infer || !given.run)
        return mc_fail(MICA_EINVAL, "custom_register: \"%s\" has no infer or no run", given.name);
    entry *e = mc_calloc(1, sizeof *e);
    if (!e) return mc_fail_nomem("custom_register");
    memcpy(e->name, given.name, length + 1);
    e->op = given;
    e->op.name = e->name;
    e->id = mc_custom_id(e->name);
    if (put(e)) return MICA_OK;
    mc_free(e);
    return mc_fail(MICA_EINVAL, "custom_register: \"%s\" is registered, or a name like it",
                   given.name);
}
