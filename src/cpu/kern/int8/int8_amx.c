/* AMX: tiles of weights times 16 rows of x, a group at a time.
 *
 * tdpbsud multiplies 16 rows of 64 codes of x with a tile's codes of 16 rows of weights, both as
 * they lie: a group of 64 is one step, one of 128 two, and the sums are integers as
 * everywhere. They go by way of memory to AVX-512, which scales and adds them. */
#include "cpu/kern/amx.h"
#include "cpu/kern/int8/int8_avx512vnni_rows.h"

#define HIGH 2 /* times 16 rows of x in flight */
#define WIDE 2 /* tiles of weights */
#define LINES MK_AMX_LINES
#define DEPTH 64 /* codes a step */

/* HIGH * 16 rows of x, or 16, times WIDE tiles or one. */
typedef struct part {
    mk_xrows x; /* from the first row */
    mk_tiles tiles;
    float *y;
    int64_t y_stride, n; /* columns of y that are there */
} part;

/* Sums of group g's codes. */
MK_INLINE void dot_group(int high, int wide, const part *p, int64_t g,
                         int32_t dot[HIGH][WIDE][LINES][LANES]) {
    const int8_t *a = p->x.codes + g * p->x.group, *a2 = a + LINES * p->x.k;
    const uint8_t *w = p->tiles.codes + g * p->x.group * LANES, *w2 = w + LANES * p->x.k;
    _tile_zero(0);
    if (wide > 1) _tile_zero(1);
    if (high > 1) _tile_zero(2);
    if (high > 1 && wide > 1) _tile_zero(3);
    for (int l = 0; l < p->x.group; l += DEPTH) {
        _tile_loadd(4, a + l, p->x.k);
        _tile_loadd(6, w + l * LANES, 64);
        _tile_dpbsud(0, 4, 6);
        if (wide > 1) {
            _tile_loadd(7, w2 + l * LANES, 64);
            _tile_dpbsud(1, 4, 7);
        }
        if (high > 1) {
            _tile_loadd(5, a2 + l, p->x.k);
            _tile_dpbsud(2, 5, 6);
        }
        if (high > 1 && wide > 1) _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, dot[0][0], 64);
    if (wide > 1) _tile_stored(1, dot[0][1], 64);
    if (high > 1) _tile_stored(2, dot[1][0], 64);
    if (high > 1 && wide > 1) _tile_stored(3, dot[1][1], 64);
}

MK_INLINE void multiply_tiles(int high, int wide, const part *p) {
    int64_t groups = p->x.k / p->x.group;
    /* Two, so that a group's products need not wait until the sums before them are read. */
    _Alignas(64) int32_t dot[2][HIGH][WIDE][LINES][LANES];
    __m512 sum[HIGH * LINES][WIDE];
    for (int i = 0; i < high * LINES; i++)
        for (int j = 0; j < wide; j++)
            sum[i][j] = _mm512_setzero_ps();
    dot_group(high, wide, p, 0, dot[0]);
    for (int64_t g = 0; g < groups; g++) {
        if (g + 1 < groups) dot_group(high, wide, p, g + 1, dot[(g + 1) & 1]);
        const float *scales = p->tiles.scales + 2 * g * LANES;
        __m512 scale[WIDE], bias[WIDE];
        for (int j = 0; j < wide; j++) {
            scale[j] = _mm512_loadu_ps(scales + j * LANES * 2 * groups);
            bias[j] = _mm512_loadu_ps(scales + j * LANES * 2 * groups + LANES);
        }
        for (int i = 0; i < high * LINES; i++) {
            float x_scale = p->x.scales[i * groups + g], x_sum = p->x.sums[i * groups + g];
            for (int j = 0; j < wide; j++) {
                __m512i d = _mm512_load_si512(dot[g & 1][i / LINES][j][i % LINES]);
                sum[i][j] = add_group(sum[i][j], d, scale[j], bias[j], x_scale, x_sum);
            }
        }
    }
    for (int i = 0; i < high * LINES; i++)
        for (int j = 0; j < wide; j++)
            _mm512_mask_storeu_ps(p->y + i * p->y_stride + j * LANES, mk_first(p->n - j * LANES),
                                  sum[i][j]);
}

static void matmul(int64_t m, const mk_xrows *x, int64_t n, const mk_tiles *tiles, float *y,
                   int64_t y_stride) {
    /* The sums of smaller groups are more than a step's worth of work to fetch. */
    int64_t whole = x->group < DEPTH || tiles->winograd ? 0 : m / LINES * LINES;
    if (whole > 0) mk_amx_configure(64);
    for (int64_t j = 0; j < n && whole > 0; j += WIDE * LANES) {
        int64_t wide = n - j > LANES ? 2 : 1;
        for (int64_t i = 0; i < whole; i += HIGH * LINES) {
            int64_t high = whole - i > LINES ? 2 : 1;
            part p = {
                mk_xrows_at(x, i),
                mk_tiles_at(tiles, j, x->k, x->group),
                y + i * y_stride + j,
                y_stride,
                n - j,
            };
            if (high > 1 && wide > 1)
                multiply_tiles(2, 2, &p);
            else if (high > 1)
                multiply_tiles(2, 1, &p);
            else if (wide > 1)
                multiply_tiles(1, 2, &p);
            else
                multiply_tiles(1, 1, &p);
        }
    }
    if (whole > 0) _tile_release();
    mk_xrows rest = mk_xrows_at(x, whole);
    if (whole < m)
        mk_int8_matmul_avx512vnni(m - whole, &rest, n, tiles, y + whole * y_stride, y_stride);
}

void mk_int8_amx(mk_kernels *kernels) {
    kernels->int8_matmul = matmul;
    kernels->int8_winograd = false;
    kernels->int8_streamed = 15;
    kernels->int8_min_group = DEPTH;
}
