/* Goldens of layers by their weights: ops/module.json, which tools/make_module_goldens.py makes. */
#include <math.h>
#include <string.h>

#include "op/golden.h"

static mica_linear_weights weights_of(const golden *g) {
    return (mica_linear_weights){.weight = golden_in(g, "weight"),
                                 .scales = golden_in(g, "scales"),
                                 .biases = golden_in(g, "biases"),
                                 .bias = golden_in(g, "bias"),
                                 .quant = golden_quant_of(g)};
}

static bool run_linear(golden *g) {
    const mica_linear_weights w = weights_of(g);
    mica_array x = golden_in(g, "x");
    g->out[0] = mica_linear(g->s, x, &w);
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)mica_array_dim(x, -1));
    return true;
}

static bool run_embedding(golden *g) {
    const mica_linear_weights w = weights_of(g);
    g->out[0] = mica_embedding(g->s, golden_in(g, "ids"), &w);
    g->by_row = true; /* scale * code may almost cancel the bias */
    return true;
}

static bool run_rms_norm(golden *g) {
    g->out[0] = mica_rms_norm(g->s, golden_in(g, "x"), golden_in(g, "weight"),
                              (float)golden_float(g, "eps", 0));
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {ROW(linear), ROW(embedding), ROW(rms_norm)};

const golden_group golden_module = {"module", rows, sizeof rows / sizeof *rows, NULL};
