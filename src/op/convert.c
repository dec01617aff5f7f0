/* Conversions between dtypes. */
#include <mica/ops.h>

#include <string.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/complex.h"
#include "op/gradient.h"

/* ---- astype ---- */

static mica_status astype_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)n_in;
    const mc_attr_dtype *a = attr;
    if (a->dtype < 0 || a->dtype >= MICA_DTYPE_COUNT)
        return mc_fail(MICA_EDTYPE, "astype: %lld is not a dtype", (long long)a->dtype);
    *out = *in[0];
    out->dtype = (mica_dtype)a->dtype;
    bool wide = in[0]->dtype == MICA_F64 || out->dtype == MICA_F64;
    bool narrow = in[0]->dtype == MICA_F32 || out->dtype == MICA_F32;
    if (wide && !narrow && in[0]->dtype != out->dtype)
        return mc_fail(MICA_EDTYPE, "astype: %s to %s: f64 goes by way of f32",
                       mica_dtype_name(in[0]->dtype), mica_dtype_name(out->dtype));
    return MICA_OK;
}

MC_OP(astype, 1, 1, MC_ATTR(dtype), .infer = astype_infer, .in_place = 1);
MC_GRADIENT(astype, mc_same_rule, mc_same_rule); /* what rules give is converted */

mica_array mica_astype(mica_scope *s, mica_array x, mica_dtype dtype) {
    if (!mc_operands_ok(s, "astype", &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) == dtype) return x;
    bool wide = mica_array_dtype(x) == MICA_F64 || dtype == MICA_F64;
    if (!wide && (mica_array_dtype(x) == MICA_C64 || dtype == MICA_C64))
        return mc_complex_astype(s, x, dtype);
    if (wide && mica_array_dtype(x) != MICA_F32 && dtype != MICA_F32)
        return mica_astype(s, mica_astype(s, x, MICA_F32), dtype);
    return mc_record(s, MC_OP_ASTYPE, &(mc_attr_dtype){(int64_t)dtype}, &x, 1);
}

/* ---- view ---- */

static mica_status view_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)n_in;
    const mc_attr_dtype *a = attr;
    if (a->dtype < 0 || a->dtype >= MICA_DTYPE_COUNT)
        return mc_fail(MICA_EDTYPE, "view: %lld is not a dtype", (long long)a->dtype);
    *out = *in[0];
    out->dtype = (mica_dtype)a->dtype;
    int64_t from = (int64_t)mica_dtype_bytes(in[0]->dtype);
    int64_t to = (int64_t)mica_dtype_bytes(out->dtype);
    if (from == to) return MICA_OK;
    char text[MC_LAYOUT_TEXT];
    int last = in[0]->ndim - 1;
    if (last < 0 || mc_dim_mod(mc_dim_mul(in[0]->shape[last], from), to) != 0)
        return mc_fail(MICA_ESHAPE, "view: the last axis of %s does not hold a whole number of %s",
                       mc_layout_text(in[0], text), mica_dtype_name(out->dtype));
    out->shape[last] = mc_dim_div(mc_dim_mul(in[0]->shape[last], from), to);
    return MICA_OK;
}

/* If the size of an element changes, the builder makes the operand dense first. */
static bool view_view(const void *attr, const mc_layout *in, mc_layout *out,
                      int64_t *offset_bytes) {
    (void)attr;
    *offset_bytes = 0;
    mc_layout_set_dense(out);
    if (mica_dtype_bytes(in->dtype) != mica_dtype_bytes(out->dtype)) return mc_layout_is_dense(in);
    for (int k = 0; k < in->ndim; k++)
        out->strides[k] = in->strides[k];
    return true;
}

MC_OP(view, 1, 1, MC_ATTR(dtype), .infer = view_infer, .view = view_view);

/* c64 is pairs of f32, and so are its gradients. */
static bool view_rule(const mc_gradient_node *n, const mica_array *from, mica_array *to,
                      mica_array like) {
    mica_dtype a = mica_array_dtype(n->in[0]), b = mica_array_dtype(n->out[0]);
    bool pairs = (a == MICA_C64 && b == MICA_F32) || (a == MICA_F32 && b == MICA_C64);
    if (pairs) *to = mica_view(n->s, *from, mica_array_dtype(like));
    return pairs;
}

static bool view_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    return view_rule(n, dy, dx, n->in[0]);
}

static bool view_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    return view_rule(n, dx, dy, n->out[0]);
}
const mc_op_gradient mc_gradient_view = {MC_GRADIENT_RULES, view_vjp, view_jvp,
                                         "it reads bits as another dtype"};

mica_array mica_view(mica_scope *s, mica_array x, mica_dtype dtype) {
    if (!mc_operands_ok(s, "view", &x, 1)) return mc_invalid(s);
    if (mica_array_dtype(x) == dtype) return x;
    /* A slice of small elements may not be aligned for larger ones: copy it first. */
    if (mica_dtype_bytes(mica_array_dtype(x)) < mica_dtype_bytes(dtype))
        x = mc_record(s, MC_OP_CONTIGUOUS, NULL, &x, 1);
    return mc_record(s, MC_OP_VIEW, &(mc_attr_dtype){(int64_t)dtype}, &x, 1);
}

/* ---- E4M3: sign, 4 bits of exponent with bias 7, 3 of fraction; no infinity ---- */

static mica_status to_fp8_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    (void)attr, (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "to_fp8: %s is not a float", mc_layout_text(in[0], text));
    *out = *in[0];
    out->dtype = MICA_U8;
    return MICA_OK;
}

MC_OP(to_fp8, 1, 1, .infer = to_fp8_infer, .in_place = 1);
MC_NO_GRADIENT(to_fp8, "its result are integers");

mica_array mica_to_fp8(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_TO_FP8, NULL, &x, 1);
}

static mica_status from_fp8_infer(const void *attr, const mc_layout *const *in, int n_in,
                                  mc_layout *out) {
    (void)n_in;
    const mc_attr_dtype *a = attr;
    char text[MC_LAYOUT_TEXT];
    if (in[0]->dtype != MICA_U8)
        return mc_fail(MICA_EDTYPE, "from_fp8: %s is not u8", mc_layout_text(in[0], text));
    if (a->dtype < MICA_F16 || a->dtype > MICA_F32)
        return mc_fail(MICA_EDTYPE, "from_fp8: dtype %lld is not a float", (long long)a->dtype);
    *out = *in[0];
    out->dtype = (mica_dtype)a->dtype;
    return MICA_OK;
}

MC_OP(from_fp8, 1, 1, MC_ATTR(dtype), .infer = from_fp8_infer);
MC_NO_GRADIENT(from_fp8, "it is of integers");

mica_array mica_from_fp8(mica_scope *s, mica_array x, mica_dtype dtype) {
    return mc_record(s, MC_OP_FROM_FP8, &(mc_attr_dtype){(int64_t)dtype}, &x, 1);
}

/* ---- 8-bit rows (q8) ---- */

#define Q8_GROUP 32

int64_t mica_q8_bytes(int64_t length) {
    if (length < 1) return 0;
    int64_t groups = (length - 1) / Q8_GROUP + 1;
    return (length + 3) / 4 * 4 + (groups + 1) / 2 * 4;
}

static mica_status to_q8_infer(const void *attr, const mc_layout *const *in, int n_in,
                               mc_layout *out) {
    (void)attr, (void)n_in;
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "to_q8: %s is not a float", mc_layout_text(in[0], text));
    if (in[0]->ndim == 0)
        return mc_fail(MICA_ESHAPE, "to_q8: a 0-dimensional array has no last axis");
    int64_t shape[MICA_MAX_NDIM];
    int last = in[0]->ndim - 1;
    memcpy(shape, in[0]->shape, sizeof shape);
    shape[last] = mica_q8_bytes(shape[last]);
    return mc_layout_init(out, MICA_U8, shape, in[0]->ndim);
}

MC_OP(to_q8, 1, 1, .infer = to_q8_infer);
MC_NO_GRADIENT(to_q8, "its result are integers");

mica_array mica_to_q8(mica_scope *s, mica_array x) {
    return mc_record(s, MC_OP_TO_Q8, NULL, &x, 1);
}

static mica_status from_q8_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    (void)n_in;
    const mc_attr_q8 *a = attr;
    char text[MC_LAYOUT_TEXT];
    int last = in[0]->ndim - 1;
    if (in[0]->dtype != MICA_U8)
        return mc_fail(MICA_EDTYPE, "from_q8: %s is not u8", mc_layout_text(in[0], text));
    if (a->dtype < MICA_F16 || a->dtype > MICA_F32)
        return mc_fail(MICA_EDTYPE, "from_q8: dtype %lld is not a float", (long long)a->dtype);
    if (last < 0 || a->length < 0 || a->length > in[0]->shape[last] ||
        in[0]->shape[last] != mica_q8_bytes(a->length))
        return mc_fail(MICA_ESHAPE, "from_q8: the last axis of %s is not a row of %lld elements",
                       mc_layout_text(in[0], text), (long long)a->length);
    int64_t shape[MICA_MAX_NDIM];
    memcpy(shape, in[0]->shape, sizeof shape);
    shape[last] = a->length;
    return mc_layout_init(out, (mica_dtype)a->dtype, shape, in[0]->ndim);
}

MC_OP(from_q8, 1, 1, MC_ATTR(q8), .infer = from_q8_infer);
MC_NO_GRADIENT(from_q8, "it is of integers");

mica_array mica_from_q8(mica_scope *s, mica_array rows, int64_t length, mica_dtype dtype) {
    return mc_record(s, MC_OP_FROM_Q8, &(mc_attr_q8){length, (int64_t)dtype}, &rows, 1);
}
