/* require: an array as it is, if something holds of data. An error at evaluation names the first
 * element of which it does not. */
#include "op/require.h"

#include "graph/attr.h"
#include "op/gradient.h"

static mica_status require_infer(const void *attr, const mc_layout *const *in, int n_in,
                                 mc_layout *out) {
    (void)n_in;
    char text[MC_LAYOUT_TEXT];
    int64_t what = ((const mc_attr_require *)attr)->what;
    if (what < 0 || what >= MC_REQUIRE_COUNT)
        return mc_fail(MICA_EINVAL, "require: nothing has the number %lld", (long long)what);
    if (in[1]->dtype != MICA_BOOL)
        return mc_fail(MICA_EDTYPE, "require: %s is not bool", mc_layout_text(in[1], text));
    int64_t axis = ((const mc_attr_require *)attr)->axis;
    if (axis < 0 || (axis > 0 && axis >= in[0]->ndim))
        return mc_fail(MICA_EINVAL, "require: there is no axis %lld", (long long)axis);
    *out = *in[0];
    return MICA_OK;
}

MC_OP(require, 2, 2, MC_ATTR(require), .infer = require_infer, .in_place = 1);
MC_GRADIENT(require, mc_same_rule, mc_same_rule);

mica_array mc_require(mica_scope *s, mica_array x, mica_array holds, mc_requirement what) {
    const mica_array in[2] = {x, holds};
    return mc_record(s, MC_OP_REQUIRE, &(mc_attr_require){.what = what}, in, 2);
}

mica_array mc_require_count(mica_scope *s, mica_array x, mica_array count, int axis) {
    mica_array room = mica_scalar(s, (double)mica_array_dim(x, axis), MICA_I64);
    const mica_array in[2] = {x, mica_less_equal(s, count, room)};
    return mc_record(s, MC_OP_REQUIRE, &(mc_attr_require){MC_REQUIRE_TRIM, axis}, in, 2);
}

bool mc_required_count(mica_array x, int *axis, uint32_t *count) {
    const mc_node *node = mc_node_of(x);
    const mc_attr_require *attr = node->attr;
    if (node->op != MC_OP_REQUIRE || attr->what != MC_REQUIRE_TRIM) return false;
    const mc_node *holds = mc_scope_node(x.scope, node->in[1]);
    if (holds->op != MC_OP_LESS_EQUAL) return false;
    *axis = (int)attr->axis;
    *count = holds->in[0];
    return true;
}
