/* What the threads of a warp do together: products of small matrices on tensor cores, copies to
 * shared memory that go on while the warp computes. In PTX, or, where kernels run on the processor,
 * by what the emulator lets the lanes of a warp exchange. */
#ifndef CUDA_KERN_WARP_CUH
#define CUDA_KERN_WARP_CUH

#include "cuda/kern/device.cuh"

enum { WARP_LANES = 32 };

/* Of blocks of one axis. */
static __device__ inline int lane_of_warp() {
    return (int)threadIdx.x % WARP_LANES;
}
static __device__ inline int warp_of_block() {
    return (int)threadIdx.x / WARP_LANES;
}
static __device__ inline int warps_of_block() {
    return (int)blockDim.x / WARP_LANES;
}

/* A sum of integers that begins with these bits is, below 2^22, a float: 1.5 * 2^23 + the sum. */
enum { MAGIC_BITS = 0x4b400000 };

static __device__ inline float magic_sum(int32_t bits) {
    return bits_to_f32((uint32_t)bits) - 12582912.0f;
}

#ifdef MICA_EMULATED

extern unsigned char emulated_shared[];
#define DYNAMIC_SHARED(name) unsigned char *name = emulated_shared

static inline void sync_warp() {
    emulated_sync_warp();
}

/* Copies WIDTH bytes, or zeros. */
template <int WIDTH> static inline void copy_async(void *to, const void *from, bool there) {
    if (there)
        memcpy(to, from, WIDTH);
    else
        memset(to, 0, WIDTH);
}
/* The first `bytes` of a word, and zeros. */
static inline void copy_word_async(void *to, const void *from, int bytes) {
    memset(to, 0, 4);
    memcpy(to, from, (size_t)bytes);
}
static inline void commit_copies() {}
static inline void wait_for_copies(int) {}

static inline int32_t dot4(uint32_t u, uint32_t s) {
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (int32_t)(u >> i & 255u) * (int32_t)(int8_t)(s >> i);
    return sum;
}

static inline void mma_u8_s8(int32_t *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                             uint32_t b0, uint32_t b1) {
    const uint32_t mine[6] = {a0, a1, a2, a3, b0, b1};
    const uint32_t(*all)[8] = emulated_exchange(mine, 6);
    int lane = (int)(threadIdx.x % WARP_LANES), g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; e++)
        for (int q = 0; q < 4; q++) {
            const uint32_t *a = all[g * 4 + q], *b = all[(2 * t + e % 2) * 4 + q];
            d[e] += dot4(a[e / 2], b[4]) + dot4(a[2 + e / 2], b[5]);
        }
}

static inline void mma_bf16(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                            uint32_t b0, uint32_t b1) {
    const uint32_t mine[6] = {a0, a1, a2, a3, b0, b1};
    const uint32_t(*all)[8] = emulated_exchange(mine, 6);
    int lane = (int)(threadIdx.x % WARP_LANES), g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; e++)
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < 4; q++) {
                uint32_t a = all[g * 4 + q][half * 2 + e / 2];
                uint32_t b = all[(2 * t + e % 2) * 4 + q][4 + half];
                d[e] = fmaf(bf16_to_f32((uint16_t)a), bf16_to_f32((uint16_t)b), d[e]);
                d[e] =
                    fmaf(bf16_to_f32((uint16_t)(a >> 16)), bf16_to_f32((uint16_t)(b >> 16)), d[e]);
            }
}

static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = selector >> (4 * i) & 15u, byte = (uint32_t)(both >> (8 * (s & 7u))) & 255u;
        if (s & 8u) byte = byte & 128u ? 255u : 0u;
        out |= byte << (8 * i);
    }
    return out;
}

static inline uint32_t shuffle_max(uint32_t x, int other) {
    uint32_t y = emulated_exchange(&x, 1)[threadIdx.x % WARP_LANES ^ (unsigned)other][0];
    return x > y ? x : y;
}
static inline int32_t shuffle_sum(int32_t x, int other) {
    uint32_t bits = (uint32_t)x;
    return x + (int32_t)emulated_exchange(&bits, 1)[threadIdx.x % WARP_LANES ^ (unsigned)other][0];
}

#else

#define DYNAMIC_SHARED(name)                                       \
    extern __shared__ __align__(128) unsigned char shared_bytes[]; \
    unsigned char *name = shared_bytes

static __device__ inline void sync_warp() {
    __syncwarp();
}

template <int WIDTH>
static __device__ inline void copy_async(void *to, const void *from, bool there) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    int bytes = there ? WIDTH : 0; /* the rest of WIDTH becomes 0 */
    if (WIDTH == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                     "n"(WIDTH), "r"(bytes)
                     : "memory");
}
/* The first `bytes` of a word, and zeros. */
static __device__ inline void copy_word_async(void *to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}
static __device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until at most `pending` of the groups that were committed last are on their way. */
static __device__ inline void wait_for_copies(int pending) {
    switch (pending) {
    case 0:
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        break;
    case 1:
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        break;
    case 2:
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        break;
    case 3:
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        break;
    case 4:
        asm volatile("cp.async.wait_group 4;" ::: "memory");
        break;
    default:
        asm volatile("cp.async.wait_group 5;" ::: "memory");
    }
}

/* d [16, 8] += a [16, 32] of u8 times b [32, 8] of s8: a lane g, t = lane / 4, lane % 4 has rows g
 * and g + 8, columns 2t and 2t + 1 of d; bytes 4t and 16 + 4t on of a's rows g, g + 8, of b's
 * column g. */
static __device__ inline void mma_u8_s8(int32_t *d, uint32_t a0, uint32_t a1, uint32_t a2,
                                        uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* The same of bf16, a [16, 16] and b [16, 8]: pairs instead of four bytes. */
static __device__ inline void mma_bf16(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                       uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Not __byte_perm, which drops bit 3 of what selects a byte: there it spreads the byte's sign. */
static __device__ inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(selector));
    return out;
}

/* x and that of the lane whose number differs by the bits of `other`. */
static __device__ inline uint32_t shuffle_max(uint32_t x, int other) {
    uint32_t y = __shfl_xor_sync(0xffffffffu, x, other);
    return x > y ? x : y;
}
static __device__ inline int32_t shuffle_sum(int32_t x, int other) {
    return x + __shfl_xor_sync(0xffffffffu, x, other);
}

#endif
#endif
