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
    *out = *in[0];
    return MICA_OK;
}

const mc_op_def mc_op_require = {.name = "require",
                                 .min_in = 2,
                                 .max_in = 2,
                                 MC_ATTR(require),
                                 .infer = require_infer,
                                 .in_place = 1};
MC_GRADIENT(require, mc_same_rule, mc_same_rule);

mica_array mc_require(mica_scope *s, mica_array x, mica_array holds, mc_requirement what) {
    const mica_array in[2] = {x, holds};
    return mc_record(s, MC_OP_REQUIRE, &(mc_attr_require){what}, in, 2);
}
