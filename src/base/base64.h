/* Base64 of RFC 4648, section 4: the alphabet with + and /, padded. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buffer.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Adds n bytes in base64; false: no memory. */
bool mc_base64_encode(const void *bytes, size_t n, mc_buffer *out);

/* Adds the bytes that a text spells. errors  MICA_EFORMAT it is not base64; MICA_ENOMEM */
mica_status mc_base64_decode(mc_str text, mc_buffer *out);

#endif
