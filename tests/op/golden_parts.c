/* Goldens of ops of several results: ops/parts.json, which tools/make_parts_goldens.py makes. */
#include "op/golden.h"

static bool run_topk_indices(golden *g) {
    int64_t k = golden_int(g, "k", 1);
    int axis = (int)golden_int(g, "axis", -1);
    g->out[0] = mica_topk_indices(g->s, golden_in(g, "a"), k, axis, &g->out[1]);
    return true;
}

static bool run_sdpa_lse(golden *g) {
    mica_array q = golden_in(g, "q"), k = golden_in(g, "k"), v = golden_in(g, "v");
    mica_sdpa_options o = {.scale = (float)golden_float(g, "scale", 0),
                           .causal = golden_bool(g, "causal", false),
                           .window = golden_int(g, "window", 0)};
    if (g->n_in > 3) o.mask = golden_in(g, "mask");
    g->out[0] = mica_sdpa_lse(g->s, q, k, v, &o, &g->out[1]);
    return true;
}

static const golden_row rows[] = {
    {.op = "topk_indices", .run = run_topk_indices},
    {.op = "sdpa_lse", .run = run_sdpa_lse},
};

const golden_group golden_parts = {"parts", rows, sizeof rows / sizeof *rows, NULL};
