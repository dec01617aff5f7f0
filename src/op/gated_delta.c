/* The gated delta rule, a recurrence of a matrix for each head.
 *
 *      S = exp(g_t) S;  d = beta_t (v_t - k_t S);  S = S + k_t^T d;  o_t = q_t S / sqrt N
 *
 * Without beta, linear attention with a decay:
 *
 *      S = exp(g_t) S + k_t^T v_t;  o_t = q_t S
 *
 *  in       q, k [B, L, Hk, N], Hk dividing H: heads side by side share them; v [B, L, H, M];
 *           g [B, L, H]; beta [B, L, H] or absent; S [B, H, N, M] or absent: zeros
 *  results  o [B, L, H, M], the last S, both f32 */
#include <mica/nn.h>

#include <math.h>

#include "graph/dim.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

enum { Q, K, V, G, BETA, STATE };

/* Whether so many heads can share q and k of so many. */
static bool shares(int64_t heads, int64_t keys) {
    if (mc_dim_has_symbols(heads) || mc_dim_has_symbols(keys)) return heads == keys;
    return keys > 0 ? heads % keys == 0 : heads == 0;
}

static mica_status gated_delta_infer(const void *attr, const mc_layout *const *in, int n_in,
                                     mc_layout *out) {
    (void)attr, (void)n_in;
    static const char *const names[] = {"q", "k", "v", "g", "beta", "the state"};
    const mc_layout *q = in[Q], *v = in[V];
    char text[MC_LAYOUT_TEXT], text_v[MC_LAYOUT_TEXT];
    if (q->ndim != 4 || v->ndim != 4)
        return mc_fail(MICA_ESHAPE,
                       "gated_delta: q %s and v %s; [B, L, H, N] and [B, L, H, M] are "
                       "needed",
                       mc_layout_text(q, text), mc_layout_text(v, text_v));
    int64_t m = v->shape[3], n = q->shape[3], heads = v->shape[2];
    if (!shares(heads, q->shape[2])) heads = q->shape[2]; /* and v is wrong */
    const int64_t rows[4] = {q->shape[0], q->shape[1], q->shape[2], n};
    const int64_t values[4] = {q->shape[0], q->shape[1], heads, m};
    const int64_t state[4] = {q->shape[0], heads, n, m};
    const int64_t *const shapes[] = {rows, rows, values, values, values, state};
    static const int ndims[] = {4, 4, 4, 3, 3, 4};
    for (int i = Q; i <= STATE; i++) {
        mc_layout want;
        if (!in[i]) continue;
        MC_TRY(mc_set_result("gated_delta", &want, MICA_F32, shapes[i], ndims[i]));
        if (!mica_dtype_is_float(in[i]->dtype))
            return mc_fail(MICA_EDTYPE, "gated_delta: %s is %s, not a float", names[i],
                           mc_layout_text(in[i], text));
        if (!mc_layout_same_shape(in[i], &want))
            return mc_fail(MICA_ESHAPE, "gated_delta: %s is %s; by q and v it is %s", names[i],
                           mc_layout_text(in[i], text), mc_layout_text(&want, text_v));
    }
    MC_TRY(mc_set_result("gated_delta", &out[0], MICA_F32, values, 4));
    return mc_set_result("gated_delta", &out[1], MICA_F32, state, 4);
}

/* ---- plain ops ----
 *
 * By chunks of C steps. With E_tj = exp(g_{j+1} + .. + g_t) where j <= t, else 0, and e_t from the
 * chunk's beginning on, the d of a chunk are the rows of D in
 *
 *      (I + M) D = beta (V - e K S),   M_tj = beta_t E_tj k_t k_j where j < t
 *
 * which are solved row by row, for all chunks at once and without S: D = U - W S. Then
 *
 *      O = (e Q S + (E Q K^T) D) / sqrt N,   S = e_C S + (E_C K)^T D */

typedef struct chunks {
    mica_array q, k, v, beta; /* [B, H, chunks, C, .] f32; beta [.., C, 1] or MICA_NONE */
    mica_array e, decay;      /* [.., C, C]; [.., C, 1] */
    int64_t n_chunks, length;
} chunks;

/* [B, L, H, ..] as [B, H, chunks, C, ..], zeros at the end. */
static mica_array by_chunks(mica_scope *s, mica_array x, int64_t n_chunks, int64_t length) {
    int ndim = mica_array_ndim(x);
    int64_t before[MICA_MAX_NDIM] = {0}, after[MICA_MAX_NDIM] = {0};
    after[1] = n_chunks * length - mica_array_dim(x, 1);
    x = mica_pad(s, mc_cast(s, x, MICA_F32), before, after, mica_f32(s, 0));
    x = mica_swapaxes(s, x, 1, 2);
    const int64_t shape[5] = {mica_array_dim(x, 0), mica_array_dim(x, 1), n_chunks, length,
                              ndim == 4 ? mica_array_dim(x, 3) : 1};
    return mica_reshape(s, x, shape, 5);
}

/* [C, C]: where column < row + more. */
static mica_array below(mica_scope *s, int64_t length, int more) {
    mica_array at = mica_arange(s, 0, (double)length, 1, MICA_I32);
    return mica_less(s, at, mica_add(s, mica_expand_dims(s, at, 1), mica_i32(s, more)));
}

/* q or k for all heads. */
static mica_array for_heads(mica_scope *s, mica_array x, int64_t heads) {
    int64_t own = mica_array_dim(x, 2);
    return own == heads ? x : mica_repeat(s, x, heads / own, 2);
}

static chunks chunks_of(mica_scope *s, const mica_array *in) {
    enum { CHUNK = 64 };
    int64_t steps = mica_array_dim(in[Q], 1), heads = mica_array_dim(in[V], 2);
    chunks c = {.length = steps < CHUNK ? steps : CHUNK};
    c.n_chunks = (steps + c.length - 1) / c.length;
    c.q = by_chunks(s, for_heads(s, in[Q], heads), c.n_chunks, c.length);
    c.k = by_chunks(s, for_heads(s, in[K], heads), c.n_chunks, c.length);
    c.v = by_chunks(s, in[V], c.n_chunks, c.length);
    c.beta = in[BETA].scope ? by_chunks(s, in[BETA], c.n_chunks, c.length) : MICA_NONE;
    mica_array g = by_chunks(s, in[G], c.n_chunks, c.length); /* [.., C, 1] */
    c.decay = mica_exp(s, mica_cumsum(s, g, -2, false, true));
    /* sums of g without differences of sums, which would be rounded, or NaN where g is -inf */
    mica_array zero = mica_f32(s, 0);
    mica_array sums = mica_where(s, below(s, c.length, 0), g, zero);
    sums = mica_exp(s, mica_cumsum(s, sums, -2, false, true));
    c.e = mica_where(s, below(s, c.length, 1), sums, zero);
    return c;
}

/* X in (I + M) X = R, M [.., C, C] below its diagonal. */
static mica_array solve_rows(mica_scope *s, mica_array m, mica_array r, int64_t length) {
    mica_array x = mica_slice_axis(s, r, -2, 0, 1);
    for (int64_t t = 1; t < length; t++) {
        mica_array row = mica_slice_axis(s, mica_slice_axis(s, m, -2, t, t + 1), -1, 0, t);
        mica_array parts[2] = {x, mica_slice_axis(s, r, -2, t, t + 1)};
        parts[1] = mica_subtract(s, parts[1], mica_matmul(s, row, x));
        x = mica_concatenate(s, parts, 2, -2);
    }
    return x;
}

/* Chunk i of an array of all. */
static mica_array chunk(mica_scope *s, mica_array x, int64_t i) {
    return mica_squeeze(s, mica_slice_axis(s, x, 2, i, i + 1), 2);
}

static mica_array transposed(mica_scope *s, mica_array x) {
    return mica_swapaxes(s, x, -1, -2);
}

/* U and W of all chunks; without beta, V and nothing. */
static void solve_chunks(mica_scope *s, const chunks *c, mica_array *u, mica_array *w) {
    int64_t m = mica_array_dim(c->v, -1);
    *u = c->v;
    *w = MICA_NONE;
    if (!c->beta.scope) return;
    mica_array met = mica_multiply(s, c->e, mica_matmul(s, c->k, transposed(s, c->k)));
    met = mica_multiply(s, c->beta, mica_where(s, below(s, c->length, 0), met, mica_f32(s, 0)));
    mica_array right[2] = {
        mica_multiply(s, c->beta, c->v),
        mica_multiply(s, mica_multiply(s, c->beta, c->decay), c->k),
    };
    mica_array solved = solve_rows(s, met, mica_concatenate(s, right, 2, -1), c->length);
    *u = mica_slice_axis(s, solved, -1, 0, m);
    *w = mica_slice_axis(s, solved, -1, m, MICA_END_OF_AXIS);
}

/* From one chunk to the next; o receives [B, H, steps, M]. */
static mica_array run_chunks(mica_scope *s, const chunks *c, mica_array state, mica_array *o) {
    int64_t end = c->length - 1;
    mica_array u, w;
    solve_chunks(s, c, &u, &w);
    mica_array seen = mica_multiply(s, c->e, mica_matmul(s, c->q, transposed(s, c->k)));
    mica_array q = mica_multiply(s, c->decay, c->q);
    mica_array last = transposed(s, mica_slice_axis(s, c->e, -2, end, end + 1)); /* E_C */
    mica_array keys = transposed(s, mica_multiply(s, last, c->k));
    mica_array whole = mica_slice_axis(s, c->decay, -2, end, end + 1);
    for (int64_t i = 0; i < c->n_chunks && mica_valid(state); i++) {
        mica_array d = chunk(s, u, i);
        if (w.scope) d = mica_subtract(s, d, mica_matmul(s, chunk(s, w, i), state));
        mica_array y = mica_add(s, mica_matmul(s, chunk(s, q, i), state),
                                mica_matmul(s, chunk(s, seen, i), d));
        mica_array both[2] = {*o, y};
        *o = i == 0 ? y : mica_concatenate(s, both, 2, 2);
        state = mica_add(s, mica_multiply(s, chunk(s, whole, i), state),
                         mica_matmul(s, chunk(s, keys, i), d));
    }
    return state;
}

static void gated_delta_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                  mica_array *out) {
    (void)attr, (void)n_in;
    int64_t steps = mica_array_dim(in[Q], 1), n = mica_array_dim(in[Q], 3);
    const int64_t shape[4] = {mica_array_dim(in[V], 0), mica_array_dim(in[V], 2), n,
                              mica_array_dim(in[V], 3)};
    mica_array state =
        in[STATE].scope ? mc_cast(s, in[STATE], MICA_F32) : mica_zeros(s, shape, 4, MICA_F32);
    if (mc_dim_has_symbols(steps) || mc_dim_has_symbols(n)) {
        int64_t open = mc_dim_has_symbols(steps) ? steps : n;
        out[0] = out[1] = mc_need_number(s, "gated_delta", open);
        return;
    }
    if (steps == 0) {
        out[0] = mica_zeros(s, mica_array_shape(in[V]), 4, MICA_F32);
        out[1] = state;
        return;
    }
    chunks c = chunks_of(s, in);
    mica_array o = MICA_NONE;
    out[1] = run_chunks(s, &c, state, &o);
    o = mica_swapaxes(s, mica_slice_axis(s, o, 2, 0, steps), 1, 2);
    float scale = in[BETA].scope ? (float)(1 / sqrt((double)n)) : 1.0f;
    out[0] = mica_multiply(s, o, mica_f32(s, scale));
}

/* Of each step: k S, the outer product, q S. */
static MC_WORK_RULE(gated_delta_work) {
    (void)attr, (void)n_in, (void)out;
    work->kind = MC_WORK_SCAN;
    work->operations = 6 * (double)mc_layout_size(in[V]) * (double)in[Q]->shape[3];
}

MC_OP(gated_delta, 4, 6, .n_out = 2, .infer = gated_delta_infer, .decompose = gated_delta_decompose,
      .work = gated_delta_work);
MC_DECOMPOSED_GRADIENT(gated_delta);

mica_array mica_gated_delta(mica_scope *s, mica_array q, mica_array k, mica_array v, mica_array g,
                            mica_array beta, mica_array state, mica_array *last) {
    const mica_array in[6] = {q, k, v, g, beta, state};
    if (last) *last = mc_invalid(s);
    mica_array made = mc_record(s, MC_OP_GATED_DELTA, NULL, in, 6);
    if (!mica_valid(made)) return made;
    if (last) *last = mc_record_part(s, made, 1);
    return mc_cast(s, mc_record_part(s, made, 0), mica_array_dtype(v));
}
