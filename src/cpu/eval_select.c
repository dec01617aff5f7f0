/* where: selects bytes, of any dtype. */
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"

#include <string.h>

/* Selected by masks, without branches: both sides are read anyway. */
#define SELECT(T)                                                                                \
    static void select_##T(int64_t n, const uint8_t *c, const T *a, const T *b, T *restrict y) { \
        for (int64_t i = 0; i < n; i++) {                                                        \
            T mask = (T)(0 - (T)(c[i] != 0));                                                    \
            y[i] = (T)((a[i] & mask) | (b[i] & (T)~mask));                                       \
        }                                                                                        \
    }
SELECT(uint8_t)
SELECT(uint16_t)
SELECT(uint32_t)
SELECT(uint64_t)

static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const mc_call *call = *(const mc_call **)context;
    size_t size = mica_dtype_bytes(call->out.layout->dtype);
    mc_block c, a, b, y;
    for (int64_t at = begin; at < end; at += MC_BLOCK) {
        int64_t n = end - at < MC_BLOCK ? end - at : MC_BLOCK;
        const uint8_t *choice = mc_block_raw(&call->in[0], at, n, &c);
        const void *yes = mc_block_raw(&call->in[1], at, n, &a);
        const void *no = mc_block_raw(&call->in[2], at, n, &b);
        switch (size) {
        case 1:
            select_uint8_t(n, choice, yes, no, y.raw.u8);
            break;
        case 2:
            select_uint16_t(n, choice, yes, no, y.raw.u16);
            break;
        case 4:
            select_uint32_t(n, choice, yes, no, y.raw.u32);
            break;
        default:
            select_uint64_t(n, choice, yes, no, y.raw.u64);
            break;
        }
        memcpy((char *)call->out.data + at * (int64_t)size, &y.raw, (size_t)n * size);
    }
}

mica_status mc_stage_where(const mc_call *call, mc_stage *stage) {
    const mc_call **context = mc_stage_memory(stage, sizeof *context);
    if (!context) return MICA_OK;
    *context = call;
    mc_stage_set(stage, range, context, mc_layout_size(call->out.layout), 16384);
    return MICA_OK;
}
