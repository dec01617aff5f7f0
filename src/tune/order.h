/* Random orders, the same on every machine: numpy's RandomState(seed).permutation, which mlx-lm
 * shuffles batches by. Threads: one at a time. Source: Matsumoto & Nishimura 1998, MT19937, and its
 * authors' way to seed it. */
#ifndef TUNE_ORDER_H
#define TUNE_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { MC_ORDER_WORDS = 624 };

typedef struct mc_order {
    uint32_t words[MC_ORDER_WORDS];
    size_t at;
} mc_order;

void mc_order_seed(mc_order *order, uint32_t seed);
/* The next permutation of 0 .. n - 1. n < 2^32 */
void mc_order_next(mc_order *order, uint32_t *indices, size_t n);

#endif
