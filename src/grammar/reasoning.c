#include "grammar/reasoning.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "grammar/token_trie.h"
#include "text/find.h"

#include <string.h>

typedef enum phase { PHASE_BEGIN, PHASE_THOUGHT, PHASE_OVER } phase;

typedef struct reasoning {
    mc_constraint constraint;
    mc_grammars *grammars; /* held */
    const mc_token_trie *trie;
    mc_constraint *inner; /* owned; NULL: none */
    mc_buffer
        marks; /* "\n" and what ends a thought, which is what ends it by force; what begins it */
    mc_str begin, end;
    size_t forced_at;
    int64_t left; /* tokens of the budget */
    phase phase;
    mc_buffer recent; /* the last bytes, which may begin the mark */
} reasoning;

static bool is_forced(const reasoning *r) {
    return r->phase == PHASE_THOUGHT && r->left <= 0;
}

/* What ends a thought by force. */
static mc_str forced_of(const reasoning *r) {
    return (mc_str){r->end.ptr - 1, r->end.len + 1};
}

/* Sets the bits of the tokens that begin the rest of what is forced. */
static void allow_forced(const reasoning *r, uint32_t *allowed) {
    const mc_trie_node *nodes = MC_BUFFER_AT(&r->trie->all.nodes, mc_trie_node);
    const int32_t *ids = MC_BUFFER_AT(&r->trie->all.ids, int32_t);
    size_t end = MC_BUFFER_COUNT(&r->trie->all.nodes, mc_trie_node), i = 0;
    const mc_str forced = forced_of(r);
    for (size_t at = r->forced_at; at < forced.len && i < end; at++) {
        while (i < end && nodes[i].byte != (uint8_t)forced.ptr[at])
            i = nodes[i].end;
        if (i >= end) return;
        for (uint32_t k = 0; k < nodes[i].count; k++)
            allowed[ids[nodes[i].first + k] / 32] |= 1u << ids[nodes[i].first + k] % 32;
        end = nodes[i++].end;
    }
}

static mica_status force(reasoning *r, mc_token_mask *mask) {
    size_t words = (mask->vocab + 31) / 32;
    mc_token_mask inner = *mask;
    uint32_t *forced = mc_calloc(words > r->trie->words ? words : r->trie->words, sizeof *forced);
    mica_status status = forced ? MICA_OK : mc_fail_nomem("a mask");
    inner.all = true;
    if (status == MICA_OK) allow_forced(r, forced);
    if (status == MICA_OK && r->inner) status = r->inner->ops->mask(r->inner, &inner);
    for (size_t i = 0; status == MICA_OK && i < words; i++)
        mask->allowed[i] = inner.all ? forced[i] : mask->allowed[i] & forced[i];
    mask->all = mask->may_end = false;
    mc_free(forced);
    return status;
}

static mica_status reasoning_mask(mc_constraint *constraint, mc_token_mask *mask) {
    reasoning *r = (reasoning *)constraint;
    if (is_forced(r)) return force(r, mask);
    if (r->inner) return r->inner->ops->mask(r->inner, mask);
    mask->all = mask->may_end = true;
    return MICA_OK;
}

/* Looks whether the bytes so far begin a thought. */
static void look_for_begin(reasoning *r) {
    size_t space = 0;
    while (space < r->recent.len && strchr(" \n\r\t", r->recent.data[space]) &&
           r->recent.data[space])
        space++;
    r->recent.len -= space;
    if (space) memmove(r->recent.data, r->recent.data + space, r->recent.len);
    const mc_str text = {r->recent.data, r->recent.len};
    if (mc_str_starts(text, r->begin)) {
        r->phase = PHASE_THOUGHT;
        mc_buffer_clear(&r->recent);
    } else if (!mc_str_starts(r->begin, text)) {
        r->phase = PHASE_OVER;
    }
}

static void look_for_end(reasoning *r) {
    const mc_str text = {r->recent.data, r->recent.len};
    if (mc_find(text, r->end, 0) < text.len) {
        r->phase = PHASE_OVER;
    } else if (text.len >= r->end.len) {
        size_t kept = r->end.len - 1;
        memmove(r->recent.data, text.ptr + text.len - kept, kept);
        r->recent.len = kept;
    }
}

static mica_status reasoning_accept(mc_constraint *constraint, int32_t id) {
    reasoning *r = (reasoning *)constraint;
    mc_str text = {NULL, 0};
    if (r->inner) MC_TRY(r->inner->ops->accept(r->inner, id));
    if (r->phase == PHASE_OVER) return MICA_OK;
    if (id >= 0 && (size_t)id < r->trie->vocab) text = r->trie->texts[id];
    if (!mc_buffer_add(&r->recent, text.ptr, text.len)) return mc_fail_nomem("a constraint");
    if (is_forced(r)) r->forced_at += text.len;
    if (r->phase == PHASE_BEGIN) {
        look_for_begin(r);
    } else {
        r->left--;
        look_for_end(r);
    }
    return MICA_OK;
}

static void reasoning_close(mc_constraint *constraint) {
    reasoning *r = (reasoning *)constraint;
    mc_constraint_close(&r->inner);
    mc_grammars_close(&r->grammars);
    mc_buffer_deinit(&r->recent);
    mc_buffer_deinit(&r->marks);
    mc_free(r);
}

static mica_status open_reasoning(mc_grammars *grammars, const mc_answer_format *format,
                                  int64_t budget, bool is_open, reasoning **out) {
    static const mc_constraint_ops ops = {reasoning_mask, reasoning_accept, reasoning_close};
    if (!format->think_end)
        return mc_fail(MICA_EUNSUPPORTED, "a budget of thoughts: the model's chat template marks "
                                          "no thoughts");
    if (budget < 0)
        return mc_fail(MICA_EINVAL, "a budget of thoughts of %lld tokens: want 0 or more",
                       (long long)budget);
    reasoning *r = *out = mc_calloc(1, sizeof *r);
    if (!r) return mc_fail_nomem("a constraint");
    r->constraint.ops = &ops;
    r->grammars = mc_grammars_retain(grammars);
    bool done = mc_buffer_add_byte(&r->marks, '\n') &&
                mc_format_literal(format, format->think_end, &r->marks);
    size_t len = r->marks.len;
    if (!done || !mc_format_literal(format, format->think_begin, &r->marks))
        return mc_fail_nomem("a constraint");
    r->end = (mc_str){r->marks.data + 1, len - 1};
    r->begin = (mc_str){r->marks.data + len, r->marks.len - len};
    r->left = budget;
    r->phase = is_open ? PHASE_THOUGHT : PHASE_BEGIN;
    return mc_grammars_need_trie(grammars, &r->trie);
}

mica_status mc_reasoning_constrain(mc_grammars *grammars, const mc_answer_format *format,
                                   int64_t budget, bool is_open, mc_constraint *inner,
                                   mc_constraint **constraint) {
    reasoning *r = NULL;
    mica_status status = open_reasoning(grammars, format, budget, is_open, &r);
    *constraint = NULL;
    if (r) {
        r->inner = inner;
        *constraint = &r->constraint;
        if (status != MICA_OK) mc_constraint_close(constraint);
    } else if (inner) {
        mc_constraint_close(&inner);
    }
    return status;
}
