/* Random numbers from a seed (splitmix64). */
#ifndef MUTANTS_CHANCE_H
#define MUTANTS_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct chance {
    uint64_t state;
} chance;

static inline uint64_t chance_next(chance *c) {
    uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n-1, n > 0. */
static inline size_t chance_below(chance *c, size_t n) {
    return (size_t)(chance_next(c) % n);
}

static inline bool chance_one_in(chance *c, size_t n) {
    return chance_below(c, n) == 0;
}

/* Half of the numbers are below 4, a quarter below 16, and so on up to 4^8. */
static inline size_t chance_size(chance *c) {
    size_t most = 4;
    for (int i = 0; i < 7 && chance_one_in(c, 2); i++)
        most *= 4;
    return chance_below(c, most);
}

#define CHANCE_PICK(c, list) (list)[chance_below((c), sizeof(list) / sizeof *(list))]
#define CHANCE_NAME(c, list) (list).names[chance_below((c), (list).count)]

#endif
