/* Scans along the last axis: cumulative sum, product, max, min and logsumexp. */
#include <mica/ops.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/build.h"
#include "op/dtype.h"

static mica_status scan_infer(const void *attr, const mc_layout *const *in, int n_in,
                              mc_layout *out) {
    (void)attr, (void)n_in;
    if (in[0]->ndim < 1) return mc_fail(MICA_EINVAL, "scan: a 0-dimensional array has no axis");
    *out = *in[0];
    return MICA_OK;
}

static mica_status logcumsumexp_infer(const void *attr, const mc_layout *const *in, int n_in,
                                      mc_layout *out) {
    char text[MC_LAYOUT_TEXT];
    if (!mica_dtype_is_float(in[0]->dtype))
        return mc_fail(MICA_EDTYPE, "logcumsumexp: %s is not a float", mc_layout_text(in[0], text));
    return scan_infer(attr, in, n_in, out);
}

static mica_array record(mica_scope *s, mc_op op, const char *name, mica_array x, int axis,
                         bool reverse, bool inclusive) {
    if (!mc_operands_ok(s, name, &x, 1)) return mc_invalid(s);
    int at;
    if (!mc_find_axis(s, name, mc_layout_of(x), axis, &at)) return mc_invalid(s);
    bool adds = op == MC_OP_CUMSUM || op == MC_OP_CUMPROD;
    if (adds && mica_array_dtype(x) == MICA_BOOL) x = mc_cast(s, x, MICA_I32);
    if (op == MC_OP_LOGCUMSUMEXP) x = mc_cast(s, x, mc_inexact(mica_array_dtype(x)));
    x = mica_swapaxes(s, x, at, -1);
    mica_array y = mc_record(s, op, &(mc_attr_scan){reverse, inclusive}, &x, 1);
    return mica_swapaxes(s, y, at, -1);
}

#define SCAN(ENUM, name, infer_fn)                                                                \
    const mc_op_def mc_op_##name = {#name,         .min_in = 1,       .max_in = 1,                \
                                    MC_ATTR(scan), .infer = infer_fn, .in_place = 1};             \
    mica_array mica_##name(mica_scope *s, mica_array x, int axis, bool reverse, bool inclusive) { \
        return record(s, MC_OP_##ENUM, #name, x, axis, reverse, inclusive);                       \
    }
SCAN(CUMSUM, cumsum, scan_infer)
SCAN(CUMPROD, cumprod, scan_infer)
SCAN(CUMMAX, cummax, scan_infer)
SCAN(CUMMIN, cummin, scan_infer)
SCAN(LOGCUMSUMEXP, logcumsumexp, logcumsumexp_infer)
