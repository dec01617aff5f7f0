#include "tune/order.h"

enum { SHIFT = 397 };

void mc_order_seed(mc_order *o, uint32_t seed) {
    o->words[0] = seed;
    for (uint32_t i = 1; i < MC_ORDER_WORDS; i++) {
        uint32_t last = o->words[i - 1];
        o->words[i] = UINT32_C(1812433253) * (last ^ (last >> 30)) + i;
    }
    o->at = MC_ORDER_WORDS;
}

static void refill(mc_order *o) {
    uint32_t *w = o->words;
    for (size_t i = 0; i < MC_ORDER_WORDS; i++) {
        uint32_t y =
            (w[i] & UINT32_C(0x80000000)) | (w[(i + 1) % MC_ORDER_WORDS] & UINT32_C(0x7fffffff));
        uint32_t twist = y & 1 ? UINT32_C(0x9908b0df) : 0;
        w[i] = w[(i + SHIFT) % MC_ORDER_WORDS] ^ (y >> 1) ^ twist;
    }
    o->at = 0;
}

static uint32_t draw(mc_order *o) {
    if (o->at == MC_ORDER_WORDS) refill(o);
    uint32_t y = o->words[o->at++];
    y ^= y >> 11;
    y ^= (y << 7) & UINT32_C(0x9d2c5680);
    y ^= (y << 15) & UINT32_C(0xefc60000);
    return y ^ (y >> 18);
}

/* A number in 0 .. max, each as likely: draws above max are thrown away. */
static uint32_t draw_to(mc_order *o, uint32_t max) {
    uint32_t mask = max, value;
    for (unsigned shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    do
        value = draw(o) & mask;
    while (value > max);
    return value;
}

void mc_order_next(mc_order *o, uint32_t *indices, size_t n) {
    for (size_t i = 0; i < n; i++)
        indices[i] = (uint32_t)i;
    for (size_t i = n; i-- > 1;) {
        uint32_t j = draw_to(o, (uint32_t)i), moved = indices[i];
        indices[i] = indices[j];
        indices[j] = moved;
    }
}
