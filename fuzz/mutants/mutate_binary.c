/* Mutates binary files: safetensors, GGUF, saved sessions and programs. */
#include "mutate.h"

#include "base/map.h"
#include "session/session_file.h"

#include <string.h>

static const uint64_t words[] = {
    0,
    1,
    2,
    7,
    8,
    64,
    255,
    1 << 16,
    100000000,
    INT32_MAX,
    UINT32_MAX,
    UINT64_C(1) << 32,
    UINT64_C(1) << 47,
    INT64_MAX,
    UINT64_C(1) << 63,
    UINT64_MAX - 7,
    UINT64_MAX,
    UINT64_C(0x7f8000007f800000),
    UINT64_C(0x7fc07fc07fc07fc0),
    UINT64_C(0xff80ff80ff80ff80),
};

static uint64_t some_word(chance *c, uint64_t now) {
    return chance_one_in(c, 3) ? now + chance_size(c) - 8 : CHANCE_PICK(c, words);
}

static void change_word(chance *c, mc_buffer *file, size_t at) {
    uint64_t word;
    memcpy(&word, file->data + at, sizeof word);
    word = some_word(c, word);
    memcpy(file->data + at, &word, sizeof word);
}

/* ---- safetensors ---- */

static void set_header(mc_buffer *file, size_t len, const mc_buffer *header) {
    uint64_t size = header->len;
    mutate_splice(file, 8, 8 + len, header->data, header->len);
    memcpy(file->data, &size, sizeof size);
}

static void change_header(chance *c, mc_buffer *file, size_t len) {
    mc_buffer header = {0};
    mutate_must(mc_buffer_add(&header, file->data + 8, len));
    for (size_t n = 1 + chance_below(c, 2); n > 0; n--)
        mutate_json(c, &header);
    set_header(file, len, &header);
    mc_buffer_deinit(&header);
}

/* Writes a run of infinities, of NaNs, or of other bytes. */
static void change_data(chance *c, mc_buffer *file, size_t begin) {
    size_t at = begin + chance_below(c, file->len - begin + 1);
    uint64_t word = some_word(c, 0);
    for (size_t n = chance_size(c); n > 0 && at + 8 <= file->len; n--, at += 8)
        memcpy(file->data + at, &word, sizeof word);
}

void mutate_tensors(chance *c, mc_buffer *file) {
    uint64_t len = 0;
    if (file->len >= 8) memcpy(&len, file->data, sizeof len);
    if (file->len < 8 || len > file->len - 8 || chance_one_in(c, 8)) {
        mutate_bytes(c, file);
        return;
    }
    switch (chance_below(c, 8)) {
    case 0:
        change_word(c, file, 0);
        break;
    case 1:
        change_data(c, file, 8 + (size_t)len);
        break;
    default:
        change_header(c, file, (size_t)len);
    }
}

/* ---- GGUF ---- */

/* Metadata and the table of tensors are a small part of a file, at its beginning. */
void mutate_gguf(chance *c, mc_buffer *file) {
    mc_buffer head = {0};
    size_t len = (size_t)64 << chance_below(c, 16);
    if (len > file->len) len = file->len;
    if (len >= 8 && chance_one_in(c, 2)) {
        change_word(c, file, chance_below(c, len - 7));
        return;
    }
    mutate_must(mc_buffer_add(&head, file->data, len));
    mutate_bytes(c, &head);
    mutate_splice(file, 0, len, head.data, head.len);
    mc_buffer_deinit(&head);
}

/* ---- sessions ---- */

enum { FINGERPRINT = 24, HEADER = 72 }; /* offsets of their ends in bytes */

void mutate_session(chance *c, mc_buffer *file) {
    size_t whole = file->len / 8 * 8;
    bool far = chance_one_in(c, 2);
    if (whole < HEADER + 8) {
        mutate_bytes(c, file);
        return;
    }
    size_t room = (far ? whole - 8 - HEADER : HEADER - FINGERPRINT) / 8;
    if (chance_one_in(c, 4))
        mutate_bytes(c, file);
    else if (room > 0)
        change_word(c, file, (far ? HEADER : FINGERPRINT) + chance_below(c, room) * 8);
    if (file->len % 8 != 0 || file->len < HEADER + 8 || chance_one_in(c, 8)) return;
    uint64_t sum = mc_session_checksum(file->data, file->len - 8);
    memcpy(file->data + file->len - 8, &sum, sizeof sum);
}

/* ---- programs ---- */

/* What the file of a graph begins with: magic, version and order, then its size and the hash of
 * what follows. */
enum { SIZE_AT = 16, HASH_AT = 24, HASHED = 32 };

void mutate_program(chance *c, mc_buffer *file) {
    size_t room = file->len / 8;
    if (chance_one_in(c, 3) || room * 8 <= HASHED)
        mutate_bytes(c, file);
    else
        change_word(c, file, HASHED + chance_below(c, room - HASHED / 8) * 8);
    if (file->len <= HASHED || chance_one_in(c, 8)) return;
    uint64_t size = file->len, hash = mc_hash(file->data + HASHED, file->len - HASHED, 0);
    memcpy(file->data + SIZE_AT, &size, sizeof size);
    memcpy(file->data + HASH_AT, &hash, sizeof hash);
}
