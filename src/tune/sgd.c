/* Stochastic gradient descent, with momentum.
 *
 *     g = g + decay p,  v = momentum v + g,  p = p - rate v
 *
 * With nesterov p = p - rate (g + momentum v). The decay is not decoupled: it is L2's. Source:
 * Sutskever et al. 2013, as PyTorch and MLX have it. */
#include "tune/optimizer.h"

static int states(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]) {
    int n = options->momentum > 0.0 ? 1 : 0;
    return mc_optimizer_same_shape(n, shape, ndim, shapes, ndims);
}

static void update(mc_update *u) {
    mica_scope *s = u->s;
    const mica_optimizer_options *o = u->options;
    mica_array g = u->grad;
    if (o->weight_decay > 0.0) g = mc_blend(s, 1.0, g, o->weight_decay, u->param);
    if (o->momentum > 0.0) {
        mica_array v = mc_blend(s, o->momentum, u->states[0], 1.0, g);
        u->states[0] = v;
        g = o->nesterov ? mc_blend(s, 1.0, g, o->momentum, v) : v;
    }
    u->param = mica_subtract(s, u->param, mica_multiply(s, g, u->rate));
}

const mc_optimizer mc_optimizer_sgd = {
    .name = "sgd",
    .summary = "gradient descent, with momentum where it is given",
    .states = states,
    .update = update,
};
