/* Goldens of the gradients of fused ops: ops/gradients.json, which tools/make_gradient_goldens.py
 * makes. Outputs are the result and the gradients of sum(result * dy) by the float inputs. */
#include "op/golden.h"

static bool run_sdpa(golden *g) {
    const mica_sdpa_options o = {.scale = (float)golden_float(g, "scale", 0),
                                 .causal = golden_bool(g, "causal", false),
                                 .window = golden_int(g, "window", 0),
                                 .keep = golden_int(g, "keep", 0),
                                 .softcap = (float)golden_float(g, "softcap", 0),
                                 .mask = golden_in(g, "mask"),
                                 .sinks = golden_in(g, "sinks")};
    mica_array q = golden_in(g, "q"), k = golden_in(g, "k"), v = golden_in(g, "v");
    return golden_differentiate(g, mica_sdpa(g->s, q, k, v, &o), 2e-5);
}

static bool run_quantized_matmul(golden *g) {
    const mica_quant quant = {MICA_QUANT_AFFINE, (int)golden_int(g, "bits", 0),
                              (int)golden_int(g, "group_size", 0)};
    mica_array y = mica_quantized_matmul(g->s, golden_in(g, "x"), golden_in(g, "codes"),
                                         golden_in(g, "scales"), golden_in(g, "biases"), quant,
                                         golden_bool(g, "transpose", true));
    return golden_differentiate(g, y, 2e-5);
}

static bool run_cross_entropy(golden *g) {
    mica_array y = mica_cross_entropy(g->s, golden_in(g, "logits"), golden_in(g, "targets"));
    return golden_differentiate(g, y, 1e-5);
}

static bool run_rms_norm(golden *g) {
    return golden_differentiate(g, mica_rms_norm(g->s, golden_in(g, "x"), golden_in(g, "w"), 1e-5f),
                                1e-5);
}

static bool run_layer_norm(golden *g) {
    mica_array x = golden_in(g, "x"), w = golden_in(g, "w"), b = golden_in(g, "b");
    return golden_differentiate(g, mica_layer_norm(g->s, x, w, b, 1e-5f), 1e-5);
}

static bool run_rope(golden *g) {
    mica_array freqs = golden_in(g, "freqs");
    mica_rope_options o = {.dims = 2 * (int)mica_array_dim(freqs, 0)};
    mica_array y = mica_rope(g->s, golden_in(g, "x"), golden_in(g, "offset"), freqs, &o);
    return golden_differentiate(g, y, 1e-5);
}

static mica_status mlp(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                       mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    const golden *g = user;
    mica_array h = mica_silu(s, mica_matmul(s, golden_in(g, "x"), args[0]));
    mica_array y =
        mica_matmul(s, mica_rms_norm(s, h, MICA_NONE, 1e-5f), mica_transpose(s, args[0], NULL));
    y = mica_mean(s, mica_square(s, mica_softmax(s, y, -1)), NULL, 0, false);
    return mica_grad(s, y, MICA_NONE, args, 1, results);
}

/* The gradient, and its derivative in a direction. */
static bool run_mlp(golden *g) {
    mica_array w = golden_in(g, "w"), u = golden_in(g, "u");
    if (mica_jvp(g->s, mlp, g, &w, 1, &u, &g->out[0], 1, &g->out[1]) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    g->by_row = true;
    g->relative = 5e-5;
    return true;
}

static const golden_row rows[] = {
    {.op = "sdpa", .run = run_sdpa},
    {.op = "quantized_matmul", .run = run_quantized_matmul},
    {.op = "cross_entropy", .run = run_cross_entropy},
    {.op = "rms_norm", .run = run_rms_norm},
    {.op = "layer_norm", .run = run_layer_norm},
    {.op = "rope", .run = run_rope},
    {.op = "mlp", .run = run_mlp},
};

const golden_group golden_gradients = {"gradients", rows, sizeof rows / sizeof *rows, NULL};
