#include "cpu/block.h"

#include <string.h>

#include "base/half.h"

/* ---- gathering elements ---- */

/* A layout as few runs: axes of length 1 are dropped, neighbours merged where one stride covers
 * both. The inner run is last; there is at least one. */
typedef struct runs {
    int n;
    int64_t len[MICA_MAX_NDIM];
    int64_t stride[MICA_MAX_NDIM];
} runs;

static runs runs_of(const mc_layout *l) {
    runs r = {.n = 1, .len = {1}, .stride = {0}};
    for (int k = 0; k < l->ndim; k++) {
        if (l->shape[k] == 1) continue;
        int last = r.n - 1;
        if (r.len[last] == 1) {
            r.len[last] = l->shape[k];
            r.stride[last] = l->strides[k];
        } else if (r.stride[last] == l->strides[k] * l->shape[k]) {
            r.len[last] *= l->shape[k];
            r.stride[last] = l->strides[k];
        } else {
            r.len[r.n] = l->shape[k];
            r.stride[r.n++] = l->strides[k];
        }
    }
    return r;
}

/* Copies n elements, `stride` apart, to contiguous ones. */
#define COPY_RUN(T)                                                           \
    static void copy_run_##T(const T *x, int64_t stride, int64_t n, T *out) { \
        if (stride == 1) {                                                    \
            memcpy(out, x, (size_t)n * sizeof *x);                            \
        } else if (stride == 0) { /* a number for all: quickly */             \
            T value = *x;                                                     \
            for (int64_t i = 0; i < n; i++)                                   \
                out[i] = value;                                               \
        } else {                                                              \
            for (int64_t i = 0; i < n; i++)                                   \
                out[i] = x[i * stride];                                       \
        }                                                                     \
    }
COPY_RUN(uint8_t)
COPY_RUN(uint16_t)
COPY_RUN(uint32_t)
COPY_RUN(uint64_t)

static void copy_run(size_t size, const char *x, int64_t stride, int64_t n, char *out) {
    switch (size) {
    case 1:
        copy_run_uint8_t((const uint8_t *)x, stride, n, (uint8_t *)out);
        break;
    case 2:
        copy_run_uint16_t((const uint16_t *)(const void *)x, stride, n, (uint16_t *)(void *)out);
        break;
    case 4:
        copy_run_uint32_t((const uint32_t *)(const void *)x, stride, n, (uint32_t *)(void *)out);
        break;
    default:
        copy_run_uint64_t((const uint64_t *)(const void *)x, stride, n, (uint64_t *)(void *)out);
    }
}

void mc_gather(const mc_operand *x, int64_t begin, int64_t n, void *out) {
    if (n <= 0) return;
    size_t size = mica_dtype_bytes(x->layout->dtype);
    runs r = runs_of(x->layout);
    int64_t coords[MICA_MAX_NDIM], offset = 0, rest = begin;
    for (int k = r.n - 1; k >= 0; k--) {
        coords[k] = rest % r.len[k];
        rest /= r.len[k];
        offset += coords[k] * r.stride[k];
    }
    int inner = r.n - 1;
    char *to = out;
    for (;;) {
        int64_t run = r.len[inner] - coords[inner];
        if (run > n) run = n;
        copy_run(size, (const char *)x->data + offset * (int64_t)size, r.stride[inner], run, to);
        to += run * (int64_t)size;
        n -= run;
        if (n == 0) return;
        offset += run * r.stride[inner];
        coords[inner] += run;
        for (int k = inner; k > 0 && coords[k] == r.len[k]; k--) {
            offset += r.stride[k - 1] - r.len[k] * r.stride[k];
            coords[k] = 0;
            coords[k - 1]++;
        }
    }
}

const void *mc_block_raw(const mc_operand *x, int64_t begin, int64_t n, mc_block *block) {
    if (mc_layout_is_dense(x->layout))
        return (const char *)x->data + begin * (int64_t)mica_dtype_bytes(x->layout->dtype);
    mc_gather(x, begin, n, &block->raw);
    return &block->raw;
}

/* ---- reading a block ---- */

/* a case of a switch over dtypes */
#define READ(T, type)                     \
    for (int64_t i = 0; i < n; i++)       \
        y[i] = (type)((const T *)raw)[i]; \
    break
#define WRITE(T, expr)              \
    for (int64_t i = 0; i < n; i++) \
        ((T *)y)[i] = (expr);       \
    break

const float *mc_block_f32(const mc_operand *x, int64_t begin, int64_t n, mc_block *block) {
    const void *raw = mc_block_raw(x, begin, n, block);
    float *y = block->as.f32;
    switch (x->layout->dtype) {
    case MICA_F32:
        return raw;
    case MICA_F16:
        for (int64_t i = 0; i < n; i++)
            y[i] = mc_f16_to_f32(((const uint16_t *)raw)[i]);
        break;
    case MICA_BF16:
        for (int64_t i = 0; i < n; i++)
            y[i] = mc_bf16_to_f32(((const uint16_t *)raw)[i]);
        break;
    case MICA_BOOL: /* any byte but 0 is true */
        for (int64_t i = 0; i < n; i++)
            y[i] = ((const uint8_t *)raw)[i] != 0 ? 1.0f : 0.0f;
        break;
    case MICA_U8:
        READ(uint8_t, float);
    case MICA_U16:
        READ(uint16_t, float);
    case MICA_U32:
        READ(uint32_t, float);
    case MICA_U64:
        READ(uint64_t, float);
    case MICA_I8:
        READ(int8_t, float);
    case MICA_I16:
        READ(int16_t, float);
    case MICA_I32:
        READ(int32_t, float);
    case MICA_I64:
        READ(int64_t, float);
    case MICA_F64:
        READ(double, float);
    case MICA_C64: /* none of the ops that convert takes it */
        break;
    }
    return y;
}

const int64_t *mc_block_i64(const mc_operand *x, int64_t begin, int64_t n, mc_block *block) {
    const void *raw = mc_block_raw(x, begin, n, block);
    int64_t *y = block->as.i64;
    switch (x->layout->dtype) {
    case MICA_BOOL:
        for (int64_t i = 0; i < n; i++)
            y[i] = ((const uint8_t *)raw)[i] != 0;
        break;
    case MICA_U8:
        READ(uint8_t, int64_t);
    case MICA_U16:
        READ(uint16_t, int64_t);
    case MICA_U32:
        READ(uint32_t, int64_t);
    case MICA_I8:
        READ(int8_t, int64_t);
    case MICA_I16:
        READ(int16_t, int64_t);
    case MICA_I32:
        READ(int32_t, int64_t);
    default:
        return raw; /* 64-bit integers are used in place */
    }
    return y;
}

/* ---- writing a block ---- */

/* Rounds towards zero, clamps to [lo, hi]; NaN becomes 0. */
static int64_t saturate(float v, int64_t lo, int64_t hi) {
    if (v != v) return 0;
    if (v >= (float)hi) return hi; /* (float)hi may be above hi, with no float between them */
    if (v <= (float)lo) return lo;
    return (int64_t)v;
}

/* The same for integers of 16 bits or fewer, without branches: a loop of it becomes vector code. */
static int32_t saturate_small(float v, float lo, float hi) {
    v = v == v ? v : 0;
    v = v < hi ? v : hi;
    return (int32_t)(v > lo ? v : lo);
}

static uint64_t saturate_u64(float v) {
    if (!(v > 0.0f)) return 0;
    return v >= 0x1p64f ? UINT64_MAX : (uint64_t)v;
}

void mc_block_put_f32(const mc_operand *out, int64_t begin, int64_t n, const float *values) {
    void *y = (char *)out->data + begin * (int64_t)mica_dtype_bytes(out->layout->dtype);
    const float *v = values;
    switch (out->layout->dtype) {
    case MICA_F32:
        memmove(y, v, (size_t)n * sizeof *v);
        break;
    case MICA_F16:
        WRITE(uint16_t, mc_f32_to_f16(v[i]));
    case MICA_BF16:
        WRITE(uint16_t, mc_f32_to_bf16(v[i]));
    case MICA_BOOL:
        WRITE(uint8_t, v[i] != 0.0f);
    case MICA_U8:
        WRITE(uint8_t, (uint8_t)saturate_small(v[i], 0, UINT8_MAX));
    case MICA_U16:
        WRITE(uint16_t, (uint16_t)saturate_small(v[i], 0, UINT16_MAX));
    case MICA_U32:
        WRITE(uint32_t, (uint32_t)saturate(v[i], 0, UINT32_MAX));
    case MICA_U64:
        WRITE(uint64_t, saturate_u64(v[i]));
    case MICA_I8:
        WRITE(int8_t, (int8_t)saturate_small(v[i], INT8_MIN, INT8_MAX));
    case MICA_I16:
        WRITE(int16_t, (int16_t)saturate_small(v[i], INT16_MIN, INT16_MAX));
    case MICA_I32:
        WRITE(int32_t, (int32_t)saturate(v[i], INT32_MIN, INT32_MAX));
    case MICA_I64:
        WRITE(int64_t, saturate(v[i], INT64_MIN, INT64_MAX));
    case MICA_F64:
        WRITE(double, (double)v[i]);
    case MICA_C64:
        break;
    }
}

void mc_block_put_i64(const mc_operand *out, int64_t begin, int64_t n, const int64_t *values) {
    size_t size = mica_dtype_bytes(out->layout->dtype);
    void *y = (char *)out->data + begin * (int64_t)size;
    const int64_t *v = values;
    switch (out->layout->dtype) {
    case MICA_BOOL:
        WRITE(uint8_t, v[i] != 0);
    case MICA_F32:
        WRITE(float, (float)v[i]);
    case MICA_F16:
        WRITE(uint16_t, mc_f32_to_f16((float)v[i]));
    case MICA_BF16:
        WRITE(uint16_t, mc_f32_to_bf16((float)v[i]));
    default:
        break;
    }
    if (out->layout->dtype == MICA_BOOL || mica_dtype_is_float(out->layout->dtype)) return;
    switch (size) { /* an integer is its low bytes, signed or not */
    case 1:
        WRITE(uint8_t, (uint8_t)v[i]);
    case 2:
        WRITE(uint16_t, (uint16_t)v[i]);
    case 4:
        WRITE(uint32_t, (uint32_t)v[i]);
    default:
        memmove(y, v, (size_t)n * sizeof *v);
    }
}

/* ---- rows ---- */

int64_t mc_rows_of(const mc_operand *x, int64_t mask, mc_layout *layout, mc_operand *view,
                   int64_t *row) {
    const mc_layout *l = x->layout;
    *layout = *l;
    int at = 0;
    int64_t rows = 1;
    *row = 1;
    for (int reduced = 0; reduced < 2; reduced++) {
        for (int k = 0; k < l->ndim; k++) {
            if ((int)(mask >> k & 1) != reduced) continue;
            layout->shape[at] = l->shape[k];
            layout->strides[at++] = l->strides[k];
            *(reduced ? row : &rows) *= l->shape[k];
        }
    }
    *view = (mc_operand){x->data, layout};
    return rows;
}
