/* Muon: momentum whose matrices are made nearly orthogonal.
 *
 *     g = g + decay p,  v = momentum v + (1 - momentum) g,  u = (1 - momentum) g + momentum v
 *     p = p - rate sqrt(max(1, rows / columns)) NS(u)
 *
 * NS is five steps of a Newton-Schulz iteration, X = a X + (b X X^T + c (X X^T)^2) X, which brings
 * all singular values of X near 1. Vectors are updated by u itself. no_nesterov: u = v. Source:
 * Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; coefficients of
 * the same. */
#include "tune/optimizer.h"

#include <math.h>

enum { STEPS = 5 };

static int states(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]) {
    (void)options;
    return mc_optimizer_same_shape(1, shape, ndim, shapes, ndims);
}

static mica_array orthogonalise(mica_scope *s, mica_array x) {
    bool tall = mica_array_dim(x, 0) > mica_array_dim(x, 1);
    if (tall) x = mica_transpose(s, x, NULL);
    mica_array norm = mica_sqrt(s, mica_sum(s, mica_square(s, x), NULL, 0, false));
    x = mica_divide(s, x, mica_add(s, norm, mica_f32(s, 1e-7f)));
    for (int i = 0; i < STEPS; i++) {
        mica_array a = mica_matmul(s, x, mica_transpose(s, x, NULL));
        mica_array b = mc_blend(s, -4.7750, a, 2.0315, mica_matmul(s, a, a));
        x = mc_blend(s, 3.4445, x, 1.0, mica_matmul(s, b, x));
    }
    return tall ? mica_transpose(s, x, NULL) : x;
}

static void update(mc_update *u) {
    mica_scope *s = u->s;
    const mica_optimizer_options *o = u->options;
    mica_array g = u->grad, rate = u->rate;
    if (o->weight_decay > 0.0) g = mc_blend(s, 1.0, g, o->weight_decay, u->param);
    mica_array v = mc_blend(s, o->momentum, u->states[0], 1.0 - o->momentum, g), move = v;
    u->states[0] = v;
    if (!o->no_nesterov) move = mc_blend(s, 1.0 - o->momentum, g, o->momentum, v);
    if (mica_array_ndim(move) == 2) {
        double ratio = (double)mica_array_dim(move, 0) / (double)mica_array_dim(move, 1);
        move = orthogonalise(s, move);
        rate = mica_multiply(s, rate, mica_f32(s, (float)sqrt(fmax(1.0, ratio))));
    }
    u->param = mica_subtract(s, u->param, mica_multiply(s, move, rate));
}

const mc_optimizer mc_optimizer_muon = {
    .name = "muon",
    .summary = "momentum that is made orthogonal",
    .defaults = {.momentum = 0.95, .weight_decay = 0.01},
    .states = states,
    .update = update,
};
