/* require. */
#include "cpu/block.h"
#include "cpu/eval.h"
#include "graph/attr.h"

mica_status mc_eval_require(const mc_call *call) {
    static const struct {
        const char *op, *thing, *text;
    } rows[] = {
#define REQUIRE(ENUM, op, thing, text) {op, thing, text},
#include "graph/require_list.h"
    };
    int64_t what = ((const mc_attr_require *)call->attr)->what;
    int64_t n = mc_layout_size(call->in[1].layout);
    mc_block block;
    for (int64_t at = 0; at < n; at += MC_BLOCK) {
        int64_t count = n - at < MC_BLOCK ? n - at : MC_BLOCK;
        const uint8_t *holds = mc_block_raw(&call->in[1], at, count, &block);
        for (int64_t i = 0; i < count; i++)
            if (!holds[i])
                return mc_fail(MICA_EINVAL, "%s: %s %lld %s", rows[what].op, rows[what].thing,
                               (long long)(at + i), rows[what].text);
    }
    if (call->in[0].data != call->out.data && mc_layout_size(call->out.layout) > 0)
        mc_gather(&call->in[0], 0, mc_layout_size(call->out.layout), call->out.data);
    return MICA_OK;
}
