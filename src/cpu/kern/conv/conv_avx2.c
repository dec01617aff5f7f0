/* AVX2 with FMA. */
#include <string.h>

#include "cpu/kern/conv/conv.h"
#include "cpu/kern/vec_avx2.h"

#define ROWS 6 /* 6 x 2 sums, 2 registers of a panel and one of x fit 16 registers */
#define PANELS 1
#define PLACES 4
#define BESIDE 2

#include "cpu/kern/conv/conv_tmpl.h"

/* 8 rows of 8 to their columns. */
MK_INLINE void transpose(__m256 r[8]) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int h = 0; h < 2; h++) {
            b[i + 2 * h] = _mm256_shuffle_ps(a[i + h], a[i + 2 + h], _MM_SHUFFLE(1, 0, 1, 0));
            b[i + 2 * h + 1] = _mm256_shuffle_ps(a[i + h], a[i + 2 + h], _MM_SHUFFLE(3, 2, 3, 2));
        }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* 8 columns of a panel. */
MK_INLINE void pack_half(int64_t k, const float *w, int64_t w_stride, float *panel) {
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) {
        __m256 r[8];
        for (int i = 0; i < 8; i++)
            r[i] = _mm256_loadu_ps(w + i * w_stride + l);
        transpose(r);
        for (int i = 0; i < 8; i++)
            _mm256_storeu_ps(panel + (l + i) * MK_PANEL, r[i]);
    }
    for (; l < k; l++)
        for (int i = 0; i < 8; i++)
            panel[l * MK_PANEL + i] = w[i * w_stride + l];
}

static void conv_pack(int64_t n, int64_t k, const float *w, int64_t w_stride, float *panels) {
    for (int64_t j = 0; j < n; j += MK_PANEL, panels += k * MK_PANEL) {
        int64_t columns = n - j < MK_PANEL ? n - j : MK_PANEL, at = 0;
        const float *from = w + j * w_stride;
        if (columns < MK_PANEL) memset(panels, 0, (size_t)(k * MK_PANEL) * sizeof *panels);
        for (; at + 8 <= columns; at += 8)
            pack_half(k, from + at * w_stride, w_stride, panels + at);
        for (; at < columns; at++)
            for (int64_t l = 0; l < k; l++)
                panels[l * MK_PANEL + at] = from[at * w_stride + l];
    }
}

void mk_conv_avx2(mk_kernels *kernels) {
    set_conv(kernels);
    kernels->conv_pack = conv_pack;
}
