/* Threefry 2x32, 20 rounds (Salmon et al. 2011): from a key and a counter of two words, two words.
 *
 * n words of a key come from counters (i, half + i), half the number of pairs: word i is the first
 * and word half + i the second of the pair. An odd last counter is padded with 0. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "graph/attr.h"

#define LANES 16 /* counters at once, for vector code */

typedef struct work {
    uint32_t key[3];
    int64_t words; /* in all */
    uint8_t *out;
    int64_t out_bytes; /* may end within the last word */
} work;

static inline uint32_t rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

/* LANES counters (a, b) to LANES pairs of words, in place. */
static void threefry(const uint32_t key[3], uint32_t *restrict a, uint32_t *restrict b) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    for (int i = 0; i < LANES; i++) {
        a[i] += key[0];
        b[i] += key[1];
    }
    for (uint32_t group = 0; group < 5; group++) { /* 4 rounds, then the key again */
        for (int r = 0; r < 4; r++) {
            int by = turns[group % 2][r];
            for (int i = 0; i < LANES; i++) {
                a[i] += b[i];
                b[i] = rotate(b[i], by) ^ a[i];
            }
        }
        uint32_t ka = key[(group + 1) % 3], kb = key[(group + 2) % 3] + group + 1;
        for (int i = 0; i < LANES; i++) {
            a[i] += ka;
            b[i] += kb;
        }
    }
}

static void put_words(const work *w, int64_t at, int64_t n, const uint32_t *words) {
    int64_t bytes = n * 4, begin = at * 4;
    if (begin + bytes > w->out_bytes) bytes = w->out_bytes - begin;
    memcpy(w->out + begin, words, (size_t)bytes);
}

/* Pairs [begin, end). */
static void range(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const work *w = context;
    int64_t half = (w->words + 1) / 2;
    for (int64_t at = begin; at < end; at += LANES) {
        int64_t n = end - at < LANES ? end - at : LANES;
        uint32_t a[LANES], b[LANES];
        for (int i = 0; i < LANES; i++) {
            a[i] = (uint32_t)(at + i);
            b[i] = at + i + half < w->words ? (uint32_t)(at + i + half) : 0;
        }
        threefry(w->key, a, b);
        put_words(w, at, n, a);
        if (half + at + n > w->words) n = w->words - half - at;
        if (n > 0) put_words(w, half + at, n, b);
    }
}

mica_status mc_eval_random_bits(const mc_call *call) {
    const mc_operand *key = &call->in[0];
    const uint32_t *k = key->data;
    work w = {.out = call->out.data, .out_bytes = mc_layout_bytes(call->out.layout)};
    w.key[0] = k[0];
    w.key[1] = k[key->layout->strides[0]];
    w.key[2] = 0x1BD11BDAu ^ w.key[0] ^ w.key[1]; /* the paper's parity constant */
    w.words = (w.out_bytes + 3) / 4;
    mc_cpu_for(call, (w.words + 1) / 2, 4096, range, &w);
    return MICA_OK;
}
