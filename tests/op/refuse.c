/* What a shape rule refuses: attributes and operands that no builder records, but a file may hold.
 * Whatever passes is read by views, decompositions and kernels without another look. */
#include "graph/attr.h"
#include "graph/graph.h"

#include "op/check.h"

#include <math.h>

#define HUGE_INT ((int64_t)1 << 32) /* 0 where it is cut to an int */

typedef struct operands {
    mica_array in[10];
    int n;
} operands;

static mica_array zeros(bench *b, mica_dtype dtype, const int64_t *shape, int ndim) {
    return mica_zeros(b->s, shape, ndim, dtype);
}

#define F32(...) zeros(b, MICA_F32, SHAPE(__VA_ARGS__))
#define I32(...) zeros(b, MICA_I32, SHAPE(__VA_ARGS__))
#define U32(...) zeros(b, MICA_U32, SHAPE(__VA_ARGS__))
#define U8(...) zeros(b, MICA_U8, SHAPE(__VA_ARGS__))
#define I8(...) zeros(b, MICA_I8, SHAPE(__VA_ARGS__))
#define BOOLS(...) zeros(b, MICA_BOOL, SHAPE(__VA_ARGS__))

/* The op over operands and an attribute, or none, fails with a text that has `part`. */
static void refuse(bench *b, mc_op op, const void *attr, const operands *in, const char *part) {
    mica_array x = mc_record(b->s, op, attr, in->in, in->n);
    if (mica_valid(x)) fail_msg("%s is recorded: %s", mc_op_get(op)->name, part);
    if (!strstr(mica_last_error(), part))
        fail_msg("%s: \"%s\" does not say \"%s\"", mc_op_get(op)->name, mica_last_error(), part);
    mc_scope_reset(b->s);
}

#define OPERANDS(...) \
    (&(operands){{__VA_ARGS__}, (int)(sizeof((mica_array[]){__VA_ARGS__}) / sizeof(mica_array))})
#define NOTHING (&(operands){.n = 0})
#define REFUSE(OP, attr, in, part) refuse(b, MC_OP_##OP, attr, in, part)

static void test_axes(void **state) {
    bench *b = *state;
    static const int64_t none[] = {-1, 2, HUGE_INT, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        mc_attr_axis at = {none[i]};
        REFUSE(CONCATENATE, &at, OPERANDS(F32(2, 3), F32(2, 3)), "there is no axis");
        REFUSE(TAKE, &at, OPERANDS(F32(2, 3), I32(4)), "there is no axis");
        REFUSE(TAKE_ALONG_AXIS, &at, OPERANDS(F32(2, 3), I32(2, 3)), "there is no axis");
        REFUSE(PUT_ALONG_AXIS, &at, OPERANDS(F32(2, 3), I32(2, 3), F32(2, 3)), "there is no axis");
        REFUSE(SLICE_UPDATE_AT, &at, OPERANDS(F32(2, 3), F32(2, 3), mica_i32(b->s, 0)),
               "there is no axis");
        REFUSE(TRANSPOSE, (&(mc_attr_transpose){{0, none[i]}}), OPERANDS(F32(2, 3)),
               "there is no axis");
    }
    REFUSE(CONCATENATE, &(mc_attr_axis){0}, OPERANDS(mica_f32(b->s, 1)), "there is no axis");
    REFUSE(TRANSPOSE, (&(mc_attr_transpose){{1, 1}}), OPERANDS(F32(2, 3)), "listed twice");
    static const int64_t masks[] = {4, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        static const mc_op reductions[] = {MC_OP_SUM,    MC_OP_PROD,   MC_OP_MAX,
                                           MC_OP_MIN,    MC_OP_ALL,    MC_OP_ANY,
                                           MC_OP_ARGMAX, MC_OP_ARGMIN, MC_OP_LOGSUMEXP};
        for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++)
            refuse(b, reductions[k], &(mc_attr_reduce){masks[i]}, OPERANDS(F32(2, 3)), "all axes");
    }
}

static void test_shapes(void **state) {
    bench *b = *state;
    static const int64_t ndims[] = {-1, 9, HUGE_INT + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof ndims / sizeof *ndims; i++) {
        mc_attr_shape shape = {ndims[i], {6}};
        mc_attr_strided strided = {.ndim = ndims[i], .shape = {1}, .strides = {1}};
        mc_attr_bits bits = {.width_bytes = 4, .ndim = ndims[i], .shape = {6}};
        REFUSE(RESHAPE, &shape, OPERANDS(F32(6)), "axes");
        REFUSE(BROADCAST_TO, &shape, OPERANDS(F32(6)), "axes");
        REFUSE(AS_STRIDED, &strided, OPERANDS(F32(6)), "axes");
        REFUSE(RANDOM_BITS, &bits, OPERANDS(U32(2)), "axes");
    }
    REFUSE(RESHAPE, (&(mc_attr_shape){1, {-6}}), OPERANDS(F32(6)), "negative");
    REFUSE(BROADCAST_TO, (&(mc_attr_shape){1, {-6}}), OPERANDS(F32(6)), "negative");
    REFUSE(RANDOM_BITS, (&(mc_attr_bits){HUGE_INT + 4, 1, {6}}), OPERANDS(U32(2)), "width");
    static const mc_attr_strided outside[] = {
        {1, {7}, {1}, 0},
        {1, {2}, {INT64_MIN}, 0},
        {1, {2}, {INT64_MAX}, 0},
        {1, {1}, {1}, 6},
        {1, {1}, {1}, -1},
        {1, {3}, {-1}, 1},
        {2, {3, 3}, {INT64_MAX, INT64_MAX}, 0},
    };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        REFUSE(AS_STRIDED, &outside[i], OPERANDS(F32(6)), "outside");
}

static void test_slices(void **state) {
    bench *b = *state;
    static const struct {
        int64_t start, step, count;
    } bad[] = {
        {-1, 1, 2},        {0, 1, 6},  {5, 1, 1},         {4, 1, 2},
        {0, -1, 2},        {0, 0, 2},  {1, 1, 0},         {0, 2, 0},
        {0, 2, 1},         {0, 3, 3},  {1, -1, 3},        {0, INT64_MAX, 3},
        {4, INT64_MIN, 2}, {0, 1, -1}, {0, 1, INT64_MIN}, {INT64_MIN, INT64_MAX, 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mc_attr_slice slice = {{0, bad[i].start}, {1, bad[i].step}, {2, bad[i].count}};
        REFUSE(SLICE, &slice, OPERANDS(F32(2, 5)), "slice: ");
        if (bad[i].count >= 0)
            REFUSE(SLICE_UPDATE, &slice, OPERANDS(F32(2, 5), F32(2, bad[i].count)),
                   "slice_update: ");
    }
}

static void test_gather_and_scatter(void **state) {
    bench *b = *state;
    static const mc_attr_gather bad[] = {
        {2, {0, 1}, {1, 1}},         {0, {0}, {1, 1}}, {-1, {0}, {1, 1}},
        {HUGE_INT + 1, {0}, {1, 1}}, {1, {2}, {1, 1}}, {1, {-1}, {1, 1}},
        {1, {HUGE_INT}, {1, 1}},     {1, {0}, {1, 4}}, {1, {0}, {2, 1}},
        {1, {0}, {1, -1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSE(GATHER, &bad[i], OPERANDS(F32(2, 3), I32(4)), "gather: ");
        mc_attr_scatter scatter = {bad[i].n, {bad[i].axes[0], bad[i].axes[1]}, 0};
        int64_t n = bad[i].slice_sizes[0], m = bad[i].slice_sizes[1];
        if (m >= 0)
            REFUSE(SCATTER, &scatter, OPERANDS(F32(2, 3), F32(4, n, m), I32(4)), "scatter: ");
    }
    mc_attr_gather twice = {2, {0, 0}, {1, 1}};
    REFUSE(GATHER, &twice, OPERANDS(F32(2, 3), I32(4), I32(4)), "listed twice");
    static const int64_t modes[] = {-1, 5, HUGE_INT, INT64_MIN};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        REFUSE(SCATTER, (&(mc_attr_scatter){1, {0}, modes[i]}),
               OPERANDS(F32(2, 3), F32(4, 1, 3), I32(4)), "no mode");
}

/* An operand that is absent, or too few of them, where a builder gives them all. */
static void test_operands(void **state) {
    bench *b = *state;
    REFUSE(CONCATENATE, &(mc_attr_axis){0}, OPERANDS(F32(2), MICA_NONE), "operand 1");
    REFUSE(GATHER, (&(mc_attr_gather){2, {0, 1}, {1, 1}}), OPERANDS(F32(2, 3), I32(4), MICA_NONE),
           "operand 2");
    REFUSE(SCATTER, (&(mc_attr_scatter){2, {0, 1}, 0}),
           OPERANDS(F32(2, 3), F32(4, 1, 1), I32(4), MICA_NONE), "operand 3");
    REFUSE(ROPE, (&(mc_attr_rope){4, 0, 1e4, 1}), OPERANDS(F32(2, 4), mica_i32(b->s, 0)),
           "2 operands");
    REFUSE(SDPA, &(mc_attr_sdpa){.scale = 1},
           OPERANDS(F32(1, 1, 1, 4), F32(1, 1, 1, 4), F32(1, 1, 1, 4)), "3 operands");
    const mica_array none = MICA_NONE;
    const mc_attr_sdpa sdpa = {.scale = 1};
    REFUSE(
        SDPA_GRADIENT, &sdpa,
        OPERANDS(F32(1, 1, 1, 4), F32(1, 1, 1, 4), F32(1, 1, 1, 4), none, none, none, none, none),
        "dy is absent");
    REFUSE(SDPA_GRADIENT, &sdpa,
           OPERANDS(F32(1, 1, 1, 4), F32(1, 1, 1, 4), F32(1, 1, 1, 4), none, none, none,
                    F32(1, 1, 4), none),
           "dy is f32[1,1,4] for a result f32[1,1,1,4]");
    REFUSE(SDPA_GRADIENT, &sdpa,
           OPERANDS(F32(1, 1, 1, 4), F32(1, 1, 1, 4), F32(1, 1, 1, 4), none, none, none,
                    F32(1, 1, 1, 4), F32(1, 1)),
           "dlse is f32[1,1]");
    REFUSE(SDPA_GRADIENT, &sdpa,
           OPERANDS(F32(1, 1, 1, 4), U8(1, 1, 1, 8), U8(1, 1, 1, 8), none, none, none,
                    F32(1, 1, 1, 4), none),
           "no floats");
    REFUSE(CROSS_ENTROPY, NULL, OPERANDS(I32(2, 3), I32(2)), "cross_entropy");
    REFUSE(CROSS_ENTROPY_GRADIENT, NULL, OPERANDS(F32(2, 3), I32(3), F32(2)),
           "without the last axis");
    REFUSE(CROSS_ENTROPY_GRADIENT, NULL, OPERANDS(F32(2, 3), I32(2), F32(3)), "dy is f32[3]");
    REFUSE(DEQUANTIZE, (&(mc_attr_quant){MICA_QUANT_MXFP4, 4, 32, 0, MICA_F32, 0}),
           OPERANDS(U32(2, 4), U8(2, 1)), "2 operands");
    REFUSE(RMS_NORM, &(mc_attr_norm){0}, OPERANDS(F32(2)), "1 operands");
    REFUSE(RMS_NORM_GRADIENT, &(mc_attr_norm){-1}, OPERANDS(F32(2), F32(2), MICA_NONE), "eps");
    REFUSE(RMS_NORM_GRADIENT, &(mc_attr_norm){0}, OPERANDS(F32(2, 3), F32(3), MICA_NONE),
           "dy is f32[3]");
    REFUSE(LAYER_NORM_GRADIENT, &(mc_attr_norm){0}, OPERANDS(F32(2), F32(2), F32(3)), "f32[3]");
}

/* Kernels have no loop for these. */
static void test_dtypes(void **state) {
    bench *b = *state;
    REFUSE(DIVIDE, NULL, OPERANDS(I32(2), I32(2)), "floats");
    REFUSE(LOGADDEXP, NULL, OPERANDS(I32(2), I32(2)), "floats");
    REFUSE(ARCTAN2, NULL, OPERANDS(BOOLS(2), BOOLS(2)), "floats");
    REFUSE(LOGICAL_AND, NULL, OPERANDS(F32(2), F32(2)), "bool");
    REFUSE(LOGICAL_OR, NULL, OPERANDS(I32(2), I32(2)), "bool");
    REFUSE(BITWISE_AND, NULL, OPERANDS(F32(2), F32(2)), "bits");
    REFUSE(BITWISE_OR, NULL, OPERANDS(F32(2), F32(2)), "bits");
    REFUSE(BITWISE_XOR, NULL, OPERANDS(F32(2), F32(2)), "bits");
    REFUSE(LEFT_SHIFT, NULL, OPERANDS(F32(2), F32(2)), "bits");
    REFUSE(RIGHT_SHIFT, NULL, OPERANDS(F32(2), F32(2)), "bits");
    REFUSE(LOGCUMSUMEXP, (&(mc_attr_scan){0, 1}), OPERANDS(I32(2)), "float");
    static const int64_t dtypes[] = {-1, MICA_DTYPE_COUNT, HUGE_INT + MICA_F32, INT64_MIN};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mc_attr_dtype dtype = {dtypes[i]};
        REFUSE(ASTYPE, &dtype, OPERANDS(F32(2)), "dtype");
        REFUSE(VIEW, &dtype, OPERANDS(F32(2)), "dtype");
        REFUSE(FROM_FP8, &dtype, OPERANDS(U8(2)), "dtype");
        REFUSE(FROM_Q8, (&(mc_attr_q8){4, dtypes[i]}), OPERANDS(U8(8)), "dtype");
        REFUSE(ARANGE, (&(mc_attr_range){0, 1, 3, dtypes[i]}), NOTHING, "dtype");
        mc_attr_quant quant = {MICA_QUANT_MXFP4, 4, 32, 0, dtypes[i], 0};
        REFUSE(DEQUANTIZE, &quant, OPERANDS(U32(2, 4), U8(2, 1), MICA_NONE), "not a float");
    }
}

static void test_numbers(void **state) {
    bench *b = *state;
    REFUSE(ARANGE, (&(mc_attr_range){NAN, 1, 3, MICA_I32}), NOTHING, "arange");
    REFUSE(ARANGE, (&(mc_attr_range){0, INFINITY, 3, MICA_I32}), NOTHING, "arange");
    REFUSE(ARANGE, (&(mc_attr_range){0, 1, -1, MICA_I32}), NOTHING, "arange");
    REFUSE(TOPK, &(mc_attr_topk){0}, OPERANDS(F32(3)), "topk");
    REFUSE(TOPK, &(mc_attr_topk){4}, OPERANDS(F32(3)), "topk");
    REFUSE(TOPK_INDICES, &(mc_attr_topk){0}, OPERANDS(F32(3)), "topk");
    REFUSE(TOPK_INDICES, &(mc_attr_topk){4}, OPERANDS(F32(3)), "topk");
    REFUSE(RMS_NORM, &(mc_attr_norm){NAN}, OPERANDS(F32(2), MICA_NONE), "eps");
    static const double bases[] = {0, -1, NAN};
    for (int i = 0; i < 3; i++)
        REFUSE(ROPE, (&(mc_attr_rope){4, 0, bases[i], 1}),
               OPERANDS(F32(2, 4), mica_i32(b->s, 0), MICA_NONE), "base");
    static const int64_t dims[] = {0, 3, 6, -2, HUGE_INT + 2};
    for (int i = 0; i < 5; i++)
        REFUSE(ROPE, (&(mc_attr_rope){dims[i], 0, 1e4, 1}),
               OPERANDS(F32(2, 4), mica_i32(b->s, 0), MICA_NONE), "elements");
    static const mc_attr_quant quants[] = {
        {-1, 4, 32, 0, 0, 0},       {4, 4, 32, 0, 0, 0},
        {HUGE_INT, 4, 32, 0, 0, 0}, {0, 0, 32, 0, 0, 0},
        {0, 7, 32, 0, 0, 0},        {0, HUGE_INT + 4, 32, 0, 0, 0},
        {0, 4, 0, 0, 0, 0},         {0, 4, HUGE_INT + 32, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof quants / sizeof *quants; i++) {
        REFUSE(DEQUANTIZE, &quants[i], OPERANDS(U32(2, 4), F32(2, 1), F32(2, 1)), "dequantize: ");
        REFUSE(QUANTIZED_MATMUL, &quants[i], OPERANDS(F32(2, 32), U32(2, 4), F32(2, 1), F32(2, 1)),
               "quantized_matmul: ");
    }
}

static void test_attention(void **state) {
    bench *b = *state;
    static const mc_attr_sdpa bad[] = {
        {1, 0, 1, HUGE_INT, 0},  {1, 0, 1, -1, 0}, {1, 0, 0, 1, 0},
        {1, 0, 1, 1, INT64_MAX}, {1, 0, 1, 0, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSE(SDPA, &bad[i],
               OPERANDS(F32(1, 1, 1, 4), F32(1, 1, 1, 4), F32(1, 1, 1, 4), MICA_NONE, MICA_NONE,
                        MICA_NONE),
               "must be 0");
    int64_t many = (int64_t)1 << 30;
    REFUSE(PAGED_SDPA, (&(mc_attr_sdpa){.scale = 1, .causal = 1}),
           OPERANDS(F32(1, 1, 1, 4), F32(1, 2, many, 4), F32(1, 2, many, 4), MICA_NONE, I32(1),
                    MICA_NONE, I32(1, 2)),
           "at most 2147483647 keys");
    REFUSE(PAGED_SDPA, (&(mc_attr_sdpa){.scale = 1, .causal = 1}),
           OPERANDS(F32(1, 1, 1, 4), F32(1, 2, 0, 4), F32(1, 2, 0, 4), MICA_NONE, I32(1), MICA_NONE,
                    I32(1, 2)),
           "with a block or more");
    REFUSE(PAGED_SDPA, (&(mc_attr_sdpa){.scale = 1, .causal = 1}),
           OPERANDS(F32(1, 1, 1, 4), F32(1, 2, 8, 4), F32(1, 2, 8, 4), MICA_NONE, I32(1), MICA_NONE,
                    MICA_NONE),
           "there is no table");
    REFUSE(KV_WRITE, NULL, OPERANDS(F32(1, 4, many, 1), F32(1, 1, 1, 1), I32(1, 1)),
           "1 to 2147483647 slots");
    REFUSE(SDPA, &(mc_attr_sdpa){.scale = 1},
           OPERANDS(F32(1, many, 1, 1), F32(1, 1, many, 1), F32(1, 1, many, 1), MICA_NONE,
                    MICA_NONE, MICA_NONE),
           "2^40 scores");
}

/* Numbers from which lengths are computed, and memory. */
static const int64_t far[] = {-1, 0, HUGE_INT, (int64_t)1 << 30, INT64_MIN, INT64_MAX};
enum { FAR = sizeof far / sizeof *far };

static void test_convolutions(void **state) {
    bench *b = *state;
    const mc_attr_conv plain = {1, {1}, {0}, {0}, {1}, {1}, 1, 0};
    for (int i = 0; i < FAR; i++) {
        mc_attr_conv a = plain;
        int64_t *const positive[] = {a.stride, a.kernel_dilation, a.input_dilation, &a.groups};
        static const char *const names[] = {"stride", "dilation", "base dilation", "groups"};
        for (int k = 0; k < 4; k++) {
            int64_t kept = *positive[k];
            *positive[k] = far[i];
            REFUSE(CONV_GENERAL, &a, OPERANDS(F32(1, 5, 2), F32(3, 2, 2)), names[k]);
            *positive[k] = kept;
        }
        if (far[i] == 0 || far[i] == -1) continue;
        a.padding_lo[0] = far[i];
        REFUSE(CONV_GENERAL, &a, OPERANDS(F32(1, 5, 2), F32(3, 2, 2)), "padding");
        a = plain;
        a.padding_hi[0] = far[i];
        REFUSE(CONV_GENERAL, &a, OPERANDS(F32(1, 5, 2), F32(3, 2, 2)), "padding");
        a = plain;
        a.spatial = far[i];
        REFUSE(CONV_GENERAL, &a, OPERANDS(F32(1, 5, 2), F32(3, 2, 2)), "attributes");
        a = plain;
        a.flip = far[i];
        REFUSE(CONV_GENERAL, &a, OPERANDS(F32(1, 5, 2), F32(3, 2, 2)), "attributes");
    }
    REFUSE(CONV_GENERAL, &plain, OPERANDS(F32(1, 5, 2), F32(3, 0, 2)), "window 0");
    REFUSE(CONV_GENERAL, &plain, OPERANDS(F32(1, 5, 2), F32(3, 2, 1)), "last axis");
    REFUSE(CONV_GENERAL, &plain, OPERANDS(F32(5, 2), F32(3, 2)), "3, 4 or 5 axes");
    REFUSE(CONV_GENERAL, &plain, OPERANDS(F32(1, 1, 5, 2), F32(3, 1, 2, 2)), "attributes");
    REFUSE(CONV_GENERAL, &plain, OPERANDS(I32(1, 5, 2), F32(3, 2, 2)), "floats");
    REFUSE(CONV_GENERAL, &plain, OPERANDS(F32(1, 5, 2)), "1 operands");
}

static void test_windows(void **state) {
    bench *b = *state;
    const mc_attr_window plain = {MICA_WINDOW_SUM, 1, 2, 1, 1, 1, 0, 0};
    for (int i = 0; i < FAR; i++) {
        mc_attr_window a = plain;
        int64_t *const positive[] = {&a.size, &a.stride, &a.dilation, &a.base};
        static const char *const names[] = {"window", "stride", "dilation", "base dilation"};
        for (int k = 0; k < 4; k++) {
            int64_t kept = *positive[k];
            *positive[k] = far[i];
            REFUSE(REDUCE_WINDOW, &a, OPERANDS(F32(2, 5)), names[k]);
            *positive[k] = kept;
        }
        if (far[i] == 0) continue;
        a.kind = far[i];
        REFUSE(REDUCE_WINDOW, &a, OPERANDS(F32(2, 5)), "there is no kind");
        a = plain;
        a.axis = far[i];
        REFUSE(REDUCE_WINDOW, &a, OPERANDS(F32(2, 5)), "there is no axis");
        if (far[i] == -1) continue;
        a = plain;
        a.lo = far[i];
        REFUSE(REDUCE_WINDOW, &a, OPERANDS(F32(2, 5)), "padding");
        a = plain;
        a.hi = far[i];
        REFUSE(REDUCE_WINDOW, &a, OPERANDS(F32(2, 5)), "padding");
    }
    REFUSE(REDUCE_WINDOW, (&(mc_attr_window){MICA_WINDOW_MEAN, 1, 2, 1, 1, 1, 0, 0}),
           OPERANDS(F32(2, 5)), "there is no kind 4");
    REFUSE(REDUCE_WINDOW, &plain, OPERANDS(mica_zeros(b->s, SHAPE(2, 5), MICA_C64)), "complex");
}

static void test_transforms(void **state) {
    bench *b = *state;
    for (int i = 0; i < FAR; i++)
        if (far[i] != 0)
            REFUSE(FFT, &(mc_attr_fft){far[i]}, OPERANDS(F32(3, 4, 2)), "inverse must be 0 or 1");
    REFUSE(FFT, &(mc_attr_fft){0}, OPERANDS(F32(3, 4)), "no rows of pairs");
    REFUSE(FFT, &(mc_attr_fft){0}, OPERANDS(F32(2)), "no rows of pairs");
    REFUSE(FFT, &(mc_attr_fft){0}, OPERANDS(I32(4, 2)), "no rows of pairs");
    REFUSE(FFT, &(mc_attr_fft){1}, OPERANDS(F32((int64_t)1 << 30, 2)), "2^30 - 1 numbers");
    REFUSE(SELECTIVE_SCAN, NULL,
           OPERANDS(F32(1, 3, 2), F32(1, 3, 2), F32(2, 4), F32(1, 3, 4), F32(1, 3, 5), MICA_NONE),
           "C is f32[1,3,5]");
    REFUSE(SELECTIVE_SCAN, NULL,
           OPERANDS(F32(1, 3, 2), F32(1, 3, 2), F32(3, 4), F32(1, 3, 4), F32(1, 3, 4), MICA_NONE),
           "[B, L, H] and [H, N] are needed");
    REFUSE(GATED_DELTA, NULL,
           OPERANDS(F32(1, 3, 2, 4), F32(1, 3, 2, 4), F32(1, 3, 2, 5), F32(1, 3, 2), F32(1, 3, 1),
                    MICA_NONE),
           "beta is f32[1,3,1]");
}

static int open_bench(void **state) {
    static bench b;
    b = bench_open();
    *state = &b;
    return 0;
}

static int close_bench(void **state) {
    bench_close(*state);
    return 0;
}

/* The node of an op of two results. */
static mica_array two_results(bench *b) {
    mica_array x = F32(3);
    return mc_record(b->s, MC_OP_TOPK_INDICES, &(mc_attr_topk){1}, &x, 1);
}

static void test_parts(void **state) {
    bench *b = *state;
    static const int64_t none[] = {-1, 2, HUGE_INT, INT64_MIN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        REFUSE(PART, &(mc_attr_part){none[i]}, OPERANDS(two_results(b)), "not that part");
    REFUSE(PART, &(mc_attr_part){0}, OPERANDS(F32(3)), "operand 0");
    REFUSE(NEGATIVE, NULL, OPERANDS(two_results(b)), "has several results");
    REFUSE(ADD, NULL, OPERANDS(F32(1), two_results(b)), "operand 1 has several results");
}

static void test_integers(void **state) {
    bench *b = *state;
    const mc_attr_conv plain = {1, {1}, {0}, {0}, {1}, {1}, 1, 0};
    const mica_array none = MICA_NONE;
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(I8(3, 4), I8(2, 4), none, none, none, none), "is not u8");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), U8(2, 4), none, none, none, none), "is not i8");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 3), none, none, none, none),
           "do not fit");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(3, 2, 4), none, none, none, none),
           "do not fit");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 4), none, I32(2), none, none),
           "needs sums");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 4), none, none, none, F32(2)),
           "a bias a scale");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 4), I32(1), I32(2), none, none),
           "does not fit");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 4), none, none, F32(3), none),
           "does not fit");
    REFUSE(INTEGER_MATMUL, NULL, OPERANDS(U8(3, 4), I8(2, 4), none, none, F32(2), F32(1)),
           "does not fit");
    for (int i = 0; i < FAR; i++) {
        mc_attr_conv a = plain;
        a.groups = far[i];
        REFUSE(INTEGER_CONV, &a, OPERANDS(U8(1, 5, 4), I8(2, 2, 4), none, none, none, none),
               "groups");
        a = plain;
        a.stride[0] = far[i];
        REFUSE(INTEGER_CONV, &a, OPERANDS(U8(1, 5, 4), I8(2, 2, 4), none, none, none, none),
               "stride");
    }
    REFUSE(INTEGER_CONV, &((mc_attr_conv){1, {1}, {0}, {0}, {1}, {2}, 1, 0}),
           OPERANDS(U8(1, 5, 4), I8(2, 2, 4), none, none, none, none), "input dilation");
    REFUSE(INTEGER_CONV, &((mc_attr_conv){1, {1}, {0}, {0}, {1}, {1}, 1, 1}),
           OPERANDS(U8(1, 5, 4), I8(2, 2, 4), none, none, none, none), "attributes");
}

static void test_requirements(void **state) {
    bench *b = *state;
    static const int64_t none[] = {-1, MC_REQUIRE_COUNT, HUGE_INT, INT64_MIN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        REFUSE(REQUIRE, &(mc_attr_require){.what = none[i]}, OPERANDS(F32(3), BOOLS(3)),
               "the number");
    REFUSE(REQUIRE, &(mc_attr_require){.what = 0}, OPERANDS(F32(3), F32(3)), "is not bool");
    REFUSE(REQUIRE, &(mc_attr_require){.axis = 1}, OPERANDS(F32(3), BOOLS(3)), "no axis 1");
    REFUSE(DENSE_SOLVE, NULL, OPERANDS(F32(2, 3), F32(2, 3)), "are needed");
    REFUSE(DENSE_SOLVE, NULL, OPERANDS(F32(2, 3, 3), F32(3, 3, 1)), "are needed");
    REFUSE(CUSTOM, &(mc_attr_custom){.op = 17}, OPERANDS(F32(2)), "no op with the number 17");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes),         cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_slices),       cmocka_unit_test(test_gather_and_scatter),
        cmocka_unit_test(test_operands),     cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_attention),
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_parts),
        cmocka_unit_test(test_requirements), cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_windows),      cmocka_unit_test(test_transforms),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
