#include "text/tokenizer/bpe.h"

#include "base/alloc.h"
#include "text/tokenizer/byte_level.h"
#include "text/unicode.h"

#include <string.h>

static bool add_id(mc_buffer *ids, int32_t id) {
    return mc_buffer_add(ids, &id, sizeof id);
}

/* Adds the tokens of a character's bytes; false: some byte has none, and nothing was added. */
static bool add_bytes(const mc_bpe *bpe, mc_str c, mc_buffer *ids, bool *no_memory) {
    for (size_t i = 0; i < c.len; i++) {
        if (bpe->byte_ids[(uint8_t)c.ptr[i]] < 0) return false;
    }
    for (size_t i = 0; i < c.len; i++)
        *no_memory |= !add_id(ids, bpe->byte_ids[(uint8_t)c.ptr[i]]);
    return true;
}

/* Turns a piece to the ids of its characters. A run of unknown characters is added when a known
 * character (or the end) follows. A character that falls back to bytes does not end the run, as in
 * `tokenizers`. */
static bool spell_chars(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_buffer *ids) {
    bool unknown = false, no_memory = false;
    for (size_t at = 0; at < piece.len && !no_memory;) {
        uint32_t codepoint;
        mc_str c = {piece.ptr + at, mc_next_char(piece.ptr + at, &codepoint)};
        at += c.len;
        int32_t id = mc_bpe_char_id(bpe, v, codepoint, c);
        if (id >= 0) {
            no_memory = unknown && !add_id(ids, bpe->unk_id);
            no_memory |= !add_id(ids, id);
            unknown = false;
        } else if (bpe->byte_fallback && add_bytes(bpe, c, ids, &no_memory)) {
            continue;
        } else if (bpe->unk_id >= 0) {
            no_memory = unknown && !bpe->fuse_unk && !add_id(ids, bpe->unk_id);
            unknown = true;
        }
    }
    if (unknown && !no_memory) no_memory = !add_id(ids, bpe->unk_id);
    return !no_memory;
}

static bool spell(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_buffer *ids) {
    mc_buffer_clear(ids);
    if (!bpe->takes_bytes) return spell_chars(bpe, v, piece, ids);
    if (!mc_buffer_reserve(ids, piece.len * sizeof(int32_t))) return false;
    for (size_t i = 0; i < piece.len; i++)
        MC_BUFFER_AT(ids, int32_t)[i] = bpe->level_ids[(uint8_t)piece.ptr[i]];
    ids->len = piece.len * sizeof(int32_t);
    return true;
}

/* Finds the token that equals the whole piece; -1: none. */
static mica_status find_whole(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_bpe_scratch *s,
                              int32_t *id) {
    if (bpe->takes_bytes) {
        mc_buffer_clear(&s->spelled);
        if (!mc_byte_level_spell(piece, &s->spelled)) return mc_fail_nomem("a piece of text");
        piece = (mc_str){s->spelled.data, s->spelled.len};
    }
    *id = mc_vocab_find_model(v, piece, mc_vocab_hash(piece.ptr, piece.len));
    return MICA_OK;
}

static mica_status encode_anew(const mc_bpe *bpe, const mc_vocab *v, mc_str piece,
                               mc_bpe_scratch *s, mc_buffer *ids) {
    if (bpe->ignore_merges && bpe->takes_bytes) {
        int32_t id;
        MC_TRY(find_whole(bpe, v, piece, s, &id));
        if (id >= 0) return add_id(ids, id) ? MICA_OK : mc_fail_nomem("ids");
    }
    if (!spell(bpe, v, piece, &s->ids)) return mc_fail_nomem("symbols of a piece of text");
    size_t n = MC_BUFFER_COUNT(&s->ids, int32_t);
    if (n == 0) return MICA_OK;
    MC_TRY(mc_bpe_merge(bpe, MC_BUFFER_AT(&s->ids, int32_t), &n, s));
    return mc_buffer_add(ids, s->ids.data, n * sizeof(int32_t)) ? MICA_OK : mc_fail_nomem("ids");
}

mica_status mc_bpe_remember(mc_bpe_scratch *s, size_t text_len) {
    size_t slots = 64;
    while (slots < 16384 && slots < text_len / 4)
        slots *= 2;
    s->known = mc_calloc(slots, sizeof *s->known);
    if (!s->known) return mc_fail_nomem("pieces of text");
    s->known_mask = slots - 1;
    return MICA_OK;
}

/* The slot of a short piece: where it is, or would be put. */
static mc_bpe_known *known_slot(const mc_bpe_scratch *s, const mc_bpe_known *wanted) {
    uint64_t words[3];
    memcpy(words, wanted, sizeof words);
    uint64_t hash = words[0] * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32 ^ words[1]) * UINT64_C(0xC2B2AE3D27D4EB4F);
    hash = (hash ^ hash >> 29 ^ words[2]) * UINT64_C(0x9E3779B97F4A7C15);
    return &s->known[(hash >> 40) & s->known_mask];
}

static mica_status encode_part(const mc_bpe *bpe, const mc_vocab *v, mc_str piece,
                               mc_bpe_scratch *s, mc_buffer *ids) {
    if (piece.len > MC_BPE_KEY || !s->known) return encode_anew(bpe, v, piece, s, ids);
    mc_bpe_known wanted = {.len = (uint8_t)piece.len};
    memcpy(wanted.key, piece.ptr, piece.len);
    mc_bpe_known *slot = known_slot(s, &wanted);
    if (slot->len == wanted.len && memcmp(slot->key, wanted.key, MC_BPE_KEY) == 0) {
        return mc_buffer_add(ids, slot->ids, slot->n * sizeof(int32_t)) ? MICA_OK
                                                                        : mc_fail_nomem("ids");
    }
    size_t before = ids->len;
    MC_TRY(encode_anew(bpe, v, piece, s, ids));
    size_t bytes = ids->len - before;
    if (bytes > sizeof wanted.ids) return MICA_OK;
    wanted.n = (uint8_t)(bytes / sizeof(int32_t));
    if (bytes) memcpy(wanted.ids, ids->data + before, bytes);
    *slot = wanted;
    return MICA_OK;
}

mica_status mc_bpe_encode(const mc_bpe *bpe, const mc_vocab *v, mc_str piece, mc_bpe_scratch *s,
                          mc_buffer *ids) {
    if (!bpe->joins) return encode_part(bpe, v, piece, s, ids);
    if (bpe->ignore_merges) {
        int32_t id;
        MC_TRY(find_whole(bpe, v, piece, s, &id));
        if (id >= 0) return add_id(ids, id) ? MICA_OK : mc_fail_nomem("ids");
    }
    while (piece.len) {
        mc_str part = {piece.ptr, mc_bpe_first_part(bpe, v, piece)};
        MC_TRY(encode_part(bpe, v, part, s, ids));
        piece.ptr += part.len;
        piece.len -= part.len;
    }
    return MICA_OK;
}

void mc_bpe_scratch_deinit(mc_bpe_scratch *s) {
    mc_buffer_deinit(&s->ids);
    mc_buffer_deinit(&s->symbols);
    mc_buffer_deinit(&s->heap);
    mc_buffer_deinit(&s->spelled);
    mc_free(s->known);
}
