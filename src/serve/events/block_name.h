/* What KV events call a block of tokens: as vLLM does with --prefix-caching-hash-algo sha256_cbor,
 * so that a router which has the same tokens and seed finds it without having read the event.
 *
 *     name = SHA-256(CBOR([name of the block before, [token, ...], [key, ...] or null]))
 *
 * The first block of a text stands behind SHA-256(CBOR(seed)). CBOR is the canonical one: names are
 * byte strings, seed and keys text strings.
 *
 * source  RFC 8949, "Concise Binary Object Representation", 4.2.1; vLLM 0.15's hash_block_tokens */
#ifndef SERVE_EVENTS_BLOCK_NAME_H
#define SERVE_EVENTS_BLOCK_NAME_H

#include "session/prefix.h"

/* What stands before the first block. */
mc_kv_name mc_block_name_of_seed(const char *seed);

/* keys [n_keys]: what else tells blocks of the same tokens apart. */
mc_kv_name mc_block_name(const mc_kv_name *before, const int32_t *ids, int64_t count,
                         const char *const *keys, size_t n_keys);

/* The number that an event has in place of a name: its last 64 bits. */
uint64_t mc_block_name_number(const mc_kv_name *name);

#endif
