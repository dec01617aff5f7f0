#include "base/arena.h"

#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

#define ALIGN 16
#define FIRST_CHUNK_BYTES 4096

struct mc_arena_chunk { /* the head of the list is the newest and largest */
    mc_arena_chunk *older;
    size_t bytes; /* of data */
    _Alignas(ALIGN) char data[];
};

static void use_chunk(mc_arena *arena, mc_arena_chunk *chunk) {
    arena->head = chunk;
    arena->next = chunk->data;
    arena->end = chunk->data + chunk->bytes;
}

static mc_arena_chunk *add_chunk(mc_arena *arena, size_t min) {
    size_t bytes = (arena->first ? arena->first : FIRST_CHUNK_BYTES) - sizeof(mc_arena_chunk);
    if (arena->head && arena->head->bytes <= SIZE_MAX / 4) bytes = arena->head->bytes * 2;
    if (bytes < min) bytes = min;
    if (bytes > SIZE_MAX - sizeof(mc_arena_chunk)) return NULL;
    mc_arena_chunk *chunk = mc_alloc(sizeof *chunk + bytes);
    if (!chunk) return NULL;
    chunk->older = arena->head;
    chunk->bytes = bytes;
    use_chunk(arena, chunk);
    return chunk;
}

void *mc_arena_alloc(mc_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX - ALIGN) return NULL;
    bytes = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if ((size_t)(arena->end - arena->next) < bytes && !add_chunk(arena, bytes)) return NULL;
    void *ptr = arena->next;
    arena->next += bytes;
    return ptr;
}

void *mc_arena_calloc(mc_arena *arena, size_t bytes) {
    void *ptr = mc_arena_alloc(arena, bytes);
    if (ptr) memset(ptr, 0, bytes);
    return ptr;
}

char *mc_arena_strndup(mc_arena *arena, const char *text, size_t len) {
    char *copy = len < SIZE_MAX ? mc_arena_alloc(arena, len + 1) : NULL;
    if (!copy) return NULL;
    if (len) memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

static void free_chunks(mc_arena_chunk *chunk) {
    while (chunk) {
        mc_arena_chunk *older = chunk->older;
        mc_free(chunk);
        chunk = older;
    }
}

void mc_arena_reset(mc_arena *arena) {
    if (!arena->head) return;
    free_chunks(arena->head->older);
    arena->head->older = NULL;
    use_chunk(arena, arena->head);
}

size_t mc_arena_bytes(const mc_arena *arena) {
    size_t bytes = 0;
    for (const mc_arena_chunk *chunk = arena->head; chunk; chunk = chunk->older)
        bytes += sizeof *chunk + chunk->bytes;
    return bytes;
}

void mc_arena_deinit(mc_arena *arena) {
    free_chunks(arena->head);
    *arena = (mc_arena){0};
}
