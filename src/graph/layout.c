#include "graph/layout.h"

#include <stdio.h>

#include "graph/dim.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[MICA_DTYPE_COUNT] = {
    [MICA_BOOL] = {"bool", 1}, [MICA_U8] = {"u8", 1},     [MICA_U16] = {"u16", 2},
    [MICA_U32] = {"u32", 4},   [MICA_U64] = {"u64", 8},   [MICA_I8] = {"i8", 1},
    [MICA_I16] = {"i16", 2},   [MICA_I32] = {"i32", 4},   [MICA_I64] = {"i64", 8},
    [MICA_F16] = {"f16", 2},   [MICA_BF16] = {"bf16", 2}, [MICA_F32] = {"f32", 4},
    [MICA_C64] = {"c64", 8},   [MICA_F64] = {"f64", 8},
};

static bool dtype_known(mica_dtype dtype) {
    return (unsigned)dtype < MICA_DTYPE_COUNT;
}

const char *mica_dtype_name(mica_dtype dtype) {
    return dtype_known(dtype) ? dtypes[dtype].name : "?";
}

size_t mica_dtype_bytes(mica_dtype dtype) {
    return dtype_known(dtype) ? dtypes[dtype].bytes : 0;
}

bool mica_dtype_is_float(mica_dtype dtype) {
    return dtype >= MICA_F16 && dtype <= MICA_F32;
}

bool mc_dtype_has_gradient(mica_dtype dtype) {
    return mica_dtype_is_float(dtype) || dtype == MICA_C64;
}

bool mica_dtype_is_signed(mica_dtype dtype) {
    return dtype_known(dtype) && dtype >= MICA_I8;
}

mica_dtype mica_dtype_promote(mica_dtype a, mica_dtype b) {
    if (a == b) return a;
    mica_dtype low = a < b ? a : b;
    mica_dtype high = a < b ? b : a;
    if (low == MICA_F16 && high == MICA_BF16) return MICA_F32;
    if (low == MICA_C64) return low; /* with f64 */
    if (high >= MICA_F16 || low == MICA_BOOL) return high;
    /* The enum is ordered by width within the unsigned and within the signed. */
    bool both_unsigned = high <= MICA_U64, both_signed = low >= MICA_I8;
    if (both_unsigned || both_signed) return high;
    /* Unsigned `low` with signed `high`: the signed one that holds both, floats past 64 bits. */
    if (low == MICA_U64) return MICA_F32;
    mica_dtype wider = (mica_dtype)(low - MICA_U8 + MICA_I16);
    return wider > high ? wider : high;
}

int64_t mc_layout_size(const mc_layout *l) {
    int64_t size = 1;
    for (int i = 0; i < l->ndim; i++)
        size = mc_dim_mul(size, l->shape[i]);
    return size;
}

int64_t mc_layout_bytes(const mc_layout *l) {
    int64_t size = mc_layout_size(l);
    return mc_dim_has_symbols(size) ? 0 : size * (int64_t)mica_dtype_bytes(l->dtype);
}

bool mc_layout_has_symbols(const mc_layout *l) {
    for (int i = 0; i < l->ndim; i++)
        if (mc_dim_has_symbols(l->shape[i])) return true;
    return false;
}

void mc_layout_set_dense(mc_layout *l) {
    int64_t stride = !mc_layout_has_symbols(l);
    for (int i = l->ndim - 1; i >= 0; i--) {
        l->strides[i] = stride;
        if (stride > 0) stride *= l->shape[i] > 0 ? l->shape[i] : 1;
    }
}

bool mc_layout_is_dense(const mc_layout *l) {
    int64_t stride = 1;
    for (int i = l->ndim - 1; i >= 0; i--) {
        if (l->shape[i] == 0) return true;
        if (l->shape[i] != 1 && l->strides[i] != stride) return false;
        stride *= l->shape[i];
    }
    return true;
}

void mc_layout_span(const mc_layout *l, int64_t *first, int64_t *bytes) {
    int64_t item = (int64_t)mica_dtype_bytes(l->dtype), below = 0, above = 0;
    *first = *bytes = 0;
    if (mc_layout_size(l) == 0) return;
    for (int i = 0; i < l->ndim; i++) {
        int64_t reach = (l->shape[i] - 1) * l->strides[i];
        if (reach < 0)
            below += reach;
        else
            above += reach;
    }
    *first = below * item;
    *bytes = (above - below + 1) * item;
}

bool mc_layout_same_shape(const mc_layout *a, const mc_layout *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

/* Checks dtype and number of axes. */
static mica_status check_kind(mica_dtype dtype, int ndim) {
    if (!dtype_known(dtype)) return mc_fail(MICA_EINVAL, "dtype %d is unknown", (int)dtype);
    if (ndim < 0 || ndim > MICA_MAX_NDIM)
        return mc_fail(MICA_EINVAL, "%d axes: there can be 0 to %d", ndim, MICA_MAX_NDIM);
    return MICA_OK;
}

static mica_status check_lengths(mica_dtype dtype, const int64_t *shape, int ndim) {
    int64_t bytes = (int64_t)dtypes[dtype].bytes;
    for (int i = 0; i < ndim; i++) {
        mica_status lost = mc_dims_live() ? mc_dim_check(shape[i]) : MICA_OK;
        if (lost != MICA_OK && (shape[i] < 0 || bytes > INT64_MAX / 2 / shape[i])) return lost;
        if (shape[i] < 0)
            return mc_fail(MICA_EINVAL, "axis %d has the negative length %lld", i,
                           (long long)shape[i]);
        if (!mc_dim_is_whole(shape[i])) return mc_fail(MICA_EINVAL, "axis %d has a fraction", i);
        /* Zero lengths are left out, so that every partial product fits too; so does a stride times
         * a length, which may pass the end of the array by as much as its size. */
        int64_t factor = shape[i] > 0 && !mc_dim_has_symbols(shape[i]) ? shape[i] : 1;
        if (bytes > INT64_MAX / 2 / factor)
            return mc_fail(MICA_EINVAL, "a shape of more than 2^62 bytes (at axis %d)", i);
        bytes *= factor;
    }
    return MICA_OK;
}

mica_status mc_layout_init(mc_layout *l, mica_dtype dtype, const int64_t *shape, int ndim) {
    MC_TRY(check_kind(dtype, ndim));
    if (ndim > 0 && !shape) return mc_fail(MICA_EINVAL, "%d axes: the shape is NULL", ndim);
    MC_TRY(check_lengths(dtype, shape, ndim));
    mc_layout result = {.dtype = dtype, .ndim = ndim}; /* shape may be l's own */
    for (int i = 0; i < ndim; i++)
        result.shape[i] = shape[i];
    mc_layout_set_dense(&result);
    *l = result;
    return MICA_OK;
}

mica_status mc_layout_finish(mc_layout *l) {
    MC_TRY(check_kind(l->dtype, l->ndim));
    MC_TRY(check_lengths(l->dtype, l->shape, l->ndim));
    mc_layout_set_dense(l);
    return MICA_OK;
}

bool mc_layout_broadcast(const mc_layout *x, const int64_t *shape, int ndim, mc_layout *out) {
    if (ndim < x->ndim) return false;
    mc_layout result = {.dtype = x->dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        int from = i - (ndim - x->ndim);
        result.shape[i] = shape[i];
        if (from < 0) continue;
        if (x->shape[from] == shape[i])
            result.strides[i] = x->strides[from];
        else if (x->shape[from] != 1)
            return false;
    }
    *out = result;
    return true;
}

const char *mc_layout_text(const mc_layout *l, char buf[MC_LAYOUT_TEXT]) {
    int len = snprintf(buf, MC_LAYOUT_TEXT, "%s[", mica_dtype_name(l->dtype));
    for (int i = 0; i < l->ndim && len < MC_LAYOUT_TEXT - 24; i++) {
        char dim[MC_DIM_TEXT];
        len += snprintf(buf + len, (size_t)(MC_LAYOUT_TEXT - len), i > 0 ? ",%.*s" : "%.*s",
                        MC_LAYOUT_TEXT - len - 3, mc_dim_text(l->shape[i], dim));
    }
    snprintf(buf + len, (size_t)(MC_LAYOUT_TEXT - len), "]");
    return buf;
}

mc_walk mc_walk_begin(const mc_layout *l) {
    return (mc_walk){.layout = l};
}

bool mc_walk_next(mc_walk *w) {
    const mc_layout *l = w->layout;
    for (int i = l->ndim - 1; i >= 0; i--) {
        w->coords[i]++;
        w->offset += l->strides[i];
        if (w->coords[i] < l->shape[i]) return true;
        w->offset -= w->coords[i] * l->strides[i];
        w->coords[i] = 0;
    }
    return false;
}
