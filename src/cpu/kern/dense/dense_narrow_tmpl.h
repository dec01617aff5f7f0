/* Rows of f32 rounded to 16 bits, for any register width. Included once by each instruction set
 * that has
 *
 *   store_narrow        y [MK_WIDTH] = v, rounded to a type to nearest even; NaN stays NaN
 *   store_narrow_tail   the same of the first lanes */
MK_INLINE void narrow(mk_type type, int64_t n, const float *x, uint16_t *y) {
    int64_t i = 0;
    for (; i + MK_WIDTH <= n; i += MK_WIDTH)
        store_narrow(type, y + i, mk_load_vec(x + i));
    if (i == n) return;
    const mk_tail tail = mk_tail_of(n - i);
    store_narrow_tail(type, y + i, tail, mk_load_tail(x + i, tail));
}

static void narrow_f16(int64_t n, const float *x, uint16_t *y) {
    narrow(MK_F16, n, x, y);
}

static void narrow_bf16(int64_t n, const float *x, uint16_t *y) {
    narrow(MK_BF16, n, x, y);
}

static void set_narrow(mk_kernels *kernels) {
    kernels->narrow_f16 = narrow_f16;
    kernels->narrow_bf16 = narrow_bf16;
}
