#include "device/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/lower.h"

enum { ALIGN = 64 };
#define MAX_TEMP_BYTES (INT64_MAX / 4) /* so that no offset can overflow */

typedef struct builder {
    mica_device *device;
    mc_plan *plan;
    mc_trace trace;  /* of the lowered graph */
    mc_arena arena;  /* lists that only the making needs */
    uint32_t *value; /* [n_nodes] the value of each ordinal */
    mc_op *ops;      /* [n_steps] */
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

/* A new dense value and the step that makes it; in [n_in] are values. */
static mica_status add_step(builder *b, mc_op op, const void *attr, const mc_layout *layout,
                            const uint32_t *in, uint32_t n_in, uint32_t *out) {
    mc_plan *p = b->plan;
    mc_layout dense = *layout;
    mc_layout_set_dense(&dense);
    *out =
        add_value(b, &dense, add_root(b, MC_ROOT_TEMP, MC_ABSENT, 0, mc_layout_bytes(&dense)), 0);
    if (mc_layout_size(&dense) == 0) return MICA_OK; /* nothing to compute */
    uint32_t *own_in = mc_arena_alloc(&p->arena, n_in * sizeof *own_in);
    const mc_layout **layouts = mc_arena_alloc(&b->arena, n_in * sizeof *layouts);
    if (own_in == NULL || layouts == NULL) return mc_fail_nomem("a plan");
    for (uint32_t k = 0; k < n_in; k++) {
        own_in[k] = in[k];
        layouts[k] = in[k] == MC_ABSENT ? NULL : &p->values[in[k]].layout;
    }
    const mc_op_def *def = mc_op_get(op);
    mc_kernel kernel = b->device->backend->find(b->device->state, op, attr, layouts, (int)n_in,
                                                &p->values[*out].layout);
    if (kernel == NULL)
        return mc_fail(MICA_EUNSUPPORTED, "%s: device %s has no kernel for it", def->name,
                       b->device->backend->name);
    b->ops[p->n_steps] = op;
    p->steps[p->n_steps++] = (mc_step){kernel, attr, n_in, own_in, *out, 1};
    p->n_operands += n_in;
    return MICA_OK;
}

/* The value of a view op over value `in`: no step, or one that makes it dense first. */
static mica_status add_view(builder *b, const mc_node *node, const mc_op_def *def, uint32_t in,
                            uint32_t *out) {
    mc_layout layout = node->layout;
    int64_t offset = 0;
    const mc_value *v = &b->plan->values[in];
    if (!def->view(node->attr, &v->layout, &layout, &offset)) {
        uint32_t dense;
        MC_TRY(add_step(b, MC_OP_CONTIGUOUS, NULL, &v->layout, &in, 1, &dense));
        v = &b->plan->values[dense];
        layout = node->layout;
        if (!def->view(node->attr, &v->layout, &layout, &offset))
            return mc_fail(MICA_EINTERNAL, "%s: no view of a dense array", def->name);
    }
    *out = add_value(b, &layout, v->root, v->offset_bytes + offset);
    return MICA_OK;
}

static mica_status add_node(builder *b, const mc_node *node, uint32_t *in, uint32_t *out) {
    const mc_op_def *def = mc_op_get(node->op);
    if (node->op == MC_OP_LEAF) {
        mc_root_kind kind = node->scalar ? MC_ROOT_CONST : MC_ROOT_LEAF;
        uint32_t root = add_root(b, kind, (uint32_t)node->value, node->value, 0);
        b->plan->roots[root].movable = node->movable;
        *out = add_value(b, &node->layout, root, 0);
        return MICA_OK;
    }
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MC_ABSENT : b->value[b->trace.ordinal[node->in[k]]];
    if (def->view != NULL) return add_view(b, node, def, in[0], out);
    return add_step(b, node->op, node->attr, &node->layout, in, node->n_in, out);
}

static mica_status add_nodes(builder *b) {
    mc_plan *p = b->plan;
    uint32_t n = b->trace.n_nodes, most = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_in = mc_scope_node(p->graph, b->trace.nodes[i])->n_in;
        if (n_in > most) most = n_in;
    }
    /* A view may add one copy: at most two values, roots and steps a node. */
    p->values = mc_arena_alloc(&p->arena, 2 * n * sizeof *p->values);
    p->roots = mc_arena_alloc(&p->arena, 2 * n * sizeof *p->roots);
    p->steps = mc_arena_alloc(&p->arena, 2 * n * sizeof *p->steps);
    p->targets = mc_arena_alloc(&p->arena, b->trace.n_targets * sizeof *p->targets);
    b->value = mc_arena_alloc(&b->arena, n * sizeof *b->value);
    b->ops = mc_arena_alloc(&b->arena, 2 * n * sizeof *b->ops);
    b->alias = mc_arena_alloc(&b->arena, 2 * n * sizeof *b->alias);
    uint32_t *in = mc_arena_alloc(&b->arena, most * sizeof *in);
    if (p->values == NULL || p->roots == NULL || p->steps == NULL || p->targets == NULL ||
        b->value == NULL || b->ops == NULL || b->alias == NULL || in == NULL)
        return mc_fail_nomem("a plan");
    for (uint32_t i = 0; i < n; i++)
        MC_TRY(add_node(b, mc_scope_node(p->graph, b->trace.nodes[i]), in, &b->value[i]));
    p->n_targets = b->trace.n_targets;
    for (uint32_t i = 0; i < p->n_targets; i++) {
        p->targets[i] = b->value[b->trace.targets[i]];
        p->roots[p->values[p->targets[i]].root].target = true;
    }
    return MICA_OK;
}

/* ---- joint steps ---- */

/* Whether step j may run together with step i, before those between: the same kernel over the same
 * first operand, and no operand that is made by step i or later. made: [n_roots] the step after the
 * one that writes the root. */
static bool may_join(const builder *b, const uint32_t *made, uint32_t i, uint32_t j) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    if (b->ops[j] != b->ops[i] || step->in[0] != p->steps[i].in[0]) return false;
    for (uint32_t k = 0; k < step->n_in; k++)
        if (step->in[k] != MC_ABSENT && made[p->values[step->in[k]].root] > i) return false;
    return true;
}

/* Moves step `from` up to place `to`. */
static void move_step(builder *b, uint32_t *made, uint32_t from, uint32_t to) {
    mc_plan *p = b->plan;
    mc_step step = p->steps[from];
    mc_op op = b->ops[from];
    memmove(&p->steps[to + 1], &p->steps[to], (from - to) * sizeof *p->steps);
    memmove(&b->ops[to + 1], &b->ops[to], (from - to) * sizeof *b->ops);
    p->steps[to] = step;
    b->ops[to] = op;
    for (uint32_t i = to; i <= from; i++)
        made[p->values[p->steps[i].out].root] = i + 1;
}

/* How many steps of [i, last] run together with step i over its first operand; they follow it. */
static uint32_t join_readers(builder *b, uint32_t *made, uint32_t i) {
    const mc_plan *p = b->plan;
    uint32_t last = p->roots[p->values[p->steps[i].in[0]].root].last, joint = 1;
    for (uint32_t j = i + 1; j <= last && joint < MC_MOST_JOINT; j++)
        if (may_join(b, made, i, j)) move_step(b, made, j, i + joint++);
    return joint;
}

/* Whether step j reads what steps [i, i + n) make. */
static bool reads(const builder *b, const uint32_t *made, uint32_t j, uint32_t i, uint32_t n) {
    const mc_plan *p = b->plan;
    const mc_step *step = &p->steps[j];
    for (uint32_t k = 0; k < step->n_in; k++) {
        if (step->in[k] == MC_ABSENT) continue;
        uint32_t after = made[p->values[step->in[k]].root];
        if (after > i && after <= i + n) return true;
    }
    return false;
}

/* How many steps of the same op run together with step *i, up to the first that reads what one of them
 * makes. What lies between them goes before: *i is where they are then. */
static uint32_t join_independent(builder *b, uint32_t *made, uint32_t *i) {
    uint32_t joint = 1;
    for (uint32_t j = *i + 1; j < b->plan->n_steps && joint < MC_MOST_JOINT; j++) {
        if (reads(b, made, j, *i, joint)) break;
        if (b->ops[j] != b->ops[*i]) continue;
        for (; *i + joint < j; (*i)++)
            move_step(b, made, *i + joint, *i);
        joint++;
    }
    return joint;
}

/* Joins steps of one kind. */
static void join_kind(builder *b, uint32_t *made, mc_joint kind) {
    mc_plan *p = b->plan;
    for (uint32_t i = 0, joint; i < p->n_steps; i += joint) {
        joint = p->steps[i].joint;
        if (b->device->backend->joint(b->device->state, b->ops[i]) != kind) continue;
        joint = kind == MC_JOINT_FIRST ? join_readers(b, made, i) : join_independent(b, made, &i);
        p->steps[i].joint = joint;
        for (uint32_t k = 1; k < joint; k++)
            p->steps[i + k].joint = 0;
    }
}

/* Brings steps together that the backend runs as one. */
static mica_status join_steps(builder *b) {
    mc_plan *p = b->plan;
    uint32_t *made = mc_arena_calloc(&b->arena, (p->n_roots + 1) * sizeof *made);
    if (made == NULL) return mc_fail_nomem("a plan");
    for (uint32_t i = 0; i < p->n_steps; i++)
        made[p->values[p->steps[i].out].root] = i + 1;
    join_kind(b, made, MC_JOINT_FIRST);
    join_kind(b, made, MC_JOINT_ANY); /* moves whole joints, or none of one */
    return MICA_OK;
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
        uint32_t last = i; /* what joint steps read lives until all of them are done */
        while (last + 1 < p->n_steps && p->steps[last + 1].joint == 0)
            last++;
        for (uint32_t k = 0; k < step->n_in; k++)
            if (step->in[k] != MC_ABSENT) p->roots[p->values[step->in[k]].root].last = last;
        p->roots[p->values[step->out].root].last = last;
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

/* Lets step i write its result over operand k where that is allowed. */
static bool take_over(builder *b, uint32_t i, uint32_t k) {
    mc_plan *p = b->plan;
    const mc_step *step = &p->steps[i];
    if (step->in[k] == MC_ABSENT) return false;
    int64_t offset, out_offset;
    mc_root *donor = root_of(b, step->in[k], &offset);
    mc_root *out = root_of(b, step->out, &out_offset);
    if (donor->last != i || donor->target ||
        !others_apart(b, step, k, mc_op_get(b->ops[i])->in_place > 1) ||
        !equal_dense(&p->values[step->in[k]].layout, &p->values[step->out].layout))
        return false;
    if (donor->kind == MC_ROOT_LEAF) {
        if (!donor->movable || offset != 0) return false;
        out->kind = MC_ROOT_OWN;
        out->index = donor->index;
        return true;
    }
    if (donor->kind == MC_ROOT_CONST) return false;
    b->alias[(uint32_t)(out - p->roots)] = (struct alias){(uint32_t)(donor - p->roots), offset};
    donor->last = out->last;
    donor->target = out->target;
    out->target = false; /* needs no memory of its own */
    return true;
}

static void find_in_place(builder *b) {
    for (uint32_t i = 0; i < b->plan->n_steps; i++) {
        uint32_t n = (uint32_t)mc_op_get(b->ops[i])->in_place;
        if (n > b->plan->steps[i].n_in) n = b->plan->steps[i].n_in;
        for (uint32_t k = 0; k < n; k++)
            if (take_over(b, i, k)) break;
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

static mica_status place_temporaries(builder *b) {
    mc_plan *p = b->plan;
    place *places = mc_arena_alloc(&b->arena, (p->n_steps + 1) * sizeof *places);
    if (places == NULL) return mc_fail_nomem("a plan");
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        uint32_t live = 0;
        for (uint32_t k = 0; k < n; k++)
            if (places[k].last >= i) places[live++] = places[k];
        n = live;
        mc_root *root = &p->roots[p->values[p->steps[i].out].root];
        if (root->kind != MC_ROOT_TEMP || root->target || root->placed) continue;
        if (root->bytes > MAX_TEMP_BYTES) return too_large();
        root->placed = true;
        int64_t bytes = (root->bytes + ALIGN - 1) / ALIGN * ALIGN;
        uint32_t at = n;
        root->offset = find_gap(places, n, bytes, &at);
        if (root->offset > MAX_TEMP_BYTES - bytes) return too_large();
        memmove(&places[at + 1], &places[at], (n - at) * sizeof *places);
        places[at] = (place){root->offset, root->offset + bytes, root->last};
        n++;
        if (root->offset + bytes > p->temp_bytes) p->temp_bytes = root->offset + bytes;
    }
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (p->roots[i].kind == MC_ROOT_TEMP && p->roots[i].target) p->roots[i].kind = MC_ROOT_OWN;
    return MICA_OK;
}

static mica_status build(builder *b, const mc_trace *trace) {
    mc_plan *p = b->plan;
    mica_array *targets = mc_arena_alloc(&b->arena, trace->n_targets * sizeof *targets);
    if (targets == NULL) return mc_fail_nomem("a plan");
    p->n_leaves = trace->n_leaves;
    MC_TRY(mc_lower_ops(b->device, trace, &p->graph, targets));
    MC_TRY(mc_trace_make(&b->trace, &b->arena, p->graph, targets, trace->n_targets));
    MC_TRY(add_nodes(b));
    find_last_uses(b);
    MC_TRY(join_steps(b));
    find_last_uses(b);
    find_in_place(b);
    return place_temporaries(b);
}

mica_status mc_plan_make(mica_device *device, const mc_trace *trace, mc_plan **plan) {
    *plan = mc_calloc(1, sizeof **plan);
    if (*plan == NULL) return mc_fail_nomem("a plan");
    builder b = {.device = device, .plan = *plan};
    mica_status status = build(&b, trace);
    mc_buffer_deinit(&b.trace.key);
    mc_arena_deinit(&b.arena);
    if (status != MICA_OK) {
        mc_plan_free(*plan);
        *plan = NULL;
    }
    return status;
}

void mc_plan_free(mc_plan *plan) {
    if (plan == NULL) return;
    mica_scope_close(&plan->graph);
    mc_arena_deinit(&plan->arena);
    mc_free(plan);
}
