/* AMX: how the eight registers of tiles are used. */
#ifndef CPU_KERN_AMX_H
#define CPU_KERN_AMX_H

#include "cpu/kern/avx512.h"

#define MK_AMX_LINES 16 /* of a register; each has 64 bytes */

/* How the registers are cut, as ldtilecfg reads it. */
typedef struct mk_amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} mk_amx_config;

/* Before registers are read from memory that was written: gcc does not know what their instructions
 * read. */
MK_INLINE void mk_amx_written(void) {
    __asm__ volatile("" ::: "memory");
}

/* 0 to 3 are sums, 4 and 5 one side of products, lines of which are 64 bytes, 6 and 7 the other.
 * wide: bytes of a line of sums and of the other side. */
static inline void mk_amx_configure(int wide) {
    mk_amx_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.line_bytes[i] = i == 4 || i == 5 ? 64 : (uint16_t)wide;
        c.lines[i] = MK_AMX_LINES;
    }
    mk_amx_written();
    _tile_loadconfig(&c);
}

#endif
