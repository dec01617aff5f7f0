/* AVX-512. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/conv/conv.h"
#include "cpu/kern/vec_avx512.h"

#define ROWS 6 /* 6 x 4 sums, 4 registers of panels and one of x fit 32 registers */
#define PANELS 4
#define PLACES 6
#define BESIDE 2

#include "cpu/kern/conv/conv_tmpl.h"

/* A square of `columns` of w and 16 of their elements, or fewer, transposed in registers. */
MK_INLINE void pack_square(int64_t columns, int64_t count, const float *w, int64_t w_stride,
                           float *to) {
    const __mmask16 mask = (__mmask16)((1u << count) - 1);
    __m512i r[MK_PANEL];
#pragma GCC unroll 16
    for (int c = 0; c < MK_PANEL; c++)
        r[c] = _mm512_maskz_loadu_epi32(c < columns ? mask : 0, w + c * w_stride);
    mk_transpose(r);
#pragma GCC unroll 16
    for (int c = 0; c < MK_PANEL; c++)
        if (c < count) _mm512_storeu_si512(to + c * MK_PANEL, r[c]);
}

static void conv_pack(int64_t n, int64_t k, const float *w, int64_t w_stride, float *panels) {
    for (int64_t j = 0; j < n; j += MK_PANEL, w += MK_PANEL * w_stride) {
        int64_t l = 0;
        for (; n - j >= MK_PANEL && l + MK_PANEL <= k; l += MK_PANEL, panels += MK_PANEL * MK_PANEL)
            pack_square(MK_PANEL, MK_PANEL, w + l, w_stride, panels);
        for (; l < k; l += MK_PANEL) {
            const int64_t count = k - l < MK_PANEL ? k - l : MK_PANEL;
            pack_square(n - j, count, w + l, w_stride, panels);
            panels += count * MK_PANEL;
        }
    }
}

void mk_conv_avx512(mk_kernels *kernels) {
    set_conv(kernels);
    kernels->conv_pack = conv_pack;
}
