#include "grammar/grammar_build.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mc_builder_init(mc_builder *b) {
    const mc_grammar_node ret = {.kind = MC_NODE_RETURN, .next = MC_DEAD, .other = MC_DEAD};
    *b = (mc_builder){0};
    if (!MC_BUFFER_PUSH(&b->nodes, mc_grammar_node, ret))
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
}

void mc_builder_deinit(mc_builder *b) {
    mc_buffer_deinit(&b->nodes);
    mc_buffer_deinit(&b->rules);
}

void mc_builder_fail(mc_builder *b, mica_status status) {
    if (b->status != MICA_OK) return;
    b->status = status;
    snprintf(b->error, sizeof b->error, "%s", mica_last_error());
}

bool mc_builder_count(mc_builder *b) {
    enum { MAX_PARTS = 1 << 22 };
    if (b->status == MICA_OK && ++b->parts > MAX_PARTS)
        mc_builder_fail(
            b, mc_fail(MICA_EUNSUPPORTED, "repetitions within repetitions take too many steps"));
    return b->status == MICA_OK;
}

/* ---- nodes ---- */

static int32_t add_node(mc_builder *b, mc_grammar_node node) {
    size_t count = MC_BUFFER_COUNT(&b->nodes, mc_grammar_node);
    if (b->status != MICA_OK) return MC_DEAD;
    if (count >= MC_GRAMMAR_NODES) {
        mc_builder_fail(b, mc_fail(MICA_EINVAL, "the grammar is too large: more than %d nodes",
                                   MC_GRAMMAR_NODES));
        return MC_DEAD;
    }
    if (!mc_buffer_add(&b->nodes, &node, sizeof node)) {
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
        return MC_DEAD;
    }
    return (int32_t)count;
}

static mc_grammar_node *node_at(mc_builder *b, int32_t i) {
    return &MC_BUFFER_AT(&b->nodes, mc_grammar_node)[i];
}

int32_t mc_build_range(mc_builder *b, int low, int high, int32_t next) {
    if (next == MC_DEAD || low > high) return MC_DEAD;
    return add_node(b, (mc_grammar_node){.kind = MC_NODE_RANGE,
                                         .low = (uint8_t)low,
                                         .high = (uint8_t)high,
                                         .next = next,
                                         .other = MC_DEAD});
}

int32_t mc_build_text(mc_builder *b, const char *bytes, size_t len, int32_t next) {
    while (len-- > 0)
        next = mc_build_range(b, (uint8_t)bytes[len], (uint8_t)bytes[len], next);
    return next;
}

int32_t mc_build_call(mc_builder *b, int32_t rule, int32_t next) {
    if (next == MC_DEAD || rule == MC_DEAD) return MC_DEAD;
    return add_node(b, (mc_grammar_node){.kind = MC_NODE_CALL, .next = next, .other = rule});
}

int32_t mc_build_split(mc_builder *b, int32_t one, int32_t other) {
    if (one == MC_DEAD || one == other) return other;
    if (other == MC_DEAD) return one;
    return add_node(b, (mc_grammar_node){.kind = MC_NODE_SPLIT, .next = one, .other = other});
}

int32_t mc_build_open(mc_builder *b) {
    return add_node(b, (mc_grammar_node){.kind = MC_NODE_SPLIT, .next = MC_DEAD, .other = MC_DEAD});
}

void mc_build_close(mc_builder *b, int32_t node, int32_t one, int32_t other) {
    if (b->status != MICA_OK || node == MC_DEAD) return;
    node_at(b, node)->next = one;
    node_at(b, node)->other = other;
}

void mc_build_plain(mc_builder *b, int32_t node) {
    if (b->status == MICA_OK && node != MC_DEAD) node_at(b, node)->plain = true;
}

int32_t mc_build_rule(mc_builder *b) {
    size_t count = MC_BUFFER_COUNT(&b->rules, int32_t);
    if (b->status != MICA_OK) return MC_DEAD;
    if (MC_BUFFER_PUSH(&b->rules, int32_t, MC_DEAD)) return (int32_t)count;
    mc_builder_fail(b, mc_fail_nomem("a grammar"));
    return MC_DEAD;
}

void mc_build_define(mc_builder *b, int32_t rule, int32_t start) {
    if (b->status == MICA_OK && rule != MC_DEAD) MC_BUFFER_AT(&b->rules, int32_t)[rule] = start;
}

/* ---- choices of texts ---- */

static int by_bytes(const void *a, const void *b) {
    const mc_str *one = a, *other = b;
    size_t n = one->len < other->len ? one->len : other->len;
    int order = n ? memcmp(one->ptr, other->ptr, n) : 0;
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

/* The texts, sorted, have the same first `at` bytes. Loops over all but the longest common ways:
 * recursion goes as deep as texts differ, at most count times. */
static int32_t choose(mc_builder *b, const mc_str *texts, size_t count, size_t at, int32_t next) {
    int32_t all = MC_DEAD;
    size_t from = at;
    if (count == 0) return MC_DEAD;
    while (from < texts[0].len && from < texts[count - 1].len &&
           texts[0].ptr[from] == texts[count - 1].ptr[from])
        from++;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        int32_t way = next;
        if (texts[i].len > from) {
            while (end < count && texts[end].len > from &&
                   texts[end].ptr[from] == texts[i].ptr[from])
                end++;
            way = end == i + 1 ? mc_build_text(b, texts[i].ptr + from, texts[i].len - from, next)
                               : choose(b, texts + i, end - i, from, next);
        }
        all = mc_build_split(b, way, all);
        i = end;
    }
    return mc_build_text(b, texts[0].ptr + at, from - at, all);
}

int32_t mc_build_choice(mc_builder *b, mc_str *texts, size_t count, int32_t next) {
    if (count > 1) qsort(texts, count, sizeof *texts, by_bytes);
    return choose(b, texts, count, 0, next);
}

/* ---- any bytes up to a text ---- */

/* How many bytes of the text are read after `matched` of them and then `byte`: the longest
 * beginning of the text that ends there. */
static size_t matched_after(mc_str text, size_t matched, uint8_t byte) {
    for (size_t k = matched + 1; k > 0; k--)
        if ((uint8_t)text.ptr[k - 1] == byte &&
            memcmp(text.ptr, text.ptr + matched + 1 - k, k - 1) == 0)
            return k;
    return 0;
}

/* The ways on after `matched` bytes of the text. places: [text.len] nodes. */
static int32_t ways_on(mc_builder *b, mc_str text, const int32_t *places, size_t matched,
                       int32_t next) {
    int32_t all = MC_DEAD;
    for (int low = 0, high; low <= 255; low = high + 1) {
        size_t to = matched_after(text, matched, (uint8_t)low);
        for (high = low; high < 255; high++)
            if (matched_after(text, matched, (uint8_t)(high + 1)) != to) break;
        int32_t on = to == text.len ? next : places[to];
        all = mc_build_split(b, mc_build_range(b, low, high, on), all);
    }
    return all;
}

int32_t mc_build_until(mc_builder *b, mc_str text, int32_t next, int32_t without) {
    int32_t first = MC_DEAD, *places = mc_array_alloc(text.len, sizeof *places);
    if (!places) {
        mc_builder_fail(b, mc_fail_nomem("a grammar"));
        return MC_DEAD;
    }
    for (size_t i = 0; i < text.len; i++)
        places[i] = mc_build_open(b);
    for (size_t i = 0; i < text.len; i++)
        mc_build_close(b, places[i], ways_on(b, text, places, i, next), without);
    if (b->status == MICA_OK) first = places[0];
    mc_free(places);
    return first;
}

/* ---- finishing ---- */

static int height_of(const mc_grammar_node *nodes, int32_t node) {
    return node == MC_DEAD ? MC_GRAMMAR_DEPTH + 1 : nodes[node].height;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int height_from(const mc_grammar_node *nodes, const int32_t *rules,
                       const mc_grammar_node *n) {
    int next = height_of(nodes, n->next), callee;
    switch ((mc_grammar_node_kind)n->kind) {
    case MC_NODE_RETURN:
        return 0;
    case MC_NODE_RANGE:
        return next;
    case MC_NODE_SPLIT:
        return smaller(next, height_of(nodes, n->other));
    case MC_NODE_CALL:
        break;
    }
    callee = height_of(nodes, rules[n->other]) + (n->next != MC_RETURN); /* else a tail call */
    return smaller(callee > next ? callee : next, MC_GRAMMAR_DEPTH + 1);
}

/* Computes the heights again, in one direction. Returns whether one changed. */
static bool lower_heights(mc_grammar_node *nodes, size_t count, const int32_t *rules, bool up) {
    bool changed = false;
    for (size_t i = 0; i < count; i++) {
        mc_grammar_node *n = &nodes[up ? i : count - 1 - i];
        int height = height_from(nodes, rules, n);
        changed = changed || height != n->height;
        n->height = (int16_t)height;
    }
    return changed;
}

/* Heights shrink until they are what rules need at least. Grammars that are made to take long are
 * refused: a node takes some nanoseconds. */
static mica_status find_heights(mc_grammar_node *nodes, size_t count, const int32_t *rules) {
    enum { MAX_ROUNDS = 1000, MAX_LOOKED_AT = 1 << 27 };
    int rounds = count ? (int)(MAX_LOOKED_AT / count) : 1;
    for (size_t i = 0; i < count; i++)
        nodes[i].height = MC_GRAMMAR_DEPTH + 1;
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    for (int round = 0; round < rounds; round++)
        if (!lower_heights(nodes, count, rules, round % 2 == 0)) return MICA_OK;
    return mc_fail(MICA_EINVAL, "the grammar's rules are too intertwined");
}

static uint32_t mix(uint32_t hash, uint32_t value) {
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

static uint32_t hash_of(const mc_grammar *g) {
    const mc_grammar_node *nodes = MC_BUFFER_AT(&g->nodes, mc_grammar_node);
    uint32_t hash = mix(0, (uint32_t)g->start);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&g->nodes, mc_grammar_node); i++) {
        const mc_grammar_node *n = &nodes[i];
        hash = mix(hash, (uint32_t)(n->kind | n->low << 8 | n->high << 16 | n->plain << 24));
        hash = mix(mix(hash, (uint32_t)n->next), (uint32_t)n->other);
    }
    return hash;
}

bool mc_grammar_is_same(const mc_grammar *a, const mc_grammar *b) {
    const mc_grammar_node *of_a = MC_BUFFER_AT(&a->nodes, mc_grammar_node);
    const mc_grammar_node *of_b = MC_BUFFER_AT(&b->nodes, mc_grammar_node);
    if (a == b) return true;
    bool same = a->hash == b->hash && a->start == b->start && a->nodes.len == b->nodes.len &&
                a->rules.len == b->rules.len;
    if (!same || (a->rules.len && memcmp(a->rules.data, b->rules.data, a->rules.len) != 0))
        return false;
    for (size_t i = 0; same && i < MC_BUFFER_COUNT(&a->nodes, mc_grammar_node); i++) {
        const mc_grammar_node *m = &of_a[i], *n = &of_b[i]; /* which have padding */
        same = m->kind == n->kind && m->low == n->low && m->high == n->high &&
               m->plain == n->plain && m->height == n->height && m->next == n->next &&
               m->other == n->other;
    }
    return same;
}

size_t mc_grammar_bytes(const mc_grammar *grammar) {
    return sizeof *grammar + grammar->nodes.cap + grammar->rules.cap;
}

static mica_status finish(mc_builder *b, int32_t start, mc_grammar **grammar) {
    mc_grammar_node *nodes = MC_BUFFER_AT(&b->nodes, mc_grammar_node);
    const int32_t *rules = MC_BUFFER_AT(&b->rules, int32_t);
    if (b->status != MICA_OK) return mc_fail(b->status, "%s", b->error);
    MC_TRY(find_heights(nodes, MC_BUFFER_COUNT(&b->nodes, mc_grammar_node), rules));
    if (height_of(nodes, start) > MC_GRAMMAR_DEPTH)
        return mc_fail(MICA_EINVAL, "nothing satisfies it, or nothing that nests less than %d deep",
                       MC_GRAMMAR_DEPTH);
    mc_grammar *g = mc_calloc(1, sizeof *g);
    if (!g) return mc_fail_nomem("a grammar");
    atomic_init(&g->count, 1u);
    g->nodes = b->nodes;
    g->rules = b->rules;
    g->start = start;
    g->hash = hash_of(g);
    b->nodes = b->rules = (mc_buffer){0};
    *grammar = g;
    return MICA_OK;
}

mica_status mc_grammar_finish(mc_builder *b, int32_t start, mc_grammar **grammar) {
    *grammar = NULL;
    mica_status status = finish(b, start, grammar);
    mc_builder_deinit(b);
    return status;
}

mc_grammar *mc_grammar_retain(mc_grammar *grammar) {
    if (grammar) atomic_fetch_add_explicit(&grammar->count, 1u, memory_order_relaxed);
    return grammar;
}

void mc_grammar_close(mc_grammar **grammar) {
    mc_grammar *g = *grammar;
    *grammar = NULL;
    if (!g || atomic_fetch_sub_explicit(&g->count, 1u, memory_order_acq_rel) != 1u) return;
    mc_buffer_deinit(&g->nodes);
    mc_buffer_deinit(&g->rules);
    mc_free(g);
}
