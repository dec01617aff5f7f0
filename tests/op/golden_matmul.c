/* Goldens of op/matmul.c, and of products that MLX names and mica composes. */
#include <math.h>
#include <string.h>

#include "op/golden.h"

/* f32 products of K terms: 1e-5 sqrt(K) of the row's largest value. */
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

/* [A, B] and [C, D] as [A, 1, B, 1] * [1, C, 1, D] = [A C, B D] */
static bool run_kron(golden *g) {
    mica_array a = golden_in(g, "a"), b = golden_in(g, "b");
    if (mica_array_ndim(a) != 2 || mica_array_ndim(b) != 2) return false;
    int64_t shape_a[4] = {mica_array_dim(a, 0), 1, mica_array_dim(a, 1), 1};
    int64_t shape_b[4] = {1, mica_array_dim(b, 0), 1, mica_array_dim(b, 1)};
    int64_t shape[2] = {shape_a[0] * shape_b[1], shape_a[2] * shape_b[3]};
    mica_array y =
        mica_multiply(g->s, mica_reshape(g->s, a, shape_a, 4), mica_reshape(g->s, b, shape_b, 4));
    g->out[0] = mica_reshape(g->s, y, shape, 2);
    return true;
}

static bool run_einsum(golden *g) {
    char eq[64];
    if (!golden_text(g, "eq", eq)) return false;
    mica_scope *s = g->s;
    const mica_array *in = g->in;
    const int first = 0;
    if (strcmp(eq, "ij,jk->ik") == 0)
        g->out[0] = mica_matmul(s, in[0], in[1]);
    else if (strcmp(eq, "bhqd,bhkd->bhqk") == 0)
        g->out[0] = mica_matmul(s, in[0], mica_swapaxes(s, in[1], -1, -2));
    else if (strcmp(eq, "ii->i") == 0)
        g->out[0] = mica_diag(s, in[0], 0);
    else if (strcmp(eq, "ij->") == 0)
        g->out[0] = mica_sum(s, in[0], NULL, 0, false);
    else if (strcmp(eq, "i,j->ij") == 0)
        g->out[0] = mica_outer(s, in[0], in[1]);
    else if (strcmp(eq, "ijk,kl,lm->ijm") == 0)
        g->out[0] = mica_matmul(s, mica_matmul(s, in[0], in[1]), in[2]);
    else if (strcmp(eq, "ij,ij->j") == 0)
        g->out[0] = mica_sum(s, mica_multiply(s, in[0], in[1]), &first, 1, false);
    else
        return false;
    allow_terms(g, mica_array_dim(in[0], -1));
    return true;
}

static bool run_gather_mm(golden *g) {
    mica_array b = mica_take(g->s, golden_in(g, "b"), golden_in(g, "rhs"), 0);
    g->out[0] = mica_matmul(g->s, golden_in(g, "a"), b);
    allow_terms(g, mica_array_dim(b, -2));
    return true;
}

static const golden_row rows[] = {
    {.op = "matmul", .run = run_matmul},       {.op = "addmm", .run = run_addmm},
    {.op = "outer", .run = run_outer},         {.op = "inner", .run = run_inner},
    {.op = "tensordot", .run = run_tensordot}, {.op = "kron", .run = run_kron},
    {.op = "einsum", .run = run_einsum},       {.op = "gather_mm", .run = run_gather_mm},
};
const golden_group golden_matmul = {"matmul", rows, sizeof rows / sizeof *rows, NULL};
