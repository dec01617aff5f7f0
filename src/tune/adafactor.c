/* Adafactor: of a matrix' squared gradients only the means of rows and columns are kept.
 *
 *     b = 1 - t^-0.8,  q = g^2 + 1e-30
 *     row = b row + (1 - b) mean_columns(q),  col = b col + (1 - b) mean_rows(q)
 *     u = g / sqrt(row / mean(row)) / sqrt(col),  u = u / max(1, rms(u))
 *     p = p (1 - decay a) - a u,  a = rate max(1e-3, rms(p))
 *
 * A vector keeps all its squares. With relative_step the rate is min(1e-2, 1 / sqrt(t)). With beta1
 * above 0, a u has a momentum. Source: Shazeer & Stern 2018 (arXiv:1804.04235), algorithm 4. */
#include "tune/optimizer.h"

#include <string.h>

static int states(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]) {
    int n = mc_optimizer_same_shape(1, shape, ndim, shapes, ndims);
    if (ndim >= 2) {
        ndims[0] = ndims[1] = ndim - 1; /* rows: all axes but the last one */
        memcpy(shapes[1], shape, (size_t)(ndim - 1) * sizeof *shape);
        shapes[1][ndim - 2] = shape[ndim - 1];
        n = 2;
    }
    if (options->beta1 == 0.0) return n;
    memcpy(shapes[n], shape, (size_t)ndim * sizeof *shape);
    ndims[n] = ndim;
    return n + 1;
}

static mica_array rms(mica_scope *s, mica_array x) {
    return mica_sqrt(s, mica_mean(s, mica_square(s, x), NULL, 0, false));
}

/* b old + (1 - b) new */
static mica_array average(mica_scope *s, mica_array b, mica_array old, mica_array now) {
    mica_array rest = mica_subtract(s, mica_f32(s, 1.0f), b);
    return mica_add(s, mica_multiply(s, b, old), mica_multiply(s, rest, now));
}

static mica_array scaled(mc_update *u, mica_array b, int ndim) {
    mica_scope *s = u->s;
    mica_array q = mica_add(s, mica_square(s, u->grad), mica_f32(s, 1e-30f));
    if (ndim < 2) {
        u->states[0] = average(s, b, u->states[0], q);
        return mica_multiply(s, mica_rsqrt(s, u->states[0]), u->grad);
    }
    mica_array row = average(s, b, u->states[0], mica_mean(s, q, (int[]){-1}, 1, false));
    mica_array col = average(s, b, u->states[1], mica_mean(s, q, (int[]){-2}, 1, false));
    u->states[0] = row;
    u->states[1] = col;
    mica_array mean = mica_mean(s, row, (int[]){-1}, 1, true);
    row = mica_expand_dims(s, mica_rsqrt(s, mica_divide(s, row, mean)), -1);
    col = mica_expand_dims(s, mica_rsqrt(s, col), -2);
    return mica_multiply(s, mica_multiply(s, row, col), u->grad);
}

static void update(mc_update *u) {
    mica_scope *s = u->s;
    const mica_optimizer_options *o = u->options;
    int ndim = mica_array_ndim(u->param);
    mica_array one = mica_f32(s, 1.0f), rate = u->rate;
    mica_array b = mica_subtract(s, one, mica_power(s, u->step, mica_f32(s, -0.8f)));
    if (o->relative_step) rate = mica_minimum(s, mica_f32(s, 1e-2f), mica_rsqrt(s, u->step));
    rate = mica_multiply(s, rate, mica_maximum(s, mica_f32(s, 1e-3f), rms(s, u->param)));
    mica_array move = scaled(u, b, ndim);
    move = mica_divide(s, move, mica_maximum(s, one, rms(s, move)));
    move = mica_multiply(s, move, rate);
    if (o->beta1 > 0.0) {
        int at = ndim < 2 ? 1 : 2;
        move = mc_blend(s, o->beta1, u->states[at], 1.0 - o->beta1, move);
        u->states[at] = move;
    }
    mc_update decayed = *u;
    decayed.rate = rate;
    u->param = mica_subtract(s, mc_decay(&decayed), move);
}

const mc_optimizer mc_optimizer_adafactor = {
    .name = "adafactor",
    .summary = "second moments of rows and columns: little memory",
    .states = states,
    .update = update,
};
