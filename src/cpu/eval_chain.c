#include "cpu/eval_chain.h"

#include "cpu/chain.h"
#include "cpu/eval.h"
#include "cpu/matmul.h"
#include "cpu/tail.h"

#define OWN_BYTES 512 /* enough for most ops, without allocating scratch */

mc_row_form mc_chain_form(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                          int n_in) {
    const mc_row_form none = {0}, end = {.by_row = 1, .ends = true};
    if (op == MC_OP_CONV_GENERAL || op == MC_OP_INTEGER_CONV || op == MC_OP_INTEGER_MATMUL)
        return (mc_row_form){.begins = true, .result = true};
    if (op == MC_OP_MATMUL) return mc_matmul_ends_chain(state, attr, in) ? end : none;
    if (op == MC_OP_QUANTIZED_MATMUL) return mc_quantized_matmul_ends_chain(attr, in) ? end : none;
    return mc_is_stage(op) ? mc_stage_form(op, in, n_in) : none;
}

/* Stages at the beginning of a span. */
static int count_stages(const mc_call *call) {
    int n = 0;
    while (n < call->span && mc_is_stage(call[n].op))
        n++;
    return n;
}

void mc_chain_touches(const mc_call *call) {
    int n = count_stages(call);
    if (call->op == MC_OP_CONV_GENERAL)
        mc_tail_touch(call);
    else if (call->op == MC_OP_INTEGER_CONV || call->op == MC_OP_INTEGER_MATMUL)
        mc_tail_touch_rounded(call, mc_integer_rounds(call));
    else if (n == call->span)
        mc_chain_touch(call, 0, n);
    else /* matmuls, alone or at the end of a chain */
        mc_run_touch_calls(call, 0, call->span);
}

mica_status mc_eval_chain(const mc_call *call) {
    mc_chain chain;
    int n = count_stages(call);
    MC_TRY(mc_chain_measure(&chain, call, n));
    if (n < call->span)
        return call[n].op == MC_OP_MATMUL ? mc_matmul_after(&chain, &call[n])
                                          : mc_quantized_matmul_after(&chain, &call[n]);
    if (mc_run_is_measured(call->run)) { /* what is small enough lies in `own` */
        if (chain.bytes > OWN_BYTES) (void)mc_run_scratch(call->run, chain.bytes);
        return MICA_OK;
    }
    _Alignas(64) char own[OWN_BYTES];
    void *memory = own;
    if (chain.bytes > sizeof own) memory = mc_run_scratch(call->run, chain.bytes);
    if (!memory) return MICA_ENOMEM;
    MC_TRY(mc_chain_prepare(&chain, memory));
    mc_chain_run(&chain);
    return MICA_OK;
}
