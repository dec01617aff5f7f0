/* Arrays of one size, which each token changes: what recurrent layers carry. Zeros are
 * what the first token finds.
 *
 * There is no way back but to a snapshot. One is a second name of the arrays as they were; the pass
 * that comes then writes to new memory. The last few that last are kept, and one that does not:
 * what is computed ahead and not taken goes back to it. */
#include "base/alloc.h"
#include "base/integer.h"
#include "graph/graph.h"
#include "session/state.h"

#include <string.h>

/* LASTING: snapshots that are kept, beside the one that does not last. REACH: how far behind the
 * last token that may be. */
enum { LASTING = 3, SNAPSHOTS = LASTING + 1, REACH = 64 };

typedef struct note {
    int64_t at;         /* tokens before it; 0: there is none */
    mica_array *arrays; /* [n] */
} note;

typedef struct carried {
    mc_state base;
    const mc_carried *specs; /* [n] */
    int n;
    int64_t at;      /* tokens that the arrays have seen: more than `count` if some are ahead */
    int64_t pending; /* the same once the pass that runs has left them */
    mica_array *now; /* [n]; MICA_NONE: zeros that are not made */
    mica_array *params, *next; /* [n] of the pass that is recorded */
    note snapshots[SNAPSHOTS]; /* the first does not last */
} carried;

static carried *of(const mc_state *state) {
    return (carried *)(uintptr_t)state;
}

static mica_status init(mc_state *state) {
    carried *c = of(state);
    c->specs = state->carried;
    c->n = state->elsewhere ? 0 : state->n_carried;
    c->now = mc_calloc((size_t)c->n * (3 + SNAPSHOTS) + 1, sizeof *c->now);
    if (!c->now) return mc_fail_nomem("a session's caches");
    c->params = c->now + c->n;
    c->next = c->params + c->n;
    for (int i = 0; i < SNAPSHOTS; i++)
        c->snapshots[i].arrays = c->next + (i + 1) * c->n;
    return MICA_OK;
}

static void deinit(mc_state *state) {
    mc_free(of(state)->now);
}

static void clear(mc_state *state) {
    carried *c = of(state);
    memset(c->now, 0, (size_t)c->n * (3 + SNAPSHOTS) * sizeof *c->now);
    for (int i = 0; i < SNAPSHOTS; i++)
        c->snapshots[i].at = 0;
    state->count = c->at = 0;
}

/* ---- room ---- */

static size_t bytes_of(const mc_carried *spec) {
    size_t bytes = mica_dtype_bytes(spec->dtype);
    for (int i = 0; i < spec->ndim; i++)
        bytes *= (size_t)spec->shape[i];
    return bytes;
}

/* The shape of an array with an axis of one row. */
static void shape_of(const mc_carried *spec, int64_t shape[MICA_MAX_NDIM]) {
    shape[0] = 1;
    memcpy(shape + 1, spec->shape, (size_t)spec->ndim * sizeof *shape);
}

static mica_status make_zeros(const carried *c, mica_scope *home, int i) {
    int64_t shape[MICA_MAX_NDIM];
    mica_scope *s = c->base.scratch;
    shape_of(&c->specs[i], shape);
    mc_scope_set_fallback(s, c->base.shape.fallback);
    mica_array zeros =
        mica_contiguous(s, mica_zeros(s, shape, c->specs[i].ndim + 1, c->specs[i].dtype));
    mica_status status = mica_eval(s, zeros);
    if (status == MICA_OK) {
        c->now[i] = mica_materialize(home, zeros);
        status = mica_scope_status(home);
    }
    mc_scope_set_fallback(s, false);
    mc_scope_reset(s);
    return status;
}

static mica_status reserve(mc_state *state, mica_scope *home, int64_t n, int64_t later) {
    const carried *c = of(state);
    (void)n, (void)later;
    for (int i = 0; i < c->n; i++)
        if (!c->now[i].scope) MC_TRY(make_zeros(c, home, i));
    return MICA_OK;
}

static uint64_t bytes_after(const mc_state *state, int64_t tokens) {
    uint64_t bytes = 0;
    (void)tokens;
    for (int i = 0; i < state->n_carried; i++)
        bytes += bytes_of(&state->carried[i]);
    return bytes * (1 + SNAPSHOTS);
}

/* Gives arrays a second name in a scope. */
static mica_status name_again(const carried *c, mica_scope *home, const mica_array *from,
                              mica_array *to) {
    for (int i = 0; i < c->n; i++)
        to[i] = from[i].scope ? mica_detach(home, from[i]) : MICA_NONE;
    return mica_scope_status(home);
}

static mica_status fork(const mc_state *state, mc_state *copy, mica_scope *home) {
    const carried *from = of(state);
    carried *to = of(copy);
    to->at = from->at;
    MC_TRY(name_again(from, home, from->now, to->now));
    for (int i = 0; i < SNAPSHOTS; i++) {
        to->snapshots[i].at = from->snapshots[i].at;
        if (!to->snapshots[i].at) continue;
        MC_TRY(name_again(from, home, from->snapshots[i].arrays, to->snapshots[i].arrays));
    }
    return MICA_OK;
}

/* ---- going back ---- */

static int64_t back(const mc_state *state, int64_t total, int64_t to) {
    const carried *c = of(state);
    int64_t found = c->at <= to ? c->at : 0;
    (void)total;
    for (int i = 0; i < SNAPSHOTS; i++)
        if (c->snapshots[i].at <= to) found = mc_max(found, c->snapshots[i].at);
    return found;
}

static void cut(mc_state *state, int64_t total, int64_t to) {
    carried *c = of(state);
    state->count -= total - to;
    for (int i = 0; i < SNAPSHOTS; i++) {
        note *snapshot = &c->snapshots[i];
        if (snapshot->at == to && c->at != to) {
            if (c->n) (void)name_again(c, snapshot->arrays[0].scope, snapshot->arrays, c->now);
            c->at = to; /* without memory the next pass fails */
        }
        if (snapshot->at > to) snapshot->at = 0; /* of another text */
    }
}

static int64_t reach(const mc_state *state) {
    (void)state;
    return REACH;
}

static mica_status take_snapshot(mc_state *state, mica_scope *home, int64_t total, bool lasting) {
    carried *c = of(state);
    note *oldest = &c->snapshots[lasting ? 1 : 0];
    if (!total || c->at != total) return MICA_OK;
    for (int i = 1; i < SNAPSHOTS && lasting; i++) {
        if (c->snapshots[i].at == total) return MICA_OK;
        if (c->snapshots[i].at < oldest->at) oldest = &c->snapshots[i];
    }
    oldest->at = 0;
    MC_TRY(name_again(c, home, c->now, oldest->arrays));
    oldest->at = total;
    return MICA_OK;
}

static mica_status share(const mc_state *state, mica_scope *home, int64_t at, mica_array *arrays) {
    const carried *c = of(state);
    const mica_array *from = c->now;
    for (int i = 0; i < SNAPSHOTS && c->at != at; i++)
        if (c->snapshots[i].at == at) from = c->snapshots[i].arrays;
    return name_again(c, home, from, arrays);
}

static mica_status resume(mc_state *state, mica_scope *home, int64_t at, const mica_array *arrays) {
    carried *c = of(state);
    state->count = c->at = at;
    return name_again(c, home, arrays, c->now);
}

/* ---- passes ---- */

static carried *row_of(mc_state_rows rows) {
    return of(rows.states[0]);
}

static void begin(mc_state_rows rows) {
    carried *c = row_of(rows);
    memset(c->params, 0, 2 * (size_t)c->n * sizeof *c->params);
}

static mica_array before(mc_state *state, mica_scope *s, int i) {
    const carried *c = of(state);
    int64_t shape[MICA_MAX_NDIM];
    shape_of(&c->specs[i], shape);
    if (c->params[i].scope) return c->params[i];
    mc_scope_set_fallback(s, state->shape.fallback);
    c->params[i] = mica_program_param(s, c->specs[i].dtype, shape, c->specs[i].ndim + 1);
    mc_scope_set_fallback(s, false);
    return c->params[i];
}

static void after(mc_state *state, mica_scope *s, int i, mica_array next) {
    (void)s;
    of(state)->next[i] = next;
}

static size_t array_count(const mc_state *state) {
    return (size_t)of(state)->n;
}

static void params(mc_state_rows rows, mica_param *params) {
    for (int i = 0; i < row_of(rows)->n; i++)
        params[i] = (mica_param){.array = row_of(rows)->params[i], .donate = true};
}

static void results(mc_state_rows rows, mica_array *results) {
    memcpy(results, row_of(rows)->next, (size_t)row_of(rows)->n * sizeof *results);
}

static void args(mc_state_rows rows, mica_scope *s, int64_t n, mica_array *args) {
    carried *c = row_of(rows);
    (void)s;
    memcpy(args, c->now, (size_t)c->n * sizeof *args);
    c->pending = c->base.count + rows.ahead[0] + n;
}

static mica_status take_results(mc_state *state, mica_scope *home, const mica_array *results) {
    carried *c = of(state);
    for (int i = 0; i < c->n; i++)
        c->now[i] = results[i].scope == home ? results[i] : mica_materialize(home, results[i]);
    c->at = c->pending;
    return mica_scope_status(home);
}

static size_t list(mica_array *arrays, int n, mica_array **refs) {
    for (int i = 0; i < n && refs; i++)
        refs[i] = &arrays[i];
    return (size_t)n;
}

static size_t arrays(mc_state *state, mica_array **refs) {
    carried *c = of(state);
    size_t n = (c->n && c->now[0].scope) || !refs ? list(c->now, c->n, refs) : 0;
    for (int i = 0; i < SNAPSHOTS; i++)
        if (c->snapshots[i].at || !refs)
            n += list(c->snapshots[i].arrays, c->n, refs ? refs + n : NULL);
    return n;
}

/* ---- files ---- */

static uint64_t saved_bytes(const mc_state *state, int64_t total) {
    uint64_t bytes = MC_WORD;
    for (int i = 0; i < state->n_carried && total; i++)
        bytes += mc_padded(bytes_of(&state->carried[i]));
    return bytes;
}

static mica_status write(mc_state *state, int64_t total, int slot, mc_part_writer *w) {
    const carried *c = of(state);
    (void)slot;
    MC_TRY(mc_part_put(w, &total, sizeof total));
    for (int i = 0; i < c->n && total; i++) {
        size_t bytes = bytes_of(&c->specs[i]);
        void *data = mc_alloc(bytes);
        mica_status status = data ? MICA_OK : mc_fail_nomem("saving a session");
        if (status == MICA_OK) status = mica_read(c->now[i], data, bytes);
        if (status == MICA_OK) status = mc_part_put(w, data, bytes);
        mc_free(data);
        if (status != MICA_OK) return status;
    }
    return MICA_OK;
}

static mica_status read(mc_state *state, mica_scope *home, int64_t total, int slot,
                        mc_part_reader *r) {
    carried *c = of(state);
    const void *data = NULL;
    int64_t shape[MICA_MAX_NDIM], at;
    (void)slot;
    MC_TRY(mc_part_take(r, sizeof at, &data));
    memcpy(&at, data, sizeof at);
    if (at != total)
        return mc_fail(MICA_EFORMAT, "%s: layer %d has seen %lld of %lld tokens", r->name,
                       state->layer, (long long)at, (long long)total);
    for (int i = 0; i < c->n && total; i++) {
        shape_of(&c->specs[i], shape);
        MC_TRY(mc_part_take(r, bytes_of(&c->specs[i]), &data));
        mc_scope_set_fallback(home, state->shape.fallback);
        c->now[i] = mica_from_data(home, data, c->specs[i].dtype, shape, c->specs[i].ndim + 1);
        mc_scope_set_fallback(home, false);
    }
    state->count = c->at = total;
    return mica_scope_status(home);
}

const mc_state_ops mc_state_carried = {
    .name = "carried",
    .bytes = sizeof(carried),
    .init = init,
    .deinit = deinit,
    .clear = clear,
    .reserve = reserve,
    .bytes_after = bytes_after,
    .fork = fork,
    .back = back,
    .cut = cut,
    .reach = reach,
    .snapshot = take_snapshot,
    .share = share,
    .resume = resume,
    .begin = begin,
    .before = before,
    .after = after,
    .param_count = array_count,
    .result_count = array_count,
    .params = params,
    .results = results,
    .args = args,
    .take = take_results,
    .arrays = arrays,
    .saved_bytes = saved_bytes,
    .write = write,
    .read = read,
};
