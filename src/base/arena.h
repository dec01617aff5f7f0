/* Bump allocation in chunks, for many small objects that are freed together.
 *
 * Memory is aligned to 16 bytes and never moves. Each chunk is twice as large as the one before it,
 * and mc_arena_reset keeps the largest: an arena that is filled to the same size again and again
 * soon allocates nothing. Threads: one at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

typedef struct mc_arena_chunk mc_arena_chunk;

typedef struct mc_arena { /* zero is an empty arena */
    mc_arena_chunk *head;
    char *next;
    char *end;
    size_t first; /* bytes of the first chunk; 0: 4096 */
} mc_arena;

void *mc_arena_alloc(mc_arena *arena, size_t bytes);  /* uninitialised; NULL: no memory */
void *mc_arena_calloc(mc_arena *arena, size_t bytes); /* zeroed */
char *mc_arena_strndup(mc_arena *arena, const char *text, size_t len); /* adds the NUL */
void mc_arena_reset(mc_arena *arena);
size_t mc_arena_bytes(const mc_arena *arena); /* that it takes of the heap */
void mc_arena_deinit(mc_arena *arena);        /* frees all; the arena is empty again */

#endif
