/* The k largest elements of rows, in order: each block sorts a part of a row, and the one that is
 * done last the best of all parts. */
#include "cuda/kern/device.cuh"

enum { TOPK_KEYS = MC_CUDA_TOPK_PART, TOPK_THREADS = 256 };

/* Keys are in the order of the result when they are in that of numbers, the largest first: NaN
 * before all others, of equal elements the one with the lower index. 0 is behind all of them. */
static __device__ inline u64 key_of(float x, i64 index) {
    uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (x != x) bits = 0xffffffffu;
    return (u64)bits << 32 | (uint32_t) ~(uint32_t)index;
}

static __device__ inline i64 index_of(u64 key) {
    return (i64)(uint32_t) ~(uint32_t)key;
}

/* The largest first: a bitonic sort of n keys, a power of two. */
static __device__ inline void sort_keys(u64 *keys, int n) {
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n / 2; i += TOPK_THREADS) {
                int low = 2 * i - (i & (stride - 1)), high = low + stride;
                bool falls = (low & size) == 0;
                u64 x = keys[low], y = keys[high];
                if (falls == (x < y)) {
                    keys[low] = y;
                    keys[high] = x;
                }
            }
        }
    __syncthreads();
}

static __device__ inline void store_topk(const mc_cuda_topk &a, i64 row, i64 base,
                                         const u64 *keys) {
    for (i64 i = threadIdx.x; i < a.k; i += TOPK_THREADS) {
        i64 index = index_of(keys[i]), to = row * a.k + i;
        copy_item(a.item, a.values.data, to, data_of(a.x), base + index * a.x.strides[a.ndim]);
        ((uint32_t *)a.indices.data)[to] = (uint32_t)index;
    }
}

/* The k best of those that all parts of a row left, [parts * k], first in keys. */
static __device__ inline void join_parts(const mc_cuda_topk &a, i64 row, u64 *keys) {
    const u64 *left = a.left + row * a.parts * a.k;
    i64 n = a.parts * a.k, room = TOPK_KEYS - a.k;
    for (i64 first = 0; first < n; first += room) {
        for (i64 i = threadIdx.x; i < TOPK_KEYS; i += TOPK_THREADS) {
            i64 at = first + i - a.k;
            if (i >= a.k || first == 0)
                keys[i] = i >= a.k && at < n ? __ldcg((const unsigned long long *)left + at) : 0;
        }
        sort_keys(keys, TOPK_KEYS);
    }
}

/* blockIdx: x a part, y a row. */
KERNEL_OF(mc_topk, mc_cuda_topk, TOPK_THREADS) {
    __shared__ u64 keys[TOPK_KEYS];
    __shared__ uint32_t is_last;
    i64 row = blockIdx.y, first = (i64)blockIdx.x * TOPK_KEYS;
    i64 base = place(row, a.ndim, a.shape, a.x.strides);
    int n = 32;
    while (n < TOPK_KEYS && n < a.length)
        n *= 2;
    for (i64 i = threadIdx.x; i < n; i += TOPK_THREADS) {
        i64 at = base + (first + i) * a.x.strides[a.ndim];
        keys[i] =
            first + i < a.length ? key_of(load_f32(a.x.dtype, data_of(a.x), at), first + i) : 0;
    }
    sort_keys(keys, n);
    if (a.parts > 1) {
        u64 *left = a.left + (row * a.parts + blockIdx.x) * a.k;
        for (i64 i = threadIdx.x; i < a.k; i += TOPK_THREADS)
            left[i] = keys[i];
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            is_last = atomicAdd(&a.done[row], 1u) == (uint32_t)a.parts - 1;
            if (is_last) a.done[row] = 0; /* for the next kernel */
        }
        __syncthreads();
        if (!is_last) return;
        __threadfence();
        join_parts(a, row, keys);
    }
    store_topk(a, row, base, keys);
}
