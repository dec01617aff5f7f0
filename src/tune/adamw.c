/* Adam and AdamW.
 *
 *     m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
 *     p = p (1 - rate decay) - rate m' / (sqrt(v') + eps)
 *
 * m' and v' are m and v; with bias_correction m / (1 - b1^t) and v / (1 - b2^t). Adam has no decay.
 * Source: Kingma & Ba 2015 (arXiv:1412.6980), Loshchilov & Hutter 2019 (arXiv:1711.05101). */
#include "tune/optimizer.h"

static int states(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]) {
    (void)options;
    return mc_optimizer_same_shape(2, shape, ndim, shapes, ndims);
}

/* 1 - beta^step */
static mica_array correction(const mc_update *u, double beta) {
    mica_array power = mica_power(u->s, mica_f32(u->s, (float)beta), u->step);
    return mica_subtract(u->s, mica_f32(u->s, 1.0f), power);
}

static void update(mc_update *u) {
    mica_scope *s = u->s;
    const mica_optimizer_options *o = u->options;
    mica_array m = mc_blend(s, o->beta1, u->states[0], 1.0 - o->beta1, u->grad);
    mica_array v = mc_blend(s, o->beta2, u->states[1], 1.0 - o->beta2, mica_square(s, u->grad));
    mica_array rate = u->rate, root = mica_sqrt(s, v);
    if (o->bias_correction) {
        rate = mica_divide(s, rate, correction(u, o->beta1));
        root = mica_multiply(s, root, mica_rsqrt(s, correction(u, o->beta2)));
    }
    mica_array bottom = mica_add(s, root, mica_f32(s, (float)o->eps));
    mica_array move = mica_divide(s, mica_multiply(s, m, rate), bottom);
    u->param = mica_subtract(s, mc_decay(u), move);
    u->states[0] = m;
    u->states[1] = v;
}

const mc_optimizer mc_optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .defaults = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
    .states = states,
    .update = update,
};

const mc_optimizer mc_optimizer_adam = {
    .name = "adam",
    .summary = "Adam, without weight decay",
    .defaults = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    .states = states,
    .update = update,
};
