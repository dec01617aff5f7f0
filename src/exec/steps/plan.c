#include "exec/steps/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"
#include "graph/attr.h"

enum { ALIGN = 64 };
#define MAX_TEMP_BYTES (INT64_MAX / 4) /* so that no offset can overflow */

typedef struct builder {
    mica_device *device;
    const mc_step_ops *ops;
    mc_plan *plan;
    mc_arena arena;  /* lists that only the making needs */
    uint32_t *value; /* [nodes of the graph] the value of each; MC_ABSENT: no result needs it */
    uint32_t *made;  /* [n_roots] the step after the one that writes it; 0: none does */
    struct alias {   /* [n_roots] a root that lies in another: written in place */
        uint32_t root;
        int64_t offset;
    } * alias;
} builder;

static uint32_t add_root(builder *b, mc_root_kind kind, uint32_t index, uint64_t bits,
                         int64_t bytes) {
    mc_plan *p = b->plan;
    p->roots[p->n_roots] = (mc_root){.kind = kind, .index = index, .value = bits, .bytes = bytes};
    b->alias[p->n_roots] = (struct alias){p->n_roots, 0};
    return p->n_roots++;
}

static uint32_t add_value(builder *b, const mc_layout *layout, uint32_t root,
                          int64_t offset_bytes) {
    mc_plan *p = b->plan;
    p->values[p->n_values] = (mc_value){*layout, root, offset_bytes};
    return p->n_values++;
}

/* The values of an op's results, dense, one after the other; *first is the first. Returns whether
 * there is anything to compute. */
static bool add_results(builder *b, const mc_node *node, uint32_t n_out, uint32_t *first) {
    const mc_layout *results = mc_node_results(node);
    bool any = false;
    *first = b->plan->n_values;
    for (uint32_t i = 0; i < n_out; i++) {
        int64_t bytes = mc_layout_bytes(&results[i]);
        (void)add_value(b, &results[i], add_root(b, MC_ROOT_TEMP, MC_ABSENT, 0, bytes), 0);
        any = any || bytes > 0;
    }
    return any;
}

/* Whether a product may be rounded. */
static bool is_fast(mc_op op, const void *attr) {
    if (op == MC_OP_MATMUL || op == MC_OP_GATHER_MM)
        return ((const mc_attr_matmul *)attr)->fast != 0;
    if (op == MC_OP_QUANTIZED_MATMUL || op == MC_OP_GATHER_QMM)
        return ((const mc_attr_quant *)attr)->fast != 0;
    return false;
}

/* The values of a node's results and the step that makes them; in [n_in] are values. */
static mica_status add_step(builder *b, const mc_node *node, const uint32_t *in, uint32_t *out) {
    mc_plan *p = b->plan;
    mc_op op = node->op;
    const void *attr = node->attr;
    uint32_t n_in = node->n_in, n_out = (uint32_t)mc_node_n_out(node);
    if (!add_results(b, node, n_out, out)) return MICA_OK;
    uint32_t *own_in = mc_arena_alloc(&p->arena, n_in * sizeof *own_in);
    const mc_layout **layouts = mc_arena_alloc(&b->arena, n_in * sizeof *layouts);
    if (!own_in || !layouts) return mc_fail_nomem("a plan");
    for (uint32_t k = 0; k < n_in; k++) {
        own_in[k] = in[k];
        layouts[k] = in[k] == MC_ABSENT ? NULL : &p->values[in[k]].layout;
    }
    mc_kernel kernel = b->ops->find(b->device->state, op, attr, layouts, (int)n_in,
                                    mc_node_results(node), (int)n_out);
    if (!kernel)
        return mc_fail(MICA_EINTERNAL, "%s: device %s has no kernel for it", mc_op_get(op)->name,
                       b->device->backend->name);
    mc_row_form form = {0};
    if (b->ops->rows && n_out == 1)
        form = b->ops->rows(b->device->state, op, attr, layouts, (int)n_in);
    p->steps[p->n_steps++] = (mc_step){.op = op,
                                       .kernel = kernel,
                                       .attr = attr,
                                       .n_in = n_in,
                                       .in = own_in,
                                       .out = *out,
                                       .n_out = n_out,
                                       .joint = 1,
                                       .form = form};
    p->n_operands += n_in + n_out - 1;
    p->fills_cache = p->fills_cache || op == MC_OP_SLICE_UPDATE_AT || op == MC_OP_KV_WRITE;
    p->trains = p->trains || op == MC_OP_CROSS_ENTROPY_GRADIENT;
    p->fast = p->fast || is_fast(op, attr);
    return MICA_OK;
}

/* The value of a view op over value `in`. */
static mica_status add_view(builder *b, const mc_node *node, const mc_op_def *def, uint32_t in,
                            uint32_t *out) {
    mc_layout layout = node->layout;
    int64_t offset = 0;
    const mc_value *v = &b->plan->values[in];
    if (!def->view(node->attr, &v->layout, &layout, &offset))
        return mc_fail(MICA_EINTERNAL, "%s: moves data, and is no view", def->name);
    *out = add_value(b, &layout, v->root, v->offset_bytes + offset);
    return MICA_OK;
}

static uint32_t add_leaf_root(builder *b, const mc_node *node) {
    mc_plan *p = b->plan;
    if (node->scalar) return add_root(b, MC_ROOT_SCALAR, p->n_scalars++, node->value, 0);
    const mc_lowered_param *param = &p->lowered->params[node->value];
    if (param->scalar) return add_root(b, MC_ROOT_SCALAR, param->index, 0, 0);
    uint32_t root = add_root(b, MC_ROOT_PARAM, (uint32_t)node->value, 0, 0);
    p->roots[root].movable = param->donated;
    p->roots[root].fixed = param->fixed;
    if (param->constant) p->roots[root].constant = param->constant;
    return root;
}

static mica_status add_node(builder *b, const mc_node *node, uint32_t *in, uint32_t *out) {
    const mc_op_def *def = mc_op_get(node->op);
    if (node->op == MC_OP_LEAF) {
        *out = add_value(b, &node->layout, add_leaf_root(b, node), 0);
        return MICA_OK;
    }
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MC_ABSENT : b->value[node->in[k]];
    if (node->op == MC_OP_PART) {
        *out = in[0] + (uint32_t)((const mc_attr_part *)node->attr)->index;
        return MICA_OK;
    }
    if (def->view) return add_view(b, node, def, in[0], out);
    return add_step(b, node, in, out);
}

/* Marks, in b->value, the nodes that results need; returns how many values these have, or more, and
 * the most operands. */
static uint32_t mark_needed(builder *b, uint32_t *max_in) {
    const mc_lowered *l = b->plan->lowered;
    uint32_t count = mc_scope_count(l->graph), needed = 0;
    for (uint32_t i = 0; i < count; i++)
        b->value[i] = MC_ABSENT;
    for (uint32_t i = 0; i < l->n_results; i++)
        b->value[l->results[i]] = 0;
    for (uint32_t i = count; i-- > 0;) {
        if (b->value[i] == MC_ABSENT) continue;
        const mc_node *node = mc_scope_node(l->graph, i);
        needed += (uint32_t)mc_node_n_out(node);
        if (node->n_in > *max_in) *max_in = node->n_in;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) b->value[node->in[k]] = 0;
    }
    return needed;
}

static mica_status add_nodes(builder *b) {
    mc_plan *p = b->plan;
    const mc_lowered *l = p->lowered;
    uint32_t count = mc_scope_count(l->graph), max = 1;
    b->value = mc_arena_alloc(&b->arena, count * sizeof *b->value);
    if (!b->value) return mc_fail_nomem("a plan");
    uint32_t n = mark_needed(b, &max);
    p->values = mc_arena_alloc(&p->arena, n * sizeof *p->values);
    p->roots = mc_arena_alloc(&p->arena, n * sizeof *p->roots);
    p->steps = mc_arena_alloc(&p->arena, n * sizeof *p->steps);
    p->targets = mc_arena_alloc(&p->arena, l->n_results * sizeof *p->targets);
    b->made = mc_arena_calloc(&b->arena, n * sizeof *b->made);
    b->alias = mc_arena_alloc(&b->arena, n * sizeof *b->alias);
    uint32_t *in = mc_arena_alloc(&b->arena, max * sizeof *in);
    if (!p->values || !p->roots || !p->steps || !p->targets || !b->made || !b->alias || !in)
        return mc_fail_nomem("a plan");
    for (uint32_t i = 0; i < count; i++)
        if (b->value[i] != MC_ABSENT)
            MC_TRY(add_node(b, mc_scope_node(l->graph, i), in, &b->value[i]));
    p->n_targets = l->n_results;
    for (uint32_t i = 0; i < p->n_targets; i++) {
        p->targets[i] = b->value[l->results[i]];
        p->roots[p->values[p->targets[i]].root].target = true;
    }
    return MICA_OK;
}

/* ---- joint steps ---- */

/* Whether operands are the same numbers, perhaps through two views. */
static bool is_same_operand(const mc_plan *p, uint32_t x, uint32_t y) {
    if (x == y || x == MC_ABSENT || y == MC_ABSENT) return x == y;
    const mc_value *u = &p->values[x], *v = &p->values[y];
    return u->root == v->root && u->offset_bytes == v->offset_bytes &&
           u->layout.dtype == v->layout.dtype && mc_layout_same_shape(&u->layout, &v->layout) &&
           memcmp(u->layout.strides, v->layout.strides,
                  (size_t)u->layout.ndim * sizeof *u->layout.strides) == 0;
}

/* Whether step j may run together with step i, before those between: the same op over the same
 * first operand, and no operand that is made by step i or later. */
static bool may_join(const builder *b, uint32_t i, uint32_t j) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    if (step->op != p->steps[i].op || !is_same_operand(p, step->in[0], p->steps[i].in[0]))
        return false;
    for (uint32_t k = 0; k < step->n_in; k++)
        if (step->in[k] != MC_ABSENT && b->made[p->values[step->in[k]].root] > i) return false;
    return true;
}

/* Notes that step i writes its results. */
static void set_maker(builder *b, uint32_t i) {
    const mc_step *step = &b->plan->steps[i];
    for (uint32_t k = 0; k < step->n_out; k++)
        b->made[b->plan->values[step->out + k].root] = i + 1;
}

/* Moves step `from` up to place `to`. */
static void move_step(builder *b, uint32_t from, uint32_t to) {
    mc_plan *p = b->plan;
    mc_step step = p->steps[from];
    memmove(&p->steps[to + 1], &p->steps[to], (from - to) * sizeof *p->steps);
    p->steps[to] = step;
    for (uint32_t i = to; i <= from; i++)
        set_maker(b, i);
}

/* Whether step j has the operands of one of steps [i, i + n), which are of its op. A checkpoint
 * computes it again: earlier, its result would take memory all the time in between. */
static bool is_again(const builder *b, uint32_t i, uint32_t n, uint32_t j) {
    const mc_step *steps = b->plan->steps, *step = &steps[j];
    for (uint32_t k = i; k < i + n; k++) {
        bool same = steps[k].n_in == step->n_in;
        for (uint32_t m = 0; m < step->n_in && same; m++)
            same = is_same_operand(b->plan, steps[k].in[m], step->in[m]);
        if (same) return true;
    }
    return false;
}

/* How many steps from i on run together with step i over its first operand; they follow it. */
static uint32_t join_readers(builder *b, uint32_t i) {
    const mc_plan *p = b->plan;
    uint32_t joint = 1;
    for (uint32_t j = i + 1; j < p->n_steps && joint < MC_MAX_JOINT; j++)
        if (may_join(b, i, j) && !is_again(b, i, joint, j)) move_step(b, j, i + joint++);
    return joint;
}

/* Whether step j reads what steps [i, i + n) make. */
static bool reads(const builder *b, uint32_t j, uint32_t i, uint32_t n) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    for (uint32_t k = 0; k < step->n_in; k++) {
        if (step->in[k] == MC_ABSENT) continue;
        uint32_t after = b->made[p->values[step->in[k]].root];
        if (after > i && after <= i + n) return true;
    }
    return false;
}

/* How many steps of the same op run together with step *i, up to the first that reads what one of
 * them makes. What lies between them goes before: *i is where they are then. */
static uint32_t join_independent(builder *b, uint32_t *i) {
    uint32_t joint = 1;
    for (uint32_t j = *i + 1; j < b->plan->n_steps && joint < MC_MAX_JOINT; j++) {
        if (reads(b, j, *i, joint)) break;
        if (b->plan->steps[j].op != b->plan->steps[*i].op) continue;
        for (; *i + joint < j; (*i)++)
            move_step(b, *i + joint, *i);
        joint++;
    }
    return joint;
}

/* Joins steps of one kind. */
static void join_kind(builder *b, mc_joint kind) {
    mc_plan *p = b->plan;
    for (uint32_t i = 0, joint; i < p->n_steps; i += joint) {
        joint = p->steps[i].joint;
        if (p->steps[i].n_out > 1 || b->ops->joint(b->device->state, p->steps[i].op) != kind)
            continue;
        joint = kind == MC_JOINT_FIRST ? join_readers(b, i) : join_independent(b, &i);
        p->steps[i].joint = joint;
        p->changed[MC_PASS_JOINTS] += joint > 1;
        for (uint32_t k = 1; k < joint; k++)
            p->steps[i + k].joint = 0;
    }
}

/* Brings steps together that the backend runs as one. */
static void join_steps(builder *b) {
    mc_plan *p = b->plan;
    for (uint32_t i = 0; i < p->n_steps; i++)
        set_maker(b, i);
    if (b->ops->joint && !mc_pass_is_off(p->lowered->passes_off, MC_PASS_JOINTS)) {
        join_kind(b, MC_JOINT_FIRST);
        join_kind(b, MC_JOINT_ANY); /* moves whole joints, or none of one */
    }
    for (uint32_t i = 0; i < p->n_steps; i++)
        p->steps[i].span = p->steps[i].joint;
}

/* ---- chains ---- */

/* Rows of a dense value at the beginning of a root: row r is `length` bytes at r * length, and
 * again each count * length bytes. */
typedef struct row_places {
    int64_t count, length;
} row_places;

static row_places rows_along(const mc_layout *dense, int axis) {
    int64_t length = (int64_t)mica_dtype_bytes(dense->dtype);
    for (int k = axis + 1; k < dense->ndim; k++)
        length *= dense->shape[k];
    return (row_places){dense->shape[axis], length};
}

/* Whether row r along an axis of a value that begins at `offset` lies in row r, for every r. */
static bool lies_in_rows(row_places rows, const mc_layout *l, int axis, int64_t offset) {
    if (rows.count == 1) return true;
    int64_t item = (int64_t)mica_dtype_bytes(l->dtype), all = rows.count * rows.length;
    if (offset < 0 || l->shape[axis] != rows.count || l->strides[axis] * item != rows.length)
        return false;
    int64_t end = offset % all + item; /* of the bytes that its row 0 takes */
    for (int k = 0; k < l->ndim; k++) {
        int64_t step = l->strides[k] * item;
        if (k == axis || l->shape[k] == 1 || step % all == 0) continue;
        if (step < 0) return false;
        end += (l->shape[k] - 1) * step;
    }
    return end <= rows.length;
}

/* The operand that says what the rows of a step are. */
static const mc_layout *leading(const builder *b, uint32_t i) {
    const mc_step *step = &b->plan->steps[i];
    return &b->plan->values[step->in[__builtin_ctz(step->form.by_row)]].layout;
}

static bool goes_by_row(const mc_step *step, uint32_t operand) {
    return operand < 32 && (step->form.by_row >> operand & 1) != 0;
}

/* Whether step j, going along `axis`, reads what is made since step `first` by its rows alone. */
static bool reads_by_row(const builder *b, uint32_t first, uint32_t j, int axis) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    for (uint32_t k = 0; k < step->n_in; k++) {
        if (step->in[k] == MC_ABSENT) continue;
        const mc_value *v = &p->values[step->in[k]];
        if (b->made[v->root] <= first) continue;
        const mc_step *maker = &p->steps[b->made[v->root] - 1];
        if (!goes_by_row(step, k) || !maker->form.result ||
            !lies_in_rows(rows_along(&p->values[maker->out].layout, maker->axis), &v->layout, axis,
                          v->offset_bytes))
            return false;
    }
    return true;
}

/* Whether rows of step j are short enough for a chain of so many (mc_step_ops.long_row). */
static bool has_short_rows(const builder *b, uint32_t j, int64_t rows) {
    int64_t max = b->ops->long_row;
    return max == 0 || rows >= b->ops->enough_rows(b->device->state) ||
           mc_layout_size(leading(b, j)) <= max * rows;
}

/* Finds the axis along which step j goes on with a chain of so many rows. */
static bool find_axis(builder *b, uint32_t first, uint32_t j, int64_t rows) {
    mc_step *step = &b->plan->steps[j];
    if (step->form.by_row == 0 || !has_short_rows(b, j, rows)) return false;
    const mc_layout *l = leading(b, j);
    for (step->axis = 0; step->axis < l->ndim - 1; step->axis++)
        if (l->shape[step->axis] == rows && reads_by_row(b, first, j, step->axis)) return true;
    return false;
}

/* The number of steps of the chain from step `first` on, whose axis is given; sets those of the
 * others. */
static uint32_t grow_chain(builder *b, uint32_t first, int axis) {
    mc_plan *p = b->plan;
    int64_t rows = leading(b, first)->shape[axis];
    p->steps[first].axis = axis;
    uint32_t n = 1;
    while (first + n < p->n_steps && has_short_rows(b, first, rows)) {
        uint32_t j = first + n, found = 0;
        while (found < p->steps[j].joint && find_axis(b, first, j + found, rows))
            found++;
        if (found < p->steps[j].joint) break;
        if (p->steps[j].form.ends) return n + found;
        if (n == MC_MAX_CHAIN) break;
        n++;
    }
    return n;
}

/* A chain along an axis. */
typedef struct chain_choice {
    int axis;
    uint32_t steps;
    int64_t rows, used; /* used: by the threads; 1: no chain, 0: an axis of length 1 */
} chain_choice;

static bool is_better(const builder *b, const chain_choice *x, const chain_choice *than) {
    if (b->ops->long_row > 0 && x->steps != than->steps) return x->steps > than->steps;
    if (x->used != than->used) return x->used > than->used;
    if (x->steps != than->steps) return x->steps > than->steps;
    return x->rows > than->rows;
}

/* The best chain from step `first` on: along the axis of most rows, but no more than all threads
 * need; then that of most steps, then of most rows. Axes of length 1 only where there is no
 * other. Where kernels are dear (mc_step_ops.long_row), that of most steps before all. */
static uint32_t choose_chain(builder *b, uint32_t first) {
    const mc_layout *l = leading(b, first);
    int64_t enough = b->ops->enough_rows(b->device->state);
    chain_choice best = {.axis = -1, .used = -1};
    for (int k = 0; k < l->ndim - 1; k++) {
        chain_choice x = {.axis = k, .steps = grow_chain(b, first, k), .rows = l->shape[k]};
        if (x.rows > 1) x.used = x.steps == 1 ? 1 : x.rows < enough ? x.rows : enough;
        if (is_better(b, &x, &best)) best = x;
    }
    return best.axis >= 0 ? grow_chain(b, first, best.axis) : 1;
}

/* ---- regions: chains whose rows are elements ---- */

/* Whether a value is the whole of what lies at an offset, so that element i of all such values of
 * as many elements is at the same place, if they have the same size. */
static bool is_whole(const mc_value *v, int64_t offset) {
    return v->offset_bytes == offset && mc_layout_is_dense(&v->layout);
}

/* Whether step j goes on with the region from step `first` on: all that it reads of what is made
 * there it reads as it is made. */
static bool in_region(const builder *b, uint32_t first, uint32_t j) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    if (!step->form.by_element || step->joint != 1 ||
        mc_layout_size(&p->values[step->out].layout) !=
            mc_layout_size(&p->values[p->steps[first].out].layout))
        return false;
    for (uint32_t k = 0; k < step->n_in; k++) {
        const mc_value *v = step->in[k] == MC_ABSENT ? NULL : &p->values[step->in[k]];
        if (!v || b->made[v->root] <= first) continue;
        const mc_value *made = &p->values[p->steps[b->made[v->root] - 1].out];
        if (!is_whole(v, made->offset_bytes) ||
            mica_dtype_bytes(v->layout.dtype) != mica_dtype_bytes(made->layout.dtype))
            return false;
    }
    return true;
}

/* How many steps from `first` on are a region. */
static uint32_t grow_region(const builder *b, uint32_t first) {
    const mc_row_form *form = &b->plan->steps[first].form;
    uint32_t n = 1, max = MC_MAX_CHAIN + form->begins;
    if (!form->by_element && !form->begins) return 1;
    while (n < max && first + n < b->plan->n_steps && in_region(b, first, first + n))
        n++;
    return n;
}

static uint32_t set_region(const builder *b, uint32_t first, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        b->plan->steps[first + k].axis = MC_BY_ELEMENT;
    return n;
}

/* Gives step i, which makes its result in parts, the steps behind it. */
static void add_epilogue(builder *b, uint32_t i) {
    mc_plan *p = b->plan;
    uint32_t n = grow_region(b, i);
    if (n == 1 || mc_pass_is_off(p->lowered->passes_off, MC_PASS_EPILOGUES)) return;
    p->steps[i].span = set_region(b, i, n);
    p->changed[MC_PASS_EPILOGUES]++;
    for (uint32_t k = 1; k < n; k++)
        p->steps[i + k].span = 0;
}

/* The steps from i on that run as one: the longer of a region and a chain by rows. */
static uint32_t find_span(builder *b, uint32_t i) {
    bool chains = !mc_pass_is_off(b->plan->lowered->passes_off, MC_PASS_EPILOGUES);
    bool regions = !mc_pass_is_off(b->plan->lowered->passes_off, MC_PASS_REGIONS);
    uint32_t n = chains ? choose_chain(b, i) : 1, m = regions ? grow_region(b, i) : 1;
    if (m == 1 || m < n) return n;
    return set_region(b, i, m);
}

/* Finds steps that the backend runs as one, row by row or element by element. */
static void chain_steps(builder *b) {
    mc_plan *p = b->plan;
    for (uint32_t i = 0; i < p->n_steps; i += p->steps[i].span) {
        mc_step *step = &p->steps[i];
        if (step->form.begins) add_epilogue(b, i);
        if (step->form.by_row == 0 || step->form.ends) continue;
        uint32_t n = find_span(b, i);
        if (n == 1) continue;
        p->changed[step->axis == MC_BY_ELEMENT ? MC_PASS_REGIONS : MC_PASS_EPILOGUES]++;
        step->span = n;
        step->kernel = b->ops->chain;
        for (uint32_t k = 1; k < n; k++)
            p->steps[i + k].span = 0;
    }
}

/* ---- in place ---- */

static uint32_t resolve(const builder *b, uint32_t root, int64_t *offset) {
    while (b->alias[root].root != root) {
        *offset += b->alias[root].offset;
        root = b->alias[root].root;
    }
    return root;
}

static mc_root *root_of(const builder *b, uint32_t value, int64_t *offset) {
    *offset = b->plan->values[value].offset_bytes;
    return &b->plan->roots[resolve(b, b->plan->values[value].root, offset)];
}

static void find_last_uses(builder *b) {
    mc_plan *p = b->plan;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++)
            if (step->in[k] != MC_ABSENT) p->roots[p->values[step->in[k]].root].last = i;
        for (uint32_t k = 0; k < step->n_out; k++)
            p->roots[p->values[step->out + k].root].last = i; /* if nobody reads it */
    }
}

/* The last step that runs with step i. */
static uint32_t end_of_span(const mc_plan *p, uint32_t i) {
    while (i + 1 < p->n_steps && p->steps[i + 1].span == 0)
        i++;
    return i;
}

/* Finds the results that leave no span, before results share memory: a root is of one alone. */
static void find_inner(mc_plan *p) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const mc_root *root = &p->roots[p->values[p->steps[i].out].root];
        p->steps[i].inner = !root->target && root->last <= end_of_span(p, i);
    }
}

static bool equal_dense(const mc_layout *a, const mc_layout *b) {
    return mica_dtype_bytes(a->dtype) == mica_dtype_bytes(b->dtype) && mc_layout_same_shape(a, b) &&
           mc_layout_is_dense(a) && mc_layout_is_dense(b);
}

/* Another operand may lie in the same root only where it is read as it is overwritten: by an op
 * that goes element by element (it can take over more than its first operand; one that writes a
 * part of its first cannot), in the same layout. */
static bool others_apart(const builder *b, const mc_step *step, uint32_t donor, bool by_element) {
    int64_t offset, other_offset;
    const mc_root *root = root_of(b, step->in[donor], &offset);
    for (uint32_t k = 0; k < step->n_in; k++) {
        if (k == donor || step->in[k] == MC_ABSENT) continue;
        if (root_of(b, step->in[k], &other_offset) != root) continue;
        if (!by_element || other_offset != offset ||
            !equal_dense(&b->plan->values[step->in[k]].layout,
                         &b->plan->values[step->in[donor]].layout))
            return false;
    }
    return true;
}

/* Whether a value of a root lies in the rows of step own's result, which begins at `offset`, where
 * another step of its span, going along its own axis, reads or writes it. */
static bool lies_alike(const builder *b, const mc_step *own, const mc_step *step,
                       const mc_layout *l, int64_t offset) {
    const mc_layout *out = &b->plan->values[own->out].layout;
    if (own->axis != MC_BY_ELEMENT)
        return lies_in_rows(rows_along(out, own->axis), l, step->axis, offset);
    return offset == 0 && mc_layout_is_dense(l) &&
           mica_dtype_bytes(l->dtype) == mica_dtype_bytes(out->dtype);
}

/* Whether what the other steps of i's span do to the root is done to the same rows that step i
 * writes of it. */
static bool span_keeps_rows(const builder *b, uint32_t i, const mc_root *root, int64_t offset) {
    const mc_plan *p = b->plan;
    const mc_step *own = &p->steps[i];
    uint32_t j = i;
    while (p->steps[j].span == 0)
        j--;
    for (uint32_t end = j + p->steps[j].span; j < end; j++) {
        const mc_step *step = &p->steps[j];
        if (j == i) continue;
        for (uint32_t k = 0; k <= step->n_in; k++) {
            bool result = k == step->n_in;
            uint32_t value = result ? step->out : step->in[k];
            int64_t at;
            if (value == MC_ABSENT || root_of(b, value, &at) != root) continue;
            if (!own->form.result || !(result ? step->form.result : goes_by_row(step, k)) ||
                !lies_alike(b, own, step, &p->values[value].layout, at - offset))
                return false;
        }
    }
    return true;
}

/* Lets step i write its first result over operand k where that is allowed. */
static bool take_over(builder *b, uint32_t i, uint32_t k) {
    mc_plan *p = b->plan;
    const mc_step *step = &p->steps[i];
    if (step->in[k] == MC_ABSENT) return false;
    int64_t offset, out_offset;
    mc_root *donor = root_of(b, step->in[k], &offset);
    mc_root *out = root_of(b, step->out, &out_offset);
    if (donor->last != i || donor->target ||
        !others_apart(b, step, k, mc_op_get(step->op)->in_place > 1) ||
        !span_keeps_rows(b, i, donor, offset) ||
        !equal_dense(&p->values[step->in[k]].layout, &p->values[step->out].layout))
        return false;
    if (donor->kind == MC_ROOT_PARAM) {
        if (!donor->movable || offset != 0) return false;
        out->kind = MC_ROOT_OWN;
        out->index = donor->index;
        return true;
    }
    if (donor->kind == MC_ROOT_SCALAR) return false;
    b->alias[(uint32_t)(out - p->roots)] = (struct alias){(uint32_t)(donor - p->roots), offset};
    donor->last = out->last;
    donor->target = out->target;
    out->target = false; /* needs no memory of its own */
    return true;
}

/* Whether the step before i in its span makes operand k: its memory is in a near cache. */
static bool is_near(const builder *b, uint32_t i, uint32_t k) {
    const mc_plan *p = b->plan;
    uint32_t value = p->steps[i].in[k];
    return p->steps[i].span == 0 && value != MC_ABSENT && b->made[p->values[value].root] == i;
}

static void find_in_place(builder *b) {
    for (uint32_t i = 0; i < b->plan->n_steps; i++) {
        uint32_t n = (uint32_t)mc_op_get(b->plan->steps[i].op)->in_place;
        if (n > b->plan->steps[i].n_in) n = b->plan->steps[i].n_in;
        bool done = false;
        for (uint32_t k = 0; k < 2 * n && !done; k++)
            if (is_near(b, i, k % n) == (k < n)) done = take_over(b, i, k % n);
    }
    for (uint32_t i = 0; i < b->plan->n_values; i++) {
        mc_value *v = &b->plan->values[i];
        v->root = resolve(b, v->root, &v->offset_bytes);
    }
}

/* ---- places ---- */

typedef struct place {
    int64_t begin, end;
    uint32_t last;
} place;

/* The smallest gap between live places that holds `bytes`, or the end. Places are kept sorted. */
static int64_t find_gap(const place *places, uint32_t n, int64_t bytes, uint32_t *at) {
    int64_t end = 0, best = -1, best_size = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        int64_t gap = places[i].begin - end;
        if (gap >= bytes && gap < best_size) {
            best = end;
            best_size = gap;
            *at = i;
        }
        end = places[i].end;
    }
    if (best >= 0) return best;
    *at = n;
    return end;
}

static mica_status too_large(void) {
    return mc_fail(MICA_ENOMEM, "out of memory: temporaries of more than %lld bytes at once",
                   (long long)MAX_TEMP_BYTES);
}

/* Gives a root that needs one a place beside those [*n] that live. */
static mica_status place_root(mc_plan *p, mc_root *root, place *places, uint32_t *n) {
    if (root->kind != MC_ROOT_TEMP || root->target || root->placed || root->untouched)
        return MICA_OK;
    if (root->bytes > MAX_TEMP_BYTES) return too_large();
    root->placed = true;
    int64_t bytes = mc_round_up(root->bytes, ALIGN);
    uint32_t at = *n;
    root->offset = find_gap(places, *n, bytes, &at);
    if (root->offset > MAX_TEMP_BYTES - bytes) return too_large();
    memmove(&places[at + 1], &places[at], (*n - at) * sizeof *places);
    places[at] = (place){root->offset, root->offset + bytes, end_of_span(p, root->last)};
    ++*n;
    if (root->offset + bytes > p->temp_bytes) p->temp_bytes = root->offset + bytes;
    return MICA_OK;
}

static mica_status place_all(mc_plan *p, place *places) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        uint32_t live = 0;
        for (uint32_t k = 0; k < n; k++)
            if (places[k].last >= i) places[live++] = places[k];
        n = live;
        const mc_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_out; k++)
            MC_TRY(place_root(p, &p->roots[p->values[step->out + k].root], places, &n));
    }
    return MICA_OK;
}

mica_status mc_plan_place(mc_plan *p) {
    place *places = mc_alloc((p->n_roots + 1) * sizeof *places);
    if (!places) return mc_fail_nomem("a plan");
    p->temp_bytes = 0;
    for (uint32_t i = 0; i < p->n_roots; i++)
        p->roots[i].placed = false;
    mica_status status = place_all(p, places);
    mc_free(places);
    return status;
}

static mica_status build(builder *b) {
    MC_TRY(add_nodes(b));
    join_steps(b);
    chain_steps(b);
    find_last_uses(b);
    find_inner(b->plan);
    find_in_place(b);
    for (uint32_t i = 0; i < b->plan->n_roots; i++) {
        mc_root *root = &b->plan->roots[i];
        if (root->kind == MC_ROOT_TEMP && root->target) root->kind = MC_ROOT_OWN;
    }
    MC_TRY(mc_plan_place(b->plan));
    return MC_VERIFY_PASSES ? mc_plan_verify(b->plan) : MICA_OK;
}

mica_status mc_plan_make(mica_device *device, const mc_step_ops *ops, mc_lowered *lowered,
                         mc_plan **plan) {
    *plan = mc_calloc(1, sizeof **plan);
    if (!*plan) {
        mc_lowered_free(lowered);
        return mc_fail_nomem("a plan");
    }
    (*plan)->lowered = lowered;
    (*plan)->n_scalars = lowered->n_scalars;
    (*plan)->ops = ops;
    builder b = {.device = device, .ops = ops, .plan = *plan};
    mica_status status = build(&b);
    mc_arena_deinit(&b.arena);
    if (status != MICA_OK) {
        mc_plan_free(*plan);
        *plan = NULL;
    }
    return status;
}

void mc_plan_free(mc_plan *plan) {
    if (!plan) return;
    mc_lowered_free(plan->lowered);
    mc_arena_deinit(&plan->arena);
    mc_free(plan);
}
