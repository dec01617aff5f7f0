/* Checksums by which a hub names files: SHA-256, and git's SHA-1 of small ones. */
#ifndef HUB_DIGEST_H
#define HUB_DIGEST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_digest mc_digest;

enum { MC_DIGEST_TEXT = 65 }; /* hexadecimal digits and a NUL */

/* size: of the whole file, which git's checksum covers. errors  MICA_ENOMEM */
mica_status mc_digest_open(bool sha256, uint64_t size, mc_digest **digest);
bool mc_digest_add(mc_digest *digest, const void *bytes, size_t count); /* false: it failed */
bool mc_digest_end(mc_digest *digest, char text[MC_DIGEST_TEXT]);
void mc_digest_close(mc_digest **digest);

#endif
