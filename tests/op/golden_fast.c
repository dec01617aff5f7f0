/* Goldens of op/norm.c, op/rope.c, op/attention.c and cross_entropy. */
#include <math.h>
#include <string.h>

#include "op/golden.h"

static bool run_rms_norm(golden *g) {
    float eps = (float)golden_float(g, "eps", 0);
    g->out[0] = mica_rms_norm(g->s, golden_in(g, "x"), golden_in(g, "w"), eps);
    return true;
}

static bool run_layer_norm(golden *g) {
    float eps = (float)golden_float(g, "eps", 0);
    g->out[0] = mica_layer_norm(g->s, golden_in(g, "x"), golden_in(g, "w"), golden_in(g, "b"), eps);
    return true;
}

static bool run_rope(golden *g) {
    mica_array offset = golden_in(g, "offset");
    if (!mica_valid(offset)) offset = mica_i32(g->s, (int32_t)golden_int(g, "offset", 0));
    mica_rope_options options = {
        .dims = (int)golden_int(g, "dims", 0),
        .traditional = golden_bool(g, "traditional", false),
        .base = (float)golden_float(g, "base", 0),
        .scale = (float)golden_float(g, "scale", 1),
    };
    g->out[0] = mica_rope(g->s, golden_in(g, "x"), offset, golden_in(g, "freqs"), &options);
    /* MLX's angles are f32, off by 2^-24 of the position; ours are not. */
    g->by_row = true;
    g->relative = 1e-5 + 1e-7 * (double)golden_int(g, "offset", 0);
    return true;
}

static bool run_sdpa(golden *g) {
    char mask[64] = "";
    golden_text(g, "mask", mask);
    mica_array q = golden_in(g, "q");
    mica_sdpa_options options = {
        .scale = (float)golden_float(g, "scale", 0),
        .causal = strcmp(mask, "causal") == 0,
        .mask = golden_in(g, "mask"),
        .sinks = golden_in(g, "sinks"),
    };
    g->out[0] = mica_sdpa(g->s, q, golden_in(g, "k"), golden_in(g, "v"), &options);
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)mica_array_dim(q, -1));
    return true;
}

/* Smoothing t spreads t of the weight evenly over all classes: lse - (1 - t) logit - t
 * mean(logits). */
static bool run_cross_entropy(golden *g) {
    const int last = -1;
    mica_scope *s = g->s;
    mica_array logits = golden_in(g, "logits");
    mica_array loss = mica_cross_entropy(s, logits, golden_in(g, "targets"));
    double smoothing = golden_float(g, "label_smoothing", 0);
    if (smoothing > 0) {
        mica_array even = mica_subtract(s, mica_logsumexp(s, logits, &last, 1, false),
                                        mica_mean(s, logits, &last, 1, false));
        loss = mica_add(s, mica_multiply(s, loss, mica_f32(s, (float)(1 - smoothing))),
                        mica_multiply(s, even, mica_f32(s, (float)smoothing)));
    }
    char reduction[64] = "none";
    golden_text(g, "reduction", reduction);
    if (strcmp(reduction, "mean") == 0) loss = mica_mean(s, loss, NULL, 0, false);
    g->out[0] = loss;
    return true;
}

static const golden_row rows[] = {
    {.op = "rms_norm", .run = run_rms_norm},
    {.op = "layer_norm", .run = run_layer_norm},
    {.op = "rope", .run = run_rope},
    {.op = "sdpa", .run = run_sdpa},
    {.op = "cross_entropy", .run = run_cross_entropy},
};
const golden_group golden_fast = {"fast", rows, sizeof rows / sizeof *rows, NULL};
