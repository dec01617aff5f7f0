#include "mlx/call.h"

#include <string.h>

mlx_array mc_mlx_keep(mc_mlx_call *c, int failed, mlx_array array) {
    if (failed) c->failed = true;
    if (!array.ctx) return array;
    if (c->n_temps == MC_MLX_TEMPS) {
        mc_mlx.array_free(array);
        c->failed = true;
        return (mlx_array){0};
    }
    return c->temps[c->n_temps++] = array;
}

static bool is_half(mlx_array array) {
    mlx_dtype dtype = mc_mlx.array_dtype(array);
    return dtype == MLX_BFLOAT16 || dtype == MLX_FLOAT16;
}

void mc_mlx_give(mc_mlx_call *c, int k, mlx_array array) {
    bool stays = c->narrow && array.ctx && c->to[k].dtype == MICA_F32 && is_half(array);
    if (!stays) array = mc_mlx_cast(c, array, c->to[k].dtype);
    if (!array.ctx || mc_mlx.array_set(&c->out[k], array)) c->failed = true;
}

mlx_array mc_mlx_apply(mc_mlx_call *c, mc_mlx_unary function, mlx_array x) {
    mlx_array y = {0};
    int failed = function(&y, x, c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_combine(mc_mlx_call *c, mc_mlx_binary function, mlx_array a, mlx_array b) {
    mlx_array y = {0};
    int failed = function(&y, a, b, c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_where(mc_mlx_call *c, mlx_array condition, mlx_array a, mlx_array b) {
    mlx_array y = {0};
    int failed = mc_mlx.where(&y, condition, a, b, c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_cast(mc_mlx_call *c, mlx_array x, mica_dtype dtype) {
    mlx_array y = {0};
    if (!x.ctx || mc_mlx.array_dtype(x) == mc_mlx_dtype(dtype)) return x;
    int failed = mc_mlx.astype(&y, x, mc_mlx_dtype(dtype), c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_reshape(mc_mlx_call *c, mlx_array x, const int64_t *shape, int ndim) {
    int lengths[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    for (int k = 0; k < ndim; k++)
        lengths[k] = (int)shape[k];
    int failed = mc_mlx.reshape(&y, x, lengths, (size_t)ndim, c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_zeros(mc_mlx_call *c, const mc_layout *like) {
    int shape[MICA_MAX_NDIM] = {0};
    mlx_array y = {0};
    for (int k = 0; k < like->ndim; k++)
        shape[k] = (int)like->shape[k];
    int failed = mc_mlx.zeros(&y, shape, (size_t)like->ndim, mc_mlx_dtype(like->dtype), c->stream);
    return mc_mlx_keep(c, failed, y);
}

mlx_array mc_mlx_bits(mc_mlx_call *c, uint64_t bits, mica_dtype dtype) {
    int none = 0;
    mlx_array y = mc_mlx.array_new_data(&bits, &none, 0, mc_mlx_dtype(dtype)); /* little-endian */
    return mc_mlx_keep(c, !y.ctx, y);
}

mlx_array mc_mlx_f32(mc_mlx_call *c, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return mc_mlx_bits(c, bits, MICA_F32);
}

mlx_array mc_mlx_int(mc_mlx_call *c, int64_t value, mica_dtype dtype) {
    return mc_mlx_bits(c, (uint64_t)value, dtype);
}

mlx_array mc_mlx_in(mc_mlx_call *c, int k, mica_dtype dtype) {
    mlx_array *kept = c->casts[k];
    mlx_dtype wanted = mc_mlx_dtype(dtype);
    if (!c->in[k].ctx || mc_mlx.array_dtype(c->in[k]) == wanted) return c->in[k];
    if (kept->ctx && mc_mlx.array_dtype(*kept) == wanted) return *kept;
    if (kept->ctx) return mc_mlx_cast(c, c->in[k], dtype);
    if (mc_mlx.astype(kept, c->in[k], wanted, c->stream)) c->failed = true;
    return *kept;
}

mlx_array mc_mlx_dense(mc_mlx_call *c, mlx_array x) {
    mlx_array y = {0};
    if (!c->on_cuda) return x;
    return mc_mlx_keep(c, mc_mlx.contiguous(&y, x, false, c->stream), y);
}

mica_dtype mc_mlx_half(mlx_array array) {
    return mc_mlx.array_dtype(array) == MLX_FLOAT16 ? MICA_F16 : MICA_BF16;
}

mlx_array mc_mlx_wide(mc_mlx_call *c, int k) {
    mica_dtype dtype = c->from[k]->dtype;
    bool half = dtype == MICA_F16 || dtype == MICA_BF16;
    return mc_mlx_in(c, k, half ? MICA_F32 : dtype);
}

/* ---- indices ---- */

/* The least and the largest index, or the index itself. */
static mlx_array extremes(mc_mlx_call *c, int k) {
    int flat = -1, first = 0;
    mlx_array x = {0}, least = {0}, largest = {0}, y = {0};
    int failed = mc_mlx.reshape(&x, c->in[k], &flat, 1, c->stream);
    x = mc_mlx_keep(c, failed, x);
    if (mc_layout_size(c->from[k]) == 1) return x;
    failed = mc_mlx.max_axes(&largest, x, &first, 1, true, c->stream);
    largest = mc_mlx_keep(c, failed, largest);
    if (!mica_dtype_is_signed(c->from[k]->dtype)) return largest;
    failed = mc_mlx.min_axes(&least, x, &first, 1, true, c->stream);
    mlx_array pair[2] = {mc_mlx_keep(c, failed, least), largest};
    mlx_vector_array all = mc_mlx.vector_array_new_data(pair, 2);
    failed = mc_mlx.concatenate_axis(&y, all, 0, c->stream);
    mc_mlx.vector_array_free(all);
    return mc_mlx_keep(c, failed, y);
}

static mlx_array find_bounded(const mc_mlx_call *c, int64_t length, int64_t count, int k) {
    for (int i = 0; i < c->bounds->n; i++) {
        const mc_mlx_bounded *b = &c->bounds->list[i];
        if (b->node == c->nodes[k] && b->length == length && b->count == count) return b->index;
    }
    return (mlx_array){0};
}

static mlx_array keep_bounded(mc_mlx_call *c, int64_t length, int64_t count, int k, mlx_array x) {
    if (c->bounds->n == MC_MLX_BOUNDS || !x.ctx) return x;
    mc_mlx_bounded *b = &c->bounds->list[c->bounds->n++];
    *b = (mc_mlx_bounded){c->nodes[k], length, count, {0}};
    if (mc_mlx.array_set(&b->index, x)) c->failed = true;
    return x;
}

mlx_array mc_mlx_bound(mc_mlx_call *c, int axis, int64_t length, int64_t count, int k) {
    mica_dtype dtype = c->from[k]->dtype;
    if (mc_layout_size(c->from[k]) == 0) return c->in[k];
    mlx_array known = find_bounded(c, length, count, k);
    if (known.ctx) return known;
    const mc_mlx_check check = {mc_op_get(c->op)->name, dtype, axis, length, count};
    mlx_array seen = extremes(c, k);
    if (!seen.ctx || !MC_BUFFER_PUSH(&c->checks->texts, mc_mlx_check, check) ||
        mc_mlx.vector_array_append_value(c->checks->arrays, seen))
        c->failed = true;
    /* In 64 bits, for the length may be none of the dtype. u64 beyond i64 becomes negative. */
    mlx_array x = mc_mlx_cast(c, c->in[k], MICA_I64);
    int64_t last = count > 0 ? length - count : length - 1;
    int64_t first = count > 0 || !mica_dtype_is_signed(dtype) ? 0 : -length;
    if (last < first) last = first;
    x = mc_mlx_combine(c, mc_mlx.minimum, x, mc_mlx_int(c, last, MICA_I64));
    x = mc_mlx_combine(c, mc_mlx.maximum, x, mc_mlx_int(c, first, MICA_I64));
    x = mc_mlx_cast(c, x, length <= INT32_MAX ? MICA_I32 : MICA_I64);
    return keep_bounded(c, length, count, k, x);
}
