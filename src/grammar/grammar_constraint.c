#include "grammar/grammar_constraint.h"

#include "answer/format.h"
#include "base/alloc.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

#include <pthread.h>
#include <string.h>

/* Matchers of ended answers: how many are kept and the bytes of all, beside those of some masks. */
enum { KEPT = 8, KEPT_BYTES = 4 << 20, KEPT_MASKS = 256 };

typedef struct kept_matcher {
    mc_matcher *matcher; /* NULL: free, as all that follow are */
    size_t owner;
} kept_matcher;

struct mc_grammars {
    atomic_uint count; /* its handle and its constraints */
    pthread_mutex_t lock;
    mica_tokenizer *tokenizer; /* held */
    size_t vocab;
    mc_token_trie *trie;     /* NULL: not built yet */
    kept_matcher kept[KEPT]; /* the one used last first */
};

typedef struct grammar_constraint {
    mc_constraint constraint;
    mc_grammars *grammars; /* held */
    const mc_token_trie *trie;
    mc_grammar *grammar; /* held */
    mc_matcher *matcher; /* its held state is the answer's; NULL: nothing was asked yet */
    size_t owner;
    bool failed; /* the matcher is not kept */
} grammar_constraint;

/* ---- what a model has ---- */

mica_status mc_grammars_open(const mica_tokenizer *tokenizer, size_t vocab, mc_grammars **out) {
    *out = NULL;
    mc_grammars *g = mc_calloc(1, sizeof *g);
    if (!g) return mc_fail_nomem("grammars");
    atomic_init(&g->count, 1u);
    pthread_mutex_init(&g->lock, NULL);
    g->tokenizer = mc_tokenizer_retain(tokenizer);
    g->vocab = vocab;
    *out = g;
    return MICA_OK;
}

mc_grammars *mc_grammars_retain(mc_grammars *grammars) {
    atomic_fetch_add_explicit(&grammars->count, 1u, memory_order_relaxed);
    return grammars;
}

static void close_matcher(mc_matcher *m) {
    if (!m) return;
    mc_matcher_close(m);
    mc_free(m);
}

static void release(mc_grammars *g) {
    if (!g || atomic_fetch_sub_explicit(&g->count, 1u, memory_order_acq_rel) != 1u) return;
    for (size_t i = 0; i < KEPT; i++)
        close_matcher(g->kept[i].matcher);
    mc_token_trie_close(&g->trie);
    mica_tokenizer_close(&g->tokenizer);
    pthread_mutex_destroy(&g->lock);
    mc_free(g);
}

void mc_grammars_close(mc_grammars **grammars) {
    mc_grammars *g = *grammars;
    *grammars = NULL;
    release(g);
}

/* Takes a matcher that is kept of a grammar like that one; NULL: there is none. */
static mc_matcher *take_kept(mc_grammars *g, const mc_grammar *grammar, size_t owner) {
    mc_matcher *found = NULL;
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < KEPT && g->kept[i].matcher && !found; i++)
        if (g->kept[i].owner == owner && mc_grammar_is_same(g->kept[i].matcher->grammar, grammar)) {
            found = g->kept[i].matcher;
            memmove(g->kept + i, g->kept + i + 1, (KEPT - 1 - i) * sizeof *g->kept);
            g->kept[KEPT - 1].matcher = NULL;
        }
    pthread_mutex_unlock(&g->lock);
    return found;
}

/* Keeps a matcher for the next answer, and drops those that were used longest ago. */
static void keep(mc_grammars *g, mc_matcher *m, size_t owner) {
    mc_matcher *dropped[KEPT + 1] = {0};
    size_t bytes = 0, limit = KEPT_BYTES + KEPT_MASKS * m->mask_bytes;
    pthread_mutex_lock(&g->lock);
    dropped[KEPT] = g->kept[KEPT - 1].matcher;
    memmove(g->kept + 1, g->kept, (KEPT - 1) * sizeof *g->kept);
    g->kept[0] = (kept_matcher){m, owner};
    for (size_t i = 0; i < KEPT && g->kept[i].matcher; i++) {
        bytes += mc_matcher_bytes(g->kept[i].matcher);
        if (bytes <= limit) continue;
        dropped[i] = g->kept[i].matcher;
        g->kept[i].matcher = NULL;
    }
    pthread_mutex_unlock(&g->lock);
    for (size_t i = 0; i <= KEPT; i++)
        close_matcher(dropped[i]);
}

size_t mc_grammars_kept(mc_grammars *g, size_t *count) {
    size_t bytes = 0, n = 0;
    pthread_mutex_lock(&g->lock);
    for (; n < KEPT && g->kept[n].matcher; n++)
        bytes += mc_matcher_bytes(g->kept[n].matcher);
    pthread_mutex_unlock(&g->lock);
    *count = n;
    return bytes;
}

mica_status mc_grammars_need_trie(mc_grammars *g, const mc_token_trie **trie) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&g->lock);
    if (!g->trie) status = mc_token_trie_open(g->tokenizer, g->vocab, &g->trie);
    *trie = g->trie;
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* ---- masks ---- */

/* Walks the tree: sets the bits of the tokens that may come in a state. */
static mica_status walk(mc_matcher *m, const mc_trie *trie, int32_t from, uint32_t *allowed) {
    const mc_trie_node *nodes = MC_BUFFER_AT(&trie->nodes, mc_trie_node);
    const int32_t *ids = MC_BUFFER_AT(&trie->ids, int32_t);
    size_t count = MC_BUFFER_COUNT(&trie->nodes, mc_trie_node);
    int32_t states[UINT8_MAX + 2]; /* before each byte of the path */
    states[0] = from;
    for (size_t i = 0; i < count;) {
        MC_TRY(mc_matcher_spend(m, 1));
        const mc_trie_node *n = &nodes[i];
        int32_t *to = &states[n->depth + 1];
        const int32_t *after = mc_matcher_state(m, states[n->depth])->after;
        *to = after ? after[n->byte] : MC_STATE_UNKNOWN;
        if (*to == MC_STATE_UNKNOWN) MC_TRY(mc_matcher_step(m, states[n->depth], n->byte, to));
        if (*to == MC_STATE_DEAD) {
            i = n->end;
            continue;
        }
        for (uint32_t k = 0; k < n->count; k++)
            allowed[ids[n->first + k] / 32] |= 1u << ids[n->first + k] % 32;
        i++;
    }
    return MICA_OK;
}

/* A matcher is taken when the answer begins: constraints that wait have no states. */
static mica_status need_matcher(grammar_constraint *c) {
    if (c->matcher && c->matcher->held == MC_STATE_DEAD)
        return mc_fail(MICA_EUNSUPPORTED, "the grammar's state was lost by an error before");
    if (c->matcher) return MICA_OK;
    mc_matcher *m = take_kept(c->grammars, c->grammar, c->owner);
    mica_status status = MICA_OK;
    if (m) {
        status = mc_matcher_reset(m);
    } else {
        m = mc_calloc(1, sizeof *m);
        if (!m) return mc_fail_nomem("a constraint");
        status = mc_matcher_open(c->grammar, c->trie->words * sizeof(uint32_t), m);
    }
    if (status != MICA_OK)
        close_matcher(m);
    else
        c->matcher = m;
    return status;
}

/* The mask of the held state, which is made once and kept with it. */
static mica_status need_mask(grammar_constraint *c, const uint32_t **mask) {
    MC_TRY(need_matcher(c));
    mc_matcher *m = c->matcher;
    mc_state *state = mc_matcher_state(m, m->held);
    mc_matcher_refill(m);
    if (!state->mask) {
        uint32_t *made = mc_calloc(c->trie->words, sizeof *made);
        bool plain = state->plain;
        if (!made) return mc_fail_nomem("a mask");
        if (plain) memcpy(made, c->trie->plain, c->trie->words * sizeof *made);
        mica_status status = walk(m, plain ? &c->trie->others : &c->trie->all, m->held, made);
        if (status != MICA_OK) {
            mc_free(made);
            return status;
        }
        state = mc_matcher_state(m, m->held); /* the states may have moved */
        state->mask = made;
        m->bytes += m->mask_bytes;
    }
    *mask = state->mask;
    return MICA_OK;
}

static mica_status constraint_mask(mc_constraint *constraint, mc_token_mask *mask) {
    grammar_constraint *c = (grammar_constraint *)constraint;
    const uint32_t *made = NULL;
    size_t words = (mask->vocab + 31) / 32;
    mica_status status = need_mask(c, &made);
    c->failed = c->failed || status != MICA_OK;
    if (!made) return status;
    if (words > c->trie->words) memset(mask->allowed, 0, words * sizeof *made);
    memcpy(mask->allowed, made, (words < c->trie->words ? words : c->trie->words) * sizeof *made);
    mask->all = false;
    mask->may_end = mc_matcher_state(c->matcher, c->matcher->held)->may_end;
    return MICA_OK;
}

/* The state behind a text; MC_STATE_DEAD: it may not come. */
static mica_status step_text(mc_matcher *m, mc_str text, int32_t *state) {
    for (size_t i = 0; i < text.len && *state != MC_STATE_DEAD; i++)
        MC_TRY(mc_matcher_step(m, *state, (uint8_t)text.ptr[i], state));
    return MICA_OK;
}

static mica_status take_token(grammar_constraint *c, int32_t id) {
    MC_TRY(need_matcher(c));
    mc_matcher *m = c->matcher;
    int32_t state = m->held;
    mc_str text = {NULL, 0};
    if (id >= 0 && (size_t)id < c->trie->vocab) text = c->trie->texts[id];
    if (!text.ptr) return mc_fail(MICA_EINVAL, "the grammar does not allow token %d", (int)id);
    MC_TRY(step_text(m, text, &state));
    bool mark = (uint8_t)text.ptr[0] == MC_MARK;
    if (state == MC_STATE_DEAD && mark && !mica_tokenizer_is_special(c->grammars->tokenizer, id)) {
        state = m->held; /* it is a text here */
        MC_TRY(step_text(m, (mc_str){text.ptr + 1, text.len - 1}, &state));
    }
    if (state == MC_STATE_DEAD)
        return mc_fail(MICA_EINVAL, "the grammar does not allow token %d here", (int)id);
    m->held = state;
    return mc_matcher_trim(m);
}

static mica_status constraint_accept(mc_constraint *constraint, int32_t id) {
    grammar_constraint *c = (grammar_constraint *)constraint;
    mica_status status = take_token(c, id);
    c->failed = c->failed || status != MICA_OK;
    return status;
}

static void constraint_close(mc_constraint *constraint) {
    grammar_constraint *c = (grammar_constraint *)constraint;
    if (c->failed)
        close_matcher(c->matcher);
    else if (c->matcher)
        keep(c->grammars, c->matcher, c->owner);
    mc_grammar_close(&c->grammar);
    release(c->grammars);
    mc_free(c);
}

/* ---- opening ---- */

mica_status mc_grammars_constrain(mc_grammars *grammars, mc_grammar *grammar, size_t owner,
                                  mc_constraint **constraint) {
    static const mc_constraint_ops ops = {constraint_mask, constraint_accept, constraint_close};
    *constraint = NULL;
    grammar_constraint *c = mc_calloc(1, sizeof *c);
    if (!c) return mc_fail_nomem("a constraint");
    c->constraint.ops = &ops;
    c->grammars = mc_grammars_retain(grammars);
    c->grammar = mc_grammar_retain(grammar);
    c->owner = owner;
    mica_status status = mc_grammars_need_trie(grammars, &c->trie);
    *constraint = &c->constraint;
    if (status != MICA_OK) mc_constraint_close(constraint);
    return status;
}

mica_status mc_grammars_check(mc_grammars *grammars, mc_grammar *grammar, size_t owner) {
    mc_constraint *constraint;
    const uint32_t *first = NULL;
    MC_TRY(mc_grammars_constrain(grammars, grammar, owner, &constraint));
    grammar_constraint *c = (grammar_constraint *)constraint;
    mica_status status = need_mask(c, &first);
    c->failed = status != MICA_OK;
    mc_constraint_close(&constraint);
    return status;
}
