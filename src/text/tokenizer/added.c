#include "text/tokenizer/added.h"

#include "text/space.h"
#include "text/unicode.h"

mica_status mc_added_put(mc_added *a, mc_str text, int32_t id, uint32_t flags) {
    int32_t index = (int32_t)MC_BUFFER_COUNT(&a->tokens, mc_added_token);
    mc_added_token token = {id, flags};
    bool fits;
    MC_TRY(mc_byte_tree_put(&a->tree, text, index, &fits));
    if (!fits && text.len)
        return mc_fail(MICA_EUNSUPPORTED,
                       "added_tokens: the token %d has %zu bytes, the limit is %d", (int)id,
                       text.len, MC_BYTE_TREE_MAX_LEN);
    if (!fits) return MICA_OK;
    a->starts[(uint8_t)text.ptr[0]] = true;
    return mc_buffer_add(&a->tokens, &token, sizeof token) ? MICA_OK
                                                           : mc_fail_nomem("added tokens");
}

void mc_added_deinit(mc_added *a) {
    mc_byte_tree_deinit(&a->tree);
    mc_buffer_deinit(&a->tokens);
    *a = (mc_added){0};
}

/* The length of the longest token that starts at `at`, and its index; 0: none. */
static size_t longest(const mc_added *a, mc_str text, size_t at, int32_t *index) {
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = at; i < text.len && mc_byte_tree_step(&a->tree, &node, text.ptr[i]); i++) {
        int32_t value = mc_byte_tree_value(&a->tree, node);
        if (value < 0) continue;
        best = i + 1 - at;
        *index = value;
    }
    return best;
}

static bool stands_alone(mc_str text, size_t start, size_t end) {
    uint32_t c;
    if (start > 0 && mc_last_char(text.ptr, text.ptr + start, &c) && mc_is_word(c)) return false;
    return end == text.len || (mc_next_char(text.ptr + end, &c) && !mc_is_word(c));
}

bool mc_added_find(const mc_added *a, mc_str text, size_t from, mc_added_match *match) {
    if (a->tokens.len == 0) return false;
    for (size_t at = from; at < text.len; at++) {
        int32_t index = 0;
        size_t len = a->starts[(uint8_t)text.ptr[at]] ? longest(a, text, at, &index) : 0;
        if (len == 0) continue;
        mc_added_token token = MC_BUFFER_AT(&a->tokens, mc_added_token)[index];
        if ((token.flags & MC_ADDED_WORD) && !stands_alone(text, at, at + len)) {
            at += len - 1;
            continue;
        }
        *match = (mc_added_match){at, at + len, token.id};
        if (token.flags & MC_ADDED_LSTRIP) {
            match->start -= mc_space_at_end(text.ptr + from, at - from);
        }
        if (token.flags & MC_ADDED_RSTRIP) {
            match->end += mc_space_at_start(text.ptr + match->end, text.len - match->end);
        }
        return true;
    }
    return false;
}
