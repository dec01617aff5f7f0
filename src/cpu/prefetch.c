#include "cpu/prefetch.h"

#include "cpu/matmul_call.h"

#define FEW_ROWS 16 /* of a matmul that takes no longer than reading w */

int mc_cpu_next(const mc_call *last, mc_stretch next[MC_MAX_JOINT]) {
    const mc_call *call = last + 1, *end = last + last->left;
    while (call < end && !mc_is_matmul(call->op) && !mc_is_picked_matmul(call->op))
        call++;
    if (call >= end || mc_is_picked_matmul(call->op)) return 0; /* which matrices is not known */
    int n = mc_matmul_is_one_region(call) && call->joint > 1 ? call->joint : 1;
    for (int i = 0; i < n; i++) {
        const mc_operand *b = &call[i].in[MC_MATMUL_W];
        next[i] = (mc_stretch){b->data, mc_layout_bytes(b->layout)};
    }
    return n;
}

void mc_cpu_prefetch(const mc_call *last, int64_t m) {
    _Static_assert(MC_MAX_JOINT <= MC_MAX_STRETCHES, "the pool takes all that are joint");
    mc_cpu *cpu = mc_cpu_of(last);
    if (cpu->threads == 1) return;
    mc_stretch next[MC_MAX_JOINT];
    int n = m <= FEW_ROWS ? mc_cpu_next(last, next) : 0;
    mc_pool_prefetch(cpu->pool, next, n);
}
