/* AMX in plain C in place of the intrinsics, so that its kernels are checked on machines without
 * it. Included before them (tests/cpu/CMakeLists.txt). The instructions are described in Intel's
 * Software Developer's Manual. */
#ifndef TESTS_CPU_AMX_IN_C_H
#define TESTS_CPU_AMX_IN_C_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { REGISTERS = 8, LINE_COUNT = 16, LINE_BYTES = 64 };

typedef struct tile_settings { /* in the layout that ldtilecfg reads */
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} tile_settings;

static _Thread_local tile_settings settings; /* palette 0: no tiles, nothing may be used */
static _Thread_local uint8_t registers[REGISTERS][LINE_COUNT][LINE_BYTES];

static inline void set_tiles(const void *from) {
    memcpy(&settings, from, sizeof settings);
    memset(registers, 0, sizeof registers);
}

static inline void move_tile(int t, char *memory, int64_t stride, int store) {
    for (int i = 0; i < settings.lines[t]; i++) {
        uint8_t *line = registers[t][i];
        if (store)
            memcpy(memory + i * stride, line, settings.line_bytes[t]);
        else
            memcpy(line, memory + i * stride, settings.line_bytes[t]);
    }
}

static inline float bf16_at(const uint8_t *line, int i) {
    uint32_t bits = (uint32_t)line[2 * i] << 16 | (uint32_t)line[2 * i + 1] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void multiply_bf16(int c, int a, int b) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* subnormal numbers are zeros */
    for (int m = 0; m < settings.lines[c]; m++) {
        float even[LINE_BYTES / 4] = {0}, odd[LINE_BYTES / 4] = {0};
        for (int k = 0; k < settings.line_bytes[a] / 4; k++) {
            const uint8_t *x = registers[a][m], *w = registers[b][k];
            const float first = bf16_at(x, 2 * k), second = bf16_at(x, 2 * k + 1);
            for (int n = 0; n < LINE_BYTES / 4;
                 n++) { /* columns past the end of the row are dropped */
                even[n] = fmaf(first, bf16_at(w, 2 * n), even[n]);
                odd[n] = fmaf(second, bf16_at(w, 2 * n + 1), odd[n]);
            }
        }
        for (int n = 0; n < settings.line_bytes[c] / 4; n++) {
            float sum;
            memcpy(&sum, &registers[c][m][4 * n], sizeof sum);
            sum += even[n] + odd[n];
            memcpy(&registers[c][m][4 * n], &sum, sizeof sum);
        }
    }
    _mm_setcsr(before);
}

static inline int32_t byte_at(const uint8_t *line, int i, int is_signed) {
    return is_signed ? (int8_t)line[i] : line[i];
}

/* One of a and b is signed. */
static inline void multiply_int8(int c, int a, int b, int a_is_signed) {
    for (int m = 0; m < settings.lines[c]; m++)
        for (int n = 0; n < settings.line_bytes[c] / 4; n++) {
            uint32_t sum; /* which wraps around */
            memcpy(&sum, &registers[c][m][4 * n], sizeof sum);
            for (int k = 0; k < settings.line_bytes[a]; k++)
                sum += (uint32_t)(byte_at(registers[a][m], k, a_is_signed) *
                                  byte_at(registers[b][k / 4], 4 * n + k % 4, !a_is_signed));
            memcpy(&registers[c][m][4 * n], &sum, sizeof sum);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbsud
#undef _tile_dpbusd
#define _tile_loadconfig(from) set_tiles(from)
#define _tile_release() set_tiles(&(tile_settings){0})
#define _tile_zero(t) memset(registers[t], 0, sizeof registers[t])
#define _tile_loadd(t, from, stride) move_tile(t, (char *)(uintptr_t)(from), stride, 0)
#define _tile_stored(t, to, stride) move_tile(t, (char *)(to), stride, 1)
#define _tile_dpbf16ps(c, a, b) multiply_bf16(c, a, b)
#define _tile_dpbsud(c, a, b) multiply_int8(c, a, b, 1)
#define _tile_dpbusd(c, a, b) multiply_int8(c, a, b, 0)

#endif
