#include "cpu/kern/integer/integer_words.h"

static inline int32_t dot(int64_t k, const uint8_t *x, const int8_t *w) {
    uint32_t sum = 0;
    for (int64_t l = 0; l < k; l++)
        sum += (uint32_t)(x[l] * w[l]);
    return (int32_t)sum;
}

static void int_matmul(int64_t m, int64_t n, int64_t k, const uint8_t *x, int64_t x_stride,
                       const int8_t *w, int64_t w_stride, int32_t *y, int64_t y_stride) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * y_stride + j] = dot(k, x + i * x_stride, w + j * w_stride);
}

static void int_form(int64_t n, const uint8_t *x, int32_t *words) {
    int_form_of(2, n, x, words);
}

static void int_pack(int64_t n, int64_t taps, int64_t c, const int8_t *w, int32_t *panels) {
    int_pack_of(2, n, taps, c, w, panels);
}

static void int_panels(int64_t m, int64_t n, int64_t taps, int64_t words, const void *const *rows,
                       const int32_t *panels, const int32_t *start, int32_t *y, int64_t y_stride) {
    for (int64_t j = 0; j < n; j += MK_PANEL, panels += taps * words * MK_PANEL)
        for (int64_t i = 0; i < m; i++) {
            uint32_t sums[MK_PANEL] = {0};
            if (start) memcpy(sums, start + j, sizeof sums);
            const int16_t *w = (const int16_t *)(const void *)panels;
            for (int64_t t = 0; t < taps; t++) {
                const int16_t *x = rows[i * taps + t];
                for (int64_t l = 0; l < words; l++, x += 2, w += 2 * MK_PANEL)
                    for (int column = 0; column < MK_PANEL; column++)
                        sums[column] += (uint32_t)(x[0] * w[2 * column] + x[1] * w[2 * column + 1]);
            }
            memcpy(y + i * y_stride + j, sums, sizeof sums);
        }
}

static void set_int_products(mk_kernels *kernels) {
    kernels->int_matmul = int_matmul;
    kernels->int_form = int_form;
    kernels->int_pack = int_pack;
    kernels->int_panels = int_panels;
    kernels->int_unit = 2;
}

#define INT_TAPS int_taps
#define FILL mk_integer_ref
#include "cpu/kern/integer/integer_tmpl.h"
