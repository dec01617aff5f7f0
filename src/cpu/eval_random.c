/* Threefry 2x32, 20 rounds (Salmon et al. 2011): a key and a counter, two words each, give two
 * words.
 *
 * n words of a key come from the counters (i, half + i), where half is the number of pairs. Word i
 * is the first of the pair, word half + i the second. An odd last counter is padded with 0. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "cpu/region.h"
#include "graph/attr.h"

#define LANES 64 /* counters computed at once, for vector code */

typedef struct work {
    uint32_t key[3];
    int64_t words; /* number of all words */
    uint8_t *out;
    int64_t out_bytes; /* the last word may be cut */
} work;

/* One round. The distance of the rotation is a constant, so that the code can be vectorised. */
static inline void mix(int by, uint32_t *restrict a, uint32_t *restrict b) {
    for (int i = 0; i < LANES; i++) {
        a[i] += b[i];
        b[i] = (b[i] << by | b[i] >> (32 - by)) ^ a[i];
    }
}

/* Adds the key, after every four rounds. */
static inline void inject(uint32_t ka, uint32_t kb, uint32_t *restrict a, uint32_t *restrict b) {
    for (int i = 0; i < LANES; i++) {
        a[i] += ka;
        b[i] += kb;
    }
}

/* Turns LANES counters (a, b) into LANES pairs of words, in place. */
static void threefry(const uint32_t key[3], uint32_t *restrict a, uint32_t *restrict b) {
    inject(key[0], key[1], a, b);
    for (uint32_t group = 1; group <= 5; group++) {
        if (group % 2) {
            mix(13, a, b);
            mix(15, a, b);
            mix(26, a, b);
            mix(6, a, b);
        } else {
            mix(17, a, b);
            mix(29, a, b);
            mix(16, a, b);
            mix(24, a, b);
        }
        inject(key[group % 3], key[(group + 1) % 3] + group, a, b);
    }
}

static void put_words(const work *w, int64_t at, int64_t n, const uint32_t *words) {
    int64_t bytes = n * 4, begin = at * 4;
    if (begin + bytes > w->out_bytes) bytes = w->out_bytes - begin;
    memcpy(w->out + begin, words, (size_t)bytes);
}

/* Writes pairs [begin, end). */
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
