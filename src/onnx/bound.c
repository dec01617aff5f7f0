/* Results whose length depends on values: arrays that are as long as there may be elements, and a
 * count of those that are there, which lie first. Operators that go on with one keep its count
 * where they leave these elements first; reductions over them leave out the others. */
#include "onnx/import.h"

#include "graph/dim.h"
#include "op/require.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

mica_status mc_onnx_give_counted(mc_onnx_node *n, size_t i, mica_array x, int axis,
                                 mica_array count) {
    int64_t length = 0;
    if (i >= n->n_out) return MICA_OK;
    if (n->s == n->import->constants) { /* the count is known */
        MC_TRY(mica_eval(n->s, count));
        MC_TRY(mica_read(count, &length, sizeof length));
        return mc_onnx_give(n, i, mica_slice_axis(n->s, x, axis, 0, length));
    }
    mc_onnx_bound *bound = mc_arena_alloc(&n->import->arena, sizeof *bound);
    if (!bound) return mc_fail_nomem("a count");
    *bound = (mc_onnx_bound){.axis = axis, .count = count};
    n->out[i] = (mc_onnx_value){.x = x, .bound = bound};
    return mica_scope_status(n->s);
}

mica_array mc_onnx_count_mask(mica_scope *s, mica_array x, const mc_onnx_bound *bound) {
    mica_array places = mica_arange(s, 0, (double)mica_array_dim(x, bound->axis), 1, MICA_I64);
    mica_array there = mica_less(s, places, bound->count);
    return mc_onnx_along(s, there, bound->axis, mica_array_ndim(x));
}

mica_array mc_onnx_trim(mica_scope *s, const mc_onnx_value *value) {
    return mc_require_count(s, value->x, value->bound->count, value->bound->axis);
}

/* ---- where counted elements are afterwards ---- */

typedef enum rule {
    EACH,    /* element by element */
    MOVE,    /* Transpose */
    SHAPE,   /* another shape of the same elements */
    PICK,    /* Gather */
    PICK_ND, /* GatherND */
    CUT,     /* Slice */
    JOIN,    /* Concat */
    KEEP,    /* along another axis */
    ROWS,    /* products: of the first operand */
    BATCH,   /* along the first axis of the first operand */
    ALONG,   /* along the axis of the operator, too: the others are neutral */
    REDUCE,  /* over axes; the others are neutral */
    OWN      /* the builder does it */
} rule;

typedef struct row {
    const char *name;
    rule rule;
    double neutral; /* of a reduction */
} row;

static const row rows[] = {
    {"Abs", EACH, 0},
    {"Add", EACH, 0},
    {"And", EACH, 0},
    {"Cast", EACH, 0},
    {"Ceil", EACH, 0},
    {"Clip", EACH, 0},
    {"Div", EACH, 0},
    {"Equal", EACH, 0},
    {"Erf", EACH, 0},
    {"Exp", EACH, 0},
    {"Floor", EACH, 0},
    {"Greater", EACH, 0},
    {"GreaterOrEqual", EACH, 0},
    {"Identity", EACH, 0},
    {"IsNaN", EACH, 0},
    {"LeakyRelu", EACH, 0},
    {"Less", EACH, 0},
    {"LessOrEqual", EACH, 0},
    {"Log", EACH, 0},
    {"Max", EACH, 0},
    {"Min", EACH, 0},
    {"Mod", EACH, 0},
    {"Mul", EACH, 0},
    {"Neg", EACH, 0},
    {"Not", EACH, 0},
    {"Or", EACH, 0},
    {"Pow", EACH, 0},
    {"Reciprocal", EACH, 0},
    {"Relu", EACH, 0},
    {"Round", EACH, 0},
    {"Sigmoid", EACH, 0},
    {"Sqrt", EACH, 0},
    {"Sub", EACH, 0},
    {"Tanh", EACH, 0},
    {"Where", EACH, 0},
    {"Transpose", MOVE, 0},
    {"Reshape", SHAPE, 0},
    {"Squeeze", SHAPE, 0},
    {"Unsqueeze", SHAPE, 0},
    {"Flatten", SHAPE, 0},
    {"Gather", PICK, 0},
    {"GatherND", PICK_ND, 0},
    {"Slice", CUT, 0},
    {"Concat", JOIN, 0},
    {"Split", JOIN, 0},
    {"Expand", EACH, 0},
    {"Softmax", ALONG, -INFINITY},
    {"LogSoftmax", ALONG, -INFINITY},
    {"LayerNormalization", KEEP, 0},
    {"CumSum", EACH, 0},
    {"MatMul", ROWS, 0},
    {"Gemm", ROWS, 0},
    {"ReduceSum", REDUCE, 0},
    {"ReduceMax", REDUCE, -INFINITY},
    {"ReduceMin", REDUCE, INFINITY},
    {"ReduceL1", REDUCE, 0},
    {"ReduceL2", REDUCE, 0},
    {"ReduceSumSquare", REDUCE, 0},
    {"ReduceProd", REDUCE, 1},
    {"ReduceLogSum", REDUCE, 0},
    {"ReduceLogSumExp", REDUCE, -INFINITY},
    {"ReduceMean", REDUCE, 0},
    {"ArgMax", REDUCE, -INFINITY},
    {"ArgMin", REDUCE, INFINITY},
    {"NonZero", OWN, 0},
    {"NonMaxSuppression", OWN, 0},
    {"Shape", OWN, 0},
    {"TopK", OWN, 0},
    {"RoiAlign", ROWS, 0},
    {"ConstantOfShape", OWN, 0},
    {"ScatterElements", OWN, 0},
    {"Sin", EACH, 0},
    {"Cos", EACH, 0},
    {"Tan", EACH, 0},
    {"Asin", EACH, 0},
    {"Acos", EACH, 0},
    {"Atan", EACH, 0},
    {"Sinh", EACH, 0},
    {"Cosh", EACH, 0},
    {"Sign", EACH, 0},
    {"IsInf", EACH, 0},
    {"Xor", EACH, 0},
    {"Sum", EACH, 0},
    {"Elu", EACH, 0},
    {"Celu", EACH, 0},
    {"Selu", EACH, 0},
    {"Gelu", EACH, 0},
    {"Mish", EACH, 0},
    {"Swish", EACH, 0},
    {"Softplus", EACH, 0},
    {"Softsign", EACH, 0},
    {"HardSigmoid", EACH, 0},
    {"HardSwish", EACH, 0},
    {"ThresholdedRelu", EACH, 0},
    {"PRelu", EACH, 0},
    {"Dropout", EACH, 0},
    {"Conv", BATCH, 0},
    {"ConvTranspose", BATCH, 0},
    {"BatchNormalization", BATCH, 0},
    {"MaxPool", BATCH, 0},
    {"AveragePool", BATCH, 0},
    {"GlobalAveragePool", BATCH, 0},
    {"GlobalMaxPool", BATCH, 0},
    {"Resize", BATCH, 0},
    {"Compress", OWN, 0},
};

static const row *find_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

static const mc_onnx_bound *bound_of(const mc_onnx_node *n, size_t i) {
    return i < n->n_in ? n->in[i].bound : NULL;
}

static mica_status refuse(const mc_onnx_node *n) {
    return mc_fail(MICA_EUNSUPPORTED,
                   "mica does not have %s of an operand whose length depends on values",
                   n->proto->op_type);
}

/* The axis of the result that the elements of axis k of x lie along, in the same order; -1: none.
 * *times: how many there are for each. */
static int axis_in_shape(mica_array x, int k, mica_array y, int64_t *times) {
    int64_t before = 1, own = mica_array_dim(x, k), at = 1;
    for (int i = 0; i < k; i++)
        before = mc_dim_mul(before, mica_array_dim(x, i));
    for (int i = 0; i < mica_array_ndim(y); i++) {
        int64_t length = mica_array_dim(y, i), inner = 1;
        for (int j = k + 1; at == before && j <= mica_array_ndim(x); j++) {
            *times = inner;
            if (length == mc_dim_mul(own, inner) &&
                !(own == 1 && length == 1 && before == 1 && i < k))
                return i;
            if (j < mica_array_ndim(x)) inner = mc_dim_mul(inner, mica_array_dim(x, j));
        }
        at = mc_dim_mul(at, length);
    }
    return -1;
}

/* Ends that are the operand's own count are those of the axis. */
mica_status mc_onnx_slice_ends(const mc_onnx_node *n, int64_t ends[MICA_MAX_NDIM], int *count) {
    const mc_onnx_lengths *l = n->n_in > 2 ? n->in[2].lengths : NULL;
    const mc_onnx_bound *b = n->in[0].bound;
    int64_t own;
    if (!l || !b || l->count > MICA_MAX_NDIM)
        return mc_onnx_dims_or(n, 2, "ends", MICA_MAX_NDIM, ends, count);
    MC_TRY(mc_onnx_count_dim(n->import, b->count, mica_array_dim(n->in[0].x, b->axis), &own));
    *count = l->count;
    for (int i = 0; i < l->count; i++) {
        ends[i] = l->at[i] == own ? INT64_MAX : l->at[i];
        if (mc_onnx_is_counted(n->import, ends[i]) || !mc_dim_is_whole(ends[i]))
            return mc_onnx_refuse("an end that depends on values so");
    }
    return MICA_OK;
}

/* Whether a Slice leaves the first elements of an axis first; how many of them are in y. */
static bool cuts_first(const mc_onnx_node *n, int axis, mica_array y, mica_array *count) {
    int64_t steps[MICA_MAX_NDIM], starts[MICA_MAX_NDIM], ends[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n_axes, n_steps, n_starts, n_ends, at = -1;
    if (mc_onnx_operand_ints(n, 4, MICA_MAX_NDIM, steps, &n_steps) != MICA_OK ||
        mc_onnx_axes(n, 3, mica_array_ndim(n->in[0].x), axes, &n_axes) != MICA_OK ||
        mc_onnx_dims_or(n, 1, "starts", MICA_MAX_NDIM, starts, &n_starts) != MICA_OK ||
        mc_onnx_slice_ends(n, ends, &n_ends) != MICA_OK)
        return false;
    for (int i = 0; i < n_starts; i++)
        if ((n_axes < 0 ? i : axes[i]) == axis) at = i;
    if (at < 0) return true;
    if (n_steps >= 0 && steps[at] != 1) return false;
    if (mc_dim_has_symbols(starts[at]) || starts[at] < 0 || mc_dim_sign(ends[at]) < 0) return false;
    int64_t length = mica_array_dim(y, axis);
    if (starts[at] == 0 && length == mica_array_dim(n->in[0].x, axis)) return true;
    mica_array none = mica_scalar(n->s, 0, MICA_I64);
    if (starts[at] == 0 && ends[at] >= INT32_MAX) return true;
    mica_array left = mica_subtract(n->s, *count, mica_scalar(n->s, (double)starts[at], MICA_I64));
    *count = mica_clip(n->s, left, none, mica_scalar(n->s, (double)length, MICA_I64));
    return true;
}

/* Where each bound operand's elements are in result y. *count: of how many. -1: they are not first
 * any more; -2: the result does not have them. */
static int carried_axis(const mc_onnx_node *n, const row *r, size_t i, mica_array y,
                        mica_array *count) {
    const mc_onnx_bound *b = n->in[i].bound;
    mica_array x = n->in[i].x;
    int ndim = mica_array_ndim(x), out = mica_array_ndim(y), axis;
    int64_t times = 1, perm[MICA_MAX_NDIM];
    *count = b->count;
    switch (r->rule) {
    case EACH:
        return b->axis + out - ndim;
    case BATCH:
        return i == 0 && b->axis == 0 ? 0 : -1;
    case ALONG:
        return b->axis;
    case KEEP:
        axis = (int)mc_onnx_int(n, "axis", -1);
        return (axis < 0 ? axis + ndim : axis) > b->axis ? b->axis : -1;
    case MOVE:
        if (mc_onnx_ints(n, "perm", MICA_MAX_NDIM, perm, &axis) != MICA_OK) return -1;
        for (int k = 0; k < ndim; k++)
            if ((axis < 0 ? ndim - 1 - k : perm[k]) == b->axis) return k;
        return -1;
    case SHAPE:
        axis = axis_in_shape(x, b->axis, y, &times);
        if (times != 1)
            *count = mica_multiply(n->s, b->count, mica_scalar(n->s, (double)times, MICA_I64));
        return axis;
    case PICK:
        axis = (int)mc_onnx_int(n, "axis", 0);
        if (axis < 0) axis += mica_array_ndim(n->in[0].x);
        if (i == 1) return axis + b->axis;
        if (b->axis == axis) return -2;
        return b->axis < axis ? b->axis : b->axis - 1 + mica_array_ndim(n->in[1].x);
    case PICK_ND:
        if (mc_onnx_int(n, "batch_dims", 0) != 0) return -1;
        if (i == 1) return b->axis < ndim - 1 ? b->axis : -1;
        axis = (int)mica_array_dim(n->in[1].x, -1);
        return b->axis < axis ? -2 : b->axis - axis + mica_array_ndim(n->in[1].x) - 1;
    case CUT:
        return cuts_first(n, b->axis, y, count) ? b->axis : -1;
    case JOIN:
        axis = (int)mc_onnx_int(n, "axis", 0);
        if (n->n_in == 1 && n->n_out == 1) return b->axis;
        return (axis < 0 ? axis + ndim : axis) != b->axis ? b->axis : -1;
    case ROWS:
        return i == 0 && b->axis < ndim - 1 && !mc_onnx_int(n, "transA", 0) ? b->axis
               : strcmp(n->proto->op_type, "RoiAlign") == 0 && i > 0        ? 0
                                                                            : -1;
    case REDUCE:
    case OWN:
        return -2;
    }
    return -1;
}

/* ---- reductions ---- */

/* The least or the greatest number of integers, or one beyond it. */
static double end_of(mica_dtype dtype, bool least) {
    bool is_signed = mica_dtype_is_signed(dtype);
    int bits = 8 * (int)mica_dtype_bytes(dtype) - (is_signed ? 1 : 0);
    if (least) return is_signed ? -ldexp(1, bits) : 0;
    return ldexp(1, bits) - 1;
}

/* What is beyond the count becomes neutral. */
static mica_status neutralise(mc_onnx_node *n, const row *r) {
    mica_array x = n->in[0].x;
    mica_dtype dtype = mica_array_dtype(x);
    mica_array there = mc_onnx_count_mask(n->s, x, n->in[0].bound);
    double neutral = r->neutral;
    if (!mica_dtype_is_float(dtype) && isinf(neutral)) neutral = end_of(dtype, neutral < 0);
    x = mica_where(n->s, there, x, mica_scalar(n->s, neutral, dtype));
    n->in[0] = (mc_onnx_value){.x = x, .bound = n->in[0].bound};
    return mica_scope_status(n->s);
}

/* The axis of a reduction's result that a counted axis is; -2: it is reduced. */
static mica_status reduced_axis(const mc_onnx_node *n, int *axis) {
    int ndim = mica_array_ndim(n->in[0].x), axes[MICA_MAX_NDIM], count, own = n->in[0].bound->axis;
    bool keepdims = mc_onnx_int(n, "keepdims", 1) != 0;
    if (n->proto->op_type[0] == 'A') { /* ArgMax and ArgMin have one axis */
        MC_TRY(mc_onnx_axis(n, 0, ndim, axes));
        count = 1;
    } else {
        MC_TRY(mc_onnx_axes(n, 1, ndim, axes, &count));
    }
    bool none = count <= 0 && mc_onnx_int(n, "noop_with_empty_axes", 0) != 0;
    *axis = count <= 0 && !none ? -2 : own;
    for (int i = 0; i < count; i++) {
        if (axes[i] == own) *axis = -2;
        if (axes[i] < own && *axis >= 0 && !keepdims) --*axis;
    }
    return MICA_OK;
}

/* ---- indices ---- */

/* Indices below 0 count from the end of what is there. */
static mica_status count_back(mc_onnx_node *n, const row *r) {
    mica_scope *s = n->s;
    const mc_onnx_bound *b = n->in[0].bound;
    int axis, ndim = mica_array_ndim(n->in[0].x);
    mica_array at = mica_astype(s, n->in[1].x, MICA_I64), length = b->count, all[MICA_MAX_NDIM];
    if (r->rule == PICK) {
        MC_TRY(mc_onnx_axis(n, 0, ndim, &axis));
        if (axis != b->axis) return MICA_OK;
    } else { /* an index of several axes lies along the last one */
        int64_t deep = mica_array_dim(at, -1);
        if (mc_onnx_int(n, "batch_dims", 0) != 0 || deep <= b->axis || deep > ndim) return MICA_OK;
        for (int k = 0; k < deep; k++)
            all[k] = k == b->axis ? b->count
                                  : mica_scalar(s, (double)mica_array_dim(n->in[0].x, k), MICA_I64);
        length = mica_stack(s, all, (int)deep, 0);
    }
    mica_array back = mica_less(s, at, mica_scalar(s, 0, MICA_I64));
    at = mica_where(s, back, mica_add(s, at, length), at);
    n->in[1] = (mc_onnx_value){.x = at, .bound = n->in[1].bound};
    return mica_scope_status(s);
}

/* ---- nodes ---- */

bool mc_onnx_has_bounds(const mc_onnx_node *n) {
    for (size_t i = 0; i < n->n_in; i++)
        if (n->in[i].bound) return true;
    return false;
}

mica_status mc_onnx_check_bounds(mc_onnx_node *n) {
    const row *r = mc_onnx_is_own(n->proto->domain) ? find_row(n->proto->op_type) : NULL;
    if (!r) return refuse(n);
    if (!bound_of(n, 0)) return MICA_OK;
    if (r->rule == PICK || r->rule == PICK_ND) return count_back(n, r);
    bool back = strcmp(r->name, "CumSum") == 0 && mc_onnx_int(n, "reverse", 0) != 0;
    return r->rule == REDUCE || r->rule == ALONG || back ? neutralise(n, r) : MICA_OK;
}

/* Joins what two operands say of a result. */
static mica_status merge(const mc_onnx_node *n, int axis, mica_array count, mc_onnx_bound *bound) {
    if (axis == -2) return MICA_OK;
    bool other = bound->count.scope && (bound->axis != axis || bound->count.node != count.node);
    if (axis < 0 || other) return refuse(n);
    *bound = (mc_onnx_bound){.axis = axis, .count = count};
    return MICA_OK;
}

/* A mean over all that there is room for as one over what is there. */
static mica_status correct_mean(mc_onnx_node *n) {
    mica_array y = n->out[0].x;
    mica_dtype dtype = mica_array_dtype(y);
    if (!mica_dtype_is_float(dtype)) /* it is rounded already */
        return mc_onnx_refuse("means of integers whose number depends on values");
    int64_t room = mica_array_dim(n->in[0].x, n->in[0].bound->axis);
    mica_array by = mica_divide(n->s, mc_onnx_f32(n, (double)room),
                                mica_astype(n->s, n->in[0].bound->count, MICA_F32));
    n->out[0] = (mc_onnx_value){.x = mica_multiply(n->s, y, mica_astype(n->s, by, dtype))};
    return mica_scope_status(n->s);
}

mica_status mc_onnx_carry_bounds(mc_onnx_node *n) {
    const row *r = find_row(n->proto->op_type);
    if (r->rule == OWN || !n->out[0].x.scope) return MICA_OK;
    mc_onnx_bound found = {.axis = -1};
    for (size_t i = 0; i < n->n_in; i++) {
        mica_array count;
        if (!n->in[i].bound) continue;
        int axis = carried_axis(n, r, i, n->out[0].x, &count);
        if (r->rule == REDUCE) MC_TRY(reduced_axis(n, &axis));
        if (axis == -2 && strcmp(r->name, "ReduceMean") == 0) MC_TRY(correct_mean(n));
        MC_TRY(merge(n, axis, count, &found));
    }
    for (size_t i = 0; found.count.scope && i < n->n_out; i++) {
        mc_onnx_bound *kept = mc_arena_alloc(&n->import->arena, sizeof *kept);
        if (!kept) return mc_fail_nomem("a count");
        *kept = found;
        n->out[i].bound = kept;
    }
    return mica_scope_status(n->s);
}
