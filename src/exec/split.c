#include "exec/split.h"

#include "base/alloc.h"
#include "exec/lower.h"

/* The kind of a level is its number modulo KINDS. */
enum { OWN, FALLBACK, CONTROL, KINDS };

typedef struct splitter {
    mica_device *device;
    const mc_lowered *from;
    mc_arena *arena;
    uint32_t count;   /* nodes */
    uint32_t *level;  /* [count] of ops, and of views of them; MC_ABSENT: of what no op makes */
    bool *falls_back; /* [count] */
    bool *crosses;    /* [count] ops that another level reads, views that control flow does */
    uint32_t *slot;   /* [count] MC_ABSENT: none */
    mica_array *made; /* [count] in the part at hand */
    bool *needed;     /* [count] by the part at hand */
    uint32_t n_levels;
    uint32_t n_slots;
} splitter;

static bool is_view(const mc_node *node) {
    return mc_op_get(node->op)->view != NULL;
}

/* What makes memory: a PART stands for one that its op makes. */
static bool is_op(const mc_node *node) {
    return node->op != MC_OP_LEAF && !is_view(node);
}

static void *list(splitter *s, size_t item) {
    return mc_arena_calloc(s->arena, (s->count + 1) * item);
}

static mica_status open_lists(splitter *s) {
    s->level = list(s, sizeof *s->level);
    s->falls_back = list(s, sizeof *s->falls_back);
    s->crosses = list(s, sizeof *s->crosses);
    s->slot = list(s, sizeof *s->slot);
    s->made = list(s, sizeof *s->made);
    s->needed = list(s, sizeof *s->needed);
    bool done = s->level && s->falls_back && s->crosses && s->slot && s->made && s->needed;
    return done ? MICA_OK : mc_fail_nomem("splitting a graph");
}

static bool is_control(const mc_node *node) {
    return mc_op_is_control(mc_op_get(node->op));
}

bool mc_has_control(const mc_lowered *lowered) {
    for (uint32_t i = 0; i < mc_scope_count(lowered->graph); i++)
        if (is_control(mc_scope_node(lowered->graph, i))) return true;
    return false;
}

/* The first level of a kind from `level` on. */
static uint32_t level_from(uint32_t level, uint32_t kind) {
    return level + (kind + KINDS - level % KINDS) % KINDS;
}

/* The level of an op; control flow comes behind what it reads, also of its own kind. */
static uint32_t level_of_op(const splitter *s, uint32_t i, const mc_node *node) {
    uint32_t kind = is_control(node) ? CONTROL : s->falls_back[i] ? FALLBACK : OWN;
    uint32_t level = kind;
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT || s->level[node->in[k]] == MC_ABSENT) continue;
        uint32_t before = level_from(s->level[node->in[k]] + (kind == CONTROL), kind);
        if (before > level) level = before;
    }
    return level;
}

static void find_levels(splitter *s) {
    s->n_levels = 1; /* the device's own first one is there, if only for results that are leaves */
    for (uint32_t i = 0; i < s->count; i++) {
        const mc_node *node = mc_scope_node(s->from->graph, i);
        s->level[i] = MC_ABSENT;
        if (node->op == MC_OP_LEAF) continue;
        if (is_view(node) || node->op == MC_OP_PART) {
            s->level[i] = s->level[node->in[0]];
            /* Control flow makes no views. */
            if (is_view(node) && s->level[i] != MC_ABSENT && s->level[i] % KINDS == CONTROL)
                s->level[i] = level_from(s->level[i], OWN);
        } else {
            s->level[i] = level_of_op(s, i, node);
        }
        if (s->level[i] != MC_ABSENT && s->level[i] + 1 > s->n_levels)
            s->n_levels = s->level[i] + 1;
    }
}

/* The level that makes a result. */
static uint32_t level_of_result(const splitter *s, uint32_t node) {
    return s->level[node] == MC_ABSENT ? 0 : s->level[node];
}

/* The op, PART or leaf that a view looks at. */
static uint32_t base_of(const splitter *s, uint32_t node) {
    while (is_view(mc_scope_node(s->from->graph, node)))
        node = mc_scope_node(s->from->graph, node)->in[0];
    return node;
}

/* The op under `node` is needed on a level. */
static void cross(splitter *s, uint32_t node, uint32_t level) {
    uint32_t base = base_of(s, node);
    if (s->level[base] != MC_ABSENT && s->level[base] != level) s->crosses[base] = true;
}

static void find_crossings(splitter *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        const mc_node *node = mc_scope_node(s->from->graph, i);
        if (!is_op(node)) continue;
        for (uint32_t k = 0; k < node->n_in; k++) {
            uint32_t in = node->in[k];
            if (in == MC_ABSENT) continue;
            bool view = is_control(node) && is_view(mc_scope_node(s->from->graph, in));
            if (view) s->crosses[in] = true;
            cross(s, in, view ? level_of_result(s, in) : s->level[i]);
        }
    }
    for (uint32_t i = 0; i < s->from->n_results; i++)
        cross(s, s->from->results[i], level_of_result(s, s->from->results[i]));
}

static void number_slots(splitter *s, uint32_t *result_slots) {
    s->n_slots = s->from->n_params;
    for (uint32_t i = 0; i < s->count; i++)
        s->slot[i] = s->crosses[i] ? s->n_slots++ : MC_ABSENT;
    for (uint32_t i = 0; i < s->from->n_results; i++) {
        uint32_t node = s->from->results[i];
        if (s->slot[node] == MC_ABSENT) s->slot[node] = s->n_slots++;
        result_slots[i] = s->slot[node];
    }
}

/* Whether the node is made in the part of a level, rather than brought. */
static bool is_made_in(const splitter *s, uint32_t node, uint32_t level) {
    return !is_op(mc_scope_node(s->from->graph, node)) || s->level[node] == level;
}

/* Marks what the part of a level has: its ops, the results that it makes, and what they read.
 * Returns how many nodes that are. */
static uint32_t mark_part(splitter *s, uint32_t level) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bool made = is_op(mc_scope_node(s->from->graph, i)) || s->crosses[i];
        s->needed[i] = made && level_of_result(s, i) == level;
    }
    for (uint32_t i = 0; i < s->from->n_results; i++)
        if (level_of_result(s, s->from->results[i]) == level) s->needed[s->from->results[i]] = true;
    for (uint32_t i = s->count; i-- > 0;) {
        n += s->needed[i];
        if (!s->needed[i] || !is_made_in(s, i, level)) continue;
        const mc_node *node = mc_scope_node(s->from->graph, i);
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) s->needed[node->in[k]] = true;
    }
    return n;
}

/* Whether the part is the only one that reads a parameter, which may then be donated to it. */
static bool reads_alone(const splitter *s, uint32_t leaf, uint32_t level) {
    for (uint32_t i = 0; i < s->count; i++) {
        const mc_node *node = mc_scope_node(s->from->graph, i);
        for (uint32_t k = 0; is_op(node) && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT && base_of(s, node->in[k]) == leaf && s->level[i] != level)
                return false;
    }
    for (uint32_t i = 0; i < s->from->n_results; i++)
        if (base_of(s, s->from->results[i]) == leaf && level != 0) return false;
    return true;
}

/* Brings data in as the next parameter of the part, which is in that slot. */
static mica_array bring(mc_part *part, const mc_layout *layout, uint32_t slot,
                        mc_lowered_param param) {
    mc_lowered *l = part->lowered;
    mica_array x = mc_leaf_param(l->graph, layout, false);
    if (!mica_valid(x)) return x;
    mc_node_of(x)->value = l->n_params;
    part->args[l->n_params] = slot;
    l->params[l->n_params++] = param;
    return x;
}

static mica_array bring_leaf(splitter *s, mc_part *part, uint32_t i, uint32_t level) {
    const mc_node *node = mc_scope_node(s->from->graph, i);
    if (node->scalar) return mc_scalar_bits(part->lowered->graph, node->layout.dtype, node->value);
    mc_lowered_param param = s->from->params[node->value];
    if (param.scalar) {
        part->scalars[part->lowered->n_scalars] = param.index;
        param.index = part->lowered->n_scalars++;
    }
    param.donated = param.donated && !part->fallback && reads_alone(s, i, level);
    return bring(part, &node->layout, (uint32_t)node->value, param);
}

static mica_array make_node(splitter *s, mc_part *part, uint32_t i, uint32_t level,
                            mica_array *in) {
    const mc_node *node = mc_scope_node(s->from->graph, i);
    if (node->op == MC_OP_LEAF) return bring_leaf(s, part, i, level);
    if (!is_made_in(s, i, level))
        return bring(part, &node->layout, s->slot[i], (mc_lowered_param){.scalar = false});
    if (is_view(node)) return mc_record_view(part->lowered->graph, node, s->made[node->in[0]]);
    for (uint32_t k = 0; k < node->n_in; k++)
        in[k] = node->in[k] == MC_ABSENT ? MICA_NONE : s->made[node->in[k]];
    return mc_record(part->lowered->graph, node->op, node->attr, in, (int)node->n_in);
}

/* What the part leaves: what crosses to other levels, and results. */
static void list_results(splitter *s, mc_part *part, uint32_t level) {
    mc_lowered *l = part->lowered;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->slot[i] == MC_ABSENT || !s->needed[i] || level_of_result(s, i) != level) continue;
        part->results[l->n_results] = s->slot[i];
        l->results[l->n_results++] = s->made[i].node;
    }
}

static mica_status fill_part(splitter *s, mc_part *part, uint32_t level) {
    uint32_t max = 1, n = mark_part(s, level);
    part->fallback = level % KINDS == FALLBACK;
    part->args = mc_arena_alloc(s->arena, n * sizeof *part->args);
    part->scalars = mc_arena_alloc(s->arena, n * sizeof *part->scalars);
    part->results = mc_arena_alloc(s->arena, n * sizeof *part->results);
    for (uint32_t i = 0; i < s->count; i++)
        if (mc_scope_node(s->from->graph, i)->n_in > max)
            max = mc_scope_node(s->from->graph, i)->n_in;
    mica_array *in = mc_arena_alloc(s->arena, max * sizeof *in);
    if (!part->args || !part->scalars || !part->results || !in)
        return mc_fail_nomem("splitting a graph");
    MC_TRY(mc_lowered_new(s->device, n, n, &part->lowered));
    part->lowered->n_params = part->lowered->n_results = 0;
    part->lowered->passes_off = s->from->passes_off;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->needed[i]) continue;
        s->made[i] = make_node(s, part, i, level, in);
        if (!mica_valid(s->made[i])) return mica_scope_status(part->lowered->graph);
    }
    list_results(s, part, level);
    return MICA_OK;
}

/* ---- control flow ---- */

static mc_control_arg find_arg(const splitter *s, uint32_t in) {
    const mc_node *node = mc_scope_node(s->from->graph, in);
    mc_control_arg arg = {.kind = MC_ARG_SLOT, .dtype = node->layout.dtype, .index = s->slot[in]};
    if (node->op != MC_OP_LEAF) return arg;
    const mc_lowered_param *param = node->scalar ? NULL : &s->from->params[node->value];
    if (!param) {
        arg.kind = MC_ARG_NUMBER;
        arg.value = node->value;
    } else if (param->scalar) {
        arg.kind = MC_ARG_SCALAR;
        arg.index = param->index;
    } else {
        arg.index = (uint32_t)node->value;
    }
    return arg;
}

/* The part of a node of control flow. Slots of results that nothing reads are MC_ABSENT. */
static mica_status fill_control(splitter *s, mc_part *part, uint32_t i) {
    const mc_node *node = mc_scope_node(s->from->graph, i);
    uint32_t n_out = (uint32_t)mc_node_n_out(node);
    part->control = node;
    part->control_args = mc_arena_alloc(s->arena, node->n_in * sizeof *part->control_args);
    part->results = mc_arena_alloc(s->arena, n_out * sizeof *part->results);
    if (!part->control_args || !part->results) return mc_fail_nomem("splitting a graph");
    for (uint32_t k = 0; k < node->n_in; k++)
        part->control_args[k] = find_arg(s, node->in[k]);
    for (uint32_t k = 0; k < n_out; k++)
        part->results[k] = MC_ABSENT;
    for (uint32_t k = i + 1; k < s->count; k++) {
        const mc_node *reader = mc_scope_node(s->from->graph, k);
        if (reader->op == MC_OP_PART && reader->in[0] == i && s->slot[k] != MC_ABSENT)
            part->results[mc_node_part(reader)] = s->slot[k];
    }
    return MICA_OK;
}

/* The parts of a level. */
static mica_status fill_level(splitter *s, mc_part *parts, uint32_t *n, uint32_t level) {
    if (level % KINDS == CONTROL) {
        for (uint32_t i = 0; i < s->count; i++) {
            if (!is_control(mc_scope_node(s->from->graph, i)) || s->level[i] != level) continue;
            MC_TRY(fill_control(s, &parts[*n], i));
            ++*n;
        }
        return MICA_OK;
    }
    mc_part *part = &parts[*n];
    mica_status status = fill_part(s, part, level);
    if (status == MICA_OK && part->lowered->n_results > 0) {
        ++*n;
        return MICA_OK;
    }
    mc_lowered_free(part->lowered); /* nothing is made there */
    *part = (mc_part){0};
    return status;
}

static uint32_t count_control(const splitter *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++)
        n += is_control(mc_scope_node(s->from->graph, i));
    return n;
}

mica_status mc_split(mica_device *device, const mc_lowered *lowered, const uint32_t *fallback,
                     uint32_t n_fallback, mc_arena *arena, mc_part **parts, uint32_t *n_parts,
                     uint32_t *result_slots, uint32_t *n_slots) {
    splitter s = {
        .device = device, .from = lowered, .arena = arena, .count = mc_scope_count(lowered->graph)};
    *n_parts = 0;
    MC_TRY(open_lists(&s));
    for (uint32_t i = 0; i < n_fallback; i++)
        s.falls_back[fallback[i]] = true;
    find_levels(&s);
    find_crossings(&s);
    number_slots(&s, result_slots);
    *n_slots = s.n_slots;
    *parts = mc_arena_calloc(arena, (s.n_levels + count_control(&s)) * sizeof **parts);
    if (!*parts) return mc_fail_nomem("splitting a graph");
    mica_status status = MICA_OK;
    for (uint32_t level = 0; status == MICA_OK && level < s.n_levels; level++)
        status = fill_level(&s, *parts, n_parts, level);
    for (; status != MICA_OK && *n_parts > 0; --*n_parts)
        mc_lowered_free((*parts)[*n_parts - 1].lowered);
    return status;
}
