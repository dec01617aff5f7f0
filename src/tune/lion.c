/* Lion.
 *
 *     c = b1 m + (1 - b1) g,  m = b2 m + (1 - b2) g,  p = p (1 - rate decay) - rate sign(c)
 *
 * Source: Chen et al. 2023 (arXiv:2302.06675), algorithm 2. */
#include "tune/optimizer.h"

static int states(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]) {
    (void)options;
    return mc_optimizer_same_shape(1, shape, ndim, shapes, ndims);
}

static void update(mc_update *u) {
    mica_scope *s = u->s;
    const mica_optimizer_options *o = u->options;
    mica_array c = mc_blend(s, o->beta1, u->states[0], 1.0 - o->beta1, u->grad);
    mica_array move = mica_multiply(s, mica_sign(s, c), u->rate);
    u->param = mica_subtract(s, mc_decay(u), move);
    u->states[0] = mc_blend(s, o->beta2, u->states[0], 1.0 - o->beta2, u->grad);
}

const mc_optimizer mc_optimizer_lion = {
    .name = "lion",
    .summary = "signs of a blend of gradient and momentum",
    .defaults = {.beta1 = 0.9, .beta2 = 0.99},
    .states = states,
    .update = update,
};
