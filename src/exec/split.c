#include "exec/split.h"

#include <stdlib.h>

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
    uint32_t *base;   /* [count] the op, PART or leaf that a view looks at; else itself */
    uint32_t *reader; /* [count] of leaves: the level that reads it, MC_ABSENT: none, MANY */
    uint32_t *part;   /* [count] of control flow: its first PART; of a PART: the next; MC_ABSENT */
    uint32_t *list;   /* [count] nodes of the part at hand */
    uint32_t n_list;
    uint32_t *first; /* [n_levels] the first node that a level makes, or MC_ABSENT */
    uint32_t *next;  /* [count] the next one of the same level */
    mica_array *in;  /* room for operands */
    uint32_t n_levels;
    uint32_t n_slots;
} splitter;

#define MANY (MC_ABSENT - 1)

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
    s->base = list(s, sizeof *s->base);
    s->reader = list(s, sizeof *s->reader);
    s->part = list(s, sizeof *s->part);
    s->list = list(s, sizeof *s->list);
    s->next = list(s, sizeof *s->next);
    uint32_t max = 1;
    for (uint32_t i = 0; i < s->count; i++)
        if (mc_scope_node(s->from->graph, i)->n_in > max)
            max = mc_scope_node(s->from->graph, i)->n_in;
    s->in = mc_arena_alloc(s->arena, max * sizeof *s->in);
    bool done = s->level && s->falls_back && s->crosses && s->slot && s->made && s->needed &&
                s->base && s->reader && s->part && s->list && s->next && s->in;
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

/* What each view looks at; users come behind. */
static void find_bases(splitter *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        const mc_node *node = mc_scope_node(s->from->graph, i);
        s->base[i] = is_view(node) ? s->base[node->in[0]] : i;
    }
}

/* The op under `node` is needed on a level. */
static void cross(splitter *s, uint32_t node, uint32_t level) {
    uint32_t base = s->base[node];
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

static void note_reader(splitter *s, uint32_t node, uint32_t level) {
    uint32_t *reader = &s->reader[s->base[node]];
    *reader = *reader == MC_ABSENT || *reader == level ? level : MANY;
}

/* What levels make, in order, by level; which levels read leaves; the PARTs of control flow. */
static mica_status list_nodes(splitter *s) {
    s->first = mc_arena_alloc(s->arena, s->n_levels * sizeof *s->first);
    if (!s->first) return mc_fail_nomem("splitting a graph");
    for (uint32_t level = 0; level < s->n_levels; level++)
        s->first[level] = MC_ABSENT;
    for (uint32_t i = 0; i < s->count; i++)
        s->reader[i] = s->part[i] = MC_ABSENT;
    for (uint32_t i = s->count; i-- > 0;) { /* the last first: lists are in order then */
        const mc_node *node = mc_scope_node(s->from->graph, i);
        for (uint32_t k = 0; is_op(node) && k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) note_reader(s, node->in[k], s->level[i]);
        if (node->op == MC_OP_PART) {
            s->part[i] = s->part[node->in[0]];
            s->part[node->in[0]] = i;
        }
        if (!is_op(node) && s->slot[i] == MC_ABSENT) continue;
        uint32_t *first = &s->first[level_of_result(s, i)];
        s->next[i] = *first;
        *first = i;
    }
    for (uint32_t i = 0; i < s->from->n_results; i++)
        note_reader(s, s->from->results[i], s->from->stays[i] ? FALLBACK : OWN);
    return MICA_OK;
}

static void need(splitter *s, uint32_t node) {
    if (s->needed[node]) return;
    s->needed[node] = true;
    s->list[s->n_list++] = node;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Lists what the part of a level has, in order: its ops, the results that it makes, and what they
 * read. */
static void list_part(splitter *s, uint32_t level) {
    s->n_list = 0;
    for (uint32_t i = s->first[level]; i != MC_ABSENT; i = s->next[i])
        need(s, i);
    for (uint32_t n = 0; n < s->n_list; n++) {
        const mc_node *node = mc_scope_node(s->from->graph, s->list[n]);
        if (!is_made_in(s, s->list[n], level)) continue;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != MC_ABSENT) need(s, node->in[k]);
    }
    qsort(s->list, s->n_list, sizeof *s->list, by_number);
    for (uint32_t n = 0; n < s->n_list; n++)
        s->needed[s->list[n]] = false;
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
    param.donated = param.donated && part->fallback == param.fallback && s->reader[i] == level;
    if (part->fallback != param.fallback) param.constant = NULL; /* it is a copy there */
    return bring(part, &node->layout, (uint32_t)node->value, param);
}

static mica_array make_node(splitter *s, mc_part *part, uint32_t i, uint32_t level) {
    mica_array *in = s->in;
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
    for (uint32_t n = 0; n < s->n_list; n++) {
        uint32_t i = s->list[n];
        if (s->slot[i] == MC_ABSENT || level_of_result(s, i) != level) continue;
        part->results[l->n_results] = s->slot[i];
        l->results[l->n_results++] = s->made[i].node;
    }
}

static mica_status fill_part(splitter *s, mc_part *part, uint32_t level) {
    list_part(s, level);
    uint32_t n = s->n_list;
    part->fallback = level % KINDS == FALLBACK;
    part->args = mc_arena_alloc(s->arena, n * sizeof *part->args);
    part->scalars = mc_arena_alloc(s->arena, n * sizeof *part->scalars);
    part->results = mc_arena_alloc(s->arena, n * sizeof *part->results);
    if (!part->args || !part->scalars || !part->results) return mc_fail_nomem("splitting a graph");
    MC_TRY(mc_lowered_new(s->device, n, n, &part->lowered));
    part->lowered->n_params = part->lowered->n_results = 0;
    part->lowered->passes_off = s->from->passes_off;
    part->lowered->mode = s->from->mode;
    for (uint32_t k = 0; k < s->n_list; k++) {
        uint32_t i = s->list[k];
        s->made[i] = make_node(s, part, i, level);
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
    for (uint32_t k = s->part[i]; k != MC_ABSENT; k = s->part[k])
        if (s->slot[k] != MC_ABSENT)
            part->results[mc_node_part(mc_scope_node(s->from->graph, k))] = s->slot[k];
    return MICA_OK;
}

/* The parts of a level. */
static mica_status fill_level(splitter *s, mc_part *parts, uint32_t *n, uint32_t level) {
    if (level % KINDS == CONTROL) {
        for (uint32_t i = s->first[level]; i != MC_ABSENT; i = s->next[i]) {
            if (!is_control(mc_scope_node(s->from->graph, i))) continue;
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
    find_bases(&s);
    find_crossings(&s);
    number_slots(&s, result_slots);
    MC_TRY(list_nodes(&s));
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
