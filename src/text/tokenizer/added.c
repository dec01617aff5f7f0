#include "text/tokenizer/added.h"

#include "text/space.h"
#include "text/unicode.h"

enum { MAX_LEN = 1024 }; /* a byte of text is read at most this often */

static bool add_node(mc_added *a) {
    mc_added_end none = {-1, 0};
    return mc_buffer_add(&a->ends, &none, sizeof none);
}

mica_status mc_added_put(mc_added *a, mc_str text, int32_t id, uint32_t flags) {
    if (text.len == 0) return MICA_OK;
    if (text.len > MAX_LEN)
        return mc_fail(MICA_EUNSUPPORTED,
                       "added_tokens: the token %d has %zu bytes, the limit is %d", (int)id,
                       text.len, MAX_LEN);
    if (a->ends.len == 0 && !add_node(a)) {
        return mc_fail_nomem("added tokens");
    }
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint64_t key = mc_pair_key(node, (uint8_t)text.ptr[i]), next;
        if (!mc_pairs_find(&a->edges, key, &next)) {
            next = MC_BUFFER_COUNT(&a->ends, mc_added_end);
            if (!add_node(a) || !mc_pairs_put(&a->edges, key, next)) {
                return mc_fail_nomem("added tokens");
            }
        }
        node = (uint32_t)next;
    }
    MC_BUFFER_AT(&a->ends, mc_added_end)[node] = (mc_added_end){id, flags};
    a->starts[(uint8_t)text.ptr[0]] = true;
    a->count++;
    return MICA_OK;
}

void mc_added_deinit(mc_added *a) {
    mc_pairs_deinit(&a->edges);
    mc_buffer_deinit(&a->ends);
    *a = (mc_added){0};
}

/* The length of the longest token that starts at `at`; 0: none. */
static size_t longest(const mc_added *a, mc_str text, size_t at, mc_added_end *end) {
    const mc_added_end *ends = MC_BUFFER_AT(&a->ends, mc_added_end);
    size_t best = 0;
    uint64_t node = 0;
    for (size_t i = at; i < text.len; i++) {
        if (!mc_pairs_find(&a->edges, mc_pair_key((uint32_t)node, (uint8_t)text.ptr[i]), &node))
            break;
        if (ends[node].id >= 0) {
            best = i + 1 - at;
            *end = ends[node];
        }
    }
    return best;
}

static bool stands_alone(mc_str text, size_t start, size_t end) {
    uint32_t c;
    if (start > 0 && mc_last_char(text.ptr, text.ptr + start, &c) && mc_is_word(c)) return false;
    return end == text.len || (mc_next_char(text.ptr + end, &c) && !mc_is_word(c));
}

bool mc_added_find(const mc_added *a, mc_str text, size_t from, mc_added_match *match) {
    if (a->count == 0) return false;
    for (size_t at = from; at < text.len; at++) {
        mc_added_end end = {-1, 0};
        size_t len = a->starts[(uint8_t)text.ptr[at]] ? longest(a, text, at, &end) : 0;
        if (len == 0) continue;
        if ((end.flags & MC_ADDED_WORD) && !stands_alone(text, at, at + len)) {
            at += len - 1;
            continue;
        }
        *match = (mc_added_match){at, at + len, end.id};
        if (end.flags & MC_ADDED_LSTRIP) {
            match->start -= mc_space_at_end(text.ptr + from, at - from);
        }
        if (end.flags & MC_ADDED_RSTRIP) {
            match->end += mc_space_at_start(text.ptr + match->end, text.len - match->end);
        }
        return true;
    }
    return false;
}
