/* Scaled dot product attention: MLX's fused call. Its causal mask ends with the last key, so where
 * a cache goes on behind the position of the query, or with a window, the mask is an array. */
#include "mlx/emit.h"

#include <math.h>

enum { Q, K, V, MASK, OFFSET, SINKS };

bool mc_mlx_supports_sdpa(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out) {
    (void)place, (void)n_in, (void)out;
    const mc_attr_sdpa *a = attr;
    return !in || (a->softcap == 0 && in[K]->dtype != MICA_U8 && in[K]->shape[2] > 0);
}

/* ---- masks ---- */

static mlx_array count_up(mc_mlx_call *c, int64_t n) {
    mlx_array y = {0};
    int failed = mc_mlx.arange(&y, 0, (double)n, 1, MLX_INT32, c->stream);
    return mc_mlx_keep(c, failed, y);
}

static mlx_array any_key(mc_mlx_call *c, mlx_array mask) {
    int last = -1;
    mlx_array y = {0};
    int failed = mc_mlx.any_axes(&y, mask, &last, 1, true, c->stream);
    return mc_mlx_keep(c, failed, y);
}

/* True where causal, window and keep let a query see a key. */
static mlx_array visible(mc_mlx_call *c) {
    const mc_attr_sdpa *a = c->attr;
    int64_t lq = c->from[Q]->shape[2], lk = c->from[K]->shape[2];
    const int64_t column[2] = {lq, 1};
    const mc_layout *given = c->from[OFFSET];
    const int64_t batch[4] = {given && given->ndim == 1 ? given->shape[0] : 1, 1, 1, 1};
    mlx_array offset = given ? c->in[OFFSET] : mc_mlx_int(c, lk - lq, MICA_I32);
    offset = mc_mlx_reshape(c, offset, batch, 4);
    mlx_array query = mc_mlx_reshape(c, count_up(c, lq), column, 2), key = count_up(c, lk);
    query = mc_mlx_combine(c, mc_mlx.add, query, offset);
    mlx_array seen = mc_mlx_combine(c, mc_mlx.less_equal, key, query);
    if (a->window == 0) return seen;
    mlx_array first = mc_mlx_combine(c, mc_mlx.subtract, query, mc_mlx_int(c, a->window, MICA_I32));
    mlx_array near = mc_mlx_combine(c, mc_mlx.greater, key, first);
    if (a->keep > 0) {
        mlx_array kept = mc_mlx_combine(c, mc_mlx.less, key, mc_mlx_int(c, a->keep, MICA_I32));
        near = mc_mlx_combine(c, mc_mlx.logical_or, near, kept);
    }
    return mc_mlx_combine(c, mc_mlx.logical_and, seen, near);
}

static bool same_mask(const mc_mlx_mask *a, const mc_mlx_mask *b) {
    return a->offset == b->offset && a->lq == b->lq && a->lk == b->lk && a->window == b->window &&
           a->keep == b->keep;
}

/* The mask of causal attention, found among those of the run or made. */
static mc_mlx_mask causal_mask(mc_mlx_call *c) {
    const mc_attr_sdpa *a = c->attr;
    mc_mlx_mask mask = {
        c->nodes[OFFSET], c->from[Q]->shape[2], c->from[K]->shape[2], a->window, a->keep, {0}, {0}};
    for (int i = 0; i < c->masks->n; i++)
        if (same_mask(&c->masks->list[i], &mask)) return c->masks->list[i];
    mask.keys = visible(c);
    mask.any = any_key(c, mask.keys);
    if (c->masks->n < MC_MLX_MASKS && mask.any.ctx) {
        mc_mlx_mask *kept = &c->masks->list[c->masks->n];
        *kept = mask;
        kept->keys = kept->any = (mlx_array){0};
        c->failed |= mc_mlx.array_set(&kept->keys, mask.keys) != 0;
        c->failed |= mc_mlx.array_set(&kept->any, mask.any) != 0;
        c->masks->n++;
    }
    return mask;
}

/* The given mask, together with that of causal attention where there is one. */
static mc_mlx_mask given_mask(mc_mlx_call *c, mica_dtype dtype) {
    const mc_attr_sdpa *a = c->attr;
    mc_mlx_mask mask = {.keys = c->in[MASK]}, causal = {0};
    if (a->causal) causal = causal_mask(c);
    if (c->from[MASK]->dtype == MICA_BOOL) {
        if (a->causal) mask.keys = mc_mlx_combine(c, mc_mlx.logical_and, mask.keys, causal.keys);
        mask.any = any_key(c, mask.keys);
        return mask;
    }
    mlx_array never = mc_mlx_cast(c, mc_mlx_f32(c, -INFINITY), dtype);
    mask.keys = mc_mlx_cast(c, mask.keys, dtype);
    if (a->causal) mask.keys = mc_mlx_where(c, causal.keys, mask.keys, never);
    mask.any = any_key(c, mc_mlx_combine(c, mc_mlx.not_equal, mask.keys, never));
    return mask;
}

/* ---- attention ---- */

/* MLX's CPU computes in the dtype of all three, and slowly in f16 and bf16. Its GPU takes these
 * with sums in f32; queries may be rounded to bf16 where keys and values are. */
static mica_dtype compute_dtype(const mc_mlx_call *c) {
    mica_dtype k = c->from[K]->dtype;
    if (c->on_cpu || k != c->from[V]->dtype) return MICA_F32;
    return k == MICA_BF16 || k == c->from[Q]->dtype ? k : MICA_F32;
}

/* The keys that queries see, where these are the last ones and each sees all up to itself: that is
 * MLX's own causal mask, which is fast on a GPU. false: it is not known, or a window or a mask says
 * more. */
static bool find_causal_keys(const mc_mlx_call *c, int64_t *first, int64_t *end) {
    const mc_attr_sdpa *a = c->attr;
    int64_t lq = c->from[Q]->shape[2], lk = c->from[K]->shape[2];
    *first = 0;
    *end = lk;
    if (!a->causal || c->in[MASK].ctx) return false;
    if (c->in[OFFSET].ctx) {
        if (!c->numbers[OFFSET] || c->from[OFFSET]->dtype != MICA_I32) return false;
        *end = (int32_t)(uint32_t)*c->numbers[OFFSET] + lq;
    }
    if (*end < lq || *end > lk) return false;
    if (a->window == 0 || a->window >= *end) return true;
    *first = *end - a->window;
    return lq == 1 && a->keep == 0;
}

/* Operand i from key `first` to `end`. */
static mlx_array between(mc_mlx_call *c, int i, mlx_array x, int64_t first, int64_t end) {
    const int64_t *shape = c->from[i]->shape;
    const int start[4] = {0, 0, (int)first, 0}, step[4] = {1, 1, 1, 1};
    const int stop[4] = {(int)shape[0], (int)shape[1], (int)end, (int)shape[3]};
    mlx_array y = {0};
    if (first == 0 && end == shape[2]) return x;
    return mc_mlx_keep(c, mc_mlx.slice(&y, x, start, 4, stop, 4, step, 4, c->stream), y);
}

void mc_mlx_emit_sdpa(mc_mlx_call *c) {
    const mc_attr_sdpa *a = c->attr;
    mica_dtype dtype = compute_dtype(c);
    mlx_array in[3], sinks = {0}, y = {0};
    int64_t first, end;
    for (int i = Q; i <= V; i++)
        in[i] = mc_mlx_in(c, i, dtype);
    if (c->in[SINKS].ctx) sinks = mc_mlx_cast(c, c->in[SINKS], dtype);
    mc_mlx_mask mask = {0};
    const char *mode = "";
    if (find_causal_keys(c, &first, &end)) {
        if (c->from[Q]->shape[2] > 1) mode = "causal";
        in[K] = between(c, K, in[K], first, end);
        in[V] = between(c, V, in[V], first, end);
    } else if (a->causal || c->in[MASK].ctx) {
        mode = "array";
        mask = c->in[MASK].ctx ? given_mask(c, dtype) : causal_mask(c);
    }
    int failed = mc_mlx.fast_scaled_dot_product_attention(&y, in[Q], in[K], in[V], (float)a->scale,
                                                          mode, mask.keys, sinks, false, c->stream);
    y = mc_mlx_keep(c, failed, y);
    /* Of no key MLX makes the mean of all values, or NaN. */
    if (mask.any.ctx) y = mc_mlx_where(c, mask.any, y, mc_mlx_cast(c, mc_mlx_f32(c, 0), dtype));
    mc_mlx_give(c, 0, y);
}
