/* Row by row: reductions and softmax, RoPE, q8; and several such ops in a chain. */
#include "cuda/kern/row.cuh"

/* ---- reductions ---- */

static __device__ inline bool is_better(const mc_cuda_reduce &a, bool floats, const mc_cuda_best &x,
                                        const mc_cuda_best &than) {
    bool min = a.kind == MC_CUDA_MIN || a.kind == MC_CUDA_ARGMIN;
    if (x.index < 0) return false;
    if (than.index < 0) return true;
    if (floats && x.number != than.number)
        return min ? x.number < than.number : x.number > than.number;
    if (!floats && x.integer != than.integer) {
        bool less = a.x.dtype == MC_CUDA_U64 ? (u64)x.integer < (u64)than.integer
                                             : x.integer < than.integer;
        return min ? less : !less;
    }
    return x.index < than.index; /* the first of equal ones */
}

/* The place of element i of a row; *base is that of the row. */
static __device__ inline i64 row_place(const mc_cuda_reduce &a, i64 base, i64 i) {
    return base + place(i, a.ndim - a.row_ndim, a.shape + a.row_ndim, a.x.strides + a.row_ndim);
}

/* The better of two, with the NaNs of both. */
static __device__ inline mc_cuda_best better_of(const mc_cuda_reduce &a, bool floats,
                                                const mc_cuda_best &x, const mc_cuda_best &y) {
    mc_cuda_best z = is_better(a, floats, x, y) ? x : y;
    z.nan = x.nan | y.nan;
    return z;
}

/* The best of elements [first, end) of a row, for the first thread. */
static __device__ mc_cuda_best find_best(const mc_cuda_reduce &a, i64 base, i64 first, i64 end,
                                         mc_cuda_best *shared) {
    bool floats = is_float(a.x.dtype);
    mc_cuda_best mine = {0, 0, 0, -1};
    for (i64 i = first + threadIdx.x; i < end; i += blockDim.x) {
        mc_cuda_best x = {0, 0, 0, i};
        i64 at = row_place(a, base, i);
        if (floats)
            x.number = load_f32(a.x.dtype, data_of(a.x), at);
        else
            x.integer = load_i64(a.x.dtype, data_of(a.x), at);
        if (x.number != x.number)
            mine.nan = 1;
        else
            mine = better_of(a, floats, x, mine);
    }
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] =
                better_of(a, floats, shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    return shared[0];
}

static __device__ void store_best(const mc_cuda_reduce &a, i64 row, const mc_cuda_best &b) {
    if (a.kind == MC_CUDA_ARGMAX || a.kind == MC_CUDA_ARGMIN) {
        store_i64(a.out.dtype, a.out.data, row, b.index < 0 ? 0 : b.index);
    } else if (is_float(a.x.dtype)) {
        float none = a.kind == MC_CUDA_MIN ? INFINITY : -INFINITY;
        store_f32(a.out.dtype, a.out.data, row, b.nan ? NAN : b.index < 0 ? none : b.number);
    } else {
        store_i64(a.out.dtype, a.out.data, row, b.integer);
    }
}

static __device__ void reduce_best(const mc_cuda_reduce &a, i64 row, i64 base,
                                   mc_cuda_best *shared) {
    mc_cuda_best b = find_best(a, base, 0, a.length, shared);
    if (threadIdx.x == 0) store_best(a, row, b);
}

/* blockIdx: x a part, y a row. */
KERNEL(mc_best, mc_cuda_reduce) {
    __shared__ mc_cuda_best shared[MAX_THREADS];
    __shared__ uint32_t is_last;
    i64 row = blockIdx.y, part = blockIdx.x, length = (a.length + a.parts - 1) / a.parts;
    i64 first = part * length, end = first + length < a.length ? first + length : a.length;
    i64 base = place(row, a.row_ndim, a.shape, a.x.strides);
    mc_cuda_best b = find_best(a, base, first, end, shared);
    if (threadIdx.x == 0) {
        a.left[row * a.parts + part] = b;
        __threadfence();
        is_last = atomicAdd(&a.done[row], 1u) == (uint32_t)a.parts - 1;
        if (is_last) a.done[row] = 0; /* for the next kernel */
        __threadfence();
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 0) return;
    for (i64 i = 0; i < a.parts; i++) {
        volatile mc_cuda_best *left = &a.left[row * a.parts + i];
        mc_cuda_best x = {left->number, left->nan, left->integer, left->index};
        b = i == 0 ? x : better_of(a, is_float(a.x.dtype), x, b);
    }
    store_best(a, row, b);
}

static __device__ void reduce_integers(const mc_cuda_reduce &a, i64 row, i64 base, i64 *shared) {
    bool product = a.kind == MC_CUDA_PROD, truth = a.kind == MC_CUDA_ALL || a.kind == MC_CUDA_ANY;
    u64 mine = product ? 1 : 0;
    bool floats = is_float(a.x.dtype);
    for (i64 i = threadIdx.x; i < a.length; i += blockDim.x) {
        i64 at = row_place(a, base, i);
        u64 x = truth && floats ? load_f32(a.x.dtype, data_of(a.x), at) != 0.0f
                                : (u64)load_i64(a.x.dtype, data_of(a.x), at);
        if (truth)
            mine += (x != 0) == (a.kind == MC_CUDA_ANY); /* zeros for all, others for any */
        else
            mine = product ? mine * x : mine + x;
    }
    shared[threadIdx.x] = (i64)mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            u64 x = (u64)shared[threadIdx.x], y = (u64)shared[threadIdx.x + half];
            shared[threadIdx.x] = (i64)(product ? x * y : x + y);
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    i64 found = shared[0];
    if (truth) found = (found != 0) == (a.kind == MC_CUDA_ANY);
    store_i64(a.out.dtype, a.out.data, row, found);
}

/* The largest of a row, ignoring NaN; -infinity if there is no number. */
static __device__ float row_max(const mc_cuda_reduce &a, i64 base, float *shared) {
    float max = -INFINITY;
    for (i64 i = threadIdx.x; i < a.length; i += blockDim.x) {
        float x = load_f32(a.x.dtype, data_of(a.x), row_place(a, base, i));
        max = x > max ? x : max;
    }
    shared[threadIdx.x] = max;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x])
            shared[threadIdx.x] = shared[threadIdx.x + half];
        __syncthreads();
    }
    max = shared[0];
    __syncthreads();
    return max;
}

/* The sum of a row's exponentials, less what is subtracted from each: the largest, but infinity for
 * a sum's logarithm. */
static __device__ double sum_exponentials(const mc_cuda_reduce &a, i64 base, double *shared,
                                          float *less) {
    float max = row_max(a, base, (float *)shared);
    float shift = a.kind == MC_CUDA_LOGSUMEXP && fabsf(max) == INFINITY ? 0 : max;
    double sum = 0;
    for (i64 i = threadIdx.x; i < a.length; i += blockDim.x)
        sum += (double)expf(load_f32(a.x.dtype, data_of(a.x), row_place(a, base, i)) - shift);
    *less = shift;
    return sum_over_block(sum, shared);
}

static __device__ void reduce_exponentials(const mc_cuda_reduce &a, i64 row, i64 base,
                                           double *shared) {
    float shift;
    double sum = sum_exponentials(a, base, shared, &shift);
    if (a.kind == MC_CUDA_LOGSUMEXP) {
        if (threadIdx.x == 0)
            store_f32(a.out.dtype, a.out.data, row, (float)(log(sum) + (double)shift));
        return;
    }
    float scale = (float)(1.0 / sum);
    for (i64 i = threadIdx.x; i < a.length; i += blockDim.x) {
        float x = load_f32(a.x.dtype, data_of(a.x), row_place(a, base, i));
        store_f32(a.out.dtype, a.out.data, row * a.length + i, expf(x - shift) * scale);
    }
}

static __device__ void reduce_floats(const mc_cuda_reduce &a, i64 row, i64 base, double *shared) {
    bool product = a.kind == MC_CUDA_PROD;
    double mine = product ? 1 : 0;
    for (i64 i = threadIdx.x; i < a.length; i += blockDim.x) {
        double x = (double)load_f32(a.x.dtype, data_of(a.x), row_place(a, base, i));
        mine = product ? mine * x : mine + x;
    }
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            double x = shared[threadIdx.x], y = shared[threadIdx.x + half];
            shared[threadIdx.x] = product ? x * y : x + y;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) store_f32(a.out.dtype, a.out.data, row, (float)shared[0]);
}

KERNEL(mc_reduce, mc_cuda_reduce) {
    __shared__ mc_cuda_best bests[MAX_THREADS];
    void *shared = bests; /* of one use at a time */
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        i64 base = place(row, a.row_ndim, a.shape, a.x.strides);
        if (a.kind == MC_CUDA_LOGSUMEXP || a.kind == MC_CUDA_SOFTMAX)
            reduce_exponentials(a, row, base, (double *)shared);
        else if (a.kind == MC_CUDA_MAX || a.kind == MC_CUDA_MIN || a.kind == MC_CUDA_ARGMAX ||
                 a.kind == MC_CUDA_ARGMIN)
            reduce_best(a, row, base, bests);
        else if (is_float(a.x.dtype) && a.kind != MC_CUDA_ALL && a.kind != MC_CUDA_ANY)
            reduce_floats(a, row, base, (double *)shared);
        else
            reduce_integers(a, row, base, (i64 *)shared);
        __syncthreads();
    }
}

/* A block a row. The target's logit is read before the result may take its memory. */
KERNEL(mc_cross_entropy, mc_cuda_loss) {
    __shared__ double shared[MAX_THREADS];
    const mc_cuda_reduce &l = a.logits;
    for (i64 row = blockIdx.x; row < l.rows; row += gridDim.x) {
        i64 base = place(row, l.row_ndim, l.shape, l.x.strides);
        i64 at = place(row, l.row_ndim, l.shape, a.targets.strides);
        i64 target = resolve(a.targets, at, l.length, a.op, a.axis, a.fault);
        if (target < 0) return;
        float logit = load_f32(l.x.dtype, data_of(l.x), row_place(l, base, target)), shift;
        double sum = sum_exponentials(l, base, shared, &shift);
        if (!a.dy.is_there) {
            double loss = log(sum) + (double)shift - (double)logit;
            if (threadIdx.x == 0) store_f32(l.out.dtype, l.out.data, row, (float)loss);
            continue;
        }
        float dy =
            load_f32(a.dy.dtype, data_of(a.dy), place(row, l.row_ndim, l.shape, a.dy.strides));
        float scale = (float)((double)dy / sum);
        for (i64 i = threadIdx.x; i < l.length; i += blockDim.x) {
            float x = load_f32(l.x.dtype, data_of(l.x), row_place(l, base, i));
            float y = expf((i == target ? logit : x) - shift) * scale;
            store_f32(l.out.dtype, l.out.data, row * l.length + i, i == target ? y - dy : y);
        }
    }
}

/* ---- ops of row.cuh ---- */

KERNEL(mc_rope, mc_cuda_rope) {
    i64 warps = blockDim.x / ROW_LANES, first = blockIdx.x * warps, stride = gridDim.x * warps;
    for (i64 row = first + threadIdx.x / ROW_LANES; row < a.rows; row += stride)
        rotate_row(a, row);
}

KERNEL(mc_q8, mc_cuda_q8) {
    i64 each = a.narrows ? (a.d + 31) / 32 : a.d;
    FOR_ELEMENTS(i, a.rows * each) convert_q8(a, i / each, i % each);
}

/* ---- chains ---- */

/* Row `row` of a stage's, unit u of it: its number among all. */
static __device__ inline i64 number_of(const mc_cuda_chain &a, const mc_cuda_stage &s, i64 row,
                                       i64 u) {
    if (s.outer == 1) return row * s.inner + u;
    return (u / s.inner * a.rows + row) * s.inner + u % s.inner;
}

/* A row of one op, by the block. */
static __device__ inline void run_stage(const mc_cuda_chain &a, const mc_cuda_stage &s, i64 row,
                                        int turns, double (*partial)[ROW_LANES], int *use) {
    i64 n = s.outer * s.inner, from;
    int thread = ((int)threadIdx.x + ROW_THREADS - turns * ROW_LANES % ROW_THREADS) % ROW_THREADS;
    switch (s.kind) {
    case MC_CUDA_ELEMENT_STAGE:
        for (i64 u = thread; u < n; u += ROW_THREADS) {
            float last = 0;
            run_element(s.as.elements, number_of(a, s, row, u), &last);
        }
        break;
    case MC_CUDA_COPY_STAGE:
        if (!find_start(s.as.copy, &from)) break;
        for (i64 u = thread; u < n; u += ROW_THREADS)
            copy_element(s.as.copy, from, number_of(a, s, row, u));
        break;
    case MC_CUDA_KV_WRITE_STAGE:
        for (i64 u = thread; u < n; u += ROW_THREADS)
            write_kv(s.as.kv_write, number_of(a, s, row, u));
        break;
    case MC_CUDA_NORM_STAGE:
        if (s.as.norm.d > WARP_ROW) {
            for (i64 u = 0; u < n; u++)
                norm_by_block(s.as.norm, number_of(a, s, row, u), partial, use);
        } else {
            FOR_ROWS_OF_WARPS(u, n, turns) norm_by_warp(s.as.norm, number_of(a, s, row, u));
        }
        break;
    case MC_CUDA_ROPE_STAGE:
        FOR_ROWS_OF_WARPS(u, n, turns) rotate_row(s.as.rope, number_of(a, s, row, u));
        break;
    case MC_CUDA_Q8_STAGE:
        FOR_ROWS_OF_WARPS(u, n, turns) {
            i64 each = s.as.q8.narrows ? (s.as.q8.d + 31) / 32 : s.as.q8.d;
            for (i64 j = threadIdx.x % ROW_LANES; j < each; j += ROW_LANES)
                convert_q8(s.as.q8, number_of(a, s, row, u), j);
        }
        break;
    }
}

/* A block takes a row through all ops, and waits where one reads what another one wrote. */
KERNEL_OF(mc_chain, mc_cuda_chain, ROW_THREADS) {
    __shared__ mc_cuda_chain c;
    __shared__ double partial[2][ROW_LANES];
    int use = 0;
    take_args(c, a, offsetof(mc_cuda_chain, stages) + a.n * sizeof(mc_cuda_stage));
    for (i64 row = blockIdx.x; row < c.rows; row += gridDim.x) {
        int turns = 0;
        for (int k = 0; k < c.n; k++) {
            const mc_cuda_stage &s = c.stages[k];
            if (s.waits) {
                __syncthreads();
                turns = 0;
            }
            run_stage(c, s, row, turns, partial, &use);
            turns += s.warps;
        }
    }
}
