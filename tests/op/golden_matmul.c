/* Goldens of op/matmul.c, op/contract.c and op/einsum.c. */
#include <math.h>
#include <string.h>

#include "op/golden.h"

/* The tolerance of f32 for sums of K products: 1e-5 sqrt(K) of the row's largest value. */
static void allow_terms(golden *g, int64_t k) {
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)k);
}

static bool run_matmul(golden *g) {
    mica_array a = golden_in(g, "a"), b = golden_in(g, "b");
    if (strstr(g->note, "transposed") != NULL) b = mica_swapaxes(g->s, b, -1, -2);
    g->out[0] = mica_matmul(g->s, a, b);
    allow_terms(g, mica_array_dim(a, -1));
    return true;
}

static bool run_addmm(golden *g) {
    mica_array a = golden_in(g, "a");
    g->out[0] = mica_addmm(g->s, golden_in(g, "c"), a, golden_in(g, "b"),
                           (float)golden_float(g, "alpha", 1), (float)golden_float(g, "beta", 1));
    allow_terms(g, mica_array_dim(a, -1));
    return true;
}

static bool run_gather_mm(golden *g) {
    mica_array a = golden_in(g, "a");
    g->out[0] =
        mica_gather_mm(g->s, a, golden_in(g, "b"), golden_in(g, "lhs"), golden_in(g, "rhs"));
    allow_terms(g, mica_array_dim(a, -1));
    return true;
}

static bool run_outer(golden *g) {
    g->out[0] = mica_outer(g->s, golden_in(g, "a"), golden_in(g, "b"));
    return true;
}

static bool run_inner(golden *g) {
    g->out[0] = mica_inner(g->s, golden_in(g, "a"), golden_in(g, "b"));
    allow_terms(g, mica_array_dim(golden_in(g, "a"), -1));
    return true;
}

static bool run_tensordot(golden *g) {
    int64_t n = golden_int(g, "axes", 0);
    mica_array b = golden_in(g, "b");
    g->out[0] = mica_tensordot(g->s, golden_in(g, "a"), b, (int)n);
    int64_t k = 1;
    for (int i = 0; i < n; i++)
        k *= mica_array_dim(b, i);
    allow_terms(g, k);
    return true;
}

static bool run_kron(golden *g) {
    g->out[0] = mica_kron(g->s, golden_in(g, "a"), golden_in(g, "b"));
    return true;
}

static bool run_einsum(golden *g) {
    char text[64];
    if (!golden_text(g, "eq", text)) return false;
    g->out[0] = mica_einsum(g->s, text, g->in, g->n_in);
    allow_terms(g, 64);
    return true;
}

static const golden_row rows[] = {
    {.op = "matmul", .run = run_matmul},       {.op = "addmm", .run = run_addmm},
    {.op = "outer", .run = run_outer},         {.op = "inner", .run = run_inner},
    {.op = "tensordot", .run = run_tensordot}, {.op = "kron", .run = run_kron},
    {.op = "einsum", .run = run_einsum},       {.op = "gather_mm", .run = run_gather_mm},
};
const golden_group golden_matmul = {"matmul", rows, sizeof rows / sizeof *rows, NULL};
