/* Cutting long pieces where no merge can cross.
 *
 * A tokenizer whose pre-tokenizer does not cut at words (Gemma's) makes a whole text one piece.
 * The parts cut here are short and repeat, so that they can be remembered. */
#include "text/tokenizer/bpe.h"

#include "base/alloc.h"
#include "text/unicode.h"

/* One bit per pair of characters. ASCII pairs have a bit each. Other pairs share bits by a hash:
 * a collision only means that a text is not cut at some position. */
enum { ASCII_BITS = 14, OTHER_BITS = 21, WORDS = ((1 << ASCII_BITS) + (1 << OTHER_BITS)) / 64 };

static inline size_t join_index(uint32_t a, uint32_t b) {
    if ((a | b) < 0x80) return a << 7 | b;
    uint32_t hash = (a * 0x9E3779B1u) ^ (b * 0x85EBCA6Bu);
    return (1u << ASCII_BITS) + (hash >> (32 - OTHER_BITS));
}

mica_status mc_bpe_learn_joins(mc_bpe *bpe, const mc_vocab *v) {
    bpe->joins = mc_calloc(WORDS, sizeof *bpe->joins);
    if (!bpe->joins) return mc_fail_nomem("merges");
    for (size_t id = 0; id < v->size; id++) {
        const mc_token *token = &v->tokens[id];
        uint32_t last, now;
        if (!token->text || token->len == 0) continue;
        for (size_t at = mc_next_char(token->text, &last); at < token->len; last = now) {
            at += mc_next_char(token->text + at, &now);
            size_t index = join_index(last, now);
            bpe->joins[index / 64] |= UINT64_C(1) << index % 64;
        }
    }
    return MICA_OK;
}

/* Both characters of a cut must be tokens: unknown characters form runs, or bytes that may
 * merge. */
size_t mc_bpe_first_part(const mc_bpe *bpe, const mc_vocab *v, mc_str piece) {
    uint32_t last, now;
    size_t last_at = 0, n;
    for (size_t at = mc_next_char(piece.ptr, &last); at < piece.len; at += n) {
        n = mc_next_char(piece.ptr + at, &now);
        size_t index = join_index(last, now);
        if (!(bpe->joins[index / 64] >> index % 64 & 1) &&
            mc_bpe_char_id(bpe, v, last, (mc_str){piece.ptr + last_at, at - last_at}) >= 0 &&
            mc_bpe_char_id(bpe, v, now, (mc_str){piece.ptr + at, n}) >= 0) {
            return at;
        }
        last_at = at;
        last = now;
    }
    return piece.len;
}
