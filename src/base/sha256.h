/* SHA-256 of bytes that come in pieces.
 *
 * source  FIPS 180-4, "Secure Hash Standard", 2015, sections 5 and 6.2 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { MC_SHA256_BYTES = 32 };

typedef struct mc_sha256 {
    uint32_t state[8];
    uint64_t count; /* bytes so far */
    uint8_t block[64];
} mc_sha256;

void mc_sha256_begin(mc_sha256 *sha);
void mc_sha256_add(mc_sha256 *sha, const void *bytes, size_t count);
void mc_sha256_end(mc_sha256 *sha, uint8_t digest[MC_SHA256_BYTES]);

#endif
