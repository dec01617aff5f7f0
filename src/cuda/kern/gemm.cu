/* Products of many rows of activations, which are rounded to bf16, by wgmma. Weights of 4 bits
 * become bf16 in registers.
 *
 * A block of two warp groups has tiles of the product, 128 rows of a matrix by NT rows of x, in
 * turn. A step is 128 columns: a lane has codes of two rows, t * 32 on of 4 bits, and x comes to
 * shared memory, while the step before is multiplied. Which columns wgmma pairs does not matter to
 * a sum, so x lies in the order that lanes have codes in. A sum takes its columns in one order,
 * whatever NT is and whatever rows are beside it. */
#include "cuda/kern/planes.cuh"
#include "cuda/kern/wgmma.cuh"

namespace gemm {

enum { THREADS = 256, W_ROWS = 128, COLUMNS = 128, SLOTS = 3, QUARTERS = 4 };

/* What weights are: codes of 4 bits with scales of bf16 or of f16, or bf16. */
enum { Q4, Q4_F16, BF16 };

/* ---- activations: a thread has eight columns ---- */

/* Of 128 columns of x the one that lies at i. A lane t has in a quarter of a step eight columns of
 * weights: those of 4 bits lie side by side, those of bf16 in each 32. The first and the fifth are
 * a pair, the second and the sixth ... */
static __device__ inline int column_at(int i, bool is_bf16) {
    int s = i / 16, r = i % 16, far = r / 8, t = r % 8 / 2, second = r % 2;
    int eight = is_bf16 ? s / 2 * 32 + t * 8 : t * 32 + s / 2 * 8;
    return eight + s % 2 * 2 + far + second * 4;
}

static __device__ inline void to_bf16(const mc_cuda_to_planes &a, i64 row, i64 first) {
    i64 block = first / COLUMNS * COLUMNS, stride = a.x.strides[a.ndim];
    i64 at = place(row, a.ndim, a.shape, a.x.strides);
    const void *data = data_of(a.x);
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        i64 k = block + column_at((int)(first - block) + i, a.group == 0);
        x[i] = 0.0f;
        if (k < a.k && row < a.rows_there)
            x[i] = a.x.dtype == MC_CUDA_F32 ? ((const float *)data)[at + k * stride]
                                            : load_f32(a.x.dtype, data, at + k * stride);
    }
    uint4 packed = {f32_to_bf16_pair(x[0], x[1]), f32_to_bf16_pair(x[2], x[3]),
                    f32_to_bf16_pair(x[4], x[5]), f32_to_bf16_pair(x[6], x[7])};
    *(uint4 *)(a.codes + (row * a.padded + first) * 2) = packed;
}

#if HAS_WGMMA

/* ---- weights ---- */

/* What a lane has of rows g and g + 8 of its warp in a step. */
template <int FORMAT> struct lane_weights {
    uint4 codes[2][FORMAT == BF16 ? 4 : 1];
    uint32_t scales[2], biases[2];
};

/* Where these rows are, and the lane's first column of the step that is loaded next. */
typedef struct lane_rows {
    const char *codes, *scales, *biases;
    int code_step, scale_step; /* from g to g + 8, or to what is there: bytes */
    int column;
} lane_rows;

static __device__ inline lane_rows rows_of(const mc_cuda_planes_matmul &a,
                                           const planes::tile_place &p, int first, int column) {
    const mc_cuda_planes_matrix &m = *p.matrix;
    i64 last = m.n - 1, row = p.row + first, next = row + 8;
    row = row < last ? row : last;
    next = next < last ? next : last;
    lane_rows r = {(const char *)m.codes + row * m.code_stride,
                   (const char *)m.scales + row * m.scale_stride * 2,
                   (const char *)m.biases + row * m.scale_stride * 2,
                   (int)((next - row) * m.code_stride),
                   (int)((next - row) * m.scale_stride * 2),
                   column};
    return r;
}

static __device__ inline uint4 load_16(const char *from, bool there) {
    uint4 none = {0, 0, 0, 0};
    return there ? *(const uint4 *)from : none;
}

template <int FORMAT>
static __device__ inline void load_weights(const mc_cuda_planes_matmul &a, lane_rows &r,
                                           lane_weights<FORMAT> &w) {
    int k = r.column;
    r.column += COLUMNS;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if constexpr (FORMAT == BF16) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                w.codes[i][j] =
                    load_16(r.codes + i * r.code_step + (k + j * 32) * 2, k + j * 32 < a.k);
        } else {
            bool there = k < a.k;
            int scale = i * r.scale_step + (there ? k >> a.group_log : 0) * 2;
            w.codes[i][0] = load_16(r.codes + i * r.code_step + k / 2, there);
            w.scales[i] = *(const uint16_t *)(r.scales + scale);
            w.biases[i] = *(const uint16_t *)(r.biases + scale);
        }
    }
    if (FORMAT == BF16 || k < a.k) return;
    w.scales[0] = w.scales[1] = w.biases[0] = w.biases[1] = 0;
}

/* Codes of bits 0 to 3 and 16 to 19 as bf16: s c + b. */
template <int FORMAT>
static __device__ inline uint32_t weights_of_codes(uint32_t word, uint32_t s, uint32_t b) {
#ifdef MICA_EMULATED
    float sf = FORMAT == Q4 ? bf16_to_f32((uint16_t)s) : f16_to_f32((uint16_t)s);
    float bf = FORMAT == Q4 ? bf16_to_f32((uint16_t)b) : f16_to_f32((uint16_t)b);
    return f32_to_bf16(fmaf(sf, (float)(word & 15u), bf)) |
           (uint32_t)f32_to_bf16(fmaf(sf, (float)(word >> 16 & 15u), bf)) << 16;
#else
    uint32_t c, out;
    if constexpr (FORMAT == Q4) { /* 128 + the code, whose last bits are a bf16's */
        asm("lop3.b32 %0, %1, %2, %3, 0xEA;"
            : "=r"(c)
            : "r"(word), "n"(0x000f000f), "r"(0x43004300));
        asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(c), "r"(0x43004300));
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(c), "r"(s), "r"(b));
    } else { /* the same of f16 with 1,024 */
        asm("lop3.b32 %0, %1, %2, %3, 0xEA;"
            : "=r"(c)
            : "r"(word), "n"(0x000f000f), "r"(0x64006400));
        asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(c), "r"(0x64006400));
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(c) : "r"(c), "r"(s), "r"(b));
        out = f32_to_bf16_pair(f16_to_f32((uint16_t)c), f16_to_f32((uint16_t)(c >> 16)));
    }
    return out;
#endif
}

static __device__ inline uint32_t word_of(uint4 v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* What wgmma takes of a quarter of a step: twice 16 columns. */
template <int FORMAT>
static __device__ inline void load_fragments(const lane_weights<FORMAT> &w, int quarter,
                                             uint32_t *to) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t &out = to[j / 2 * 4 + j % 2 * 2 + i];
            if constexpr (FORMAT == BF16)
                out =
                    permute_bytes(word_of(w.codes[i][quarter], j / 2),
                                  word_of(w.codes[i][quarter], j / 2 + 2), j % 2 ? 0x7632 : 0x5410);
            else
                out = weights_of_codes<FORMAT>(word_of(w.codes[i][0], quarter) >> (4 * j),
                                               w.scales[i] * 0x10001u, w.biases[i] * 0x10001u);
        }
}

/* ---- tiles ---- */

/* A tile and a step of it whose x is copied next, and where the thread's first piece of it is. */
typedef struct x_source {
    int tile, step;
    const char *from;
} x_source;

enum { PIECES = COLUMNS * 2 / 16, ROWS_AT_ONCE = THREADS / PIECES };

template <int NT>
static __device__ inline void begin_tile(const mc_cuda_planes_matmul &a, x_source &s, int tile,
                                         int x_tiles) {
    int row = tile % x_tiles * NT + (int)threadIdx.x / PIECES;
    s.tile = tile;
    s.step = 0;
    s.from = (const char *)a.x + row * a.padded * 2 + (int)threadIdx.x % PIECES * 16;
}

/* NT rows of x, as panels; their rows are there. */
template <int NT>
static __device__ inline void fetch_x(const mc_cuda_planes_matmul &a, x_source &s, int steps,
                                      int tiles, int x_tiles, unsigned char *slot) {
    enum { PANEL_PIECES = PANEL_ROW / 16 };
    int piece = (int)threadIdx.x % PIECES, row = (int)threadIdx.x / PIECES;
    const char *from = s.from;
    if (s.tile < tiles) {
        slot += piece / PANEL_PIECES * NT * PANEL_ROW + swizzled(row, piece % PANEL_PIECES);
#pragma unroll
        for (int n = 0; n < NT / ROWS_AT_ONCE; n++) {
            copy_async<16>(slot + n * ROWS_AT_ONCE * PANEL_ROW, from, true);
            from += ROWS_AT_ONCE * a.padded * 2;
        }
    }
    commit_copies();
    s.from += COLUMNS * 2;
    if (++s.step == steps) begin_tile<NT>(a, s, s.tile + (int)gridDim.x, x_tiles);
}

/* What a lane has of a tile: columns of two rows of the matrix. WHOLE: all of it exists. */
template <int NT, bool WHOLE>
static __device__ inline void store_sums(const mc_cuda_planes_matmul &a,
                                         const planes::tile_place &p, int first_w, i64 first_x,
                                         int t, const float *sums) {
    const mc_cuda_planes_matrix &m = *p.matrix;
    i64 rows = m.n - p.row - first_w, x_rows = a.m - first_x - 2 * t;
    float *out = (float *)m.out + (first_x + 2 * t) * m.n + p.row + first_w;
#pragma unroll
    for (int i = 0; i < NT / 2; i++) {
        int row = i / 2 % 2 * 8, x_row = i / 4 * 8 + i % 2;
        if (WHOLE || (row < rows && x_row < x_rows)) out[x_row * m.n + row] = sums[i];
    }
}

template <int NT>
static __device__ inline void store_tile(const mc_cuda_planes_matmul &a,
                                         const planes::tile_place &p, int first_w, i64 first_x,
                                         int t, const float *sums) {
    if (p.row + W_ROWS <= p.matrix->n && first_x + NT <= a.m)
        store_sums<NT, true>(a, p, first_w, first_x, t, sums);
    else
        store_sums<NT, false>(a, p, first_w, first_x, t, sums);
}

template <int FORMAT, int NT> static __device__ inline void run(const mc_cuda_planes_matmul &a) {
    enum { SLOT = NT * COLUMNS * 2 };
    DYNAMIC_SHARED(shared);
    shared += (0 - (uintptr_t)shared) & 1023;
    int lane = (int)threadIdx.x % WARP_LANES, t = lane % 4, slot = 0;
    int first_w = (int)threadIdx.x / WARP_LANES * 16 + lane / 4;
    int first_column = t * (FORMAT == BF16 ? 8 : 32);
    int steps = (int)(a.padded / COLUMNS), x_tiles = (a.m + NT - 1) / NT;
    int tiles = a.tiles * x_tiles, tile = (int)blockIdx.x;
    x_source x;
    begin_tile<NT>(a, x, tile, x_tiles);
    for (int i = 0; i < SLOTS - 1; i++)
        fetch_x<NT>(a, x, steps, tiles, x_tiles, shared + i * SLOT);
    planes::tile_place place = planes::place_of(a, tile / x_tiles, W_ROWS);
    lane_rows rows = rows_of(a, place, first_w, first_column);
    lane_weights<FORMAT> w;
    load_weights<FORMAT>(a, rows, w);
    wait_for_copies(SLOTS - 2);
    share_with_wgmma();
    __syncthreads();
    while (tile < tiles) {
        float sums[NT / 2];
        uint32_t fragments[2][8];
        int next_tile = tile + (int)gridDim.x;
        planes::tile_place next_place = place;
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            lane_weights<FORMAT> next = w;
            if (step + 1 == steps && next_tile < tiles) {
                next_place = planes::place_of(a, next_tile / x_tiles, W_ROWS);
                rows = rows_of(a, next_place, first_w, first_column);
            }
            if (step + 1 < steps || next_tile < tiles) load_weights<FORMAT>(a, rows, next);
#pragma unroll
            for (int q = 0; q < QUARTERS; q++) {
                wgmma_wait<1>();
                if (q == 2) { /* all have multiplied the step before, and copied the next one */
                    wait_for_copies(0);
                    share_with_wgmma();
                    __syncthreads();
                    fetch_x<NT>(a, x, steps, tiles, x_tiles,
                                shared + (slot == 0 ? SLOTS - 1 : slot - 1) * SLOT);
                }
                load_fragments<FORMAT>(w, q, fragments[q % 2]);
                wgmma_fence();
                wgmma_bf16<NT>(sums, fragments[q % 2], shared + slot * SLOT, 2 * q,
                               step > 0 || q > 0);
                wgmma_bf16<NT>(sums, fragments[q % 2] + 4, shared + slot * SLOT, 2 * q + 1, true);
                wgmma_commit();
            }
            slot = slot + 1 == SLOTS ? 0 : slot + 1;
            w = next;
        }
        wgmma_wait<0>();
        wgmma_settle<NT / 2>(sums);
        store_tile<NT>(a, place, first_w, (i64)(tile % x_tiles) * NT, t, sums);
        tile = next_tile;
        place = next_place;
    }
}

#endif

} // namespace gemm

KERNEL(mc_to_bf16, mc_cuda_to_planes) {
    i64 pieces = a.rows * a.padded / 8, step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += step)
        gemm::to_bf16(a, i * 8 / a.padded, i * 8 % a.padded);
}

#if HAS_WGMMA
#define GEMM_RUN(FORMAT, NT) gemm::run<gemm::FORMAT, NT>(a)
#else
#define GEMM_RUN(FORMAT, NT) __trap() /* on others no step starts it */
#endif
#define GEMM_KERNEL(name, FORMAT, NT)             \
    KERNEL_OF(name, mc_cuda_planes_matmul, 256) { \
        GEMM_RUN(FORMAT, NT);                     \
    }
GEMM_KERNEL(mc_gemm_q4_256, Q4, 256)
GEMM_KERNEL(mc_gemm_q4_128, Q4, 128)
GEMM_KERNEL(mc_gemm_q4_64, Q4, 64)
GEMM_KERNEL(mc_gemm_q4_f16_256, Q4_F16, 256)
GEMM_KERNEL(mc_gemm_q4_f16_128, Q4_F16, 128)
GEMM_KERNEL(mc_gemm_q4_f16_64, Q4_F16, 64)
GEMM_KERNEL(mc_gemm_bf16_256, BF16, 256)
GEMM_KERNEL(mc_gemm_bf16_128, BF16, 128)
GEMM_KERNEL(mc_gemm_bf16_64, BF16, 64)
