/* Random numbers from counters and keys: threefry 2x32 with 20 rounds. All ops but random_bits are
 * compositions of plain ops.
 *
 * Which counter makes which word, and how a word becomes a float, is as in MLX: one seed gives the
 * same numbers in both.
 *
 * source  Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". */
#include <mica/ops.h>

#include <math.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"
#include "op/gradient.h"

/* ---- bits and keys ---- */

static mica_status bits_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    const mc_attr_bits *a = attr;
    char text[MC_LAYOUT_TEXT];
    if (in[0]->dtype != MICA_U32 || in[0]->ndim != 1 || in[0]->shape[0] != 2)
        return mc_fail(MICA_ESHAPE, "random_bits: the key is %s; a key is u32[2]",
                       mc_layout_text(in[0], text));
    mica_dtype dtype = a->width_bytes == 4 ? MICA_U32 : a->width_bytes == 2 ? MICA_U16 : MICA_U8;
    if (dtype == MICA_U8 && a->width_bytes != 1)
        return mc_fail(MICA_EINVAL, "random_bits: width of %lld bytes; 1, 2 or 4 are possible",
                       (long long)a->width_bytes);
    MC_TRY(mc_set_result("random_bits", out, dtype, a->shape, a->ndim));
    if (mc_layout_bytes(out) / 4 >= (int64_t)UINT32_MAX)
        return mc_fail(MICA_EINVAL, "random_bits: %s needs more than 2^32 - 1 words of one key",
                       mc_layout_text(out, text));
    return MICA_OK;
}

MC_OP(random_bits, 1, 1, MC_ATTR(bits), .infer = bits_infer);
MC_NO_GRADIENT(random_bits, "its result are integers");

mica_array mica_random_bits(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                            int width_bytes) {
    mc_attr_bits attr = {.width_bytes = width_bytes, .ndim = ndim};
    if (ndim < 0 || ndim > MICA_MAX_NDIM)
        return mc_scope_fail(s, MICA_EINVAL, "random_bits: %d axes; 0 to %d are possible", ndim,
                             MICA_MAX_NDIM);
    if (ndim > 0 && !shape)
        return mc_scope_fail(s, MICA_EINVAL, "random_bits: the list of axes is NULL");
    for (int k = 0; k < ndim; k++)
        attr.shape[k] = shape[k];
    return mc_record(s, MC_OP_RANDOM_BITS, &attr, &key, 1);
}

mica_array mica_random_split(mica_scope *s, mica_array key, int64_t n) {
    return mica_random_bits(s, key, (const int64_t[]){n, 2}, 2, 4);
}

/* ---- uniform ---- */

/* Random f32 in [0, 1): word / 2^32, or the float before 1 where that rounds to 1. */
static mica_array unit(mica_scope *s, mica_array key, const int64_t *shape, int ndim) {
    mica_array words = mica_random_bits(s, key, shape, ndim, 4);
    mica_array u = mica_divide(s, mica_astype(s, words, MICA_F32), mica_f32(s, 0x1p32f));
    return mica_minimum(s, u, mica_f32(s, 1.0f - 0x1p-24f));
}

/* The greatest float of a dtype below 1. */
static double before_one(mica_dtype dtype) {
    switch (dtype) {
    case MICA_F16:
        return 1.0 - 0x1p-11;
    case MICA_BF16:
        return 1.0 - 0x1p-8;
    default:
        return 1.0 - 0x1p-24;
    }
}

mica_array mica_random_uniform(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                               mica_dtype dtype, double lo, double hi) {
    if (!mica_dtype_is_float(dtype))
        return mc_scope_fail(s, MICA_EDTYPE, "random_uniform: %s is not a float",
                             mica_dtype_name(dtype));
    mica_array u = mica_astype(s, unit(s, key, shape, ndim), dtype);
    u = mica_minimum(s, u, mica_scalar(s, before_one(dtype), dtype));
    mica_array from = mica_scalar(s, lo, dtype);
    mica_array range = mica_subtract(s, mica_scalar(s, hi, dtype), from);
    return mica_add(s, mica_multiply(s, u, range), from);
}

/* Random f32 in the open interval (-1, 1), for erfinv and log1p. */
static mica_array signed_unit(mica_scope *s, mica_array key, const int64_t *shape, int ndim) {
    return mica_random_uniform(s, key, shape, ndim, MICA_F32, -before_one(MICA_F32), 1.0);
}

/* ---- other distributions: drawn in f32 for every dtype ---- */

mica_array mica_random_normal(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                              mica_dtype dtype, double mean, double deviation) {
    mica_array y = mica_erfinv(s, signed_unit(s, key, shape, ndim));
    y = mica_multiply(s, mica_astype(s, y, dtype),
                      mica_scalar(s, 1.4142135623730951 * deviation, dtype));
    return mean == 0.0 ? y : mica_add(s, y, mica_scalar(s, mean, dtype));
}

/* The normal distribution between lo and hi: erfinv of a uniform draw between their erf. */
mica_array mica_random_truncated_normal(mica_scope *s, mica_array key, const int64_t *shape,
                                        int ndim, double lo, double hi) {
    const double root = 1.4142135623730951;
    mica_array u =
        mica_random_uniform(s, key, shape, ndim, MICA_F32, erf(lo / root), erf(hi / root));
    mica_array y = mica_multiply(s, mica_erfinv(s, u), mica_f32(s, (float)root));
    return mica_clip(s, y, mica_f32(s, (float)lo), mica_f32(s, (float)hi));
}

mica_array mica_random_randint(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                               int64_t lo, int64_t hi) {
    if (lo >= hi || lo < INT32_MIN || hi > INT32_MAX)
        return mc_scope_fail(s, MICA_EINVAL, "random_randint: [%lld, %lld) is not a range of i32",
                             (long long)lo, (long long)hi);
    mica_array u = mica_random_uniform(s, key, shape, ndim, MICA_F32, (double)lo, (double)hi);
    mica_array y = mica_astype(s, mica_floor(s, u), MICA_I32);
    /* f32 holds not all integers beyond 2^24: both ends may have been rounded outwards. */
    return mica_clip(s, y, mica_i32(s, (int32_t)lo), mica_i32(s, (int32_t)(hi - 1)));
}

mica_array mica_random_bernoulli(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                                 double p) {
    return mica_less(s, unit(s, key, shape, ndim), mica_f32(s, (float)p));
}

mica_array mica_random_gumbel(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                              mica_dtype dtype) {
    mica_array u = unit(s, key, shape, ndim);
    mica_array y = mica_negative(s, mica_log(s, mica_negative(s, mica_log(s, u))));
    return mica_astype(s, y, dtype);
}

mica_array mica_random_laplace(mica_scope *s, mica_array key, const int64_t *shape, int ndim,
                               mica_dtype dtype) {
    mica_array u = signed_unit(s, key, shape, ndim);
    mica_array tail = mica_log1p(s, mica_negative(s, mica_abs(s, u)));
    return mica_astype(s, mica_multiply(s, mica_sign(s, u), tail), dtype);
}

mica_array mica_random_permutation(mica_scope *s, mica_array key, int64_t n) {
    return mica_argsort(s, mica_random_bits(s, key, &n, 1, 4), 0);
}

/* argmax of logits plus gumbel noise: [..., V] or, for n samples, [..., V, n]. */
mica_array mica_random_categorical(mica_scope *s, mica_array key, mica_array logits, int64_t n) {
    mica_array in[2] = {key, logits};
    if (!mc_operands_ok(s, "random_categorical", in, 2)) return mc_invalid(s);
    const mc_layout *l = mc_layout_of(logits);
    char text[MC_LAYOUT_TEXT];
    if (l->ndim < 1 || l->ndim + (n > 0) > MICA_MAX_NDIM || n < 0)
        return mc_scope_fail(s, MICA_EINVAL, "random_categorical: %lld samples of logits %s",
                             (long long)n, mc_layout_text(l, text));
    int64_t shape[MICA_MAX_NDIM];
    int ndim = l->ndim;
    for (int k = 0; k < ndim; k++)
        shape[k] = l->shape[k];
    if (n > 0) {
        shape[ndim++] = n;
        logits = mica_expand_dims(s, logits, -1);
    }
    mica_array noise = mica_random_gumbel(s, key, shape, ndim, MICA_F32);
    return mica_argmax(s, mica_add(s, noise, logits), n > 0 ? -2 : -1, false);
}
