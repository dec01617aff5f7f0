#include "grammar/matcher.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_VISITED = 1 << 16,  /* configurations of a closure */
    TRIM_BYTES = 16 << 20,  /* what is kept between two tokens */
    LIMIT_BYTES = 64 << 20, /* what a single token may take */
    FIRST_SLOTS = 256,
    /* Work: of a configuration that is looked at 1, that is met in a closure, that is sorted. */
    VISIT_WORK = 32,
    FOUND_WORK = 64
};

static mica_status nomem(void) {
    return mc_fail_nomem("a grammar's states");
}

static uint32_t mix(uint32_t hash, uint32_t value) {
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

/* ---- work ---- */

void mc_matcher_refill(mc_matcher *m) {
    m->work += MC_MATCHER_MORE;
    if (m->work > MC_MATCHER_WORK) m->work = MC_MATCHER_WORK;
}

mica_status mc_matcher_spend(mc_matcher *m, size_t work) {
    m->work -= (int64_t)work;
    if (m->work >= 0) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "the grammar takes too many steps to say what may come next: "
                                      "simplify its repetitions and alternatives");
}

/* ---- hash tables: slots of indices ---- */

static mica_status clear_slots(mc_buffer *slots, size_t count) {
    mc_buffer_clear(slots);
    if (!mc_buffer_reserve(slots, count * sizeof(int32_t))) return nomem();
    slots->len = count * sizeof(int32_t);
    memset(slots->data, 0xff, slots->len);
    return MICA_OK;
}

static void put_slot(mc_buffer *slots, uint32_t hash, int32_t index) {
    size_t mask = MC_BUFFER_COUNT(slots, int32_t) - 1, at = hash & mask;
    int32_t *table = MC_BUFFER_AT(slots, int32_t);
    while (table[at] >= 0)
        at = (at + 1) & mask;
    table[at] = index;
}

/* Makes room for one entry more: at most half of the slots are taken. `hash_of` gives an entry's
 * hash. */
static mica_status grow_slots(mc_buffer *slots, size_t count, const mc_matcher *m,
                              uint32_t (*hash_of)(const mc_matcher *m, size_t index)) {
    size_t size = FIRST_SLOTS;
    if (2 * (count + 1) <= MC_BUFFER_COUNT(slots, int32_t)) return MICA_OK;
    while (size < 4 * (count + 1))
        size *= 2;
    MC_TRY(clear_slots(slots, size));
    for (size_t i = 0; i < count; i++)
        put_slot(slots, hash_of(m, i), (int32_t)i);
    return MICA_OK;
}

/* ---- frames ---- */

static const mc_matcher_frame *frame_at(const mc_matcher *m, int32_t frame) {
    return &MC_BUFFER_AT(&m->frames, mc_matcher_frame)[frame];
}

static uint32_t hash_frame(const mc_matcher *m, size_t i) {
    const mc_matcher_frame *f = frame_at(m, (int32_t)i);
    return mix(mix(1, (uint32_t)f->node), (uint32_t)f->below);
}

static mica_status find_frame(mc_matcher *m, int32_t node, int32_t below, int32_t *frame) {
    size_t count = MC_BUFFER_COUNT(&m->frames, mc_matcher_frame);
    MC_TRY(grow_slots(&m->frame_slots, count, m, hash_frame));
    const int32_t *slots = MC_BUFFER_AT(&m->frame_slots, int32_t);
    uint32_t hash = mix(mix(1, (uint32_t)node), (uint32_t)below);
    size_t mask = MC_BUFFER_COUNT(&m->frame_slots, int32_t) - 1;
    for (size_t at = hash & mask; slots[at] >= 0; at = (at + 1) & mask) {
        const mc_matcher_frame *f = frame_at(m, slots[at]);
        *frame = slots[at];
        if (f->node == node && f->below == below) return MICA_OK;
    }
    const mc_matcher_frame new = {node, below, frame_at(m, below)->depth + 1};
    if (!mc_buffer_add(&m->frames, &new, sizeof new)) return nomem();
    *frame = (int32_t)count;
    put_slot(&m->frame_slots, hash, *frame);
    return MICA_OK;
}

/* ---- the closure: what can be read without reading anything before ---- */

static uint32_t hash_config(mc_matcher_config c) {
    return mix(mix(2, (uint32_t)c.node), (uint32_t)c.stack);
}

static uint32_t hash_todo(const mc_matcher *m, size_t i) {
    return hash_config(MC_BUFFER_AT(&m->todo, mc_matcher_config)[i]);
}

/* Adds a configuration that was not seen, and from which the document can be finished. */
static mica_status visit(mc_matcher *m, int32_t node, int32_t stack) {
    const mc_grammar_node *nodes = MC_BUFFER_AT(&m->grammar->nodes, mc_grammar_node);
    const mc_matcher_config c = {node, stack};
    size_t count = MC_BUFFER_COUNT(&m->todo, mc_matcher_config);
    if (node == MC_DEAD || frame_at(m, stack)->depth + nodes[node].height > MC_GRAMMAR_DEPTH)
        return MICA_OK;
    MC_TRY(grow_slots(&m->visited, count, m, hash_todo));
    const int32_t *slots = MC_BUFFER_AT(&m->visited, int32_t);
    uint32_t hash = hash_config(c);
    size_t mask = MC_BUFFER_COUNT(&m->visited, int32_t) - 1;
    for (size_t at = hash & mask; slots[at] >= 0; at = (at + 1) & mask) {
        const mc_matcher_config *seen = &MC_BUFFER_AT(&m->todo, mc_matcher_config)[slots[at]];
        if (seen->node == node && seen->stack == stack) return MICA_OK;
    }
    if (count >= MAX_VISITED)
        return mc_fail(MICA_EUNSUPPORTED,
                       "the grammar has more than %d ways to read what comes next: simplify its "
                       "alternatives",
                       MAX_VISITED);
    if (!mc_buffer_add(&m->todo, &c, sizeof c)) return nomem();
    put_slot(&m->visited, hash, (int32_t)count);
    return MICA_OK;
}

static mica_status expand(mc_matcher *m, mc_matcher_config c) {
    const mc_grammar_node *n = &MC_BUFFER_AT(&m->grammar->nodes, mc_grammar_node)[c.node];
    int32_t frame = c.stack;
    switch ((mc_grammar_node_kind)n->kind) {
    case MC_NODE_SPLIT:
        m->plain = m->plain || n->plain;
        MC_TRY(visit(m, n->next, c.stack));
        return visit(m, n->other, c.stack);
    case MC_NODE_CALL:
        if (n->next != MC_RETURN) MC_TRY(find_frame(m, n->next, c.stack, &frame));
        return visit(m, MC_BUFFER_AT(&m->grammar->rules, int32_t)[n->other], frame);
    case MC_NODE_RETURN:
        if (c.stack) return visit(m, frame_at(m, c.stack)->node, frame_at(m, c.stack)->below);
        break;
    case MC_NODE_RANGE:
        break;
    }
    return mc_buffer_add(&m->found, &c, sizeof c) ? MICA_OK : nomem();
}

static mica_status begin_closure(mc_matcher *m) {
    mc_buffer_clear(&m->todo);
    mc_buffer_clear(&m->found);
    m->plain = false;
    return clear_slots(&m->visited, FIRST_SLOTS);
}

/* Adds all that a configuration leads to. None is left out: a mask would be wrong without it. */
static mica_status close_over(mc_matcher *m, int32_t node, int32_t stack) {
    size_t i = MC_BUFFER_COUNT(&m->todo, mc_matcher_config);
    MC_TRY(visit(m, node, stack));
    for (; i < MC_BUFFER_COUNT(&m->todo, mc_matcher_config); i++) {
        MC_TRY(mc_matcher_spend(m, VISIT_WORK));
        MC_TRY(expand(m, MC_BUFFER_AT(&m->todo, mc_matcher_config)[i]));
    }
    return MICA_OK;
}

/* ---- states ---- */

static int by_node(const void *a, const void *b) {
    const mc_matcher_config *one = a, *other = b;
    if (one->node != other->node) return one->node < other->node ? -1 : 1;
    return (one->stack > other->stack) - (one->stack < other->stack);
}

static uint32_t hash_state(const mc_matcher *m, size_t i) {
    return MC_BUFFER_AT(&m->states, mc_state)[i].hash;
}

static bool is_state(const mc_matcher *m, int32_t state, uint32_t hash) {
    const mc_state *s = &MC_BUFFER_AT(&m->states, mc_state)[state];
    size_t count = MC_BUFFER_COUNT(&m->found, mc_matcher_config);
    return s->hash == hash && s->count == count && s->plain == m->plain &&
           memcmp(&MC_BUFFER_AT(&m->configs, mc_matcher_config)[s->begin], m->found.data,
                  m->found.len) == 0;
}

/* The number of the state of the configurations found. */
static mica_status find_state(mc_matcher *m, int32_t *state) {
    mc_matcher_config *found = MC_BUFFER_AT(&m->found, mc_matcher_config);
    size_t n = MC_BUFFER_COUNT(&m->found, mc_matcher_config);
    size_t count = MC_BUFFER_COUNT(&m->states, mc_state);
    uint32_t hash = m->plain;
    *state = MC_STATE_DEAD;
    if (!n) return MICA_OK;
    MC_TRY(mc_matcher_spend(m, n * FOUND_WORK));
    qsort(found, n, sizeof *found, by_node);
    for (size_t i = 0; i < n; i++)
        hash = mix(hash, hash_config(found[i]));
    MC_TRY(grow_slots(&m->state_slots, count, m, hash_state));
    const int32_t *slots = MC_BUFFER_AT(&m->state_slots, int32_t);
    size_t mask = MC_BUFFER_COUNT(&m->state_slots, int32_t) - 1;
    for (size_t at = hash & mask; slots[at] >= 0; at = (at + 1) & mask) {
        *state = slots[at];
        if (is_state(m, *state, hash)) return MICA_OK;
    }
    const mc_state new = {.begin = MC_BUFFER_COUNT(&m->configs, mc_matcher_config),
                          .count = (uint32_t)n,
                          .hash = hash,
                          .may_end = found[0].node == MC_RETURN,
                          .plain = m->plain};
    if (!mc_buffer_add(&m->configs, found, m->found.len)) return nomem();
    if (!mc_buffer_add(&m->states, &new, sizeof new)) return nomem();
    *state = (int32_t)count;
    put_slot(&m->state_slots, hash, *state);
    return MICA_OK;
}

static size_t bytes_of(const mc_matcher *m) {
    return m->bytes + m->configs.len + m->states.len + m->frames.len;
}

size_t mc_matcher_bytes(const mc_matcher *m) {
    return sizeof *m + m->bytes + m->configs.cap + m->states.cap + m->frames.cap +
           m->state_slots.cap + m->frame_slots.cap + m->todo.cap + m->found.cap + m->visited.cap +
           mc_grammar_bytes(m->grammar);
}

static mica_status need_after(mc_matcher *m, mc_state *s) {
    if (s->after) return MICA_OK;
    if (bytes_of(m) > LIMIT_BYTES)
        return mc_fail(MICA_EUNSUPPORTED, "the grammar has too many states: simplify its patterns");
    s->after = mc_array_alloc(256, sizeof *s->after);
    if (!s->after) return nomem();
    for (int i = 0; i < 256; i++)
        s->after[i] = MC_STATE_UNKNOWN;
    m->bytes += 256 * sizeof *s->after;
    return MICA_OK;
}

mica_status mc_matcher_step(mc_matcher *m, int32_t from, uint8_t byte, int32_t *to) {
    mc_state *s = mc_matcher_state(m, from);
    MC_TRY(need_after(m, s));
    *to = s->after[byte];
    if (*to != MC_STATE_UNKNOWN) return MICA_OK;
    const mc_grammar_node *nodes = MC_BUFFER_AT(&m->grammar->nodes, mc_grammar_node);
    MC_TRY(mc_matcher_spend(m, s->count));
    MC_TRY(begin_closure(m));
    for (size_t i = s->begin; i < s->begin + s->count; i++) {
        mc_matcher_config c = MC_BUFFER_AT(&m->configs, mc_matcher_config)[i];
        const mc_grammar_node *n = &nodes[c.node];
        if (n->kind == MC_NODE_RANGE && byte >= n->low && byte <= n->high)
            MC_TRY(close_over(m, n->next, c.stack));
    }
    MC_TRY(find_state(m, to));
    mc_matcher_state(m, from)->after[byte] = *to; /* the states may have moved */
    return MICA_OK;
}

/* ---- opening ---- */

static void forget(mc_matcher *m) {
    mc_state *states = MC_BUFFER_AT(&m->states, mc_state);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&m->states, mc_state); i++) {
        mc_free(states[i].after);
        mc_free(states[i].mask);
    }
    mc_buffer_deinit(&m->states);
    mc_buffer_deinit(&m->configs);
    mc_buffer_deinit(&m->frames);
    mc_buffer_deinit(&m->state_slots);
    mc_buffer_deinit(&m->frame_slots);
    m->bytes = 0;
}

/* Begins with nothing known: frame 0 is none. */
static mica_status begin(mc_matcher *m) {
    const mc_matcher_frame none = {MC_DEAD, MC_DEAD, 0};
    return mc_buffer_add(&m->frames, &none, sizeof none) ? MICA_OK : nomem();
}

mica_status mc_matcher_reset(mc_matcher *m) {
    m->work = MC_MATCHER_WORK;
    m->held = MC_STATE_DEAD;
    MC_TRY(begin_closure(m));
    MC_TRY(close_over(m, m->grammar->start, 0));
    MC_TRY(find_state(m, &m->held));
    if (m->held != MC_STATE_DEAD) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "the grammar allows no document to begin");
}

mica_status mc_matcher_open(mc_grammar *grammar, size_t mask_bytes, mc_matcher *m) {
    *m = (mc_matcher){.grammar = mc_grammar_retain(grammar), .mask_bytes = mask_bytes};
    mica_status status = begin(m);
    if (status == MICA_OK) status = mc_matcher_reset(m);
    if (status != MICA_OK) mc_matcher_close(m);
    return status;
}

void mc_matcher_close(mc_matcher *m) {
    forget(m);
    mc_buffer_deinit(&m->todo);
    mc_buffer_deinit(&m->found);
    mc_buffer_deinit(&m->visited);
    mc_grammar_close(&m->grammar);
    *m = (mc_matcher){0};
}

/* ---- forgetting ---- */

/* Makes the stack of an older matcher anew. */
static mica_status copy_stack(mc_matcher *m, const mc_matcher *old, int32_t stack, int32_t *copy) {
    int32_t nodes[MC_GRAMMAR_DEPTH + 1];
    int depth = 0;
    for (; stack; stack = frame_at(old, stack)->below)
        nodes[depth++] = frame_at(old, stack)->node;
    *copy = 0;
    while (depth-- > 0)
        MC_TRY(find_frame(m, nodes[depth], *copy, copy));
    return MICA_OK;
}

static mica_status copy_held(mc_matcher *m, const mc_matcher *old) {
    const mc_state *s = &MC_BUFFER_AT(&old->states, mc_state)[old->held];
    MC_TRY(begin(m));
    MC_TRY(begin_closure(m));
    for (size_t i = s->begin; i < s->begin + s->count; i++) {
        mc_matcher_config c = MC_BUFFER_AT(&old->configs, mc_matcher_config)[i];
        MC_TRY(copy_stack(m, old, c.stack, &c.stack));
        if (!mc_buffer_add(&m->found, &c, sizeof c)) return nomem();
    }
    m->plain = s->plain;
    return find_state(m, &m->held);
}

mica_status mc_matcher_trim(mc_matcher *m) {
    mc_matcher old = *m;
    if (bytes_of(m) <= TRIM_BYTES) return MICA_OK;
    m->frames = m->configs = m->states = m->state_slots = m->frame_slots = (mc_buffer){0};
    m->bytes = 0;
    m->held = MC_STATE_DEAD;
    mica_status status = copy_held(m, &old);
    forget(&old);
    return status;
}

/* ---- whole documents ---- */

mica_status mc_matcher_accepts(mc_grammar *grammar, const char *text, size_t len, int64_t *work,
                               bool *accepted, size_t *prefix) {
    mc_matcher m;
    size_t n = 0;
    *accepted = false;
    MC_TRY(mc_matcher_open(grammar, 0, &m));
    mica_status status = MICA_OK;
    m.work = *work;
    int32_t state = m.held, next = MC_STATE_DEAD;
    for (; n < len; n++) {
        status = mc_matcher_step(&m, state, (uint8_t)text[n], &next);
        if (status != MICA_OK || next == MC_STATE_DEAD) break;
        m.held = next;
        status = mc_matcher_trim(&m);
        if (status != MICA_OK) break;
        state = m.held;
    }
    if (prefix) *prefix = n;
    if (status == MICA_OK) *accepted = n == len && mc_matcher_state(&m, state)->may_end;
    *work = m.work;
    mc_matcher_close(&m);
    return status;
}

mica_status mc_grammar_accepts(mc_grammar *grammar, const char *text, size_t len, bool *accepted,
                               size_t *prefix) {
    int64_t work = INT64_MAX;
    return mc_matcher_accepts(grammar, text, len, &work, accepted, prefix);
}
