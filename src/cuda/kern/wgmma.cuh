/* Products by wgmma, of the four warps of a warp group: a [64, 16] of bf16 from registers, b
 * [NT, 16] from shared memory, d [64, NT] of f32. They go on while the warps compute. In PTX for
 * Hopper, or by the emulator.
 *
 * b lies in shared memory as panels of 64 columns: rows of 128 bytes, whose pieces of 16 bytes
 * change places by the row's number (the swizzle of 128 bytes), from a multiple of 1,024 bytes on.
 */
#ifndef CUDA_KERN_WGMMA_CUH
#define CUDA_KERN_WGMMA_CUH

#include "cuda/kern/warp.cuh"

enum { PANEL_ROW = 128 };

/* Where piece `piece` of 16 bytes of a panel's row lies. */
static __device__ inline int swizzled(int row, int piece) {
    return row * PANEL_ROW + ((piece ^ (row & 7)) << 4);
}

/* Whether there are kernels of wgmma: code for other GPUs than Hopper has none. */
#if defined(MICA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

#ifdef MICA_EMULATED

static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int PENDING> static inline void wgmma_wait() {}
template <int N> static inline void wgmma_settle(float *) {}
static inline void share_with_wgmma() {}

template <int NT>
static inline void wgmma_bf16(float *d, const uint32_t *a, const unsigned char *b, int s,
                              bool adds) {
    const uint32_t(*all)[8] = emulated_exchange(a, 4);
    int lane = (int)(threadIdx.x % WARP_LANES), g = lane / 4, t = lane % 4;
    b += s / 4 * NT * PANEL_ROW;
    for (int i = 0; i < NT / 2; i++) {
        int e = i % 4, n = i / 4 * 8 + 2 * t + e % 2;
        float sum = adds ? d[i] : 0.0f;
        for (int q = 0; q < 8; q++) { /* pairs of columns */
            uint32_t x = all[g * 4 + q % 4][q / 4 * 2 + e / 2], y;
            memcpy(&y, b + swizzled(n, s % 4 * 2 + q / 4) + q % 4 * 4, sizeof y);
            sum = fmaf(bf16_to_f32((uint16_t)x), bf16_to_f32((uint16_t)y), sum);
            sum = fmaf(bf16_to_f32((uint16_t)(x >> 16)), bf16_to_f32((uint16_t)(y >> 16)), sum);
        }
        d[i] = sum;
    }
}

#elif HAS_WGMMA

/* Before wgmma reads registers that were written. */
static __device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most PENDING of the groups that were committed last are on their way. */
template <int PENDING> static __device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
/* Keeps what reads d [N] behind the wait before it. */
template <int N> static __device__ inline void wgmma_settle(float *d) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
/* Lets wgmma see what the thread has copied to shared memory. */
static __device__ inline void share_with_wgmma() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The operands of the instructions: d, then a, b and whether it adds. */
#define D_4(d, i) "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3])
#define D_16(d, i) D_4(d, i), D_4(d, i + 4), D_4(d, i + 8), D_4(d, i + 12)
#define D_32(d, i) D_16(d, i), D_16(d, i + 16)
#define D_64(d, i) D_32(d, i), D_32(d, i + 32)
#define D_128(d, i) D_64(d, i), D_64(d, i + 64)
#define NAMES_32                                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                              \
    NAMES_32                                                                                  \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
    "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128                                                                             \
    NAMES_64                                                                                  \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
    "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "   \
    "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "      \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "    \
    "%126, %127"
#define WGMMA(NT, COUNT, A0, A1, A2, A3, B, ADDS)                                           \
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, " ADDS ", 0; "                        \
                 "wgmma.mma_async.sync.aligned.m64n" NT "k16.f32.bf16.bf16 {" NAMES_##COUNT \
                 "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", adds, 1, 1, 0;}"              \
                 : D_##COUNT(d, 0)                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(at), "r"((int)adds))

/* d = a b, to which `adds` adds d. A lane g, t = lane / 4, lane % 4 of a warp w has of a rows
 * 16w + g and 8 further, columns 2t, 2t + 1 (a[0], a[1]) and 8 further (a[2], a[3]); of d the same
 * rows, columns 8j + 2t and 8j + 2t + 1 (d[4j] to d[4j + 3]). b: panels of the slot; s: columns 16s
 * on. */
template <int NT>
static __device__ inline void wgmma_bf16(float *d, const uint32_t *a, const unsigned char *b, int s,
                                         bool adds) {
    uint32_t from = (uint32_t)__cvta_generic_to_shared(b) + s / 4 * NT * PANEL_ROW + s % 4 * 32;
    u64 at = (u64)((from & 0x3ffffu) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    if constexpr (NT == 64)
        WGMMA("64", 32, "%32", "%33", "%34", "%35", "%36", "%37");
    else if constexpr (NT == 128)
        WGMMA("128", 64, "%64", "%65", "%66", "%67", "%68", "%69");
    else
        WGMMA("256", 128, "%128", "%129", "%130", "%131", "%132", "%133");
}

#endif
#endif
