/* arange. */
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "graph/attr.h"

/* start + i * step in double, rounded once; to integers towards zero. */
mica_status mc_eval_arange(const mc_call *call) {
    const mc_attr_range *a = call->attr;
    mc_block block;
    bool floats = mica_dtype_is_float(call->out.layout->dtype);
    for (int64_t at = 0; at < a->count; at += MC_BLOCK) {
        int64_t n = a->count - at < MC_BLOCK ? a->count - at : MC_BLOCK;
        for (int64_t i = 0; i < n; i++) {
            double v = a->start + (double)(at + i) * a->step;
            if (floats)
                block.as.f32[i] = (float)v;
            else
                block.as.i64[i] = v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
        }
        if (floats)
            mc_block_put_f32(&call->out, at, n, block.as.f32);
        else
            mc_block_put_i64(&call->out, at, n, block.as.i64);
    }
    return MICA_OK;
}
