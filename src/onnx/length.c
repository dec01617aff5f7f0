/* Lengths with symbols that a graph computes with: small integers, as Shape gives them. Operators
 * that exporters compute shapes by go over expressions (graph/dim.h) instead of arrays; what they
 * cannot tell for all values of the symbols becomes a value of the run. */
#include "onnx/import.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/dim.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* A node whose operands are lengths. */
typedef struct fold {
    const mc_onnx_node *n;
    mc_onnx_lengths *in; /* [n_in]; those that are absent have a count of -1 */
    size_t n_in;
    mc_onnx_lengths *out; /* [n_out] */
    size_t n_out;
} fold;

/* ---- values ---- */

static void get_shape(const mc_onnx_lengths *l, int64_t shape[2]) {
    shape[0] = l->ndim < 2 ? l->count : l->count / l->columns;
    shape[1] = l->columns;
}

mica_status mc_onnx_give_lengths(mc_onnx_node *n, size_t i, const mc_onnx_lengths *lengths) {
    bool open = false, whole = true;
    double numbers[MC_ONNX_LENGTHS];
    if (i >= n->n_out) return MICA_OK;
    for (int k = 0; k < lengths->count; k++) {
        MC_TRY(mc_dim_check(lengths->at[k]));
        open = open || !mc_dim_is_constant(lengths->at[k], &numbers[k]);
        whole = whole && mc_dim_is_whole(lengths->at[k]);
    }
    if (open) {
        mc_onnx_lengths *kept = mc_arena_alloc(&n->import->arena, sizeof *kept);
        if (!kept) return mc_fail_nomem("the lengths of a graph");
        *kept = *lengths;
        n->out[i] = (mc_onnx_value){.lengths = kept};
        return MICA_OK;
    }
    mica_scope *s = n->import->constants;
    int64_t shape[2];
    get_shape(lengths, shape);
    mica_array x = mica_from_data(s, whole ? (const void *)lengths->at : numbers,
                                  whole ? MICA_I64 : MICA_F64, shape, lengths->ndim);
    x = mica_astype(s, x, lengths->dtype);
    MC_TRY(mica_eval(s, x));
    n->out[i] = (mc_onnx_value){.x = x, .known = true};
    return MICA_OK;
}

mica_status mc_onnx_record_lengths(const mc_onnx_import *import, mica_scope *s,
                                   mc_onnx_value *value) {
    const mc_onnx_lengths *l = value->lengths;
    mica_array xs[MC_ONNX_LENGTHS];
    int64_t shape[2];
    if (!l || value->x.scope) return MICA_OK;
    for (int i = 0; i < l->count; i++) {
        bool plain = mc_dim_is_whole(l->at[i]) && !mc_onnx_is_counted(import, l->at[i]);
        xs[i] = plain ? mica_scalar(s, (double)l->at[i], l->dtype)
                      : mica_astype(s, mc_onnx_record_dim(import, s, l->at[i]), l->dtype);
    }
    value->x = l->ndim == 0 ? xs[0] : mica_stack(s, xs, l->count, 0);
    get_shape(l, shape);
    if (l->ndim == 2) value->x = mica_reshape(s, value->x, shape, 2);
    return mica_scope_status(s);
}

/* f32 that a node has as constants: whole numbers, or such with a fraction. */
static bool read_reals(mica_scope *s, mica_array x, mc_onnx_lengths *l) {
    float numbers[MC_ONNX_LENGTHS];
    mica_array reals = mica_astype(s, x, MICA_F32);
    if (mica_read(reals, numbers, (size_t)l->count * sizeof *numbers) != MICA_OK) return false;
    for (int i = 0; i < l->count; i++) {
        if (!(fabsf(numbers[i]) < 1 << 24)) return false;
        if (l->dtype != MICA_F32 && numbers[i] != floorf(numbers[i])) return false;
        l->at[i] = mc_dim_real(numbers[i]);
    }
    return true;
}

/* The numbers of a value. false: it has no such ones, or too many. */
static bool read_lengths(mica_scope *s, const mc_onnx_value *value, mc_onnx_lengths *l) {
    if (value->lengths) {
        *l = *value->lengths;
        return true;
    }
    *l = (mc_onnx_lengths){.count = -1};
    if (!value->x.scope) return true;
    mica_dtype dtype = mica_array_dtype(value->x);
    int64_t size = mica_array_size(value->x);
    int ndim = mica_array_ndim(value->x);
    if (!value->known || dtype == MICA_C64 || ndim > 1 || size > MC_ONNX_LENGTHS) return false;
    *l = (mc_onnx_lengths){.count = (int)size, .ndim = ndim, .dtype = dtype};
    if (mica_dtype_is_float(dtype)) return read_reals(s, value->x, l);
    mica_array x = mica_astype(s, value->x, MICA_I64);
    return mica_read(x, l->at, (size_t)size * sizeof *l->at) == MICA_OK;
}

/* ---- element by element ---- */

/* Each gives false where the result is not known for all values of the symbols. */
typedef bool (*binary_fn)(int64_t a, int64_t b, int64_t *y);

static bool is_below(int64_t a, int64_t b) {
    if (mc_dim_numbers(a, b)) return a < b;
    int64_t apart = mc_dim_sub(mc_dim_sub(b, a), 1);
    return apart == 0 || mc_dim_sign(apart) > 0;
}

static bool is_at_least(int64_t a, int64_t b) {
    if (mc_dim_numbers(a, b)) return a >= b;
    int64_t apart = mc_dim_sub(a, b);
    return apart == 0 || mc_dim_sign(apart) > 0;
}

static bool add(int64_t a, int64_t b, int64_t *y) {
    if (mc_dim_numbers(a, b)) return !__builtin_add_overflow(a, b, y);
    *y = mc_dim_add(a, b);
    return true;
}

static bool subtract(int64_t a, int64_t b, int64_t *y) {
    if (mc_dim_numbers(a, b)) return !__builtin_sub_overflow(a, b, y);
    *y = mc_dim_sub(a, b);
    return true;
}

static bool multiply(int64_t a, int64_t b, int64_t *y) {
    if (mc_dim_numbers(a, b)) return !__builtin_mul_overflow(a, b, y);
    *y = mc_dim_mul(a, b);
    return true;
}

/* Towards zero: rounded down, as none of both is negative. */
static bool divide(int64_t a, int64_t b, int64_t *y) {
    if (!is_at_least(a, 0) || mc_dim_sign(b) <= 0) return false;
    *y = mc_dim_div(a, b);
    return true;
}

static bool remainder_of(int64_t a, int64_t b, int64_t *y) {
    if (!divide(a, b, y)) return false;
    *y = mc_dim_sub(a, mc_dim_mul(b, *y));
    return true;
}

static bool minimum(int64_t a, int64_t b, int64_t *y) {
    *y = is_at_least(b, a) ? a : b;
    return is_at_least(b, a) || is_at_least(a, b);
}

static bool maximum(int64_t a, int64_t b, int64_t *y) {
    *y = is_at_least(a, b) ? a : b;
    return is_at_least(b, a) || is_at_least(a, b);
}

static bool equal(int64_t a, int64_t b, int64_t *y) {
    *y = a == b;
    return a == b || is_below(a, b) || is_below(b, a);
}

static bool less(int64_t a, int64_t b, int64_t *y) {
    *y = is_below(a, b);
    return is_below(a, b) || is_at_least(a, b);
}

static bool greater(int64_t a, int64_t b, int64_t *y) {
    return less(b, a, y);
}

static bool less_equal(int64_t a, int64_t b, int64_t *y) {
    bool told = less(b, a, y);
    *y = !*y;
    return told;
}

static bool greater_equal(int64_t a, int64_t b, int64_t *y) {
    return less_equal(b, a, y);
}

static int64_t element(const mc_onnx_lengths *l, int i) {
    return l->at[l->count == 1 ? 0 : i];
}

/* The shape of what operands [n] broadcast to. */
static bool broadcast(const mc_onnx_lengths *in, size_t n, mc_onnx_lengths *y) {
    *y = (mc_onnx_lengths){.count = 1, .dtype = in[n - 1].dtype};
    for (size_t i = 0; i < n; i++) {
        if (in[i].count < 0 || in[i].ndim > 1) return false;
        if (in[i].ndim > y->ndim) y->ndim = in[i].ndim;
        if (in[i].count == 1 || in[i].count == y->count) continue;
        if (y->count != 1) return false;
        y->count = in[i].count;
    }
    return true;
}

/* Two numbers, exactly; where that cannot be, and there is an op, by it. */
static bool combine(mica_dtype dtype, binary_fn fn, mc_dim_op op, int64_t a, int64_t b,
                    int64_t *y) {
    bool real = mica_dtype_is_float(dtype);
    if (mc_dim_is_whole(a) && mc_dim_is_whole(b) && fn(a, b, y)) {
        if (!real || op != MC_DIM_DIV_F32 || mc_dim_mul(*y, b) == a) return true;
    }
    if (op == MC_DIM_CONSTANT || (real ? dtype != MICA_F32 : op < MC_DIM_MIN)) return false;
    *y = mc_dim_compute(op, a, b);
    return *y != MC_DIM_NONE;
}

static bool fold_binary(fold *f, binary_fn fn, mc_dim_op op) {
    mc_onnx_lengths *y = &f->out[0];
    if (f->n_in != 2 || !broadcast(f->in, 2, y)) return false;
    for (int i = 0; i < y->count; i++)
        if (!combine(y->dtype, fn, op, element(&f->in[0], i), element(&f->in[1], i), &y->at[i]))
            return false;
    return true;
}

#define BINARY(name, op)                 \
    static bool fold_##name(fold *f) {   \
        return fold_binary(f, name, op); \
    }
BINARY(add, MC_DIM_ADD_F32)
BINARY(subtract, MC_DIM_SUB_F32)
BINARY(multiply, MC_DIM_MUL_F32)
BINARY(divide, MC_DIM_DIV_F32)
BINARY(minimum, MC_DIM_MIN)
BINARY(maximum, MC_DIM_MAX)
BINARY(remainder_of, MC_DIM_CONSTANT)

#define COMPARISON(name)                                   \
    static bool fold_##name(fold *f) {                     \
        bool told = fold_binary(f, name, MC_DIM_CONSTANT); \
        f->out[0].dtype = MICA_BOOL;                       \
        return told;                                       \
    }
COMPARISON(equal)
COMPARISON(less)
COMPARISON(less_equal)
COMPARISON(greater)
COMPARISON(greater_equal)

static bool fold_where(fold *f) {
    mc_onnx_lengths *y = &f->out[0];
    if (f->n_in != 3 || !broadcast(f->in, 3, y)) return false;
    for (int i = 0; i < y->count; i++) {
        int64_t condition = element(&f->in[0], i);
        if (mc_dim_has_symbols(condition)) return false;
        y->at[i] = element(&f->in[condition != 0 ? 1 : 2], i);
    }
    return true;
}

/* fn of a number and each element. */
static bool fold_from(fold *f, binary_fn fn, mc_dim_op op, int64_t number) {
    f->out[0] = f->in[0];
    for (int i = 0; i < f->in[0].count; i++)
        if (!combine(f->in[0].dtype, fn, op, number, f->in[0].at[i], &f->out[0].at[i]))
            return false;
    return true;
}

static bool fold_negative(fold *f) {
    return fold_from(f, subtract, MC_DIM_SUB_F32, 0);
}

static bool fold_reciprocal(fold *f) {
    return fold_from(f, divide, MC_DIM_DIV_F32, 1);
}

static bool fold_identity(fold *f) {
    f->out[0] = f->in[0];
    return f->in[0].count >= 0;
}

static bool fold_rounded(fold *f, mc_dim_op op) {
    f->out[0] = f->in[0];
    for (int i = 0; i < f->in[0].count; i++) {
        f->out[0].at[i] = mc_dim_compute(op, f->in[0].at[i], 0);
        if (f->out[0].at[i] == MC_DIM_NONE) return false;
    }
    return f->in[0].count >= 0;
}

static bool fold_floor(fold *f) {
    return fold_rounded(f, MC_DIM_FLOOR);
}

static bool fold_ceil(fold *f) {
    return fold_rounded(f, MC_DIM_CEIL);
}

static bool fold_cast(fold *f) {
    mica_dtype dtype;
    if (mc_onnx_dtype(mc_onnx_int(f->n, "to", 0), &dtype) != MICA_OK) return false;
    if (!(dtype == MICA_F32 ? fold_identity(f) : fold_rounded(f, MC_DIM_TRUNC))) return false;
    f->out[0].dtype = dtype;
    return dtype == MICA_I64 || dtype == MICA_I32 || dtype == MICA_F32;
}

/* ---- elements elsewhere ---- */

static bool fold_gather(fold *f) {
    const mc_onnx_lengths *x = &f->in[0], *at = &f->in[1];
    mc_onnx_lengths *y = &f->out[0];
    int64_t axis = mc_onnx_int(f->n, "axis", 0);
    if (x->ndim != 1 || (axis != 0 && axis != -1) || at->count < 0) return false;
    *y = (mc_onnx_lengths){.count = at->count, .ndim = at->ndim, .dtype = x->dtype};
    for (int i = 0; i < at->count; i++) {
        int64_t from = at->at[i];
        if (mc_dim_has_symbols(from)) return false;
        if (from < 0) from += x->count;
        if (from < 0 || from >= x->count) return false;
        y->at[i] = x->at[from];
    }
    return true;
}

static bool fold_concat(fold *f) {
    mc_onnx_lengths *y = &f->out[0];
    *y = (mc_onnx_lengths){.ndim = 1, .dtype = f->in[0].dtype};
    for (size_t i = 0; i < f->n_in; i++) {
        const mc_onnx_lengths *x = &f->in[i];
        if (x->ndim != 1 || x->count < 0 || y->count + x->count > MC_ONNX_LENGTHS) return false;
        memcpy(y->at + y->count, x->at, (size_t)x->count * sizeof *x->at);
        y->count += x->count;
    }
    return true;
}

/* Of one axis of one element, whatever axes are asked for. */
static bool fold_squeeze(fold *f) {
    f->out[0] = f->in[0];
    f->out[0].ndim = 0;
    return f->in[0].count == 1 && f->in[0].ndim <= 1;
}

static bool fold_unsqueeze(fold *f) {
    int64_t axes[MICA_MAX_NDIM];
    int count = f->n_in > 1 ? f->in[1].count : -1;
    f->out[0] = f->in[0];
    f->out[0].ndim = 1;
    if (count < 0 && mc_onnx_ints(f->n, "axes", MICA_MAX_NDIM, axes, &count) != MICA_OK)
        return false;
    return f->in[0].ndim == 0 && f->in[0].count == 1 && count == 1;
}

static bool fold_reshape(fold *f) {
    const mc_onnx_lengths *shape = &f->in[1];
    mc_onnx_lengths *y = &f->out[0];
    int64_t known = 1, open = 0, to[2] = {1, 1};
    *y = f->in[0];
    y->ndim = shape->count;
    if (shape->ndim != 1 || shape->count < 0 || shape->count > 2) return false;
    for (int i = 0; i < shape->count; i++) {
        to[i] = shape->at[i];
        if (to[i] != -1 && (to[i] <= 0 || to[i] > MC_ONNX_LENGTHS)) return false;
        if (to[i] == -1)
            open++;
        else
            known *= to[i];
    }
    if (open > 1 || y->count == 0 || y->count % known != 0) return false;
    y->columns = (int)(to[1] == -1 ? y->count / known : to[1]);
    return open == 1 || known == y->count;
}

static bool fold_transpose(fold *f) {
    mc_onnx_lengths *y = &f->out[0];
    const mc_onnx_lengths *x = &f->in[0];
    int64_t perm[2] = {1, 0};
    int count, columns = x->columns, rows = x->ndim == 2 ? x->count / columns : 0;
    if (mc_onnx_ints(f->n, "perm", 2, perm, &count) != MICA_OK) return false;
    *y = *x;
    if (x->ndim < 2) return x->count >= 0;
    if (perm[0] != 1 || perm[1] != 0) return perm[0] == 0 && perm[1] == 1;
    y->columns = rows;
    for (int i = 0; i < x->count; i++)
        y->at[i % columns * rows + i / columns] = x->at[i];
    return true;
}

static bool one_number(const mc_onnx_lengths *l, int64_t otherwise, int64_t *value) {
    *value = otherwise;
    if (l->count < 0) return true;
    if (l->count != 1 || mc_dim_has_symbols(l->at[0])) return false;
    *value = l->at[0];
    return true;
}

/* The i-th operand, or the attribute of a name that it once was. */
static bool operand_or_attribute(fold *f, size_t i, const char *name, int64_t otherwise,
                                 int64_t *value) {
    int64_t list[MICA_MAX_NDIM];
    int count;
    if (i < f->n_in && f->in[i].count >= 0) return one_number(&f->in[i], otherwise, value);
    *value = otherwise;
    if (mc_onnx_ints(f->n, name, MICA_MAX_NDIM, list, &count) != MICA_OK || count > 1) return false;
    if (count == 1) *value = list[0];
    return true;
}

/* Along the first axis. */
static bool fold_slice(fold *f) {
    int64_t start, stop, step, axis;
    const mc_onnx_lengths *x = &f->in[0];
    mc_onnx_lengths *y = &f->out[0];
    if (x->ndim < 1 || !operand_or_attribute(f, 1, "starts", 0, &start) ||
        !operand_or_attribute(f, 2, "ends", INT64_MAX, &stop) ||
        !operand_or_attribute(f, 3, "axes", 0, &axis) ||
        !operand_or_attribute(f, 4, "", 1, &step) || (step != 1 && step != -1) ||
        (axis != 0 && axis != -x->ndim))
        return false;
    int64_t each = x->ndim == 2 ? x->columns : 1, n = x->count / each, back = step < 0;
    if (start < 0) start += n;
    if (stop < 0) stop += n;
    start = mc_max(0, mc_min(start, n - back));
    stop = mc_max(-back, mc_min(stop, n));
    *y = (mc_onnx_lengths){.ndim = x->ndim, .columns = x->columns, .dtype = x->dtype};
    for (; n > 0 && (back ? start > stop : start < stop); start += step)
        for (int64_t k = 0; k < each; k++)
            y->at[y->count++] = x->at[start * each + k];
    return true;
}

static bool fold_split(fold *f) {
    int64_t lengths[MC_ONNX_LENGTHS];
    int count, at = 0, n_out = (int)f->n_out;
    if (f->in[0].ndim != 1 || n_out > MC_ONNX_LENGTHS) return false;
    if (f->n_in > 1 && f->in[1].count >= 0) {
        count = f->in[1].count;
        memcpy(lengths, f->in[1].at, sizeof lengths);
    } else if (mc_onnx_ints(f->n, "split", MC_ONNX_LENGTHS, lengths, &count) != MICA_OK) {
        return false;
    }
    int each = (f->in[0].count + n_out - 1) / n_out;
    if (count >= 0 && count != n_out) return false;
    for (int i = 0; i < n_out; i++) {
        int64_t length = count >= 0 ? lengths[i] : mc_min(each, f->in[0].count - at);
        if (length < 0 || length > f->in[0].count - at) return false;
        f->out[i] = (mc_onnx_lengths){.ndim = 1, .count = (int)length, .dtype = f->in[0].dtype};
        memcpy(f->out[i].at, f->in[0].at + at, (size_t)length * sizeof *f->in[0].at);
        at += (int)length;
    }
    return at == f->in[0].count;
}

/* One number for all, or as many as there are. */
static bool fold_expand(fold *f) {
    const mc_onnx_lengths *shape = &f->in[1];
    mc_onnx_lengths *y = &f->out[0];
    if (shape->ndim != 1 || shape->count != 1 || mc_dim_has_symbols(shape->at[0])) return false;
    if (f->in[0].ndim > 1) return false;
    *y = f->in[0];
    y->ndim = 1;
    if (shape->at[0] == 1 || shape->at[0] == y->count) return true;
    if (y->count != 1 || shape->at[0] < 0 || shape->at[0] > MC_ONNX_LENGTHS) return false;
    y->count = (int)shape->at[0];
    for (int i = 1; i < y->count; i++)
        y->at[i] = y->at[0];
    return true;
}

/* ---- all of them ---- */

/* Where there are none, `none`; -1: that cannot be told. */
static bool reduce(fold *f, binary_fn fn, mc_dim_op op, int64_t none) {
    mc_onnx_lengths *y = &f->out[0];
    const mc_onnx_lengths *x = &f->in[0];
    bool keepdims = mc_onnx_int(f->n, "keepdims", 1) != 0;
    if (x->ndim != 1 || mc_onnx_int(f->n, "noop_with_empty_axes", 0)) return false;
    *y = (mc_onnx_lengths){.ndim = keepdims, .count = 1, .dtype = x->dtype, .at = {none}};
    if (x->count == 0) return none >= 0;
    y->at[0] = x->at[0];
    for (int i = 1; i < x->count; i++)
        if (!combine(x->dtype, fn, op, y->at[0], x->at[i], &y->at[0])) return false;
    return true;
}

#define REDUCTION(name, fn, op, none)   \
    static bool fold_##name(fold *f) {  \
        return reduce(f, fn, op, none); \
    }
REDUCTION(product, multiply, MC_DIM_MUL_F32, 1)
REDUCTION(sum, add, MC_DIM_ADD_F32, 0)
REDUCTION(smallest, minimum, MC_DIM_MIN, -1)
REDUCTION(largest, maximum, MC_DIM_MAX, -1)

/* ---- nodes ---- */

static const struct {
    const char *name;
    bool (*fold)(fold *f);
} rows[] = {
    {"Add", fold_add},
    {"Sub", fold_subtract},
    {"Mul", fold_multiply},
    {"Div", fold_divide},
    {"Mod", fold_remainder_of},
    {"Min", fold_minimum},
    {"Max", fold_maximum},
    {"Equal", fold_equal},
    {"Less", fold_less},
    {"LessOrEqual", fold_less_equal},
    {"Greater", fold_greater},
    {"GreaterOrEqual", fold_greater_equal},
    {"Where", fold_where},
    {"Neg", fold_negative},
    {"Reciprocal", fold_reciprocal},
    {"Identity", fold_identity},
    {"Floor", fold_floor},
    {"Ceil", fold_ceil},
    {"Cast", fold_cast},
    {"Gather", fold_gather},
    {"Concat", fold_concat},
    {"Squeeze", fold_squeeze},
    {"Unsqueeze", fold_unsqueeze},
    {"Reshape", fold_reshape},
    {"Transpose", fold_transpose},
    {"Slice", fold_slice},
    {"Split", fold_split},
    {"Expand", fold_expand},
    {"ReduceProd", fold_product},
    {"ReduceSum", fold_sum},
    {"ReduceMin", fold_smallest},
    {"ReduceMax", fold_largest},
};

static bool has_lengths(const mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_in; i++)
        if (n->in[i].lengths) return true;
    return false;
}

/* *done: the node's results are lengths, or numbers. */
static mica_status fold_by(mc_onnx_node *n, bool (*fn)(fold *f), bool *done) {
    fold f = {.n = n, .n_in = n->n_in, .n_out = n->n_out};
    f.in = mc_calloc(n->n_in + n->n_out, sizeof *f.in);
    if (!f.in) return mc_fail_nomem("the lengths of a graph");
    f.out = f.in + n->n_in;
    mica_status status = MICA_OK;
    *done = true;
    for (size_t i = 0; *done && i < n->n_in; i++)
        *done = read_lengths(n->import->constants, &n->in[i], &f.in[i]);
    const char *outer = n->import->mistyped;
    n->import->mistyped = NULL;
    *done = *done && f.in[0].count >= 0 && fn(&f) && !n->import->mistyped; /* else build fails */
    n->import->mistyped = outer;
    for (size_t i = 0; *done && status == MICA_OK && i < n->n_out; i++)
        status = mc_onnx_give_lengths(n, i, &f.out[i]);
    mc_free(f.in);
    return status;
}

mica_status mc_onnx_fold_lengths(mc_onnx_node *n, bool *done) {
    *done = false;
    if (!has_lengths(n) || !mc_onnx_is_own(n->proto->domain)) return MICA_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, n->proto->op_type) == 0) return fold_by(n, rows[i].fold, done);
    return MICA_OK;
}
