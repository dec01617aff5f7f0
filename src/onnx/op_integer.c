/* Products of integers: MatMulInteger, ConvInteger, their forms with scales, and products of what
 * was dequantised.
 *
 * Activations become u8 and weights i8, by an offset of 128 of both a value and its zero point.
 * Weights [N, K] and their sums are made once, while importing. What an exporter writes behind a
 * product (Cast to f32, Mul by a scale, Add of a bias) becomes a part of it; the plain product is
 * left to nobody then, and is gone. */
#include "onnx/window.h"

#include "base/alloc.h"
#include "graph/dim.h"
#include "op/integer.h"

#include <mica/ops.h>

#include <string.h>

struct mc_onnx_product {
    mica_array x, w;
    bool conv; /* with the channels last */
    bool cast; /* the result is f32 */
    mica_conv_options options;
    mc_integer_rest rest;
};

/* A factor: integers, and its zero point. */
typedef struct factor {
    mica_array q, zero; /* zero i32, or none: 0 */
} factor;

/* ---- factors ---- */

static bool is_byte(mica_array x) {
    return mica_array_dtype(x) == MICA_I8 || mica_array_dtype(x) == MICA_U8;
}

static bool is_known(const mc_onnx_node *n, mica_array x) {
    return x.scope == n->import->constants;
}

/* Bytes with the offset of 128 that makes u8 of i8, and i8 of u8. */
static mica_array flip_sign(mica_scope *s, mica_array x) {
    mica_dtype to = mica_array_dtype(x) == MICA_I8 ? MICA_U8 : MICA_I8;
    mica_array bits = mica_view(s, x, MICA_U8);
    return mica_view(s, mica_bitwise_xor(s, bits, mica_scalar(s, 128, MICA_U8)), to);
}

/* Whether all of a known array of integers are one value; false where it is not known. */
static mica_status are_all(const mc_onnx_node *n, mica_array x, int32_t value, bool *all) {
    *all = false;
    if (!is_known(n, x)) return MICA_OK;
    size_t count = (size_t)mica_array_size(x);
    int32_t *numbers = mc_array_alloc(count + 1, sizeof *numbers);
    if (!numbers) return mc_fail_nomem("a zero point");
    mica_array wide = mica_astype(n->import->constants, x, MICA_I32);
    mica_status status = mica_read(wide, numbers, count * sizeof *numbers);
    *all = status == MICA_OK;
    for (size_t i = 0; *all && i < count; i++)
        *all = numbers[i] == value;
    mc_free(numbers);
    return status;
}

/* x as u8 or i8 with its zero point, which may be none. */
static mica_status factor_of(mc_onnx_node *n, mica_array x, mica_array zero, mica_dtype dtype,
                             factor *f) {
    bool flips = mica_array_dtype(x) != dtype, none = false;
    int32_t offset = !flips ? 0 : dtype == MICA_U8 ? 128 : -128;
    *f = (factor){.q = flips ? flip_sign(n->s, x) : x};
    if (zero.scope && mica_array_dtype(zero) != mica_array_dtype(x))
        return mc_fail(MICA_EFORMAT, "a zero point is %s, and what it belongs to %s",
                       mica_dtype_name(mica_array_dtype(zero)),
                       mica_dtype_name(mica_array_dtype(x)));
    if (zero.scope) MC_TRY(are_all(n, zero, -offset, &none));
    if (none || (!zero.scope && offset == 0)) return MICA_OK;
    f->zero = zero.scope ? mica_astype(n->s, zero, MICA_I32) : mica_i32(n->s, 0);
    if (mica_array_size(f->zero) == 1) f->zero = mica_reshape(n->s, f->zero, NULL, 0);
    if (offset != 0) f->zero = mica_add(n->s, f->zero, mica_i32(n->s, offset));
    return mica_scope_status(n->s);
}

/* ---- weights ---- */

enum { AS_THEY_ARE, TURNED, CHANNELS_LAST };

/* Weights as i8 [.., N, K], or [O, .., C] of a convolution. */
static mica_array arranged(mica_scope *s, mica_array w, int how) {
    if (mica_array_dtype(w) == MICA_U8) w = flip_sign(s, w);
    if (how == TURNED) w = mica_swapaxes(s, w, -1, -2);
    if (how == CHANNELS_LAST) w = mc_onnx_to_last(s, w);
    return w;
}

/* The sums of weights over their last axes, all but n_lead. */
static mica_array sums_of(mica_scope *s, mica_array w, int n_lead) {
    int axes[MICA_MAX_NDIM], count = 0;
    for (int k = n_lead; k < mica_array_ndim(w); k++)
        axes[count++] = k;
    return mica_sum(s, mica_astype(s, w, MICA_I32), axes, count, false);
}

static mica_status keep(mc_onnx_node *n, mica_array *x) {
    mica_scope *s = n->import->constants;
    *x = mica_contiguous(s, *x);
    MC_TRY(mica_eval(s, *x));
    return mc_onnx_hold(n->import, *x);
}

/* Weights and their sums; of known ones both are computed now. n_lead: axes of w that are not
 * summed over; 0: all but the last. */
static mica_status weights_of(mc_onnx_node *n, mica_array from, int how, int n_lead, mica_array *w,
                              mica_array *sums) {
    bool known = is_known(n, from) && mica_array_bytes(from) <= n->import->fold_left;
    mica_scope *s = known ? n->import->constants : n->s;
    *w = arranged(s, from, how);
    if (known) MC_TRY(mc_onnx_charge(n->import, mica_array_bytes(from)));
    if (known) MC_TRY(keep(n, w));
    *sums = sums_of(s, *w, n_lead > 0 ? n_lead : mica_array_ndim(*w) - 1);
    return known ? keep(n, sums) : mica_scope_status(s);
}

/* ---- products ---- */

static mica_status give_product(mc_onnx_node *n, const mc_onnx_product *p) {
    mc_onnx_product *kept = mc_arena_alloc(&n->import->arena, sizeof *kept);
    if (!kept) return mc_fail_nomem("a product");
    *kept = *p;
    mica_array y = p->conv ? mc_integer_conv(n->s, p->x, p->w, &p->options, &p->rest)
                           : mc_integer_matmul(n->s, p->x, p->w, &p->rest);
    if (p->cast && !p->rest.scale.scope) y = mica_astype(n->s, y, MICA_F32);
    MC_TRY(p->conv ? mc_onnx_give_last(n, 0, y) : mc_onnx_give(n, 0, y));
    n->out[0].product = kept;
    return MICA_OK;
}

/* Sums of the rows of x: [.., 1]. */
static mica_array row_sums(mica_scope *s, const mc_onnx_product *p) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(p->w);
    for (int k = 0; k < ndim; k++)
        shape[k] = k == ndim - 2 ? 1 : mica_array_dim(p->w, k);
    mica_array ones = mica_full(s, shape, ndim, mica_scalar(s, 1, MICA_I8));
    return mc_integer_matmul(s, p->x, ones, &(mc_integer_rest){.scale = MICA_NONE});
}

/* Terms of a product whose corrections f32 holds: each is a sum of so many products of 255 and 128
 * at most. */
enum { EXACT_TERMS = (1 << 24) / (255 * 128) };

/* The same numbers as below, where operands are numbers: a difference of integers that f32 holds is
 * rounded once, as the integer is. What follows the product goes element by element in f32, which
 * kernels do while they have its result in a near cache. */
static mica_status give_corrected_floats(mc_onnx_node *n, const mc_onnx_product *p, const factor *a,
                                         mica_array w_zero, mica_array sums) {
    mica_scope *s = n->s;
    mc_integer_rest rest = {.zero = a->zero, .scale = mica_f32(s, 1)};
    if (a->zero.scope) rest.sums = sums;
    mica_array moved = row_sums(s, p), depth = mica_i32(s, (int32_t)mica_array_dim(p->x, -1));
    if (a->zero.scope) moved = mica_subtract(s, moved, mica_multiply(s, depth, a->zero));
    moved = mica_astype(s, mica_multiply(s, moved, w_zero), MICA_F32);
    mica_array y = mica_subtract(s, mc_integer_matmul(s, p->x, p->w, &rest), moved);
    y = mica_multiply(s, y, p->rest.scale);
    if (p->rest.bias.scope) y = mica_add(s, y, p->rest.bias);
    return mc_onnx_give(n, 0, y);
}

/* The result where zero points need more than a product has: of i32, or of f32 with a scale. */
static mica_status give_corrected(mc_onnx_node *n, const mc_onnx_product *p, const factor *a,
                                  mica_array w_zero, mica_array sums) {
    mica_scope *s = n->s;
    mica_array y = mc_integer_matmul(s, p->x, p->w, &(mc_integer_rest){.scale = MICA_NONE});
    mica_array a_zero = a->zero, moved = MICA_NONE;
    if (mica_array_ndim(p->w) > 2) sums = mica_expand_dims(s, sums, -2);
    if (a_zero.scope && mica_array_ndim(a_zero) == 1) a_zero = mica_expand_dims(s, a_zero, -1);
    if (a_zero.scope) y = mica_subtract(s, y, mica_multiply(s, a_zero, sums));
    if (w_zero.scope) {
        moved = row_sums(s, p);
        mica_array depth = mica_scalar(s, (double)mica_array_dim(p->x, -1), MICA_I32);
        if (a_zero.scope) moved = mica_subtract(s, moved, mica_multiply(s, depth, a_zero));
        y = mica_subtract(s, y, mica_multiply(s, moved, w_zero));
    }
    if (!p->rest.scale.scope) return mc_onnx_give(n, 0, y);
    y = mica_multiply(s, mica_astype(s, y, MICA_F32), p->rest.scale);
    if (p->rest.bias.scope) y = mica_add(s, y, p->rest.bias);
    return mc_onnx_give(n, 0, y);
}

/* A factor before its form is made. */
typedef struct operand {
    mica_array q, zero;
} operand;

/* Gives the product of matrices a [.., K] by b [.., K, N], or [.., N, K] as `how` says, with scale
 * and bias, which may be none. */
static mica_status give_matmul(mc_onnx_node *n, operand a, operand b, int how, mica_array scale,
                               mica_array bias) {
    factor x, w;
    mica_array sums;
    mc_onnx_product p = {.rest = {.scale = scale, .bias = bias}};
    MC_TRY(factor_of(n, a.q, a.zero, MICA_U8, &x));
    MC_TRY(factor_of(n, b.q, b.zero, MICA_I8, &w));
    MC_TRY(weights_of(n, b.q, how, 0, &p.w, &sums));
    p.x = x.q;
    bool rows = x.zero.scope && mica_array_ndim(x.zero) > 0;
    if (!rows && w.zero.scope && mica_array_ndim(w.zero) == 0 && scale.scope &&
        mica_array_dim(p.x, -1) <= EXACT_TERMS)
        return give_corrected_floats(n, &p, &x, w.zero, sums);
    if (rows || w.zero.scope) return give_corrected(n, &p, &x, w.zero, sums);
    p.rest.zero = x.zero;
    if (x.zero.scope) p.rest.sums = sums;
    return give_product(n, &p);
}

/* Whether the kernels multiply these shapes. */
static bool can_multiply(mica_array a, mica_array b) {
    int an = mica_array_ndim(a), bn = mica_array_ndim(b);
    if (!is_byte(a) || !is_byte(b) || bn < 2 || an < 1 || (bn > 2 && an != bn)) return false;
    for (int k = 0; bn > 2 && k < bn - 2; k++)
        if (mica_array_dim(a, k) != mica_array_dim(b, k)) return false;
    return true;
}

mica_status mc_onnx_matmul_integer(mc_onnx_node *n) {
    operand a = {n->in[0].x, mc_onnx_x(n, 2)}, b = {n->in[1].x, mc_onnx_x(n, 3)};
    if (!can_multiply(a.q, b.q)) return mc_onnx_refuse("products of these shapes or dtypes");
    return give_matmul(n, a, b, TURNED, MICA_NONE, MICA_NONE);
}

/* A product of scales, each [] or [N]; those of one element become []. */
static mica_array product_of(mc_onnx_node *n, mica_array a, mica_array b) {
    mica_array y = mica_multiply(n->s, mc_onnx_as_f32(n, a), mc_onnx_as_f32(n, b));
    return mica_array_size(y) == 1 ? mica_reshape(n->s, y, NULL, 0) : y;
}

/* f32 multiples of the result's scale as its dtype. */
static mica_array rounded(mc_onnx_node *n, mica_array y, mica_array zero) {
    mica_array moved = zero.scope ? mc_onnx_as_f32(n, zero) : MICA_NONE;
    if (moved.scope && mica_array_size(moved) == 1) moved = mica_reshape(n->s, moved, NULL, 0);
    return mc_onnx_quantised(n, y, MICA_NONE, moved, zero.scope ? mica_array_dtype(zero) : MICA_U8);
}

mica_status mc_onnx_qlinear_matmul(mc_onnx_node *n) {
    operand a = {n->in[0].x, n->in[2].x}, b = {n->in[3].x, n->in[5].x};
    mica_array zero = n->in[7].x, scale = n->in[1].x, w_scale = n->in[4].x;
    if (!can_multiply(a.q, b.q)) return mc_onnx_refuse("products of these shapes or dtypes");
    bool rows = mica_array_size(scale) > 1; /* a scale for each row of a */
    if (rows) scale = mica_expand_dims(n->s, scale, -1);
    scale = product_of(n, scale, w_scale);
    scale = mica_divide(n->s, scale, mc_onnx_as_f32(n, n->in[6].x));
    if (mica_array_size(scale) == 1) scale = mica_reshape(n->s, scale, NULL, 0);
    MC_TRY(give_matmul(n, a, b, TURNED, rows ? MICA_NONE : scale, MICA_NONE));
    mica_array y = n->out[0].x;
    if (rows) y = mica_multiply(n->s, mc_onnx_as_f32(n, y), scale);
    return mc_onnx_give(n, 0, rounded(n, y, zero));
}

/* ---- convolutions ---- */

/* Sums of x - zero over each window, of each group, for all of its columns: [.., O] i32. */
static mica_array window_sums(mc_onnx_node *n, const mc_onnx_product *p) {
    mica_scope *s = n->s;
    int64_t shape[MICA_MAX_NDIM], groups = p->options.groups;
    int ndim = mica_array_ndim(p->w);
    for (int k = 0; k < ndim; k++)
        shape[k] = k == 0 ? groups : mica_array_dim(p->w, k);
    mica_array ones = mica_full(s, shape, ndim, mica_scalar(s, 1, MICA_I8));
    mc_integer_rest rest = {.zero = p->rest.zero};
    if (rest.zero.scope) rest.sums = sums_of(s, ones, 1);
    mica_array y = mc_integer_conv(s, p->x, ones, &p->options, &rest);
    return mica_repeat(s, y, mc_dim_div(mica_array_dim(p->w, 0), groups), -1);
}

/* The result where weights have a zero point, one or one for each column. */
static mica_status give_corrected_conv(mc_onnx_node *n, const mc_onnx_product *p, mica_array zero) {
    mica_scope *s = n->s;
    const mc_integer_rest rest = {.zero = p->rest.zero, .sums = p->rest.sums};
    mica_array y = mc_integer_conv(s, p->x, p->w, &p->options, &rest);
    y = mica_subtract(s, y, mica_multiply(s, window_sums(n, p), zero));
    if (p->rest.scale.scope) y = mica_multiply(s, mica_astype(s, y, MICA_F32), p->rest.scale);
    if (p->rest.bias.scope) y = mica_add(s, y, p->rest.bias);
    return mc_onnx_give_last(n, 0, y);
}

/* x and its zero point, with the channels last; w [O, C / groups, ..]. */
static mica_status give_conv(mc_onnx_node *n, operand x, operand w, const mica_conv_options *o,
                             mica_array scale, mica_array bias) {
    factor a, b;
    mica_array sums;
    mc_onnx_product p = {.conv = true, .options = *o, .rest = {.scale = scale, .bias = bias}};
    MC_TRY(factor_of(n, x.q, x.zero, MICA_U8, &a));
    MC_TRY(factor_of(n, w.q, w.zero, MICA_I8, &b));
    MC_TRY(weights_of(n, w.q, CHANNELS_LAST, 1, &p.w, &sums));
    p.x = a.q;
    p.rest.zero = a.zero;
    if (a.zero.scope) p.rest.sums = sums;
    return b.zero.scope ? give_corrected_conv(n, &p, b.zero) : give_product(n, &p);
}

static mica_status check_conv(const mc_onnx_node *n, mica_array x, mica_array w, mica_array zero) {
    if (mica_array_ndim(w) != mica_array_ndim(x))
        return mc_fail(MICA_ESHAPE, "its weights have another number of axes than its operand");
    if (!is_byte(x) || !is_byte(w)) return mc_onnx_refuse("convolutions of this dtype");
    if (zero.scope && mica_array_size(zero) != 1)
        return mc_fail(MICA_ESHAPE, "the zero point of its operand is no number");
    (void)n;
    return MICA_OK;
}

mica_status mc_onnx_conv_integer(mc_onnx_node *n) {
    operand x = {mc_onnx_last(n, 0), mc_onnx_x(n, 2)}, w = {n->in[1].x, mc_onnx_x(n, 3)};
    mica_conv_options options = {.groups = 1};
    MC_TRY(check_conv(n, x.q, w.q, x.zero));
    MC_TRY(mc_onnx_read_conv(n, w.q, &options));
    return give_conv(n, x, w, &options, MICA_NONE, MICA_NONE);
}

mica_status mc_onnx_qlinear_conv(mc_onnx_node *n) {
    operand x = {mc_onnx_last(n, 0), n->in[2].x}, w = {n->in[3].x, n->in[5].x};
    mica_array scale = product_of(n, n->in[1].x, n->in[4].x), bias = mc_onnx_x(n, 8);
    mica_array zero = n->in[7].x;
    mica_conv_options options = {.groups = 1};
    MC_TRY(check_conv(n, x.q, w.q, x.zero));
    MC_TRY(mc_onnx_read_conv(n, w.q, &options));
    scale = product_of(n, scale, mica_reciprocal(n->s, mc_onnx_as_f32(n, n->in[6].x)));
    if (bias.scope) bias = mica_multiply(n->s, mc_onnx_as_f32(n, bias), scale);
    MC_TRY(give_conv(n, x, w, &options, scale, bias));
    return mc_onnx_give_last(n, 0, rounded(n, n->out[0].last, zero));
}

/* ---- of what was dequantised ---- */

static bool is_vector(mica_array x, int64_t length) {
    return mica_array_dtype(x) == MICA_F32 && mica_array_size(x) == length &&
           mica_array_ndim(x) > 0 && mica_array_dim(x, -1) == length;
}

mica_status mc_onnx_steps_matmul(mc_onnx_node *n, bool w_rows, size_t bias, bool *done) {
    const mc_onnx_steps *a = n->in[0].steps, *b = n->in[1].steps;
    *done = false;
    if (!a || !b || a->axis >= 0 || b->block > 0 || mica_array_dtype(a->scale) != MICA_F32 ||
        mica_array_dtype(b->scale) != MICA_F32)
        return MICA_OK;
    int ndim = mica_array_ndim(b->q), column = ndim - (w_rows ? 2 : 1);
    if (!can_multiply(a->q, b->q) || (b->axis >= 0 && (b->axis != column || ndim != 2)))
        return MICA_OK;
    mica_array add = bias > 0 ? mc_onnx_x(n, bias) : MICA_NONE;
    int64_t columns = mica_array_dim(b->q, column);
    bool joins = add.scope && is_vector(add, columns);
    if (joins) add = mica_reshape(n->s, add, &columns, 1);
    MC_TRY(give_matmul(n, (operand){a->q, a->zero}, (operand){b->q, b->zero},
                       w_rows ? AS_THEY_ARE : TURNED, product_of(n, a->scale, b->scale),
                       joins ? add : MICA_NONE));
    if (add.scope && !joins) MC_TRY(mc_onnx_give(n, 0, mica_add(n->s, n->out[0].x, add)));
    *done = true;
    return MICA_OK;
}

mica_status mc_onnx_steps_conv(mc_onnx_node *n, const mica_conv_options *options, bool *done) {
    const mc_onnx_steps *x = n->in[0].steps, *w = n->in[1].steps;
    *done = false;
    if (!x || !w || x->axis >= 0 || w->axis > 0 || w->block > 0 ||
        mica_array_dtype(x->scale) != MICA_F32 || mica_array_dtype(w->scale) != MICA_F32)
        return MICA_OK;
    mica_array bias = mc_onnx_x(n, 2), q = x->last.scope ? x->last : mc_onnx_to_last(n->s, x->q);
    if (bias.scope && mica_array_dtype(bias) != MICA_F32) return MICA_OK;
    *done = true;
    return give_conv(n, (operand){q, x->zero}, (operand){w->q, w->zero}, options,
                     product_of(n, x->scale, w->scale), bias);
}

/* ---- what follows a product ---- */

/* The operand that is a product which nothing else reads; -1: none is. */
static int find_product(const mc_onnx_node *n) {
    for (int i = 0; i < (int)n->n_in && i < 2; i++)
        if (n->in[i].product && mc_onnx_used_once(n, (size_t)i)) return i;
    return -1;
}

/* An operand that a product takes as its scale or bias: [] or [N]. false: it has another shape. */
static bool for_columns(mc_onnx_node *n, const mc_onnx_product *p, mica_array y, mica_array x,
                        bool number, mica_array *out) {
    int ndim = mica_array_ndim(y), own = mica_array_ndim(x);
    int channel = p->conv ? own - (ndim - 1) : own - 1; /* [N, C, ..], or the last axis */
    int64_t columns = mica_array_dim(p->w, p->conv ? 0 : -2), size = mica_array_size(x);
    if (mica_array_dtype(x) != MICA_F32 || own > ndim) return false;
    if (size == 1 && number) {
        *out = mica_reshape(n->s, x, NULL, 0);
        return true;
    }
    if (size != columns || channel < 0 || mica_array_dim(x, channel) != columns) return false;
    *out = mica_reshape(n->s, x, &columns, 1);
    return true;
}

mica_status mc_onnx_join_cast(mc_onnx_node *n, mica_dtype dtype, bool *done) {
    *done = dtype == MICA_F32 && find_product(n) == 0 && !n->in[0].product->cast &&
            !n->in[0].product->rest.scale.scope;
    if (!*done) return MICA_OK;
    mc_onnx_product p = *n->in[0].product;
    p.cast = true;
    return give_product(n, &p);
}

mica_status mc_onnx_join_scale(mc_onnx_node *n, bool *done) {
    int at = find_product(n);
    *done = false;
    if (at < 0 || !n->in[at].product->cast || n->in[at].product->rest.scale.scope) return MICA_OK;
    mc_onnx_product p = *n->in[at].product;
    *done = for_columns(n, &p, n->in[at].x, n->in[1 - at].x, true, &p.rest.scale);
    return *done ? give_product(n, &p) : MICA_OK;
}

mica_status mc_onnx_join_bias(mc_onnx_node *n, bool *done) {
    int at = find_product(n);
    *done = false;
    if (at < 0 || !n->in[at].product->rest.scale.scope || n->in[at].product->rest.bias.scope)
        return MICA_OK;
    mc_onnx_product p = *n->in[at].product;
    *done = for_columns(n, &p, n->in[at].x, n->in[1 - at].x, false, &p.rest.bias);
    return *done ? give_product(n, &p) : MICA_OK;
}

/* ---- onnxruntime's own ---- */

/* A bias [N] of what onnxruntime writes; errors  MICA_ESHAPE */
static mica_status bias_of(mc_onnx_node *n, size_t i, mica_array *bias) {
    *bias = mc_onnx_x(n, i);
    if (bias->scope && mica_array_ndim(*bias) != 1)
        return mc_fail(MICA_ESHAPE, "its bias is no vector");
    return MICA_OK;
}

/* a, b, a_scale, b_scale, a_zero, b_zero, bias */
mica_status mc_onnx_matmul_integer_to_float(mc_onnx_node *n) {
    operand a = {n->in[0].x, mc_onnx_x(n, 4)}, b = {n->in[1].x, mc_onnx_x(n, 5)};
    mica_array bias;
    MC_TRY(bias_of(n, 6, &bias));
    if (!can_multiply(a.q, b.q) || mica_array_size(n->in[2].x) != 1)
        return mc_onnx_refuse("products of these shapes or dtypes");
    return give_matmul(n, a, b, TURNED, product_of(n, n->in[2].x, n->in[3].x), bias);
}

static mica_status give_dynamic(mc_onnx_node *n, mica_array a, operand b, mica_array scale,
                                mica_array bias) {
    mc_onnx_dynamic d = mc_onnx_quantise(n, a);
    if (!can_multiply(d.q, b.q)) return mc_onnx_refuse("products of these shapes or dtypes");
    return give_matmul(n, (operand){d.q, d.zero}, b, TURNED, product_of(n, d.scale, scale), bias);
}

/* a f32, b, b_scale, b_zero, bias */
mica_status mc_onnx_dynamic_quantize_matmul(mc_onnx_node *n) {
    mica_array bias;
    MC_TRY(bias_of(n, 4, &bias));
    return give_dynamic(n, n->in[0].x, (operand){n->in[1].x, mc_onnx_x(n, 3)}, n->in[2].x, bias);
}

mica_status mc_onnx_dynamic_product(mc_onnx_node *n, mica_scope *s, mica_array a,
                                    const mc_onnx_steps *b, mica_array *y) {
    mc_onnx_value out = {.known = false};
    mc_onnx_node inner = *n;
    inner.s = s;
    inner.out = &out;
    inner.n_out = 1;
    MC_TRY(give_dynamic(&inner, a, (operand){b->q, b->zero}, b->scale, MICA_NONE));
    *y = out.x;
    return MICA_OK;
}

/* a, a_scale, a_zero, b, b_scale, b_zero, bias i32, y_scale, y_zero */
mica_status mc_onnx_qgemm(mc_onnx_node *n) {
    operand a = {n->in[0].x, n->in[2].x}, b = {n->in[3].x, n->in[5].x};
    mica_array scale = product_of(n, n->in[1].x, n->in[4].x), bias = mc_onnx_x(n, 6);
    if (!can_multiply(a.q, b.q) || mica_array_ndim(b.q) != 2 || mc_onnx_int(n, "transA", 0) ||
        mica_array_size(n->in[1].x) != 1)
        return mc_onnx_refuse("products of these shapes or dtypes");
    scale = product_of(n, scale, mica_scalar(n->s, mc_onnx_real(n, "alpha", 1), MICA_F32));
    bool rounds = mc_onnx_has(n, 7);
    if (rounds) scale = product_of(n, scale, mica_reciprocal(n->s, mc_onnx_as_f32(n, n->in[7].x)));
    if (bias.scope) {
        bias = mica_multiply(n->s, mc_onnx_as_f32(n, bias), scale);
        bias = mica_reshape(n->s, bias, (int64_t[]){-1}, 1);
    }
    int how = mc_onnx_int(n, "transB", 0) ? AS_THEY_ARE : TURNED;
    MC_TRY(give_matmul(n, a, b, how, scale, bias));
    if (!rounds) return MICA_OK;
    return mc_onnx_give(n, 0, rounded(n, n->out[0].x, mc_onnx_x(n, 8)));
}
