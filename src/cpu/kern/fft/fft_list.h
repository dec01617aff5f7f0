/* Fourier transforms: passes of Stockham's algorithm over rows of complex numbers whose parts lie
 * apart. They give the same bits on every instruction set.
 *
 * fft_pass:     one pass, x [radix, m, s] to y [m, radix, s]: for each p of m and q of s the
 *               transform of radix numbers, times roots[k - 1, p]. radix: 2, 3, 4, 5, or odd and
 *               MK_FFT_RADIX at most. y is not x.
 * fft_multiply: x[k] = x[k] by[k] */
KERN(fft_pass, void, (const mk_fft_pass *pass))
KERN(fft_multiply, void, (int64_t n, float *re, float *im, const float *by_re, const float *by_im))
