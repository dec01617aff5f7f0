/* AVX-512 with VBMI: tables of bytes in four registers. */
#include "cpu/kern/avx512.h"
#include "cpu/kern/elem/elem.h"

MK_INLINE __m512i looked_up(const __m512i table[4], __m512i x) {
    __m512i low = _mm512_permutex2var_epi8(table[0], x, table[1]);
    __m512i high = _mm512_permutex2var_epi8(table[2], x, table[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}

static void elem_table(int64_t n, const uint8_t *x, const uint8_t bytes[256], uint8_t *y) {
    __m512i table[4];
    for (int k = 0; k < 4; k++)
        table[k] = _mm512_loadu_si512(bytes + 64 * k);
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 m = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
        __m512i v = looked_up(table, _mm512_maskz_loadu_epi8(m, x + i));
        if (n - i < 64)
            _mm512_mask_storeu_epi8(y + i, m, v);
        else
            _mm512_storeu_si512(y + i, v);
    }
}

void mk_elem_avx512vnni(mk_kernels *kernels) {
    kernels->elem_table = elem_table;
}
