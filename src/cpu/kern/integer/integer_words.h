/* Words of int_panels, in plain C: `unit` numbers each, of 16 bits if it is 2, or of 8 if it is 4.
 * `unit` is a constant everywhere. */
#ifndef CPU_KERN_INTEGER_INTEGER_WORDS_H
#define CPU_KERN_INTEGER_INTEGER_WORDS_H

#include <string.h>

#include "cpu/kern/kern.h"

static inline void int_form_of(int unit, int64_t n, const uint8_t *x, int32_t *words) {
    int16_t *halves = (int16_t *)(void *)words;
    const int64_t room = (n + unit - 1) / unit * unit;
    if (unit == 4) {
        memcpy(words, x, (size_t)n);
        memset((uint8_t *)words + n, 0, (size_t)(room - n));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        halves[i] = x[i];
    if (n < room) halves[n] = 0;
}

/* Number `at` of a word. */
static inline int32_t int_put(int unit, int at, int8_t w) {
    return (int32_t)((uint32_t)(unit == 4 ? (uint8_t)w : (uint16_t)w) << (32 / unit * at));
}

static inline void int_pack_of(int unit, int64_t n, int64_t taps, int64_t c, const int8_t *w,
                               int32_t *panels) {
    const int64_t words = (c + unit - 1) / unit;
    for (int64_t j = 0; j < n; j += MK_PANEL, panels += taps * words * MK_PANEL)
        for (int64_t column = 0; column < MK_PANEL; column++)
            for (int64_t t = 0; t < taps; t++) {
                const int8_t *from = w + ((j + column) * taps + t) * c;
                int32_t *to = panels + t * words * MK_PANEL + column;
                for (int64_t l = 0; l < words; l++) {
                    int32_t word = 0;
                    for (int at = 0; at < unit; at++)
                        if (j + column < n && l * unit + at < c)
                            word |= int_put(unit, at, from[l * unit + at]);
                    to[l * MK_PANEL] = word;
                }
            }
}

#endif
