/* SHA-256 (FIPS 180-4), for goldens that record a digest instead of a long result. */
#ifndef TESTS_TEXT_TOKENIZER_SHA256_H
#define TESTS_TEXT_TOKENIZER_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* The digest of n bytes in lower-case hexadecimal and a NUL. */
void test_sha256(const void *bytes, size_t n, char hex[65]);

#endif
