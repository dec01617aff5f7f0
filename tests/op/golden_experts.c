/* Goldens of mixtures of experts: ops/experts.json, which tools/make_expert_goldens.py makes. */
#include <math.h>
#include <stdio.h>

#include "op/golden.h"
#include "op/quant.h"

static bool run_gather_qmm(golden *g) {
    mica_array x = golden_in(g, "x");
    g->out[0] = mica_gather_qmm(g->s, x, golden_in(g, "wq"), golden_in(g, "scales"),
                                golden_in(g, "biases"), golden_quant_of(g),
                                golden_bool(g, "transpose", true), MICA_NONE, golden_in(g, "rhs"));
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)mica_array_dim(x, -1));
    return true;
}

/* x [T, K or 1, 1, D] times the experts' matrices of a name that picks [T, K] name. */
static mica_array multiply(golden *g, const char *name, mica_array x, mica_array picks) {
    static const char *const parts[] = {"wq", "scales", "biases"};
    mica_array w[3];
    for (int i = 0; i < 3; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%s_%s", name, parts[i]);
        w[i] = golden_in(g, text);
    }
    return mc_gather_qmm(g->s, x, w[0], w[1], w[2], golden_quant_of(g), MICA_NONE, picks,
                         golden_bool(g, "fast", false));
}

static bool run_block(golden *g) {
    mica_scope *s = g->s;
    const int last = -1;
    mica_array x = golden_in(g, "x");
    mica_array scores = mica_matmul(s, x, mica_transpose(s, golden_in(g, "router"), NULL));
    scores = mica_softmax(s, scores, -1);
    mica_array picks;
    scores = mica_topk_indices(s, scores, golden_int(g, "k", 1), -1, &picks);
    scores = mica_divide(s, scores, mica_sum(s, scores, &last, 1, true));

    x = mica_expand_dims(s, mica_expand_dims(s, x, 1), 1);
    mica_array gate = multiply(g, "gate", x, picks), up = multiply(g, "up", x, picks);
    mica_array y = multiply(g, "down", mica_multiply(s, mica_silu(s, gate), up), picks);
    y = mica_matmul(s, mica_expand_dims(s, scores, 1), mica_squeeze(s, y, -2));
    g->out[0] = mica_squeeze(s, y, 1);
    g->by_row = true;
    g->relative = golden_bool(g, "fast", false) ? 0.02 : 1e-4;
    return true;
}

static const golden_row rows[] = {{.op = "gather_qmm", .run = run_gather_qmm},
                                  {.op = "block", .run = run_block}};

const golden_group golden_experts = {"experts", rows, sizeof rows / sizeof *rows, NULL};
