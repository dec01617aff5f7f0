/* What builders ask of a node, and what they give. */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/ops.h>

#include <stdio.h>
#include <string.h>

/* ---- operands ---- */

mica_array mc_onnx_x(const mc_onnx_node *n, size_t i) {
    return i < n->n_in ? n->in[i].x : MICA_NONE;
}

bool mc_onnx_has(const mc_onnx_node *n, size_t i) {
    return i < n->n_in && n->in[i].x.scope;
}

mica_status mc_onnx_need(const mc_onnx_node *n, size_t first, size_t last) {
    for (size_t i = first; i <= last; i++)
        if (!mc_onnx_has(n, i)) return mc_fail(MICA_EFORMAT, "operand %zu is absent", i);
    return MICA_OK;
}

bool mc_onnx_known(const mc_onnx_node *n, size_t i) {
    return mc_onnx_has(n, i) && n->in[i].known;
}

bool mc_onnx_used_once(const mc_onnx_node *n, size_t i) {
    return mc_onnx_uses_of(n->import, n->proto->input[i]) == 1;
}

mica_status mc_onnx_formed(mc_onnx_node *n, size_t i, int64_t kind, mc_onnx_make make,
                           mica_array *y) {
    mica_scope *s = n->import->constants;
    mc_onnx_form *form = n->in[i].known ? n->in[i].form : NULL;
    if (!form || (form->kind != 0 && form->kind != kind)) {
        *y = make(n->s, n->in[i].x, kind);
        return mica_scope_status(n->s);
    }
    if (form->kind == 0) {
        mica_array x = mica_contiguous(s, make(s, n->in[i].x, kind));
        MC_TRY(mica_eval(s, x));
        MC_TRY(mc_onnx_hold(n->import, x));
        form->kind = kind;
        form->x = x;
    }
    *y = form->x;
    return MICA_OK;
}

mica_status mc_onnx_need_known(const mc_onnx_node *n, size_t i) {
    if (n->in[i].known) return MICA_OK;
    n->import->need = MC_ONNX_NEED_VALUE;
    return mc_fail(
        MICA_EUNSUPPORTED,
        "operand %zu, '%s', depends on what a run is given, or takes too much to compute: "
        "mica must know it before",
        i, n->proto->input[i]);
}

mica_array mc_onnx_f32(const mc_onnx_node *n, double value) {
    return mica_scalar(n->s, value, MICA_F32);
}

mica_array mc_onnx_as_f32(const mc_onnx_node *n, mica_array x) {
    return mica_astype(n->s, x, MICA_F32);
}

mica_array mc_onnx_along(mica_scope *s, mica_array v, int axis, int ndim) {
    int64_t shape[MICA_MAX_NDIM];
    for (int k = 0; k < ndim; k++)
        shape[k] = k == axis ? mica_array_size(v) : 1;
    return mica_reshape(s, v, shape, ndim);
}

mica_status mc_onnx_need_number(mc_onnx_import *import, const char *what, int64_t length) {
    char text[MC_DIM_TEXT];
    if (!mc_dim_has_symbols(length)) return MICA_OK;
    import->need = MC_ONNX_NEED_LENGTH;
    return mc_fail(MICA_EUNSUPPORTED, "%s must be a number, and is %s", what,
                   mc_dim_text(length, text));
}

/* Whether an operand is lengths, and none has a fraction or is counted by a run. */
static bool is_lengths(const mc_onnx_node *n, size_t i) {
    const mc_onnx_lengths *l = n->in[i].lengths;
    for (int k = 0; l && k < l->count; k++)
        if (!mc_dim_is_whole(l->at[k]) || mc_onnx_is_counted(n->import, l->at[k])) return false;
    return l != NULL;
}

mica_status mc_onnx_operand_dims(const mc_onnx_node *n, size_t i, int max, int64_t *list,
                                 int *count) {
    *count = -1;
    if (!mc_onnx_has(n, i)) return MICA_OK;
    if (is_lengths(n, i)) {
        const mc_onnx_lengths *l = n->in[i].lengths;
        if (l->count > max) return mc_fail(MICA_EFORMAT, "operand %zu has %d numbers", i, l->count);
        memcpy(list, l->at, (size_t)l->count * sizeof *list);
        *count = l->count;
        return MICA_OK;
    }
    MC_TRY(mc_onnx_need_known(n, i));
    mica_array x = n->in[i].x;
    int64_t size = mica_array_size(x);
    if (size > max)
        return mc_fail(MICA_EFORMAT, "operand %zu has %lld numbers", i, (long long)size);
    x = mica_astype(n->import->constants, x, MICA_I64);
    MC_TRY(mica_read(x, list, (size_t)size * sizeof *list));
    *count = (int)size;
    return MICA_OK;
}

mica_status mc_onnx_operand_shape(mc_onnx_node *n, size_t i, int64_t shape[MICA_MAX_NDIM],
                                  int *count, int *axis, mica_array *counted) {
    const mc_onnx_lengths *l = n->in[i].lengths;
    *axis = -1;
    *counted = MICA_NONE;
    for (int k = 0; l && k < l->count && k < MICA_MAX_NDIM; k++) {
        if (!mc_onnx_is_counted(n->import, l->at[k])) continue;
        if (*axis >= 0) return mc_onnx_refuse("a shape with several lengths that depend on values");
        *axis = k;
        *counted = mc_onnx_record_dim(n->import, n->s, l->at[k]);
    }
    if (*axis < 0 || l->count > MICA_MAX_NDIM)
        return mc_onnx_operand_dims(n, i, MICA_MAX_NDIM, shape, count);
    *count = l->count;
    for (int k = 0; k < l->count; k++) {
        shape[k] = mc_onnx_room(n->import, l->at[k]);
        if (shape[k] == MC_DIM_NONE || !mc_dim_is_whole(shape[k]))
            return mc_onnx_refuse("a length that depends on values so");
    }
    return MICA_OK;
}

mica_status mc_onnx_operand_ints(const mc_onnx_node *n, size_t i, int max, int64_t *list,
                                 int *count) {
    char what[64];
    MC_TRY(mc_onnx_operand_dims(n, i, max, list, count));
    snprintf(what, sizeof what, "operand %zu", i);
    for (int k = 0; k < *count && n->in[i].lengths; k++)
        MC_TRY(mc_onnx_need_number(n->import, what, list[k]));
    return MICA_OK;
}

mica_status mc_onnx_operand_real(const mc_onnx_node *n, size_t i, double otherwise, double *value) {
    char what[64];
    MC_TRY(mc_onnx_operand_scalar(n, i, otherwise, value));
    snprintf(what, sizeof what, "operand %zu", i);
    return mc_onnx_need_number(n->import, what, mc_dim_of_real(*value));
}

mica_status mc_onnx_operand_scalar(const mc_onnx_node *n, size_t i, double otherwise,
                                   double *value) {
    *value = otherwise;
    if (!mc_onnx_has(n, i)) return MICA_OK;
    if (is_lengths(n, i)) {
        if (n->in[i].lengths->count != 1)
            return mc_fail(MICA_EFORMAT, "operand %zu is not one number", i);
        *value = (double)n->in[i].lengths->at[0];
        return MICA_OK;
    }
    MC_TRY(mc_onnx_need_known(n, i));
    if (mica_array_size(n->in[i].x) != 1)
        return mc_fail(MICA_EFORMAT, "operand %zu is not one number", i);
    return mica_item_f64(n->in[i].x, value);
}

/* ---- attributes ---- */

static const mc_onnx_attribute *find_in(mc_onnx_attribute *const *list, size_t n,
                                        const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i]->name ? list[i]->name : "", name) == 0) return list[i];
    return NULL;
}

/* An attribute of a node; of one that stands for an attribute of a call that. */
static const mc_onnx_attribute *find_attr(const mc_onnx_names *names,
                                          const mc_onnx_proto_node *node, const char *name) {
    const mc_onnx_attribute *a = find_in(node->attribute, node->n_attribute, name);
    while (a && a->ref_attr_name && *a->ref_attr_name) {
        while (names && !names->call)
            names = names->outer;
        if (!names) return NULL;
        const mc_onnx_call *call = names->call;
        const char *other = a->ref_attr_name;
        names = call->names;
        a = find_in(call->node->attribute, call->node->n_attribute, other);
        if (!a)
            return find_in(call->function->attribute_proto, call->function->n_attribute_proto,
                           other);
    }
    return a;
}

const mc_onnx_attribute *mc_onnx_attr(const mc_onnx_node *n, const char *name) {
    return find_attr(n->names, n->proto, name);
}

enum { FLOAT = 1, INT = 2, STRING = 3, INTS = 7 }; /* ONNX's numbers of types */

/* The attribute of a type, or NULL. Writers leave out fields that are 0, so what tells its type is
 * the number; those of the oldest files have none. */
static const mc_onnx_attribute *attr_of(const mc_onnx_node *n, const char *name, int type) {
    const mc_onnx_attribute *a = mc_onnx_attr(n, name);
    if (!a || !a->has_type || a->type == 0 || a->type == type) return a;
    n->import->mistyped = name;
    return NULL;
}

int64_t mc_onnx_int(const mc_onnx_node *n, const char *name, int64_t otherwise) {
    const mc_onnx_attribute *a = attr_of(n, name, INT);
    return a ? a->i : otherwise;
}

double mc_onnx_real(const mc_onnx_node *n, const char *name, double otherwise) {
    const mc_onnx_attribute *a = attr_of(n, name, FLOAT);
    return a ? (double)a->f : otherwise;
}

mc_str mc_onnx_text(const mc_onnx_node *n, const char *name, const char *otherwise) {
    const mc_onnx_attribute *a = attr_of(n, name, STRING);
    if (!a) return mc_str_of(otherwise);
    return (mc_str){a->s.data ? (const char *)a->s.data : "", a->s.len};
}

mica_status mc_onnx_ints(const mc_onnx_node *n, const char *name, int max, int64_t *list,
                         int *count) {
    const mc_onnx_attribute *a = attr_of(n, name, INTS);
    *count = -1;
    if (!a) return MICA_OK;
    if (a->n_ints > (size_t)max)
        return mc_fail(MICA_EFORMAT, "%s has %zu numbers", name, a->n_ints);
    for (size_t i = 0; i < a->n_ints; i++)
        list[i] = a->ints[i];
    *count = (int)a->n_ints;
    return MICA_OK;
}

/* ---- axes ---- */

static mica_status count_axis(int64_t axis, int ndim, int *out) {
    int64_t from_0 = axis < 0 ? axis + ndim : axis;
    if (from_0 < 0 || from_0 >= ndim)
        return mc_fail(MICA_EFORMAT, "there is no axis %lld of %d", (long long)axis, ndim);
    *out = (int)from_0;
    return MICA_OK;
}

/* The operand, or where it is absent the attribute that it was before. */
mica_status mc_onnx_dims_or(const mc_onnx_node *n, size_t i, const char *name, int max,
                            int64_t *list, int *count) {
    MC_TRY(mc_onnx_operand_dims(n, i, max, list, count));
    return *count < 0 ? mc_onnx_ints(n, name, max, list, count) : MICA_OK;
}

mica_status mc_onnx_axis(const mc_onnx_node *n, int64_t otherwise, int ndim, int *axis) {
    return count_axis(mc_onnx_int(n, "axis", otherwise), ndim, axis);
}

mica_status mc_onnx_axes(const mc_onnx_node *n, size_t at, int ndim, int axes[MICA_MAX_NDIM],
                         int *count) {
    int64_t list[MICA_MAX_NDIM];
    MC_TRY(mc_onnx_operand_ints(n, at, MICA_MAX_NDIM, list, count));
    if (*count < 0) MC_TRY(mc_onnx_ints(n, "axes", MICA_MAX_NDIM, list, count));
    for (int i = 0; i < *count; i++)
        MC_TRY(count_axis(list[i], ndim, &axes[i]));
    return MICA_OK;
}

/* ---- results ---- */

mica_status mc_onnx_give(mc_onnx_node *n, size_t i, mica_array x) {
    if (i < n->n_out) n->out[i] = (mc_onnx_value){.x = x};
    return mica_scope_status(n->s);
}

static mica_array to_first(mica_scope *s, mica_array last) {
    int axes[MICA_MAX_NDIM], ndim = mica_array_ndim(last);
    if (ndim < 3) return last;
    axes[0] = 0;
    axes[1] = ndim - 1;
    for (int k = 2; k < ndim; k++)
        axes[k] = k - 1;
    return mica_transpose(s, last, axes);
}

mica_status mc_onnx_give_last(mc_onnx_node *n, size_t i, mica_array last) {
    if (i < n->n_out) n->out[i] = (mc_onnx_value){.x = to_first(n->s, last), .last = last};
    return mica_scope_status(n->s);
}

mica_array mc_onnx_to_last(mica_scope *s, mica_array x) {
    int axes[MICA_MAX_NDIM], ndim = mica_array_ndim(x);
    if (ndim < 3) return x;
    axes[0] = 0;
    axes[ndim - 1] = 1;
    for (int k = 2; k < ndim; k++)
        axes[k - 1] = k;
    return mica_transpose(s, x, axes);
}

mica_array mc_onnx_last(const mc_onnx_node *n, size_t i) {
    if (i < n->n_in && n->in[i].last.scope) return n->in[i].last;
    return mc_onnx_to_last(n->s, mc_onnx_x(n, i));
}

mica_status mc_onnx_refuse(const char *what) {
    return mc_fail(MICA_EUNSUPPORTED, "mica does not have %s", what);
}

mica_array mc_onnx_fit(mica_scope *s, mica_array x, const int64_t *shape, int ndim, int but) {
    int64_t fit[MICA_MAX_NDIM];
    bool changed = false;
    for (int k = 0; k < ndim; k++) {
        fit[k] = mica_array_dim(x, k);
        if (k == but || fit[k] == shape[k] || !mc_dim_may_equal(fit[k], shape[k])) continue;
        fit[k] = shape[k];
        changed = true;
    }
    return changed ? mica_reshape(s, x, fit, ndim) : x;
}

mica_array mc_onnx_align(mica_scope *s, mica_array x, mica_array like) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(x), other = mica_array_ndim(like);
    for (int k = 0; k < ndim; k++) {
        int at = other - ndim + k;
        int64_t want = at < 0 ? 1 : mica_array_dim(like, at);
        shape[k] = want == 1 || mica_array_dim(x, k) == 1 ? mica_array_dim(x, k) : want;
    }
    return mc_onnx_fit(s, x, shape, ndim, -1);
}

/* ---- element by element ---- */

mica_status mc_onnx_map(mc_onnx_node *n, mc_onnx_unary f) {
    if (n->in[0].last.scope) return mc_onnx_give_last(n, 0, f(n->s, n->in[0].last));
    return mc_onnx_give(n, 0, f(n->s, n->in[0].x));
}

mica_status mc_onnx_map_with(mc_onnx_node *n, mc_onnx_mapped f, const double *numbers) {
    if (n->in[0].last.scope) return mc_onnx_give_last(n, 0, f(n, n->in[0].last, numbers));
    return mc_onnx_give(n, 0, f(n, n->in[0].x, numbers));
}

/* An operand that broadcasts to ndim axes in the form with the channels last. */
static mica_array spread_last(const mc_onnx_node *n, size_t i, int ndim) {
    mica_array x = n->in[i].x;
    int own = mica_array_ndim(x);
    int64_t shape[MICA_MAX_NDIM];
    if (n->in[i].last.scope && own == ndim) return n->in[i].last;
    if (own == 0) return x;
    for (int k = 0; k < ndim; k++)
        shape[k] = k < ndim - own ? 1 : mica_array_dim(x, k - (ndim - own));
    return mc_onnx_to_last(n->s, mica_reshape(n->s, x, shape, ndim));
}

/* Before opset 7 the second operand lies at the axes from one on: it gets axes behind them. */
static mica_status place_axes(mc_onnx_node *n) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = mica_array_ndim(n->in[0].x), own = mica_array_ndim(n->in[1].x);
    int64_t axis = mc_onnx_int(n, "axis", -1);
    if (n->import->opset >= 7 || axis < 0 || own == 0) return MICA_OK;
    if (axis + own > ndim) return mc_fail(MICA_EFORMAT, "there is no axis %lld", (long long)axis);
    for (int64_t k = axis; k < ndim; k++)
        shape[k - axis] = k - axis < own ? mica_array_dim(n->in[1].x, (int)(k - axis)) : 1;
    n->in[1] = (mc_onnx_value){.x = mica_reshape(n->s, n->in[1].x, shape, ndim - (int)axis)};
    return mica_scope_status(n->s);
}

mica_status mc_onnx_map2(mc_onnx_node *n, mc_onnx_binary f) {
    MC_TRY(place_axes(n));
    int ndim = mica_array_ndim(n->in[0].x), other = mica_array_ndim(n->in[1].x);
    bool last = (n->in[0].last.scope && ndim >= other) || (n->in[1].last.scope && other >= ndim);
    if (!last) {
        mica_array y = mc_onnx_align(n->s, n->in[1].x, n->in[0].x);
        return mc_onnx_give(n, 0, f(n->s, n->in[0].x, y));
    }
    if (other > ndim) ndim = other;
    mica_array a = spread_last(n, 0, ndim), b = spread_last(n, 1, ndim);
    return mc_onnx_give_last(n, 0, f(n->s, a, mc_onnx_align(n->s, b, a)));
}
