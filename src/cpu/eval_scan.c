/* Scans along the last axis, in f32 or 64-bit integers, a block at a time. */
#include <math.h>

#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "graph/attr.h"

typedef float (*float_fn)(float sum, float x);
typedef int64_t (*int_fn)(int64_t sum, int64_t x);

typedef struct work {
    const mc_call *call;
    int64_t length; /* elements of a row */
    float_fn floats;
    int_fn ints;
    float float_start; /* neutral elements */
    int64_t int_start;
} work;

/* Element i of a row is at `first` + i; in a reversed scan it is counted from the end. Blocks are
 * read and written forwards, and scanned in the direction of the scan. */
static void scan_row(const work *w, int64_t row) {
    const mc_attr_scan *attr = w->call->attr;
    const mc_operand *x = &w->call->in[0], *out = &w->call->out;
    bool floats = mica_dtype_is_float(x->layout->dtype);
    float sum = w->float_start;
    int64_t int_sum = w->int_start;
    mc_block block, y;
    for (int64_t done = 0; done < w->length; done += MC_BLOCK) {
        int64_t n = w->length - done < MC_BLOCK ? w->length - done : MC_BLOCK;
        int64_t at = row * w->length + (attr->reverse ? w->length - done - n : done);
        const float *v = floats ? mc_block_f32(x, at, n, &block) : NULL;
        const int64_t *u = floats ? NULL : mc_block_i64(x, at, n, &block);
        for (int64_t j = 0; j < n; j++) {
            int64_t i = attr->reverse ? n - 1 - j : j;
            if (floats) {
                float before = sum;
                sum = w->floats(sum, v[i]);
                y.as.f32[i] = attr->inclusive ? sum : before;
            } else {
                int64_t before = int_sum;
                int_sum = w->ints(int_sum, u[i]);
                y.as.i64[i] = attr->inclusive ? int_sum : before;
            }
        }
        if (floats)
            mc_block_put_f32(out, at, n, y.as.f32);
        else
            mc_block_put_i64(out, at, n, y.as.i64);
    }
}

static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    for (int64_t row = begin; row < end; row++)
        scan_row(w, row);
}

static mica_status run_rows(const mc_call *call, work w) {
    const mc_layout *l = call->in[0].layout;
    w.call = call;
    w.length = l->shape[l->ndim - 1];
    if (w.length == 0) return MICA_OK;
    mc_cpu_for(call, mc_layout_size(l) / w.length, 16384 / w.length + 1, range, &w);
    return MICA_OK;
}

/* ---- steps ---- */

static float add_f32(float sum, float x) {
    return sum + x;
}
static float multiply_f32(float sum, float x) {
    return sum * x;
}
static float max_f32(float sum, float x) {
    return sum > x || sum != sum ? sum : x;
}
static float min_f32(float sum, float x) {
    return sum < x || sum != sum ? sum : x;
}
static float logaddexp_f32(float a, float b) {
    if (a != a || b != b) return NAN;
    float hi = a > b ? a : b, lo = a > b ? b : a;
    return isinf(hi) || lo == -INFINITY ? hi : hi + log1pf(expf(lo - hi));
}

static int64_t add_i64(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum + (uint64_t)x);
}
static int64_t multiply_i64(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum * (uint64_t)x);
}
static int64_t max_i64(int64_t sum, int64_t x) {
    return sum > x ? sum : x;
}
static int64_t min_i64(int64_t sum, int64_t x) {
    return sum < x ? sum : x;
}
static int64_t max_u64(int64_t sum, int64_t x) {
    return (uint64_t)sum > (uint64_t)x ? sum : x;
}
static int64_t min_u64(int64_t sum, int64_t x) {
    return (uint64_t)sum < (uint64_t)x ? sum : x;
}

/* The least and the largest integer of a dtype; for u64 the i64 of the same bits. */
static int64_t min_of(mica_dtype dtype) {
    if (!mica_dtype_is_signed(dtype)) return 0;
    return INT64_MIN >> (64 - 8 * (int)mica_dtype_bytes(dtype));
}

static int64_t largest_of(mica_dtype dtype) {
    if (dtype == MICA_BOOL) return 1;
    int bits = 8 * (int)mica_dtype_bytes(dtype);
    if (mica_dtype_is_signed(dtype)) bits--;
    return (int64_t)(UINT64_MAX >> (64 - bits));
}

mica_status mc_eval_cumsum(const mc_call *call) {
    return run_rows(call, (work){.floats = add_f32, .ints = add_i64});
}

mica_status mc_eval_cumprod(const mc_call *call) {
    return run_rows(
        call,
        (work){.floats = multiply_f32, .ints = multiply_i64, .float_start = 1.0f, .int_start = 1});
}

mica_status mc_eval_cummax(const mc_call *call) {
    mica_dtype dtype = call->in[0].layout->dtype;
    return run_rows(call, (work){.floats = max_f32,
                                 .ints = dtype == MICA_U64 ? max_u64 : max_i64,
                                 .float_start = -INFINITY,
                                 .int_start = min_of(dtype)});
}

mica_status mc_eval_cummin(const mc_call *call) {
    mica_dtype dtype = call->in[0].layout->dtype;
    return run_rows(call, (work){.floats = min_f32,
                                 .ints = dtype == MICA_U64 ? min_u64 : min_i64,
                                 .float_start = INFINITY,
                                 .int_start = largest_of(dtype)});
}

mica_status mc_eval_logcumsumexp(const mc_call *call) {
    return run_rows(call, (work){.floats = logaddexp_f32, .float_start = -INFINITY});
}
