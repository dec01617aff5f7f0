/* A growable run of bytes: text being built, or an array of plain elements.
 *
 * Zero is an empty buffer. Without memory every adding function returns false and leaves the buffer
 * unchanged. Threads: one at a time. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct mc_buffer {
    char *data;
    size_t len; /* bytes in use */
    size_t cap;
} mc_buffer;

bool mc_buffer_reserve(mc_buffer *b, size_t more); /* room for `more` bytes beyond len */
bool mc_buffer_add(mc_buffer *b, const void *bytes, size_t n);
bool mc_buffer_add_text(mc_buffer *b, const char *text);
bool mc_buffer_add_byte(mc_buffer *b, char byte);
bool mc_buffer_printf(mc_buffer *b, const char *fmt, ...) MC_PRINTF(2, 3);
const char *mc_buffer_cstr(mc_buffer *b); /* adds a NUL that len does not count; NULL: no memory */
void mc_buffer_clear(mc_buffer *b);       /* keeps the memory */
char *mc_buffer_take(mc_buffer *b); /* NUL-terminated, owned by the caller; b is empty again */
void mc_buffer_deinit(mc_buffer *b);

/* As an array of T: MC_BUFFER_PUSH(&b, T, value), MC_BUFFER_AT(&b, T)[i], MC_BUFFER_COUNT(&b, T).
 */
#define MC_BUFFER_PUSH(b, T, value) mc_buffer_add((b), (T[1]){value}, sizeof(T))
#define MC_BUFFER_AT(b, T) ((T *)(void *)(b)->data)
#define MC_BUFFER_COUNT(b, T) ((b)->len / sizeof(T))

#endif
