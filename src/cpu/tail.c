#include "cpu/tail.h"

#include <math.h>

#include "cpu/block.h"

/* ---- steps in the kernel ---- */

/* Whether a layout is one row of so many numbers for all rows of a dense result. */
static bool is_row(const mc_layout *l, int64_t columns) {
    int last = l->ndim - 1;
    if (l->ndim == 0 || l->shape[last] != columns || (columns > 1 && l->strides[last] != 1))
        return false;
    for (int k = 0; k < last; k++)
        if (l->shape[k] != 1 && l->strides[k] != 0) return false;
    return true;
}

static const float *number_of(const mc_operand *x) {
    return mc_block_is_one(x->layout) && !isnan(*(const float *)x->data) ? x->data : NULL;
}

/* Takes a step into the epilogue, in its order, where it writes over what the kernel made. */
static bool take_step(const mc_call *head, const mc_call *step, int64_t columns, mk_epilogue *end) {
    const void *y = head->out.data;
    bool first = step->in[0].data == y;
    if (step->out.data != y || step->out.layout->dtype != MICA_F32 || step->n_in != 2 ||
        step->in[!first].data != y || step->in[first].data == y)
        return false;
    const mc_operand *x = &step->in[first];
    if (x->layout->dtype != MICA_F32) return false;
    if (step->op == MC_OP_ADD) {
        if (end->bounded || end->add) return false;
        if (!end->bias && is_row(x->layout, columns))
            end->bias = x->data;
        else if (mc_layout_is_dense(x->layout))
            end->add = x->data;
        else
            return false;
        return true;
    }
    bool least = step->op == MC_OP_MAXIMUM;
    if ((!least && step->op != MC_OP_MINIMUM) || !first || end->hi < INFINITY) return false;
    if (least && end->bounded) return false;
    const float *number = number_of(x);
    if (!number) return false;
    end->bounded = true;
    *(least ? &end->lo : &end->hi) = *number;
    return true;
}

static void take_steps(const mc_call *call, int64_t columns, mc_tail *tail) {
    tail->end = (mk_epilogue){.add_stride = columns, .lo = -INFINITY, .hi = INFINITY};
    tail->in_kernel = 0;
    if (columns == 0 || call->out.layout->dtype != MICA_F32) return;
    while (tail->in_kernel + 1 < call->span &&
           take_step(call, &call[tail->in_kernel + 1], columns, &tail->end))
        tail->in_kernel++;
}

/* ---- all of them ---- */

mica_status mc_tail_measure(const mc_call *call, int64_t columns, mc_tail *tail) {
    tail->end = (mk_epilogue){.add_stride = columns, .lo = -INFINITY, .hi = INFINITY};
    tail->in_kernel = 0;
    tail->rounded = NULL;
    MC_TRY(mc_chain_measure(&tail->chain, call + 1, call->span - 1));
    tail->bytes = tail->chain.bytes;
    return MICA_OK;
}

static mica_status prepare_others(const mc_call *call, void *memory, mc_tail *tail) {
    int done = 1 + tail->in_kernel;
    MC_TRY(mc_chain_measure(&tail->chain, call + done, call->span - done));
    MC_TRY(mc_chain_prepare(&tail->chain, memory));
    mc_chain_fuse(&tail->chain, &tail->fusion);
    return MICA_OK;
}

mica_status mc_tail_prepare(const mc_call *call, int64_t columns, void *memory, mc_tail *tail) {
    take_steps(call, columns, tail);
    return prepare_others(call, memory, tail);
}

/* How many steps behind the op are a rounding of its result, which nobody else reads. */
static int match_rounding(const mc_call *call, mc_rounding *r) {
    int n = call->span - 1;
    if (n == 0 || call[1].in[0].data != call->out.data || mc_is_read_behind(call, 1, call->span))
        return 0;
    return mc_match_rounding(call + 1, n, n, r);
}

mica_status mc_tail_prepare_rounding(const mc_call *call, void *memory, mc_tail *tail) {
    mc_rounding r;
    tail->in_kernel = match_rounding(call, &r);
    tail->rounded = NULL;
    if (tail->in_kernel > 0) {
        tail->round = mk_rounding_of(r.scale, r.zero, r.out->layout->dtype == MICA_I8);
        tail->rounded = r.out->data;
    }
    return prepare_others(call, memory, tail);
}

/* Of the op, whose operands its kernel reads. */
static void touch_operands(const mc_call *call) {
    for (int k = 0; k < call->n_in; k++)
        mc_run_touch(call, call->in[k].data);
}

void mc_tail_touch_rounded(const mc_call *call, bool rounds) {
    mc_rounding r;
    int n = rounds ? match_rounding(call, &r) : 0;
    touch_operands(call);
    mc_run_touch(call, n > 0 ? r.out->data : call->out.data);
    if (n > 0) mc_run_touch(call, r.scale);
    if (n > 0) mc_run_touch(call, r.zero);
    mc_chain_touch(call, 1 + n, call->span - 1 - n);
}

/* How many steps the kernel does depends on numbers: what it touches with any number of them. */
void mc_tail_touch(const mc_call *call) {
    int n = 1;
    mc_run_touch_calls(call, 0, 1);
    mc_chain_touch(call, n, call->span - n);
    for (; n < call->span && call[n].out.data == call->out.data; n++) {
        mc_run_touch_calls(call, n, n + 1);
        mc_chain_touch(call, n + 1, call->span - n - 1);
    }
}

mk_epilogue mc_tail_end(const mc_tail *tail, int64_t row, int64_t column) {
    mk_epilogue end = tail->end;
    if (end.bias) end.bias += column;
    if (end.add) end.add += row * end.add_stride + column;
    return end;
}

void mc_tail_run(const mc_tail *tail, int64_t begin, int64_t end, int worker) {
    mc_chain_rows(&tail->chain, begin, end, worker);
}
