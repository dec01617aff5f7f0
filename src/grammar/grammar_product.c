#include "grammar/grammar_product.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum {
    BETWEEN = -1,       /* separates the languages' nodes in a state */
    MAX_WORK = 1 << 26, /* nodes that are looked at for all products of a grammar */
    BYTES = 256
};

/* A state: the nodes of each language, sorted, with BETWEEN behind each. */
typedef struct state {
    const int32_t *nodes;
    size_t count;
    int32_t built; /* a node of the product that is open */
} state;

typedef struct product {
    mc_builder *b;
    const mc_grammar_node *nodes; /* of the parts */
    size_t node_count;
    const mc_language *languages;
    size_t count;
    int32_t next;
    mc_arena arena;    /* of states' nodes */
    mc_map known;      /* a state's nodes to its number */
    mc_buffer states;  /* state */
    mc_buffer found;   /* int32: the state that is made */
    mc_buffer todo;    /* int32: of a closure */
    uint32_t *visited; /* [node_count] the round in which a node was seen */
    uint32_t round;
} product;

static bool fail(product *p) {
    mc_builder_fail(p->b, mc_fail_nomem("a grammar"));
    return false;
}

/* ---- states ---- */

static bool visit(product *p, int32_t node) {
    if (node == MC_DEAD || p->visited[node] == p->round) return true;
    p->visited[node] = p->round;
    return MC_BUFFER_PUSH(&p->todo, int32_t, node) || fail(p);
}

/* Adds all that the nodes to do lead to without a byte. */
static bool close_over(product *p) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&p->todo, int32_t); i++) {
        int32_t at = MC_BUFFER_AT(&p->todo, int32_t)[i];
        const mc_grammar_node *n = &p->nodes[at];
        p->b->work++;
        if (n->kind == MC_NODE_SPLIT) {
            if (!visit(p, n->next) || !visit(p, n->other)) return false;
        } else if (!mc_buffer_add(&p->found, &at, sizeof at)) {
            return fail(p);
        }
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    int32_t one = *(const int32_t *)a, other = *(const int32_t *)b;
    return (one > other) - (one < other);
}

/* Ends a language's nodes, those from `first` on, in the state that is made. */
static bool end_language(product *p, size_t first) {
    int32_t *nodes = MC_BUFFER_AT(&p->found, int32_t) + first;
    size_t count = MC_BUFFER_COUNT(&p->found, int32_t) - first;
    if (count > 1) qsort(nodes, count, sizeof *nodes, by_number);
    return MC_BUFFER_PUSH(&p->found, int32_t, BETWEEN) || fail(p);
}

static void begin_language(product *p) {
    mc_buffer_clear(&p->todo);
    p->round++;
}

/* The number of the state that was made. */
static bool find_state(product *p, size_t *number) {
    mc_str key = {p->found.data, p->found.len};
    uint64_t known;
    *number = MC_BUFFER_COUNT(&p->states, state);
    if (mc_map_find(&p->known, key, &known)) return *number = (size_t)known, true;
    if (*number >= MC_PRODUCT_STATES) {
        mc_builder_fail(p->b,
                        mc_fail(MICA_EUNSUPPORTED, "needs an automaton of more than %d states",
                                MC_PRODUCT_STATES));
        return false;
    }
    if (p->b->work > MAX_WORK) {
        mc_builder_fail(p->b,
                        mc_fail(MICA_EUNSUPPORTED, "needs automata that take too long to build"));
        return false;
    }
    int32_t *nodes = mc_arena_alloc(&p->arena, key.len);
    if (!nodes) return fail(p);
    memcpy(nodes, key.ptr, key.len);
    const state new = {nodes, key.len / sizeof *nodes, mc_build_open(p->b)};
    return (mc_buffer_add(&p->states, &new, sizeof new) &&
            mc_map_put(&p->known, (mc_str){(const char *)nodes, key.len}, *number)) ||
           fail(p);
}

/* ---- ways on ---- */

/* Where the bytes begin that differ from the one before for some node of a state. */
static void find_cuts(product *p, const state *from, bool cuts[BYTES + 1]) {
    memset(cuts, 0, (BYTES + 1) * sizeof *cuts);
    for (size_t i = 0; i < from->count; i++) {
        const mc_grammar_node *n = from->nodes[i] < 0 ? NULL : &p->nodes[from->nodes[i]];
        if (!n || n->kind != MC_NODE_RANGE) continue;
        cuts[n->low] = cuts[n->high + 1] = true;
    }
    cuts[0] = cuts[BYTES] = true;
}

/* The state behind a byte. *alive false: no text goes on there. */
static bool step(product *p, const state *from, int byte, bool *alive, size_t *to) {
    size_t language = 0, first = 0;
    mc_buffer_clear(&p->found);
    begin_language(p);
    *alive = true;
    for (size_t i = 0; i < from->count; i++) {
        int32_t node = from->nodes[i];
        p->b->work++;
        if (node != BETWEEN) {
            const mc_grammar_node *n = &p->nodes[node];
            bool reads = n->kind == MC_NODE_RANGE && byte >= n->low && byte <= n->high;
            if (reads && !visit(p, n->next)) return false;
            continue;
        }
        if (!close_over(p)) return false;
        if (!p->languages[language].negated && MC_BUFFER_COUNT(&p->found, int32_t) == first)
            return *alive = false, true;
        if (!end_language(p, first)) return false;
        first = MC_BUFFER_COUNT(&p->found, int32_t);
        language++;
        begin_language(p);
    }
    return find_state(p, to);
}

/* Whether the text may end in a state. MC_RETURN is the lowest node. */
static bool accepts(const product *p, const state *s) {
    size_t at = 0;
    for (size_t i = 0; i < p->count; i++) {
        if ((s->nodes[at] == MC_RETURN) == p->languages[i].negated) return false;
        while (s->nodes[at] != BETWEEN)
            at++;
        at++;
    }
    return true;
}

static void build_state(product *p, size_t number) {
    const state from = MC_BUFFER_AT(&p->states, state)[number];
    bool cuts[BYTES + 1], alive = false;
    int32_t all = MC_DEAD, last = MC_DEAD;
    int low = 0;
    find_cuts(p, &from, cuts);
    for (int byte = 0; byte < BYTES; byte++) {
        if (!cuts[byte]) continue;
        size_t to = 0;
        if (!step(p, &from, byte, &alive, &to)) return;
        int32_t way = alive ? MC_BUFFER_AT(&p->states, state)[to].built : MC_DEAD;
        if (way == last) continue;
        all = mc_build_split(p->b, mc_build_range(p->b, low, byte - 1, last), all);
        low = byte;
        last = way;
    }
    all = mc_build_split(p->b, mc_build_range(p->b, low, BYTES - 1, last), all);
    mc_build_close(p->b, from.built, all, accepts(p, &from) ? p->next : MC_DEAD);
}

static bool first_state(product *p) {
    size_t number, first = 0;
    for (size_t i = 0; i < p->count; i++) {
        begin_language(p);
        if (!visit(p, p->languages[i].start) || !close_over(p) || !end_language(p, first))
            return false;
        first = MC_BUFFER_COUNT(&p->found, int32_t);
    }
    return find_state(p, &number);
}

int32_t mc_build_product(mc_builder *b, const mc_builder *parts, const mc_language *languages,
                         size_t count, int32_t next) {
    product p = {.b = b, .languages = languages, .count = count, .next = next};
    int32_t start = MC_DEAD;
    if (b->status != MICA_OK || next == MC_DEAD) return MC_DEAD;
    if (parts->status != MICA_OK) {
        mc_builder_fail(b, mc_fail(parts->status, "%s", parts->error));
        return MC_DEAD;
    }
    p.nodes = MC_BUFFER_AT(&parts->nodes, mc_grammar_node);
    p.node_count = MC_BUFFER_COUNT(&parts->nodes, mc_grammar_node);
    p.visited = mc_calloc(p.node_count, sizeof *p.visited);
    if (!p.visited) fail(&p);
    if (p.visited && first_state(&p)) start = MC_BUFFER_AT(&p.states, state)[0].built;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&p.states, state) && b->status == MICA_OK; i++)
        build_state(&p, i);
    mc_free(p.visited);
    mc_buffer_deinit(&p.todo);
    mc_buffer_deinit(&p.found);
    mc_buffer_deinit(&p.states);
    mc_map_deinit(&p.known);
    mc_arena_deinit(&p.arena);
    return b->status == MICA_OK ? start : MC_DEAD;
}
