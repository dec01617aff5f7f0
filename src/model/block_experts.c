/* A mixture of experts: a router scores all experts for a token, the best few are picked, and what
 * these compute is added up with their weights. Beside them there may be a shared expert, which
 * every token has.
 *
 * The router, the experts and the shared one may see x through norms of their own, and those of
 * what they compute may have norms.
 *
 * The router is f32 throughout, and its matmul rounds nothing: scores that are close pick others.
 *
 * Source: Shazeer et al. 2017 (arXiv:1701.06538); Fedus et al. 2022 (arXiv:2101.03961); scores with
 * a bias for the choice alone, groups: arXiv:2408.15664, arXiv:2412.19437. */
#include "model/pass.h"

#include <math.h>

static int64_t experts(const mc_block_spec *b) {
    return b->experts.count;
}

static int64_t width(const mc_block_spec *b) {
    return b->experts.width;
}

static int64_t twice_width(const mc_block_spec *b) {
    return 2 * b->experts.width;
}

static int64_t shared_width(const mc_block_spec *b) {
    return b->experts.shared_width;
}

static int64_t twice_shared_width(const mc_block_spec *b) {
    return 2 * b->experts.shared_width;
}

static int64_t one(const mc_block_spec *b) {
    (void)b;
    return 1;
}

static int64_t kept(const mc_block_spec *b) {
    const mc_experts_spec *e = &b->experts;
    return 4 * b->hidden + 2 * e->count + 4 * (e->picks * e->width + e->shared_width) +
           e->picks * b->hidden;
}

/* Each rank has a part of every expert's width. */
static bool divide(mc_block_spec *b, int64_t ranks) {
    mc_experts_spec *e = &b->experts;
    if (e->width % ranks != 0 || e->shared_width % ranks != 0) return false;
    e->width /= ranks;
    e->shared_width /= ranks;
    return true;
}

static const mc_slot slots[MC_EXPERTS_SLOTS] = {
    MC_BLOCK_NORMS("post_attention_layernorm", "ffn_norm", "post_feedforward_layernorm",
                   "post_ffw_norm"),
    [MC_EXPERTS_ROUTER] =
        MC_MATRIX("mlp.gate", experts, mc_block_hidden, .exact = true, .gguf = "ffn_gate_inp"),
    [MC_EXPERTS_CHOICE] = MC_VECTOR("mlp.gate.e_score_correction_bias", experts, .optional = true,
                                    .bare = true, .gguf = "exp_probs_b.bias"),
    [MC_EXPERTS_FACTORS] = MC_VECTOR("router.per_expert_scale", experts, .optional = true,
                                     .bare = true, .gguf = "ffn_down_exps.scale"),
    [MC_EXPERTS_GATE] =
        MC_MATRIX("mlp.switch_mlp.gate_proj", width, mc_block_hidden, .experts = experts,
                  .split = MC_SPLIT_KEPT, .gguf = "ffn_gate_exps"),
    [MC_EXPERTS_UP] =
        MC_MATRIX("mlp.switch_mlp.up_proj", width, mc_block_hidden, .experts = experts,
                  .split = MC_SPLIT_KEPT, .gguf = "ffn_up_exps", .parameter = "up_proj"),
    [MC_EXPERTS_GATE_UP] =
        MC_MATRIX("mlp.switch_mlp.gate_up_proj", twice_width, mc_block_hidden, .optional = true,
                  .experts = experts, .split = MC_SPLIT_KEPT, .first = MC_EXPERTS_GATE,
                  .last = MC_EXPERTS_UP, .gguf = "ffn_gate_up_exps", .parameter = "gate_up_proj"),
    [MC_EXPERTS_DOWN] = MC_MATRIX("mlp.switch_mlp.down_proj", mc_block_hidden, width,
                                  .experts = experts, .sensitive = true, .split = MC_SPLIT_JOINED,
                                  .gguf = "ffn_down_exps", .parameter = "down_proj"),
    [MC_EXPERTS_SHARED_GATE] =
        MC_MATRIX("mlp.shared_expert.gate_proj", shared_width, mc_block_hidden, .optional = true,
                  .split = MC_SPLIT_KEPT, .gguf = "ffn_gate_shexp"),
    [MC_EXPERTS_SHARED_UP] =
        MC_MATRIX("mlp.shared_expert.up_proj", shared_width, mc_block_hidden, .optional = true,
                  .split = MC_SPLIT_KEPT, .gguf = "ffn_up_shexp"),
    [MC_EXPERTS_SHARED_DOWN] =
        MC_MATRIX("mlp.shared_expert.down_proj", mc_block_hidden, shared_width, .optional = true,
                  .sensitive = true, .split = MC_SPLIT_JOINED, .gguf = "ffn_down_shexp"),
    [MC_EXPERTS_SHARED_GATE_UP] = MC_MATRIX(
        "mlp.shared_expert.gate_up_proj", twice_shared_width, mc_block_hidden, .optional = true,
        .split = MC_SPLIT_KEPT, .first = MC_EXPERTS_SHARED_GATE, .last = MC_EXPERTS_SHARED_UP),
    [MC_EXPERTS_SHARED_SWITCH] =
        MC_MATRIX("mlp.shared_expert_gate", one, mc_block_hidden, .optional = true, .exact = true,
                  .gguf = "ffn_gate_inp_shexp"),
    [MC_EXPERTS_ROUTER_NORM] = MC_NORM("router.scale", mc_block_hidden, .optional = true,
                                       .bare = true, .gguf = "ffn_gate_inp.scale"),
    [MC_EXPERTS_INPUT_NORM] = MC_NORM("pre_feedforward_layernorm_2", mc_block_hidden,
                                      .optional = true, .gguf = "pre_ffw_norm_2"),
    [MC_EXPERTS_OUTPUT_NORM] = MC_NORM("post_feedforward_layernorm_2", mc_block_hidden,
                                       .optional = true, .gguf = "post_ffw_norm_2"),
    [MC_EXPERTS_SHARED_INPUT_NORM] =
        MC_NORM("pre_feedforward_layernorm", mc_block_hidden, .optional = true, .gguf = "ffn_norm"),
    [MC_EXPERTS_SHARED_OUTPUT_NORM] = MC_NORM("post_feedforward_layernorm_1", mc_block_hidden,
                                              .optional = true, .gguf = "post_ffw_norm_1"),
};

/* ---- the router ---- */

static mica_array sum_last(mica_scope *s, mica_array x) {
    return mica_sum(s, x, (int[]){-1}, 1, true);
}

/* x [T, E] -> [T, E], -inf where an expert's group is none of the best: a group is as good as the
 * sum of its two best experts. */
static mica_array keep_groups(mica_scope *s, const mc_experts_spec *e, mica_array x) {
    int64_t rows = mica_array_dim(x, 0), each = e->count / e->groups;
    const int64_t all[] = {rows, e->count}, split[] = {rows, e->groups, each};
    mica_array apart = mica_reshape(s, x, split, 3), at;
    mica_array best = mica_topk(s, apart, each < 2 ? each : 2, -1);
    best = mica_sum(s, best, (int[]){-1}, 1, false); /* [T, groups] */
    mica_topk_indices(s, best, e->top_groups, -1, &at);
    mica_array numbers = mica_arange(s, 0.0, (double)e->groups, 1.0, MICA_I32);
    numbers = mica_reshape(s, numbers, (int64_t[]){1, e->groups, 1}, 3);
    at = mica_astype(s, mica_expand_dims(s, at, 1), MICA_I32); /* [T, 1, top_groups] */
    mica_array kept_groups = mica_any(s, mica_equal(s, numbers, at), (int[]){-1}, 1, true);
    apart = mica_where(s, kept_groups, apart, mica_f32(s, -INFINITY));
    return mica_reshape(s, apart, all, 2);
}

/* The weights [T, k] of the experts that logits [T, E] pick. */
static mica_array pick_by_softmax(mica_scope *s, const mc_experts_spec *e, mica_array logits,
                                  mica_array *picks) {
    if (e->scoring == MC_SCORE_SOFTMAX) logits = mica_softmax(s, logits, -1);
    mica_array best = mica_topk_indices(s, logits, e->picks, -1, picks);
    return e->scoring == MC_SCORE_PICKED_SOFTMAX ? mica_softmax(s, best, -1) : best;
}

static mica_array pick_by_sigmoid(const mc_lm_pass *p, const mc_block_at *at, mica_array logits,
                                  mica_array *picks) {
    const mc_experts_spec *e = &at->spec->experts;
    mica_scope *s = p->s;
    mica_array scores = mica_sigmoid(s, logits), choice = scores;
    if (mc_block_has(at, MC_EXPERTS_CHOICE))
        choice = mica_add(s, choice, at->slots[MC_EXPERTS_CHOICE].vector);
    if (e->groups > 1) choice = keep_groups(s, e, choice);
    mica_topk_indices(s, choice, e->picks, -1, picks);
    return mica_take_along_axis(s, scores, *picks, -1);
}

/* What the router sees of x. */
static mica_array see(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    if (!mc_block_has(at, MC_EXPERTS_ROUTER_NORM)) return x;
    x = mc_block_normalise(p, at, MC_EXPERTS_ROUTER_NORM, x);
    return mica_multiply(p->s, x, mica_f32(p->s, (float)(1 / sqrt((double)at->spec->hidden))));
}

/* x [T, 1, hidden] -> the weights [T, k] of the experts *picks [T, k]. */
static mica_array route(const mc_lm_pass *p, const mc_block_at *at, mica_array x,
                        mica_array *picks) {
    const mc_experts_spec *e = &at->spec->experts;
    mica_scope *s = p->s;
    mica_array logits = mica_squeeze(s, mc_block_apply(p, at, MC_EXPERTS_ROUTER, see(p, at, x)), 1);
    mica_array weights = e->scoring == MC_SCORE_SIGMOID ? pick_by_sigmoid(p, at, logits, picks)
                                                        : pick_by_softmax(s, e, logits, picks);
    if (e->renormalised) {
        mica_array sum = sum_last(s, weights);
        if (e->least_sum != 0) sum = mica_add(s, sum, mica_f32(s, (float)e->least_sum));
        weights = mica_divide(s, weights, sum);
    }
    if (e->factor != 1) weights = mica_multiply(s, weights, mica_f32(s, (float)e->factor));
    if (mc_block_has(at, MC_EXPERTS_FACTORS))
        weights = mica_multiply(s, weights,
                                mica_take(s, at->slots[MC_EXPERTS_FACTORS].vector, *picks, 0));
    return weights;
}

/* ---- experts ---- */

/* Half of the last axis of x [T, k, 2 I]: the first, or the even elements; or the others. */
static mica_array half_of(const mc_lm_pass *p, const mc_block_at *at, mica_array x, int which) {
    int64_t n = width(at->spec);
    if (!at->spec->experts.interleaved) return mc_block_part(p, x, which * n, (which + 1) * n);
    x = mica_unflatten(p->s, x, -1, (int64_t[]){n, 2}, 2);
    return mica_squeeze(p->s, mica_slice_axis(p->s, x, -1, which, which + 1), -1);
}

/* (up + 1) gate sigmoid(1.702 gate), of numbers within the limit. */
static mica_array clamped_swiglu(mica_scope *s, double limit, mica_array gate, mica_array up) {
    mica_array max = mica_f32(s, (float)limit), min = mica_f32(s, (float)-limit);
    gate = mica_minimum(s, gate, max);
    up = mica_clip(s, up, min, max);
    mica_array y = mica_sigmoid(s, mica_multiply(s, gate, mica_f32(s, 1.702f)));
    return mica_multiply(s, mica_multiply(s, mica_add(s, up, mica_f32(s, 1.0f)), gate), y);
}

/* gate is MICA_NONE if experts have none. */
static mica_array activate(const mc_lm_pass *p, const mc_block_at *at, mica_array gate,
                           mica_array up) {
    const mc_experts_spec *e = &at->spec->experts;
    if (!mica_valid(gate)) return mc_block_activate(p, e->activation, up);
    if (e->limit != 0) return clamped_swiglu(p->s, e->limit, gate, up);
    return mica_multiply(p->s, mc_block_activate(p, e->activation, gate), up);
}

/* x [T, 1, hidden] -> [T, k, hidden] */
static mica_array apply_picked(const mc_lm_pass *p, const mc_block_at *at, mica_array x,
                               mica_array picks) {
    mica_array gate = MICA_NONE, up;
    x = mc_block_normalise(p, at, MC_EXPERTS_INPUT_NORM, x);
    if (mc_block_has(at, MC_EXPERTS_GATE_UP)) {
        mica_array both = mc_block_pick(p, at, MC_EXPERTS_GATE_UP, x, picks);
        gate = half_of(p, at, both, 0);
        up = half_of(p, at, both, 1);
    } else {
        if (mc_block_has(at, MC_EXPERTS_GATE))
            gate = mc_block_pick(p, at, MC_EXPERTS_GATE, x, picks);
        up = mc_block_pick(p, at, MC_EXPERTS_UP, x, picks);
    }
    return mc_block_pick(p, at, MC_EXPERTS_DOWN, activate(p, at, gate, up), picks);
}

/* x [T, 1, hidden] -> [T, 1, hidden] */
static mica_array apply_shared(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_array gate = MICA_NONE, up;
    x = mc_block_normalise(p, at, MC_EXPERTS_SHARED_INPUT_NORM, x);
    if (mc_block_has(at, MC_EXPERTS_SHARED_GATE_UP)) {
        int64_t n = shared_width(at->spec);
        mica_array both = mc_block_apply(p, at, MC_EXPERTS_SHARED_GATE_UP, x);
        gate = mc_block_part(p, both, 0, n);
        up = mc_block_part(p, both, n, 2 * n);
    } else {
        up = mc_block_apply(p, at, MC_EXPERTS_SHARED_UP, x);
        if (mc_block_has(at, MC_EXPERTS_SHARED_GATE))
            gate = mc_block_apply(p, at, MC_EXPERTS_SHARED_GATE, x);
    }
    mica_array y = mc_block_apply(p, at, MC_EXPERTS_SHARED_DOWN, activate(p, at, gate, up));
    y = mc_block_normalise(p, at, MC_EXPERTS_SHARED_OUTPUT_NORM, y);
    if (!mc_block_has(at, MC_EXPERTS_SHARED_SWITCH)) return y;
    mica_array open = mc_block_apply(p, at, MC_EXPERTS_SHARED_SWITCH, x);
    return mica_multiply(p->s, y, mica_sigmoid(p->s, open));
}

static mica_array forward(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    mica_scope *s = p->s;
    int64_t hidden = at->spec->hidden, length = mica_array_dim(x, 1);
    mica_array picks, flat = mica_reshape(s, x, (int64_t[]){p->batch * length, 1, hidden}, 3);
    mica_array weights = mica_expand_dims(s, route(p, at, flat, &picks), 1); /* [T, 1, k] */
    mica_array y = mica_matmul(s, weights, apply_picked(p, at, flat, picks));
    y = mc_block_normalise(p, at, MC_EXPERTS_OUTPUT_NORM, y);
    if (mc_block_has(at, MC_EXPERTS_SHARED_DOWN)) y = mica_add(s, y, apply_shared(p, at, flat));
    return mica_reshape(s, y, (int64_t[]){p->batch, length, hidden}, 3);
}

const mc_block mc_block_experts = {
    .name = "experts",
    .slots = slots,
    .n_slots = MC_EXPERTS_SLOTS,
    .forward = forward,
    .divide = divide,
    .kept = kept,
};
