#include "serve/events/block_name.h"

#include "base/sha256.h"

#include <string.h>

/* The major types of CBOR that names are made of. */
enum { UNSIGNED, BYTES = 2, TEXT, ARRAY, NIL = 0xf6 };

/* The head of a value: its type, and a number in as few bytes as hold it. */
static void add_head(mc_sha256 *sha, unsigned type, uint64_t number) {
    uint8_t head[9] = {(uint8_t)(type << 5)};
    int log = number < 24 ? -1 : number <= UINT8_MAX ? 0 : number <= UINT16_MAX ? 1 : 2;
    if (number > UINT32_MAX) log = 3;
    int bytes = log < 0 ? 0 : 1 << log;
    head[0] |= (uint8_t)(log < 0 ? number : 24 + (unsigned)log);
    for (int i = 0; i < bytes; i++)
        head[1 + i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
    mc_sha256_add(sha, head, 1 + (size_t)bytes);
}

static void add_text(mc_sha256 *sha, const char *text) {
    size_t len = strlen(text);
    add_head(sha, TEXT, len);
    mc_sha256_add(sha, text, len);
}

mc_kv_name mc_block_name_of_seed(const char *seed) {
    mc_sha256 sha;
    mc_kv_name name;
    mc_sha256_begin(&sha);
    add_text(&sha, seed);
    mc_sha256_end(&sha, name.bytes);
    return name;
}

mc_kv_name mc_block_name(const mc_kv_name *before, const int32_t *ids, int64_t count,
                         const char *const *keys, size_t n_keys) {
    static const uint8_t nil = NIL;
    mc_sha256 sha;
    mc_kv_name name;
    mc_sha256_begin(&sha);
    add_head(&sha, ARRAY, 3);
    add_head(&sha, BYTES, sizeof before->bytes);
    mc_sha256_add(&sha, before->bytes, sizeof before->bytes);
    add_head(&sha, ARRAY, (uint64_t)count);
    for (int64_t i = 0; i < count; i++)
        add_head(&sha, UNSIGNED, (uint64_t)ids[i]);
    if (n_keys)
        add_head(&sha, ARRAY, n_keys);
    else
        mc_sha256_add(&sha, &nil, 1);
    for (size_t i = 0; i < n_keys; i++)
        add_text(&sha, keys[i]);
    mc_sha256_end(&sha, name.bytes);
    return name;
}

uint64_t mc_block_name_number(const mc_kv_name *name) {
    uint64_t number = 0;
    for (size_t i = sizeof name->bytes - 8; i < sizeof name->bytes; i++)
        number = number << 8 | name->bytes[i];
    return number;
}
