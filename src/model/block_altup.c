/* AltUp: several residual streams, of which a layer's other blocks see one.
 *
 * A layer begins with a prediction of all streams, P_i = s_i + sum_j c_ij s_j. The other blocks
 * make h of the active one. Then each stream gets what is new:
 *
 *     s_i = P_i + (h - P_active) (1 + d_i)
 *
 * The coefficients c and d are matmuls of tanh(router(norm(x) / hidden)), where x is the active
 * stream: before the blocks for c, behind them for d. At last the layer's input is let in by the
 * active stream, and added to all but the first.
 *
 * Source: Baykal et al. 2023 (arXiv:2301.13310); the behaviour of transformers 5, of Gemma 3n. */
#include "model/pass.h"

static int64_t streams(const mc_block_spec *b) {
    return b->altup.streams;
}

static int64_t pairs(const mc_block_spec *b) {
    return b->altup.streams * b->altup.streams;
}

static int64_t width(const mc_block_spec *b) {
    return b->altup.input.width;
}

static int64_t kept(const mc_block_spec *b) {
    return (4 * b->altup.streams + 6) * b->hidden + 3 * width(b) + 2 * pairs(b);
}

static const mc_slot slots[MC_ALTUP_SLOTS] = {
    [MC_BLOCK_NORM] = MC_NORM("altup.router_norm", mc_block_hidden, .gguf = "altup_router_norm"),
    [MC_BLOCK_POST_NORM] =
        MC_NORM("post_per_layer_input_norm", mc_block_hidden, .gguf = "post_norm"),
    [MC_ALTUP_ROUTER] = MC_MATRIX("altup.modality_router", streams, mc_block_hidden, .exact = true,
                                  .gguf = "altup_router"),
    [MC_ALTUP_PREDICTION] = MC_MATRIX("altup.prediction_coefs", pairs, streams, .exact = true,
                                      .gguf = "altup_predict_coef"),
    [MC_ALTUP_CORRECTION] = MC_MATRIX("altup.correction_coefs", streams, streams, .exact = true,
                                      .gguf = "altup_correct_coef"),
    [MC_ALTUP_SCALE] = MC_VECTOR("altup.correct_output_scale", mc_block_hidden, .bare = true,
                                 .gguf = "altup_correct_scale.weight"),
    [MC_ALTUP_GATE] = MC_MATRIX("per_layer_input_gate", width, mc_block_hidden, .gguf = "inp_gate"),
    [MC_ALTUP_PROJECTION] =
        MC_MATRIX("per_layer_projection", mc_block_hidden, width, .gguf = "proj"),
};

/* Streams [from, to) of x [B, L, streams, hidden]. */
static mica_array part(const mc_lm_pass *p, mica_array x, int64_t from, int64_t to) {
    return mica_slice_axis(p->s, x, 2, from, to);
}

/* [B, L, hidden] */
static mica_array active(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    int64_t a = at->spec->altup.active;
    return mica_squeeze(p->s, part(p, x, a, a + 1), 2);
}

/* The coefficients that a matrix of them gives for x [B, L, hidden]: [B, L, rows, columns]. */
static mica_array coefficients(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x,
                               int64_t columns) {
    const int64_t split[] = {streams(at->spec), columns};
    x = mc_block_normalise(p, at, MC_BLOCK_NORM, x);
    x = mica_multiply(p->s, x, mica_f32(p->s, 1.0f / (float)at->spec->hidden));
    x = mica_tanh(p->s, mc_block_apply(p, at, MC_ALTUP_ROUTER, x));
    return mica_unflatten(p->s, mc_block_apply(p, at, slot, x), -1, split, 2);
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array c = coefficients(p, at, MC_ALTUP_PREDICTION, active(p, at, x), streams(at->spec));
    p->notes->streams = mica_add(p->s, x, mica_matmul(p->s, c, x));
    return active(p, at, p->notes->streams);
}

/* What the layer's input gives to the streams: [B, L, 1, hidden]. */
static mica_array input(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    x = active(p, at, x);
    if (mc_block_has(at, MC_ALTUP_SCALE))
        x = mica_multiply(p->s, x, at->slots[MC_ALTUP_SCALE].vector);
    x = mc_block_let_in(p, at, MC_ALTUP_GATE, MC_ALTUP_PROJECTION, &at->spec->altup.input, x);
    return mica_expand_dims(p->s, mc_block_normalise(p, at, MC_BLOCK_POST_NORM, x), 2);
}

static mica_array finish(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array predicted = mc_block_last_rows(p, p->notes->streams, x);
    mica_array d = coefficients(p, at, MC_ALTUP_CORRECTION, x, 1);
    mica_array new = mica_subtract(p->s, x, active(p, at, predicted));
    d = mica_add(p->s, d, mica_f32(p->s, 1.0f));
    x = mica_add(p->s, predicted, mica_multiply(p->s, mica_expand_dims(p->s, new, 2), d));
    int64_t n = streams(at->spec);
    mica_array first = part(p, x, 0, 1);
    if (n == 1) return first;
    mica_array all[] = {first, mica_add(p->s, part(p, x, 1, n), input(p, at, x))};
    return mica_concatenate(p->s, all, 2, 2);
}

const mc_block mc_block_altup = {
    .name = "altup",
    .slots = slots,
    .n_slots = MC_ALTUP_SLOTS,
    .replaces = true,
    .forward = forward,
    .finish = finish,
    .kept = kept,
};
