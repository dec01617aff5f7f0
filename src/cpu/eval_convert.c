/* Conversions between dtypes. */
#include <math.h>

#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/rows.h"
#include "graph/attr.h"

static bool is_rounding(const mc_call *call) {
    return call->in[0].layout->dtype == MICA_F32 && call->out.layout->dtype == MICA_BF16;
}

static void astype_range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const mc_call *call = *(const mc_call **)context;
    const mc_operand *x = &call->in[0], *out = &call->out;
    const mk_kernels *kern = mc_cpu_of(call)->kern;
    bool narrow = is_rounding(call);
    /* u64 is converted to floats by value, not as the i64 of the same bits */
    bool floats = mica_dtype_is_float(x->layout->dtype) || mica_dtype_is_float(out->layout->dtype);
    const mica_dtype to = out->layout->dtype;
    bool bytes = x->layout->dtype == MICA_F32 && (to == MICA_U8 || to == MICA_I8);
    mc_block block;
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = end - at < MC_BLOCK ? end - at : MC_BLOCK;
        if (bytes)
            kern->int_from_f32(n, to == MICA_I8, mc_block_f32(x, at, n, &block),
                               (uint8_t *)out->data + at);
        else if (narrow)
            kern->narrow_bf16(n, mc_block_f32(x, at, n, &block), (uint16_t *)out->data + at);
        else if (floats)
            mc_block_put_f32(out, at, n, mc_block_f32(x, at, n, &block));
        else
            mc_block_put_i64(out, at, n, mc_block_i64(x, at, n, &block));
    }
}

/* Rounds f32 rows, which may be apart, to bf16. */
static void round_rows(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const mc_call *call = *(const mc_call **)context;
    const mc_layout *x = call->in[0].layout;
    int last = x->ndim - 1;
    int64_t n = x->shape[last];
    mc_row_walk walk = mc_row_walk_begin(x, last, begin);
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&walk)) {
        mc_row_walk_fetch(&walk, call->in[0].data, n);
        mc_cpu_of(call)->kern->narrow_bf16(n, (const float *)call->in[0].data + walk.offset,
                                           (uint16_t *)call->out.data + r * n);
    }
}

mica_status mc_stage_astype(const mc_call *call, mc_stage *stage) {
    const mc_layout *x = call->in[0].layout;
    const mc_call **context = mc_stage_memory(stage, sizeof *context);
    if (!context) return MICA_OK;
    *context = call;
    if (call->axis != MC_BY_ELEMENT && is_rounding(call) && !mc_layout_is_dense(x) &&
        x->strides[x->ndim - 1] == 1) {
        int64_t rows = mc_row_count(x, x->ndim - 1);
        mc_stage_set(stage, round_rows, context, rows, 16384 / x->shape[x->ndim - 1]);
        return MICA_OK;
    }
    mc_stage_set(stage, astype_range, context, mc_layout_size(call->out.layout), 16384);
    return MICA_OK;
}

/* ---- E4M3: sign, 4 bits of exponent (bias 7), 3 of fraction; 0x7f is NaN, 448 the largest ---- */

/* To the nearest, ties to even; values beyond 448 become 448. */
static uint8_t to_fp8(float x) {
    uint8_t sign = signbit(x) ? 0x80 : 0;
    float a = fabsf(x);
    if (a != a) return sign | 0x7f;
    if (a >= 448.0f) return sign | 0x7e;
    if (a < 0x1p-6f) return sign | (uint8_t)rintf(a * 0x1p9f); /* subnormal: steps of 2^-9 */
    int e;
    float fraction = frexpf(a, &e);           /* a = fraction * 2^e, fraction in [0.5, 1) */
    int steps = (int)rintf(fraction * 16.0f); /* 8 to 16: the hidden bit and the fraction */
    /* A carry to 16 is the next exponent with fraction 0: addition does that by itself. */
    return sign | (uint8_t)(((e + 6) << 3) + steps - 8);
}

static float from_fp8(uint8_t code) {
    int exponent = code >> 3 & 15, fraction = code & 7;
    float a =
        exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf((float)(8 + fraction), exponent - 10);
    if ((code & 0x7f) == 0x7f) a = NAN;
    return code & 0x80 ? -a : a;
}

mica_status mc_eval_to_fp8(const mc_call *call) {
    const mc_operand *x = &call->in[0];
    int64_t size = mc_layout_size(x->layout);
    mc_block block;
    for (int64_t at = 0; at < size; at += MC_BLOCK) {
        int64_t n = size - at < MC_BLOCK ? size - at : MC_BLOCK;
        const float *v = mc_block_f32(x, at, n, &block);
        uint8_t *y = (uint8_t *)call->out.data + at;
        for (int64_t i = 0; i < n; i++)
            y[i] = to_fp8(v[i]);
    }
    return MICA_OK;
}

mica_status mc_eval_from_fp8(const mc_call *call) {
    const mc_operand *x = &call->in[0];
    int64_t size = mc_layout_size(x->layout);
    mc_block block;
    for (int64_t at = 0; at < size; at += MC_BLOCK) {
        int64_t n = size - at < MC_BLOCK ? size - at : MC_BLOCK;
        const uint8_t *codes = mc_block_raw(x, at, n, &block);
        for (int64_t i = 0; i < n; i++)
            block.as.f32[i] = from_fp8(codes[i]);
        mc_block_put_f32(&call->out, at, n, block.as.f32);
    }
    return MICA_OK;
}

/* ---- 8-bit rows (q8) ---- */

/* Rows [n] of floats, and q8 rows. */
typedef struct q8_work {
    const mc_call *call;
    float *scratch; /* [workers, n] */
    uint8_t *codes; /* [workers, bytes] */
    int64_t n, bytes;
} q8_work;

static void narrow_rows(void *context, int64_t begin, int64_t end, int worker) {
    const q8_work *work = context;
    const mk_kernels *kern = mc_cpu_of(work->call)->kern;
    const mc_operand *x = &work->call->in[0];
    int last = x->layout->ndim - 1;
    float *row = work->scratch + worker * work->n;
    for (int64_t r = begin; r < end; r++) {
        mc_widen(kern, x->layout->dtype, x->data, mc_row_offset(x->layout, last, r),
                 x->layout->strides[last], work->n, row);
        kern->narrow_q8(work->n, row, (uint8_t *)work->call->out.data + r * work->bytes);
    }
}

/* The bytes of row r, side by side. */
static const uint8_t *q8_row(const q8_work *work, int64_t r, int worker) {
    const mc_operand *x = &work->call->in[0];
    int last = x->layout->ndim - 1;
    int64_t stride = x->layout->strides[last];
    const uint8_t *row = (const uint8_t *)x->data + mc_row_offset(x->layout, last, r);
    if (stride == 1) return row;
    uint8_t *codes = work->codes + worker * work->bytes;
    for (int64_t i = 0; i < work->bytes; i++)
        codes[i] = row[i * stride];
    return codes;
}

static void widen_rows(void *context, int64_t begin, int64_t end, int worker) {
    const q8_work *work = context;
    const mk_kernels *kern = mc_cpu_of(work->call)->kern;
    const mc_operand *out = &work->call->out;
    float *row = work->scratch + worker * work->n;
    for (int64_t r = begin; r < end; r++) {
        const uint8_t *codes = q8_row(work, r, worker);
        kern->widen_q8(work->n, codes, codes + mk_q8_scales(work->n), row);
        mc_narrow(kern, out->layout->dtype, row, work->n, out->data, r * work->n);
    }
}

static mica_status run_rows(const mc_call *call, mc_stage *stage, int64_t n, mc_range_fn fn) {
    const mc_layout *l = call->out.layout;
    int64_t threads = mc_cpu_of(call)->threads, bytes = mk_q8_bytes(n);
    size_t floats = (size_t)(n * threads), codes = (size_t)(bytes * threads);
    q8_work *work = mc_stage_memory(stage, sizeof *work + floats * sizeof *work->scratch + codes);
    if (!work) return MICA_OK;
    float *scratch = (float *)(void *)(work + 1);
    *work = (q8_work){call, scratch, (uint8_t *)(scratch + floats), n, bytes};
    mc_stage_set(stage, fn, work, mc_row_count(l, l->ndim - 1), mc_grain(2 * n));
    return MICA_OK;
}

mica_status mc_stage_to_q8(const mc_call *call, mc_stage *stage) {
    const mc_layout *x = call->in[0].layout;
    return run_rows(call, stage, x->shape[x->ndim - 1], narrow_rows);
}

mica_status mc_stage_from_q8(const mc_call *call, mc_stage *stage) {
    const mc_attr_q8 *attr = call->attr;
    return run_rows(call, stage, attr->length, widen_rows);
}
