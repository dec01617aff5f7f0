/* Operators of ai.onnx.ml beside trees: linear models, support vectors, and what prepares features.
 * Texts are refused; maps of classes to scores are the scores. */
#include "onnx/ml.h"

#include "base/alloc.h"
#include "base/integer.h"
#include "graph/dim.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* ---- attributes ---- */

/* A list of floats as an array of the shape. *y none: it is absent, or empty.
 * errors  MICA_EFORMAT it has another length */
static mica_status floats_of(mc_onnx_node *n, const char *name, const int64_t *shape, int ndim,
                             mica_array *y) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    int64_t want = 1;
    *y = MICA_NONE;
    for (int k = 0; k < ndim; k++)
        want = shape[k] > INT32_MAX ? INT64_MAX : mc_min(want, INT32_MAX) * shape[k];
    if (!a || a->n_floats == 0) return MICA_OK;
    if ((int64_t)a->n_floats != want)
        return mc_fail(MICA_EFORMAT, "%s has %zu numbers, where %lld belong", name, a->n_floats,
                       (long long)want);
    MC_TRY(mc_onnx_charge_again(n, a->n_floats * sizeof(float)));
    *y = mica_from_data(n->s, a->floats, MICA_F32, shape, ndim);
    return mica_scope_status(n->s);
}

static size_t count_floats(const mc_onnx_node *n, const char *name) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    return a ? a->n_floats : 0;
}

/* A vector of one number, or of as many as there are features. */
static mica_status per_feature(mc_onnx_node *n, const char *name, int64_t features, mica_array *y) {
    int64_t count = (int64_t)count_floats(n, name);
    return floats_of(n, name, (int64_t[]){count == 1 ? 1 : features}, 1, y);
}

/* ---- rows, labels, scores ---- */

mica_status mc_onnx_rows(mc_onnx_node *n, mica_array *x) {
    *x = mica_astype(n->s, n->in[0].x, MICA_F32);
    if (mica_array_ndim(*x) == 1) *x = mica_expand_dims(n->s, *x, 0);
    if (mica_array_ndim(*x) != 2) return mc_fail(MICA_ESHAPE, "its operand is no matrix");
    return mc_onnx_need_number(n->import, "its number of features", mica_array_dim(*x, 1));
}

static bool is_logistic(const mc_onnx_node *n) {
    return mc_str_is(mc_onnx_text(n, "post_transform", "NONE"), "LOGISTIC");
}

mica_status mc_onnx_post(mc_onnx_node *n, mica_array x, mica_array *y) {
    return mc_onnx_post_by(n, mc_onnx_text(n, "post_transform", "NONE"), x, y);
}

mica_status mc_onnx_post_by(mc_onnx_node *n, mc_str how, mica_array x, mica_array *y) {
    mica_scope *s = n->s;
    *y = x;
    if (mc_str_is(how, "NONE")) return MICA_OK;
    if (mc_str_is(how, "SOFTMAX")) {
        *y = mica_softmax(s, x, -1);
    } else if (mc_str_is(how, "LOGISTIC")) {
        *y = mica_sigmoid(s, x);
    } else if (mc_str_is(how, "SOFTMAX_ZERO")) { /* zeros stay zeros */
        mica_array none = mica_equal(s, x, mc_onnx_f32(n, 0));
        *y = mica_where(s, none, mc_onnx_f32(n, 0),
                        mica_softmax(s, mica_where(s, none, mc_onnx_f32(n, -INFINITY), x), -1));
    } else if (mc_str_is(how, "PROBIT")) {
        x = mica_subtract(s, mica_multiply(s, x, mc_onnx_f32(n, 2)), mc_onnx_f32(n, 1));
        *y = mica_multiply(s, mica_erfinv(s, x), mc_onnx_f32(n, sqrt(2)));
    } else {
        return mc_onnx_refuse("this post_transform");
    }
    return mica_scope_status(s);
}

mica_status mc_onnx_labels(mc_onnx_node *n, const char *ints, const int64_t **labels,
                           size_t *count) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, ints),
                            *texts = mc_onnx_attr(n, "classlabels_strings");
    if (texts && texts->n_strings > 0) return mc_onnx_refuse("classes whose labels are texts");
    if (!a || a->n_ints == 0) return mc_fail(MICA_EFORMAT, "its classes have no labels");
    *labels = a->ints;
    *count = a->n_ints;
    return MICA_OK;
}

mica_status mc_onnx_give_labels(mc_onnx_node *n, const int64_t *labels, size_t count,
                                mica_array which) {
    MC_TRY(mc_onnx_charge_again(n, count * sizeof *labels));
    mica_array table = mica_from_data(n->s, labels, MICA_I64, (int64_t[]){(int64_t)count}, 1);
    return mc_onnx_give(n, 0, mica_take(n->s, table, which, 0));
}

mica_status mc_onnx_give_binary(mc_onnx_node *n, const int64_t *labels, mica_array score,
                                bool positive) {
    mica_scope *s = n->s;
    mica_array is_second =
        mica_greater(s, mica_squeeze(s, score, 1), mc_onnx_f32(n, positive ? 0.5 : 0));
    mica_array other =
        positive ? mica_subtract(s, mc_onnx_f32(n, 1), score) : mica_negative(s, score);
    mica_array scores = mica_concatenate(s, (mica_array[]){other, score}, 2, 1);
    if (!positive && is_logistic(n)) scores = mica_sigmoid(s, scores);
    MC_TRY(mc_onnx_give(n, 1, scores));
    return mc_onnx_give_labels(n, labels, 2, mica_astype(s, is_second, MICA_I64));
}

/* ---- linear models ---- */

/* x [N, F] by coefficients [E, F], with intercepts [E]: [N, E] */
static mica_status linear(mc_onnx_node *n, int64_t rows, mica_array *y) {
    mica_array x, w, b;
    MC_TRY(mc_onnx_rows(n, &x));
    MC_TRY(floats_of(n, "coefficients", (int64_t[]){rows, mica_array_dim(x, 1)}, 2, &w));
    MC_TRY(floats_of(n, "intercepts", &rows, 1, &b));
    if (!w.scope) return mc_fail(MICA_EFORMAT, "it has no coefficients");
    *y = mica_matmul(n->s, x, mica_transpose(n->s, w, NULL));
    if (b.scope) *y = mica_add(n->s, *y, b);
    return mica_scope_status(n->s);
}

mica_status mc_onnx_ml_linear_regressor(mc_onnx_node *n) {
    mica_array y;
    int64_t targets = mc_onnx_int(n, "targets", 1);
    if (targets < 1 || targets > INT32_MAX) return mc_fail(MICA_EFORMAT, "it has no targets");
    MC_TRY(linear(n, targets, &y));
    MC_TRY(mc_onnx_post(n, y, &y));
    return mc_onnx_give(n, 0, y);
}

mica_status mc_onnx_ml_linear_classifier(mc_onnx_node *n) {
    mica_array y;
    const int64_t *labels;
    size_t count;
    MC_TRY(mc_onnx_labels(n, "classlabels_ints", &labels, &count));
    int64_t features = mica_array_ndim(n->in[0].x) > 0 ? mica_array_dim(n->in[0].x, -1) : 0;
    bool one = count == 2 && (int64_t)count_floats(n, "coefficients") == features;
    MC_TRY(linear(n, one ? 1 : (int64_t)count, &y));
    if (one) return mc_onnx_give_binary(n, labels, y, false);
    MC_TRY(mc_onnx_give_labels(n, labels, count, mica_argmax(n->s, y, 1, false)));
    MC_TRY(mc_onnx_post(n, y, &y));
    return mc_onnx_give(n, 1, y);
}

/* ---- support vectors ---- */

/* x [N, F] with vectors [V, F] by a kernel: [N, V] */
static mica_status kernel_of(mc_onnx_node *n, mica_array x, mica_array v, mica_array *y) {
    mica_scope *s = n->s;
    mc_str kind = mc_onnx_text(n, "kernel_type", "LINEAR");
    const mc_onnx_attribute *a = mc_onnx_attr(n, "kernel_params");
    double p[3] = {0, 0, 3}; /* gamma, coef0, degree */
    for (size_t i = 0; a && i < a->n_floats && i < 3; i++)
        p[i] = (double)a->floats[i];
    mica_array dot = mica_matmul(s, x, mica_transpose(s, v, NULL));
    mica_array moved =
        mica_add(s, mica_multiply(s, dot, mc_onnx_f32(n, p[0])), mc_onnx_f32(n, p[1]));
    if (mc_str_is(kind, "LINEAR")) {
        *y = dot;
    } else if (mc_str_is(kind, "POLY")) {
        *y = mica_power(s, moved, mc_onnx_f32(n, p[2]));
    } else if (mc_str_is(kind, "SIGMOID")) {
        *y = mica_tanh(s, moved);
    } else if (mc_str_is(kind, "RBF")) {
        mica_array apart = mica_subtract(s, mica_expand_dims(s, x, 1), v);
        apart = mica_sum(s, mica_square(s, apart), (int[]){2}, 1, false);
        *y = mica_exp(s, mica_multiply(s, apart, mc_onnx_f32(n, -p[0])));
    } else {
        return mc_onnx_refuse("this kernel_type");
    }
    return mica_scope_status(s);
}

/* The kernel of x with all support vectors: [N, vectors]. */
static mica_status vectors_of(mc_onnx_node *n, int64_t vectors, mica_array *y) {
    mica_array x, v;
    MC_TRY(mc_onnx_rows(n, &x));
    MC_TRY(floats_of(n, "support_vectors", (int64_t[]){vectors, mica_array_dim(x, 1)}, 2, &v));
    if (!v.scope) return mc_fail(MICA_EFORMAT, "it has no support vectors");
    return kernel_of(n, x, v, y);
}

mica_status mc_onnx_ml_svm_regressor(mc_onnx_node *n) {
    mica_scope *s = n->s;
    mica_array k, w, rho, y;
    int64_t vectors = mc_onnx_int(n, "n_supports", 0);
    if (vectors < 0 || vectors > INT32_MAX)
        return mc_fail(MICA_EFORMAT, "n_supports is out of range");
    if (vectors == 0) {
        MC_TRY(mc_onnx_rows(n, &k));
        vectors = mica_array_dim(k, 1);
    } else {
        MC_TRY(vectors_of(n, vectors, &k));
    }
    MC_TRY(floats_of(n, "coefficients", (int64_t[]){vectors, 1}, 2, &w));
    MC_TRY(floats_of(n, "rho", (int64_t[]){1}, 1, &rho));
    if (!w.scope) return mc_fail(MICA_EFORMAT, "it has no coefficients");
    y = mica_matmul(s, k, w);
    if (rho.scope) y = mica_add(s, y, rho);
    if (mc_onnx_int(n, "one_class", 0))
        y = mica_where(s, mica_greater(s, y, mc_onnx_f32(n, 0)), mc_onnx_f32(n, 1),
                       mc_onnx_f32(n, -1));
    MC_TRY(mc_onnx_post(n, y, &y));
    return mc_onnx_give(n, 0, y);
}

enum { MAX_CLASSES = 128, MAX_PAIRS = MAX_CLASSES * (MAX_CLASSES - 1) / 2 };

/* Weights [vectors, pairs] of the decisions between two classes: coefficients [classes - 1,
 * vectors] have for a vector of class i against j the row j - 1 or, of j < i, j. */
static mica_status pair_weights(mc_onnx_node *n, const int64_t *per_class, int64_t classes,
                                int64_t vectors, mica_array *w) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, "coefficients");
    int64_t pairs = classes * (classes - 1) / 2, pair = 0, starts[MAX_CLASSES + 1] = {0};
    if (!a || (int64_t)a->n_floats != (classes - 1) * vectors)
        return mc_fail(MICA_EFORMAT, "its coefficients do not fit");
    for (int64_t i = 0; i < classes; i++)
        starts[i + 1] = starts[i] + per_class[i];
    MC_TRY(mc_onnx_charge(n->import, (uint64_t)(vectors * pairs) * sizeof(float)));
    float *rows = mc_calloc((size_t)(vectors * pairs) + 1, sizeof *rows);
    if (!rows) return mc_fail_nomem("support vectors");
    for (int64_t i = 0; i < classes; i++)
        for (int64_t j = i + 1; j < classes; j++, pair++) {
            for (int64_t v = starts[i]; v < starts[i + 1]; v++)
                rows[v * pairs + pair] = a->floats[(j - 1) * vectors + v];
            for (int64_t v = starts[j]; v < starts[j + 1]; v++)
                rows[v * pairs + pair] = a->floats[i * vectors + v];
        }
    *w = mica_from_data(n->s, rows, MICA_F32, (int64_t[]){vectors, pairs}, 2);
    mc_free(rows);
    return mica_scope_status(n->s);
}

/* Votes [N, classes] of decisions [N, pairs]: above 0 for the first class of a pair. */
static mica_array votes_of(mc_onnx_node *n, mica_array decisions, int64_t classes) {
    mica_scope *s = n->s;
    mica_array votes[MAX_CLASSES];
    mica_array first = mica_greater(s, decisions, mc_onnx_f32(n, 0));
    first = mica_astype(s, first, MICA_F32);
    for (int64_t c = 0; c < classes; c++) {
        int64_t pair = 0;
        mica_array sum = MICA_NONE;
        for (int64_t i = 0; i < classes; i++)
            for (int64_t j = i + 1; j < classes; j++, pair++) {
                if (i != c && j != c) continue;
                mica_array won = mica_slice_axis(s, first, 1, pair, pair + 1);
                if (j == c) won = mica_subtract(s, mc_onnx_f32(n, 1), won);
                sum = sum.scope ? mica_add(s, sum, won) : won;
            }
        votes[c] = sum;
    }
    return mica_concatenate(s, votes, (int)classes, 1);
}

/* Two classes: labels and scores of decisions [N, 1], which are above 0 for the first; or of shares
 * by Platt's a and b. */
static mica_status give_two(mc_onnx_node *n, const int64_t *labels, mica_array decisions) {
    mica_scope *s = n->s;
    mica_array a, b;
    MC_TRY(floats_of(n, "prob_a", (int64_t[]){1}, 1, &a));
    MC_TRY(floats_of(n, "prob_b", (int64_t[]){1}, 1, &b));
    if (!a.scope || !b.scope) { /* as onnxruntime has it: scores are the other way round */
        mica_array is_second = mica_less_equal(s, mica_squeeze(s, decisions, 1), mc_onnx_f32(n, 0));
        MC_TRY(mc_onnx_give_binary(n, labels, decisions, false));
        return mc_onnx_give_labels(n, labels, 2, mica_astype(s, is_second, MICA_I64));
    }
    mica_array share = mica_add(s, mica_multiply(s, decisions, a), b); /* of the second class */
    return mc_onnx_give_binary(n, labels, mica_sigmoid(s, share), true);
}

mica_status mc_onnx_ml_svm_classifier(mc_onnx_node *n) {
    mica_array k, w, rho;
    const int64_t *labels;
    size_t count;
    const mc_onnx_attribute *per = mc_onnx_attr(n, "vectors_per_class");
    MC_TRY(mc_onnx_labels(n, "classlabels_ints", &labels, &count));
    int64_t classes = (int64_t)count, vectors = 0;
    if (!per || per->n_ints == 0) return mc_onnx_refuse("support vectors without vectors");
    if (per->n_ints != count || count < 2 || count > MAX_CLASSES)
        return mc_fail(MICA_EFORMAT, "vectors_per_class does not fit");
    for (size_t i = 0; i < count; i++) {
        if (per->ints[i] < 0 || per->ints[i] > INT32_MAX / MAX_PAIRS)
            return mc_fail(MICA_EFORMAT, "vectors_per_class is out of range");
        vectors += per->ints[i];
    }
    int64_t pairs = classes * (classes - 1) / 2;
    MC_TRY(vectors_of(n, vectors, &k));
    MC_TRY(pair_weights(n, per->ints, classes, vectors, &w));
    MC_TRY(floats_of(n, "rho", &pairs, 1, &rho));
    mica_array decisions = mica_matmul(n->s, k, w);
    if (rho.scope) decisions = mica_add(n->s, decisions, rho);
    if (classes == 2) return give_two(n, labels, decisions);
    if (count_floats(n, "prob_a") > 0) return mc_onnx_refuse("shares of more than two classes");
    mica_array votes = votes_of(n, decisions, classes);
    MC_TRY(mc_onnx_give_labels(n, labels, count, mica_argmax(n->s, votes, 1, false)));
    MC_TRY(mc_onnx_post(n, decisions, &decisions));
    return mc_onnx_give(n, 1, decisions);
}

/* ---- features ---- */

/* (x - offset) scale */
mica_status mc_onnx_ml_scaler(mc_onnx_node *n) {
    mica_array x, offset, scale;
    MC_TRY(mc_onnx_rows(n, &x));
    MC_TRY(per_feature(n, "offset", mica_array_dim(x, 1), &offset));
    MC_TRY(per_feature(n, "scale", mica_array_dim(x, 1), &scale));
    if (offset.scope) x = mica_subtract(n->s, x, offset);
    if (scale.scope) x = mica_multiply(n->s, x, scale);
    return mc_onnx_give(n, 0, x);
}

/* x over the norm of its row; rows of zeros stay. */
mica_status mc_onnx_ml_normalizer(mc_onnx_node *n) {
    mica_array x, y;
    mc_str how = mc_onnx_text(n, "norm", "MAX");
    MC_TRY(mc_onnx_rows(n, &x));
    if (mc_str_is(how, "MAX"))
        y = mica_max(n->s, x, (int[]){1}, 1, true);
    else if (mc_str_is(how, "L1"))
        y = mica_sum(n->s, mica_abs(n->s, x), (int[]){1}, 1, true);
    else if (mc_str_is(how, "L2"))
        y = mica_sqrt(n->s, mica_sum(n->s, mica_square(n->s, x), (int[]){1}, 1, true));
    else
        return mc_onnx_refuse("this norm");
    y = mica_where(n->s, mica_equal(n->s, y, mc_onnx_f32(n, 0)), mc_onnx_f32(n, 1), y);
    return mc_onnx_give(n, 0, mica_divide(n->s, x, y));
}

/* What is missing, NaN or a number, replaced by each feature's number. */
mica_status mc_onnx_ml_imputer(mc_onnx_node *n) {
    mica_array x = n->in[0].x, value, gone;
    const mc_onnx_attribute *ints = mc_onnx_attr(n, "imputed_value_int64s");
    if (mica_array_ndim(x) < 1) return mc_fail(MICA_ESHAPE, "its operand has no features");
    int64_t features = mica_array_dim(x, -1);
    MC_TRY(mc_onnx_need_number(n->import, "its number of features", features));
    mica_dtype dtype = mica_array_dtype(x);
    if (!mica_dtype_is_float(dtype) && ints && ints->n_ints > 0) {
        int64_t count = (int64_t)ints->n_ints;
        if (count != 1 && count != features)
            return mc_fail(MICA_EFORMAT, "it has %lld values for its features", (long long)count);
        MC_TRY(mc_onnx_charge_again(n, ints->n_ints * sizeof *ints->ints));
        value = mica_from_data(n->s, ints->ints, MICA_I64, &count, 1);
        double missing = (double)mc_onnx_int(n, "replaced_value_int64", 0);
        gone = mica_equal(n->s, x, mica_scalar(n->s, missing, dtype));
    } else {
        MC_TRY(per_feature(n, "imputed_value_floats", features, &value));
        double missing = mc_onnx_real(n, "replaced_value_float", 0);
        gone = isnan(missing) ? mica_isnan(n->s, x)
                              : mica_equal(n->s, x, mica_scalar(n->s, missing, dtype));
    }
    if (!value.scope) return mc_fail(MICA_EFORMAT, "it has no values for what is missing");
    value = mica_astype(n->s, value, dtype);
    return mc_onnx_give(n, 0, mica_where(n->s, gone, value, x));
}

mica_status mc_onnx_ml_binarizer(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    mica_dtype dtype = mica_array_dtype(x);
    mica_array limit = mica_scalar(n->s, mc_onnx_real(n, "threshold", 0), dtype);
    return mc_onnx_give(n, 0, mica_astype(n->s, mica_greater(n->s, x, limit), dtype));
}

/* Columns by their numbers. */
mica_status mc_onnx_ml_array_feature_extractor(mc_onnx_node *n) {
    mica_array x = n->in[0].x, at = mica_reshape(n->s, n->in[1].x, (int64_t[]){-1}, 1);
    if (mica_array_ndim(x) == 0) return mc_fail(MICA_ESHAPE, "its operand has no features");
    if (mica_array_ndim(x) == 1) x = mica_expand_dims(n->s, x, 0);
    return mc_onnx_give(n, 0, mica_take(n->s, x, at, mica_array_ndim(x) - 1));
}

mica_status mc_onnx_ml_feature_vectorizer(mc_onnx_node *n) {
    mica_array xs[256];
    if (n->n_in > 256) return mc_onnx_refuse("so many operands");
    for (size_t i = 0; i < n->n_in; i++) {
        xs[i] = mica_astype(n->s, mc_onnx_x(n, i), MICA_F32);
        if (mica_array_ndim(xs[i]) == 1) xs[i] = mica_expand_dims(n->s, xs[i], 0);
    }
    return mc_onnx_give(n, 0, mica_concatenate(n->s, xs, (int)n->n_in, 1));
}

/* 1 where x is the category, along an axis behind the others. */
mica_status mc_onnx_ml_one_hot_encoder(mc_onnx_node *n) {
    mica_array x = n->in[0].x;
    const mc_onnx_attribute *a = mc_onnx_attr(n, "cats_int64s");
    if (!a || a->n_ints == 0) return mc_onnx_refuse("categories that are texts");
    MC_TRY(mc_onnx_charge_again(n, a->n_ints * sizeof *a->ints));
    mica_array cats = mica_from_data(n->s, a->ints, MICA_I64, (int64_t[]){(int64_t)a->n_ints}, 1);
    x = mica_expand_dims(n->s, mica_astype(n->s, x, MICA_I64), -1);
    mica_array y = mica_astype(n->s, mica_equal(n->s, x, cats), MICA_F32);
    if (mc_onnx_int(n, "zeros", 1)) return mc_onnx_give(n, 0, y);
    return mc_onnx_refuse("categories that must be known");
}

/* The result is a sequence of maps: here the scores, whose columns are the classes. */
mica_status mc_onnx_ml_zip_map(mc_onnx_node *n) {
    n->out[0] = n->in[0];
    return MICA_OK;
}

/* ---- LabelEncoder ---- */

/* One side of a map: numbers of a list or of a tensor, in its dtype. */
static mica_status side_of(mc_onnx_node *n, const char *const names[3], mica_array *y) {
    const mc_onnx_attribute *ints = mc_onnx_attr(n, names[0]), *floats = mc_onnx_attr(n, names[1]),
                            *tensor = mc_onnx_attr(n, names[2]);
    *y = MICA_NONE;
    if (ints && ints->n_ints > 0)
        *y = mica_from_data(n->s, ints->ints, MICA_I64, (int64_t[]){(int64_t)ints->n_ints}, 1);
    else if (floats && floats->n_floats > 0)
        *y = mica_from_data(n->s, floats->floats, MICA_F32, (int64_t[]){(int64_t)floats->n_floats},
                            1);
    else if (tensor && tensor->t)
        MC_TRY(mc_onnx_tensor_array(tensor->t, &n->import->outside, n->s, y));
    MC_TRY(mica_scope_status(n->s));
    if (!y->scope) return mc_onnx_refuse("labels that are texts");
    if (mica_array_ndim(*y) != 1 || mica_array_size(*y) == 0)
        return mc_fail(MICA_EFORMAT, "%s is no list", names[2]);
    return mc_onnx_charge_again(n, mica_array_bytes(*y));
}

/* What there is where a key is not listed. */
static mica_status default_of(mc_onnx_node *n, mica_dtype dtype, mica_array *y) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, "default_tensor");
    if (a && a->t) {
        MC_TRY(mc_onnx_tensor_array(a->t, &n->import->outside, n->s, y));
        MC_TRY(mc_onnx_charge_again(n, mica_array_bytes(*y)));
        if (mica_array_size(*y) != 1) return mc_fail(MICA_EFORMAT, "its default is no number");
        *y = mica_reshape(n->s, *y, NULL, 0);
    } else if (mica_dtype_is_float(dtype)) {
        *y = mica_scalar(n->s, mc_onnx_real(n, "default_float", -0.0), dtype);
    } else {
        *y = mica_scalar(n->s, (double)mc_onnx_int(n, "default_int64", -1), dtype);
    }
    return mica_scope_status(n->s);
}

mica_status mc_onnx_ml_label_encoder(mc_onnx_node *n) {
    static const char *const key_names[] = {"keys_int64s", "keys_floats", "keys_tensor"};
    static const char *const value_names[] = {"values_int64s", "values_floats", "values_tensor"};
    mica_scope *s = n->s;
    mica_array keys, values, otherwise, x = n->in[0].x;
    MC_TRY(side_of(n, key_names, &keys));
    MC_TRY(side_of(n, value_names, &values));
    if (mica_array_size(keys) != mica_array_size(values))
        return mc_fail(MICA_EFORMAT, "it has %lld keys and %lld values",
                       (long long)mica_array_size(keys), (long long)mica_array_size(values));
    MC_TRY(default_of(n, mica_array_dtype(values), &otherwise));
    keys = mica_astype(s, keys, mica_array_dtype(x));
    mica_array order = mica_astype(s, mica_argsort(s, keys, 0), MICA_I64);
    keys = mica_take(s, keys, order, 0);
    mica_array at = mica_astype(s, mica_searchsorted(s, keys, x, false), MICA_I64);
    at = mica_minimum(s, at, mica_scalar(s, (double)(mica_array_size(keys) - 1), MICA_I64));
    mica_array found = mica_equal(s, mica_take(s, keys, at, 0), x);
    if (mica_dtype_is_float(mica_array_dtype(x))) /* NaN is a key, too */
        found = mica_logical_or(
            s, found,
            mica_logical_and(s, mica_isnan(s, mica_take(s, keys, at, 0)), mica_isnan(s, x)));
    mica_array y = mica_take(s, mica_take(s, values, order, 0), at, 0);
    return mc_onnx_give(n, 0, mica_where(s, found, y, otherwise));
}
