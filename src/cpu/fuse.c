#include "cpu/fuse.h"

#include "cpu/block.h"
#include "cpu/cpu.h"

/* ---- which ops ---- */

typedef enum kind { NONE, UNARY_OP, ALIKE_OP, BINARY_OP } kind;

/* The step of an op, of binary ones that with an array; the others follow in this order. */
enum { ARRAY, NUMBER, ITSELF, FROM_ARRAY, FROM_NUMBER };

static const struct op_row {
    kind kind;
    mk_step_op step;
} op_table[MC_OP_COUNT] = {
#define ALIKE(op, name, expression) [MC_OP_##op] = {ALIKE_OP, MK_STEP_##name##_array},
#define BINARY(op, name, expression) [MC_OP_##op] = {BINARY_OP, MK_STEP_##name##_array},
#define UNARY(op, name, expression) [MC_OP_##op] = {UNARY_OP, MK_STEP_##name},
#define COSTLY UNARY
#include "cpu/kern/elem/elem_step_list.h"
};

/* Whether x is dense f32, or one number for all. */
static bool can_read(const mc_operand *x) {
    return x->layout->dtype == MICA_F32 &&
           (mc_layout_is_dense(x->layout) || mc_block_is_one(x->layout));
}

bool mc_can_fuse(const mc_call *call) {
    const kind k = op_table[call->op].kind;
    if (k == NONE || call->out.layout->dtype != MICA_F32) return false;
    return can_read(&call->in[0]) && (k == UNARY_OP || can_read(&call->in[1]));
}

/* ---- steps ---- */

static bool reads(const mc_call *call, const void *data) {
    bool binary = op_table[call->op].kind != UNARY_OP;
    return call->in[0].data == data || (binary && call->in[1].data == data);
}

/* Whether somebody reads the result of calls[k] from memory: not where a later one of the n calls
 * writes over it, and at most the next one reads it before. */
static bool is_kept(const mc_call *calls, int k, int n) {
    const void *data = calls[k].out.data;
    for (int m = k + 1; m < n; m++) {
        if (m > k + 1 && reads(&calls[m], data)) return true;
        if (calls[m].out.data == data) return false;
    }
    return true;
}

static void add_step(mc_fusion *f, mk_step_op op, const mc_operand *x) {
    f->steps[f->n_steps++] = (mk_step){.op = op, .x = x ? x->data : NULL};
}

/* v becomes x. */
static void add_load(mc_fusion *f, const mc_operand *x) {
    add_step(f, mc_block_is_one(x->layout) ? MK_STEP_load_number : MK_STEP_load, x);
}

/* v is what the call before gave, `before`; NULL: nothing. */
static void add_call(mc_fusion *f, const mc_call *call, const void *before) {
    const struct op_row *row = &op_table[call->op];
    const mc_operand *a = &call->in[0], *b = &call->in[1];
    bool a_is_v = before && a->data == before;
    if (row->kind == UNARY_OP) {
        if (!a_is_v) add_load(f, a);
        add_step(f, row->step, NULL);
        return;
    }
    bool b_is_v = before && b->data == before;
    if (!a_is_v && !b_is_v) {
        add_load(f, a);
        a_is_v = true;
        bool numbers = mc_block_is_one(a->layout) || mc_block_is_one(b->layout);
        b_is_v = a->data == b->data && !numbers;
    }
    const mc_operand *other = a_is_v ? b : a;
    int form = mc_block_is_one(other->layout) ? NUMBER : ARRAY;
    if (a_is_v && b_is_v)
        form = ITSELF;
    else if (!a_is_v && row->kind == BINARY_OP)
        form += FROM_ARRAY;
    add_step(f, (mk_step_op)((int)row->step + form), form == ITSELF ? NULL : other);
}

/* ---- loops ---- */

void mc_run_fused(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const mc_fused *f = context;
    f->run(begin, end, f->steps, f->n_steps);
}

mc_fused *mc_fuse(mc_fusion *f, const mc_call *calls, int n) {
    mc_fused *fused = &f->fused[f->n_fused++];
    *fused = (mc_fused){.run = mc_cpu_of(calls)->kern->elem_steps, .steps = f->steps + f->n_steps};
    int first = f->n_steps;
    for (int k = 0; k < n; k++) {
        add_call(f, &calls[k], k > 0 ? calls[k - 1].out.data : NULL);
        if (is_kept(calls, k, n))
            f->steps[f->n_steps++] = (mk_step){.op = MK_STEP_store, .y = calls[k].out.data};
    }
    fused->n_steps = f->n_steps - first;
    return fused;
}
