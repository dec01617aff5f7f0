/* Steps that attend. */
#include <string.h>

#include "cuda/cuda.h"
#include "graph/attr.h"

enum { Q, K, V, MASK, OFFSET, SINKS, TABLE };
enum { MAX_D = 512, THREADS = 128, LANES = 32 }; /* as kern/attention.cu has them */
enum { MAX_GRID = 65535, MAX_LEFT_BYTES = 64 << 20 };
enum { FEW_QUERIES = 32 }; /* below them, tiles of kern/attention_tiles.cu are mostly empty */

bool mc_cuda_supports_attention(const void *attr, const mc_layout *const *in, int n_in,
                                const mc_layout *out) {
    (void)attr, (void)n_in;
    return in[Q]->shape[3] <= MAX_D && out->shape[3] <= MAX_D && out->shape[1] <= MAX_GRID &&
           out->shape[0] <= MAX_GRID;
}

static void set_mask(const mc_call *call, mc_cuda_attention *a) {
    const mc_layout *mask = call->in[MASK].layout;
    int64_t shape[] = {a->batch, a->heads, a->queries, a->keys};
    mc_layout spread;
    if (!mask) return;
    (void)mc_layout_broadcast(mask, shape, 4, &spread); /* infer checked it */
    memcpy(a->mask_strides, spread.strides, sizeof a->mask_strides);
    a->mask_is_bool = mask->dtype == MICA_BOOL;
}

/* The most heads that a block has, of those that share a head of keys; of one query, so many that
 * kern/attention_row.cu has room for them. */
static int32_t heads_of_block(const mc_cuda_attention *a) {
    int64_t shared = a->heads / a->kv_heads, most = MC_CUDA_ATTENTION_ROWS;
    if (a->queries == 1 && a->d > 0 && most > MC_CUDA_ROW_NUMBERS / a->d)
        most = a->d < MC_CUDA_ROW_NUMBERS ? MC_CUDA_ROW_NUMBERS / a->d : 1;
    int32_t n = (int32_t)(shared < most ? shared : most);
    while (shared % n != 0)
        n--;
    return n;
}

static int64_t parts_of(const mc_cuda_attention *a) {
    return (a->keys + MC_CUDA_PART - 1) / MC_CUDA_PART;
}

/* What blocks leave of all parts. */
static int64_t left_bytes(const mc_cuda_attention *a) {
    return parts_of(a) * a->batch * a->heads * a->queries * (a->dv + 2) * (int64_t)sizeof(float);
}

/* Which rows a block has, and how many blocks share a row's keys. */
static mc_cuda_grid find_grid(const mc_call *call, mc_cuda_attention *a) {
    const mc_cuda_state *state = call->state;
    int64_t shared = a->heads / a->kv_heads, parts = parts_of(a);
    a->shared = heads_of_block(a);
    a->head_groups = (int32_t)(shared / a->shared);
    int64_t queries = MC_CUDA_ATTENTION_ROWS / a->shared;
    a->queries_of_block = (int32_t)(queries < a->queries ? queries : a->queries);
    mc_cuda_grid grid = {.y = a->heads / a->shared, .threads = THREADS};
    grid.x = (a->queries + a->queries_of_block - 1) / a->queries_of_block;
    int64_t rows = grid.x * grid.y * a->batch, wanted = (int64_t)state->multiprocessors * 4;
    int64_t splits = rows < wanted / 2 && rows <= MC_CUDA_DONE ? wanted / rows : 1;
    if (splits > parts) splits = parts;
    if (splits < 1 || splits * a->batch > MAX_GRID || left_bytes(a) > MAX_LEFT_BYTES) splits = 1;
    a->splits = (int32_t)splits;
    grid.z = a->batch * splits;
    return grid;
}

/* Whether n numbers of a key lie side by side, on a multiple of their size. */
static bool is_wide(const mc_operand *x, int64_t n) {
    const mc_layout *l = x->layout;
    bool floats = l->dtype == MICA_F32 || l->dtype == MICA_BF16 || l->dtype == MICA_F16;
    bool even = l->strides[0] % n == 0 && l->strides[1] % n == 0 && l->strides[2] % n == 0;
    return floats && even && x->data && (uintptr_t)x->data % 16 == 0 && l->strides[3] == 1 &&
           l->shape[3] % n == 0;
}

/* Whether kern/attention_row.cu has it: *grid receives its blocks. */
static bool is_row(const mc_call *call, const mc_cuda_attention *a, mc_cuda_grid *grid) {
    *grid = (mc_cuda_grid){.x = (parts_of(a) + MC_CUDA_ROW_PARTS - 1) / MC_CUDA_ROW_PARTS,
                           .y = a->heads / a->shared,
                           .z = a->batch,
                           .threads = MC_CUDA_ROW_PARTS * LANES,
                           .shared_bytes = MC_CUDA_ROW_SHARED};
    bool f32 = call->in[K].layout->dtype == MICA_F32;
    return a->queries == 1 && a->d == a->dv &&
           (a->d == 64 || a->d == 128 || (a->d == 256 && !f32)) &&
           a->shared * a->d <= MC_CUDA_ROW_NUMBERS && a->keys > 0 &&
           grid->y * grid->z <= MC_CUDA_DONE && left_bytes(a) <= MAX_LEFT_BYTES &&
           !call->in[MASK].layout && is_wide(&call->in[K], 4) && is_wide(&call->in[V], 4) &&
           call->in[K].layout->dtype == call->in[V].layout->dtype;
}

/* Whether kern/attention_tiles.cu has it: *grid receives its blocks. */
static bool is_tiled(const mc_call *call, mc_cuda_attention *a, mc_cuda_grid *grid) {
    const mc_cuda_state *state = call->state;
    int64_t shared = a->heads / a->kv_heads, keys = a->d > 128 ? 32 : 64;
    int64_t bytes =
        2 * keys * (4 * a->d + 80); /* two tiles of keys and values, with their pitches */
    if (a->queries < FEW_QUERIES || a->d != a->dv || (a->d != 64 && a->d != 128 && a->d != 256) ||
        shared > MC_CUDA_TILE_ROWS || a->keys < 1 || a->kv_heads > MAX_GRID ||
        call->in[MASK].layout || bytes > state->shared_bytes ||
        call->in[K].layout->dtype != MICA_BF16 || call->in[V].layout->dtype != MICA_BF16 ||
        call->in[Q].layout->dtype != MICA_F32 || call->out.layout->dtype != MICA_F32 ||
        !is_wide(&call->in[Q], 4) || !is_wide(&call->in[K], 8) || !is_wide(&call->in[V], 8))
        return false;
    a->shared = (int32_t)shared;
    a->head_groups = 1;
    a->queries_of_block = (int32_t)(MC_CUDA_TILE_ROWS / shared);
    *grid = (mc_cuda_grid){.x = (a->queries + a->queries_of_block - 1) / a->queries_of_block,
                           .y = a->kv_heads,
                           .z = a->batch,
                           .threads = 2 * MC_CUDA_TILE_ROWS,
                           .shared_bytes = (int)bytes};
    return true;
}

static void set_operands(const mc_call *call, mc_cuda_attention *a) {
    mc_cuda_view *views[] = {&a->q, &a->k, &a->v, &a->mask, &a->offset, &a->sinks, &a->table};
    for (int i = 0; i < call->n_in; i++)
        *views[i] = mc_cuda_view_of(call, &call->in[i]);
    a->out = mc_cuda_view_of(call, &call->out);
    if (call->more) a->lse = mc_cuda_view_of(call, &call->more[0]);
    a->op = (int32_t)call->op;
    a->fault = mc_cuda_fault_of(call);
    a->wide_keys = is_wide(&call->in[K], 4);
    set_mask(call, a);
}

static mica_status attend(const mc_call *call, mc_cuda_attention *a) {
    const mc_cuda_state *state = call->state;
    const mc_attr_sdpa *attr = call->attr;
    const mc_layout *q = call->in[Q].layout, *k = call->in[K].layout;
    a->batch = q->shape[0];
    a->heads = q->shape[1];
    a->queries = q->shape[2];
    a->d = q->shape[3];
    a->dv = call->out.layout->shape[3];
    a->kv_heads = a->entries ? k->shape[0] : k->shape[1];
    a->scale = (float)attr->scale;
    a->softcap = (float)attr->softcap;
    a->causal = attr->causal != 0;
    a->window = attr->window;
    a->keep = attr->keep;
    mc_cuda_grid grid = find_grid(call, a), of_row, of_tiles;
    bool row = is_row(call, a, &of_row), few = a->queries == 1 && left_bytes(a) <= MAX_LEFT_BYTES;
    if (a->splits > 1 || (few && of_row.x > 1)) { /* for either kernel: operands may come later */
        a->left = mc_run_scratch(call->run, (size_t)left_bytes(a));
        if (!a->left) return MICA_ENOMEM;
        a->done = (uint32_t *)(uintptr_t)state->done;
    }
    if (mc_run_is_measured(call->run)) return MICA_OK;
    set_operands(call, a);
    if (is_tiled(call, a, &of_tiles))
        return mc_cuda_start(call, MC_CUDA_ATTENTION_TILES_KERNEL, of_tiles, a);
    return row ? mc_cuda_start(call, MC_CUDA_ATTENTION_ROW_KERNEL, of_row, a)
               : mc_cuda_start(call, MC_CUDA_ATTENTION_KERNEL, grid, a);
}

mica_status mc_cuda_sdpa(const mc_call *call) {
    mc_cuda_attention a = {.keys = call->in[K].layout->shape[2]};
    return attend(call, &a);
}

mica_status mc_cuda_paged_sdpa(const mc_call *call) {
    const mc_layout *k = call->in[K].layout, *table = call->in[TABLE].layout;
    mc_cuda_attention a = {
        .entries = k->shape[2], .blocks = k->shape[1], .keys = k->shape[2] * table->shape[1]};
    return attend(call, &a);
}
