/* AMX: how the eight tile registers are used. */
#ifndef CPU_KERN_AMX_H
#define CPU_KERN_AMX_H

#include "cpu/kern/avx512.h"

#define MK_AMX_LINES 16 /* rows of a register, of 64 bytes each */

/* The registers' shapes, in ldtilecfg's format. */
typedef struct mk_amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} mk_amx_config;

/* A barrier before registers are loaded from memory that was just written, because gcc does not
 * know what AMX loads read. */
MK_INLINE void mk_amx_written(void) {
    __asm__ volatile("" ::: "memory");
}

/* Registers 0 to 3 are sums, 4 and 5 the left operand with rows of 64 bytes, 6 and 7 the right
 * operand. wide: bytes of a row of sums and of the right operand. */
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
