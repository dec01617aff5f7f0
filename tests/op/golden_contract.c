/* Goldens of op/contract.c, op/einsum.c, op/index_nd.c and op/search.c: ops/contract.json, which
 * tools/make_contract_goldens.py makes. */
#include <string.h>

#include "op/golden.h"

/* A list of axes; its length. */
static int64_t axes_of(const golden *g, const char *key, int out[MICA_MAX_NDIM]) {
    int64_t list[MICA_MAX_NDIM];
    int n = golden_ints(g, key, list, MICA_MAX_NDIM);
    for (int i = 0; i < n; i++)
        out[i] = (int)list[i];
    return n < 0 ? 0 : n;
}

static bool run_dot_general(golden *g) {
    int axes[4][MICA_MAX_NDIM];
    mica_dot_axes p = {axes[0], axes[1], axes_of(g, "a_batch", axes[0]),
                       axes[2], axes[3], axes_of(g, "a_contract", axes[2])};
    assert_int_equal(p.n_batch, axes_of(g, "b_batch", axes[1]));
    assert_int_equal(p.n_contract, axes_of(g, "b_contract", axes[3]));
    mica_array y = mica_dot_general(g->s, golden_in(g, "a"), golden_in(g, "b"), &p);
    if (golden_in(g, "dy").scope) return golden_differentiate(g, y, 1e-5);
    g->out[0] = y;
    return true;
}

static bool run_einsum(golden *g) {
    char text[64];
    if (!golden_text(g, "eq", text)) return false;
    g->out[0] = mica_einsum(g->s, text, g->in, g->n_in);
    g->by_row = true;
    g->relative = 1e-4;
    return true;
}

static bool run_kron(golden *g) {
    g->out[0] = mica_kron(g->s, golden_in(g, "a"), golden_in(g, "b"));
    return true;
}

static bool run_gather_nd(golden *g) {
    g->out[0] = mica_gather_nd(g->s, golden_in(g, "x"), golden_in(g, "indices"),
                               (int)golden_int(g, "batch", 0));
    return true;
}

static bool run_scatter_nd(golden *g) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    char text[64];
    int mode = 0;
    if (!golden_text(g, "mode", text)) return false;
    while (strcmp(names[mode], text) != 0)
        assert_true(++mode < 5);
    g->out[0] = mica_scatter_nd(g->s, golden_in(g, "x"), golden_in(g, "indices"),
                                golden_in(g, "updates"), (mica_scatter_mode)mode);
    return true;
}

static bool run_searchsorted(golden *g) {
    bool right = golden_bool(g, "right", false);
    g->out[0] = mica_searchsorted(g->s, golden_in(g, "a"), golden_in(g, "v"), right);
    return true;
}

static bool run_median(golden *g) {
    int axes[MICA_MAX_NDIM], n = (int)axes_of(g, "axis", axes);
    g->out[0] = mica_median(g->s, golden_in(g, "a"), axes, n, golden_bool(g, "keepdims", false));
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
static const golden_row rows[] = {
    ROW(dot_general), ROW(einsum),       ROW(kron),   ROW(gather_nd),
    ROW(scatter_nd),  ROW(searchsorted), ROW(median),
};

const golden_group golden_contract = {"contract", rows, sizeof rows / sizeof *rows, NULL};
