/* Goldens of op/quant.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/golden.h"

static bool run_quantize(golden *g) {
    return mica_quantize(g->s, golden_in(g, "w"), golden_quant_of(g), &g->out[0], &g->out[1],
                         &g->out[2]) == MICA_OK;
}

static bool run_dequantize(golden *g) {
    g->out[0] = mica_dequantize(g->s, golden_in(g, "wq"), golden_in(g, "scales"),
                                golden_in(g, "biases"), golden_quant_of(g), MICA_F32);
    g->by_row = true; /* scale * code may almost cancel the bias */
    return true;
}

/* f32: 1e-5 sqrt(K). MLX sums f16 and bf16 in their own dtype (summing the golden so gives its
 * exact bits), so its error grows with sqrt(K) too. The tolerance is for sums of about 16. */
static void allow_terms(golden *g, int64_t k) {
    g->by_row = true;
    g->relative = 1e-5 * sqrt((double)k);
    g->half_factor = sqrt((double)k / 16);
}

static bool run_quantized_matmul(golden *g) {
    mica_array x = golden_in(g, "x");
    g->out[0] = mica_quantized_matmul(g->s, x, golden_in(g, "wq"), golden_in(g, "scales"),
                                      golden_in(g, "biases"), golden_quant_of(g),
                                      golden_bool(g, "transpose", true));
    allow_terms(g, mica_array_dim(x, -1));
    return true;
}

static bool run_gather_qmm(golden *g) {
    mica_array x = golden_in(g, "x");
    g->out[0] =
        mica_gather_qmm(g->s, x, golden_in(g, "wq"), golden_in(g, "scales"), golden_in(g, "biases"),
                        golden_quant_of(g), golden_bool(g, "transpose", true), golden_in(g, "lhs"),
                        golden_in(g, "rhs"));
    allow_terms(g, mica_array_dim(x, -1));
    return true;
}

/* ---- quantize: scales within 1 ulp, codes exact except at a rounding boundary ---- */

static void *read_all(mica_array x) {
    size_t bytes = (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
    void *data = malloc(bytes + 1);
    assert_non_null(data);
    if (mica_read(x, data, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    return data;
}

/* The bits of a float as an integer that rises with the value. */
static int64_t ordered(const void *data, mica_dtype dtype, int64_t i) {
    if (dtype == MICA_U8) return ((const uint8_t *)data)[i];
    if (dtype != MICA_F32) {
        int bits = ((const uint16_t *)data)[i];
        return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits;
    }
    uint32_t bits = ((const uint32_t *)data)[i];
    return (bits >> 31) != 0 ? -(int64_t)(bits & 0x7fffffffu) : (int64_t)bits;
}

static bool same_scales(const golden *g, int which) {
    mica_dtype dtype = mica_array_dtype(g->want[which]);
    void *got = read_all(g->out[which]), *want = read_all(g->want[which]);
    bool good = true;
    for (int64_t i = 0; i < mica_array_size(g->want[which]) && good; i++) {
        int64_t difference = ordered(got, dtype, i) - ordered(want, dtype, i);
        good = llabs(difference) <= (dtype == MICA_U8 ? 0 : 1);
        if (!good)
            print_error("%s: output %d, element %lld is off by %lld\n", g->name, which,
                        (long long)i, (long long)difference);
    }
    free(got);
    free(want);
    return good;
}

static uint32_t code_at(const uint32_t *words, int bits, int64_t i) {
    int64_t bit = i * bits;
    uint64_t both = words[bit / 32];
    if (bit % 32 + bits > 32) both |= (uint64_t)words[bit / 32 + 1] << 32;
    return (uint32_t)(both >> (bit % 32)) & ((1u << bits) - 1u);
}

/* Affine: how far (w - bias) / scale is from a half, with the golden's scale and bias. */
static double from_half(const float *w, const float *scales, const float *biases, int group,
                        int64_t i) {
    double x = ((double)w[i] - (double)biases[i / group]) / (double)scales[i / group];
    return fabs(fabs(x - rint(x)) - 0.5);
}

static bool same_codes(const golden *g) {
    mica_quant quant = golden_quant_of(g);
    mica_array w32 = mica_astype(g->s, golden_in(g, "w"), MICA_F32);
    bool affine = quant.mode == MICA_QUANT_AFFINE;
    float *w = read_all(w32), *scales = NULL, *biases = NULL;
    if (affine) {
        scales = read_all(mica_astype(g->s, g->want[1], MICA_F32));
        biases = read_all(mica_astype(g->s, g->want[2], MICA_F32));
    }
    uint32_t *got = read_all(g->out[0]), *want = read_all(g->want[0]);
    bool good = true;
    for (int64_t i = 0; i < mica_array_size(w32) && good; i++) {
        int64_t a = code_at(got, quant.bits, i), b = code_at(want, quant.bits, i);
        if (a == b) continue;
        /* A scale rounded to 16 bits moves the rounding boundary. */
        double slack = mica_array_dtype(g->want[1]) == MICA_F32 ? 1e-4 : 0.05;
        good = affine && llabs(a - b) == 1 &&
               from_half(w, scales, biases, quant.group_size, i) < slack;
        if (!good)
            print_error("%s: code %lld of value %.9g is %lld, golden %lld\n", g->name, (long long)i,
                        (double)w[i], (long long)a, (long long)b);
    }
    free(w);
    free(scales);
    free(biases);
    free(got);
    free(want);
    return good;
}

static bool check_quantize(golden *g, int i) {
    if (!mica_valid(g->out[i])) {
        print_error("%s: %s\n", g->name, mica_last_error());
        return false;
    }
    if (mica_array_dtype(g->out[i]) != mica_array_dtype(g->want[i]) ||
        mica_array_size(g->out[i]) != mica_array_size(g->want[i])) {
        print_error("%s: output %d has another dtype or size\n", g->name, i);
        return false;
    }
    return i == 0 ? same_codes(g) : same_scales(g, i);
}

static const golden_row rows[] = {
    {.op = "quantize", .run = run_quantize, .check = check_quantize},
    {.op = "dequantize", .run = run_dequantize},
    {.op = "quantized_matmul", .run = run_quantized_matmul},
    {.op = "gather_qmm", .run = run_gather_qmm},
};
const golden_group golden_quant = {"quant", rows, sizeof rows / sizeof *rows, NULL};
