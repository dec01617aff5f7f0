/* Steps that attend. */
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kern/attention_back.h"
#include "cuda/kern/attention_row.h"
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
                           .shared_bytes = MC_CUDA_ROW_SHARED + (int)sizeof(mc_cuda_attention_row)};
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

/* Whether all keys and values but those of the query's own position were there before the launch,
 * and so was that: one step at most writes to each cache. */
static bool has_keys(const mc_call *call, const mc_cuda_attention *a) {
    const mc_operand *offset = &call->in[OFFSET];
    return a->entries == 0 && a->causal && call->n_in > OFFSET && offset->layout &&
           (mc_run_is_number(call->run, offset) || mc_run_is_given(call, OFFSET)) &&
           mc_run_writers(call, K) <= 1 && mc_run_writers(call, V) <= 1;
}

static void set_sizes(const mc_call *call, mc_cuda_attention *a) {
    const mc_attr_sdpa *attr = call->attr;
    const mc_layout *q = call->in[Q].layout, *k = call->in[K].layout;
    a->batch = q->shape[0];
    a->heads = q->shape[1];
    a->queries = q->shape[2];
    a->d = q->shape[3];
    a->dv = call->out.layout->shape[3]; /* dq has as many as dv */
    a->kv_heads = a->entries ? k->shape[0] : k->shape[1];
    a->scale = (float)attr->scale;
    a->softcap = (float)attr->softcap;
    a->causal = attr->causal != 0;
    a->window = attr->window;
    a->keep = attr->keep;
}

static mica_status attend(const mc_call *call, mc_cuda_attention *a) {
    const mc_cuda_state *state = call->state;
    set_sizes(call, a);
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
    if (!row) return mc_cuda_start(call, MC_CUDA_ATTENTION_KERNEL, grid, a);
    mc_cuda_attention_row of_token = {.attention = *a, .has_keys = has_keys(call, a)};
    return mc_cuda_start(call, MC_CUDA_ATTENTION_ROW_KERNEL, of_row, &of_token);
}

/* ---- training in fast arithmetic: keys and values of f32 are rounded ---- */

static mica_status round_to(const mc_call *call, const mc_operand *x, mc_operand to) {
    mc_call cast = *call;
    cast.op = MC_OP_ASTYPE;
    cast.n_in = 1;
    cast.in = x;
    cast.out = to;
    return mc_cuda_run_elements(&cast);
}

/* Whether kern/attention_tiles.cu has it, then: *done. Takes scratch. */
static mica_status attend_rounded(const mc_call *call, bool *done) {
    mc_cuda_attention a = {.keys = call->in[K].layout->shape[2]};
    mc_cuda_grid grid;
    mc_layout layouts[2];
    mc_operand in[SINKS + 1] = {0};
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        layouts[i] = *call->in[K + i].layout;
        layouts[i].dtype = MICA_BF16;
        mc_layout_set_dense(&layouts[i]);
        bytes[i] = ((size_t)mc_layout_bytes(&layouts[i]) + 63) / 64 * 64;
    }
    char *to = mc_run_scratch(call->run, bytes[0] + bytes[1]);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (!to) return MICA_ENOMEM;
    memcpy(in, call->in, (size_t)call->n_in * sizeof *in);
    for (int i = 0; i < 2; i++)
        in[K + i] = (mc_operand){.layout = &layouts[i], .data = to + (i ? bytes[0] : 0)};
    mc_call rounded = *call;
    rounded.in = in;
    set_sizes(&rounded, &a);
    set_operands(&rounded, &a);
    if (!is_tiled(&rounded, &a, &grid)) return MICA_OK;
    *done = true;
    for (int i = K; i <= V; i++)
        MC_TRY(round_to(call, &call->in[i], in[i]));
    return mc_cuda_start(call, MC_CUDA_ATTENTION_TILES_KERNEL, grid, &a);
}

mica_status mc_cuda_sdpa(const mc_call *call) {
    mc_cuda_attention a = {.keys = call->in[K].layout->shape[2]};
    bool done = false;
    if (mc_run_trains(call->run) && call->in[K].layout->dtype == MICA_F32 &&
        call->in[V].layout->dtype == MICA_F32)
        MC_TRY(attend_rounded(call, &done));
    return done ? MICA_OK : attend(call, &a);
}

mica_status mc_cuda_paged_sdpa(const mc_call *call) {
    const mc_layout *k = call->in[K].layout, *table = call->in[TABLE].layout;
    mc_cuda_attention a = {
        .entries = k->shape[2], .blocks = k->shape[1], .keys = k->shape[2] * table->shape[1]};
    return attend(call, &a);
}

/* ---- the gradient ---- */

enum { DY = SINKS + 1, MOST_D = 128 };

static bool is_f32(const mc_layout *l) {
    return l->dtype == MICA_F32;
}

bool mc_cuda_supports_sdpa_gradient(const void *attr, const mc_layout *const *in, int n_in,
                                    const mc_layout *out) {
    const mc_layout *q = in[Q], *k = in[K];
    bool sizes = q->shape[3] == in[V]->shape[3] && q->shape[3] > 0 && q->shape[3] <= MOST_D &&
                 q->shape[0] <= MAX_GRID && q->shape[1] <= MAX_GRID && q->shape[2] > 0 &&
                 k->shape[2] > 0;
    (void)attr, (void)n_in, (void)out;
    return sizes && !in[MASK] && is_f32(q) && is_f32(k) && is_f32(in[V]) && is_f32(in[DY]);
}

/* terms: that numbers are split into; d: that rows have room for. */
static mc_cuda_grid rows_grid(const mc_cuda_attention *a, int64_t rows, int64_t heads, int terms,
                              int d) {
    int own = MC_CUDA_BACK_OWN(terms), others = MC_CUDA_BACK_OTHERS(terms);
    int of_others = others * 2 * (int)sizeof(float);
    return (mc_cuda_grid){.x = (rows + own - 1) / own,
                          .y = heads,
                          .z = a->batch,
                          .threads = 2 * own,
                          .shared_bytes =
                              2 * terms * (own + others) * MC_CUDA_BACK_PITCH(d) + of_others};
}

/* Numbers are split but where a step trains in fast arithmetic. */
mica_status mc_cuda_sdpa_gradient(const mc_call *call) {
    static const mc_cuda_kernel kernels[2][2][2] = {
        {{MC_CUDA_ATTENTION_DQ_64_EXACT_KERNEL, MC_CUDA_ATTENTION_DKV_64_EXACT_KERNEL},
         {MC_CUDA_ATTENTION_DQ_128_EXACT_KERNEL, MC_CUDA_ATTENTION_DKV_128_EXACT_KERNEL}},
        {{MC_CUDA_ATTENTION_DQ_64_KERNEL, MC_CUDA_ATTENTION_DKV_64_KERNEL},
         {MC_CUDA_ATTENTION_DQ_128_KERNEL, MC_CUDA_ATTENTION_DKV_128_KERNEL}}};
    mc_cuda_attention_back a = {.attention = {.keys = call->in[K].layout->shape[2]}};
    mc_cuda_attention *o = &a.attention;
    set_sizes(call, o);
    int64_t rows = o->batch * o->heads * o->queries;
    a.rows = mc_run_scratch(call->run, (size_t)rows * 2 * sizeof *a.rows);
    if (mc_run_is_measured(call->run)) return MICA_OK;
    if (!a.rows) return MICA_ENOMEM;
    mc_cuda_view *views[] = {&o->q, &o->k, &o->v, &o->mask, &o->offset, &o->sinks, &a.dy, &a.dlse};
    for (int i = 0; i < call->n_in; i++)
        *views[i] = mc_cuda_view_of(call, &call->in[i]);
    a.dq = call->out.data;
    a.dk = call->more[0].data;
    a.dv = call->more[1].data;
    int wide = o->d > 64, fast = mc_run_trains(call->run), terms = fast ? 1 : 3;
    int d = wide ? 128 : 64;
    const mc_cuda_kernel *pair = kernels[fast][wide];
    MC_TRY(mc_cuda_start(call, pair[0], rows_grid(o, o->queries, o->heads, terms, d), &a));
    return mc_cuda_start(call, pair[1], rows_grid(o, o->keys, o->kv_heads, terms, d), &a);
}
