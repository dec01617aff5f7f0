/* Matmuls and unpacking of quantised rows for any register width. Included once by each instruction
 * set, behind its primitives (vec_*.h) and
 *
 *   STEP         codes at a time in their natural order
 *   STAGED       whether affine scales are widened STAGE groups ahead, and codes prefetched
 *   decoder      turns codes into numbers; made by decoder_of(f)
 *   group        turns numbers into weights; made by group_of(f, scale, bias)
 *   weights_of   register p of the f.step weights at `codes`, of one group */
#define ROWS 4   /* of w at once */
#define STAGE 32 /* groups */

/* ---- scales ---- */

typedef struct stage {
    float scales[ROWS][STAGE], biases[ROWS][STAGE];
} stage;

MK_INLINE void widen_scales(mk_type type, const void *row, int64_t at, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i += MK_WIDTH) {
        const mk_tail tail = mk_tail_of(n - i);
        mk_store_tail(to + i, tail, mk_load_type_tail(type, row, at + i, tail));
    }
}

/* Scales and biases of n groups of `rows` rows, from group g on. */
static void fill_stage(const mk_qrows *w, int rows, int64_t g, int64_t n, stage *st) {
    for (int r = 0; r < rows; r++) {
        const int64_t at = r * w->scales_stride + g;
        widen_scales(w->type, w->scales, at, n, st->scales[r]);
        widen_scales(w->type, w->biases, at, n, st->biases[r]);
    }
}

/* Scale and bias `at` of rows, read in place. */
MK_INLINE group read_group(mk_form f, const mk_qrows *w, int64_t at) {
    if (f.mode != MK_AFFINE) return group_of(f, mk_spread(mk_scale_of(w, f.mode, at)), mk_zero());
    mk_vec scale = mk_spread_type(w->type, w->scales, at);
    return group_of(f, scale, mk_spread_type(w->type, w->biases, at));
}

MK_INLINE group staged_group(mk_form f, const stage *st, int r, int64_t i) {
    return group_of(f, mk_spread(st->scales[r][i]), mk_spread(st->biases[r][i]));
}

/* ---- matmuls ---- */

/* sum [rows] += w [rows, k] x [k] over `count` groups from group g on. st: their scales, or NULL.
 * With st, a line a group of the next rows of w is prefetched. It may be past the last row: most
 * often more follow, and a prefetch cannot fail. */
MK_INLINE void add_groups(mk_form f, const decoder *d, const mk_qrows *w, int rows, int64_t g,
                          int64_t count, const stage *st, const float *x, mk_vec sum[ROWS]) {
    const int64_t row_bytes = w->codes_stride * 4, size = w->group;
    const uint8_t *codes = (const uint8_t *)w->codes + g * size * f.bits / 8;
    x += g * size;
    for (int64_t i = 0; i < count; i++) {
        group of[ROWS];
        for (int r = 0; r < rows; r++) {
            of[r] = st ? staged_group(f, st, r, i) : read_group(f, w, r * w->scales_stride + g + i);
            if (st) mk_prefetch((intptr_t)codes + (rows + r) * row_bytes);
        }
        for (int64_t l = 0; l < size; l += f.step, codes += f.step * f.bits / 8, x += f.step)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
                for (int p = 0; p < f.step / MK_WIDTH; p++) {
                    mk_vec v = weights_of(f, d, &of[r], codes + r * row_bytes, p);
                    sum[r] = mk_fma(mk_load_vec(x + p * MK_WIDTH), v, sum[r]);
                }
    }
}

/* y [rows] = w [rows, k] x [k] */
MK_INLINE void rows_matmul(mk_form f, const mk_qrows *w, int rows, const float *x, float *y) {
    const decoder d = decoder_of(f);
    const int64_t groups = w->k / w->group;
    mk_vec sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = mk_zero();
    if (STAGED && f.mode == MK_AFFINE)
        for (int64_t g = 0; g < groups; g += STAGE) {
            stage st;
            const int64_t count = groups - g < STAGE ? groups - g : STAGE;
            fill_stage(w, rows, g, count, &st);
            add_groups(f, &d, w, rows, g, count, &st, x, sum);
        }
    else
        add_groups(f, &d, w, rows, 0, groups, NULL, x, sum);
    mk_store_sums(y, rows, sum);
}

MK_INLINE void matvec_form(mk_form f, const mk_qrows *w, int64_t n, const float *x, float *y) {
    int64_t r = 0;
    for (; r + ROWS <= n; r += ROWS) {
        mk_qrows rows = mk_qrows_at(w, r);
        rows_matmul(f, &rows, ROWS, x, y + r);
    }
    for (; r < n; r++) {
        mk_qrows row = mk_qrows_at(w, r);
        rows_matmul(f, &row, 1, x, y + r);
    }
}

/* ---- rows unpacked ---- */

/* `count` groups of row r of w, from group g on, to y [k]. st is as in add_groups. A step is read
 * whole before it is stored: the compiler cannot know that y does not overlap w. */
MK_INLINE void unpack_groups(mk_form f, const decoder *d, const mk_qrows *w, int r, int64_t g,
                             int64_t count, const stage *st, float *y) {
    const int64_t size = w->group;
    const uint8_t *codes = (const uint8_t *)(w->codes + r * w->codes_stride);
    codes += g * size * f.bits / 8;
    y += g * size;
    for (int64_t i = 0; i < count; i++) {
        const group of =
            st ? staged_group(f, st, r, i) : read_group(f, w, r * w->scales_stride + g + i);
        for (int64_t l = 0; l < size; l += f.step, codes += f.step * f.bits / 8, y += f.step) {
            mk_vec v[MK_BLOCK / MK_WIDTH];
            for (int p = 0; p < f.step / MK_WIDTH; p++)
                v[p] = weights_of(f, d, &of, codes, p);
            for (int p = 0; p < f.step / MK_WIDTH; p++)
                mk_store_vec(y + p * MK_WIDTH, v[p]);
        }
    }
}

/* y [rows, k] = w [rows, k] */
MK_INLINE void unpack_rows(mk_form f, const decoder *d, const mk_qrows *w, int rows, float *y) {
    const int64_t k = w->k, groups = k / w->group;
    if (STAGED && f.mode == MK_AFFINE)
        for (int64_t g = 0; g < groups; g += STAGE) {
            stage st;
            const int64_t count = groups - g < STAGE ? groups - g : STAGE;
            fill_stage(w, rows, g, count, &st);
            for (int r = 0; r < rows; r++)
                unpack_groups(f, d, w, r, g, count, &st, y + r * k);
        }
    else
        for (int r = 0; r < rows; r++)
            unpack_groups(f, d, w, r, 0, groups, NULL, y + r * k);
}

MK_INLINE void unpack_form(mk_form f, const mk_qrows *w, int64_t n, float *y) {
    const decoder d = decoder_of(f);
    const int64_t k = w->k;
    for (int64_t r = 0; r < n; r += ROWS, y += ROWS * k) {
        const mk_qrows rows = mk_qrows_at(w, r);
        unpack_rows(f, &d, &rows, n - r < ROWS ? (int)(n - r) : ROWS, y);
    }
}

/* ---- kernels ---- */

static const mk_form blocks_q4 = {MK_AFFINE, 4, MK_BLOCK};
static const mk_form natural_q8 = {MK_AFFINE, 8, STEP};

static void matvec_q4(const mk_qrows *w, int64_t n, const float *x, float *y) {
    matvec_form(blocks_q4, w, n, x, y);
}

static void unpack_q4(const mk_qrows *w, int64_t n, float *y) {
    unpack_form(blocks_q4, w, n, y);
}

static void matvec_q8(const mk_qrows *w, int64_t n, const float *x, float *y) {
    matvec_form(natural_q8, w, n, x, y);
}

static void unpack_q8(const mk_qrows *w, int64_t n, float *y) {
    unpack_form(natural_q8, w, n, y);
}

/* Does DO(mode, bits) with constants, of all but affine rows of 8 bits. */
#define WITH_FORM(w, DO)                            \
    do {                                            \
        if ((w)->mode == MK_MXFP4) DO(MK_MXFP4, 4); \
        if ((w)->mode == MK_MXFP8) DO(MK_MXFP8, 8); \
        if ((w)->mode == MK_NVFP4) DO(MK_NVFP4, 4); \
        if ((w)->mode != MK_AFFINE) break;          \
        if ((w)->bits == 2) DO(MK_AFFINE, 2);       \
        if ((w)->bits == 3) DO(MK_AFFINE, 3);       \
        if ((w)->bits == 4) DO(MK_AFFINE, 4);       \
        if ((w)->bits == 5) DO(MK_AFFINE, 5);       \
        if ((w)->bits == 6) DO(MK_AFFINE, 6);       \
    } while (0)

static void matvec(const mk_qrows *w, int64_t n, const float *x, float *y) {
#define MATVEC(mode, bits) matvec_form((mk_form){mode, bits, STEP}, w, n, x, y)
    WITH_FORM(w, MATVEC);
#undef MATVEC
    if (w->mode == MK_AFFINE && w->bits == 8) matvec_q8(w, n, x, y);
}

static void unpack(const mk_qrows *w, int64_t n, float *y) {
#define UNPACK(mode, bits) unpack_form((mk_form){mode, bits, STEP}, w, n, y)
    WITH_FORM(w, UNPACK);
#undef UNPACK
    if (w->mode == MK_AFFINE && w->bits == 8) unpack_q8(w, n, y);
}

static void set_quant(mk_kernels *kernels) {
    kernels->unpack = unpack;
    kernels->matvec = matvec;
    kernels->matvec_q4 = matvec_q4;
    kernels->unpack_q4 = unpack_q4;
    kernels->matvec_q8 = matvec_q8;
    kernels->unpack_q8 = unpack_q8;
}
