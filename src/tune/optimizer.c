#include "tune/optimizer.h"

#include "base/alloc.h"
#include "base/options.h"
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mc_optimizer *const rows[] = {
#define OPTIMIZER(name) &mc_optimizer_##name,
#include "tune/optimizer_list.h"
#undef OPTIMIZER
};

enum { ROWS = sizeof rows / sizeof *rows };

const mc_optimizer *mc_optimizer_find(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i]->name, name) == 0) return rows[i];
    return NULL;
}

size_t mica_optimizer_count(void) {
    return ROWS;
}

const char *mica_optimizer_name(size_t i, const char **summary) {
    if (summary) *summary = i < ROWS ? rows[i]->summary : NULL;
    return i < ROWS ? rows[i]->name : NULL;
}

static mica_status unknown(const char *name) {
    char known[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < ROWS && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, i ? ", %s" : "%s", rows[i]->name);
    return mc_fail(MICA_EINVAL, "no optimizer \"%s\"; there are %s", name, known);
}

/* 0 is the optimiser's own value, and a negative number 0. */
static double fill(double given, double initial) {
    if (given < 0.0) return 0.0;
    return given == 0.0 ? initial : given;
}

static mica_status check(const mica_optimizer_options *o) {
    const struct {
        const char *name;
        double value, max;
    } all[] = {
        {"learning_rate", o->learning_rate, 1e6},
        {"beta1", o->beta1, 1.0},
        {"beta2", o->beta2, 1.0},
        {"eps", o->eps, 1e6},
        {"weight_decay", o->weight_decay, 1e6},
        {"momentum", o->momentum, 1.0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i].value >= 0.0 && all[i].value <= all[i].max))
            return mc_fail(MICA_EINVAL, "%s's %s: want a number in 0..%g, found %g", o->name,
                           all[i].name, all[i].max, all[i].value);
    /* In f32, as they are computed with: 1 - beta^step divides. */
    if ((float)o->beta1 >= 1.0f || (float)o->beta2 >= 1.0f)
        return mc_fail(MICA_EINVAL, "%s's beta1 %.9g, beta2 %.9g: want numbers below 1", o->name,
                       o->beta1, o->beta2);
    return MICA_OK;
}

mica_status mc_optimizer_complete(const mica_optimizer_options *options,
                                  mica_optimizer_options *full, const mc_optimizer **row) {
    mica_optimizer_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_optimizer_options, momentum, &given, options));
    if (!given.name) given.name = "adam";
    *row = mc_optimizer_find(given.name);
    if (!*row) return unknown(given.name);
    const mica_optimizer_options *d = &(*row)->defaults;
    *full = given;
    full->learning_rate = fill(given.learning_rate, 1e-5);
    full->beta1 = fill(given.beta1, d->beta1);
    full->beta2 = fill(given.beta2, d->beta2);
    full->eps = fill(given.eps, d->eps);
    full->weight_decay = fill(given.weight_decay, d->weight_decay);
    full->momentum = fill(given.momentum, d->momentum);
    return check(full);
}

int mc_optimizer_same_shape(int n, const int64_t *shape, int ndim,
                            int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                            int ndims[MC_OPTIMIZER_STATES]) {
    for (int i = 0; i < n; i++) {
        memcpy(shapes[i], shape, (size_t)ndim * sizeof *shape);
        ndims[i] = ndim;
    }
    return n;
}

mica_array mc_blend(mica_scope *s, double a, mica_array x, double b, mica_array y) {
    return mica_add(s, mica_multiply(s, x, mica_f32(s, (float)a)),
                    mica_multiply(s, y, mica_f32(s, (float)b)));
}

mica_array mc_decay(const mc_update *u) {
    if (u->options->weight_decay == 0.0) return u->param;
    mica_array part = mica_multiply(u->s, u->rate, mica_f32(u->s, (float)u->options->weight_decay));
    return mica_multiply(u->s, u->param, mica_subtract(u->s, mica_f32(u->s, 1.0f), part));
}

/* ---- the public optimiser ---- */

struct mica_optimizer {
    mica_optimizer_options options;
    const mc_optimizer *row;
    mica_scope *scope;  /* of the states; an update puts another one in its place */
    mica_array *states; /* [n, MC_OPTIMIZER_STATES], MICA_NONE where a parameter has fewer */
    size_t n;           /* number of parameters that it has states for */
    int64_t steps;
};

mica_status mica_optimizer_open(mica_device *device, const mica_optimizer_options *options,
                                mica_optimizer **out) {
    if (!device || !out) return mc_fail(MICA_EINVAL, "mica_optimizer_open: NULL");
    *out = NULL;
    mica_optimizer *o = mc_calloc(1, sizeof *o);
    if (!o) return mc_fail_nomem("an optimizer");
    mica_status status = mc_optimizer_complete(options, &o->options, &o->row);
    if (status == MICA_OK) status = mica_scope_open(device, &o->scope);
    o->options.name = o->row ? o->row->name : NULL;
    if (status == MICA_OK)
        *out = o;
    else
        mica_optimizer_close(&o);
    return status;
}

void mica_optimizer_close(mica_optimizer **o) {
    if (!o || !*o) return;
    mica_scope_close(&(*o)->scope);
    mc_free((*o)->states);
    mc_free(*o);
    *o = NULL;
}

/* ---- an update ---- */

/* What an update makes. It takes the place of the optimiser's own once all of it is there. */
typedef struct updating {
    const mica_optimizer *o;
    mica_scope *s, *next; /* the caller's; one for the new states */
    mica_array *states;   /* [max(n, o->n), MC_OPTIMIZER_STATES] in next */
    mica_array *params;   /* [n] new ones, in s */
    double rate;
} updating;

static mica_status check_param(size_t i, mica_array param, mica_array grad) {
    char have[MC_LAYOUT_TEXT], want[MC_LAYOUT_TEXT];
    MC_TRY(mc_check_valid(param, "mica_optimizer_update: a parameter"));
    MC_TRY(mc_check_valid(grad, "mica_optimizer_update: a gradient"));
    const mc_layout *p = mc_layout_of(param), *g = mc_layout_of(grad);
    mc_layout_text(p, want);
    mc_layout_text(g, have);
    if (!mica_dtype_is_float(p->dtype))
        return mc_fail(MICA_EDTYPE, "mica_optimizer_update: parameter %zu is %s, want a float", i,
                       want);
    if (!mc_layout_same_shape(p, g))
        return mc_fail(MICA_ESHAPE, "mica_optimizer_update: gradient %zu is %s, its parameter %s",
                       i, have, want);
    return MICA_OK;
}

/* The states of parameter i before the update: zeros for a new one. */
static mica_status find_states(const updating *w, size_t i, mica_array param,
                               mica_array states[MC_OPTIMIZER_STATES]) {
    const mica_optimizer *o = w->o;
    int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM];
    int ndims[MC_OPTIMIZER_STATES];
    int n =
        o->row->states(&o->options, mica_array_shape(param), mica_array_ndim(param), shapes, ndims);
    for (int k = 0; k < MC_OPTIMIZER_STATES; k++) {
        if (i >= o->n) {
            states[k] = k < n ? mica_zeros(w->s, shapes[k], ndims[k], MICA_F32) : MICA_NONE;
            continue;
        }
        mica_array old = states[k] = o->states[i * MC_OPTIMIZER_STATES + (size_t)k];
        size_t bytes = k < n ? (size_t)ndims[k] * sizeof **shapes : 0;
        if (mica_valid(old) != (k < n) ||
            (k < n && (mica_array_ndim(old) != ndims[k] ||
                       memcmp(mica_array_shape(old), shapes[k], bytes) != 0)))
            return mc_fail(MICA_ESHAPE,
                           "mica_optimizer_update: parameter %zu has another shape than before", i);
    }
    return MICA_OK;
}

static mica_status step_one(const updating *w, size_t i, mica_array param, mica_array grad) {
    mica_scope *s = w->s;
    mica_array *states = w->states + i * MC_OPTIMIZER_STATES;
    mc_update u = {.s = s, .options = &w->o->options};
    MC_TRY(check_param(i, param, grad));
    MC_TRY(find_states(w, i, param, u.states));
    u.rate = mica_f32(s, (float)w->rate);
    u.step = mica_f32(s, (float)(w->o->steps + 1));
    u.param = mica_astype(s, param, MICA_F32);
    u.grad = mica_astype(s, grad, MICA_F32);
    w->o->row->update(&u);
    mica_array all[1 + MC_OPTIMIZER_STATES] = {mica_astype(s, u.param, mica_array_dtype(param))};
    size_t n = 1;
    for (int k = 0; k < MC_OPTIMIZER_STATES; k++)
        if (u.states[k].scope) all[n++] = u.states[k];
    /* Together: a state that was moved away is no operand of another one. */
    MC_TRY(mica_eval_n(s, all, n));
    w->params[i] = all[0];
    for (int k = 0; k < MC_OPTIMIZER_STATES; k++)
        if (mica_valid(u.states[k])) states[k] = mica_materialize(w->next, u.states[k]);
    return mica_scope_status(w->next);
}

/* All parameters of an update, and the states of those that are not in it. */
static mica_status step_all(updating *w, const mica_array *params, const mica_array *grads,
                            size_t n) {
    const mica_optimizer *o = w->o;
    MC_TRY(mica_scope_open(mica_scope_device(o->scope), &w->next));
    w->params = mc_calloc(n + 1, sizeof *w->params);
    w->states = mc_calloc((n > o->n ? n : o->n) * MC_OPTIMIZER_STATES + 1, sizeof *w->states);
    if (!w->params || !w->states) return mc_fail_nomem("an optimizer's state");
    for (size_t i = 0; i < n; i++)
        MC_TRY(step_one(w, i, params[i], grads[i]));
    for (size_t i = n * MC_OPTIMIZER_STATES; i < o->n * MC_OPTIMIZER_STATES; i++)
        if (mica_valid(o->states[i])) w->states[i] = mica_detach(w->next, o->states[i]);
    return mica_scope_status(w->next);
}

mica_status mica_optimizer_update(mica_optimizer *o, mica_scope *s, const mica_array *params,
                                  const mica_array *grads, size_t n, double rate,
                                  mica_array *new_params) {
    if (!o || !s || !params || !grads || !new_params)
        return mc_fail(MICA_EINVAL, "mica_optimizer_update: NULL");
    if (!isfinite((float)rate) || rate < 0.0)
        return mc_fail(MICA_EINVAL,
                       "mica_optimizer_update: a rate of %g: want a number from 0 on; "
                       "mica_optimizer_rate gives that of the options",
                       rate);
    MC_TRY(mica_scope_status(s));
    updating w = {.o = o, .s = s, .rate = rate};
    mica_status status = step_all(&w, params, grads, n);
    if (status == MICA_OK) {
        mica_scope *old = o->scope;
        mica_array *old_states = o->states;
        memcpy(new_params, w.params, n * sizeof *new_params);
        o->scope = w.next;
        o->states = w.states;
        if (n > o->n) o->n = n;
        o->steps++;
        w.next = old;
        w.states = old_states;
    }
    if (status != MICA_OK) mica_scope_clear_error(s);
    mica_scope_close(&w.next);
    mc_free(w.states);
    mc_free(w.params);
    return status;
}

double mica_optimizer_rate(const mica_optimizer *o) {
    return o ? o->options.learning_rate : 0.0;
}

int64_t mica_optimizer_steps(const mica_optimizer *o) {
    return o ? o->steps : 0;
}

void mica_optimizer_reset(mica_optimizer *o) {
    if (!o) return;
    mc_scope_reset(o->scope);
    mc_free(o->states);
    o->states = NULL;
    o->n = 0;
    o->steps = 0;
}
