/* Products of matrices that indices pick: a matmul for each, which reads the weights where they
 * lie. */
#include "cpu/eval.h"

#include "cpu/eval_chain.h"
#include "cpu/index.h"
#include "cpu/rows.h"

enum { MAX_OPERANDS = 4 }; /* of one matmul */

/* Which matrix of an operand comes next. */
typedef struct turn {
    const mc_operand *index; /* NULL: they come in their order */
    mc_layout order;         /* the index, or numbers, spread over the result's batch */
    mc_walk walk;
    int64_t count;
} turn;

static void begin(turn *t, const mc_call *call, int operand, int index) {
    const mc_layout *x = call->in[operand].layout, *out = call->out.layout;
    mc_layout numbers = *x;
    numbers.ndim -= 2;
    mc_layout_set_dense(&numbers);
    bool given = index < call->n_in && call->in[index].layout;
    t->index = given ? &call->in[index] : NULL;
    t->count = mc_row_count(x, x->ndim - 2);
    (void)mc_layout_broadcast(given ? t->index->layout : &numbers, out->shape, out->ndim - 2,
                              &t->order); /* infer checked the shapes */
    t->walk = mc_walk_begin(&t->order);
}

static mica_status number_of(const turn *t, mc_op op, int64_t *number) {
    *number = t->walk.offset;
    if (!t->index) return MICA_OK;
    mica_dtype dtype = t->index->layout->dtype;
    const char *at = (const char *)t->index->data + *number * (int64_t)mica_dtype_bytes(dtype);
    return mc_index_resolve(mc_op_get(op)->name, dtype, at, t->count, 0, number);
}

/* Matrix `number` of x. NULL, as in a run that is measured, stays so. */
static mc_operand matrix_of(const mc_operand *x, int64_t number, mc_layout *layout) {
    const mc_layout *from = x->layout;
    if (!from) return (mc_operand){0};
    *layout = (mc_layout){.dtype = from->dtype, .ndim = 2};
    memcpy(layout->shape, from->shape + from->ndim - 2, 2 * sizeof *from->shape);
    memcpy(layout->strides, from->strides + from->ndim - 2, 2 * sizeof *from->strides);
    int64_t offset = mc_row_offset(from, from->ndim - 2, number);
    char *data = x->data;
    if (data) data += offset * (int64_t)mica_dtype_bytes(from->dtype);
    return (mc_operand){data, layout};
}

/* The product of the matrices at one place of the result's batch. */
static mica_status multiply(const mc_call *call, mc_op op, int n, int64_t x, int64_t w,
                            int64_t place) {
    mc_layout layouts[MAX_OPERANDS], out;
    mc_operand in[MAX_OPERANDS];
    for (int k = 0; k < n; k++)
        in[k] = matrix_of(&call->in[k], k == 0 ? x : w, &layouts[k]);
    mc_call one = *call;
    one.op = op;
    one.n_in = n;
    one.in = in;
    one.out = matrix_of(&call->out, place, &out);
    one.span = one.joint = one.left = 1;
    return mc_eval_chain(&one);
}

static mica_status multiply_picked(const mc_call *call, mc_op op, int n) {
    if (mc_layout_size(call->out.layout) == 0) return MICA_OK;
    if (mc_run_is_measured(call->run)) return multiply(call, op, n, 0, 0, 0); /* all are alike */
    turn x, w;
    int64_t place = 0, of_x, of_w;
    begin(&x, call, 0, n);
    begin(&w, call, 1, n + 1);
    bool more = true;
    while (more) {
        MC_TRY(number_of(&x, call->op, &of_x));
        MC_TRY(number_of(&w, call->op, &of_w));
        MC_TRY(multiply(call, op, n, of_x, of_w, place++));
        more = mc_walk_next(&x.walk);
        (void)mc_walk_next(&w.walk);
    }
    return MICA_OK;
}

mica_status mc_eval_gather_mm(const mc_call *call) {
    return multiply_picked(call, MC_OP_MATMUL, 2);
}

mica_status mc_eval_gather_qmm(const mc_call *call) {
    return multiply_picked(call, MC_OP_QUANTIZED_MATMUL, 4);
}
