/* The values of an executable's parameters. */
#include <math.h>
#include <string.h>

#include <mica/ops.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "exec/bind.h"
#include "exec/executable.h"

void mc_value_drop(mc_value_of *value) {
    mc_storage_release(value->storage);
    *value = (mc_value_of){0};
}

mc_value_of mc_value_share(const mc_value_of *value) {
    mc_value_of shared = *value;
    if (shared.storage) mc_storage_retain(shared.storage);
    return shared;
}

/* ---- names ---- */

/* How many letters have to change for one name to be the other, of names cut to MAX bytes. */
static int distance(const char *a, const char *b) {
    enum { MAX = 48 };
    int row[MAX + 1], n = 0, m = 0;
    while (n < MAX && a[n])
        n++;
    while (m < MAX && b[m])
        m++;
    for (int k = 0; k <= m; k++)
        row[k] = k;
    for (int i = 1; i <= n; i++) {
        int before = row[0];
        row[0] = i;
        for (int k = 1; k <= m; k++) {
            int changed = before + (a[i - 1] != b[k - 1]);
            before = row[k];
            int more = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            row[k] = changed < more ? changed : more;
        }
    }
    return row[m];
}

static mica_status unknown(const char *what, const char *kind, const char *name,
                           const char *nearest) {
    return mc_fail(MICA_ENOENT, "%s: there is no %s \"%.60s\"%s%.60s%s", what, kind, name,
                   nearest ? "; the nearest is \"" : "", nearest ? nearest : "",
                   nearest ? "\"" : "");
}

mica_status mc_executable_find(mica_executable *x, const char *what, const char *name, size_t *i) {
    const char *nearest = NULL;
    int best = 0;
    if (!name) return mc_fail(MICA_EINVAL, "%s: the name is NULL", what);
    for (*i = 0; *i < x->n_params; ++*i)
        if (strcmp(x->params[*i].name, name) == 0) return MICA_OK;
    for (size_t k = 0; k < x->n_params; k++) {
        int far = distance(name, x->params[k].name);
        if (nearest && far >= best) continue;
        nearest = x->params[k].name;
        best = far;
    }
    return unknown(what, "parameter", name, nearest);
}

mica_status mc_executable_find_result(const mica_executable *x, const char *what, const char *name,
                                      uint32_t *i) {
    const mica_program *p = x->program;
    if (!name) return mc_fail(MICA_EINVAL, "%s: the name is NULL", what);
    for (*i = 0; *i < p->n_results; ++*i)
        if (strcmp(p->result_names[*i], name) == 0) return MICA_OK;
    return unknown(what, "result", name, NULL);
}

/* ---- making values ---- */

/* A value in memory of its own: the elements of a layout. */
static mica_status from_bytes(mica_executable *x, const mc_layout *l, const void *data,
                              mc_value_of *value) {
    const size_t bytes = (size_t)mc_layout_bytes(l);
    *value = (mc_value_of){.set = true, .own = true, .layout = *l};
    MC_TRY(mc_storage_new(x->device, bytes, &value->storage));
    mica_status status = mc_storage_write(x->device, value->storage, 0, data, bytes);
    if (status != MICA_OK) mc_value_drop(value);
    return status;
}

/* The value of an evaluated array that is dense. */
static mica_status from_node(mica_executable *x, const mc_executable_param *param,
                             const mc_node *node, mc_value_of *value) {
    if (node->length)
        return mc_fail(MICA_EINVAL, "executable: %.60s is the length of a symbol, without a value",
                       param->name);
    if (node->scalar) return from_bytes(x, &node->layout, &node->value, value);
    if (!node->storage)
        return mc_fail(MICA_EINVAL, "executable: %.60s is a parameter without a value",
                       param->name);
    if (node->storage->fallback)
        return from_bytes(x, &node->layout, (const char *)node->storage->host + node->offset_bytes,
                          value);
    *value = (mc_value_of){.set = true,
                           .storage = mc_storage_retain(node->storage),
                           .offset_bytes = node->offset_bytes,
                           .layout = node->layout};
    return MICA_OK;
}

/* Whether a layout is that of a parameter, whose symbols take any length, the same everywhere. */
static mica_status check_layout(const mica_executable *x, size_t i, const mc_layout *got,
                                bool convert) {
    const mc_executable_param *param = &x->params[i];
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
    int64_t lengths[MC_MAX_SYMBOLS];
    bool dtype = got->dtype == param->layout->dtype || convert, same = true;
    for (size_t k = 0; k < x->program->n_symbols; k++)
        lengths[k] = -1;
    if (param->open)
        MC_TRY(mc_program_match(x->program, i, got, lengths));
    else
        same = mc_layout_same_shape(got, param->layout);
    if (same && dtype) return MICA_OK;
    return mc_fail(same ? MICA_EDTYPE : MICA_ESHAPE, "executable: parameter %.60s is %s, given %s",
                   param->name, mc_layout_text(param->layout, b), mc_layout_text(got, a));
}

/* The array evaluated, of the parameter's dtype and dense, in a scope that is there for that. */
static mica_status lay_out(mica_executable *x, const mc_executable_param *param, mica_scope *s,
                           mica_array array, mc_value_of *value) {
    if (mica_array_dtype(array) != param->layout->dtype)
        array = mica_astype(s, array, param->layout->dtype);
    MC_TRY(mica_scope_status(s));
    MC_TRY(mica_eval(array.scope, array));
    if (!mc_layout_is_dense(mc_layout_of(array))) {
        array = mc_record(s, MC_OP_CONTIGUOUS, NULL, &array, 1);
        MC_TRY(mica_scope_status(s));
        MC_TRY(mica_eval(s, array));
    }
    return from_node(x, param, mc_node_of(array), value);
}

static mica_status from_array(mica_executable *x, size_t i, const mica_input *input,
                              mc_value_of *value) {
    const mc_executable_param *param = &x->params[i];
    mica_scope *s;
    mica_array array = input->array;
    MC_TRY(mc_check_valid(array, param->name));
    MC_TRY(mc_check_array(array, param->name));
    if (mica_scope_device(array.scope) != x->device)
        return mc_fail(MICA_EINVAL, "executable: parameter %.60s: an array of another device",
                       param->name);
    MC_TRY(check_layout(x, i, mc_layout_of(array), input->convert));
    MC_TRY(mica_eval(array.scope, array));
    MC_TRY(mica_scope_open(x->device, &s));
    mica_status status = lay_out(x, param, s, array, value);
    mica_scope_close(&s);
    return status;
}

/* Data of another dtype. */
static mica_status convert_data(mica_executable *x, const mc_executable_param *param,
                                const mc_layout *l, const void *data, mc_value_of *value) {
    mica_scope *s;
    MC_TRY(mica_scope_open(x->device, &s));
    mica_array array = mica_from_data(s, data, l->dtype, l->shape, l->ndim);
    mica_status status = mica_scope_status(s);
    if (status == MICA_OK) status = lay_out(x, param, s, array, value);
    mica_scope_close(&s);
    return status;
}

/* The length of the one symbol of a layout, from the bytes of its elements. */
static mica_status find_length(const mica_executable *x, const mc_executable_param *param,
                               size_t bytes, mc_layout *l) {
    const mica_program *p = x->program;
    size_t fixed = mica_dtype_bytes(l->dtype);
    int open = -1;
    for (int k = 0; k < l->ndim; k++) {
        if (mc_program_symbol_of(p, l->shape[k]) == p->n_symbols) {
            fixed *= (size_t)l->shape[k];
            continue;
        }
        if (open >= 0)
            return mc_fail(MICA_ESHAPE,
                           "executable: its bytes do not tell the lengths of parameter %.60s, of "
                           "which several are symbols: give an array",
                           param->name);
        open = k;
    }
    if (fixed == 0 || bytes % fixed != 0 || bytes / fixed > (size_t)INT64_MAX)
        return mc_fail(MICA_ESHAPE, "executable: parameter %.60s: %zu bytes are no multiple of %zu",
                       param->name, bytes, fixed);
    l->shape[open] = (int64_t)(bytes / fixed);
    return mc_layout_finish(l);
}

static mica_status from_data(mica_executable *x, size_t i, const mica_input *input,
                             mc_value_of *value) {
    const mc_executable_param *param = &x->params[i];
    mc_layout got = *param->layout;
    char text[MC_LAYOUT_TEXT];
    if (input->dtype < 0 || input->dtype >= MICA_DTYPE_COUNT)
        return mc_fail(MICA_EINVAL, "executable: parameter %.60s: there is no dtype %d",
                       param->name, (int)input->dtype);
    if (input->dtype != 0 || input->convert) got.dtype = input->dtype;
    if (param->open) MC_TRY(find_length(x, param, input->bytes, &got));
    MC_TRY(check_layout(x, i, &got, input->convert));
    size_t want = (size_t)mc_layout_size(&got) * mica_dtype_bytes(got.dtype);
    if (input->bytes != want)
        return mc_fail(MICA_ESHAPE, "executable: parameter %.60s: %zu bytes for %s, which has %zu",
                       param->name, input->bytes, mc_layout_text(&got, text), want);
    return got.dtype == param->layout->dtype ? from_bytes(x, &got, input->data, value)
                                             : convert_data(x, param, &got, input->data, value);
}

mica_status mc_executable_resolve(mica_executable *x, const mica_input *input, size_t i,
                                  mc_value_of *value) {
    const mc_executable_param *param = &x->params[i];
    *value = (mc_value_of){0};
    bool empty = param->bytes == 0 || (param->open && input->bytes == 0);
    if (input->data || (!input->array.scope && empty)) return from_data(x, i, input, value);
    if (input->array.scope) return from_array(x, i, input, value);
    return mc_fail(MICA_EINVAL, "executable: parameter %.60s: neither data nor an array",
                   param->name);
}

/* ---- the public functions ---- */

/* The parameter of that name, with nothing queued. */
static mica_status begin(mica_executable *x, const char *what, const char *name, size_t *i) {
    if (!x) return mc_fail(MICA_EINVAL, "%s: the executable is NULL", what);
    MC_TRY(mc_executable_drain(x));
    return mc_executable_find(x, what, name, i);
}

static void replace(mc_value_of *old, mc_value_of value) {
    mc_value_drop(old);
    *old = value;
}

mica_status mica_executable_set(mica_executable *executable, const mica_input *input) {
    size_t i;
    mc_value_of value;
    if (!input) return mc_fail(MICA_EINVAL, "executable_set: input is NULL");
    MC_TRY(begin(executable, "executable_set", input->name, &i));
    MC_TRY(mc_executable_resolve(executable, input, i, &value));
    replace(&executable->params[i].value, value);
    return MICA_OK;
}

/* The layout of what is set, or would be. errors  MICA_ESHAPE a symbol has no value */
static mica_status known_layout(const mc_executable_param *param, const char *what, mc_layout *l) {
    if (param->open && !param->value.set)
        return mc_fail(MICA_ESHAPE, "%s: a length of %.60s is not known before it is set", what,
                       param->name);
    *l = *mc_executable_layout(param, &param->value);
    return MICA_OK;
}

/* A copy of the parameter's value that nobody else holds; zeros where it is not set. */
static mica_status copy_value(mica_executable *x, const mc_executable_param *param,
                              const mc_layout *l, mc_value_of *copy) {
    const size_t n = (size_t)mc_layout_bytes(l);
    void *bytes = mc_calloc(n + 1, 1);
    if (!bytes) return mc_fail_nomem("a parameter");
    mica_status status = MICA_OK;
    if (param->value.set)
        status = mc_storage_read(x->device, param->value.storage, (size_t)param->value.offset_bytes,
                                 bytes, n);
    if (status == MICA_OK) status = from_bytes(x, l, bytes, copy);
    mc_free(bytes);
    return status;
}

mica_status mica_executable_set_range(mica_executable *executable, const char *name, size_t offset,
                                      const void *data, size_t bytes) {
    size_t i;
    mc_layout l;
    MC_TRY(begin(executable, "executable_set_range", name, &i));
    mc_executable_param *param = &executable->params[i];
    if (!data && bytes > 0) return mc_fail(MICA_EINVAL, "executable_set_range: data is NULL");
    MC_TRY(known_layout(param, "executable_set_range", &l));
    const size_t all = (size_t)mc_layout_bytes(&l);
    if (offset > all || bytes > all - offset)
        return mc_fail(MICA_ESHAPE,
                       "executable_set_range: bytes %zu to %zu of parameter %.60s, which has %zu",
                       offset, offset + bytes, name, all);
    mc_value_of *value = &param->value;
    bool alone = value->set && value->own && mc_storage_count(value->storage) == 1;
    if (!alone) {
        mc_value_of copy;
        MC_TRY(copy_value(executable, param, &l, &copy));
        replace(value, copy);
    }
    return mc_storage_write(executable->device, value->storage,
                            (size_t)value->offset_bytes + offset, data, bytes);
}

/* Whether a dtype of integers has a number; one of floats rounds it. */
static bool has_number(mica_dtype dtype, double number) {
    if (mica_dtype_is_float(dtype)) return true;
    if (dtype == MICA_BOOL) return number == 0 || number == 1;
    bool is_signed = mica_dtype_is_signed(dtype);
    double end = ldexp(1, 8 * (int)mica_dtype_bytes(dtype) - is_signed);
    return number == trunc(number) && number >= (is_signed ? -end : 0) && number < end;
}

static mica_status fill_in(mica_executable *x, const mc_executable_param *param, mica_scope *s,
                           double number, const mc_layout *l, mc_value_of *value) {
    mica_array array = mica_scalar(s, number, l->dtype);
    if (l->ndim > 0) array = mica_contiguous(s, mica_broadcast_to(s, array, l->shape, l->ndim));
    MC_TRY(mica_scope_status(s));
    return lay_out(x, param, s, array, value);
}

mica_status mica_executable_fill(mica_executable *executable, const char *name, double number) {
    size_t i;
    mica_scope *s;
    mc_value_of value;
    mc_layout l;
    MC_TRY(begin(executable, "executable_fill", name, &i));
    MC_TRY(known_layout(&executable->params[i], "executable_fill", &l));
    if (!has_number(l.dtype, number))
        return mc_fail(MICA_EINVAL, "executable_fill: %g is no %s, which parameter %.60s has",
                       number, mica_dtype_name(l.dtype), name);
    MC_TRY(mica_scope_open(executable->device, &s));
    mica_status status = fill_in(executable, &executable->params[i], s, number, &l, &value);
    mica_scope_close(&s);
    if (status == MICA_OK) replace(&executable->params[i].value, value);
    return status;
}

mica_status mica_executable_unset(mica_executable *executable, const char *name) {
    size_t i;
    MC_TRY(begin(executable, "executable_unset", name, &i));
    mc_value_drop(&executable->params[i].value);
    return MICA_OK;
}

mica_status mica_executable_get(mica_executable *executable, const char *name, mica_scope *into,
                                mica_array *array) {
    size_t i;
    if (!into || !array) return mc_fail(MICA_EINVAL, "executable_get: NULL");
    *array = (mica_array){into, MC_ABSENT};
    MC_TRY(begin(executable, "executable_get", name, &i));
    if (mica_scope_device(into) != executable->device)
        return mc_fail(MICA_EINVAL, "executable_get: the scope is of another device");
    const mc_executable_param *param = &executable->params[i];
    if (!param->value.set)
        return mc_fail(MICA_EINVAL, "executable_get: parameter %.60s is not set", name);
    *array = mc_leaf(into, mc_executable_layout(param, &param->value),
                     mc_storage_retain(param->value.storage), param->value.offset_bytes);
    return mica_scope_status(into);
}

mica_status mica_executable_feed(mica_executable *executable, const char *result,
                                 const char *param) {
    size_t i;
    uint32_t from = MC_ABSENT;
    MC_TRY(begin(executable, "executable_feed", param, &i));
    if (result) {
        MC_TRY(mc_executable_find_result(executable, "executable_feed", result, &from));
        const mc_layout *l = executable->results[from];
        char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT];
        bool dtype = l->dtype == executable->params[i].layout->dtype;
        if (!dtype || !mc_executable_feeds(executable, from, i))
            return mc_fail(dtype ? MICA_ESHAPE : MICA_EDTYPE,
                           "executable_feed: result %.60s is %s, parameter %.60s is %s", result,
                           mc_layout_text(l, a), param,
                           mc_layout_text(executable->params[i].layout, b));
    }
    executable->params[i].fed_by = from;
    executable->feeds = false;
    for (size_t k = 0; k < executable->n_params; k++)
        executable->feeds = executable->feeds || executable->params[k].fed_by != MC_ABSENT;
    return MICA_OK;
}
