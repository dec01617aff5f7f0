#include "tune/optimizer.h"

#include "base/alloc.h"
#include "base/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mc_optimizer *const rows[] = {
#define OPTIMIZER(name) &mc_optimizer_##name,
#include "tune/optimizer_list.h"
#undef OPTIMIZER
};

enum { ROWS = sizeof rows / sizeof *rows };

const mc_optimizer *mc_optimizer_at(size_t i) {
    return i < ROWS ? rows[i] : NULL;
}

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
    return MICA_OK;
}

mica_status mc_optimizer_complete(const mica_optimizer_options *options,
                                  mica_optimizer_options *full, const mc_optimizer **row) {
    mica_optimizer_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_optimizer_options, momentum, &given, options));
    if (!given.name) given.name = "adamw";
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
    mica_scope *scope; /* of the states */
    mica_array *states;
    size_t n; /* number of parameters that it has states for */
    double step;
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

/* States of zeros for parameters that are new. */
static mica_status grow(mica_optimizer *o, const mica_array *params, size_t n) {
    if (n <= o->n) return MICA_OK;
    mica_array *states = mc_realloc(o->states, n * MC_OPTIMIZER_STATES * sizeof *states);
    if (!states) return mc_fail_nomem("an optimizer's state");
    o->states = states;
    for (size_t i = o->n; i < n; i++) {
        int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM];
        int ndims[MC_OPTIMIZER_STATES];
        int count = o->row->states(&o->options, mica_array_shape(params[i]),
                                   mica_array_ndim(params[i]), shapes, ndims);
        mica_array *mine = states + i * MC_OPTIMIZER_STATES;
        for (int k = 0; k < MC_OPTIMIZER_STATES; k++)
            mine[k] = k < count ? mica_zeros(o->scope, shapes[k], ndims[k], MICA_F32) : MICA_NONE;
        MC_TRY(count ? mica_eval_n(o->scope, mine, (size_t)count) : MICA_OK);
    }
    o->n = n;
    return MICA_OK;
}

static mica_status step_one(mica_optimizer *o, mica_scope *s, size_t i, mica_array param,
                            mica_array grad, double rate, mica_array *new_param) {
    mica_array *states = o->states + i * MC_OPTIMIZER_STATES;
    mc_update u = {.s = s, .options = &o->options};
    u.rate = mica_f32(s, (float)rate);
    u.step = mica_f32(s, (float)o->step);
    u.param = mica_astype(s, param, MICA_F32);
    u.grad = mica_astype(s, grad, MICA_F32);
    memcpy(u.states, states, sizeof u.states);
    o->row->update(&u);
    *new_param = mica_astype(s, u.param, mica_array_dtype(param));
    /* Together: a state that was moved away is no operand of another one. */
    mica_array all[1 + MC_OPTIMIZER_STATES] = {*new_param};
    size_t n = 1;
    for (int k = 0; k < MC_OPTIMIZER_STATES; k++)
        if (mica_valid(states[k])) all[n++] = u.states[k];
    MC_TRY(mica_eval_n(s, all, n));
    for (int k = 0; k < MC_OPTIMIZER_STATES; k++)
        if (mica_valid(states[k])) states[k] = mica_materialize(o->scope, u.states[k]);
    return mica_scope_status(o->scope);
}

/* Forgets states that were replaced. */
static mica_status collect(mica_optimizer *o) {
    size_t n = 0;
    mica_array *live = mc_array_alloc(o->n * MC_OPTIMIZER_STATES + 1, sizeof *live);
    if (!live) return mc_fail_nomem("an optimizer's state");
    for (size_t i = 0; i < o->n * MC_OPTIMIZER_STATES; i++)
        if (mica_valid(o->states[i])) live[n++] = o->states[i];
    mica_status status = mica_scope_collect(o->scope, live, n);
    n = 0;
    for (size_t i = 0; i < o->n * MC_OPTIMIZER_STATES && status == MICA_OK; i++)
        if (o->states[i].scope) o->states[i] = live[n++]; /* the old handles are void */
    mc_free(live);
    return status;
}

mica_status mica_optimizer_update(mica_optimizer *o, mica_scope *s, const mica_array *params,
                                  const mica_array *grads, size_t n, double learning_rate,
                                  mica_array *new_params) {
    if (!o || !s || !params || !grads || !new_params)
        return mc_fail(MICA_EINVAL, "mica_optimizer_update: NULL");
    MC_TRY(grow(o, params, n));
    o->step++;
    double rate = learning_rate > 0.0 ? learning_rate : o->options.learning_rate;
    for (size_t i = 0; i < n; i++)
        MC_TRY(step_one(o, s, i, params[i], grads[i], rate, &new_params[i]));
    return collect(o);
}

void mica_optimizer_reset(mica_optimizer *o) {
    if (!o) return;
    o->n = 0;
    o->step = 0.0;
}
