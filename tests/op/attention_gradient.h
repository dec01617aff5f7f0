/* What tests of attention's gradient share. */
#ifndef TESTS_OP_ATTENTION_GRADIENT_H
#define TESTS_OP_ATTENTION_GRADIENT_H

#include "op/fused.h"

typedef struct sizes {
    int64_t batch, heads, kv_heads, lq, lk, d, dv;
} sizes;

/* Operands with values of a dtype. */
typedef struct attention {
    mica_array q, k, v, dy;
    mica_sdpa_options o;
} attention;

static inline attention operands(mica_scope *s, const sizes *z, mica_dtype dtype) {
    return (attention){
        .q = noise(s, 1, dtype, SHAPE(z->batch, z->heads, z->lq, z->d)),
        .k = noise(s, 2, dtype, SHAPE(z->batch, z->kv_heads, z->lk, z->d)),
        .v = noise(s, 3, dtype, SHAPE(z->batch, z->kv_heads, z->lk, z->dv)),
        .dy = noise(s, 4, dtype, SHAPE(z->batch, z->heads, z->lq, z->dv)),
    };
}

/* The three gradients by the op; with_lse: y's and lse's at once. */
static inline void differentiate(mica_scope *s, const attention *a, bool with_lse,
                                 mica_array g[3]) {
    mica_array lse, y = mica_sdpa_lse(s, a->q, a->k, a->v, &a->o, &lse);
    if (!with_lse) y = mica_sdpa(s, a->q, a->k, a->v, &a->o);
    mica_array loss = mica_astype(s, mica_multiply(s, y, a->dy), MICA_F32);
    loss = mica_sum(s, loss, NULL, 0, false);
    if (with_lse)
        loss =
            mica_add(s, loss, mica_sum(s, mica_multiply(s, lse, mica_sin(s, lse)), NULL, 0, false));
    const mica_array xs[] = {a->q, a->k, a->v};
    if (mica_grad(s, loss, MICA_NONE, xs, 3, g) != MICA_OK) fail_msg("%s", mica_last_error());
}

/* The node of sdpa_gradient that a gradient is a part of, perhaps converted. */
static inline mica_array part_of(mica_scope *s, mica_array g) {
    while (mc_node_of(g)->op != MC_OP_PART)
        g = (mica_array){s, mc_node_of(g)->in[0]};
    assert_int_equal(mc_scope_node(s, mc_node_of(g)->in[0])->op, MC_OP_SDPA_GRADIENT);
    return g;
}

/* With the decomposition. */
static inline void compare(bench *b, const attention *a, bool with_lse, double slack) {
    mica_array g[3];
    differentiate(b->s, a, with_lse, g);
    for (int i = 0; i < 3; i++) {
        mica_array part = part_of(b->s, g[i]);
        expect_near(b->s, part, decomposed(b->s, part), slack);
    }
}

#endif
