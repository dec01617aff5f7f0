#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 4 << 20 }; /* maximum size of a mutated file */

void mutate_must(bool truth) {
    if (truth) return;
    fputs("mutants: out of memory\n", stderr);
    exit(2);
}

void mutate_splice(mc_buffer *file, size_t at, size_t end, const void *text, size_t len) {
    if (file->len - (end - at) + len > MAX_BYTES) return;
    mutate_must(mc_buffer_reserve(file, len + 1));
    memmove(file->data + at + len, file->data + end, file->len - end);
    if (len) memcpy(file->data + at, text, len);
    file->len += len - (end - at);
}

static void flip_bits(chance *c, mc_buffer *file) {
    for (size_t n = 1 + chance_below(c, 4); n > 0; n--)
        file->data[chance_below(c, file->len)] ^= (char)(1 << chance_below(c, 8));
}

static void set_bytes(chance *c, mc_buffer *file) {
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', '\\', '\n'};
    size_t at = chance_below(c, file->len);
    int value = chance_one_in(c, 2) ? CHANCE_PICK(c, values) : (int)chance_below(c, 256);
    for (size_t n = 1 + chance_size(c); n > 0 && at < file->len; n--)
        file->data[at++] = (char)value;
}

static size_t run_end(chance *c, const mc_buffer *file, size_t at) {
    size_t end = at + 1 + chance_size(c);
    return end < file->len ? end : file->len;
}

static void cut_run(chance *c, mc_buffer *file) {
    size_t at = chance_below(c, file->len);
    mutate_splice(file, at, run_end(c, file, at), NULL, 0);
}

static void repeat_run(chance *c, mc_buffer *file) {
    size_t at = chance_below(c, file->len), end = run_end(c, file, at), to;
    char *run = malloc(end - at);
    mutate_must(run != NULL);
    memcpy(run, file->data + at, end - at);
    for (size_t n = 1 + chance_size(c) / 16; n > 0; n--) {
        to = chance_below(c, file->len);
        mutate_splice(file, to, to, run, end - at);
    }
    free(run);
}

static void cut_end(chance *c, mc_buffer *file) {
    size_t few = chance_size(c);
    file->len =
        chance_one_in(c, 2) || few > file->len ? chance_below(c, file->len) : file->len - few;
}

void mutate_bytes(chance *c, mc_buffer *file) {
    static mutation *const ways[] = {flip_bits, flip_bits, set_bytes, cut_run, repeat_run, cut_end};
    if (file->len > 0) CHANCE_PICK(c, ways)(c, file);
}
