/* Weights of quantised rows, one at a time. */
#ifndef CUDA_KERN_QUANT_CUH
#define CUDA_KERN_QUANT_CUH

#include "cuda/kern/device.cuh"

static __device__ inline float from_e4m3(uint32_t code) {
    uint32_t exponent = code >> 3 & 15, fraction = code & 7;
    float x = exponent == 0 ? (float)fraction * 0.001953125f /* 2^-9 */
                            : bits_to_f32((exponent + 120) << 23 | fraction << 20);
    if ((code & 0x7f) == 0x7f) x = NAN;
    return code & 0x80 ? -x : x;
}

static __device__ inline float from_e8m0(uint32_t code) {
    if (code == 255) return NAN;
    return bits_to_f32(code == 0 ? 0x00400000u : code << 23);
}

static __device__ inline float from_e2m1(uint32_t code) {
    uint32_t exponent = code >> 1 & 3, fraction = code & 1;
    float x = exponent == 0 ? (float)fraction * 0.5f
                            : bits_to_f32((exponent + 126) << 23 | fraction << 22);
    return code & 8 ? -x : x;
}

/* Code i of a row: its bits may cross a word. */
static __device__ inline uint32_t code_at(const uint32_t *row, int bits, i64 i) {
    i64 at = i * bits;
    int shift = (int)(at & 31);
    u64 word = row[at >> 5];
    if (shift + bits > 32) word |= (u64)row[(at >> 5) + 1] << 32;
    return (uint32_t)(word >> shift) & ((1u << bits) - 1u);
}

/* Weight i of a row, which begins at these elements of codes, scales and biases. */
static __device__ inline float weight_at(const mc_cuda_quant &q, i64 codes, i64 scales, i64 i) {
    uint32_t code = code_at((const uint32_t *)data_of(q.codes) + codes, q.bits, i);
    i64 group = scales + i / q.group;
    switch (q.mode) {
    case MC_CUDA_AFFINE:
        return fmaf(load_f32(q.scales.dtype, data_of(q.scales), group), (float)code,
                    load_f32(q.biases.dtype, data_of(q.biases), group));
    case MC_CUDA_MXFP4:
        return from_e2m1(code) * from_e8m0(((const uint8_t *)data_of(q.scales))[group]);
    case MC_CUDA_MXFP8:
        return from_e4m3(code) * from_e8m0(((const uint8_t *)data_of(q.scales))[group]);
    }
    return from_e2m1(code) * from_e4m3(((const uint8_t *)data_of(q.scales))[group]);
}

#endif
