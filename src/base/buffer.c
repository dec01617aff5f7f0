#include "base/buffer.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MIN_BYTES 32

bool mc_buffer_reserve(mc_buffer *b, size_t more) {
    if (more <= b->cap - b->len) return true;
    if (more > SIZE_MAX - b->len) return false;
    size_t need = b->len + more;
    size_t cap = b->cap <= SIZE_MAX / 2 ? b->cap * 2 : need;
    if (cap < need) cap = need;
    if (cap < MIN_BYTES) cap = MIN_BYTES;
    char *data = mc_realloc(b->data, cap);
    if (!data) return false;
    b->data = data;
    b->cap = cap;
    return true;
}

bool mc_buffer_add(mc_buffer *b, const void *bytes, size_t n) {
    if (!mc_buffer_reserve(b, n)) return false;
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    return true;
}

bool mc_buffer_add_text(mc_buffer *b, const char *text) {
    return mc_buffer_add(b, text, strlen(text));
}

bool mc_buffer_add_byte(mc_buffer *b, char byte) {
    return mc_buffer_add(b, &byte, 1);
}

bool mc_buffer_printf(mc_buffer *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !mc_buffer_reserve(b, (size_t)n + 1)) return false;
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return true;
}

const char *mc_buffer_cstr(mc_buffer *b) {
    if (!mc_buffer_reserve(b, 1)) return NULL;
    b->data[b->len] = 0;
    return b->data;
}

void mc_buffer_clear(mc_buffer *b) {
    b->len = 0;
}

char *mc_buffer_take(mc_buffer *b) {
    if (!mc_buffer_cstr(b)) return NULL;
    char *data = b->data;
    *b = (mc_buffer){0};
    return data;
}

void mc_buffer_deinit(mc_buffer *b) {
    mc_free(b->data);
    *b = (mc_buffer){0};
}
