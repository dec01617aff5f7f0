/* The checksums of the mock hub, by another's code than mica's. */
#ifndef HUB_MOCK_DIGEST_H
#define HUB_MOCK_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

enum { MOCK_DIGEST = 32 };

/* SHA-256, or SHA-1, of a header and of data. returns  its bytes */
size_t mock_digest(bool sha256, const char *header, size_t header_bytes, const char *data,
                   size_t bytes, unsigned char out[MOCK_DIGEST]);

#endif
