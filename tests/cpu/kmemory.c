#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "cpu/kcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILL 0xa5
#define SLACK 64 /* bytes behind the end of loose memory */

static void give_up(const char *what) {
    fprintf(stderr, "kcheck: %s failed\n", what);
    exit(EXIT_FAILURE);
}

guarded guarded_new(size_t bytes, placement where) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (bytes + (where == LOOSE ? SLACK : 0) + page - 1) / page * page;
    if (room == 0) room = page;
    guarded g = {.bytes = bytes, .map_bytes = room + 2 * page};
    void *map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) give_up("mmap");
    g.map = map;
    memset(g.map, FILL, g.map_bytes);
    if (mprotect(g.map, page, PROT_NONE) != 0 ||
        mprotect(g.map + page + room, page, PROT_NONE) != 0)
        give_up("mprotect");
    g.data = g.map + page + (where == AT_END ? room - bytes : 0);
    return g;
}

bool guarded_free(guarded *g) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *begin = (const unsigned char *)g->map + page;
    const unsigned char *end = (const unsigned char *)g->map + g->map_bytes - page;
    const unsigned char *data = g->data;
    bool whole = true;
    for (const unsigned char *p = begin; p < data; p++)
        whole = whole && *p == FILL;
    for (const unsigned char *p = data + g->bytes; p < end; p++)
        whole = whole && *p == FILL;
    munmap(g->map, g->map_bytes);
    *g = (guarded){0};
    return whole;
}

/* xorshift64*, Vigna 2016 */
uint64_t random_bits(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

float random_float(void) {
    return (float)((double)(random_bits() >> 40) / (double)(1 << 23) - 1.0);
}

void fill_floats(float *x, int64_t n, kind k) {
    for (int64_t i = 0; i < n; i++) {
        float v = random_float();
        if (k == CANCELLING) v = (i % 2 == 0 ? 1e6f : -1e6f) + v;
        if (k == TINY) v *= 1e-38f;
        if (k == SPARSE && random_bits() % 8 != 0) v = 0;
        x[i] = v;
    }
}

void fill_halves(uint16_t *x, int64_t n, mk_type type) {
    for (int64_t i = 0; i < n; i++)
        x[i] = type == MK_BF16 ? mk_to_bf16(random_float()) : mk_to_f16(random_float());
}

static void fill_scales(void *data, int64_t n, const mk_qrows *w, float size) {
    for (int64_t i = 0; i < n; i++) {
        float v = random_float() * size;
        if (w->mode == MK_NVFP4)
            ((uint8_t *)data)[i] = (uint8_t)(random_bits() % 127); /* 127 is NaN */
        else if (w->mode != MK_AFFINE)
            ((uint8_t *)data)[i] = (uint8_t)(110 + random_bits() % 30);
        else if (w->type == MK_F32)
            ((float *)data)[i] = v;
        else
            ((uint16_t *)data)[i] = w->type == MK_BF16 ? mk_to_bf16(v) : mk_to_f16(v);
    }
}

static void fill_codes(uint32_t *codes, int64_t n, const mk_qrows *w) {
    for (int64_t i = 0; i < n; i++) {
        codes[i] = (uint32_t)(random_bits() >> 32);
        if (w->mode != MK_MXFP8) continue;
        for (int shift = 0; shift < 32; shift += 8) /* 127 is NaN */
            if (((codes[i] >> shift) & 127u) == 127u) codes[i] ^= 1u << shift;
    }
}

qmatrix qmatrix_new(mk_mode mode, int bits, int group, mk_type type, int64_t n, int64_t k,
                    placement where) {
    qmatrix m = {.n = n};
    m.rows = (mk_qrows){.k = k, .mode = mode, .bits = bits, .group = group, .type = type};
    m.rows.codes_stride = k * bits / 32;
    m.rows.scales_stride = k / group;
    int64_t scales = n * m.rows.scales_stride;
    size_t bytes = (size_t)(scales * (mode == MK_AFFINE ? mk_type_bytes(type) : 1));
    m.codes = guarded_new((size_t)(n * m.rows.codes_stride) * sizeof(uint32_t), where);
    m.scales = guarded_new(bytes, where);
    m.biases = guarded_new(bytes, where);
    fill_codes(m.codes.data, n * m.rows.codes_stride, &m.rows);
    fill_scales(m.scales.data, scales, &m.rows, 0.05f);
    fill_scales(m.biases.data, scales, &m.rows, 0.5f);
    m.rows.codes = m.codes.data;
    m.rows.scales = m.scales.data;
    m.rows.biases = mode == MK_AFFINE ? m.biases.data : NULL;
    return m;
}

bool qmatrix_free(qmatrix *m) {
    bool codes = guarded_free(&m->codes), scales = guarded_free(&m->scales);
    return guarded_free(&m->biases) && codes && scales;
}

static double e4m3(uint32_t b) {
    int exponent = (int)(b >> 3 & 15u), mantissa = (int)(b & 7u);
    double v = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    return (b & 128u) != 0 ? -v : v;
}

static double e2m1(uint32_t c) {
    int exponent = (int)(c >> 1 & 3u), mantissa = (int)(c & 1u);
    double v = exponent == 0 ? 0.5 * mantissa : ldexp(2 + mantissa, exponent - 2);
    return (c & 8u) != 0 ? -v : v;
}

double qmatrix_value(const qmatrix *m, int64_t r, int64_t l, double *size) {
    const mk_qrows *w = &m->rows;
    int64_t first = l * w->bits, last = first + w->bits - 1; /* bits of the row */
    const uint32_t *codes = w->codes + r * w->codes_stride;
    uint64_t words = codes[first / 32] | (uint64_t)codes[last / 32] << 32;
    if (first / 32 == last / 32) words &= UINT32_MAX;
    uint32_t code = (uint32_t)(words >> first % 32) & ((1u << w->bits) - 1);
    int64_t g = r * w->scales_stride + l / w->group;
    if (w->mode == MK_AFFINE) {
        double scaled = (double)mk_load(w->scales, w->type, g) * code;
        double bias = (double)mk_load(w->biases, w->type, g);
        *size = fabs(scaled) + fabs(bias);
        return scaled + bias;
    }
    uint8_t byte = ((const uint8_t *)w->scales)[g];
    double scale = w->mode == MK_NVFP4 ? e4m3(byte) : ldexp(1, byte - 127);
    double value = scale * (w->mode == MK_MXFP8 ? e4m3(code) : e2m1(code));
    *size = fabs(value);
    return value;
}
